"""Kernels whose arrays are contiguous along different loops: right for all sizes and places, and what their tiles cost."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_counters import Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

PLAIN = "kernel k<T: dtype>(x: T[M, N], out y: T[N, M]) { parallel i in N, j in M { y[i, j] = x[j, i]; } }"
BATCH = "kernel k(x: f16[B, M, N], out y: f32[B, N, M]) { parallel b in B, i in N, j in M { y[b, i, j] = x[b, j, i] * 2; } }"
MIDDLE = "kernel k(x: f32[M, B, N], out y: f32[N, B, M]) { parallel j in M, b in B, i in N { y[i, b, j] = x[j, b, i]; } }"
BESIDE = """kernel k(x: f32[M, N], u: u8[M, N], z: f32[N, M], c: f16[N], out y: f32[N, M], out s: f64[N, M]) {
    parallel i in N, j in M {
        let sum = x[j, i] + (u[j, i] as f32) + z[i, j] + c[i];
        y[i, j] = if sum > 9.0 { sum } else { x[j, i] };
        s[i, j] = sum as f64;
    }
}"""
PITCH = "kernel k(x: f32[M, N], out y: f32[N, M : ld]) { parallel i in N, j in M { y[i, j] = x[j, i]; } }"
SHAPES = [(1, 300), (300, 1), (64, 64), (127, 129), (131, 257), (128, 128), (72, 200), (5, 7), (63, 65)]


def compiled(text: str, **defines) -> Compiled:
    return compile(Source("k.vx", text), defines=defines)


def arrays(plan, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Small integers, which every type holds."""
    rng = np.random.default_rng(seed)
    found = {}
    for p in plan.buffers:
        if p.mode == "in":
            shape = [sizes[n.name] if hasattr(n, "name") else n.value for n in p.shape]
            found[p.name] = rng.integers(0, 9, shape).astype(p.dtype.numpy)
    return found


def check(c: Compiled, sizes: dict[str, int], bases: dict[str, int] | None = None, dims: dict[str, int] | None = None) -> None:
    given = arrays(c.plan, sizes)
    want = run_ast(c.typed, given, {}, dims=dims)
    got = run_flat(c.plan, given, {}, dims=dims, bases=bases)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize("m, n", SHAPES)
@pytest.mark.parametrize("dtype", ["f16", "f32", "u8", "f64"])
def test_every_shape(dtype, m, n):
    check(compiled(PLAIN, T=DTYPES[dtype]), {"M": m, "N": n})
    check(compiled(PLAIN, T=DTYPES[dtype], M=m, N=n), {})


@pytest.mark.parametrize("x, y", [*product((0, 2, 8), repeat=2)])
def test_arrays_that_begin_anywhere(x, y):
    for sizes in ({"M": 67, "N": 130}, {"M": 72, "N": 136}):
        check(compiled(PLAIN, T=DTYPES["f16"]), sizes, {"x": x, "y": y})


@pytest.mark.parametrize("text", [BATCH, MIDDLE, BESIDE], ids=["batch", "middle", "beside"])
@pytest.mark.parametrize("b, m, n", [(3, 65, 66), (2, 64, 128), (1, 130, 70), (2, 3, 90)])
def test_other_loops_and_arrays_beside(text, b, m, n):
    sizes = {"M": m, "N": n} | ({"B": b} if text is not BESIDE else {})
    check(compiled(text), sizes)
    check(compiled(text, **sizes), {})


def test_rows_of_the_result_that_lie_apart():
    check(compiled(PITCH), {"M": 70, "N": 65}, dims={"ld": 77})


def cost(dtype: str, m: int, n: int) -> dict[tuple[str, str], Accesses]:
    """(array, load or store) -> totals of its wide accesses; of the shared array, of all that are not of leftovers."""
    c, counters = compiled(PLAIN, T=DTYPES[dtype], M=m, N=n), Counters()
    run_flat(c.plan, arrays(c.plan, {}), {}, debug=False, counters=counters)
    (kernel,) = c.plan.kernels
    found = {}
    for (_, at, name, _), count in counters.accesses.items():
        inst = kernel.insts[at]
        kind = "load" if inst.op == "load" or name == "x" else "store"
        if inst.op in ("move", "move.async") or (name, kind) == ("x.tile", "load"):
            found.setdefault((name, kind), []).append(count)
    return {key: max(counts, key=lambda c: c.requests) for key, counts in found.items()}


@pytest.mark.parametrize("dtype", ["f16", "f32", "u8", "f64"])
def test_aligned_tiles_move_whole_sectors_and_meet_in_no_bank(dtype):
    found = cost(dtype, 512, 512)
    assert set(found) == {("x", "load"), ("x.tile", "store"), ("x.tile", "load"), ("y", "store")}
    assert all(c.cycles == c.ideal_cycles and c.sectors == c.ideal_sectors for c in found.values())
    read, written = found["x", "load"], found["y", "store"]
    assert read.bytes == written.bytes == 16
    assert read.sectors == written.sectors == 512 * 512 * DTYPES[dtype].bytes // 32


@pytest.mark.parametrize("dtype, sectors", [("f16", 0.94), ("f32", 0.98), ("u8", 0.91), ("f64", 0.97)])
def test_odd_tiles_move_few_sectors_twice(dtype, sectors):
    """A row is fetched in whole sectors, which tiles share at their sides, half of one left out where it holds nothing of the row. Elements
    keep their place in 16 bytes; where columns that begin at different rows would meet in a bank, they are read in other orders.
    """
    found = cost(dtype, 511, 513)
    read, written, stored, loaded = (found[k] for k in (("x", "load"), ("y", "store"), ("x.tile", "store"), ("x.tile", "load")))
    assert read.bytes == written.bytes == 16
    assert read.ideal_sectors >= sectors * read.sectors and written.ideal_sectors >= 0.97 * written.sectors
    assert stored.cycles == stored.ideal_cycles and loaded.cycles == loaded.ideal_cycles


@pytest.mark.parametrize("m, n", [(129, 133), (131, 133), (129, 135), (131, 135), (130, 133), (129, 134), (128, 133), (132, 132)])
@pytest.mark.parametrize("dtype", ["f16", "f32", "u8", "f64"])
def test_threads_meet_in_no_bank_whatever_sizes_leave_over(dtype, m, n):
    c, counters = compiled(PLAIN, T=DTYPES[dtype], M=m, N=n), Counters()
    given = arrays(c.plan, {})
    assert (run_flat(c.plan, given, {})["y"] == given["x"].T).all()
    run_flat(c.plan, given, {}, debug=False, counters=counters)
    found = [a for a in counters.accesses.values() if a.space == "shared" and a.requests]
    most = max(found, key=lambda a: a.requests)
    assert most.cycles == most.ideal_cycles


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("sizes", [{"M": 8191, "N": 8193}, {"M": 8192, "N": 8192}, {}], ids=str)
@pytest.mark.parametrize("dtype", ["f16", "f32", "u8", "f64"])
def test_machine_code(dtype, sizes, arch):
    c = compile(Source("k.vx", PLAIN), defines={"T": DTYPES[dtype], **sizes}, target=arch)
    tiles = c.binary.kernels["k"]
    assert tiles.spill_stores == tiles.spill_loads == 0 and tiles.registers <= 40
    body = next(part for part in c.ptx.split(".entry ")[1:] if part.startswith("k("))
    assert re.search(r"cp\.async\.ca\.shared\.global \[%r\d+\], \[%rd\d+\], 16", body) and "cp.async.wait_all" in body
    whole = len(re.findall(r"st\.global\.v(4\.[a-z]32|2\.[a-z]64)", c.ptx))  # of what matrices of few rows take, too
    assert whole >= len(re.findall(r"vx_move<16>\(&y\[", c.cuda)) > 0, "stores of 16 bytes are whole"


def test_what_is_said():
    c = compiled(PLAIN, T=DTYPES["f16"])
    said = [r.message for r in c.remarks if r.pass_name in ("tile-transposes", "async-copies")]
    assert said == [
        "`x`, contiguous along i, goes through shared memory, since what is stored is contiguous along j: "
        "tiles of 128 j by 128 i, 512 threads each",
        "`x` goes to `x.tile` without passing through registers",
    ]
