"""What the simulated threads count, against cases worked out by hand: sectors, bank conflicts, divergence, barriers, sampling."""

from __future__ import annotations

import numpy as np
import pytest
from cli_tool import SAMPLES
from flat_kernels import grid, run

from vxc.diag import VxcError
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.inputs import complete
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_counters import Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.source import Source


def counted(params: str, names: str, body: str, threads: int = 32, blocks: int = 1, most: int | None = None, **arrays) -> Counters:
    counters = Counters(most)
    run(grid(str(blocks), params, names, body, f"threads={threads}"), arrays, counters=counters)
    return counters


def only(counters: Counters) -> Accesses:
    (found,) = counters.accesses.values()
    return found


F32 = np.zeros(2048, np.float32)
GLOBAL = [
    # index of thread t, guard              requests threads sectors ideal
    ("%i = add %t, 0",                      1, 32, 4, 4),  # 32 * 4 bytes from the first on: one line
    ("%i = add %t, 1",                      1, 32, 5, 4),  # one element further: into a fifth sector
    ("%i = mul %t, 2",                      1, 32, 8, 4),  # every second element: half of each sector
    ("%i = mul %t, 8",                      1, 32, 32, 4),  # a sector for each lane, as in a column
    ("%i = mul %t, 0",                      1, 32, 1, 1),  # one element for all
    ("%i = floordiv %t, 4",                 1, 32, 1, 1),  # eight elements
    ("%i = sub 31, %t",                     1, 32, 4, 4),  # backwards
    ("%i = mod %t, 3",                      1, 32, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("index, requests, threads, sectors, ideal", GLOBAL, ids=[row[0] for row in GLOBAL])
def test_sectors_of_a_load(index, requests, threads, sectors, ideal):
    got = only(counted("@x: f32[2048] in", "@x", f"{index}\n%v: f32 = load @x, %i", x=F32))
    assert (got.space, got.bytes) == ("param", 4)
    assert (got.requests, got.threads, got.sectors, got.ideal_sectors) == (requests, threads, sectors, ideal)
    assert (got.cycles, got.ideal_cycles) == (0, 0)


@pytest.mark.parametrize("dtype, size", [("f16", 2), ("f32", 4), ("f64", 8), ("u8", 1)])
def test_sectors_follow_the_element_size(dtype, size):
    got = only(counted(f"@x: {dtype}[64] in", "@x", f"%v: {dtype} = load @x, %t", x=np.zeros(64, DTYPES[dtype].numpy)))
    assert (got.bytes, got.sectors, got.ideal_sectors) == (size, size, size)


def test_stores_and_atomics_count_like_loads():
    store = only(counted("@y: f32[64] out", "@y", "%i = mul %t, 2\nstore @y, %i, 0.0:f32"))
    assert (store.requests, store.sectors, store.ideal_sectors) == (1, 8, 4)
    body = "%i = mod %t, 2\n%o: i32 = atomic @y, %i, 1:i32 {op=\"add\"}"
    atomic = only(counted("@y: i32[64] inout", "@y", body, y=np.zeros(64, np.int32)))
    assert (atomic.requests, atomic.threads, atomic.sectors, atomic.ideal_sectors, atomic.turns) == (1, 32, 1, 1, 16)
    assert store.turns == 0


@pytest.mark.parametrize(
    "index, turns", [("%i = add %t, 0", 1), ("%i = mul %t, 0", 32), ("%i = max %t, 9", 10), ("%i = floordiv %t, 3", 3)]
)
def test_lanes_that_meet_at_one_element_of_an_atomic(index, turns):
    body = f"{index}\n%f: bool = lt %t, 33\nif %f\n%o: i32 = atomic @y, %i, 1:i32 {{op=\"add\"}}\nend"
    got = only(counted("@y: i32[64] inout", "@y", body, threads=64, y=np.zeros(64, np.int32)))
    assert (got.requests, got.threads, got.turns) == (2, 33, turns + 1)  # the second warp has one lane


def test_lanes_that_do_not_run_ask_for_nothing():
    body = "%f: bool = lt %t, 40\nif %f\n%v: f32 = load @x, %t\nend"
    counters = counted("@x: f32[2048] in", "@x", body, threads=96, blocks=2, x=F32)
    got = only(counters)
    # 2 blocks of 3 warps: a whole one, one of 8 lanes (a sector), and one that does not come along
    assert (got.requests, got.threads, got.sectors, got.ideal_sectors) == (4, 80, 10, 10)
    (divergent,) = counters.divergent.values()
    assert divergent == 2


def test_an_if_on_which_warps_agree_is_not_divergent():
    counters = counted("@x: f32[2048] in", "@x", "%f: bool = lt %t, 32\nif %f\n%v: f32 = load @x, %t\nend", threads=96, x=F32)
    assert list(counters.divergent.values()) == [0]


def shared(rows: int, columns: int, body: str, dtype: str = "f32") -> Accesses:
    """What a load of a warp from an array of the block's costs; `body` gives its index, %i and %j."""
    loop = f"%n = loop 0, {columns} {{kind=\"serial\"}}\nstore @s, %r, %n, 0.0:{dtype}\nend %n"
    fill = f"%r = mod %t, {rows}\n{loop}\nbarrier {{scope=\"block\"}}"
    counters = counted("@y: f32[1] out", "@y", f"shared @s: {dtype}[{rows}, {columns}]\n{fill}\n{body}\n%v: {dtype} = load @s, %i, %j")
    return list(counters.accesses.values())[-1]


COLUMN, ROW = "%i = mod %t, 32\n%j = mul %t, 0", "%i = mul %t, 0\n%j = mod %t, 32"


@pytest.mark.parametrize(
    "rows, columns, body, dtype, cycles, ideal",
    [
        (32, 32, ROW, "f32", 1, 1),
        (32, 32, COLUMN, "f32", 32, 1),  # 32 words of one bank
        (32, 33, COLUMN, "f32", 1, 1),  # padded: a bank for each
        (32, 32, COLUMN, "f16", 16, 1),  # rows of 64 bytes: two banks, 16 words each
        (32, 32, ROW, "f16", 1, 1),  # two lanes to a word are no conflict
        (32, 32, ROW, "f64", 2, 2),  # a half warp at a time
        (32, 32, COLUMN, "f64", 32, 2),  # 16 words of one pair of banks, twice
        (32, 32, "%i = mul %t, 0\n%j = mul %t, 0", "f32", 1, 1),  # one word for all
    ],
)
def test_bank_conflicts(rows, columns, body, dtype, cycles, ideal):
    got = shared(rows, columns, body, dtype)
    assert (got.space, got.requests, got.threads, got.sectors) == ("shared", 1, 32, 0)
    assert (got.cycles, got.ideal_cycles) == (cycles, ideal)


def test_barriers_and_instructions_are_counted_by_warps():
    counters = counted("@y: f32[64] out", "@y", "barrier {scope=\"block\"}\nstore @y, %t, 0.0:f32", threads=64)
    assert set(counters.issued.values()) == {2} and set(counters.threads.values()) == {64}


def test_some_blocks_stand_for_many():
    body = "%o = mul %b, 32\n%i = add %o, %t\n%v: f32 = load @x, %i"
    whole = counted("@x: f32[3200] in", "@x", body, blocks=100, x=np.zeros(3200, np.float32))
    part = counted("@x: f32[3200] in", "@x", body, blocks=100, most=9, x=np.zeros(3200, np.float32))
    assert (whole.blocks, part.blocks) == ({"k": (100, 100)}, {"k": (9, 100)})
    assert (only(whole).sectors, only(part).sectors) == (400, 400)
    assert part.touched["k", "x"].sectors == 400


def test_blocks_are_taken_from_the_ends_and_from_all_over_the_middle():
    counters = Counters(12)
    taken = [(numbers.tolist(), counters.weight) for numbers in counters.chunks("k", 1000, 5)]
    (first, between, more, last), weights = zip(*taken)
    assert (first, last, weights) == ([0, 1], [998, 999], (1, 996 / 8, 996 / 8, 1))
    gaps = np.diff([*between, *more])
    assert len(gaps) == 7 and gaps.min() > 996 / 8 / 2 and len({*gaps.tolist()}) > 1  # everywhere, and not every so many
    assert counters.weight == 1
    for blocks in range(13, 200):
        numbers = np.concatenate([*Counters(12).chunks("k", blocks, 5)])
        assert len({*numbers.tolist()}) == len(numbers) <= 12 and numbers.max() == blocks - 1
        counted = Counters(12)
        assert sum(counted.weight * len(numbers) for numbers in counted.chunks("k", blocks, 5)) == pytest.approx(blocks)


def least(body: str, count: int = 256, **more) -> float:
    counters = counted(f"@x: f32[{count}] inout", "@x", body, x=np.zeros(count, np.float32), **more)
    return counters.touched["k", "x"].sectors


def test_the_least_that_has_to_move():
    assert least("%v: f32 = load @x, %t") == 4
    assert least("%v: f32 = load @x, %t\n%w: f32 = load @x, %t") == 4  # once
    assert least("%v: f32 = load @x, %t\nstore @x, %t, %v") == 8  # there and back
    assert least("store @x, %t, 1.0:f32\n%v: f32 = load @x, %t") == 4  # it has what it wrote
    shifted = "%i = add %t, 1\nstore @x, %t, 1.0:f32\nbarrier {scope=\"block\"}\n%v: f32 = load @x, %i"
    assert least(shifted) == 5  # all but one element of it
    assert least("%i = mul %t, 8\n%v: f32 = load @x, %i") == 32  # a sector for each element
    assert least("%o: f32 = atomic @x, %t, 1.0:f32 {op=\"add\"}") == 4
    assert least("%f: bool = lt %t, 8\nif %f\n%v: f32 = load @x, %t\nend") == 1
    assert least("%v: f32 = load @x, %t", blocks=100, most=6) == 4  # the same for all blocks, of which the first had it


def test_what_blocks_left_out_would_have_written_is_no_index_out_of_range():
    text = """
kernel twice(p: i32[N], out q: i32[N], out y: f32[N]) {
    parallel i in N { q[i] = p[i]; }
    parallel i in N { y[i] = q[q[i] as i64] as f32; }
}
"""
    compiled = compile(Source("twice.vx", text))
    indices = np.arange(10_000, dtype=np.int32)
    counters = Counters(3)
    run_flat(compiled.plan, {"p": indices}, {}, debug=False, counters=counters)
    assert {part for part, _ in counters.blocks.values()} == {3}
    with pytest.raises(VxcError):  # but not in general
        run_flat(compiled.plan, {"p": indices + 1}, {}, debug=False)


def cost(text: str) -> dict[str, list[Accesses]]:
    """What the loads and stores of a kernel cost at its example, by the array."""
    compiled = compile(Source("counted.vx", text))
    call, counters = complete(compiled.typed), Counters()
    run_flat(compiled.plan, call.arrays, call.scalars, dims=call.dims, debug=False, counters=counters)
    found: dict[str, list[Accesses]] = {}
    for (_, _, name, _), count in counters.accesses.items():
        found.setdefault(name, []).append(count)
    return found


def ratio(counts: list[Accesses]) -> float:
    return sum(c.sectors for c in counts) / sum(c.ideal_sectors for c in counts)


def test_a_transposition_by_elements_reads_or_writes_columns_and_one_by_tiles_does_not():
    text = (SAMPLES / "transpose.vx").read_text()
    naive, tile = cost(text.replace("parallel", "@vector(1) parallel")), cost((SAMPLES / "transpose_tile.vx").read_text())
    assert max(map(ratio, naive.values())) > 5
    assert max(ratio(counts) for counts in tile.values() if counts[0].space != "shared") < 2


def test_plain_interpretation_counts_nothing(monkeypatch):
    monkeypatch.setattr(Counters, "issue", lambda *_: pytest.fail("counted"))
    monkeypatch.setattr(Counters, "access", lambda *_: pytest.fail("counted"))
    run(grid("1", "@x: f32[2048] in", "@x", "%v: f32 = load @x, %t"), {"x": F32})


ALONE = "kernel k(x: f32[N], out y: f32[3]) { serial r in 3 { y[r] = sum(x); } }"  # by 512 threads, in 256 parts of a multiple of 2048


@pytest.mark.parametrize("n, parts", [(0, 0), (13, 1), (2048, 1), (2049, 2), (5000, 3)])
def test_parts_without_elements_take_no_turn(n, parts):
    made, counters = compile(Source("k.vx", ALONE)), Counters()
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    found = run_flat(made.plan, {"x": x}, {}, counters=counters)["y"]
    assert found.tobytes() == run_ast(made.typed, {"x": x}, {})["y"].tobytes()
    (kernel,) = made.plan.kernels
    inside = [at for at, inst in enumerate(kernel.insts) if inst.op == "shfl_xor" and inst.attr("distance") == 16]
    assert counters.issued.get(("k", inside[0]), 0) == 3 * parts * 512 // 32
