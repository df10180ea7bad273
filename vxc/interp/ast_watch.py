"""Checking what `@independent` claims: no element that one iteration writes is touched by another.

A `Watch` lives as long as its loop. For each array it keeps, per element, the iteration that wrote it and the one that
read it; iterations are numbered over the loop and the parallel loops around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vxc.frontend.typed import Array, Loop
from vxc.interp.ast_memory import Storage
from vxc.interp.ast_scope import Scope, ordinals

_NOBODY, _SEVERAL = -1, -2


class Collision(Exception):
    """Iteration `second` touched element `element` of `array`, and one of the two accesses writes. Iterations are ordinals."""

    def __init__(self, watch: Watch, array: Array, element: tuple[int, ...], first: int, second: int, verbs: tuple[str, str]) -> None:
        super().__init__(array.name)
        self.watch, self.array, self.element, self.first, self.second, self.verbs = watch, array, element, first, second, verbs


@dataclass(slots=True, eq=False)
class Watch:
    """`depth` counts the axes up to and with those of the loop."""

    loop: Loop
    depth: int
    writers: dict[Storage, np.ndarray] = field(default_factory=dict)
    readers: dict[Storage, np.ndarray] = field(default_factory=dict)

    def access(self, array: Array, storage: Storage, place: list[np.ndarray], scope: Scope, writes: bool) -> None:
        """Record one access of every active point. Raises Collision."""
        if storage.lead >= self.depth:  # declared inside: each iteration has its own
            return
        shape = storage.data.shape
        for table in (self.writers, self.readers):
            if storage not in table:
                table[storage] = np.full(storage.data.size, _NOBODY, np.int64)
        writers, readers = self.writers[storage], self.readers[storage]
        flat = np.ravel_multi_index(tuple(scope.select(index) for index in place), shape)
        me = scope.select(ordinals(scope, self.depth))

        def refuse(others: np.ndarray, verbs: tuple[str, str]) -> None:
            wrong = np.flatnonzero((others != _NOBODY) & (others != me))
            if wrong.size:
                k = wrong[0]
                element = np.unravel_index(flat[k], shape)[storage.lead :]
                raise Collision(self, array, tuple(int(e) for e in element), int(others[k]), int(me[k]), verbs)

        verb = "writes" if writes else "reads"
        refuse(writers[flat], ("writes", verb))
        if writes:
            refuse(readers[flat], ("reads", verb))
            writers[flat] = me
            refuse(writers[flat], ("writes", verb))
            return
        before = readers[flat]
        readers[flat] = me
        shared = (readers[flat] != me) | ((before != _NOBODY) & (before != me))
        readers[flat[shared]] = _SEVERAL
