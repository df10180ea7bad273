"""Tiles that go through shared memory, by the counters of the simulated threads: what they move, and that lanes meet in no bank."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from vxc.diag import read_source
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.inputs import complete
from vxc.interp.flat_counters import SECTOR, Accesses, Counters
from vxc.interp.flat_interp import run_flat

EFFICIENCY = 0.95  # of sectors: the least that would do, over those that are touched


class Distinct(Counters):
    """Counts the sectors of each global array, as all requests of a block touch them and as they are different."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.requested, self.needed = np.arange(0), defaultdict(int), defaultdict(set)

    def chunks(self, kernel, grid, size):
        for self.numbers in super().chunks(kernel, grid, size):
            yield self.numbers

    def access(self, m, step, memory, flat, width=1):
        super().access(m, step, memory, flat, width)
        if memory.space not in ("shared", "local"):
            sector = np.broadcast_to((memory.base + flat * memory.dtype.bits // 8) // SECTOR, m.shape)
            for block, lanes, row in zip(self.numbers.tolist(), np.broadcast_to(m.mask, m.shape), sector):
                found = set(row[lanes].tolist())
                self.requested[memory.name] += len(found)
                self.needed[block, memory.name] |= found

    def efficiency(self, array: str) -> float:
        """The least sectors that every block could touch, over those that its requests touch."""
        return sum(len(found) for (_, name), found in self.needed.items() if name == array) / self.requested[array]


def counted(sample: str, counters: Counters, **defines) -> list[Accesses]:
    """What each access of a sample cost, over all blocks of one call with made-up inputs of the sizes in `defines`."""
    compiled, rng = compile(read_source(f"samples/{sample}.vx"), sample, defines), np.random.default_rng(0)
    given = {}
    for p in compiled.plan.buffers:
        if p.mode == "in":
            given[p.name] = rng.integers(0, 9, [n.value for n in p.shape]).astype(p.dtype.numpy)
    call = complete(compiled.typed, given)
    run_flat(compiled.plan, call.arrays, call.scalars, dims=call.dims, debug=False, counters=counters)
    return list(counters.accesses.values())


def check(sample: str, **defines) -> None:
    found = counted(sample, Counters(), **defines)
    shared = [x for x in found if x.space == "shared"]
    assert shared and all(x.cycles == x.ideal_cycles for x in shared)
    assert all(x.ideal_sectors >= EFFICIENCY * x.sectors for x in found if x.space != "shared")


@pytest.mark.parametrize("tile", [{}, {"BM": 32, "BN": 32, "BK": 16}, {"BM": 64, "BN": 64, "BK": 64}], ids=str)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_gemm(dtype, tile):
    check("gemm", T=DTYPES[dtype], M=128, N=128, K=64, **tile)


@pytest.mark.parametrize("tile", [{}, {"my": 8, "mk": 32}, {"my": 16, "mk": 32}], ids=str)
@pytest.mark.parametrize("sample", ["dequant_u4_copy", "dequant_u4_parallel", "dequant_u4_manual"])
def test_micro_tiles_of_four_bit_weights(sample, tile):
    check(sample, N=256, K=128, **tile)


@pytest.mark.parametrize("tile", [{}, {"B": 64}], ids=str)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_transposes(dtype, tile):
    check("transpose_tile", T=DTYPES[dtype], M=256, N=256, **tile)
    check("transpose", T=DTYPES[dtype], M=256, N=256)


ODD = [
    ("transpose", "f16", 2047, 257), ("transpose", "f32", 2047, 257), ("transpose_tile", "f16", 255, 257),
    ("transpose_tile", "f32", 255, 257), ("transpose_tile", "f16", 130, 67), ("transpose_tile", "f32", 130, 67),
]  # fmt: skip


@pytest.mark.parametrize("sample, dtype, m, n", ODD)
def test_transposes_whose_rows_begin_anywhere(sample, dtype, m, n):
    """Tiles share sectors at their sides, so a block moves more than its elements; but it touches hardly a sector twice, and no bank."""
    counters = Distinct()
    found = counted(sample, counters, T=DTYPES[dtype], M=m, N=n)
    assert counters.efficiency("x") >= EFFICIENCY and counters.efficiency("y") >= EFFICIENCY
    assert all(x.cycles == x.ideal_cycles for x in found if x.space == "shared")
