"""Roles and rings at stage=team: hand-written kernels are right under every interleaving, and every slip in them is caught."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flat_kernels import fault, run

from vxc.diag import VxcError
from vxc.interp.flat_interp import run_flat
from vxc.interp.flat_roles import alike
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.ir.walk import Regions
from vxc.source import Source

FOLDER = Path(__file__).parent / "ir"
RING, PERSISTENT = ((FOLDER / name).read_text("utf-8") for name in ("ring.vxir", "ring_persistent.vxir"))
SEEDS = range(5)
TRIPS = (0, 1, 2, 3, 7)


def plan(text: str):
    return read_ir(Source("ring.vxir", text))


def whole(*shape: int) -> np.ndarray:
    """Small whole numbers, so that sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(np.float32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tiles", TRIPS)
def test_a_producer_and_two_consumers(tiles, seed):
    x = whole(4, tiles, 64)
    np.testing.assert_array_equal(run(plan(RING), {"x": x}, seed=seed)["y"], x.reshape(4, tiles, 2, 32).sum(axis=(1, 3)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("blocks", (1, 2, 3, 11))
def test_uses_count_on_through_a_persistent_loop(blocks, seed):
    count = np.array([*TRIPS, *TRIPS[::-1]])
    x = whole(count.size, 7, 32)
    want = [x[t, :n].sum() for t, n in enumerate(count)]
    np.testing.assert_array_equal(run(plan(PERSISTENT), {"count": count, "x": x}, {"G": blocks}, seed=seed)["y"], want)


def test_blocks_run_together_only_where_they_use_rings_alike():
    assert [alike(Regions.of(plan(text).kernels[0].insts)) for text in (RING, PERSISTENT)] == [True, False]
    by_block = RING.replace("%n = loop 0, %K", "%late: bool = lt %b, %K\n%first: i64 = cast %late\n%n = loop %first, %K")
    in_branch = RING.replace("acquire @r, %n\n", "%late: bool = lt %b, %K\nif %late\nacquire @r, %n\nend\n")
    assert [alike(Regions.of(plan(text).kernels[0].insts)) for text in (by_block, in_branch)] == [False, False]


@pytest.mark.parametrize("text", [RING, PERSISTENT])
def test_the_text_reads_back(text):
    printed = print_plan(plan(text))
    assert printed == text.partition("\n")[2]


# ---- slips -----------------------------------------------------------------------------------------------------------


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


ACQUIRE, COMMIT, WAIT, RELEASE = "acquire @r, %n\n", "commit @r, %n\n", "wait @r, %n.1\n", "release @r, %n.1\n"
NEXT = "%next: i64 = add %n.1, 1\n"
RACE, UNWRITTEN, DEADLOCK, TURN, LEFT = "E0725", "E0721", "E0727", "E0732", "E0733"

# What is edited in ring.vxir, and what may be said: a read that comes too early finds a race or, when it is first, nothing.
SLIPS = {
    "missing acquire": ([(ACQUIRE, "")], {TURN}),
    "late acquire": ([(ACQUIRE, ""), (COMMIT, ACQUIRE + COMMIT)], {RACE}),
    "missing commit": ([(COMMIT, "")], {DEADLOCK}),
    "early commit": ([(COMMIT, ""), (ACQUIRE, ACQUIRE + COMMIT)], {RACE, UNWRITTEN}),
    "commit twice": ([(COMMIT, COMMIT * 2)], {TURN}),
    "missing wait": ([(WAIT, "")], {RACE, UNWRITTEN}),
    "late wait": ([(WAIT, ""), (RELEASE, WAIT + RELEASE)], {RACE, UNWRITTEN}),
    "missing release": ([(RELEASE, "")], {DEADLOCK}),
    "early release": ([(RELEASE, ""), (WAIT, WAIT + RELEASE)], {RACE}),
    "release of a use not waited for": ([(WAIT, RELEASE + WAIT), (f"end %e\n        {RELEASE}", "end %e\n")], {TURN}),
    "release twice": ([(RELEASE, RELEASE * 2)], {TURN}),
    "wrong parity": ([(WAIT, f"{NEXT}wait @r, %next\n")], {TURN}),
    "wrong slot": ([("%slot.1: i64 = mod %n.1, 3", f"{NEXT}%slot.1: i64 = mod %next, 3")], {RACE, UNWRITTEN}),
    "slot of another ring size": ([("ring @r: i64 {stages=3}", "ring @r: i64 {stages=4}")], {RACE}),
    "one tile too few produced": ([("%n = loop 0, %K", "%less: i64 = sub %K, 1\n%n = loop 0, %less")], {DEADLOCK}),
    "one tile too few consumed": ([("%n.1 = loop 0, %K", "%less: i64 = sub %K, 1\n%n.1 = loop 0, %less")], {LEFT}),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("slip", SLIPS)
def test_every_slip_is_caught(slip, seed):
    edits, codes = SLIPS[slip]
    code, _ = fault(plan(edited(RING, *edits)), {"x": whole(2, 7, 64)}, seed=seed)
    assert code in codes


@pytest.mark.parametrize("slip, message", [
    ("missing release", "deadlock: role producer waits for role low to release use 0 of @r; role low waits for role producer to commit "
     "use 3 of @r; role high waits for role producer to commit use 3 of @r (at b=0, role producer)"),
    ("early release", "roles low and producer of iteration 0 access, and one writes, `tile[0, 0]` with nothing to order the two"),
    ("wrong parity", "`wait` of use 1 of @r where use 0 is next (at b=0, role low)"),
    ("missing acquire", "`commit` of use 0 of @r without `acquire` (at b=0, role producer)"),
    ("one tile too few consumed", "@r has had 7 uses, but role low did `wait` of 6 of them (at b=0)"),
])  # fmt: skip
def test_what_is_said(slip, message):
    edits, _ = SLIPS[slip]
    assert fault(plan(edited(RING, *edits)), {"x": whole(2, 7, 64)})[1] == message


def test_a_release_that_is_missing_is_seen_in_a_short_run_too():
    assert fault(plan(edited(RING, (RELEASE, ""))), {"x": whole(1, 2, 64)}) == (
        LEFT, "@r has had 2 uses, but role low did `release` of 0 of them (at b=0)",
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_a_counter_that_starts_again_with_each_task(seed):
    text = edited(PERSISTENT, ("      store @reads, 0\n", ""), ("cell @sum: f32\n", "store @reads, 0\ncell @sum: f32\n"))
    given = {"count": np.array([1, 2]), "x": whole(2, 2, 32)}
    code, message = fault(plan(text), given, {"G": 1}, seed=seed)
    assert (code, message) == (TURN, "`wait` of use 0 of @r where use 1 is next (at g=0, role consumer)")


# ---- barriers --------------------------------------------------------------------------------------------------------

ROLES = """
plan @k(@y: i64[64] out) {{
  launch @k[1](@y)
}}
kernel @k(@y: i64[64] out) stage=team {{group=96, rows=1, threads=96}} {{
  %b = loop 0, 1 {{kind="parallel", map="blocks", independent="proved"}}
    shared @s: i64[64]
    role {{name="wide", warps=2}}
      %i = loop 0, 64 {{kind="parallel", map="lanes", layout="[i] -> [i, 0]"}}
        store @s, %i, %i
      end %i
      {wide}
    end
    role {{name="narrow", warps=1}}
      {narrow}
    end
  end %b
}}
"""
REVERSED = """
      {k} = loop 0, 64 {{kind="parallel", map="lanes", layout="{layout}"}}
        {o}: i64 = sub 63, {k}
        {v}: i64 = load @s, {o}
        store @y, {k}, {v}
      end {k}
"""
WIDE = REVERSED.format(k="%k", o="%o", v="%v", layout="[k] -> [k, 0]")
NARROW = REVERSED.format(k="%m", o="%p", v="%w", layout="[k] -> [k % 32, k // 32]")
ROLE, BLOCK = 'barrier {scope="role"}', 'barrier {scope="block"}'


@pytest.mark.parametrize("seed", SEEDS)
def test_barriers_of_a_role_and_of_the_block(seed):
    for wide, narrow in ((ROLE + WIDE, ""), (BLOCK, BLOCK + NARROW), (BLOCK + WIDE, BLOCK), (ROLE + BLOCK + BLOCK, BLOCK + NARROW + BLOCK)):
        text = ROLES.format(wide=wide.replace("}barrier", "}\nbarrier"), narrow=narrow)
        np.testing.assert_array_equal(run(plan(text), seed=seed)["y"], np.arange(64)[::-1])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wide, narrow, codes", [
    (WIDE, "", {RACE}),
    ("", NARROW, {RACE, UNWRITTEN}),
    (ROLE, ROLE + NARROW, {RACE, UNWRITTEN}),
    (BLOCK + WIDE, BLOCK + "store @s, 0, 0", {RACE}),
    (BLOCK, "", {DEADLOCK}),
    (f"{BLOCK}\n{BLOCK}", BLOCK, {DEADLOCK}),
])  # fmt: skip
def test_barriers_that_are_missing(wide, narrow, codes, seed):
    narrow = narrow.replace("}store", "}\nstore")
    assert fault(plan(ROLES.format(wide=wide, narrow=narrow)), seed=seed)[0] in codes


def test_a_deadlock_at_a_barrier_is_described():
    _, message = fault(plan(ROLES.format(wide=BLOCK, narrow="")))
    assert message == "deadlock: role wide waits for role narrow to come to a barrier (at b=0, role wide)"


# ---- what the verifier refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("edit, message", [
    (("threads=96}", "threads=128}"),
     "the roles have 96 threads together, so the kernel has threads=96, group=96, not threads=128, group=96"),
    (('name="low"', 'name="producer"'), "two roles have one name"),
    (("acquire @r, %n\n", "wait @r, %n\n"), "@r is emptied (wait, release) by the role that fills it"),
    (("wait @r, %n.1\n", "acquire @r, %n.1\n"), "@r is filled (acquire, commit) by 2 roles, not one"),
])  # fmt: skip
def test_roles_that_do_not_fit_together(edit, message):
    with pytest.raises(VxcError) as refused:
        plan(edited(RING, edit))
    assert (refused.value.diagnostics[0].code, refused.value.diagnostics[0].message) == ("E0524", message)


def test_loops_that_run_too_long_are_cut():
    x = whole(1, 7, 64)
    run_flat(plan(RING), {"x": x}, {}, max_steps=1000)
    with pytest.raises(VxcError) as cut:
        run_flat(plan(RING), {"x": x}, {}, max_steps=5)
    assert cut.value.diagnostics[0].code == "E0734"
