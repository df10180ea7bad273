"""Micro-tiles in shared memory that are read across: no two lanes meet in a bank, global memory moves whole sectors, by the counters."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.interp.flat_counters import Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

LADDER = """kernel ladder<T: dtype = f16, B = 16>(x: T[256, 256], out y: T[256, 256]) {
    @threads(128) grid b in 256 // 64, c in 256 // 64 {
        shared s: T[64 // B, 64 // B, B, B];
        parallel i in 64 // B, j in 64 // B, ii in B, jj in B { s[i, j, ii, jj] = x[b*64 + i*B + ii, c*64 + j*B + jj]; }
        parallel j in 64, i in 64 { y[c*64 + j, b*64 + i] = s[i // B, j // B, i % B, j % B]; }
    }
}"""


@pytest.mark.parametrize("dtype, b", [("f16", 8), ("f32", 8), ("f16", 16), ("f32", 16), ("u8", 16), ("f16", 32), ("f32", 32), ("u8", 32)])
def test_a_ladder_that_is_read_across(dtype, b):
    """Of micro-tiles whose rows are 16 bytes at least; shorter ones are fetched an element at a time."""
    c, counters = compile(Source("k.vx", LADDER), defines={"T": DTYPES[dtype], "B": b}), Counters()
    x = np.random.default_rng(0).integers(-8, 8, (256, 256)).astype(DTYPES[dtype].numpy)
    run_flat(c.plan, {"x": x}, {}, debug=False, counters=counters)
    found = list(counters.accesses.values())
    assert all(x.cycles == x.ideal_cycles for x in found if x.space == "shared")
    assert all(x.ideal_sectors >= 0.95 * x.sectors for x in found if x.space != "shared")
    assert {x.space for x in found if x.requests} >= {"shared", "param"}


COPIED = """kernel ladder<T: dtype = f16, B = 16>(x: T[M, N], out y: T[M, N]) {
    @threads(128) grid b in ceildiv(M, 64), c in ceildiv(N, 64) {
        @layout([i, j] -> [i // B, j // B, i % B, j % B]) shared s: T[64, 64];
        copy(x[b*64 :+ 64, c*64 :+ 64], s);
        copy(s, y[b*64 :+ 64, c*64 :+ 64]);
    }
}"""
TILED = """kernel ladder<T: dtype = f16, B = 16>(x: T[J, K, B, B], out y: T[J, K, B, B]) {
    @threads(128) grid b in ceildiv(J, 64 // B), c in ceildiv(K, 64 // B) {
        shared s: T[64 // B, 64 // B, B, B];
        copy(x[b * (64 // B), c * (64 // B), 0, 0], s);
        copy(s, y[b * (64 // B), c * (64 // B), 0, 0]);
    }
}"""
SIZES = [("f16", 8), ("f32", 4), ("f16", 16), ("f32", 16), ("u8", 16), ("f16", 32), ("f64", 32)]


def moved(text: str, x: np.ndarray, **defines) -> list[Accesses]:
    """The accesses of a copy by way of shared memory, which gives what it was given."""
    c, counters = compile(Source("k.vx", text), defines=defines), Counters()
    assert (run_flat(c.plan, {"x": x}, {})["y"] == x).all()
    run_flat(c.plan, {"x": x}, {}, debug=False, counters=counters)
    return [a for a in counters.accesses.values() if a.requests]


@pytest.mark.parametrize("m, n", [(192, 256), (150, 224)])
@pytest.mark.parametrize("dtype, b", SIZES)
def test_a_ladder_by_layout_is_copied_in_vectors(dtype, b, m, n):
    """Rows of micro-tiles of 16 bytes at least go 16 bytes at a time, in both directions, also where the tile ends at the array's end; and
    lanes take them in an order in which they meet in no bank.
    """
    x = np.random.default_rng(0).integers(-8, 8, (m, n)).astype(DTYPES[dtype].numpy)
    known = {"M": m, "N": n} if (m, n) == (192, 256) else {}
    found = moved(COPIED, x, T=DTYPES[dtype], B=b, **known)
    assert all(a.bytes == 16 for a in found) and {a.space for a in found} == {"shared", "param"}
    assert all(a.cycles == a.ideal_cycles for a in found if a.space == "shared")
    assert all(a.ideal_sectors >= 0.95 * a.sectors for a in found if a.space == "param")


@pytest.mark.parametrize("dtype, b", SIZES)
def test_a_ladder_of_the_shape_of_its_tiles_meets_in_no_bank(dtype, b):
    x = np.random.default_rng(0).integers(-8, 8, (192 // b, 256 // b, b, b)).astype(DTYPES[dtype].numpy)
    found = moved(TILED, x, T=DTYPES[dtype], B=b)
    assert all(a.bytes == 16 and a.cycles == a.ideal_cycles for a in found if a.space == "shared")
    assert all(a.ideal_sectors >= 0.95 * a.sectors and a.bytes == 16 for a in found if a.space == "param")
