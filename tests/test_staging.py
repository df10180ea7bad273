"""Tiles that go through shared memory, by the counters of the simulated threads: what they move, and that lanes meet in no bank."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diag import read_source
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.inputs import complete
from vxc.interp.flat_counters import Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

EFFICIENCY = 0.95  # of sectors: the least that would hold the bytes of a request, over those that it touches


LADDER = """kernel ladder<T: dtype = f16, B = 16>(x: T[256, 256], out y: T[256, 256]) {
    @threads(128) grid b in 256 // 64, c in 256 // 64 {
        shared s: T[64 // B, 64 // B, B, B];
        parallel i in 64 // B, j in 64 // B, ii in B, jj in B { s[i, j, ii, jj] = x[b*64 + i*B + ii, c*64 + j*B + jj]; }
        parallel j in 64, i in 64 { y[c*64 + j, b*64 + i] = s[i // B, j // B, i % B, j % B]; }
    }
}"""


def accesses(sample: str, **defines) -> list[Accesses]:
    """What each access of a sample cost, over all blocks of one call with made-up inputs of the sizes in `defines`."""
    return counted(read_source(f"samples/{sample}.vx"), sample, **defines)


def counted(source: Source, kernel: str, **defines) -> list[Accesses]:
    compiled, counters, rng = compile(source, kernel, defines), Counters(), np.random.default_rng(0)
    given = {}
    for p in compiled.plan.buffers:
        if p.mode == "in":
            given[p.name] = rng.integers(0, 9, [n.value for n in p.shape]).astype(p.dtype.numpy)
    call = complete(compiled.typed, given)
    run_flat(compiled.plan, call.arrays, call.scalars, dims=call.dims, debug=False, counters=counters)
    return list(counters.accesses.values())


def check(found: list[Accesses]) -> None:
    shared = [x for x in found if x.space == "shared"]
    assert shared and all(x.cycles == x.ideal_cycles for x in shared)
    assert all(x.ideal_sectors >= EFFICIENCY * x.sectors for x in found if x.space != "shared")


@pytest.mark.parametrize("tile", [{}, {"BM": 32, "BN": 32, "BK": 16}, {"BM": 64, "BN": 64, "BK": 64}], ids=str)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_gemm(dtype, tile):
    check(accesses("gemm", T=DTYPES[dtype], M=128, N=128, K=64, **tile))


@pytest.mark.parametrize("tile", [{}, {"my": 8, "mk": 32}, {"my": 16, "mk": 32}], ids=str)
@pytest.mark.parametrize("sample", ["dequant_u4_copy", "dequant_u4_parallel", "dequant_u4_manual"])
def test_micro_tiles_of_four_bit_weights(sample, tile):
    check(accesses(sample, N=256, K=128, **tile))


@pytest.mark.parametrize("tile", [{}, {"B": 64}], ids=str)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_transposes(dtype, tile):
    check(accesses("transpose_tile", T=DTYPES[dtype], M=256, N=256, **tile))
    check(accesses("transpose", T=DTYPES[dtype], M=256, N=256))


@pytest.mark.parametrize("dtype, b", [("f16", 8), ("f32", 8), ("f16", 16), ("f32", 16), ("u8", 16), ("f16", 32), ("f32", 32), ("u8", 32)])
def test_a_ladder_that_is_read_across(dtype, b):
    """Of micro-tiles whose rows are 16 bytes at least; shorter ones are fetched an element at a time."""
    check(counted(Source("k.vx", LADDER), "ladder", T=DTYPES[dtype], B=b))
