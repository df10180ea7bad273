"""Faults that tile compilers have had, continued from `test_cases_tiles.py`: reductions, scans, what threads hand over, barriers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import compiled, output, outputs, refused
from tests.tile_kernels import block, run, small
from vxc.dtypes import DTYPES
from vxc.ir.walk import Regions

NAN = np.nan


# ---- reductions and scans of tiles -----------------------------------------------------------------------------------


def reduced(call: str, m: int, n: int, dtype: str, result: str, threads: int, space: str = "fragment") -> str:
    return block(
        f"x: {dtype}[{m}, {n}], out y: {result}[{m}]",
        f"{space} f: {dtype}[{m}, {n}]; copy(x, f); y = {call}(f, axis = 1);",
        threads,
    )


@pytest.mark.parametrize("n", [96, 100, 120, 127, 768, 1280])
@pytest.mark.parametrize("m", [1, 2, 4, 8])
def test_row_sums_at_ordinary_hidden_sizes(m, n):
    x = small(m, n)
    assert run(reduced("sum", m, n, "f32", "f32", 128), x=x).tolist() == x.sum(1).tolist()


@pytest.mark.parametrize("n, threads", [(48, 32), (48, 96), (96, 96), (96, 128)])
def test_butterflies_over_widths_that_are_no_power_of_two(n, threads):
    x = np.arange(1, n + 1, dtype=np.float32)[None]
    assert run(reduced("sum", 1, n, "f32", "f32", threads), x=x).tolist() == [n * (n + 1) // 2]
    text = block("x: f32[32, 3], out y: f32[3]", "fragment f: f32[32, 3]; copy(x, f); y = max(f, axis = 0);", 256)
    assert run(text, x=np.arange(96, dtype=np.float32).reshape(32, 3)).tolist() == [93, 94, 95]


@pytest.mark.parametrize("call, numpy", [("sum", np.sum), ("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("tile", [1, 2, 3])
def test_several_results_of_each_thread_over_the_middle_axis(tile, call, numpy):
    text = f"""kernel k(x: f32[M, 8, 16], out y: f32[M, 16]) {{ @threads(128) grid b in ceildiv(M, {tile}) {{
        fragment f: f32[{tile}, 8, 16]; copy(x[b*{tile}, 0, 0], f); let r = {call}(f, axis = 1); copy(r, y[b*{tile}, 0]); }} }}"""
    x = small(16, 8, 16)
    assert run(text, x=x).tolist() == numpy(x, axis=1).tolist()


def test_a_result_keeps_its_reduced_dimension():
    text = block(
        "x: f32[12, 37], out o: f32[12, 1]",
        "fragment f: f32[12, 37]; fragment y: f32[12, 1]; copy(x, f); y[:, 0] = sum(f, axis = 1); copy(y, o);",
    )
    x = small(12, 37)
    assert output(text, x=x).tolist() == x.sum(1, keepdims=True).tolist()


FOLDS = [("sum", np.sum), ("max", np.max), ("min", np.min), ("absmax", lambda x, axis: np.abs(x).max(axis))]


@pytest.mark.parametrize("call, numpy", FOLDS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i64"])
@pytest.mark.parametrize("m, n, threads, space", [(64, 33, 32, "fragment"), (16, 16, 256, "shared"), (4, 128, 96, "fragment")])
def test_row_reductions_of_tiles(m, n, threads, space, dtype, call, numpy):
    x = small(m, n).astype(DTYPES[dtype].numpy)
    result = dtype if dtype[0] == "i" else "f32"
    assert run(reduced(call, m, n, dtype, result, threads, space), x=x).tolist() == numpy(x.astype(np.float64), axis=1).tolist()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("call, name", [("max", "maxnum"), ("min", "minnum")])
def test_nan_in_a_tile(call, name, dtype):
    x = np.arange(64).astype(DTYPES[dtype].numpy)[None]
    x[0, 7] = NAN
    wide = "f64" if dtype == "f64" else "f32"
    onto = block(
        f"x: {dtype}[1, 64], out y: {wide}[1]",
        f"fragment f: {dtype}[1, 64]; fragment a: {wide}[1] = -1.0; copy(x, f); a = {call}(a, {call}(f, axis = 1)); copy(a, y);",
        64,
    )
    assert np.isnan(run(reduced(call, 1, 64, dtype, wide, 64), x=x)).all() and np.isnan(run(onto, x=x)).all()
    assert run(reduced(name, 1, 64, dtype, wide, 64), x=x).tolist() == [63.0 if call == "max" else 0.0]


@pytest.mark.parametrize("dtype, expected", [("i8", -54), ("i16", 202), ("i32", 202), ("f32", 202), ("f16", 202), ("bf16", 202)])
def test_narrow_sums_wrap_where_they_are_stored(dtype, expected):
    narrow = f" as {dtype}" if dtype in ("i8", "i16") else ""
    text = block(
        f"x: {dtype}[1, 8], out y: {dtype}[1]",
        f"fragment f: {dtype}[1, 8]; copy(x, f); let s = sum(f, axis = 1); y[0] = s[0]{narrow};",
        32,
    )
    x = np.array([[26, 26, 26, 26, 26, 26, 26, 20]]).astype(DTYPES[dtype].numpy)
    assert run(text, x=x).astype(np.float64).tolist() == [expected]


@pytest.mark.parametrize("shape, tile", [((64, 64), (32, 32)), ((48, 40), (16, 8)), ((25, 25), (16, 16))])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_of_each_tile(axis, shape, tile):
    a, z = tile
    text = f"""kernel k(x: f32[M, N], out y: f32[M, N]) {{ @threads(128) grid i in ceildiv(M, {a}), j in ceildiv(N, {z}) {{
        shared s: f32[{a}, {z}]; fragment f: f32[{a}, {z}];
        copy(x[i*{a}, j*{z}], s); f = cumsum(s, axis = {axis}); copy(f, y[i*{a}, j*{z}]); }} }}"""
    x, want = small(*shape), np.zeros(shape, np.float32)
    for i in range(0, shape[0], a):
        for j in range(0, shape[1], z):
            want[i : i + a, j : j + z] = x[i : i + a, j : j + z].cumsum(axis)
    assert run(text, x=x).tolist() == want.tolist()


def test_scan_from_the_end():
    text = block("x: f32[4, 50], out y: f32[4, 50]", """shared s: f32[4, 50]; fragment f: f32[4, 50];
        parallel i in 4, j in 50 { s[i, j] = x[i, 49 - j]; }
        f = cumsum(s, axis = 1); parallel i in 4, j in 50 { y[i, j] = f[i, 49 - j]; }""")  # fmt: skip
    x = small(4, 50)
    assert output(text, x=x).tolist() == x[:, ::-1].cumsum(1)[:, ::-1].tolist()


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_of_some_rows_leaves_the_others(axis):
    text = block(
        "x: f32[128, 8], out y: f32[128, 8]",
        f"shared s: f32[128, 8]; copy(x, s); s[64:128, :] = cumsum(x[64:128, :], axis = {axis}); copy(s, y);",
    )
    x = small(128, 8)
    assert output(text, x=x).tolist() == np.concatenate([x[:64], x[64:].cumsum(axis)]).tolist()


@pytest.mark.parametrize("m", [8, 64, 136])
def test_a_running_maximum_keeps_every_lane(m):
    text = block(f"a: i32[32, {m}], out o: i32[32]", f"""shared s: i32[32] = -1000;
        parallel t in 32 {{ serial i in {m} // 8, j in 8 {{ s[t] = max(s[t], a[t, 8*i + j]); }} }} copy(s, o);""", 32)  # fmt: skip
    a = small(32, m, dtype="i4")
    assert run(text, a=a).tolist() == a.max(1).tolist()


# ---- barriers and hand-over ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 10, 31, 32, 58])
def test_two_writes_of_one_shared_array_by_different_threads(at):
    text = block("a: i32[80], out o: i32[64]", f"shared s: i32[64]; copy(a[0:64], s); s[{at}:{at + 6}] = 7; copy(s, o);", 64)
    a = small(80, dtype="i4")
    want = a[:64].copy()
    want[at : at + 6] = 7
    assert run(text, a=a).tolist() == want.tolist()


@pytest.mark.parametrize("trips", [0, 1, 2, 8])
def test_a_pipelined_loop_reads_a_buffer_and_then_overwrites_it(trips):
    text = block("a: i32[K, 32], s0: i32[32], out o: i32[32]", """shared s: i32[32]; fragment acc: i32[32] = 0; copy(s0, s);
        @stages(2) pipelined k in K { parallel i in 32 { acc[i] += s[i]; } copy(a[k, :], s); } copy(acc, o);""", 32)  # fmt: skip
    a, s0 = small(trips, 32, dtype="i4"), small(32, dtype="i4", seed=1)
    want = s0 * (trips > 0) + a[: max(trips - 1, 0)].sum(0)
    assert run(text, a=a, s0=s0).tolist() == want.tolist()


def test_a_double_buffer():
    text = block(
        "a: i32[9, 64], out o: i32[9, 64]",
        "shared s: i32[2, 64]; serial i in 9 { copy(a[i, :], s[i % 2, :]); parallel t in 64 { o[i, t] = s[i % 2, 63 - t]; } }",
        64,
    )
    a = small(9, 64, dtype="i4")
    assert output(text, a=a).tolist() == a[:, ::-1].tolist()


@pytest.mark.parametrize("active", [1, 32, 48, 64])
def test_some_threads_read_what_all_wrote(active):
    text = block(
        "x: f32[64], inout y: f32[64]",
        f"shared s: f32[64]; parallel t in 64 {{ s[t] = x[t]; }} parallel t in 64 {{ if t < {active} {{ y[t] = s[{active - 1} - t]; }} "
        f"}}",
        64,
    )
    x, y = small(64), small(64, seed=1)
    assert run(text, x=x, y=y).tolist() == [*x[:active][::-1].tolist(), *y[active:].tolist()]


def test_few_threads_write_what_all_read():
    text = block(
        "out o: i32[512]",
        "shared a: i32[32]; shared c: i32[32]; parallel t in 512 { if t < 32 { a[t] = t as i32; c[t] = t as i32; } } "
        "parallel t in 512 { o[t] = a[t % 32] + c[31 - t % 32]; }",
        512,
    )
    assert output(text).tolist() == [31] * 512
    assert barriers_in_branches(text) == [False]


def barriers_in_branches(text: str) -> list[bool]:
    """For each barrier of the threads, whether it stands in an `if`."""
    (kernel,) = compiled(text, binary=False).plan.kernels
    regions = Regions.of(kernel.insts)
    return [any(kernel.insts[p].op == "if" for p in regions.parents(at)) for at, inst in enumerate(kernel.insts) if inst.op == "barrier"]


def test_an_exchange_under_a_condition_that_varies():
    text = block(
        "x: i32[64], out y: i32[64]",
        "shared s: i32[64]; copy(x, s); parallel t in 64 { if t % 2 == 0 { s[t ^ 1] = s[t]; } } copy(s, y);",
        64,
    )
    assert output(text, x=np.arange(64, dtype=np.int32)).tolist() == [t - t % 2 for t in range(64)]
    assert barriers_in_branches(text) == [False, False]
    assert refused(text.replace("s[t ^ 1] = s[t]", "s[t ^ 2] = s[t]")) == ["E0312"]


def test_an_exchange_under_a_condition_of_the_block():
    text = """kernel k(x: i32[B, 64], out y: i32[B, 64]) { @threads(64) grid b in B { shared s: i32[64]; copy(x[b, :], s);
        if b % 2 == 1 { fragment f: i32[64]; parallel t in 64 { f[t] = s[63 - t]; } copy(f, s); } copy(s, y[b, :]); } }"""
    x = small(5, 64, dtype="i4")
    want = x.copy()
    want[1::2] = x[1::2, ::-1]
    assert output(text, x=x).tolist() == want.tolist()


def test_what_one_arm_of_a_branch_writes_is_read_after_it():
    """Nothing is written before the branch that the read has to wait for."""
    text = """kernel k(x: i32[B, 64], out y: i32[B, 64]) { @threads(64) grid b in B { shared s: i32[64]; copy(x[b, :], s); var n = 0;
        fragment f: i32[64]; parallel t in 64 { f[t] = s[63 - t]; }
        if b % 2 == 1 { parallel t in 64 { s[t] = f[t] * 2; } } else { n = 5; }
        parallel t in 64 { y[b, t] = s[63 - t] + (n as i32); } } }"""
    x = small(5, 64, dtype="i4")
    want = x[:, ::-1] + 5
    want[1::2] = x[1::2] * 2
    assert output(text, x=x).tolist() == want.tolist()


def test_a_condition_of_the_block_sees_the_store_before_it():
    text = block("inout a: i32[2]", "if a[0] > 0 { a[0] = 0; } if a[0] > 0 { a[1] = 1; }")
    assert output(text, a=np.array([1, 7], np.int32)).tolist() == [0, 7]


def test_halves_of_a_shared_tile_swap_in_place():
    text = block(
        "x: f32[64, 128], out y: f32[64, 128]",
        "shared s: f32[64, 128]; copy(x, s); parallel i in 32, j in 128 { let t = s[i, j]; s[i, j] = s[i + 32, j]; s[i + 32, j] = t; "
        "} copy(s, y);",
    )
    x = small(64, 128)
    assert run(text, x=x).tolist() == np.concatenate([x[32:], x[:32]]).tolist()


def test_stores_of_one_element_by_all_iterations_are_refused():
    assert refused(block("out y: i32[1]", "parallel t in 64 { y[0] = t as i32; }")) == ["E0312"]
    assert refused(block("out y: i32[1]", "parallel t in 64 { y[0] = 5; }")) == ["E0312"]


def test_a_small_shared_array_outlives_the_start_of_a_large_one():
    text = block("x: f32[100], out y: f32[100]", """shared p: f32[10]; copy(x[50:60], p); shared q: f32[100]; copy(x, q);
        parallel i in 100 { y[i] = q[99 - i] + p[i % 10]; }""")  # fmt: skip
    x = np.arange(100, dtype=np.float32)
    assert output(text, x=x).tolist() == (x[::-1] + np.tile(x[50:60], 10)).tolist()


def test_a_shared_array_that_every_trip_reads_keeps_its_bytes():
    """`r` is written after the last access to `a` in the text, but the loop comes back to `a`."""
    text = block("x: f32[64], out y: f32[3, 64]", """shared a: f32[64]; copy(x, a); serial t in 3 {
        fragment f: f32[64]; parallel i in 64 { f[i] = a[63 - i] + (t as f32); }
        shared r: f32[64]; parallel i in 64 { r[i] = f[i] * 2.0; } parallel i in 64 { y[t, i] = r[63 - i]; } }""", 64)  # fmt: skip
    x = small(64)
    assert output(text, x=x).tolist() == [(2 * (x + t)).tolist() for t in range(3)]


@pytest.mark.parametrize("at", [0, 3, 7])
def test_a_store_of_the_block_after_stores_of_its_warps(at):
    text = block("x: f32[8, 64], out y: f32[8]", f"shared s: f32[8]; parallel i in 8 {{ s[i] = sum(x[i]); }} s[{at}] = 0.5; copy(s, y);")
    x = small(8, 64)
    want = x.sum(1)
    want[at] = 0.5
    assert run(text, x=x).tolist() == want.tolist()


def test_atomics_of_two_kinds_keep_their_order():
    text = block("inout o: i32[1]", """shared s: i32[1] = 0; parallel i in 256 { atomic_add(s[0], 1); }
        parallel i in 256 { atomic_max(s[0], 50); } copy(s, o);""")  # fmt: skip
    assert run(text, o=np.zeros(1, np.int32)).tolist() == [256]
    assert run(text.replace("50", "500"), o=np.zeros(1, np.int32)).tolist() == [500]


def test_an_atomic_of_a_block_happens_once():
    text = "kernel k(inout n: i32[1], out o: i32[3]) { @threads(64) grid b in 3 { let old = atomic_add(n[0], 1); o[b] = old - old + 5; } }"
    (n, o) = outputs(text, n=np.zeros(1, np.int32)).values()
    assert n.tolist() == [3] and o.tolist() == [5, 5, 5]


def test_every_lane_fills_its_own_array():
    text = """kernel k(x: f32[M, 40], out y: f32[M, 40]) { parallel i in M {
        local w: f32[8];
        parallel c in 8 { w[c] = x[i, c * 5]; }
        parallel j in 40 { y[i, j] = w[j // 5]; } } }"""
    x = small(5, 40)
    assert output(text, x=x).tolist() == np.repeat(x[:, ::5], 5, axis=1).tolist()
