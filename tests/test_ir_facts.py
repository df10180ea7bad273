"""Ranges against enumeration, uniformity on the shapes that lowering makes."""

import itertools
from contextlib import ExitStack

import pytest
from cli_tool import SAMPLES

from vxc.diag import read_source
from vxc.driver import compile
from vxc.dtypes import BOOL, DTYPES, F32, I32, I64, U8
from vxc.ir.builder import Builder
from vxc.ir.facts import BLOCK, MAX_DIM, full, ranges, uniformity
from vxc.ir.kernel import Buffer, Const, Value
from vxc.ir.ops import TOGETHER
from vxc.pipeline import PIPELINE
from vxc.semantics import SCALAR_OPS, accepts, evaluate

N, S = Value("n", I64), Value("s", I64)
X = Buffer("x", F32, (N,), "param", "in")
INTERVALS = [(-5, -2), (-3, 0), (-2, 3), (0, 0), (0, 4), (1, 3), (2, 2), (7, 9)]
NEAR_ENDS = [(-128, -126), (124, 127), (60, 66)]  # of i8: results wrap
OPERATIONS = [name for name, op in SCALAR_OPS.items() if accepts(name, I64) and op.result != "f32"]


@pytest.mark.parametrize("dtype", [I64, DTYPES["i8"]], ids=str)
@pytest.mark.parametrize("op", OPERATIONS)
def test_ranges_hold_every_result(op, dtype):
    params = [Value(name, dtype) for name in "abc"[: SCALAR_OPS[op].arity]]
    if op == "select":
        params[0] = Value("a", BOOL)
    b = Builder("abc")
    result = b.emit(op, *params)
    kernel = b.build("k", params)
    tried = INTERVALS if dtype is I64 else [*INTERVALS, *NEAR_ENDS] if len(params) < 3 else NEAR_ENDS
    for intervals in itertools.product(tried, repeat=len(params)):
        if op == "select":
            intervals = ((0, 1), *intervals[1:])
        low, high = ranges(kernel, dict(zip("abc", intervals)))[result.name]
        points = zip(*itertools.product(*(range(a, z + 1) for a, z in intervals)))
        values = evaluate(op, dtype, *points)
        assert low <= values.min() and values.max() <= high, intervals


@pytest.mark.parametrize("op, a, b, expected", [
    ("add", (0, 10), (5, 6), (5, 16)), ("mul", (-2, 3), (4, 5), (-10, 15)), ("floordiv", (0, 99), (8, 8), (0, 12)),
    ("mod", (0, 99), (8, 8), (0, 7)), ("mod", (3, 5), (8, 9), (3, 5)), ("ceildiv", (0, 99), (8, 8), (0, 13)),
    ("lt", (0, 4), (5, 9), (1, 1)), ("ge", (0, 4), (5, 9), (0, 0)), ("lt", (0, 5), (5, 9), (0, 1)),
    ("add", (0, 2**63 - 1), (1, 1), full(I64)), ("sub", (0, 1), (3, 3), (-3, -2)), ("and", (-9, 9), (0, 7), (0, 7)),
])  # fmt: skip
def test_ranges_are_tight(op, a, b, expected):
    x, y = Value("x", I64), Value("y", I64)
    builder = Builder("xy")
    result = builder.emit(op, x, y)
    assert ranges(builder.build("k", [x, y]), {"x": a, "y": b})[result.name] == expected


@pytest.mark.parametrize("step", [1, 2, 3, 7, -1, -3])
@pytest.mark.parametrize("start, stop", [((0, 0), (10, 10)), ((3, 3), (10, 10)), ((-2, -2), (0, 9)), ((1, 4), (9, 9)), ((5, 5), (-4, 2))])
def test_ranges_of_loops(start, stop, step):
    """They hold every index, and of constant bounds the first and the last."""
    a, z = Value("a", I64), Value("z", I64)
    b = Builder("az")
    with b.loop(a, z, step, kind="serial") as i:
        pass
    low, high = ranges(b.build("k", [a, z]), {"a": start, "z": stop})[i.name]
    every = [at for x in range(start[0], start[1] + 1) for y in range(stop[0], stop[1] + 1) for at in range(x, y, step)]
    assert all(low <= at <= high for at in every)
    if every and start[0] == start[1] and step > 0:
        assert (low, high) == (min(every), max(every))


def test_ranges_of_indices_parameters_and_loads():
    b = Builder(["n", "s", "x"])
    thread = b.emit("thread_index")
    with b.loop(thread, N, 64, kind="serial") as i:
        row = b.emit("floordiv", i, 8)
    with b.loop(7, -1, -1, kind="serial") as down:
        pass
    with b.loop(0, 8, S, kind="serial") as either:
        pass
    byte = b.emit("load", b.declare("cell", "c", U8))
    wide = b.emit("cast", byte, dtype=I32)
    half = b.emit("cast", N, dtype=I32)
    found = ranges(b.build("k", [N, S, X], stage="thread", attrs=[("threads", 64)]))
    assert [found[v.name] for v in (N, S, thread, i, row, down, either, byte, wide, half)] == [
        (0, MAX_DIM), full(I64), (0, 63), (0, MAX_DIM - 1), (0, (MAX_DIM - 1) // 8), (0, 7), (0, 7), (0, 255), (0, 255), full(I32),
    ]  # fmt: skip


def test_places_and_blocks():
    b = Builder(["n", "s", "x"])
    block, ahead = b.emit("block_index"), b.emit("ahead", X, 0, bytes=16)
    for attrs, most in (([], (1 << 31) - 2), ([("blocks", 5)], 4)):
        found = ranges(b.build("k", [N, S, X], stage="thread", attrs=attrs))
        assert (found[block.name], found[ahead.name]) == ((0, most), (0, 16 // X.dtype.bytes - 1))


def test_constants_and_wrapping_in_narrow_types():
    b = Builder()
    sum_ = b.emit("add", Const(100, DTYPES["i8"]), 27)
    wraps = b.emit("add", Const(100, DTYPES["i8"]), 28)
    found = ranges(b.build("k", []))
    assert (found[sum_.name], found[wraps.name]) == ((127, 127), (-128, 127))


def spans(b: Builder, *operands, stage="thread", **attrs):
    u = uniformity(b.build("k", [N, S, X], stage=stage, attrs=sorted(attrs.items())))
    return [u.span(o) for o in operands]


def test_spans_of_thread_arithmetic():
    b = Builder(["n", "s", "x"])
    t = b.emit("thread_index")
    row, lane = b.emit("floordiv", t, 8), b.emit("mod", t, 8)
    warp = b.emit("floordiv", b.emit("cast", row, dtype=I32), 4)
    all_ = b.emit("shr", t, 8)
    index = b.emit("add", b.emit("mul", b.emit("block_index"), 32), row)
    loaded, own = b.emit("load", X, row), b.emit("load", X, lane)
    swapped = b.emit("shfl_xor", own, distance=1, width=8)
    values = (t, lane, row, warp, all_, index, loaded, own, swapped, N, b.emit("add", row, lane))
    assert spans(b, *values, threads=256) == [1, 1, 8, 32, BLOCK, 8, 8, 1, 8, BLOCK, 1]


def test_each_thread_has_its_own_result_of_an_atomic():
    b = Builder(["n", "s", "x"])
    assert spans(b, b.emit("atomic", X, 0, Const(1.0, F32), op="add"), threads=64) == [1]


def test_cells_carry_what_is_stored_and_who_stores():
    b = Builder(["n", "s", "x"])
    t = b.emit("thread_index")
    a, c, d = (b.declare("cell", name, I64) for name in "acd")
    with b.while_():
        first = b.emit("load", d)  # fed by a store further down
        b.emit("store", a, 3)
        with b.if_(b.emit("lt", b.emit("floordiv", t, 16), S)):
            b.emit("store", c, 3)
        b.emit("store", d, b.emit("load", c))
        with b.if_(b.emit("lt", N, 3)):
            b.emit("break")
    assert spans(b, a, c, d, first, threads=64) == [BLOCK, 16, 16, 16]


def test_control():
    b = Builder(["n", "s", "x"])
    t = b.emit("thread_index")
    with b.loop(t, N, 64, kind="serial"):
        b.emit("barrier", scope="block")
    with b.loop(0, N, kind="serial") as i:
        b.emit("barrier", scope="block")
        with b.if_(b.emit("lt", b.emit("floordiv", t, 4), i)):
            b.emit("break")
    with b.loop(0, N, kind="serial"):
        b.emit("barrier", scope="block")
    kernel = b.build("k", [N, S, X], stage="thread", attrs=[("threads", 64)])
    barriers = [i for i, inst in enumerate(kernel.insts) if inst.op == "barrier"]
    for control in (uniformity(kernel).control, *(uniformity(kernel, asked=some).control for some in (barriers, barriers[1:]))):
        assert [control.get(i) for i in barriers][-2:] == [4, BLOCK] and control.get(barriers[0], 1) == 1


@pytest.mark.parametrize("name", ["attention_flash", "flash_splitk", "gemm", "cumsum", "softmax"])
def test_control_is_the_same_where_only_some_is_asked_for(name):
    made = compile(read_source(SAMPLES / f"{name}.vx"))
    for kernel in (kernel for p in PIPELINE.passes for kernel in made.after(p.name).kernels):
        every = uniformity(kernel).control
        asked = [i for i, inst in enumerate(kernel.insts) if inst.op in TOGETHER]
        for some in (asked, asked[:1], [*range(0, len(kernel.insts), 7)]):
            assert uniformity(kernel, asked=some).control == {i: every[i] for i in some}


def test_teams():
    b = Builder(["n", "s", "x"])
    with b.loop(0, N, kind="parallel", map="blocks") as row:
        m = b.declare("cell", "m", F32)
        with b.reduce(m, 8, op="sum", order=(1, 1, 8, 1)) as j:
            b.emit("contribute", b.emit("load", X, j))
        with b.loop(0, 8, kind="parallel", map="lanes") as lane:
            pass
        value = b.emit("load", m)
    assert spans(b, row, m, j, lane, value, stage="team", group=8, threads=64) == [8, 8, 1, 1, 8]
    assert spans(b, row, m, j, lane, value, stage="team", group=64, threads=64) == [BLOCK, BLOCK, 1, 1, BLOCK]


def test_what_happens_once_is_the_same_for_all_that_run_it():
    """An atomic and a reduction: of a block in row scope, of a team in its loop, of a thread in a loop over lanes."""
    Y = Buffer("y", I64, (N,), "param", "inout")
    for stage, how in (("tile", None), ("team", "teams"), ("team", "lanes")):
        b, found = Builder(["n", "s", "x", "y"]), []
        with b.loop(0, N, kind="parallel", map="blocks" if how else None):
            for around in (0, 1):
                with ExitStack() as inside:
                    if around and how:
                        inside.enter_context(b.loop(0, 9, kind="parallel", map=how, lanes=4 if how == "teams" else None))
                    m = b.declare("cell", "m", F32)
                    with b.reduce(m, 8, op="sum", order=(1, 1, 4, 1)) as j:
                        b.emit("contribute", b.emit("load", X, j))
                    found += [b.emit("atomic", Y, 0, 1, op="add"), b.emit("load", m)]
        u = uniformity(b.build("k", [N, S, X, Y], stage=stage, attrs=[("group", 64), ("threads", 64)] if how else []))
        inner = {None: BLOCK, "teams": 4, "lanes": 1}[how]
        assert [u.span(v) for v in found] == [BLOCK, BLOCK, inner, inner]


def test_levels():
    b = Builder(["n", "s", "x"])
    t = b.emit("thread_index")
    row = b.emit("floordiv", t, 8)
    u = uniformity(b.build("k", [N], stage="thread", attrs=[("threads", 64)]))
    assert [u.level(v, 8) for v in (N, row, t, Const(3))] == ["block", "group", "thread", "block"]
    assert u.level(row, 16) == "thread"
