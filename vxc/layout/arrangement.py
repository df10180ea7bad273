"""Where the author puts the elements of a shared array: `[i, j] -> [i, j ^ i % 8]`, the indices in an array of as many dimensions as there
are results, each as long as its results need. So `[i, j] -> [i // 16, j // 16, i % 16, j % 16]` is a ladder of tiles of 16 x 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np

from vxc.layout.layout import WRAPS, Program, evaluated, named, program_text
from vxc.layout.placement import IN_ORDER, Placement
from vxc.layout.text import read
from vxc.record import record

ROOM = 2  # times as many places as there are elements, at most


@record
class Arrangement:
    dims: tuple[str, ...]
    results: tuple[Program, ...]

    def __str__(self) -> str:
        return f"[{', '.join(self.dims)}] -> [{', '.join(map(program_text, self.results))}]"

    def indices(self, shape: Sequence[int]) -> list[np.ndarray]:
        """Each result for every element, in arrays of the given shape."""
        return evaluated(self.results, self.dims, shape)

    def extents(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Of the array in which the elements lie."""
        return tuple(int(x.max(initial=-1)) + 1 for x in self.indices(shape))

    def offsets(self, shape: Sequence[int]) -> np.ndarray:
        """Where each element lies, in row-major order of both arrays."""
        found = np.zeros(tuple(shape), np.int64)
        for x, extent in zip(self.indices(shape), self.extents(shape)):
            found = found * extent + x
        return found.ravel()

    def problem(self, shape: Sequence[int]) -> tuple[str, str] | None:
        """Why this is no arrangement of such an array, and a way out; or None."""
        if len(self.dims) != len(shape):
            return f"it has {len(self.dims)} indices, and the array {len(shape)} dimensions", "name one index for each dimension"
        try:
            results = self.indices(shape)
        except OverflowError:
            return WRAPS
        for which, x in enumerate(results):
            if (x < 0).any():
                at = np.unravel_index(int(x.argmin()), x.shape)
                return f"result {which} is {x.min()} at {named(self.dims, at)}", "let results count from 0"
        places, elements = prod(self.extents(shape)), prod(shape)
        if places > ROOM * max(elements, 1):
            return f"its {elements:,} elements would take {places:,} places", "leave fewer gaps: half of the places hold elements at least"
        lie = self.offsets(shape)
        order = np.argsort(lie, kind="stable")
        same = np.flatnonzero(lie[order][1:] == lie[order][:-1])
        if same.size:
            two = [named(self.dims, np.unravel_index(order[same[0] + k], tuple(shape))) for k in (0, 1)]
            return f"{two[0]} and {two[1]} lie in one place", "give each element a place of its own"
        return None

    def placement(self, shape: Sequence[int]) -> Placement | None:
        """The same as a gap behind rows or a swizzle, if it is one."""
        lie, count = self.offsets(shape), prod(shape)
        number = np.arange(count)
        if np.array_equal(lie, number):
            return IN_ORDER
        rows = {prod(shape[at:]) for at in range(1, len(shape))}
        gaps = [Placement(pitch=(row, int(lie[row]))) for row in sorted(rows) if 1 < row < count and lie[row] > row]
        powers = [1 << k for k in range(max(count - 1, 1).bit_length())]
        turned = [Placement(swizzle=(v, t, row)) for v in powers for t in powers[1:] for row in powers if v * t <= row]
        fit = (p for p in [*gaps, *turned] if np.array_equal(p(number), lie))
        return next((p for p in fit if p.problem() is None), None)


@cache
def arrangement(text: str) -> Arrangement:
    """That is written in a text. Raises ValueError with the cause."""
    dims, results = read(text)
    if any(replicas for _, replicas in dims):
        raise ValueError(f"a dimension with replicas in `{text}`: an element of a shared array lies in one place")
    names = tuple(name for name, _ in dims)
    used = {x for result in results for x in result if isinstance(x, str) and x.isidentifier()}
    if len(set(names)) < len(names) or used - {*names}:
        raise ValueError(f"`{text}` does not name each dimension once, or uses another name")
    return Arrangement(names, results)
