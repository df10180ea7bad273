"""Typing names and subscripts: symbols, generics, row-valued lets, elements and rows of arrays."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from vxc.diag import count
from vxc.dtypes import DTYPES, DType
from vxc.frontend import syntax
from vxc.frontend.rows import Pick, RowLet, Use, extents_of, fit, indices, note
from vxc.frontend.scope import At, State, fail, label, unknown
from vxc.frontend.subscripts import picks, whole
from vxc.frontend.typed import Array, Load, Symbol, Var
from vxc.frontend.values import Value, settle, widened
from vxc.source import Span

Task = Generator[tuple[Any, At], Value, Any]


def _name(st: State, node: syntax.Name, at: At) -> Any:
    found = at.scope.find(node.name)
    if isinstance(found, Symbol):
        if found.kind == "var":
            st.read(found)
        return Value(node.span, Var(found, at.place(node.span)))
    if isinstance(found, Value):
        return replace(found, span=node.span)
    if isinstance(found, Array):
        return _load(st, node.span, at, found, [whole(found, k, node.span, at) for k in range(len(found.shape))])
    if isinstance(found, RowLet):
        return _row_let(st, node, at, found)
    if found is None and node.name in ("inf", "nan"):
        return Value(node.span, literal=math.inf if node.name == "inf" else math.nan)
    if isinstance(found, DType) or (found is None and node.name in DTYPES):
        fail(at, "E0227", f"`{node.name}` is a type, not a value", node, help=f"convert with `x as {node.name}`")
    unknown(at, node, found)


def _row_let(st: State, node: syntax.Name, at: At, let: RowLet) -> Task:
    """The element of a row-valued let, computed once in each row context."""
    row = at.row
    if row is None:
        hint = "reduce it (`sum(..)`, `max(..)`), or use it where a row is assigned"
        defined = (label(let.at, let.span, "defined here"),)
        fail(at, "E0214", f"`{let.name}` is a row, and one element is needed here", node, secondary=defined, help=hint)
    st.uses.append(Use(let, at, node.span, st.clock, at.marks))
    for target in let.reads:
        st.read(target)
    if row.role == "value":  # another let: type and shape are known, and the row is expanded where it is used
        fit(st, at, row, let.row.array, [extent for _, extent in let.row.binders], node.span)
        return Value(node.span, Var(let.element, at.place(node.span)), row=True)
    if let not in row.memo:
        inside = let.at.but(row=row, hoist=at.hoist, arm=at.arm)
        value = settle(at, (yield let.value, inside))
        symbol = Symbol(let.name, "let", value.expr.dtype, let.at.place(let.span))
        row.lets.append((symbol, value.expr))
        row.memo[let] = symbol
    return Value(node.span, Var(row.memo[let], at.place(node.span)), row=True)


def _subscript(st: State, node: syntax.Subscript, at: At) -> Task:
    array, found = yield from picks(st, node, at)
    return _load(st, node.span, at, array, found)


def _load(st: State, span: Span, at: At, array: Array, found: list[Pick]) -> Value:
    extents = extents_of(found)
    is_row = bool(extents) or any(pick.row for pick in found)
    if extents:
        if at.row is None:
            shown = f"`{array.name}` has {count(len(array.shape), 'dimension')}, and this gives a row"
            hint = "index every dimension, or reduce it: `sum(..)`, `max(..)`"
            fail(at, "E0214", "a row stands where one element is needed", span, label=shown, help=hint)
        fit(st, at, at.row, array, extents, span)
    load = Load(array, indices(at, at.row, found, span), at.place(span))
    if is_row and at.row is not None:
        note(at.row, load, found)
    st.read(array)
    return Value(span, widened(load, load.span), row=is_row)


NAMES = {syntax.Name: _name, syntax.Subscript: _subscript}
