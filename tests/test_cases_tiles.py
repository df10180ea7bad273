"""Faults that tile compilers have had, each as a small kernel with its right values, with the numbers around it.

`test_cases_tile_rows.py` goes on with reductions, scans and what threads hand over. Every kernel runs on the syntax tree, on the
IR as lowered and as threads in two orders, with the same bits. What is a property of maths kernels too (division, shifts, casts,
64-bit offsets, views) is in the other `test_cases_*.py`. Not here:
 - which instruction is chosen (vector widths, packed conversions, cp.async, swizzles, registers of a layout), alignment, loop layouts that
   an author writes: what passes choose is in test_vector_widths.py, test_shared_placement.py and test_transposes.py, here only values;
 - two nested pads: the language gives each `copy` one;
 - atomics in f16 and bf16, in pairs and quads, with memory orders: the language has atomics on 32- and 64-bit elements in one order;
 - sparse gemm: not in the language; a gemm whose accumulator nobody cleared is a read of unwritten memory here;
 - a warning for stores of one value by all iterations: the language refuses them;
 - caches, devices, installation, None and batch-1 strides as arguments: `test_binding.py`, `test_launch.py`, `test_doctor.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import bits, compiled, output, outputs, refused
from tests.tile_kernels import block, run, small
from vxc.diag import VxcError
from vxc.dtypes import DTYPES
from vxc.interp.ast_interp import run_ast

# ---- indices of tiles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [64, 96, 100])
@pytest.mark.parametrize("k", [3, 5, 6, 7, 48])
def test_a_table_is_read_by_a_rest_that_does_not_divide_the_tile(k, n):
    text = block(f"a: f32[16, {n}], t: f32[{k}], out c: f32[16, {n}]", f"parallel i in 16, j in {n} {{ c[i, j] = a[i, j] + t[j % {k}]; }}")
    a, t = small(16, n), small(k)
    assert run(text, a=a, t=t).tolist() == (a + t[np.arange(n) % k]).tolist()


@pytest.mark.parametrize("space", ["shared", "fragment"])
def test_a_tile_without_elements(space):
    body = f"{space} s: i32[0, 5]; copy(x[b :+ 0, 0 :+ 5], s); parallel j in 5 {{ y[j] = j as i32; }}"
    assert output(block("x: i32[3, 5], out y: i32[5]", body), x=small(3, 5, dtype="i4")).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n, shift", [(128, 1), (128, 127), (100, 1), (129, 64)])
def test_a_shifted_read_of_a_fragment_is_another_threads_element(n, shift):
    text = block(
        f"a: i32[{n}], out o: i32[{n}], out p: i32[{n}]",
        f"fragment f: i32[{n}]; copy(a, f); parallel i in {n} {{ o[i] = f[(i+{shift}) % {n}]; p[i] = f[i] + f[(i+{shift}) % {n}]; }}",
    )
    a = np.arange(n, dtype=np.int32)
    got = outputs(text, binary=False, a=a)
    assert got["o"].tolist() == np.roll(a, -shift).tolist() and got["p"].tolist() == (a + np.roll(a, -shift)).tolist()


def test_a_serial_loop_writes_a_spread_tile_out():
    text = block(
        "x: i32[16, 16], out o: i32[16, 16]",
        "fragment f: i32[16, 16]; copy(x, f); serial i in 16, j in 16 { o[i, j] = f[i, j]; }",
    )
    x = np.arange(256, dtype=np.int32).reshape(16, 16)
    assert output(text, x=x).tolist() == x.tolist()


@pytest.mark.parametrize("m, n", [(16, 16), (64, 33), (100, 7)])
def test_a_serial_sum_over_a_spread_accumulator(m, n):
    text = block(
        f"x: f32[{m}, {n}], out o: f32[{m}]",
        f"""fragment acc: f32[{m}, {n}]; fragment s: f32[{m}] = 0.0; copy(x, acc);
        parallel i in {m} {{ serial j in {n} {{ s[i] += acc[i, j]; }} }} copy(s, o);""",
    )
    x = small(m, n)
    assert run(text, x=x).tolist() == x.sum(1).tolist()


@pytest.mark.parametrize("index, code", [("6:12", "E0216"), ("8:9", "E0216"), ("0:9", "E0216"), ("-1:3", "E0215")])
@pytest.mark.parametrize("space", ["shared", "fragment"])
def test_a_fill_past_the_end_is_refused(space, index, code):
    assert refused(block("out o: i32[8]", f"{space} s: i32[8] = 0; s[{index}] = 7; copy(s, o);")) == [code]


@pytest.mark.parametrize("space", ["shared", "fragment"])
def test_a_constant_index_past_the_end_is_refused(space):
    assert refused(block("out o: i32[1]", f"{space} s: i32[8] = 0; o[0] = s[8];")) == ["E0215"]


@pytest.mark.parametrize("n", [24, 32, 40, 48, 96])
def test_a_row_is_broadcast_into_a_tile_of_any_width(n):
    text = f"""kernel k(d: f32[N], out x: f32[M, N]) {{ @threads(128) grid by in ceildiv(M, 64), bx in ceildiv(N, {n}) {{
        fragment r: f32[{n}]; fragment t: f32[64, {n}];
        copy(d[bx*{n}], r);
        parallel i in 64, j in {n} {{ t[i, j] = r[j] * 2.0; }}
        copy(t, x[by*64, bx*{n}]);
    }} }}"""
    d = small(4 * n)
    assert run(text, d=d, dims={"M": 130}).tolist() == np.tile(2 * d, (130, 1)).tolist()


def test_a_wide_row_is_spread_by_digits():
    text = block(
        "x: i32[16, 14], y: i32[16, 448], out o: i32[16, 448]",
        "fragment a: i32[16, 14]; copy(x, a); parallel i in 16, j in 448 { o[i, j] = y[i, j] + a[i, j // 32]; }",
    )
    x, y = small(16, 14, dtype="i4"), small(16, 448, dtype="i4")
    assert run(text, x=x, y=y).tolist() == (y + np.repeat(x, 32, axis=1)).tolist()


@pytest.mark.parametrize("first, second", [(100, 256), (128, 129), (33, 64)])
def test_a_loop_longer_than_an_earlier_one_over_a_fragment(first, second):
    text = block(
        f"x: i32[{second}], out y: i32[{second}]",
        f"fragment f: i32[{second}] = 7; parallel i in {first} {{ f[i] = x[i]; }} parallel i in {second} {{ y[i] = f[i] + 1; }}",
    )
    x = np.arange(second, dtype=np.int32)
    assert run(text, x=x).tolist() == np.where(x < first, x + 1, 8).tolist()


@pytest.mark.parametrize("n", [1, 31, 33, 100, 127, 128, 129, 257])
def test_a_spread_fragment_of_any_length(n):
    text = block(f"x: i32[{n}], out y: i32[{n}]", f"fragment f: i32[{n}]; copy(x, f); parallel i in {n} {{ f[i] += 1; }} copy(f, y);")
    x = small(n, dtype="i4")
    assert run(text, x=x).tolist() == (x + 1).tolist()


@pytest.mark.parametrize("start, stop, step", [(2, 6, 1), (5, 100, 1), (1, 99, 3), (7, 7, 1)])
def test_a_loop_over_threads_that_starts_late(start, stop, step):
    text = block("x: i32[100], inout y: i32[100]", f"parallel i in {start}..{stop} step {step} {{ y[i] = x[i]; }}")
    x, y = np.arange(100, dtype=np.int32), np.full(100, -1, np.int32)
    want = y.copy()
    want[start:stop:step] = x[start:stop:step]
    assert run(text, x=x, y=y).tolist() == want.tolist()


@pytest.mark.parametrize("shape", [(2, 3, 5), (5, 1, 7), (3, 4, 4)])
def test_three_loops_in_one(shape):
    a, b, c = shape
    body = f"parallel i in {a}, j in {b}, k in {c} {{ y[i, j, k] = x[j, i, k] + k as i32; }}"
    text = block(f"x: i32[{b}, {a}, {c}], out y: i32[{a}, {b}, {c}]", body)
    x = small(b, a, c, dtype="i4")
    assert run(text, x=x).tolist() == (x.swapaxes(0, 1) + np.arange(c)).tolist()


def test_a_copy_whose_stride_exceeds_32_bits_in_all_compiles():
    made = compiled("kernel k(a: i8[2000000000], out o: i8[4]) { grid b in 1 { copy(a[0 : 2000000000 : 600000000], o); } }")
    assert "600000000" in made.cuda


# ---- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 59, 60, 61, 64])
@pytest.mark.parametrize("pad", [-99, -1, 0])
def test_a_copy_pads_what_lies_outside(size, pad):
    text = block("a: i32[M, N], out o: i32[64, 64]", f"shared s: i32[64, 64]; copy(a[0, 0], s, pad = {pad}); copy(s, o);")
    a = small(size, size, dtype="i4")
    assert run(text, a=a).tolist() == np.pad(a, ((0, 64 - size),) * 2, constant_values=pad).tolist()


@pytest.mark.parametrize("dtype, most", [("u8", 256), ("f16", 128), ("f32", 64), ("f64", 32)])
def test_copies_of_every_number_of_bytes(dtype, most):
    for n in range(1, most + 1, 1 if most < 100 else 5):
        text = block(f"a: {dtype}[{n}], inout o: {dtype}[{most}]", f"shared s: {dtype}[{n}]; copy(a, s); copy(s, o[0 :+ {n}]);", 32)
        a = np.arange(1, n + 1).astype(DTYPES[dtype].numpy)
        got = run(text, a=a, o=np.zeros(most, a.dtype))
        assert got[:n].tolist() == a.tolist() and not got[n:].any()


@pytest.mark.parametrize("n", [1, 127, 128, 129, 514, 3072])
@pytest.mark.parametrize("dtype", ["f32", "f8e4m3"])
def test_lengths_that_are_no_multiple_of_the_threads(dtype, n):
    text = block(f"a: {dtype}[{n}], out o: {dtype}[{n}]", f"shared s: {dtype}[{n}]; copy(a, s); copy(s, o);")
    a = small(n).astype(DTYPES[dtype].numpy)
    assert bits(run(text, a=a)) == bits(a)


@pytest.mark.parametrize("step, start", [(2, 0), (2, 1), (3, 0), (5, 2)])
def test_the_step_of_a_slice_counts(step, start):
    n = len(range(start, 20, step))
    text = block(f"x: f32[6, 20], out y: f32[6, {n}]", f"fragment f: f32[6, {n}]; copy(x[:, {start}:20:{step}], f); copy(f, y);")
    x = small(6, 20)
    assert run(text, x=x).tolist() == x[:, start::step].tolist()


@pytest.mark.parametrize("start", [0, 1, 2, 3, 5])
def test_starts_that_are_not_aligned(start):
    text = block(
        "a: f32[N], s: i64, out o: f32[64], out p: f32[64]",
        "shared t: f32[64]; copy(a[s :+ 64], t); copy(t, o); parallel i in 64 { p[i] = a[i+s]; }",
    )
    a = small(80)
    got = outputs(text, binary=False, a=a, s=start)
    assert got["o"].tolist() == got["p"].tolist() == a[start : start + 64].tolist()


CONVERSIONS = [("f16", "bf16"), ("bf16", "f16"), ("f32", "f16"), ("f16", "f32"), ("f32", "f8e4m3"), ("f32", "f8e5m2"), ("f8e5m2", "f16")]


@pytest.mark.parametrize("source, target", CONVERSIONS)
def test_copies_that_convert(source, target):
    text = f"""kernel k(x: {source}[M, N], out y: {target}[M, N]) {{ @threads(128) grid i in ceildiv(M, 16), j in ceildiv(N, 16) {{
        fragment f: {target}[16, 16]; copy(x[i*16, j*16], f); copy(f, y[i*16, j*16]); }} }}"""
    x = np.linspace(-300, 300, 33 * 17).reshape(33, 17).astype(np.float32).astype(DTYPES[source].numpy)
    assert bits(run(text, x=x)) == bits(x.astype(np.float32).astype(DTYPES[target].numpy))


@pytest.mark.parametrize("rows", [2048, 2049])
def test_rows_with_a_stride(rows):
    text = f"""kernel k(x: f16[M, N : {rows}], out y: f16[M, N]) {{ @threads(128) grid i in ceildiv(M, 4), j in ceildiv(N, 64) {{
        copy(x[i*4 :+ 4, j*64 :+ 64], y[i*4 :+ 4, j*64 :+ 64]); }} }}"""
    x = small(5, rows, dtype="f2")[:, :100]
    assert run(text, x=x).tolist() == x.tolist()


@pytest.mark.parametrize("v", [0, 13, 200, 600])
def test_a_run_time_extent_after_a_clear(v):
    text = block(
        "a: i32[512], v: i64, out o: i32[512]",
        "fragment f: i32[512] = 0; parallel i in min(v, 512) { f[i] = a[i] - 1; } copy(f, o);",
    )
    a = np.arange(1, 513, dtype=np.int32)
    assert run(text, a=a, v=v).tolist() == np.where(np.arange(512) < v, a - 1, 0).tolist()


# ---- gemm, blocks, limits --------------------------------------------------------------------------------------------

GEMM = """kernel k(a: f16[M, K], b: f16[K, N], out c: f32[M, N]) {{ @threads(128) grid by in ceildiv(M, {bm}), bx in ceildiv(N, {bn}) {{
    shared sa: f16[{bm}, {bk}]; shared sb: f16[{bk}, {bn}]; fragment acc: f32[{bm}, {bn}] = 0.0;
    @stages(2) pipelined k in ceildiv(K, {bk}) {{ copy(a[by*{bm}, k*{bk}], sa); copy(b[k*{bk}, bx*{bn}], sb); gemm(sa, sb, acc); }}
    copy(acc, c[by*{bm}, bx*{bn}]); }} }}"""


@pytest.mark.parametrize("bk", [24, 32])
@pytest.mark.parametrize("k", [1, 15, 17, 24, 31, 33, 40, 63, 65])
def test_gemm_with_a_tail_of_k(k, bk):
    a, b = small(40, k, dtype="f2"), small(k, 24, dtype="f2", seed=1)
    got = run(GEMM.format(bm=32, bn=16, bk=bk), a=a, b=b)
    assert got.tolist() == (a.astype(np.float32) @ b.astype(np.float32)).tolist()


@pytest.mark.parametrize("flags", ["", ", trans_a = true", ", trans_b = true", ", trans_a = true, trans_b = true"])
def test_gemm_of_transposed_factors(flags):
    m, n, k = 16, 24, 40
    a, b = ((k, m) if "trans_a" in flags else (m, k)), ((n, k) if "trans_b" in flags else (k, n))
    text = block(
        f"x: f16[{a[0]}, {a[1]}], y: f16[{b[0]}, {b[1]}], out c: f32[{m}, {n}]",
        f"""shared sa: f16[{a[0]}, {a[1]}]; shared sb: f16[{b[0]}, {b[1]}]; fragment acc: f32[{m}, {n}] = 0.0;
        copy(x, sa); copy(y, sb); gemm(sa, sb, acc{flags}); copy(acc, c);""",
    )
    x, y = small(*a, dtype="f2"), small(*b, dtype="f2", seed=1)
    want = (x.T if "trans_a" in flags else x).astype(np.float32) @ (y.T if "trans_b" in flags else y)
    assert run(text, x=x, y=y).tolist() == want.tolist()


def test_a_pipelined_gemm_of_an_odd_depth_is_machine_code():
    assert compiled(GEMM.format(bm=64, bn=64, bk=32)).binary.cubin


def test_an_accumulator_that_nobody_cleared_is_unwritten():
    made = compiled(GEMM.format(bm=16, bn=16, bk=16).replace("f32[16, 16] = 0.0", "f32[16, 16]"), binary=False)
    with pytest.raises(VxcError) as caught:
        run_ast(made.typed, {"a": small(16, 16, dtype="f2"), "b": small(16, 16, dtype="f2")}, {})
    assert caught.value.diagnostics[0].code == "E0721"


@pytest.mark.parametrize("k, blocks", [(64, 4), (65, 4), (3, 8)])
def test_blocks_add_into_one_tile(k, blocks):
    text = f"""kernel k(x: f32[K, 33], inout y: f32[33]) {{ @threads(64) grid b in {blocks} {{
        fragment f: f32[33] = 0.0;
        serial r in b..K step {blocks} {{ parallel j in 33 {{ f[j] += x[r, j]; }} }}
        parallel j in 33 {{ atomic_add(y[j], f[j]); }} }} }}"""
    x = small(k, 33)
    assert run(text, x=x, y=np.zeros(33, np.float32)).tolist() == x.sum(0).tolist()


@pytest.mark.parametrize("workers", [1, 3, 36])
@pytest.mark.parametrize("m, n", [(4, 1), (4, 2), (4, 9), (4, 11), (7, 11), (2, 48)])
def test_persistent_blocks_visit_every_tile_once(m, n, workers):
    text = f"""kernel k(inout y: i32[{m}, {n}, 5]) {{ @threads(32) grid w in {workers} {{
        persistent t in w..{m * n} step {workers} {{ parallel j in 5 {{ atomic_add(y[t // {n}, t % {n}, j], 1); }} }} }} }}"""
    assert (run(text, y=np.zeros((m, n, 5), np.int32)) == 1).all()


@pytest.mark.parametrize("n, threads", [(2048, 64), (2047, 96)])
def test_a_long_loop_over_few_threads(n, threads):
    text = block(f"out d: i32[{n}]", f"parallel i in {n} {{ let v = i as i32; d[i] = v; }}", threads)
    assert run(text).tolist() == list(range(n))


@pytest.mark.parametrize("threads", [1, 31, 33, 48, 1025])
def test_threads_are_whole_warps(threads):
    assert len(refused(block("out d: i32[4]", "parallel i in 4 { d[i] = 1; }", threads))) == 1


def test_more_shared_memory_than_there_is_is_refused():
    with pytest.raises(VxcError) as caught:
        body = "shared a: f32[40000]; shared c: f32[40000]; copy(x[0], a); copy(x[0], c); copy(a, y[0]); copy(c, y[0]);"
        compiled(block("x: f32[N], out y: f32[N]", body), binary=False)
    (found,) = caught.value.diagnostics
    assert found.code == "E0716" and "320,000" in found.message


@pytest.mark.parametrize("m, n", [(0, 5), (5, 0)])
def test_no_blocks_and_no_elements(m, n):
    text = """kernel k(x: f32[M, N], inout y: f32[M, N]) { @threads(64) grid i in ceildiv(M, 4), j in ceildiv(N, 4) {
        shared s: f32[4, 4]; copy(x[i*4, j*4], s); copy(s, y[i*4, j*4]); } }"""
    assert run(text, x=small(m, n), y=small(m, n)).shape == (m, n)


def test_branches_of_a_tile_loop_assign_what_they_say():
    text = block("c: bool[8], d: bool[8], out o: i32[8]", """fragment v: i32[8] = 0; parallel i in 8 { serial t in 2 {
        if c[i] { if d[i] { v[i] = 1; } else { v[i] = 2; } } else { v[i] = 3; } } } copy(v, o);""", 32)  # fmt: skip
    c, d = np.array([i & 1 for i in range(8)], bool), np.array([i & 2 for i in range(8)], bool)
    assert output(text, c=c, d=d).tolist() == np.where(c, np.where(d, 1, 2), 3).tolist()
