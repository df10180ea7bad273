"""Which elements an iteration may touch so that no two collide.

Parallel loops nest in `Level`s; the root level, with no binders, is the kernel's body; a `grid` is a level too. In one iteration of a
level an array is used in one of four ways, and the first use decides:

  owned    written: every access, reads too, goes through one injective map of the level's indices (`own`)
  read     never written in the level: any element (`read`)
  atomic   updated by one kind of atomic only: any element (`atomic`)
  windowed written in a grid: every access lies in the block's own window of it (`windows`)

Each asks the parent level first, which fixes the leading indices. So programs are free of races by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vxc.fuzz.program import Array, Dim
from vxc.record import record

Indices = tuple[str, ...]


@record
class Binder:
    """An index of a parallel loop over `dim`; `full` where it takes every value."""

    name: str
    dim: Dim
    full: bool = True


@record
class Window:
    """One dimension of what a block owns: from `start`, `extent` of the elements of a dimension `whole`. No `extent`: an index."""

    start: str
    whole: Dim
    extent: Dim | None = None


@dataclass(eq=False)
class Level:
    """One nest of parallel loops: see the module's docstring. `partial` are owned arrays of which iterations leave elements out."""

    parent: Level | None = None
    binders: tuple[Binder, ...] = ()
    owned: dict[Array, Indices] = field(default_factory=dict)
    reads: set[Array] = field(default_factory=set)
    atomics: dict[Array, tuple[str, Indices]] = field(default_factory=dict)
    windows: dict[Array, tuple[Window, ...]] = field(default_factory=dict)
    partial: set[Array] = field(default_factory=set)
    promised: bool = False  # a map counts on what only the author knows

    def read(self, array: Array) -> Indices | None:
        """The leading indices through which the array may be read at any place, or None."""
        if array.mode == "in" or array in self.owned or self.parent is None:
            return self.owned.get(array, ())
        if array in self.atomics or array in self.windows:
            return None
        leading = self.parent.read(array)
        if leading is not None:
            self.reads.add(array)
        return leading

    def own(self, array: Array, match: Callable[[Level, Array, Sequence[Dim]], Indices | None]) -> Indices | None:
        """The leading indices of the elements that belong to the iteration, by `match` on the dimensions that are left, or None."""
        if array in self.owned or self.parent is None:
            return self.owned.get(array, ())
        if array in self.reads or array in self.atomics or array in self.windows:
            return None
        leading = self.parent.own(array, match)
        mapped = None if leading is None else match(self, array, array.dims[len(leading) :])
        if mapped is None:
            return None
        self.owned[array] = leading + mapped
        return self.owned[array]

    def atomic(self, array: Array, kind: str) -> Indices | None:
        """The leading indices of elements that may be updated by this kind of atomic, or None."""
        if array in self.owned or self.parent is None:
            return self.owned.get(array, ())
        if array in self.atomics:
            return self.atomics[array][1] if self.atomics[array][0] == kind else None
        if array in self.reads or array in self.windows:
            return None
        leading = self.parent.atomic(array, kind)
        if leading is not None:
            self.atomics[array] = (kind, leading)
        return leading

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1
