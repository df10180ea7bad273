"""Perfect nests of one to five parallel loops whose extents are no round numbers, fixed and known at the call only; and rows of tiles of
every length. Data are small integers, so results are exact, on the syntax tree, on the IR as lowered and as threads in two orders.

Nests of one loop are all tried, those of two but (257, 257), which has more than MOST iterations; of more loops, every extent at every
place, OTHERS times each, drawn from fixed seeds.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest

from tests.everywhere import agreed, compiled, outputs
from tests.tile_kernels import small
from vxc.driver import Compiled

EXTENTS = (1, 2, 3, 5, 7, 16, 24, 48, 100, 257)
MOST = 30_000  # iterations of a nest
OTHERS = {3: 8, 4: 6, 5: 5}  # by the number of loops: drawings with an extent at a place
INDICES = "ijklm"


def drawn(depth: int) -> list[tuple[int, ...]]:
    """Nests within MOST iterations, each once: for every extent and place so many, where the other extents, taken in any order, are any
    that leave it within MOST.
    """
    rng = np.random.default_rng(depth)
    found: dict[tuple[int, ...], None] = {}
    for place, extent, _ in product(range(depth), EXTENTS, range(OTHERS[depth])):
        nest = [1] * depth
        nest[place] = extent
        for other in rng.permutation([at for at in range(depth) if at != place]):
            nest[other] = int(rng.choice([n for n in EXTENTS if prod(nest) * n <= MOST]))
        found[tuple(nest)] = None
    return list(found)


EVERY = [nest for depth in (1, 2) for nest in product(EXTENTS, repeat=depth) if prod(nest) <= MOST]
NESTS = EVERY + [nest for depth in OTHERS for nest in drawn(depth)]
BOTH = pytest.mark.parametrize("known", [True, False], ids=["fixed", "run-time"])


def nest(extents: tuple[int, ...], known: bool) -> tuple[str, str, str]:
    """(loops, indices, dimensions of an array) of a nest over these extents, which are written or those of the array."""
    names = INDICES[: len(extents)]
    sizes = [str(n) if known else f"N{at}" for at, n in enumerate(extents)]
    return ", ".join(f"{i} in {n}" for i, n in zip(names, sizes)), ", ".join(names), ", ".join(sizes)


@cache
def once(text: str) -> Compiled:
    """Compiled at first use: a text without extents is that of many nests."""
    return compiled(text, binary=False)


@BOTH
@pytest.mark.parametrize("extents", NESTS, ids=str)
def test_a_nest_with_a_table_along_its_last_loop(extents, known):
    loops, indices, dims = nest(extents, known)
    last = INDICES[len(extents) - 1]
    body = f"parallel {loops} {{ y[{indices}] = x[{indices}] + b[{last} % 7]; }}"
    text = f"kernel k(x: f32[{dims}], b: f32[7], out y: f32[{dims}]) {{ {body} }}"
    x, b = small(*extents), small(7)
    made = once(text) if not known else compiled(text, binary=False)
    assert (agreed(made, x=x, b=b)["y"] == x + b[np.arange(extents[-1]) % 7]).all()


PLANES = [(1, 257), (257, 1), (3, 100), (100, 24), (48, 48), (7, 257), (5, 16)]


@BOTH
@pytest.mark.parametrize("extents", PLANES, ids=str)
def test_groups_of_a_row_and_shifted_elements(extents, known):
    m, n = extents
    loops, _, dims = nest(extents, known)
    rows, columns = dims.split(", ")
    params = f"a: f32[{rows}, ceildiv({columns}, 32)], x: f32[{m + 2 if known else 'P'}, {n + 3 if known else 'Q'}], out y: f32[{dims}]"
    text = f"kernel k({params}) {{ parallel {loops} {{ y[i, j] = a[i, j // 32] * 4.0 + x[i + 2, j + 3] - x[i, j + 1]; }} }}"
    a, x = small(m, -(-n // 32)), small(m + 2, n + 3)
    want = a[:, np.arange(n) // 32] * 4 + x[2:, 3:] - x[:-2, 1:-2]
    assert (outputs(text, binary=False, dims=None if known else {"N0": m, "N1": n}, a=a, x=x)["y"] == want).all()


@BOTH
@pytest.mark.parametrize("tiles, my, mk", [((3, 5), 16, 16), ((1, 7), 16, 2), ((2, 3), 24, 5), ((7, 2), 3, 16)], ids=str)
def test_a_ladder_of_micro_tiles(tiles, my, mk, known):
    rows, columns = tiles
    j, k = (str(rows), str(columns)) if known else ("J", "K")
    text = f"""kernel k(b: i32[{j}, {k}, {my}, {mk}], out y: i32[{j}, {k}, {my}, {mk}], out w: i32[{j} * {my}, {k} * {mk}]) {{
        parallel j in {j}, k in {k}, jj in {my}, kk in {mk} {{ y[j, k, jj, kk] = b[j, k, jj, kk] + (jj as i32); }}
        parallel r in {j} * {my}, c in {k} * {mk} {{ w[r, c] = b[r // {my}, c // {mk}, r % {my}, c % {mk}]; }}
    }}"""
    b = small(rows, columns, my, mk, dtype="i4")
    got = outputs(text, binary=False, b=b)
    assert (got["y"] == b + np.arange(my)[:, None]).all()
    assert (got["w"] == b.transpose(0, 2, 1, 3).reshape(rows * my, columns * mk)).all()


LENGTHS = (1, 3, 31, 32, 33, 96, 100, 127, 229, 768, 1000, 1280, 2560, 8192, 20224)
LONG = 2560
THREADS = (32, 96, 128, 256)


def rows_of(length: int, threads: int) -> str:
    rows = 3 if length < 1000 else 1
    return f"""kernel k(x: f32[M, {length}], out s: f32[M], out t: f32[M], out y: f32[M, {length}]) {{
        @threads({threads}) grid b in ceildiv(M, {rows}) {{
            {"fragment" if length < 4096 else "shared"} f: f32[{rows}, {length}];
            copy(x[b*{rows} :+ {rows}, :], f);
            let most = max(f, axis = 1);
            let all = sum(f, axis = 1);
            parallel i in {rows} {{ if b*{rows} + i < M {{ s[b*{rows} + i] = all[i]; t[b*{rows} + i] = most[i]; }} }}
            parallel i in {rows}, j in {length} {{ f[i, j] = f[i, j] * 2.0 - most[i]; }}
            copy(f, y[b*{rows} :+ {rows}, :]);
        }}
    }}"""


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_tiles(length, threads):
    """Machine code for one number of threads to a length; where interpreting takes seconds, the others only go through all passes."""
    x, text = small(4 if length < 1000 else 1, length), rows_of(length, threads)
    chosen = THREADS[LENGTHS.index(length) % len(THREADS)] == threads
    if length > LONG and not chosen:
        assert compiled(text, binary=False).plan.kernels[0].attr("threads") == threads
        return
    got = outputs(text, binary=chosen, x=x)
    assert (got["s"] == x.sum(1)).all() and (got["t"] == x.max(1)).all()
    assert (got["y"] == 2 * x - x.max(1, keepdims=True)).all()
