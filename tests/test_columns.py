"""Reductions of columns: neighbouring threads take neighbouring columns, lanes meet in shared memory; the bits are those of the order."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_tool import vxc

from tests.everywhere import compiled
from vxc.api.strided import with_strides
from vxc.binding import Binding
from vxc.diag import VxcError
from vxc.diff import disagreements, prefix_executors
from vxc.driver import compile, compile_plan
from vxc.dtypes import F32
from vxc.inputs import Call
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.passes.columns import dealt
from vxc.schedule import schedule
from vxc.semantics import Order, reduce
from vxc.source import Source

COLUMNS = "kernel k(x: {dtype}[M, N], out y: {result}[N]) {{ {how} parallel j in N {{ y[j] = {op}(x[:, j]); }} }}"
SHAPES = [(0, 5), (1, 1), (3, 1), (1, 33), (5, 32), (70, 31), (131, 65)]
FLOATS, INTS = ("f64", "f32", "f16"), ("i32", "u8", "i64")


def column(op: str = "sum", dtype: str = "f32", how: str = "", **defines) -> str:
    numbers = {"argmax": "i64", "argmin": "i64", "any": "bool", "all": "bool"}
    narrow = op in ("sum", "prod") and dtype == "u8"
    result = numbers.get(op, "f32" if dtype == "f16" else "u32" if narrow else dtype)
    return COLUMNS.format(op=op, dtype=dtype, result=result, how=how)


def taken(made) -> list[int | None]:
    """The `columns` of each kernel's loop over blocks."""
    return [i.attr("columns") for k in made.after("map-loops").kernels for i in k.insts if i.attr("map") == "blocks"]


def values(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    name = {"f64": "f8", "f32": "f4", "f16": "f2", "i32": "i4", "u8": "u1", "i64": "i8"}[dtype]
    return rng.standard_normal(shape).astype(name) if name[0] == "f" else rng.integers(0, 99, shape).astype(name)


def agree(made, *calls: dict[str, np.ndarray]) -> None:
    """The syntax tree and the IR after every pass, to the bit."""
    inputs = {str(at): Call(arrays, {}, {}) for at, arrays in enumerate(calls)}
    assert [str(d) for d in disagreements(prefix_executors(made), inputs)] == []


CASES = [(op, dtype) for dtype in (*FLOATS, *INTS) for op in ("sum", "prod", "max", "min", "absmax", "argmax", "argmin")]
CASES = [(op, dtype) for op, dtype in CASES if not (op == "absmax" and dtype == "u8")] + [("any", "bool"), ("all", "bool")]


@pytest.mark.parametrize("op, dtype", CASES)
def test_every_reduction_of_every_dtype_and_odd_sizes(op, dtype):
    made = compiled(column(op, dtype), binary=False)
    assert taken(made) == [32]
    agree(made, *({"x": values(shape, dtype, at)} for at, shape in enumerate(SHAPES)))


HOWS = [f"@chunk({n})" for n in (1, 2, 16, 64)] + ["@lanes(2)", "@lanes(16) @chunk(3)", "@parts(4)", "@parts(3) @chunk(8)"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("m, n", [(131, 65), (600, 7), (2, 40)])
def test_orders_of_the_author(how, m, n):
    for known in ({}, {"M": m, "N": n}):
        agree(compiled(column(how=how), binary=False, **known), {"x": values((m, n), "f32", len(known))})


@pytest.mark.parametrize("n", [64, 66])  # as many as a block takes, or not
@pytest.mark.parametrize("dtype, width", [("f64", 1), ("f32", 1), ("f16", 2), ("u8", 4)])
@pytest.mark.parametrize("op", ["sum", "argmin"])
@pytest.mark.parametrize("how", ["", "@parts(3)", "@chunk(1024)"])
def test_a_thread_takes_four_bytes_of_columns(op, dtype, width, n, how):
    """Where that divides their number and the partial results of all are not too many, nor pairs; nowhere else. In parts too."""
    made = compiled(column(op, dtype, how), binary=False, N=n)
    loops = [i for k in made.after("map-loops").kernels for i in k.insts if i.attr("columns")]
    many = op == "argmin" or how == "@chunk(1024)" and width > 1 or n % width
    assert loops[0].attr("vector", 1) == (1 if many else width)
    agree(made, *({"x": values((m, n), dtype, m)} for m in (0, 1, 131)))


def lies(text: str, aligned: bool, **defines):
    """A kernel for arrays of which it is known that their rows begin at multiples of 16 bytes, or that they may not: as a call knows it."""
    return compile(Source("k.vx", text), defines=defines, aligned={"x": aligned, "y": aligned})


@pytest.mark.parametrize("dtype, width", [("f64", 1), ("f32", 1), ("f16", 2), ("u8", 4)])
@pytest.mark.parametrize("m", [131, 9000])  # in one part, in 16
@pytest.mark.parametrize("aligned", [True, False])
def test_a_call_takes_four_bytes_of_columns_where_their_rows_are_aligned(dtype, width, m, aligned):
    """Though their number is no constant: rows that begin at multiples of 16 bytes are such multiples long."""
    made = lies(column("sum", dtype), aligned, M=m)
    loop = next(i for i in made.after("map-loops").kernels[0].insts if i.attr("columns"))
    assert loop.attr("vector", 1) == (width if aligned else 1)
    assert (loop.attr("one_run"), len(made.plan.kernels)) == ((None, 1) if m == 131 else (True, 2))
    for n in (0, 16, 80) if aligned else (1, 2, 31, 33, 80):
        if m * n < 400_000:
            x = values((m, n), dtype, n)
            assert run_flat(made.plan, {"x": x}, {})["y"].tobytes() == run_ast(made.typed, {"x": x}, {})["y"].tobytes()


@pytest.mark.parametrize("op, dtype", [("sum", "f32"), ("sum", "f64"), ("max", "f16"), ("sum", "i32"), ("argmin", "f32")])
def test_few_long_columns_go_in_smaller_blocks_with_more_loads_under_way(op, dtype):
    """Where the call alone knows how many there are, in a launch of their own, to the bits of that of many."""
    made = compiled(column(op, dtype), M=1100)
    loops = [next(i for i in k.insts if i.attr("columns")) for k in made.after("map-loops").kernels]
    assert [(loop.attr("columns"), loop.attr("ahead")) for loop in loops] == [(8, 64), (32, None)]
    names = [kernel.name for kernel in made.plan.kernels]
    for n in (0, 1, 7, 33, 512, 513):
        x = values((1100, n), dtype, n)
        runs = [step.kernel.name for step in schedule(made.plan, Binding({"N": n}, {}, {})).launches if step.grid]
        assert runs == ([] if n == 0 else names[:1] if n <= 512 else names[1:])
        assert run_flat(made.plan, {"x": x}, {})["y"].tobytes() == run_ast(made.typed, {"x": x}, {})["y"].tobytes()


FEW = [(1100, 257, 8, 64), (1100, 512, 8, 64), (1100, 513, 32, None), (1023, 257, 32, None), (1100, 5, 5, None)]


@pytest.mark.parametrize("m, n, across, ahead", FEW)
def test_so_do_few_of_a_constant_number(m, n, across, ahead):
    made = compiled(column(), M=m, N=n)
    (loop,) = (i for k in made.after("map-loops").kernels for i in k.insts if i.attr("columns"))
    assert (loop.attr("columns"), loop.attr("ahead")) == (across, ahead)
    assert {used.spill_stores for used in made.binary.kernels.values()} == {0}
    x = values((m, n), "f32", n)
    assert run_flat(made.plan, {"x": x}, {})["y"].tobytes() == run_ast(made.typed, {"x": x}, {})["y"].tobytes()


BATCHED = "kernel k(x: {dtype}[B, M, {n}], out y: f32[B, {n}]) {{ parallel b in B, j in {n} {{ y[b, j] = {value}; }} }}"
DEEP = "kernel k(x: f32[B, C, M, N], out y: f32[B, C, N]) { parallel b in B, c in C, j in N { y[b, c, j] = sum(x[b, c, :, j]); } }"
AGAIN = "kernel k(x: f32[M, N], out y: f32[K]) { parallel j in K { y[j] = sum(x[:, j % N]); } }"
RUNS = [
    (BATCHED.format(dtype="f32", n="N", value="sum(x[b, :, j])"), [(3, 40, 33), (2, 5, 64), (4, 3, 1), (2, 0, 7), (0, 3, 7)], True),
    (BATCHED.format(dtype="f16", n="N", value="sum(x[b, :, j]) - min(x[b, :, j])"), [(3, 40, 33), (2, 5, 64), (1, 3, 1)], True),
    (BATCHED.format(dtype="f16", n=70, value="max(x[b, :, j])"), [(3, 40, 70)], True),
    (BATCHED.format(dtype="f16", n=6, value="sum(x[b, :, j])"), [(3, 40, 6)], None),  # fewer than a warp: of several at once
    (DEEP, [(2, 3, 40, 33), (1, 2, 3, 5)], True),
]


@pytest.mark.parametrize("text, shapes, one_run", RUNS)
def test_a_block_has_columns_of_one_run(text, shapes, one_run):
    made = compiled(text, binary=False)
    (loop,) = (i for i in made.after("map-loops").kernels[0].insts if i.attr("columns"))
    assert loop.attr("one_run") == one_run
    agree(made, *({"x": values(shape, "f16" if "f16" in text else "f32", at)} for at, shape in enumerate(shapes)))


@pytest.mark.parametrize("n, k", [(5, 33), (40, 100), (40, 80), (7, 3)])
def test_columns_that_are_read_again_need_not_be_whole_runs(n, k):
    made = compiled(AGAIN, binary=False)
    assert not any(i.attr("one_run") for i in made.after("map-loops").kernels[0].insts)
    agree(made, {"x": values((70, n), "f32", n), "y": np.zeros(k, "f4")})


REFUSED = [
    ("", "sum(x[:, j] * y[j])", "it reads y, which it writes"),
    ("@lanes(64)", "sum(x[:, j])", "its order has 64 lanes, and a block has room for 32 of each"),
    ("@lanes(1)", "sum(x[:, j])", "@lanes(1) says how many share one"),
    ("@chunk(3)", "sum(x[:, j])", "its partial results are no power of two"),
]


@pytest.mark.parametrize("how, value, why", REFUSED)
def test_what_keeps_a_thread_or_a_warp_to_a_column(how, value, why):
    made = compiled(f"kernel k(x: f32[M, N], inout y: f32[N]) {{ {how} parallel j in N {{ y[j] = {value}; }} }}", binary=False)
    assert taken(made) == [None]
    assert any(why in remark.message for remark in made.remarks if remark.kind == "missed")
    agree(made, {"x": values((70, 33), "f32", 1), "y": values((33,), "f32", 2)})


MATRIX, SIZES = "x: f32[M, N], out y: f32[N]", {"B": 3, "M": 37, "N": 45}
BRANCHES = "if s > 0.0 { y[j] = s; } else { y[j] = -s; }"
OTHERS = [
    ("x: f32[M, N], out y: f32[M]", "parallel i in M { y[i] = sum(x[i]); }", "MN", None),
    ("x: f32[B, M, N], out y: f32[B, N]", "parallel b in B, j in N { y[b, j] = sum(x[b, :, j]); }", "BMN", 32),
    ("x: f32[M, B, 3], out y: f32[B, 3]", "parallel b in B, j in 3 { y[b, j] = sum(x[:, b, j]); }", "MB3", 32),  # one after the other
    ("x: f32[B, M, 3], out y: f32[B, 3]", "parallel b in B, j in 3 { y[b, j] = sum(x[b, :, j]); }", "BM3", 3),  # 3 of them
    ("x: f32[M, N, 2], out y: f32[N]", "parallel j in N { y[j] = sum(x[:, j, 1]); }", "MN2", None),
    ("x: f32[M, N], s: f32[M], out y: f32[N]", "parallel j in N { y[j] = dot(x[:, j], s); }", "MN M", 32),
    (MATRIX, "parallel j in N { let s = sum(x[:, j]); " + BRANCHES + " }", "MN", 32),
    (MATRIX, "parallel j in N { if j % 3 == 0 { y[j] = sum(x[:, j]); } else { y[j] = 1.0; } }", "MN", None),
]


@pytest.mark.parametrize("params, body, sizes, across", OTHERS)
def test_which_loops_go_along_columns(params, body, sizes, across):
    made = compiled(f"kernel k({params}) {{ {body} }}", binary=False)
    assert {*taken(made)} == {across}
    shapes = [tuple(SIZES[d] if d in SIZES else int(d) for d in dims) for dims in sizes.split()]
    agree(made, {name: values(shape, "f32", at) for at, (name, shape) in enumerate(zip("xs", shapes))})


SECTORS = [("f64", 8), ("f32", 4), ("f16", 4), ("u8", 4)]


@pytest.mark.parametrize("dtype, sectors", SECTORS)
def test_a_load_of_a_warp_is_of_whole_sectors(tmp_path, dtype, sectors):
    file = tmp_path / "k.vx"
    file.write_text(f"{column(dtype=dtype)}\nexample k(x = rand({dtype}, 64, 128));\n")
    got = vxc("explain", str(file), "--json")
    assert got.status == 0, got.err
    (kernel,) = json.loads(got.out)["kernels"]
    (load,) = (a for launch in kernel["launches"] for a in launch["accesses"] if a["buffer"] == "x")
    assert load["sectors_per_request"] == load["ideal_sectors_per_request"] == sectors


@pytest.mark.parametrize("chunk", [1, 2, 4, 16, 32, 64, 3, 6])
@pytest.mark.parametrize("n", [0, 1, 5, 33, 200])
def test_an_order_of_several_lanes_has_the_bits_of_that_of_one(chunk, n):
    x, one = values((n,), "f32", chunk), Order(1, chunk, 1, 1)
    shared = dealt(one, 16)
    assert shared.lanes == (min(chunk, 16) if chunk & (chunk - 1) == 0 else 1)
    assert reduce("sum", x, F32, shared).tobytes() == reduce("sum", x, F32, one).tobytes()


@pytest.mark.parametrize("dtype, length", [("f32", "M"), ("f16", "M"), ("f32", "131"), ("f32", "3000")])
def test_rows_of_a_transposed_view_have_the_bits_of_its_copy(dtype, length):
    """Rows as declared, columns as they lie: lanes stay those of the order, as many as a block has room for."""
    text = f"kernel k(x: {dtype}[N, {length}], out y: f32[N]) {{ parallel i in N {{ y[i] = sum(x[i]); }} }}"
    made = compiled(text, binary=False)
    turned = compile_plan(with_strides(made.tile, {"x": (1, 2)}), made.typed)
    order = next(i.attr("order") for i in made.tile.kernels[0].insts if i.op == "reduce")
    assert {*taken(turned)} == ({32} if order[2] <= 32 else {None})
    x = values((int(length) if length != "M" else 700, 37), dtype, 1).T
    want = run_ast(made.typed, {"x": x}, {})["y"]
    for plan in (turned.after("map-loops"), turned.plan):
        assert run_flat(plan, {"x": x}, {})["y"].tobytes() == want.tobytes()


SOFTMAX = "let m = max(x[:, j]); let s = sum(exp(x[:, j] - m)); parallel i in M { y[i, j] = exp(x[i, j] - m) / s; }"
MEAN = "let m = sum(x[:, j]) / M as f32; let d = sum((x[:, j] - m) * (x[:, j] - m)); "
NORM = MEAN + "parallel i in M { y[i, j] = (x[i, j] - m) * d * w[i]; }"
BEST = "let m = argmax(x[:, j]); z[j] = m; "
SEVERAL = [
    ("x: f32[M, N], out y: f32[M, N]", SOFTMAX, True),
    ("x: f32[M, N], w: f32[M], out y: f32[M, N]", NORM, True),
    ("x: f32[M, N], out y: f32[N]", "y[j] = sum(x[:, j]) + max(x[:, j]);", True),
    ("x: f32[M, N], out y: f32[N], out z: i64[N]", BEST + "if m > 3 { y[j] = x[m, j]; } else { y[j] = min(x[:, j]); }", False),
    ("x: f32[M, N], out y: f32[N], out z: i64[N]", BEST + "let n = min(x[:, j]); if m > 3 { y[j] = n; } else { y[j] = -n; }", True),
    ("x: f32[M, N], w: f32[M], out y: f32[N]", "let a = @lanes(8) max(w); y[j] = sum(x[:, j]) + a * max(x[:, j]);", True),
    ("x: f32[M, N], inout y: f32[1]", "let m = max(x[:, j]); let s = sum(x[:, j]); if s > m { atomic_max(y[0], m); }", False),
    ("x: f32[M, N], inout y: f32[1]", "let m = max(x[:, j]); parallel i in M { if x[i, j] > m - 1.0 { atomic_max(y[0], m); } }", True),
    ("inout x: f32[M, N], out y: f32[N]", "let m = max(x[:, j]); parallel i in M { x[i, j] = x[i, j] - m; } y[j] = m;", False),
    ("x: f32[M, N], out y: f32[N]", "let m = max(x[:, j]) + min(x[:, j]); serial i in 3 { y[j] = m; }", False),
    ("x: f32[M, N], out y: f32[M, N]", "let m = max(x[:, j]); parallel i in M { y[i, j] = m + sum(x[:, j]); }", False),
]


@pytest.mark.parametrize("params, body, shared", SEVERAL)
@pytest.mark.parametrize("known", [False, True])
def test_lanes_share_columns_of_which_more_is_made_than_a_sum(params, body, shared, known):
    shapes = [(0, 5), (1, 1), (200, 3), (131, 65)]
    for m, n in shapes[2:] if known else [("M", "N")]:
        made = compiled(f"kernel k({params}) {{ parallel j in N {{ {body} }} }}", binary=False, **({"M": m, "N": n} if known else {}))
        assert bool(*taken(made)) == shared
        for at, (rows, columns) in enumerate([(m, n)] if known else shapes):
            arrays = {"x": values((rows, columns), "f32", at), "w": values((rows,), "f32", 9), "y": np.zeros(1, "f4")}
            agree(made, {name: x for name, x in arrays.items() if f"{name}: " in params.replace("out y", "")})


@pytest.mark.parametrize("arrays, to, across", [("inout x: f32[M, N]", "x", None), ("x: f32[M, N], out y: f32[M, N]", "y", 32)])
def test_what_is_read_before_the_reduction_is_what_was_there_before_the_store(arrays, to, across):
    body = f"let first = x[0, j]; {to}[0, j] = sum(x[:, j]) * first + first;"
    made = compiled(f"kernel k({arrays}) {{ parallel j in N {{ {body} }} }}", binary=False)
    assert taken(made) == [across]
    agree(made, *({"x": values(shape, "f32", 3)} for shape in ((1, 1), (70, 33))))


def test_one_array_is_not_passed_twice_where_it_is_written():
    text = "kernel k(x: f32[M, N], out y: f32[M, N]) { parallel j in N { y[0, j] = sum(x[:, j]); } }"
    with pytest.raises(VxcError, match="E0233"):
        compiled(f"{text} program p(inout a: f32[M, N]) {{ k(a, a); }}", binary=False)
