"""Where the elements of a shared array lie: in memory order, in rows with a gap behind each, or with vectors of a row exchanged.

    pitch=[row, pitch]                    each `row` elements in memory order begin `pitch` elements after the ones before
    swizzle=[vector, turns, row, ..]      vectors of `vector` elements change places: bits of the number of the row (o // row % turns)
                                          are xored into the number of the vector; more fields follow the first

Both map the number of an element in memory order to where it lies, one to one. Runs of `run` elements that begin at a multiple of
`run` stay together, at such a multiple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import gcd
from operator import mul

import numpy as np

from vxc.record import record


@record
class Placement:
    """At most one of the two is set, as the attributes of a `shared` declaration."""

    pitch: tuple[int, ...] = ()
    swizzle: tuple[int, ...] = ()

    @property
    def fields(self) -> list[tuple[int, ...]]:
        """(vector, turns, row) of each field of a swizzle."""
        return [self.swizzle[at : at + 3] for at in range(0, len(self.swizzle), 3)]

    @cached_property
    def run(self) -> int:
        """The power of two of elements that stay together; 0 where all do."""
        if self.pitch:
            together = gcd(*self.pitch)
            return together & -together
        return min(self.swizzle[::3], default=0)

    def size(self, count: int) -> int:
        """Elements that an array of `count` takes."""
        if self.pitch and count:
            row, pitch = self.pitch
            return (count - 1) // row * pitch + (count - 1) % row + 1
        block = max(map(mul, self.swizzle[::3], self.swizzle[1::3]), default=1)
        return -(-count // block) * block

    def __call__(self, offset: np.ndarray) -> np.ndarray:
        """Where elements lie, given their numbers in memory order."""
        if self.pitch:
            return _with_gaps(offset, *self.pitch)
        for field in self.fields:
            offset = _exchanged(offset, *field)
        return offset

    def c_text(self, offset: str) -> str:
        """The same in CUDA C++, by the helpers of the prelude."""
        if self.pitch:
            return f"vx_pitch<{', '.join(map(str, self.pitch))}>({offset})"
        for field in self.fields:
            offset = f"vx_swizzle<{', '.join(map(str, field))}>({offset})"
        return offset

    def problem(self) -> str | None:
        """Why this is no placement, or None."""
        if self.pitch and self.swizzle:
            return "both pitch and swizzle are given"
        if self.pitch and not (len(self.pitch) == 2 and 0 < self.pitch[0] <= self.pitch[1]):
            return "pitch is not [row, pitch] with 0 < row <= pitch"
        if any(len(f) != 3 or any(n < 1 or n & (n - 1) for n in f) for f in self.fields):
            return "swizzle is not [vector, turns, row] of powers of two, once or more"
        block = max((vector * turns for vector, turns, _ in self.fields), default=0)
        if any(row < block for _, _, row in self.fields):
            return f"a row of the swizzle is less than the {block} elements in which vectors change places"
        return None


IN_ORDER = Placement()


def places(placements: Sequence[Placement], offset: np.ndarray) -> np.ndarray:
    """[placements, ..]: where elements lie in each of them, given their numbers in memory order."""
    lie = offset[None]

    def each(column: Iterable[int]) -> np.ndarray:
        """A number of each placement, as an array over all offsets."""
        return np.reshape(np.array([*column], offset.dtype), (len(placements), *[1] * offset.ndim))

    if any(p.pitch for p in placements):
        lie = _with_gaps(lie, *map(each, zip(*(p.pitch or (1, 1) for p in placements))))
    for at in range(0, max(len(p.swizzle) for p in placements), 3):
        vector, turns, row = zip(*(p.swizzle[at : at + 3] or (1, 1, 1) for p in placements))
        lie = lie ^ (lie >> each(n.bit_length() - 1 for n in row) & each(turns) - 1) << each(n.bit_length() - 1 for n in vector)
    return np.broadcast_to(lie, (len(placements), *offset.shape))


def _with_gaps(offset: np.ndarray, row: int | np.ndarray, pitch: int | np.ndarray) -> np.ndarray:
    return offset + offset // row * (pitch - row)


def _exchanged(offset: np.ndarray, vector: int, turns: int, row: int) -> np.ndarray:
    """`turns` is a power of two."""
    return offset ^ (offset // row & turns - 1) * vector
