"""Tile kernels over the sizes that break compilers: around tiles, warps and blocks, primes, 1. Data are small integers, so every sum is
exact and results are compared with NumPy's to the bit.

By default: every pair of sizes of a gemm on all interpreters. The mark `gpu`: every triple, on the device.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from tests.everywhere import compiled, output, outputs
from vxc.diff import first_difference
from vxc.driver import Compiled
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat

SIZES = (1, 15, 16, 17, 33, 63, 64, 65, 100, 128, 129)
WIDTHS = (1, 24, 31, 33, 48, 96, 100, 127, 229, 768)
THREADS = (32, 96, 128, 256)


def integers(*shape: int, dtype: str = "f4", seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).integers(-9, 10, shape).astype(dtype)


# ---- gemm ------------------------------------------------------------------------------------------------------------

GEMM = """kernel gemm<BM = {bm}, BN = {bn}, BK = {bk}>(a: f16[M, K], b: f16[K, N], out c: f32[M, N]) {{
    @threads({threads}) grid by in ceildiv(M, BM), bx in ceildiv(N, BN) {{
        shared sa: f16[BM, BK];
        shared sb: f16[BK, BN];
        fragment acc: f32[BM, BN] = 0.0;
        @stages(2) pipelined k in ceildiv(K, BK) {{
            copy(a[by*BM, k*BK], sa);
            copy(b[k*BK, bx*BN], sb);
            gemm(sa, sb, acc);
        }}
        copy(acc, c[by*BM, bx*BN]);
    }}
}}"""
SMALL = {"bm": 16, "bn": 16, "bk": 16, "threads": 256}  # an element to a thread: cheap to interpret
TILES = (SMALL, {"bm": 64, "bn": 32, "bk": 24, "threads": 128}, {"bm": 24, "bn": 40, "bk": 8, "threads": 96})


@cache
def gemm_of(bm: int, bn: int, bk: int, threads: int) -> Compiled:
    return compiled(GEMM.format(bm=bm, bn=bn, bk=bk, threads=threads), binary=False)


def factors(m: int, n: int, k: int) -> dict[str, np.ndarray]:
    return {"a": integers(m, k, dtype="f2"), "b": integers(k, n, dtype="f2", seed=1)}


def multiplied(made: Compiled, m: int, n: int, k: int, *, whole: bool) -> None:
    """Threads give the exact product; with `whole`, so do the syntax tree and the IR as lowered."""
    arrays = factors(m, n, k)
    want = {"c": arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32)}
    runs = {"thread": lambda: run_flat(made.plan, arrays, {}, seed=m + n + k)}
    if whole:
        runs |= {"ast": lambda: run_ast(made.typed, arrays, {}), "tile": lambda: run_flat(made.tile, arrays, {})}
    for name, run in runs.items():
        assert not (difference := first_difference(want, run())), f"{name}, {(m, n, k)}: {difference}"


@pytest.mark.parametrize("m", SIZES)
def test_gemm_of_every_pair_of_sizes(m):
    """The triples (m, n, k) with k following from m and n as in a Latin square: every pair of two of them occurs."""
    for at, n in enumerate(SIZES):
        k = SIZES[(SIZES.index(m) + at) % len(SIZES)]
        multiplied(gemm_of(**SMALL), m, n, k, whole=True)


@pytest.mark.parametrize("tile", TILES[1:], ids=str)
@pytest.mark.parametrize("sizes", [(1, 129, 33), (65, 17, 1), (100, 63, 25), (64, 32, 24)], ids=str)
def test_gemm_of_uneven_tiles(tile, sizes):
    multiplied(gemm_of(**tile), *sizes, whole=True)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_gemm_of_all_sizes_on_the_gpu(tile):
    """One upload, a launch for each triple, one download: each wait for the device costs more than a product."""
    from vxc.runtime.driver import driver
    from vxc.runtime.launch import launch

    made, device = gemm_of(**tile), driver()
    most = max(SIZES) ** 2
    flat = {name: integers(most, dtype="f2", seed=seed) for seed, name in enumerate("ab")}
    sizes = list(product(SIZES, repeat=3))
    places = np.cumsum([0, *(m * n for m, n, _ in sizes)])
    results = np.full(places[-1], np.nan, np.float32)
    with device.active(0):
        memory = {name: device.allocate(array.nbytes) for name, array in (*flat.items(), ("c", results))}
        for name, array in (*flat.items(), ("c", results)):
            device.upload(memory[name], array)
        for (m, n, k), place in zip(sizes, places):
            shapes = {"a": ((m, k), "<f2", 0), "b": ((k, n), "<f2", 0), "c": ((m, n), "<f4", int(place) * 4)}
            launch(made, {name: on_device(int(memory[name]) + at, shape, kind) for name, (shape, kind, at) in shapes.items()}, stream=0)
        device.download(results, memory["c"])
        for held in memory.values():
            device.free(held)
    for (m, n, k), place in zip(sizes, places):
        a, b = (flat[name][: x * y].reshape(x, y).astype(np.float32) for name, x, y in (("a", m, k), ("b", k, n)))
        assert np.array_equal(results[place : place + m * n].reshape(m, n), a @ b), (m, n, k)


def on_device(address: int, shape: tuple[int, ...], kind: str) -> SimpleNamespace:
    """An array of the device as libraries show theirs."""
    return SimpleNamespace(
        __cuda_array_interface__={"shape": shape, "typestr": kind, "data": (address, False), "version": 3, "strides": None}
    )


# ---- reductions and scans along an axis -------------------------------------------------------------------------------

ALONG = {  # (shape of the tile, axis, shape of the result) of `rows` rows of `width`
    "rows": lambda rows, width: ((rows, width), 1, (rows,)),
    "columns": lambda rows, width: ((width, rows), 0, (rows,)),
}
REDUCED = {"sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "absmax": lambda x, axis: np.abs(x).max(axis)}
SCANNED = {"cumsum": np.cumsum, "cummax": np.maximum.accumulate}


def over_axis(call: str, tile: tuple[int, ...], result: tuple[int, ...], axis: int, threads: int, dtype: str = "f32") -> str:
    """Applies `call` to a tile for each leading index of x."""
    t, r = ", ".join(map(str, tile)), ", ".join(map(str, result))
    fixed = ", ".join("0" for _ in tile)
    return f"""kernel k(x: f32[B, {t}], out y: {dtype}[B, {r}]) {{ @threads({threads}) grid b in B {{
        fragment f: f32[{t}];
        copy(x[b, {fixed}], f);
        y[b] = {call}(f, axis = {axis});
    }} }}"""


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("how", ALONG)
def test_sums_over_an_axis(how, width, threads):
    tile, axis, result = ALONG[how](3, width)
    x = integers(2, *tile)
    got = output(over_axis("sum", tile, result, axis, threads), binary=False, x=x)
    assert got.tolist() == x.sum(axis + 1).tolist()


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("width", WIDTHS)
def test_reductions_over_an_axis(name, width):
    threads = THREADS[(WIDTHS.index(width) + len(name)) % len(THREADS)]
    tile, axis, result = ALONG["rows"](5, width)
    x = integers(2, *tile)
    got = output(over_axis(name, tile, result, axis, threads, "i64" if name == "argmax" else "f32"), binary=False, x=x)
    assert got.tolist() == REDUCED[name](x, axis + 1).tolist()


@pytest.mark.parametrize("name", SCANNED)
@pytest.mark.parametrize("how", ALONG)
@pytest.mark.parametrize("width", WIDTHS)
def test_scans_along_an_axis(width, how, name):
    threads = THREADS[(WIDTHS.index(width) + len(how)) % len(THREADS)]
    tile, axis, _ = ALONG[how](2, width)
    x = integers(1, *tile)
    got = output(over_axis(name, tile, tile, axis, threads), binary=False, x=x)
    assert got.tolist() == SCANNED[name](x, axis + 1).tolist()


@pytest.mark.parametrize("tile", [(16, 8, 16), (2, 8, 16), (3, 5, 7)])
def test_the_middle_axis(tile):
    x = integers(2, *tile)
    got = output(over_axis("sum", tile, (tile[0], tile[2]), 1, 128), binary=False, x=x)
    assert got.tolist() == x.sum(2).tolist()


ALL = REDUCED | SCANNED


def all_over_axis(tile: tuple[int, ...], result: tuple[int, ...], axis: int, threads: int) -> str:
    """Every reduction and scan of a tile, each to an array of its own name."""
    t, r = ", ".join(map(str, tile)), ", ".join(map(str, result))
    fixed = ", ".join("0" for _ in tile)
    outs = ", ".join(f"out y_{name}: {'i64' if name == 'argmax' else 'f32'}[B, {r if name in REDUCED else t}]" for name in ALL)
    calls = "\n".join(f"        y_{name}[b] = {name}(f, axis = {axis});" for name in ALL)
    return f"""kernel k(x: f32[B, {t}], {outs}) {{ @threads({threads}) grid b in B {{
        fragment f: f32[{t}];
        copy(x[b, {fixed}], f);
{calls}
    }} }}"""


@pytest.mark.parametrize("how", ALONG)
def test_all_over_an_axis_in_one_kernel(how):
    tile, axis, result = ALONG[how](3, 33)
    x = integers(2, *tile)
    got = run_flat(compiled(all_over_axis(tile, result, axis, 96), binary=False).plan, {"x": x}, {})
    assert {name: got[f"y_{name}"].tolist() for name in ALL} == {name: f(x, axis + 1).tolist() for name, f in ALL.items()}


@pytest.mark.gpu
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("width", WIDTHS)
def test_axes_on_the_gpu(width, threads):
    from vxc.runtime.launch import run_numpy

    for how in ALONG:
        tile, axis, result = ALONG[how](3, width)
        x = integers(2, *tile)
        got = run_numpy(compiled(all_over_axis(tile, result, axis, threads), binary=False), {"x": x}, {})
        for name, f in ALL.items():
            assert got[f"y_{name}"].tolist() == f(x, axis + 1).tolist(), (how, name)


# ---- exchanges, copies, loops, reuse ----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("n, shift", [(128, 1), (128, 31), (100, 3), (33, 32), (257, 256)])
def test_shifted_reads_of_a_fragment(n, shift, threads):
    text = f"""kernel k(x: f32[{n}], out y: f32[{n}], out z: f32[{n}]) {{ @threads({threads}) grid b in 1 {{
        fragment f: f32[{n}];
        copy(x, f);
        parallel i in {n} {{ y[i] = f[(i + {shift}) % {n}]; }}
        fragment g: f32[{n}];
        parallel i in {n} {{ g[(i * 1 + {shift}) % {n}] = f[i] + f[{n - 1} - i]; }}
        copy(g, z);
    }} }}"""
    x = integers(n)
    got = outputs(text, binary=False, x=x)
    assert got["y"].tolist() == np.roll(x, -shift).tolist()
    assert got["z"].tolist() == np.roll(x + x[::-1], shift).tolist()


@pytest.mark.parametrize("start", [-9, -1, 0, 1, 5, 60])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 31, 63])
def test_copies_with_steps_pads_and_edges(size, step, start):
    text = f"""kernel k(x: i32[N], r: i64, inout y: i32[N]) {{ @threads(32) grid b in 1 {{
        shared s: i32[{size}];
        copy(x[r : r + {size * step} : {step}], s, pad = -99);
        copy(s, y[r : r + {size * step} : {step}]);
    }} }}"""
    x, y = np.arange(1, 65, dtype=np.int32), np.full(64, 7, np.int32)
    want = y.copy()
    places = [p for p in range(start, start + size * step, step) if 0 <= p < 64]
    want[places] = x[places]
    assert output(text, binary=False, x=x, y=y, r=start).tolist() == want.tolist()


@pytest.mark.parametrize("stages, threads", [(1, 32), (2, 128), (4, 96)])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
def test_pipelined_trips(trips, stages, threads):
    """Each trip reads what the one before it wrote, then overwrites it."""
    text = f"""kernel k(a: i32[K, 100], s0: i32[100], out y: i32[100]) {{ @threads({threads}) grid b in 1 {{
        shared s: i32[100];
        fragment acc: i32[100] = 0;
        copy(s0, s);
        @stages({stages}) pipelined k in K {{
            parallel i in 100 {{ acc[i] += s[99 - i]; }}
            copy(a[k, :], s);
        }}
        copy(acc, y);
    }} }}"""
    a, s0 = integers(trips, 100, dtype="i4"), integers(100, dtype="i4")
    want = sum((row[::-1] for row in (s0, *a)[:trips]), np.zeros(100, np.int32))
    assert output(text, binary=False, a=a, s0=s0).tolist() == want.tolist()


@pytest.mark.parametrize("threads", [64, 128])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_each_trip_fills_and_reads_one_buffer(trips, threads):
    """The next trip's writes wait for this one's reads."""
    text = f"""kernel k(a: i32[K, 100], inout y: i32[K, 100]) {{ @threads({threads}) grid b in 1 {{
        shared s: i32[100];
        serial k in K {{
            parallel i in 100 {{ s[i] = a[k, i]; }}
            parallel i in 100 {{ y[k, i] = s[99 - i]; }}
        }}
    }} }}"""
    a = integers(trips, 100, dtype="i4")
    assert output(text, binary=False, a=a, y=np.zeros_like(a)).tolist() == a[:, ::-1].tolist()


@pytest.mark.parametrize("n", [33, 64, 100])
def test_shared_arrays_that_reuse_bytes(n):
    """r lives after p, over its bytes: what reads p must be through before r is written, and in the next trip the other way. The
    store between the loops keeps them apart.
    """
    text = f"""kernel k(x: f32[T, {n}], out y: f32[T, {n}]) {{ @threads(64) grid b in 1 {{ serial t in T {{
        shared p: f32[{n}];
        copy(x[t, :], p);
        fragment f: f32[{n}];
        parallel i in {n} {{ f[i] = p[{n - 1} - i]; }}
        y[t, 0] = 0.0;
        shared r: f32[{n}];
        parallel i in {n} {{ r[i] = f[i] * 2.0; }}
        parallel i in {n} {{ y[t, i] = r[(i + 1) % {n}]; }}
    }} }} }}"""
    x = integers(3, n)
    made = compiled(text, binary=False)
    assert made.plan.kernels[0].attr("shared_bytes") == -(-4 * n // 16) * 16
    assert output(text, binary=False, x=x).tolist() == np.roll(2 * x[:, ::-1], -1, axis=1).tolist()
