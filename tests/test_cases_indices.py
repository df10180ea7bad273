"""Faults that compilers of this kind have had, continued from `test_cases_maths.py`: indices, memory, control, names."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

from tests.everywhere import bits, compiled, output, outputs, refused
from vxc.diag import VxcError
from vxc.driver import compile
from vxc.interp.flat_interp import run_flat
from vxc.source import Source


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


# ---- indices and extents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m, n, k", [(2, 512, 48), (3, 7, 5), (5, 33, 32), (4, 6, 4), (16, 64, 7), (16, 100, 3), (16, 96, 6)])
def test_a_table_is_read_by_a_rest_that_does_not_divide_the_row(m, n, k):
    text = "kernel k(t: i32[K], out o: i32[M, N]) { parallel i in M, j in N { o[i, j] = t[j % K]; } }"
    t = rng().integers(0, 1000, k).astype(np.int32)
    expected = np.broadcast_to(t[np.arange(n) % k], (m, n))
    assert (output(text, binary=k == 7, t=t, dims={"M": m, "N": n}) == expected).all()
    fixed = f"kernel k(t: i32[{k}], out o: i32[{m}, {n}]) {{ parallel i in {m}, j in {n} {{ o[i, j] = t[j % {k}]; }} }}"
    assert (output(fixed, binary=False, t=t) == expected).all()


@pytest.mark.parametrize("n", [24, 40, 48, 96, 192, 229, 257, 514, 576])
def test_extents_that_are_no_powers_of_two(n):
    text = """kernel k(d: f32[N], x: f32[1, N], out y: f32[M, N], out z: f32[1, N]) {
        parallel i in M, j in N { y[i, j] = d[j] * 2; } parallel j in N { z[0, j] = x[0, j] * 2; } }"""
    d = rng().standard_normal(n, np.float32)
    got = outputs(text, binary=n == 48, d=d, x=d[None], dims={"M": 7})
    assert (got["y"] == d * 2).all() and (got["z"] == d * 2).all()


@pytest.mark.parametrize("v", [0, 13, 200, 512, 600])
def test_runtime_extents_bound_what_is_written(v):
    text = """kernel k(a: f32[512], v: i64, out b: f32[512]) {
        parallel i in 512 { b[i] = 0.0; } parallel i in min(v, 512) { b[i] = a[i] - 1; } }"""
    a = rng().standard_normal(512, np.float32)
    assert (output(text, binary=v == 13, a=a, v=v) == np.where(np.arange(512) < v, a - 1, 0)).all()


def test_a_loop_that_starts_late():
    text = "kernel k(a: i32[8], inout o: i32[8]) { parallel i in 2..6 { o[i] = a[i]; } }"
    assert output(text, a=np.arange(8, dtype=np.int32), o=np.full(8, -1, np.int32)).tolist() == [-1, -1, 2, 3, 4, 5, -1, -1]


def test_shifted_reads():
    text = "kernel k(a: f32[N], out o: f32[N - 1]) { parallel i in N - 1 { o[i] = a[i + 1]; } }"
    assert output(text, a=np.arange(65, dtype=np.float32)).tolist() == list(range(1, 65))
    text = "kernel k(a: i32[N], out o: i32[N], out p: i32[N]) { parallel i in N { o[i] = a[(i + 1) % N]; p[i] = a[i] + a[(i + 1) % N]; } }"
    got = outputs(text, a=np.arange(128, dtype=np.int32))
    assert got["o"].tolist() == [*range(1, 128), 0] and got["p"].tolist() == [*(2 * i + 1 for i in range(127)), 127]


def test_strided_slices_keep_their_step():
    text = "kernel k(x: i32[M, 9], out y: i32[M, 5], inout z: i32[M, 9]) { parallel i in M { y[i] = x[i, 0::2]; z[i, 1::3] = 7; } }"
    x = np.arange(18, dtype=np.int32).reshape(2, 9)
    got = outputs(text, x=x, z=x)
    z = x.copy()
    z[:, 1::3] = 7
    assert (got["y"] == x[:, ::2]).all() and (got["z"] == z).all()


@pytest.mark.parametrize("slice_", ["6:12", "6 :+ 6"])
def test_slices_past_the_end_are_refused(slice_):
    assert refused(f"kernel k(out o: i32[8]) {{ parallel i in 1 {{ o[{slice_}] = 7; }} }}") == ["E0216"]
    assert refused(f"kernel k(out o: i32[8]) {{ parallel i in 1 {{ local s: i32[8] = 0; s[{slice_}] = 7; o = s; }} }}") == ["E0216"]


def test_negative_indices_are_refused_or_reported():
    assert refused("kernel k(out o: i32[4, 8]) { parallel i in 1 { o[-1, -1] = 42; } }") == ["E0215"]
    made = compiled("kernel k(x: i32[8], at: i64[N], out y: i32[N]) { parallel i in N { y[i] = x[at[i]]; } }")
    arrays = {"x": np.arange(8, dtype=np.int32), "at": np.array([3, -1])}
    for plan in (made.tile, made.plan):
        with pytest.raises(VxcError) as caught:
            run_flat(plan, arrays, {}, source=made.source)
        assert [d.code for d in caught.value.diagnostics] == ["E0720"]


def test_offsets_beyond_32_bits():
    text = "kernel k(out o: i64[B], m: i64, n: i64) { parallel b in B { o[b] = b * m * n; } }"
    made = compiled(text)
    assert output(text, dims={"B": 320}, m=2560, n=3072)[319] == 2508718080
    assert "long long" in made.cuda
    made = compiled("kernel k(x: f32[B, M, N], out o: f32[B]) { parallel b in B { o[b] = x[b, 0, 0]; } }")
    index = re.search(r"x\[\((\w+) \* M \+ 0ll\) \* N \+ 0ll\]", made.cuda)[1]
    assert f"const long long {index} = " in made.cuda


def test_constant_offsets_beyond_32_bits_compile():
    made = compiled("kernel k(a: i8[2147483712], out o: i8[1]) { parallel i in 1 { o[0] = a[2147483653]; } }")
    assert "a[2147483653" in made.cuda
    made = compiled("kernel k(a: i8[2000000000], out o: i8[4]) { parallel i in 4 { o[i] = a[i * 600000000]; } }")
    assert "600000000" in made.cuda and "long long" in made.cuda


def test_a_loop_index_steps_past_32_bits():
    """The last step leaves the range of i32, though no iteration does."""
    text = """kernel k(out o: i64[4]) { @threads(32) grid b in 1 { parallel t in 4 {
        var n = 0 as i64; serial j in t..2147483647 step 1000000000 { n += j; } o[t] = n; } } }"""
    assert "for (long long j = " in compiled(text).cuda
    assert "for (int j = " in compiled(text.replace("2147483647", "1147483646"), binary=False).cuda
    assert output(text, binary=False).tolist() == [3 * t + 3 * 10**9 for t in range(4)]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_arrays(shape):
    text = "kernel k(x: f32[M, N], out y: f32[M, N], out s: f32[M]) { parallel i in M { y[i] = x[i] * 2; s[i] = sum(x[i]); } }"
    got = outputs(text, binary=shape == (0, 0), x=np.ones(shape, np.float32))
    assert got["y"].shape == shape and got["s"].tolist() == [0.0] * shape[0] and not np.signbit(got["s"]).any()


@pytest.mark.parametrize("shape", ["0", "3, 0", "0, 3", "3, 0, 2"])
def test_a_sum_over_an_array_without_elements(shape):
    text = f"kernel k(x: f32[{shape}], out y: f32[2]) {{ parallel i in 2 {{ y[i] = sum(x) + 5.0; }} }}"
    x = np.zeros([int(n) for n in shape.split(",")], np.float32)
    assert output(text, x=x).tolist() == [5.0, 5.0]


def test_an_empty_slice():
    text = """kernel k(x: f32[N], out y: f32[N], out s: f32[1]) {
        parallel i in N { y[i] = x[i]; } parallel i in 1 { y[2:2] = 7; s[0] = sum(x[3:3]); } }"""
    got = outputs(text, x=np.ones(5, np.float32))
    assert got["y"].tolist() == [1] * 5 and bits(got["s"]) == [0]


VIEWS = {
    "stepped": lambda a: a[::2, ::-3], "transposed": lambda a: a.T, "offset": lambda a: a[3:, 5:],
    "broadcast": lambda a: np.broadcast_to(a[:1, :1], (6, 7)), "one wide": lambda a: a[:, :1],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_arrays(view):
    x = VIEWS[view](rng().standard_normal((12, 15), np.float32))
    text = "kernel k(x: f32[M, N], out o: f32[M, N]) { parallel i in M, j in N { o[i, j] = x[i, j] + 1; } }"
    assert (output(text, binary=view == "stepped", x=x) == x + np.float32(1)).all()


def test_grids_past_65535():
    text = "kernel k(x: i32[M, 8], out y: i32[M, 8]) { parallel i in M, j in 8 { y[i, j] = x[i, j] + 1; } }"
    x = np.arange((65535 * 2 + 1) * 8, dtype=np.int32).reshape(-1, 8)
    assert (output(text, x=x) == x + 1).all()
    assert "blockIdx.y" not in compiled(text, binary=False).cuda


def test_guarded_accesses_stay_inside():
    text = """kernel k(x: f32[N], n: i64, inout y: f32[N], inout c: i32[4]) {
        parallel i in 100 { let v = if i < N { x[i] } else { -5.0 }; if i < N { y[i] = v; } if i < 4 { atomic_add(c[i], 1); } } }"""
    got = outputs(text, x=np.arange(30, dtype=np.float32), n=3, y=np.zeros(30, np.float32), c=np.zeros(4, np.int32))
    assert got["y"].tolist() == list(range(30)) and got["c"].tolist() == [1] * 4


def test_gather_and_scatter_by_either_index_type():
    for dtype, numpy in (("i64", np.int64), ("i32", np.int32)):
        text = f"""kernel k(x: f32[N, 2], at: {dtype}[N], inout o: f32[S, 2]) {{
            parallel i in N, d in 2 {{ atomic_add(o[at[i], d], x[i, d]); }} }}"""
        at = np.array([7, 2, 2, 9], numpy)
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        expected = np.zeros((10, 2), np.float32)
        np.add.at(expected, at, x)
        assert (output(text, x=x, at=at, o=np.zeros((10, 2), np.float32)) == expected).all()


# ---- memory, order, control ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 256, 512])
def test_atomics_on_elements_that_iterations_share(n):
    text = "kernel k(a: i32[N], inout b: i32[B]) { parallel i in N { atomic_add(b[i // 2], a[i]); } }"
    a = np.arange(1, n + 1, dtype=np.int32)
    assert output(text, binary=n == 2, a=a, b=np.zeros(n // 2 + 1, np.int32)).tolist() == [*a.reshape(-1, 2).sum(1).tolist(), 0]


def test_an_atomic_gives_the_value_before():
    text = """kernel k(inout c: i32[M], out before: i32[M], out after: i32[M]) {
        parallel i in M { let b = atomic_add(c[i], 5); before[i] = b; let a = atomic_max(c[i], 100); after[i] = a; } }"""
    got = outputs(text, c=np.array([1, 200], np.int32))
    assert got["before"].tolist() == [1, 200] and got["after"].tolist() == [6, 205] and got["c"].tolist() == [100, 205]


def test_a_longer_loop_over_an_array_that_an_earlier_loop_touched():
    text = """kernel k(x: i32[256], out y: i32[256]) {
        local f: i32[256] = 7; parallel i in 100 { f[i] = x[i]; } parallel i in 256 { y[i] = f[i] + 1; } }"""
    x = np.arange(256, dtype=np.int32)
    assert output(text, x=x).tolist() == [*range(1, 101), *[8] * 156]


def test_sibling_loops_keep_their_order():
    text = """kernel k(inout x: f32[N], z: f32[N], out y: f32[N], out w: f32[N]) {
        parallel i in N { x[i] = max(x[i], 0.0); y[i] = x[i] + z[i]; } parallel i in N { w[i] = x[N - 1 - i]; } }"""
    x, z = rng().standard_normal((2, 300), np.float32)
    got = outputs(text, x=x, z=z)
    clipped = np.maximum(x, 0)
    assert (got["y"] == clipped + z).all() and (got["w"] == clipped[::-1]).all()


def test_two_writes_of_one_row():
    for at in (0, 10, 50, 58):
        text = f"kernel k(a: i32[R, 64], out s: i32[R, 64]) {{ parallel r in R {{ s[r] = a[r]; s[r, {at} :+ 6] = 7; }} }}"
        a = np.arange(128, dtype=np.int32).reshape(2, 64)
        expected = a.copy()
        expected[:, at : at + 6] = 7
        assert (output(text, binary=at == 10, a=a) == expected).all()


def test_lanes_read_what_other_lanes_wrote():
    text = """kernel k(x: f32[M, N], inout s: f32[M, N], out y: f32[M, N]) {
        parallel i in M { s[i] = x[i]; parallel t in N { if t < 48 { y[i, t] = s[i, 47 - t]; } else { y[i, t] = 0.0; } } } }"""
    x = rng().standard_normal((5, 64), np.float32)
    expected = np.zeros_like(x)
    expected[:, :48] = x[:, 47::-1]
    for lanes in ("", "@lanes(64) "):
        assert (outputs(text.replace("parallel i", f"{lanes}parallel i"), x=x, s=np.zeros_like(x))["y"] == expected).all()


def test_halves_of_rows_swap_in_place():
    text = "kernel k(inout x: f32[M, 64]) { parallel i in M, j in 32 { let t = x[i, j]; x[i, j] = x[i, j + 32]; x[i, j + 32] = t; } }"
    x = rng().standard_normal((128, 64), np.float32)
    assert (output(text, x=x) == np.roll(x, 32, 1)).all()


def test_neighbours_swapped_under_a_condition_collide():
    assert refused("kernel k(inout s: i32[32]) { parallel t in 32 { if t % 2 == 0 { s[t ^ 1] = s[t]; } else { s[t] = 0; } } }") == ["E0312"]


def test_barriers_stand_outside_of_branches_over_rows():
    text = """kernel k(x: f32[M, N], f: bool[M], inout s: f32[M, N], out y: f32[M]) {
        @lanes(64) parallel i in M { if f[i] { s[i] = x[i]; } y[i] = if f[i] { sum(s[i]) } else { 0.0 }; } }"""
    x = rng().integers(0, 9, (6, 100)).astype(np.float32)
    f = np.arange(6) % 2 == 0
    assert (outputs(text, x=x, f=f, s=np.zeros_like(x))["y"] == np.where(f, x.sum(1), 0)).all()


def test_a_store_that_every_iteration_makes_is_refused():
    assert refused("kernel k(x: f32[N], out s: f32[1]) { parallel i in N { s[0] = x[i]; } }") == ["E0312"]


@pytest.mark.parametrize("condition", ["i == 3", "i >= 1 && i < 2"])
def test_a_store_that_all_iterations_but_one_make_is_refused(condition):
    text = "kernel k(inout y: i32[1]) { parallel i in 8 { if %s { y[0] = 1; } else { } } }" % condition
    assert compiled(text, binary=False).plan.kernels
    assert refused(text.replace("{ y[0] = 1; } else { }", "{ } else { y[0] = 1; }")) == ["E0312"]


@pytest.mark.parametrize(
    "one, two", [("i <= 0", "i <= 1"), ("i < 1", "i < 2"), ("i >= 7", "i >= 6"), ("i > 6", "i > 5"), ("!(i <= 6)", "!(i < 6)")]
)
def test_a_store_that_two_iterations_make_is_refused(one, two):
    text = "kernel k(inout y: i32[1]) { parallel i in 8 { if %s { y[0] = 1; } } }"
    assert output(text % one, binary=False, y=np.zeros(1, np.int32)).tolist() == [1]
    assert refused(text % two) == ["E0312"]


def test_nested_branches_assign_what_they_say():
    text = """kernel k(c: bool[N], d: bool[N], out o: i32[N, 3]) { parallel i in N { var v: i32 = 0;
        serial j in 3 { if c[i] { if d[i] { v = 1; } else { v = 2; } } else { v = 3; } o[i, j] = v; v = 9; } } }"""
    c, d = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert output(text, c=c, d=d).tolist() == [[1] * 3, [2] * 3, [3] * 3, [3] * 3]


def test_a_condition_sees_the_store_before_it():
    text = "kernel k(inout a: i32[M, 2]) { parallel i in M { if a[i, 0] > 0 { a[i, 0] = 0; } if a[i, 0] > 0 { a[i, 1] = 1; } } }"
    assert output(text, a=np.array([[1, 7]], np.int32)).tolist() == [[0, 7]]


def test_a_large_guarded_nest_compiles():
    text = """kernel k(src: u8[64, N : s], inout dst: u8[64, N : s]) {
        parallel t in 64, k in N { if t < 1 { dst[t, k] = src[t, k]; } } }"""
    src = rng().integers(0, 256, (64, 129)).astype(np.uint8)
    got = output(text, src=src, dst=np.zeros_like(src))
    assert (got[0] == src[0]).all() and not got[1:].any()


def test_long_straight_line_code():
    body = " ".join(f"a[{i}] = a[{i + 1}] * c;" for i in range(2000))
    start = time.process_time()
    made = compile(Source("long.vx", f"kernel k(c: f32, inout a: f32[2001]) {{ parallel i in 1 {{ {body} }} }}"))
    assert made.cuda and time.process_time() - start < 10  # seconds; a quadratic step would take minutes


# ---- names -----------------------------------------------------------------------------------------------------------


FORMS = {
    "plain": str, "CRLF": lambda t: t.replace("\n", "\r\n"), "BOM": lambda t: "\ufeff" + t, "NFD": lambda t: t.replace("ö", "o\u0308", 1),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_names_and_comments_outside_ascii(form):
    text = "kernel größe(inout α: f32[n]) {\n  parallel i in n { α[i] = α[i] * 2; }  # комментарий\n}\n# größe\n"
    made = compile(Source.decode("größe.vx", FORMS[form](text).encode()))
    assert made.cuda.isascii() and made.binary.cubin
    assert run_flat(made.plan, {"α": np.arange(3, dtype=np.float32)}, {})["α"].tolist() == [0, 2, 4]
