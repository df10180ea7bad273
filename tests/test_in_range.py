"""Indices that are not shown to stay in their array: which are, which are not, for what sizes, and what the commands say."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from cli_tool import SAMPLES, vxc

from vxc.analysis.access import collect, known_dimensions
from vxc.analysis.in_range import Unproven, unproven
from vxc.diag import VxcError
from vxc.frontend.check import check, check_module
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.interp.flat_interp import run_flat
from vxc.ir.plan import Plan
from vxc.ir.tiles import expand
from vxc.source import Source


def found(plan: Plan) -> list[Unproven]:
    loops = [(k, replace(k, insts=expand(k.insts, k.params))) for k in plan.kernels]
    return [u for k, inner in loops for u in unproven(collect(inner, known_dimensions(plan, k)))]


def lowered(text: str) -> Plan:
    source = Source("k.vx", text)
    return lower(check(parse(source), source, "k"))


def of(body: str, parameters: str = "x: f32[N], z: f32[M, K], at: i32[M], small: u8[M], n: i64, out y: f32[N]") -> list[Unproven]:
    return found(lowered(f"kernel k({parameters}) {{ {body} }}"))


SHOWN = {
    "loop": "parallel i in N { y[i] = x[i]; }",
    "guard": "grid b in ceildiv(N, 256) { parallel t in 256 { if b*256+t < N { y[b*256+t] = x[b*256+t]; } } }",
    "else": "parallel i in 300 { if i >= N { } else { y[i] = x[i]; } }",
    "several": "parallel i in 9, j in 7 { if i*7+j < N && i > 0 { y[i*7+j] = x[i*7+j-1]; } }",
    "not": "parallel i in N { if !(i == 0 || i == N-1) { y[i] = x[i-1] + x[i+1]; } }",
    "many": "parallel i in N { if i != 0 && n > 1 && n < N && n != i && n != 7 && n != 9 && n > 2 { y[i] = x[n - 1]; } }",
    "quotient": "parallel i in N { y[i] = x[i // 3]; }",
    "rows": "parallel i in M*K { if i < N { y[i] = z[i // K, i % K]; } }",
    "min": "parallel i in ceildiv(N, 4) { y[i] = x[min(i*4+3, N-1)]; }",
    "clamp": "parallel i in N { y[i] = x[clamp(n + i, 0, N-1)]; }",
    "stop": "serial t in ceildiv(N, 4) { serial i in t*4..min(t*4+4, N) { y[i] = x[i]; } }",
    "step": "serial i in 0..N step 3 { y[i] = x[N-1-i]; }",
    "data": "parallel i in M { if at[i] >= 0 && (at[i] as i64) < N { y[at[i]] = 0.0; } }",
    "bits": "parallel i in M { if N > 255 { y[small[i]] = 0.0; } }",
    "argmax": "parallel i in M { if K > 0 && i < N { let k = argmax(z[i]); y[i] = z[i, k]; } }",
    "tile": "grid b in ceildiv(N, 64) { shared s: f32[64]; copy(x[b*64 :+ 64], s); copy(s, y[b*64 :+ 64]); }",
    "row": "parallel i in M { if i < N { y[i] = sum(z[i]); } }",
    "rest of a row": "parallel i in M { if i < N { y[i] = sum(z[i, 3:K]) + max(z[i, 2:]); } }",
    "suffix": "parallel i in N { y[i] = sum(x[i:N]); }",
    "one of two": "serial i in 2..max(N, 2) { y[i] = x[i]; } serial i in 3..max(5, N) - 1 { if N > 3 { y[i - 1] = x[3]; } }",
}
OPEN = {
    # name: (body, what the first is: below 0, past the end, sizes and index found)
    "grid": ("grid b in ceildiv(N, 256) { parallel t in 256 { y[b*256+t] = 0.0; } }", False, True, ({"N": 1}, 255)),
    "other": ("parallel i in M { y[i] = 0.0; }", False, True, ({"N": 1, "M": 2}, 1)),
    "below": ("parallel i in N { y[i] = x[i-1]; }", True, False, ({"N": 1}, -1)),
    "wrong guard": ("parallel i in N { if i < M { y[i] = z[i, i]; } }", False, True, ({"N": 2, "M": 2, "K": 1}, 1)),
    "one arm": ("parallel i in N { if i == 0 || n > 0 { y[i] = x[i+1]; } }", False, True, ({"N": 1, "n": 0}, 1)),
    "scalar": ("parallel i in N { if n < N { y[i] = x[n]; } }", True, False, None),
    "larger of two": ("serial i in 0..max(N, 2) { y[i] = 0.0; }", False, True, ({"N": 1}, 1)),
    "data": ("parallel i in M { if i < N { y[i] = x[at[i]]; } }", True, True, None),
    "bits": ("parallel i in M { y[small[i]] = 0.0; }", False, True, None),
    "argmax": ("parallel i in M { if i < N { let k = argmax(z[i]); y[i] = z[i, k]; } }", True, False, None),
    "rewritten": ("parallel i in N { if y[0] > 0.0 { y[i] = x[i] + x[y[i] as i64]; } }", True, True, None),
}


@pytest.mark.parametrize("body", SHOWN.values(), ids=SHOWN)
def test_what_is_shown(body):
    assert of(body) == []


@pytest.mark.parametrize("body, below, above, seen", OPEN.values(), ids=OPEN)
def test_what_is_not_shown(body, below, above, seen):
    first = of(body)[0]
    assert (first.below, first.above, first.seen) == (below, above, seen)


def test_samples():
    """In gather, scatter and cross_entropy data is the index; a row may be empty; dequant_* want multiples of a tile, as they say."""
    names = {path.stem for path in SAMPLES.glob("*.vx") if _open(path)}
    copies = {f"dequant_u4_{how}" for how in ("copy", "manual", "parallel")}
    assert names == {"argmax", "cross_entropy", "gather", "scatter"} | copies


def _open(path) -> bool:
    source = Source(str(path), path.read_text("utf-8"))
    return any(found(lower(kernel)) for kernel in check_module(parse(source), source))


# ---- what the commands say -------------------------------------------------------------------------------------------

GRID = "kernel k(x: f32[N], out y: f32[N]) {\n    grid b in ceildiv(N, 256) { parallel t in 256 { y[b*256+t] = x[b*256+t]; } }\n}\n"


def test_check_notes_and_succeeds():
    got = vxc("check", "-", stdin=GRID)
    assert (got.status, got.out) == (0, "<stdin>: k: ok\n")
    assert "note[N0311]: index b*256+t of `y` and `x` may reach N + 254, and the extent is N\n  --> <stdin>:2:53\n" in got.err
    assert "= note: it is 255 for N = 1\n" in got.err and "if b*256+t < N" in got.err and "--debug" in got.err
    (report,) = json.loads(vxc("check", "-", "--json", stdin=GRID).out)
    (note,) = report["diagnostics"]
    assert report["kernels"] == ["k"] and (note["code"], note["severity"]) == ("N0311", "note") and len(note["labels"]) == 2


def test_explain_has_it_as_missed():
    (kernel,) = json.loads(vxc("explain", "-", "--json", stdin=GRID).out)["kernels"]
    (remark,) = [r for r in kernel["remarks"] if r["pass_name"] == "prove-in-range"]
    assert (remark["kind"], remark["line"], remark["column"]) == ("missed", 2, 53) and "if b*256+t < N" in remark["message"]
    assert "not done, prove-in-range: index b*256+t" in vxc("explain", "-", stdin=GRID).out


def test_nothing_is_said_where_all_is_shown():
    guarded = GRID.replace("y[b", "if b*256+t < N { y[b").replace("; }", "; } }")
    assert vxc("check", "-", stdin=guarded).err == ""
    assert vxc("check", "-", "-D", "N=512", stdin=GRID).err == ""


@pytest.mark.parametrize(
    "element, dimension, index",
    [
        ("x[at[i, 0], max(i, at[i, 1])]", 1, "max(i, at[i, 1])"),
        ("x[i][at[i, 1]]", 1, "at[i, 1]"),
        ("x[0, # a comment, with a comma]\n  min(at[i, 1],\n i)]", 1, "min(at[i, 1], i)"),
        ("x[if i < 3 { at[i, 0] } else { 0 }, 0]", 0, "(if i < 3 { at[i, 0] } else { 0 })"),
        ("exp(x[0, at[i, 1]])", 1, "at[i, 1]"),
    ],
)
def test_an_index_is_named_as_it_is_written(element, dimension, index):
    text = f"kernel k(x: f32[4, M], at: i64[N, 2], out y: f32[N]) {{ parallel i in N {{ y[i] = {element}; }} }}"
    got = vxc("check", "-", stdin=text)
    (note,) = [line for line in got.err.splitlines() if line.startswith("note") and f"index {index} of `x`" in line]
    extent = ("4", "M")[dimension]
    assert f"dimension {dimension} has extent {extent}" in got.err and re.search(rf"if .*{re.escape(index)} < {extent}", got.err), note


def test_words_for_data():
    assert "index index[i] of `table` depends on data" in vxc("check", SAMPLES / "gather.vx").err
    got = vxc("check", SAMPLES / "scatter.vx").err  # the place is the call's, the element within it
    assert "4:42\n" in got and "if index[i] >= 0 && (index[i] as i64) < V" in got
    assert "index k of `x` is -1 where the argmax has no elements" in vxc("check", SAMPLES / "argmax.vx").err


# ---- random kernels --------------------------------------------------------------------------------------------------


def _expression(rng: random.Random, depth: int) -> str:
    if not depth or rng.random() < 0.2:
        return rng.choice(["i", "j", "i", "j", "N", "M", "n", str(rng.randrange(5))])
    a, b, c = _expression(rng, depth - 1), _expression(rng, depth - 1), rng.randrange(1, 5)
    forms = [f"({a} + {b})", f"({a} - {b})", f"({a} * {c})", f"({a} // {c})", f"({a} % {c})", f"min({a}, {b})", f"max({a}, {b})"]
    return rng.choice([*forms, f"clamp({a}, 0, {b})", f"({a} % (N + 1))", f"(if {a} < {b} {{ {a} }} else {{ {b} }})"])


def _kernel(rng: random.Random) -> str:
    ends = [rng.choice(["N", "M", "ceildiv(N, 3)", "N // 2", "4", "0..M step 2", "1..N", "i..N"]) for _ in range(2)]
    extent = rng.choice(["N", "M", "N * M", "N + 2", "ceildiv(M, 2)"])
    tests = [f"p < {extent}", "p >= 0", f"{_expression(rng, 1)} {rng.choice(['<', '<=', '!=', '=='])} {_expression(rng, 1)}"]
    test = f" {rng.choice(['&&', '&&', '||'])} ".join(rng.sample(tests, rng.randrange(1, 4)))
    guard = f"if {rng.choice(['', '', '!'])}({test}) " if rng.random() < 0.7 else ""
    body = f"let p = {_expression(rng, rng.randrange(3))} + 0 * i; {guard}{{ y[0] = x[p]; }}"
    loops = f"serial i in {ends[0].replace('i..', '0..')} {{ serial j in {ends[1]} {{ {body} }} }}"
    return f"kernel k(x: f32[{extent}], a: f32[N, M], n: i64, out y: f32[1]) {{ {loops} }}"


def _generated(rng: random.Random) -> tuple[str, Plan]:
    """A kernel, and its plan; those refused for an index that is always past the end are left out."""
    while True:
        text = _kernel(rng)
        try:
            return text, lowered(text)
        except VxcError as error:
            assert {d.code for d in error.diagnostics} == {"E0215"}, str(error)


def _faults(plan: Plan, sizes: dict[str, int], extent: int) -> bool:
    arrays = {"x": np.zeros(extent, np.float32), "a": np.zeros((sizes["N"], sizes["M"]), np.float32)}
    try:
        run_flat(plan, arrays, {"n": sizes["n"]})
    except VxcError as error:
        assert error.diagnostics[0].code == "E0720", str(error)
        return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_a_kernel_without_a_note_faults_for_no_sizes(seed):
    rng = random.Random(seed)
    counts = {"shown": 0, "open": 0, "seen": 0}
    for _ in range(60):
        text, plan = _generated(rng)
        extent = text[text.index("[") + 1 : text.index("]")].replace("ceildiv(M, 2)", "-(-M // 2)")
        notes = found(plan)
        counts["open" if notes else "shown"] += 1
        for _ in range(0 if notes else 12):
            sizes = {"N": rng.randrange(7), "M": rng.randrange(7), "n": rng.randrange(-4, 8)}
            assert not _faults(plan, sizes, eval(extent, dict(sizes))), (text, sizes)
        for note in (note for note in notes if note.seen):
            sizes = {"N": 1, "M": 1, "n": 0} | note.seen[0]
            counts["seen"] += 1
            assert _faults(plan, sizes, eval(extent, dict(sizes))), (text, sizes)
    assert min(counts.values()) > 5, counts
