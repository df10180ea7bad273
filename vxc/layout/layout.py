"""Layouts: where each element of a distributed array or loop lies, as a map (index, replica) -> (thread of the team, slot).

A layout is written `[i, j, r in 2] -> [thread, slot]`: dimensions, of which those with `in n` are replicas (n copies of every
element), then two integer expressions over them with + - * // % ^ &. Properties are shown by enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import add, mul, sub
from typing import NamedTuple, Union

import numpy as np

from vxc.dtypes import I64
from vxc.layout.text import read
from vxc.record import value
from vxc.semantics import Order

Term = Union[int, str]  # a constant, the name of a dimension, or an operator
Program = tuple[Term, ...]  # an expression in postfix order


class Operator(NamedTuple):
    binds: int  # more tightly for a higher number
    apply: np.ufunc


OPERATORS = {
    "^": Operator(1, np.bitwise_xor),
    "&": Operator(2, np.bitwise_and),
    "+": Operator(3, np.add),
    "-": Operator(3, np.subtract),
    "*": Operator(4, np.multiply),
    "//": Operator(4, np.floor_divide),
    "%": Operator(4, np.remainder),
}  # fmt: skip
_ATOM = 5
WRAPS = "its numbers take more than 64 bits", "count with smaller numbers: threads, slots and places are few"  # why, and a way out


@value
class Dim:
    """A dimension; `replicas` is 0 for an index, else how many copies of each element this dimension counts."""

    name: str
    replicas: int = 0

    def __str__(self) -> str:
        return f"{self.name} in {self.replicas}" if self.replicas else self.name


@value
class Layout:
    """`thread` and `slot` are expressions over `dims`. `str` gives the text, `parse` reads it."""

    dims: tuple[Dim, ...]
    thread: Program
    slot: Program

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dims))}] -> [{program_text(self.thread)}, {program_text(self.slot)}]"

    def evaluate(self, extents: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Thread and slot of every (index, replica), i64 arrays with one axis for each of `dims`.

        `extents` are those of the dimensions that are no replicas, in order. Division by 0 gives 0.
        """
        if len(extents) != sum(not d.replicas for d in self.dims):
            raise ValueError(f"{len(extents)} extents for layout {self}")
        sizes = iter(extents)
        shape = tuple(d.replicas or next(sizes) for d in self.dims)
        return tuple(evaluated((self.thread, self.slot), [d.name for d in self.dims], shape))

    def threads(self, index: np.ndarray) -> np.ndarray:
        """The thread of some indices of a layout of one, the first of several."""
        return _evaluate(self.thread, {d.name: np.asarray(0) if d.replicas else index for d in self.dims}) + 0 * index

    def check(self, extents: Sequence[int], threads: int) -> str | None:
        """What is wrong with the layout for an array of these extents in a team of `threads`, or None.

        Every element must have a thread of the team and a slot from 0 up (totality, ownership), and no two elements or
        replicas the same slot of one thread (injectivity).
        """
        thread, slot = self.evaluate(extents)
        for values, what, inside in ((thread, "thread", (thread >= 0) & (thread < threads)), (slot, "slot", slot >= 0)):
            if not inside.all():
                at = np.unravel_index(np.argmin(inside), values.shape)
                limit = f", outside the {threads} threads of the block" if what == "thread" else ""
                return f"{self._element(at)} has {what} {values[at]}{limit}"
        places = (slot * threads + thread).ravel()
        order = np.argsort(places, kind="stable")
        same = np.flatnonzero(places[order][1:] == places[order][:-1])
        if not same.size:
            return None
        first, second = (np.unravel_index(order[same[0] + k], thread.shape) for k in (0, 1))
        return f"{self._element(first)} and {self._element(second)} both have slot {slot[first]} of thread {thread[first]}"

    def _element(self, at: Sequence[int]) -> str:
        return named([d.name for d in self.dims], at)


@cache
def parse(text: str) -> Layout:
    """The layout in a text. Raises ValueError with the cause."""
    dims, results = read(text)
    names = [name for name, _ in dims]
    if len(set(names)) != len(names):
        raise ValueError(f"a dimension occurs twice in layout `{text}`")
    if len(results) != 2:
        raise ValueError(f"layout `{text}` has {len(results)} results, not [thread, slot]")
    for term in (*results[0], *results[1]):
        if isinstance(term, str) and term not in OPERATORS and term not in names:
            raise ValueError(f"`{term}` is no dimension of layout `{text}`")
        if isinstance(term, int) and term >= 1 << 63:
            raise ValueError(f"{term} is too large in layout `{text}`")
    return Layout(tuple(Dim(name, replicas) for name, replicas in dims), *results)


def distribution(order: Order) -> Layout:
    """Which lane takes element e of a reduction's part, and as its how-manieth: V neighbours to a lane, lanes in turn."""
    return spread(order.v, order.lanes)


def spread(v: int, lanes: int, name: str = "e") -> Layout:
    """Elements dealt to lanes v at a time: `[e] -> [e // v % lanes, e // (v * lanes) * v + e % v]`, simplified for v or lanes 1."""
    thread: Program = (name,) if v == 1 else (name, v, "//")
    thread = (*thread, lanes, "%") if lanes > 1 else (0,)
    slot: Program = (name, lanes, "//") if lanes > 1 else (name,)
    if v > 1 and lanes > 1:
        slot = (name, v * lanes, "//", v, "*", name, v, "%", "+")
    return Layout((Dim(name),), thread, slot)


def flattened(layout: Layout, shape: Sequence[int]) -> Layout:
    """The same over the number of an element in row-major order."""
    indices = [dim.name for dim in layout.dims if not dim.replicas]
    if len(indices) == 1:
        return layout
    e = next(name for name in ("e", "e0", *(f"e{k}" for k in range(1, len(layout.dims) + 1))) if name not in _names(layout))
    digits, inner = {}, 1
    for at in reversed(range(len(shape))):
        digit: Program = (e, inner, "//") if inner > 1 else (e,)
        digits[indices[at]] = (*digit, shape[at], "%") if at else digit
        inner *= shape[at]
    programs = (tuple(y for x in program for y in digits.get(x, (x,))) for program in (layout.thread, layout.slot))
    return Layout((Dim(e), *(dim for dim in layout.dims if dim.replicas)), *programs)


def _names(layout: Layout) -> set[str]:
    return {dim.name for dim in layout.dims}


def evaluated(programs: Sequence[Program], names: Sequence[str], shape: Sequence[int]) -> list[np.ndarray]:
    """Expressions over indices with these names, in arrays of a shape. Division by 0 gives 0. Raises OverflowError where a number may take
    more than 64 bits.
    """
    axes = dict(zip(names, np.indices(tuple(shape), np.int64, sparse=True)))
    with np.errstate(divide="ignore"):
        return [np.broadcast_to(_evaluate(program, axes), tuple(shape)) for program in programs]


def named(names: Sequence[str], at: Sequence[int]) -> str:
    """`i=3, j=4`"""
    return ", ".join(f"{name}={x}" for name, x in zip(names, at))


def _evaluate(program: Program, axes: dict[str, np.ndarray]) -> np.ndarray:
    stack: list[np.ndarray] = []
    for term in program:
        if term in OPERATORS:
            right, left = stack.pop(), stack.pop()
            if term in ("+", "-", "*") and not _fits(term, left, right):
                raise OverflowError
            stack.append(OPERATORS[term].apply(left, right))
        else:
            stack.append(axes[term] if isinstance(term, str) else np.asarray(term, np.int64))
    return stack[0]


def _fits(operator: str, left: np.ndarray, right: np.ndarray) -> bool:
    """Whether results of any two of these numbers fit 64 bits."""
    if not left.size or not right.size:
        return True
    ends = [[int(x.min()), int(x.max())] for x in (left, right)]
    apply = {"+": add, "-": sub, "*": mul}[operator]
    return all(I64.min <= apply(a, b) <= I64.max for a in ends[0] for b in ends[1])


def program_text(program: Program) -> str:
    """An expression with no more parentheses than it needs; every operator associates to the left."""
    stack: list[tuple[str, int]] = []
    for term in program:
        if term not in OPERATORS:
            stack.append((str(term), _ATOM))
            continue
        (right, right_binds), (left, left_binds) = stack.pop(), stack.pop()
        binds = OPERATORS[term].binds
        left = f"({left})" if left_binds < binds else left
        right = f"({right})" if right_binds <= binds else right
        stack.append((f"{left} {term} {right}", binds))
    return stack[0][0]
