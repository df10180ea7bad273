"""Tiles on their way through shared memory: no two lanes meet in a bank, and global memory moves whole sectors, by the counters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES
from vxc.interp.flat_counters import Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

SAMPLES = Path(__file__).parent.parent / "samples"
LADDER = """kernel ladder<T: dtype = f16, B = 16>(x: T[256, 256], out y: T[256, 256]) {
    @threads(128) grid b in 256 // 64, c in 256 // 64 {
        shared s: T[64 // B, 64 // B, B, B];
        parallel i in 64 // B, j in 64 // B, ii in B, jj in B { s[i, j, ii, jj] = x[b*64 + i*B + ii, c*64 + j*B + jj]; }
        parallel j in 64, i in 64 { y[c*64 + j, b*64 + i] = s[i // B, j // B, i % B, j % B]; }
    }
}"""
GEMM = (SAMPLES / "gemm.vx").read_text("utf-8")


def counted(text: str, arrays: dict[str, np.ndarray], **defines) -> tuple[Compiled, list[tuple[str, str, Accesses]]]:
    """(array, opcode, totals) of every access that ran."""
    c, counters = compile(Source("k.vx", text), defines=defines), Counters()
    run_flat(c.plan, arrays, {}, debug=False, counters=counters)
    insts = c.plan.kernels[0].insts
    return c, [(name, insts[at].op, count) for (_, at, name), count in counters.accesses.items() if count.requests]


def matrix(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 8, shape).astype(DTYPES[dtype].numpy)


def check(found: list[tuple[str, str, Accesses]], shared: set[str]) -> None:
    assert shared <= {name for name, _, _ in found}
    for name, op, count in found:
        if name in shared:
            assert count.cycles == count.ideal_cycles, (name, op)
        else:
            assert count.ideal_sectors >= 0.95 * count.sectors, (name, op)


@pytest.mark.parametrize("dtype, b", [("f16", 8), ("f32", 8), ("f16", 16), ("f32", 16), ("u8", 16), ("f16", 32), ("f32", 32), ("u8", 32)])
def test_a_ladder_that_is_read_across(dtype, b):
    """Of tiles whose rows are 16 bytes at least; shorter ones are fetched an element at a time."""
    x = matrix(dtype, 256, 256)
    _, found = counted(LADDER, {"x": x}, T=DTYPES[dtype], B=b)
    check(found, {"s"})


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("bm, bn, bk", [(128, 128, 32), (64, 64, 16), (64, 128, 64)])
def test_the_staging_of_a_product(dtype, bm, bn, bk):
    a, b = matrix(dtype, bm, 2 * bk), matrix(dtype, 2 * bk, bn)
    _, found = counted(GEMM, {"a": a, "b": b}, T=DTYPES[dtype], BM=bm, BN=bn, BK=bk)
    check(found, {"sa", "sb"})
