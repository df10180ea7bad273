"""Tile statements in the AST interpreter: copy, gemm, reductions and scans along an axis, blocks, programs."""

from __future__ import annotations

import numpy as np
import pytest
from ast_kernels import RNG, budget, equal, f32, fault, out, run

from vxc.dtypes import DTYPES

pytestmark = pytest.mark.usefixtures(budget.__name__)


# copy ----------------------------------------------------------------------------------------------------------------------------


def copied(x: np.ndarray, source: str, rows: int, columns: int, *, params="", more="", **arguments) -> np.ndarray:
    """What `copy(source, s)` puts into a shared tile."""
    text = f"""kernel k(x: i32[M, N]{params}, out y: i32[{rows}, {columns}]) {{ grid b in 1 {{
        shared s: i32[{rows}, {columns}];
        copy({source}, s{more});
        parallel i in {rows}, j in {columns} {{ y[i, j] = s[i, j]; }}
    }} }}"""
    return out(text, x=x, **arguments)


def grid(m: int, n: int) -> np.ndarray:
    return (100 * np.arange(m, dtype=np.int32)[:, None] + np.arange(n, dtype=np.int32)) + 1


def test_what_lies_outside_the_source_reads_zero_or_the_pad():
    x = grid(5, 7)
    wide = np.pad(x, 8)
    for r, c in ((0, 0), (3, 5), (-2, -3), (-2, 5), (4, 6), (5, 0), (-4, 0)):
        window = "x[r :+ 4, c :+ 3]"
        want = wide[8 + r : 12 + r, 8 + c : 11 + c]
        equal(copied(x, window, 4, 3, params=", r: i64, c: i64", r=r, c=c), want)
        equal(copied(x, window, 4, 3, params=", r: i64, c: i64", more=", pad = -99", r=r, c=c), np.where(want == 0, -99, want))


def test_a_tile_start_takes_the_extents_of_the_other_operand():
    equal(copied(grid(5, 7), "x[2, 4]", 4, 3), np.pad(grid(5, 7), 4)[6:10, 8:11])
    text = """kernel k(x: f32[B, M, N], out y: f32[B, M, N]) { grid b in B, t in ceildiv(M, 4) {
        fragment f: f32[4, 8];
        copy(x[b, t*4, 0], f);
        copy(f, y[b, t*4, 0]);
    } }"""
    x = f32(3, 6, 5)
    equal(out(text, x=x), x)


def test_steps_on_either_side():
    x, want = grid(6, 9), np.zeros((6, 9), np.int32)
    text = """kernel k(x: i32[6, 9], inout y: i32[6, 9]) { grid b in 1 {
        shared s: i32[3, 3];
        copy(x[1:6:2, 0:9:3], s);
        copy(s, y[0:6:2, 2:9:3]);
    } }"""
    want[0:6:2, 2:9:3] = x[1:6:2, 0:9:3]
    equal(out(text, x=x, y=np.zeros((6, 9), np.int32)), want)


def test_fixed_and_indirect_dimensions():
    pages = np.array([2, 0, 3, 0], np.int64)
    text = """kernel k(x: f32[P, 2, R, D], page: i64[G], out y: f32[G, 4, 5]) { grid g in G {
        shared s: f32[4, 5];
        copy(x[page[g], 1, 0 :+ 4, :5], s);
        copy(s, y[g, :, :]);
    } }"""
    x = f32(4, 2, 3, 5)
    equal(out(text, x=x, page=pages, y=np.zeros((4, 4, 5), np.float32)), np.pad(x[pages, 1], ((0, 0), (0, 1), (0, 0))))
    rows = "kernel k(x: f32[R, D], page: i64[G], out y: f32[G * 2, D]) { grid g in G { copy(x[page[g]*2 :+ 2, :], y[g*2 :+ 2, :]); } }"
    x = f32(7, 3)
    equal(out(rows, x=x, page=pages), np.pad(x, ((0, 1), (0, 0))).reshape(4, 2, 3)[pages].reshape(8, 3))


def test_extents_known_only_when_run():
    text = "kernel k(x: f32[N], n: i64[B], inout y: f32[B, N]) { grid b in B { let c = n[b]; copy(x[b :+ c], y[b, 1 :+ c]); } }"
    x, n = f32(6), np.array([0, 3, -2, 9, 5])
    want = np.full((5, 6), 7, np.float32)
    for b in range(5):
        for k in range(max(n[b], 0)):
            if 1 + k < 6:
                want[b, 1 + k] = x[b + k] if b + k < 6 else 0
    equal(out(text, x=x, n=n, y=np.full((5, 6), 7, np.float32)), want)


def test_each_element_converts_once_as_in_a_store():
    text = """kernel k(x: f64[N], out y: f16[N]) { grid b in ceildiv(N, 8) {
        fragment f: f16[8];
        copy(x[b*8 :+ 8], f);
        copy(f, y[b*8 :+ 8]);
    } }"""
    x = np.array([1 + 2.0**-11 + 2.0**-40, 65504, 65520, 2.0**-25, -0.0, np.nan])  # by way of f32 the first would round down
    equal(out(text, x=x), np.array([1 + 2.0**-10, 65504, np.inf, 0, -0.0, np.nan], np.float16))
    widening = "kernel k(x: i8[N], out y: i32[N]) { grid b in 1 { copy(x, y); } }"
    equal(out(widening, x=np.array([-128, 5], np.int8)), [-128, 5])


def test_a_copy_reads_only_what_is_written():
    text = "kernel k(out y: f32[8]) { grid b in 2 { shared s: f32[4]; if b == 0 { s[0:4] = 1.0; } copy(s, y[b*4 :+ 4]); } }"
    assert fault(text) == ("E0721", "`s[0]` is read, but nothing has written it (at b=1)", "s")
    outside = "kernel k(out y: f32[8]) { grid b in 1 { shared s: f32[4]; s[2:4] = 1.0; copy(s, y[-2 :+ 4]); } }"
    equal(out(outside, y=np.zeros(8, np.float32)), [1, 1, 0, 0, 0, 0, 0, 0])
    output = "kernel k(out y: f32[8]) { grid b in 1 { shared s: f32[4]; copy(y[2 :+ 4], s); } }"
    assert fault(output)[1] == "`y[2]` is read, but nothing has written it (at b=0)"


# gemm ----------------------------------------------------------------------------------------------------------------------------


def product(a: np.ndarray, b: np.ndarray, types: tuple[str, str], flags="", acc=None) -> np.ndarray:
    """`acc` (0 if none is given) after `gemm` has added the product; `a` and `b` as they lie in memory."""
    m, n = a.shape["trans_a" in flags], b.shape["trans_b" not in flags]
    of_a, of_b, of_c = (f"{dtype}{list(shape)}" for dtype, shape in zip((types[0], *types), (a.shape, b.shape, (m, n))))
    text = f"""kernel k(a: {of_a}, b: {of_b}, inout c: {of_c}) {{ grid g in 1 {{
        shared sa: {of_a};
        fragment fb: {of_b};
        fragment acc: {of_c};
        copy(a, sa);
        copy(b, fb);
        copy(c, acc);
        gemm(sa, fb, acc{flags});
        copy(acc, c);
    }} }}"""
    return out(text, a=a, b=b, c=np.zeros((m, n), DTYPES[types[1]].numpy) if acc is None else acc)


@pytest.mark.parametrize("flags", ["", ", trans_a = true", ", trans_b = true", ", trans_a = true, trans_b = true"])
@pytest.mark.parametrize("types", [("f16", "f32"), ("f64", "f64"), ("i8", "i32"), ("u8", "i32"), ("bf16", "f32"), ("f8e4m3", "f32")])
def test_transposed_factors(flags, types):
    factor, total = (DTYPES[name].numpy for name in types)
    a, b = (RNG.integers(0, 9, shape).astype(factor) for shape in ((5, 3), (3, 7)))
    start = RNG.integers(-9, 9, (5, 7)).astype(total)
    got = product(a.T.copy() if "trans_a" in flags else a, b.T.copy() if "trans_b" in flags else b, types, flags, start)
    equal(got, a.astype(np.int64) @ b.astype(np.int64) + start)


def test_floats_are_joined_by_fma_in_increasing_k():
    big, one = np.float32(2**24), np.float32(1)
    equal(product(np.array([[big, one, one, -big]]), np.ones((4, 1), np.float32), ("f32", "f32")), [[0]])
    x = np.array([[1 + 2.0**-12]], np.float32)
    equal(product(x, x, ("f32", "f32"), acc=-np.array([[1 + 2.0**-11]], np.float32)), [[2.0**-24]])
    x = np.array([[1 + 2.0**-27]])
    equal(product(x, x, ("f64", "f64"), acc=-np.array([[1 + 2.0**-26]])), [[2.0**-54]])


def test_integers_are_exact_and_wrap():
    a = np.full((1, 40), -128, np.int8)
    equal(product(a, a.T.copy(), ("i8", "i32")), [[40 * 128 * 128]])
    top = np.array([[2**31 - 1]], np.int32)
    equal(product(a[:, :1], a[:, :1], ("i8", "i32"), acc=top), [[-(2**31) + 128 * 128 - 1]])


def test_gemm_reads_only_what_is_written():
    text = """kernel k(out y: f32[2, 2]) { grid b in 1 {
        shared s: f16[2, 2]; fragment acc: f32[2, 2]%s;
        s[0, :] = 1.0;
        gemm(s, s, acc);
    } }"""
    assert fault(text % " = 0.0") == ("E0721", "`s[1, 0]` is read, but nothing has written it (at b=0)", "gemm(s, s, acc);")
    assert fault(text.replace("[0, :]", "[0:2, :]") % "")[1] == "`acc[0, 0]` is read, but nothing has written it (at b=0)"


# Blocks --------------------------------------------------------------------------------------------------------------------------


def test_each_block_has_its_own_tiles():
    text = """kernel k(x: f32[N], out y: f32[N]) { grid b in ceildiv(N, 4) {
        shared s: f32[4];
        parallel t in 4 { s[t] = 0.0; }
        if b % 2 == 0 { copy(x[b*4 :+ 4], s); }
        copy(s, y[b*4 :+ 4]);
    } }"""
    x = f32(14)
    equal(out(text, x=x), np.where(np.arange(14) // 4 % 2 == 0, x, 0))


def test_a_tile_declared_in_a_loop_is_new_in_each_iteration():
    text = """kernel k(out y: i32[3]) { grid b in 1 { serial t in 3 {
        fragment f: i32[2] = 5;
        f[0] = f[0] + 1;
        y[t] = f[0] + f[1];
    } } }"""
    equal(out(text), [11, 11, 11])
    assert fault(text.replace(" = 5", ""))[1] == "`f[0]` is read, but nothing has written it (at b=0, t=0)"


@pytest.mark.parametrize("trips", [0, 1, 2, 8])
def test_a_pipelined_loop_that_reads_before_it_overwrites(trips):
    text = """kernel k(a: i32[K, 32], s0: i32[32], out y: i32[32]) { grid b in 1 {
        shared s: i32[32];
        fragment acc: i32[32] = 0;
        copy(s0, s);
        @stages(2) pipelined k in K {
            parallel i in 32 { acc[i] += s[i]; }
            copy(a[k, :], s);
        }
        copy(acc, y);
    } }"""
    a, s0 = RNG.integers(0, 99, (trips, 32), np.int32), RNG.integers(0, 99, 32, np.int32)
    equal(out(text, a=a, s0=s0), a[: max(trips - 1, 0)].sum(0) + s0 * (trips > 0))


def test_trip_counts_of_blocks_differ():
    text = """kernel k(n: i64[B], x: f32[K, 4], out y: f32[B, 4]) { grid b in B {
        shared s: f32[4];
        fragment acc: f32[4] = 0.0;
        pipelined k in n[b] { copy(x[k, :], s); parallel j in 4 { acc[j] += s[j]; } }
        copy(acc, y[b, :]);
    } }"""
    x, n = RNG.integers(0, 9, (6, 4)).astype(np.float32), np.array([3, 0, 6, 1])
    equal(out(text, x=x, n=n), [x[:k].sum(0) for k in n])


def test_persistent_loops_outermost_and_inside():
    outermost = """kernel k(x: f32[N], out y: f32[N]) { persistent b in ceildiv(N, 4) { shared s: f32[4];
        copy(x[b*4 :+ 4], s); copy(s, y[b*4 :+ 4]);
    } }"""
    x = f32(10)
    equal(out(outermost, x=x), x)
    inside = """kernel k(x: f32[N], out y: f32[N]) { grid p in 3 { shared s: f32[4];
        persistent b in p..ceildiv(N, 4) step 3 { copy(x[b*4 :+ 4], s); copy(s, y[b*4 :+ 4]); }
    } }"""
    x = f32(27)
    equal(out(inside, x=x), x)


def test_independence_is_watched_in_tiles():
    text = 'kernel k(p: i64[N], out y: f32[8]) { @independent("?") grid b in N { fragment s: f32[1] = 1.0; copy(s, y[p[b] :+ 1]); } }'
    code, message, place = fault(text, p=np.array([0, 1, 2, 3, 3]))
    assert (code, place) == ("E0722", "y[p[b] :+ 1]")
    assert message == "`@independent` does not hold: b=3 writes `y[3]`, which b=4 writes"
    equal(out(text, p=np.arange(8)), np.ones(8))


def test_exchange_between_elements_of_a_fragment():
    text = """kernel k(x: i32[128], out y: i32[128]) { grid b in 1 {
        fragment f: i32[128];
        copy(x, f);
        parallel i in 128 { y[i] = f[i] + f[(i + 1) % 128]; }
    } }"""
    x = np.arange(128, dtype=np.int32)
    equal(out(text, x=x), x + np.roll(x, -1))


# Axes ----------------------------------------------------------------------------------------------------------------------------

AXES = """kernel k(x: i32[4, 6, 5], out y: i32[{shape}]) {{ grid b in 1 {{
    fragment f: i32[4, 6, 5];
    copy(x, f);
    {body}
}} }}"""


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reductions_and_scans_along_an_axis(axis):
    x = RNG.integers(-99, 99, (4, 6, 5), np.int32)
    shape = ", ".join(str(size) for k, size in enumerate(x.shape) if k != axis)
    for call, want in (("sum", x.sum(axis)), ("max", x.max(axis)), ("argmin", x.argmin(axis))):
        text = AXES.format(shape=shape, body=f"y = {call}(f, axis = {axis}){' as i32' * (call == 'argmin')};")
        equal(out(text, x=x), want)
    equal(out(AXES.format(shape="4, 6, 5", body=f"y = cumsum(f, axis = {axis});"), x=x), x.cumsum(axis))


def test_a_row_let_of_a_block_keeps_its_value():
    text = """kernel k(x: f32[4, 9], out y: f32[4]) { grid b in 1 {
        fragment f: f32[4, 9];
        copy(x, f);
        let m = max(f, axis = 1);
        parallel i in 4, j in 9 { f[i, j] = 0.0; }
        y = m;
    } }"""
    x = f32(4, 9)
    equal(out(text, x=x), x.max(1))


def test_locals_of_nested_parallel_loops():
    text = """kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M { parallel j in N {
        local w: f32[2] = 1.0;
        w[1] = x[i, j];
        y[i, j] = w[0] + w[1];
    } } }"""
    for shape in ((1, 4), (3, 1), (3, 4)):
        x = f32(*shape)
        equal(out(text, x=x), x + np.float32(1))


# Programs ------------------------------------------------------------------------------------------------------------------------

PROGRAM = """
program both(x: f32[N], a: f32, out y: f32[N]) {
    let half = N // 2;
    local w: f32[N];
    scale(x, a, w, UPTO = 1000);
    shift(w, half, y);
}
kernel scale<UPTO = 4>(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { if i < UPTO { y[i] = a * x[i]; } } }
kernel shift(x: f32[N], by: i64, out y: f32[N]) { parallel i in N { y[i] = x[(i + by) % N]; } }
"""


def program(text: str, **arguments) -> dict[str, np.ndarray]:
    return run(text, name="both", **arguments)


def test_a_program_runs_its_kernels_in_order():
    x = f32(7)
    equal(program(PROGRAM, x=x, a=2.0)["y"], np.roll(2 * x, -3))
    assert program(PROGRAM, x=x[:0], a=2.0)["y"].shape == (0,)


def test_locals_of_a_program_are_unwritten_at_first():
    code, message, place = fault(PROGRAM.replace("1000", "5"), name="both", x=f32(7), a=2.0)
    assert (code, place) == ("E0721", "x[(i + by) % N]")
    assert message == "`x[5]` is read, but nothing has written it (at i=2)"


def test_kernels_of_a_program_share_arrays():
    text = """program both(inout y: f32[N]) { twice(y); twice(y); }
    kernel twice(inout y: f32[N]) { parallel i in N { y[i] = 2.0 * y[i]; } }"""
    y = f32(5)
    equal(program(text, y=y)["y"], 4 * y)


def test_sizes_of_a_program_are_checked_at_each_call():
    text = """program both(x: f32[N], out y: f32[N]) { local w: f32[N - 3]; copy_(x, w); }
    kernel copy_(x: f32[N], out y: f32[N - 3]) { parallel i in N - 3 { y[i] = x[i]; } }"""
    code, message, _ = fault(text, name="both", x=f32(2))
    assert (code, message) == ("E0705", "`w` would have the shape [-1]")
