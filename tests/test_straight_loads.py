"""What a kernel touches outside of its arrays: no more than the rest of 16 bytes, at multiples of that, in which an element lies.

Pages are many such 16 bytes, so no load meets memory that is not mapped where an array is.
"""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diff import first_difference
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_interp import run_flat
from vxc.interp.flat_memory import active
from vxc.source import Source

LINE = 16
SUM = "kernel k(x: T[M, {n}], out s: A[M]) {{ parallel i in M {{ s[i] = sum(x[i]); }} }}"
PART = "kernel k(x: T[M, {n}], out s: A[M]) {{ parallel i in M {{ s[i] = max(x[i, 1:]) as A; }} }}"
MAP = "kernel k(x: T[M, {n}], out s: T[M, {n}]) {{ parallel i in M, j in {n} {{ s[i, j] = x[i, j] + x[i, 0]; }} }}"
STAGED = "kernel k(x: T[{n}, {n}], out s: T[{n}, {n}]) {{ parallel i in {n}, j in {n} {{ s[i, j] = x[j, i]; }} }}"


class Touched(Counters):
    """Also keeps, for each access to an array in global memory, where it begins and ends, and where the array does."""

    def __init__(self):
        super().__init__()
        self.seen: set[tuple[int, int, int, int]] = set()

    def access(self, m, step, memory, flat, width=1):
        super().access(m, step, memory, flat, width)
        if memory.space == "param":
            size = memory.dtype.bytes
            (places,) = active(m.mask, np.broadcast_to(memory.base + flat * size, m.shape))
            end = memory.base + memory.extent * size
            self.seen |= {(int(at), int(at) + width * size, memory.base, end) for at in np.unique(places)}


@pytest.mark.parametrize("text", [SUM, PART, MAP, STAGED], ids=["sum", "part", "map", "staged"])
@pytest.mark.parametrize("t", ["u8", "f16", "f32"])
def test_accesses_stay_in_the_lines_of_their_array(text, t):
    outside = []
    dtype = DTYPES[t]
    for n in (33, 75):
        made = compile(Source("k.vx", text.format(n=n).replace("T", t).replace("A", "u32" if t == "u8" else "f32")))
        rows = n if text is STAGED else 3
        x = np.random.default_rng(n).integers(0, 100, (rows, n)).astype(dtype.numpy)
        want = run_ast(made.typed, {"x": x}, {})
        for base in range(0, LINE, dtype.bytes):
            touched = Touched()
            got = run_flat(made.plan, {"x": x}, {}, bases={"x": base + 256, "s": 4096}, seed=1, counters=touched)
            assert first_difference(want, got) is None
            for start, end, first, last in touched.seen:
                assert start // LINE == (end - 1) // LINE and start % (end - start) == 0, (n, base, start, end)
                assert start < last and end > first, (n, base, start, end)
                outside += [max(first - start, end - last)]
    straight = "vx_load_straight" in made.cuda
    assert max(outside) == (LINE - dtype.bytes if straight else 0)
    assert straight == (text in (SUM, PART))
