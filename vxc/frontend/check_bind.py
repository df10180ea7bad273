"""Typing what binds names: `let`, `var`, and the arrays `local`, `shared`, `fragment`.

A row-valued `let` is an expression for later; in the block of a `grid`, where its size is constant, a fragment.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.dtypes import DType
from vxc.frontend import dims, syntax, typed
from vxc.frontend.check_assign import row_loop
from vxc.frontend.check_attrs import attributes, no_attributes
from vxc.frontend.check_layout import layout_of
from vxc.frontend.check_calls import ATOMICS
from vxc.frontend.rows import Pick, Row, RowLet, fit, indices
from vxc.frontend.scope import At, State, bind, dtype_named, fail, in_block, in_grid
from vxc.frontend.subscripts import as_index, countable, tidy
from vxc.frontend.typed import Array, Const, Expr, Symbol
from vxc.frontend.values import assign, settle
from vxc.source import Span
from vxc.target import MAX_LOCAL_BYTES

Steps = Generator[tuple[Any, At], Any, Any]

_REMEMBERED = 16  # terms of a form kept for a let: sizes are short, and a chain of lets must not grow quadratically


def _let(st: State, node: syntax.Let, at: At) -> Steps:
    no_attributes(node, at)
    dtype = _scalar_type(at, node.type, node) if node.type is not None else None
    if node.mutable:
        return (yield from _var(st, node, at, dtype))
    if isinstance(node.value, syntax.Call) and node.value.func.name in ATOMICS:
        return (yield from _let_atomic(st, node, at, dtype))
    row = Row("value")
    st.reads.append(set())
    try:
        value = yield node.value, at.but(row=row)
    finally:
        reads = st.reads.pop()
    if value.row:
        if dtype is not None:
            hint = "leave out the type, or convert with `as`"
            fail(at, "E0214", f"`{node.name}` is declared as one `{dtype}`, and this is a row", node.value, help=hint)
        shape = tuple(extent for _, extent in row.binders)
        if in_block(at) and all(isinstance(extent, Const) for extent in shape):
            array = Array(node.name, settle(at, value).expr.dtype, shape, "fragment", span=node.name_span)
            return (yield from _storage(st, at, array, node.value, node.span))
        element = Symbol(node.name, "let", settle(at, value).expr.dtype, node.name_span)
        bind(at, node.name, node.name_span, RowLet(element, node.value, at, row, st.clock, frozenset(reads)))
        return
    expr = settle(at, value).expr if dtype is None else assign(at, value, dtype, f"`{node.name}`")
    symbol = Symbol(node.name, "let", expr.dtype, node.name_span)
    bind(at, node.name, node.name_span, symbol)
    _remember(st, symbol, expr)
    call = _unattributed(node.value)
    if isinstance(expr, typed.Var) and st.hoisted.get(call) is expr.symbol:  # the let's own value: no need for a second name
        del st.hoisted[call]
        expr = at.out.pop().value
    at.out.append(typed.Let(symbol, expr, node.span))


def _unattributed(node: syntax.Expr) -> syntax.Expr:
    while isinstance(node, syntax.AttrExpr):
        node = node.operand
    return node


def _remember(st: State, symbol: Symbol, expr: Expr) -> None:
    """Keep the normal form of an integer let, so that shapes written with it compare."""
    if expr.dtype.is_int:
        form = dims.linear(expr, st.forms)
        if form.fixed and len(form.terms) <= _REMEMBERED:
            st.forms.lets[symbol] = form


def _var(st: State, node: syntax.Let, at: At, dtype: DType | None) -> Steps:
    if node.value is None and dtype is None:
        fail(at, "E0204", f"`{node.name}` has neither type nor value", node, help=f"write `var {node.name}: f32;` or give a value")
    expr = None
    if node.value is not None:
        value = yield node.value, at
        expr = settle(at, value).expr if dtype is None else assign(at, value, dtype, f"`{node.name}`")
    symbol = Symbol(node.name, "var", dtype or expr.dtype, node.name_span)
    bind(at, node.name, node.name_span, symbol)
    at.out.append(typed.Let(symbol, expr, node.span))


def _let_atomic(st: State, node: syntax.Let, at: At, dtype: DType | None) -> Steps:
    old = Symbol(node.name, "let", (yield syntax.CallStmt(node.span, node.value), at), node.name_span)
    if dtype is not None and dtype is not old.dtype:
        fail(at, "E0204", f"`{node.name}` is `{dtype}`, and the element is `{old.dtype}`", node.type, help="leave out the type")
    atomic = at.out.pop()
    bind(at, node.name, node.name_span, old)
    if not isinstance(atomic, typed.Atomic):
        fail(at, "E0214", "a row of atomics has no one value before", node.value, help="index every dimension")
    at.out.append(typed.Atomic(atomic.op, atomic.array, atomic.indices, atomic.value, old, node.span))


def _scalar_type(at: At, type_: syntax.TypeExpr, node: syntax.Let) -> DType:
    if type_.dims:
        hint = f"write `local {node.name}: {at.source.slice(type_.span)};`"
        fail(at, "E0231", f"`{node.name}` is declared as an array", type_, help=hint)
    return dtype_named(at, type_.name, type_.span)


def _declare(st: State, node: syntax.Decl, at: At) -> Steps:
    attrs = yield from attributes(node.attrs, node.space, at)
    dtype = dtype_named(at, node.type.name, node.type.span)
    if not node.type.dims:
        fail(at, "E0231", f"`{node.name}` has no dimensions", node.type, help=f"write `var {node.name}: {dtype};` for a scalar")
    if node.space != "local" and not in_block(at):
        where, hint = ("in `parallel`", "declare it before the loop") if in_grid(at) else ("outside a `grid`", "put it in a `grid`")
        fail(at, "E0231", f"a `{node.space}` array stands {where}", node, help=f"use `local`, or {hint}")
    shape = []
    for dim in node.type.dims:
        if dim.stride is not None:
            fail(at, "E0231", f"`{node.name}` has a written pitch", dim, help="only parameters have pitches")
        size = tidy(st, as_index(at, (yield dim.size, at), "the size of a dimension"))
        if not isinstance(size, Const) or size.value < 0:
            hint = "use literals and generics, or fix the dimension with `-D`"
            fail(at, "E0231", f"`{node.name}` needs a constant size", dim, help=hint)
        shape.append(size)
    countable(at, node.name, shape, node.type, "E0231")
    size = dims.volume(shape) * dtype.bytes
    if node.space == "local" and size > MAX_LOCAL_BYTES:
        hint = "use an array of the program, or a smaller one"
        fail(at, "E0231", f"`{node.name}` would take {size:,} bytes of each thread, which has {MAX_LOCAL_BYTES:,}", node.type, help=hint)
    array = Array(node.name, dtype, tuple(shape), node.space, span=node.name_span)
    layout = (yield from layout_of(attrs["layout"], array, at)) if attrs else None
    yield from _storage(st, at, array, node.init, node.span, layout)


def _storage(st: State, at: At, array: Array, init: syntax.Expr | None, span: Span, layout: str | None = None) -> Steps:
    """Declare an array and fill it: with one value, or element by element with a row."""
    row, expr, fills = Row("statement"), None, True
    if init is not None:
        fit(st, at, row, array, list(array.shape), array.span)
        value = yield init, at.but(row=row)
        expr, fills = assign(at, value, array.dtype, f"an element of `{array.name}`", store=True), not value.row
    bind(at, array.name, array.span, array)
    at.out.append(typed.Declare(array, expr if fills else None, span, layout))
    if not fills:
        whole = [Pick(dims.const(0, span), size, dims.const(1, span)) for size in array.shape]
        store = typed.Store(array, indices(at, row, whole, span), row.wrap(expr, span), span)
        at.out.append(row_loop(st, row, (store,), span))


BINDINGS = {syntax.Let: _let, syntax.Decl: _declare}
