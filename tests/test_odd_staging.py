"""Tiles of arrays whose rows begin anywhere: what they move, beside the least that any kernel with such tiles and requests could."""

from __future__ import annotations

import numpy as np
import pytest
from test_staging import Distinct, counted

from vxc.dtypes import DTYPES
from vxc.interp.flat_counters import SECTOR, Counters
from vxc.target import WARP

SIDE = 128  # of a tile of `transpose`


def sectors(first: np.ndarray, elements: np.ndarray, size: int) -> int:
    """That runs of so many elements of `size` bytes span, which begin at these elements."""
    return int((((first + elements) * size - 1) // SECTOR - first * size // SECTOR + 1).sum())


def least(rows: int, columns: int, tile: int, size: int, request: int = WARP) -> int:
    """Sectors that an array takes in tiles of so many columns, each row of a tile in requests of so many elements."""
    begin = [c for t in range(0, columns, tile) for c in range(t, min(t + tile, columns), request)]
    end = [min(c + request, c // tile * tile + tile, columns) for c in begin]
    first = np.arange(rows)[:, None] * columns + np.array(begin)
    return sectors(first, np.array(end) - np.array(begin), size)


def moved(sample: str, **defines) -> dict[str, int]:
    """Sectors by array, over all requests."""
    counters, found = Counters(), {}
    counted(sample, counters, **defines)
    for (_, _, name, _), access in counters.accesses.items():
        found[name] = found.get(name, 0) + (0 if access.space == "shared" else access.sectors)
    return {name: int(n) for name, n in found.items() if n}


@pytest.mark.parametrize("bm, bn, bk", [(32, 32, 16), (64, 64, 64), (128, 128, 32)])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_gemm_of_odd_sizes(dtype, bm, bn, bk):
    """Each request is of the elements of a row that 32 lanes take, and touches the sectors that these span: one more than in a row that
    begins at a sector, wherever it begins. Rows of 32 elements and less go in one request, as few as there can be for the tile.
    """
    m, n, k, size = 130, 131, 67, DTYPES[dtype].bytes
    found = moved("gemm", T=DTYPES[dtype], M=m, N=n, K=k, BM=bm, BN=bn, BK=bk)
    times = {"a": -(-n // bn), "b": -(-m // bm), "c": 1}  # each tile of a and b is loaded by so many blocks
    arrays = {"a": (m, k, bk), "b": (k, n, bn), "c": (m, n, bn)}
    assert found == {name: times[name] * least(*array, size) for name, array in arrays.items()}
    for rows, columns, tile in arrays.values():
        assert tile > WARP or least(rows, columns, tile, size) == least(rows, columns, tile, size, request=tile)


@pytest.mark.parametrize("m, n", [(255, 257), (130, 67)])
@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_transposes_by_hand_of_odd_sizes(dtype, side, m, n):
    found, size = moved("transpose_tile", T=DTYPES[dtype], M=m, N=n, B=side), DTYPES[dtype].bytes
    assert found == {"x": least(m, n, side, size), "y": least(n, m, side, size)}


@pytest.mark.parametrize("m, n", [(2047, 257), (255, 513), (513, 513)])
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_transposes_of_odd_sizes(dtype, m, n):
    """A block stores whole vectors that begin at multiples of 16 bytes, so rows of y take fewer sectors than tiles side by side would. For
    that it needs more than its tile of x, and loads no more than a vector at each end of a row beyond.
    """
    counters, size = Distinct(), DTYPES[dtype].bytes
    counted("transpose", counters, T=DTYPES[dtype], M=m, N=n)
    needed = {name: sum(len(found) for (_, array), found in counters.needed.items() if array == name) for name in "xy"}
    assert needed["y"] <= least(n, m, SIDE, size, request=SIDE)
    vector, j, fewest = 16 // size, np.arange(m)[:, None], 0
    for q in range(0, n, SIDE):
        i = np.arange(q, min(q + SIDE, n))
        block = np.maximum(j - -i * m % vector, 0) // SIDE  # which stores y[i, j]
        sector = (j * n + i) * size // SECTOR
        fewest += sum(len(np.unique(sector[block == p])) for p in range(int(block.max()) + 1))
    assert fewest <= needed["x"] <= fewest * (SIDE + 2 * vector) / SIDE
