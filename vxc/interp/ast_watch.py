"""Checking what `@independent` claims: no element that one iteration writes is touched by another.

A `Watch` lives as long as its loop. For each array it keeps, per element, the iteration that wrote it and the one that
read it; iterations are numbered over the loop and the parallel loops around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vxc.frontend.typed import Array, Loop
from vxc.interp.ast_memory import Storage
from vxc.interp.ast_scope import Scope, ordinals

_NOBODY = -1


class Collision(Exception):
    """Iterations `first` < `second` (ordinals) both touch an element of `array`; `verbs` say whether each reads or writes."""

    def __init__(self, watch: Watch, array: Array, element: tuple[int, ...], first: int, second: int, verbs: tuple[str, str]) -> None:
        super().__init__(array.name)
        self.watch, self.array, self.element, self.first, self.second, self.verbs = watch, array, element, first, second, verbs


class Touched(NamedTuple):
    """For each element of an array the iteration that wrote it, and the first and last that read it."""

    writer: np.ndarray
    first_reader: np.ndarray
    last_reader: np.ndarray


@dataclass(slots=True, eq=False)
class Watch:
    """`depth` counts the axes up to and with those of the loop."""

    loop: Loop
    depth: int
    touched: dict[Storage, Touched] = field(default_factory=dict)

    def access(self, array: Array, storage: Storage, place: list[np.ndarray], scope: Scope, writes: bool) -> None:
        """Record one access of every active point. Raises Collision."""
        if storage.lead >= self.depth:  # declared inside: each iteration has its own
            return
        shape = storage.data.shape
        if storage not in self.touched:
            self.touched[storage] = Touched(*(np.full(storage.data.size, start) for start in (_NOBODY, np.iinfo(np.int64).max, _NOBODY)))
        writer, first_reader, last_reader = self.touched[storage]
        flat = np.ravel_multi_index(tuple(scope.select(index) for index in place), shape)
        me = scope.select(ordinals(scope, self.depth))

        def refuse(others: np.ndarray, verbs: tuple[str, str]) -> None:
            wrong = np.flatnonzero((others != _NOBODY) & (others != me))
            if wrong.size:
                k = wrong[0]
                element = np.unravel_index(flat[k], shape)[storage.lead :]
                (one, does), (two, too) = sorted(zip((int(others[k]), int(me[k])), verbs))
                raise Collision(self, array, tuple(int(e) for e in element), one, two, (does, too))

        verb = "writes" if writes else "reads"
        refuse(writer[flat], ("writes", verb))
        if writes:
            last = last_reader[flat]
            refuse(np.where(last == _NOBODY, last, first_reader[flat]), ("reads", verb))
            refuse(last, ("reads", verb))
            writer[flat] = me
            refuse(writer[flat], ("writes", verb))
        else:
            np.minimum.at(first_reader, flat, me)
            np.maximum.at(last_reader, flat, me)
