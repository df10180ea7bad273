"""Ladders as they are written for matrix instructions: micro-tiles of 16 x 16, `[j, k, jj, kk]` or `[j, k, kk, jj]`, filled from a matrix
or from tiles, and read along rows, columns and tiles: exact, no two lanes in a bank, whole sectors, by the counters.
"""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import outputs

from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.interp.flat_counters import Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

TILE = {"j": "j", "k": "k", "jj": "jj", "kk": "kk"}  # which element of which micro-tile a loop is at
MATRIX = {"j": "r // 16", "k": "q // W", "jj": "r % 16", "kk": "q % W"}
FILLS = {  # W elements of x to a row of a micro-tile
    "nest": ("x: S[128, 8*W]", "parallel j in 4, k in 4, jj in 16, kk in W { s[AT] = x[b*64 + j*16 + jj, c*4*W + k*W + kk]; }", TILE),
    "rows": ("x: S[128, 8*W]", "parallel r in 64, q in 4*W { s[AT] = x[b*64 + r, c*4*W + q]; }", MATRIX),
    "tiles": ("x: S[8, 8, 16, W]", "parallel j in 4, k in 4, jj in 16, kk in W { s[AT] = x[b*4 + j, c*4 + k, jj, kk]; }", TILE),
}
DRAINS = {
    "rows": ("y: T[128, 128]", "parallel r in 64, q in 64 { y[b*64 + r, c*64 + q] = IT; }", MATRIX),
    "columns": ("y: T[128, 128]", "parallel q in 64, r in 64 { y[c*64 + q, b*64 + r] = IT; }", MATRIX),
    "tiles": ("y: T[8, 8, 16, 16]", "parallel j in 4, k in 4, jj in 16, kk in 16 { y[b*4 + j, c*4 + k, jj, kk] = IT; }", TILE),
    "turned": ("y: T[8, 8, 16, 16]", "parallel j in 4, k in 4, kk in 16, jj in 16 { y[b*4 + j, c*4 + k, kk, jj] = IT; }", TILE),
}
SHARED = {  # the declaration, and the indices of an element
    "jj, kk": ("shared s: S[4, 4, 16, W];", "{j}, {k}, {jj}, {kk}"),
    "kk, jj": ("shared s: S[4, 4, W, 16];", "{j}, {k}, {kk}, {jj}"),
    "layout jj, kk": ("@layout([r, q] -> [r // 16, q // W, r % 16, q % W]) shared s: S[64, 4*W];", "({j})*16 + {jj}, ({k})*W + {kk}"),
    "layout kk, jj": ("@layout([r, q] -> [r // 16, q // W, q % W, r % 16]) shared s: S[64, 4*W];", "({j})*16 + {jj}, ({k})*W + {kk}"),
}


def kernel(order: str, fill: str, drain: str, packed: bool = False) -> str:
    """From elements of S to as many of T; `packed`: two to each of S, the low half first."""
    declared, indices = SHARED[order]
    (x, filled, into), (y, drained, out_of) = FILLS[fill], DRAINS[drain]
    at = {name: e.replace("W", "16") for name, e in out_of.items()}
    half, element = f"({at['kk']}) % 2 * 4", indices.format(**at | ({"kk": f"({at['kk']}) // 2"} if packed else {}))
    it = f"(s[{element}] >> ({half}) as u8 & 15) as T" if packed else f"s[{element}]"
    text = [declared, filled.replace("AT", indices.format(**into)), drained.replace("IT", it)]
    body = "\n        ".join(text)
    head = f"kernel k<S: dtype, T: dtype, W = 16, TH = 128>({x}, out {y})"
    return f"{head} {{\n    @threads(TH) grid b in 2, c in 2 {{\n        {body}\n    }}\n}}"


def moved(text: str, drain: str, packed: bool = False, **defines) -> list[Accesses]:
    """What each access costs, of a kernel that is exact in all interpreters."""
    made, counters = compile(Source("k.vx", text), defines=defines), Counters()
    x = np.random.default_rng(0).integers(0, 256 if packed else 100, [n.value for n in made.plan.buffers[0].shape])
    x = x.astype(defines["S"].numpy)
    y = outputs(text, binary=False, defines=defines, x=x)["y"]
    matrix = (lambda a: a.transpose(0, 2, 1, 3).reshape(128, -1)) if x.ndim == 4 else (lambda a: a)
    elements = np.stack([x & 15, x >> 4], axis=-1).reshape(*x.shape[:-1], -1) if packed else x
    expected = matrix(elements).astype(y.dtype)
    got = {"rows": lambda: y, "columns": lambda: y.T, "tiles": lambda: y.transpose(0, 2, 1, 3).reshape(128, 128),
           "turned": lambda: y.transpose(0, 3, 1, 2).reshape(128, 128)}[drain]()  # fmt: skip
    assert (got == expected).all()
    run_flat(made.plan, {"x": x}, {}, debug=False, counters=counters)
    found = [a for a in counters.accesses.values() if a.requests]
    assert {a.space for a in found} == {"shared", "param"}
    assert all(a.ideal_sectors >= 0.95 * a.sectors for a in found if a.space == "param")
    return found


@pytest.mark.parametrize("drain", DRAINS)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("order", ["jj, kk", "kk, jj"])
@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_a_ladder(dtype, order, fill, drain):
    found = moved(kernel(order, fill, drain), drain, S=DTYPES[dtype], T=DTYPES[dtype])
    assert all(a.cycles == a.ideal_cycles for a in found if a.space == "shared")


@pytest.mark.parametrize("drain", DRAINS)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("order", ["jj, kk", "kk, jj"])
def test_a_ladder_of_packed_four_bit_weights(order, fill, drain):
    """Rows of micro-tiles are 8 bytes, a quarter of a sector: where they are those of a matrix, lanes side by side go along its rows."""
    found = moved(kernel(order, fill, drain, packed=True), drain, packed=True, S=DTYPES["u8"], T=DTYPES["f16"], W=8)
    assert all(a.cycles == a.ideal_cycles for a in found if a.space == "shared")


def least_turns(size: int, order: str, across: bool) -> int:
    """Turns that an access of a warp takes at least, whoever accesses what: each of 32 lanes another element of those that are at one place
    of the 16 bytes of global memory that a lane takes, `across` the rows of the matrix or along them.
    """
    r, q = np.indices((64, 64))
    inner = r % 16 * 16 + q % 16 if order == "jj, kk" else q % 16 * 16 + r % 16
    word = ((r // 16 * 4 + q // 16) * 256 + inner) * size // 4
    place = (r if across else q) % (16 // size)
    least = []
    for n in range(16 // size):
        words, together = np.unique(word[place == n], return_counts=True)
        least.append(-(-32 // (int(together.max()) * len({*(words % 32).tolist()}))))
    return max(least)


@pytest.mark.parametrize("drain", DRAINS)
@pytest.mark.parametrize("order", ["jj, kk", "kk, jj"])
@pytest.mark.parametrize("dtype", ["f16", "i8", "f32"])
def test_a_ladder_by_layout_has_the_fewest_turns_that_it_admits(dtype, order, drain):
    """Along the rows of micro-tiles there are none. Across them a layout without gaps has some, in any order of lanes that moves 16 bytes
    of global memory at a time; what would spare them is said.
    """
    text, size = kernel(f"layout {order}", "rows", drain), DTYPES[dtype].bytes
    found = moved(text, drain, S=DTYPES[dtype], T=DTYPES[dtype], TH=256)
    fill, *_, emptied = 2 * [a for a in found if a.space == "shared"]  # one, where both loops are one
    for access, across in ((fill, False), (emptied, drain in ("columns", "turned"))):
        along = across == (order == "kk, jj")
        least = 1 if along else least_turns(size, order, across)
        assert access.bytes == (16 if along else size) and (least > 1) == (not along)
        assert access.cycles == least * access.ideal_cycles
    remarks = compile(Source("k.vx", text), defines={"S": DTYPES[dtype], "T": DTYPES[dtype], "TH": 256}).remarks
    said = [r.message for r in remarks if "turns of the banks to an access; 1 if its " in r.message]
    assert bool(said) == (fill.cycles + emptied.cycles > fill.ideal_cycles + emptied.ideal_cycles)
