"""Where the AST interpreter stands: the axes that parallel loops and comprehensions have opened, and which points are active.

A scalar of the program is one array over the open axes, outermost axis first. Every value in a scope of depth d is 0-d or
has d dimensions, of which those it does not depend on have length 1; `pad` brings a value from an outer scope to depth d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vxc.frontend.typed import Symbol
from vxc.record import value
from vxc.semantics import Order


RAGGED = 1 << 32  # stands for the iterations of a loop whose number of them varies


class Axis(NamedTuple):
    """Iterations [first, first + size) of the `total` of a loop or comprehension binder; `order` is that of its scans."""

    symbol: Symbol
    first: int
    size: int
    total: int
    start: np.ndarray
    step: np.ndarray
    order: Order | None = None

    def show(self, iteration: int) -> str:
        """An iteration by its index, `i=3`; by its number where the start or step of the loop varies."""
        if self.start.ndim or self.step.ndim:
            return f"iteration {iteration} of `{self.symbol.name}`"
        return f"{self.symbol.name}={int(self.start) + iteration * int(self.step)}"


@dataclass(slots=True)
class Flow:
    """A serial loop in progress: the points that have left it, and those that are through with this iteration."""

    left: np.ndarray
    through: np.ndarray


@value
class Scope:
    """`mask` is None where every point is active (it is never all false). `indices` are the loops around, for messages."""

    axes: tuple[Axis, ...] = ()
    mask: np.ndarray | None = None
    indices: tuple[Symbol, ...] = ()
    flow: Flow | None = None

    @property
    def depth(self) -> int:
        return len(self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    def narrow(self, condition: np.ndarray) -> Scope | None:
        """The scope of those active points where `condition` holds; None where there are none."""
        if condition.all():
            return self
        mask = condition if self.mask is None else condition & self.mask
        return replace(self, mask=pad(mask, self.depth)) if mask.any() else None

    def active(self, flags: np.ndarray) -> np.ndarray:
        """`flags` where the point is active, else False."""
        return flags if self.mask is None else flags & self.mask

    def select(self, value: np.ndarray) -> np.ndarray:
        """The active points' values in iteration order, as one dimension."""
        value = np.broadcast_to(value, self.sizes)
        return value.reshape(-1) if self.mask is None else value[np.broadcast_to(self.mask, self.sizes)]

    def range(self, value: np.ndarray) -> tuple[int, int]:
        """Least and greatest of an int value over the active points."""
        if self.mask is not None and value.size > 1:
            value = self.select(value)
        return int(value.min()), int(value.max())


def pad(value: np.ndarray, depth: int) -> np.ndarray:
    """A value of an outer scope as one of a scope of this depth: length 1 along every axis opened since."""
    missing = depth - value.ndim
    return value.reshape(value.shape + (1,) * missing) if value.ndim and missing else value


def iterations(axes: tuple[Axis, ...], ordinal: int) -> list[int]:
    """The iteration along each axis that `ordinals` numbers so."""
    found = []
    for axis in reversed(axes):
        ordinal, iteration = divmod(ordinal, axis.total)
        found.append(iteration)
    return found[::-1]


def ordinals(scope: Scope, depth: int) -> np.ndarray:
    """For every point, the number of its iteration among all those of the outermost `depth` axes, row-major; int64."""
    number = np.zeros((), np.int64)
    for k, axis in enumerate(scope.axes[:depth]):
        along = np.arange(axis.first, axis.first + axis.size).reshape((-1,) + (1,) * (scope.depth - k - 1))
        number = number * axis.total + along
    return number
