"""Rows: how a slice of an array becomes one element under index symbols.

All rows of one elementwise expression run over the same binders. A `Row` is that context: its first slice fixes rank and
extents, every further one must have provably equal extents. A row-valued `let` is computed anew in each context that
uses it, once per element (`LetIn`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from vxc.diag import Diagnostic, Label, count
from vxc.dtypes import I64
from vxc.frontend import dims, syntax
from vxc.frontend.scope import At, State, error, fail, label
from vxc.frontend.typed import Array, Const, Expr, LetIn, Load, Symbol, Var
from vxc.record import entity
from vxc.source import Span


class Pick(NamedTuple):
    """What a subscript selects in one dimension: an index (`extent` None), or `extent` elements from `start` by `step`.

    `row` marks an index that is itself a row (a gather).
    """

    start: Expr
    extent: Expr | None
    step: Expr
    row: bool = False


@dataclass(eq=False)
class Row:
    """The context of one elementwise expression. `role` is 'statement', 'reduction' or 'value'.

    A reduction over one `axis` shares the binders of its other axes with the context `outer` in which its result is a row.
    """

    role: str
    axis: int | None = None
    outer: Row | None = None
    binders: list[tuple[Symbol, Expr]] = field(default_factory=list)
    array: Array | None = None  # whose slice fixed the extents
    where: Label | None = None
    lets: list[tuple[Symbol, Expr]] = field(default_factory=list)
    memo: dict[RowLet, Symbol] = field(default_factory=dict)
    loads: list[tuple[Array, tuple[bool, ...]]] = field(default_factory=list)  # arrays read; along each binder by unit steps?
    steps: list[Expr] = field(default_factory=list)  # of its slices, where they are no constants
    scan: tuple[int, At, syntax.Call] | None = None  # axis of the scans in it, and where the first stands

    @property
    def rank(self) -> int:
        return len(self.binders)

    def wrap(self, body: Expr, span: Span) -> Expr:
        """The body with the row lets that it uses; the next body starts afresh."""
        return self.wrap_each((body,), span)[0]

    def wrap_each(self, bodies: tuple[Expr, ...], span: Span) -> tuple[Expr, ...]:
        """Bodies checked together, each with the row lets that they use."""
        lets, self.lets, self.memo = tuple(self.lets), [], {}
        return tuple(LetIn(lets, body, span) for body in bodies) if lets else bodies


@entity
class RowLet:
    """A row-valued `let`: its text, where it stands, its element's name and type, and its shape (that of `row`).

    `reads` holds the arrays and variables that it reads, `time` orders it among the writes.
    """

    element: Symbol
    value: syntax.Expr
    at: At
    row: Row
    time: int
    reads: frozenset

    @property
    def name(self) -> str:
        return self.element.name

    @property
    def span(self) -> Span:
        return self.element.span


class Use(NamedTuple):
    let: RowLet
    at: At
    span: Span
    time: int
    marks: tuple[int, ...]  # start times of the loops around the use


def extents_of(picks: list[Pick]) -> list[Expr]:
    """The shape that a subscript selects; empty for one element."""
    return [pick.extent for pick in picks if pick.extent is not None]


def fit(st: State, at: At, row: Row, array: Array, extents: list[Expr], span: Span) -> None:
    """Take a slice of these extents into the context: fix them, or compare."""
    if not row.binders:
        row.binders = _open(at, extents, span) if row.axis is None else _beside(st, at, row, array, extents, span)
        row.array, row.where = array, label(at, span, _elements(st, extents, array))
        return
    more = {"label": _elements(st, extents, array), "secondary": _others(at, row, array)}
    if len(extents) != row.rank:
        fail(at, "E0213", f"a row of rank {len(extents)} meets one of rank {row.rank}", span, help="index one of them further", **more)
    before = [extent for _, extent in row.binders]
    forms = [(dims.linear(a, st.forms), dims.linear(b, st.forms)) for a, b in zip(before, extents)]
    unequal = [(a, b) for a, b in forms if a != b]
    if not unequal:
        return
    shapes = f"{_shape(st, before)} and {count(_shape(st, extents), 'element')}"
    if any(a.minus(b).number is not None for a, b in unequal):
        fail(at, "E0213", f"rows of different shapes: {shapes}", span, help="take slices of equal extent", **more)
    hint = "give both arrays the same dimension name, or slice one by the other's"
    fail(at, "E0213", f"rows whose shapes may differ: {shapes}", span, help=hint, **more)


def _open(at: At, extents: list[Expr], span: Span) -> list[tuple[Symbol, Expr]]:
    names = [f"j{k}" for k in range(len(extents))] if len(extents) > 1 else ["j"]
    return [(Symbol(name, "index", I64, at.place(span)), extent) for name, extent in zip(names, extents)]


def _beside(st: State, at: At, row: Row, array: Array, extents: list[Expr], span: Span) -> list[tuple[Symbol, Expr]]:
    """The binders of a reduction over one axis: one for the axis, the others those of the context around."""
    check_axis(at, row.axis, len(extents), span)
    others = [extent for k, extent in enumerate(extents) if k != row.axis]
    binders: list[tuple[Symbol, Expr]] = []
    if others:
        if row.outer is None:
            hint = "assign it to a row, or bind it with `let` in a `grid`"
            fail(at, "E0214", f"a reduction over one axis of {len(extents)} gives a row, and one element is needed here", span, help=hint)
        fit(st, at, row.outer, array, others, span)
        binders += row.outer.binders
    binders.insert(row.axis, (Symbol("k", "index", I64, at.place(span)), extents[row.axis]))
    return binders


def check_axis(at: At, axis: int, rank: int, span: Span) -> None:
    if axis >= rank:
        hint = f"axes count from 0; the last is {rank - 1}"
        fail(at, "E0214", f"there is no axis {axis} in a row of rank {rank}", span, help=hint)


def _shape(st: State, extents: list[Expr]) -> str:
    return " x ".join(dims.show(dims.linear(extent, st.forms)) for extent in extents)


def _elements(st: State, extents: list[Expr], array: Array) -> str:
    return f"{count(_shape(st, extents), 'element')} of `{array.name}`"


def _others(at: At, row: Row, array: Array) -> tuple[Label, ...]:
    """The place that fixed the extents, and the declarations of both arrays."""
    declared = {a.span: a for a in (row.array, array) if a is not None and a.span is not None}
    first = (row.where,) if row.where is not None else ()
    return first + tuple(label(at, s, f"`{a.name}` is declared here") for s, a in declared.items())


def indices(at: At, row: Row | None, picks: list[Pick], span: Span) -> tuple[Expr, ...]:
    """The element index for each dimension, rows at the context's binders."""
    found, binder = [], iter(row.binders if row else ())
    for pick in picks:
        if pick.extent is None:
            found.append(pick.start)
            continue
        if not isinstance(pick.step, Const):
            row.steps.append(pick.step)
        here = Var(next(binder)[0], at.place(span))
        found.append(dims.op("add", pick.start, dims.op("mul", here, pick.step, here.span), here.span))
    return tuple(found)


def note(row: Row, load: Load, picks: list[Pick]) -> None:
    """Record an array that is read, and along which of the context's binders by unit steps."""
    last = len(picks) - 1
    ranges = [(k, pick.step) for k, pick in enumerate(picks) if pick.extent is not None]
    units = tuple(k == last and isinstance(step, Const) and step.value == 1 for k, step in ranges)
    row.loads.append((load.array, units or (False,) * row.rank))  # a gather steps anyhow


def check_uses(st: State) -> None:
    """A row let is computed where it is used: nothing it reads may be written between (E0226)."""
    for use in st.uses:
        outer = [mark for mark in use.marks if mark not in use.let.at.marks]
        until = max(use.time - 1, st.ends.get(outer[0], 0) if outer else 0)
        for target in use.let.reads:
            times = st.writes.get(target, ())
            after = bisect_right(times, use.let.time)
            if after < len(times) and times[after] <= until:
                st.errors.append(_stale(use, target))
                break


def _stale(use: Use, target: Array | Symbol) -> Diagnostic:
    message = f"`{use.let.name}` is a row, computed where it is used, and `{target.name}`, which it reads, is written before"
    hint = f"copy it when it is made: `local {use.let.name}: ..;`, or write `{target.name}` after the last use"
    return error(use.at, "E0226", message, use.span, secondary=(label(use.let.at, use.let.span, "the row is defined here"),), help=hint)
