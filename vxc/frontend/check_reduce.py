"""Typing reductions and scans, of whole rows or along one axis, and choosing their order."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from vxc.dtypes import BOOL
from vxc.frontend import dims, syntax
from vxc.frontend.check_args import SCAN_CALLS, arity, axis_of
from vxc.frontend.rows import Row, check_axis
from vxc.frontend.scope import At, State, fail, in_grid
from vxc.frontend.typed import Let, Reduce, Scan, Symbol, Var
from vxc.frontend.values import Value, common, settle, widened
from vxc.semantics import FRAGMENT_ORDER, REDUCTIONS, Order, accumulator, reduce_order

Task = Generator[tuple[Any, At], Value, Any]

TEAM = 32  # lanes of a reduction inside a grid: a warp


def reduction(st: State, node: syntax.Call, at: At) -> Any:
    known = st.hoisted.get(node)
    if known is not None:
        return Value(node.span, Var(known, at.place(node.span)))
    return _reduce(st, node, at)


def _reduce(st: State, node: syntax.Call, at: At) -> Task:
    name, place = node.func.name, at.place(node.span)
    axis = yield from axis_of(at, node)
    arity(at, node, 2 if name == "dot" else 1)
    row = Row("reduction", axis=axis, outer=at.row)
    inside = at.but(row=row)
    hoists = axis is None and at.row is not None and at.hoist is not None and not at.arm
    outer, values = st.reads, []
    for arg in node.args:
        st.reads = [] if hoists else outer  # a hoisted reduction reads where it is put, not where the row is used
        try:
            value = settle(at, (yield arg, inside))
        finally:
            st.reads = outer
        if not value.row:
            hint = f"give it a slice: `{name}(x[i])`"
            fail(at, "E0214", f"`{name}` reduces a row, and this is one value of type {value}", arg, help=hint)
        values.append(replace(value, expr=row.wrap(value.expr, place)))
    args, dtype = common(at, values, f"`{name}`", node.span)
    if dtype.kind not in REDUCTIONS[name].kinds:
        hint = "compare first: `x > 0`" if REDUCTIONS[name].kinds == "b" else "convert first: `as i32`, `as f32`"
        fail(at, "E0203", f"`{name}` is not defined on `{dtype}`", node, help=hint)
    binders = tuple((symbol, st.length(extent)) for symbol, extent in (row.binders if axis is None else (row.binders[axis],)))
    expr = Reduce(name, binders, tuple(args), order_of(st, at, row, axis, node), accumulator(name, dtype), place, tuple(row.steps))
    if not hoists:
        return Value(node.span, expr, row=len(binders) < row.rank)
    symbol = Symbol(name, "let", expr.dtype, place)
    at.hoist.append(Let(symbol, expr, place))
    st.hoisted[node] = symbol
    return Value(node.span, Var(symbol, place))


def scan(st: State, node: syntax.Call, at: At) -> Task:
    name, place, row = node.func.name, at.place(node.span), at.row
    axis = yield from axis_of(at, node)
    arity(at, node, 1)
    if row is None or row.role == "reduction" or at.arm:
        hint = f"write it as a row: `y[i] = {name}(x[i]);`"
        fail(at, "E0232", f"`{name}` gives a row, and stands where none is assigned", node, help=hint)
    value = settle(at, (yield node.args[0], at))
    if not value.row:
        hint = f"give it a slice: `{name}(x[i])`"
        fail(at, "E0214", f"`{name}` takes a row, and this is one value of type {value}", node.args[0], help=hint)
    if axis is None and row.rank != 1:
        hint = f"name it: `{name}(x, axis = {row.rank - 1})`"
        fail(at, "E0214", f"`{name}` runs along one dimension, and this row has {row.rank}", node, help=hint)
    axis = axis or 0
    check_axis(at, axis, row.rank, node.span)
    op, expr = SCAN_CALLS[name], widened(value.expr, place)
    if expr.dtype is BOOL:
        fail(at, "E0203", f"`{name}` is not defined on `bool`", node, help="convert first: `as i32`")
    if row.scan is not None and row.scan[0] != axis:
        hint = "assign one of them to an array of its own first"
        fail(at, "E0214", f"scans along axes {row.scan[0]} and {axis} of one row", node, help=hint)
    row.scan = row.scan or (axis, at, node)
    return Value(node.span, Scan(op, row.binders[axis][0], expr, accumulator(op, expr.dtype), place), row=True)


def order_of(st: State, at: At, row: Row, axis: int | None, node: syntax.Call) -> Order:
    """The order of a reduction or scan over the context's rows: the author's numbers, the rest by default."""
    length = 1
    for _, extent in row.binders if axis is None else (row.binders[axis],):
        number = dims.linear(extent, st.forms).number
        length = None if length is None or number is None else length * number
    given = dict(at.order)
    if st.reduce_chunk is not None:
        given.setdefault("chunk", st.reduce_chunk)
    grid = in_grid(at)
    if grid and given.get("lanes", 1) > TEAM:
        hint = f"leave out `@lanes`, or give at most {TEAM}"
        fail(at, "E0220", f"a reduction inside a `grid` has at most {TEAM} lanes, not {given['lanes']}", node, help=hint)
    spaces = {array.space for array, _ in row.loads}
    if grid and spaces and spaces <= {"fragment", "shared"} and (axis is not None or row.rank == 1):
        return replace(FRAGMENT_ORDER, **given)
    dtype = min((array.dtype for array, _ in row.loads), key=lambda d: d.bits, default=None)
    contiguous = bool(row.loads) and all(units[-1 if axis is None else axis] for _, units in row.loads)
    alone = (axis is None or row.rank == 1) and not any(kind in ("parallel", "grid", "persistent") for kind in at.loops)
    order = reduce_order(length, dtype, contiguous, alone=alone, **given)
    if order.chunk == 0 and length is None:
        hint = "give a number of at least 1, or fix the length with a generic or `-D`"
        fail(at, "E0220", "a chunk of 0 is a whole row, and the length of this one is not known when compiling", node, help=hint)
    return replace(order, lanes=min(order.lanes, TEAM), parts=given.get("parts", 1)) if grid else order
