"""Typing assignments: to variables, elements and rows."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from vxc.frontend import dims, syntax, typed
from vxc.frontend.check_attrs import no_attributes
from vxc.frontend.check_expr import binary
from vxc.frontend.check_reduce import order_of
from vxc.frontend.rows import Row, RowLet, extents_of, fit, indices
from vxc.frontend.scope import UNKNOWN, At, State, fail, label, unknown
from vxc.frontend.subscripts import picks
from vxc.frontend.typed import Array, Expr, Load, Stmt, Symbol
from vxc.frontend.values import Value, assign, widened
from vxc.source import Span

Steps = Generator[tuple[Any, At], Any, Any]


def _assign(st: State, node: syntax.Assign, at: At) -> Steps:
    no_attributes(node, at)
    sign = node.op[:-1]
    if isinstance(node.target, syntax.Name):
        found = at.scope.find(node.target.name)
        if isinstance(found, Symbol) and found.kind == "var":
            value = yield node.value, at
            if sign:
                value = binary(st, at, sign, Value(node.target.span, typed.Var(found, node.target.span)), value, node.span)
            at.out.append(typed.SetVar(found, assign(at, value, found.dtype, f"`{found.name}`"), node.span))
            st.wrote(found)
            return
        if not isinstance(found, Array):
            _not_assignable(at, node.target, found)
    row = Row("statement")
    array, selected = yield from picks(st, node.target, at.but(row=row))
    writable(at, array, node.target)
    if not any(pick.extent is not None or pick.row for pick in selected):
        index = indices(at, None, selected, node.target.span)
        value = yield node.value, at
        at.out.append(_store(st, node, at, array, index, value, sign))
        return
    if extents_of(selected):
        fit(st, at, row, array, extents_of(selected), node.target.span)
    index = row.wrap_each(indices(at, row, selected, node.target.span), node.target.span)
    value = yield node.value, at.but(row=row)
    store = _store(st, node, at, array, index, value, sign)
    store = typed.Store(array, index, row.wrap(store.value, node.span), node.span)
    at.out.append(row_loop(st, row, (store,), node.span))


def _store(st: State, node: syntax.Assign, at: At, array: Array, index: tuple[Expr, ...], value: Value, sign: str) -> typed.Store:
    span = node.target.span
    if sign:
        st.read(array)
        value = binary(st, at, sign, Value(span, widened(Load(array, index, span), span)), value, node.span)
    st.wrote(array)
    return typed.Store(array, index, assign(at, value, array.dtype, f"an element of `{array.name}`", store=True), node.span)


def row_loop(st: State, row: Row, body: tuple[Stmt, ...], span: Span) -> typed.Loop:
    """The parallel loop that a row statement is. Scans run in a loop over their axis, inside that over the others."""
    zero, one = dims.const(0, span), dims.const(1, span)
    binders = [(symbol, zero, st.length(extent), one) for symbol, extent in row.binders]
    if row.scan is not None:
        axis, at, call = row.scan
        order = replace(order_of(st, at, row, axis, call), parts=1)  # a scan goes on from one element to the next
        scan = typed.Loop("parallel", (binders.pop(axis),), body, (), span, row=True, scan_order=order, steps=tuple(row.steps))
        if not binders:
            return scan
        body = (scan,)
    return typed.Loop("parallel", tuple(binders), body, (), span, row=True, steps=tuple(row.steps))


def writable(at: At, array: Array, where: Any) -> None:
    if array.space == "param" and array.mode == "in":
        declared = (label(at, array.span, "declared here"),) if array.span else ()
        hint = f"declare it `out {array.name}` or `inout {array.name}`"
        fail(at, "E0211", f"`{array.name}` is an `in` parameter and cannot be written", where, secondary=declared, help=hint)


def _not_assignable(at: At, node: syntax.Name, found: Any) -> None:
    if found is None or found is UNKNOWN:
        unknown(at, node, found)
    what, hint = "a generic and never changes", "bind a new name with `let`"
    if isinstance(found, RowLet) or (isinstance(found, Symbol) and found.kind == "let"):
        what, hint = "bound by `let` and never changes", f"declare it with `var {node.name}`, or a row as `local`"
    elif isinstance(found, Symbol):
        what = {"index": "a loop index", "dim": "a dimension", "scalar": "a parameter passed by value"}[
            found.kind
        ] + " and cannot be assigned"
    where = (label(at, found.span, "defined here"),) if getattr(found, "span", None) else ()
    fail(at, "E0211", f"`{node.name}` is {what}", node, secondary=where, help=hint)


ASSIGNMENTS = {syntax.Assign: _assign}
