"""Typing calls: scalar functions, reductions, scans, conversions by function, and inlined `fn`s."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from vxc.dtypes import BOOL, DTYPES, F32, I64
from vxc.frontend import dims, syntax
from vxc.frontend.check_expr import BINARY, SCAN_CALLS, UNARY, apply, choose, fold, require_bool
from vxc.frontend.inline import FnBody, body, inline
from vxc.frontend.rows import Row
from vxc.frontend.scope import At, State, count, dtype_named, fail, suggestion
from vxc.frontend.typed import Cast, Let, Op, Reduce, Scan, Symbol, Var
from vxc.frontend.values import Value, assign, common, settle, stored, widened
from vxc.semantics import REDUCTIONS, SCALAR_OPS, Order, accumulator, reduce_order

Task = Generator[tuple[Any, At], Value, Any]

_OPERATORS = {*BINARY.values(), *UNARY.values()}
FUNCTIONS = {name: op for name, op in SCALAR_OPS.items() if name not in _OPERATORS}
CONVERSIONS = ("reinterpret", "sat")
ATOMICS = ("atomic_add", "atomic_max", "atomic_min")
STATEMENTS = (*ATOMICS, "copy", "gemm", "assert", "print")
BUILTINS = {*FUNCTIONS, *REDUCTIONS, *SCAN_CALLS, *CONVERSIONS, *STATEMENTS}


def _call(st: State, node: syntax.Call, at: At) -> Any:
    name = node.func.name
    if name in REDUCTIONS and (len(node.args) == (2 if name == "dot" else 1) or name not in FUNCTIONS or node.named):
        return _reduction(st, node, at)
    if name in FUNCTIONS:
        return _function(st, node, at)
    if name in SCAN_CALLS:
        return _scan(st, node, at)
    if name in CONVERSIONS:
        return _conversion(st, node, at)
    if name in STATEMENTS:
        hint = f"write `let old = {name}(..);` to use the value before" if name in ATOMICS else f"write `{name}(..);` on its own"
        fail(at, "E0232", f"`{name}` is a statement", node, help=hint)
    if name in st.functions:
        return inline(st, node, at)
    hint = suggestion(name, [*BUILTINS, *st.functions], "define it: `fn f(x: f32) -> f32 { .. }`")
    if at.scope.find(name) is not None:
        hint = f"`{name}` is a value: elements are written `{name}[i]`"
    elif name in DTYPES:
        hint = f"conversions are written `x as {name}`"
    fail(at, "E0207", f"there is no function `{name}`", node.func, help=hint)


def _no_names(at: At, node: syntax.Call) -> None:
    for arg in node.named:
        hint = "give it by position, or remove it"
        fail(at, "E0209", f"`{node.func.name}` takes no argument named `{arg.name}`", arg.name_span, help=hint)


def arity(at: At, node: syntax.Call, number: int, what: str = "") -> None:
    if len(node.args) != number:
        needed = count(number, "argument")
        fail(at, "E0208", f"`{node.func.name}` takes {needed}, and {len(node.args)} are given", node, help=what or f"give it {needed}")


# Scalar functions ----------------------------------------------------------------------------------------------------------------


def _function(st: State, node: syntax.Call, at: At) -> Task:
    name = node.func.name
    _no_names(at, node)
    reduces = f"`{name}(row)` reduces, `{name}(a, b)` compares two" if name in REDUCTIONS else ""
    arity(at, node, FUNCTIONS[name].arity, reduces)
    values = []
    for arg in node.args:
        values.append((yield arg, at))
    what = f"`{name}`"
    if name == "select":
        require_bool(at, values[0], "the first argument of `select`")
        return choose(at, *values, node.span, "select")
    if name == "rand":
        args = tuple(assign(at, value, I64, "an argument of `rand`") for value in values)
        row = any(value.row for value in values)
        return Value(node.span, Op(name, args, F32, at.place(node.span)), row=row)
    numbers = [value.number for value in values]
    if len(numbers) == 2 and all(isinstance(n, int) for n in numbers) and FUNCTIONS[name].kinds != "f":
        return fold(at, name, *numbers, what, node.args[1].span, node.span)
    if FUNCTIONS[name].kinds == "f" and all(value.expr is None for value in values):
        values[0] = _as_float(at, values[0])
    return apply(st, at, name, values, node.span, what)


def _as_float(at: At, value: Value) -> Value:
    return replace(value, expr=assign(at, value, F32, "this"), literal=None)


def _conversion(st: State, node: syntax.Call, at: At) -> Task:
    name = node.func.name
    _no_names(at, node)
    arity(at, node, 2, f"write `{name}(x, i32)`")
    type_ = node.args[1]
    if not isinstance(type_, syntax.Name):
        fail(at, "E0210", "a type is needed here", type_, help=f"write `{name}(x, i32)`")
    dtype = dtype_named(at, type_.name, type_.span)
    value = settle(at, (yield node.args[0], at))
    expr, place = value.expr, at.place(node.span)
    if name == "reinterpret":
        expr = stored(expr, dtype.bits)
        if expr.dtype.bits != dtype.bits:
            message = f"`{expr.dtype}` has {expr.dtype.bits} bits and `{dtype}` {dtype.bits}"
            fail(at, "E0203", message, node, help="reinterpret between types of one width")
        if BOOL in (expr.dtype, dtype):
            fail(at, "E0203", "`bool` cannot be reinterpreted", node, help="convert it: `as u8`")
    return Value(node.span, Cast(name, expr, dtype, place), row=value.row)


# Reductions and scans ------------------------------------------------------------------------------------------------------------


def _reduction(st: State, node: syntax.Call, at: At) -> Any:
    known = st.hoisted.get(node)
    if known is not None:
        return Value(node.span, Var(known, at.place(node.span)))
    return _reduce(st, node, at)


def _reduce(st: State, node: syntax.Call, at: At) -> Task:
    name, place = node.func.name, at.place(node.span)
    for arg in node.named:
        if arg.name == "axis":
            hint = f"loop over the others: `parallel i in M {{ .. {name}(x[i]) }}`"
            fail(at, "E0401", "a reduction over one axis is not compiled yet", arg, help=hint)
    _no_names(at, node)
    arity(at, node, 2 if name == "dot" else 1)
    row = Row("reduction")
    inside = at.but(row=row)
    hoists = at.row is not None and at.hoist is not None and not at.arm
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
    binders = tuple(row.binders)
    expr = Reduce(name, binders, tuple(args), order_of(st, at, row), accumulator(name, dtype), place)
    if not hoists:
        return Value(node.span, expr)
    symbol = Symbol(name, "let", expr.dtype, place)
    at.hoist.append(Let(symbol, expr, place))
    st.hoisted[node] = symbol
    return Value(node.span, Var(symbol, place))


def order_of(st: State, at: At, row: Row) -> Order:
    """The order of a reduction or scan over the context's rows: the author's numbers, the rest by default."""
    length = 1
    for _, extent in row.binders:
        number = dims.linear(extent, st.forms).number
        length = None if length is None or number is None else length * number
    given = dict(at.order)
    if st.reduce_chunk is not None:
        given.setdefault("chunk", st.reduce_chunk)
    dtype = min((array.dtype for array, _ in row.loads), key=lambda d: d.bits, default=None)
    contiguous = bool(row.loads) and all(unit for _, unit in row.loads)
    alone = not any(kind in ("parallel", "grid", "persistent") for kind in at.loops)
    return reduce_order(length, dtype, contiguous, alone=alone, **given)


def _scan(st: State, node: syntax.Call, at: At) -> Task:
    name, place, row = node.func.name, at.place(node.span), at.row
    _no_names(at, node)
    arity(at, node, 1)
    if row is None or row.role == "reduction" or at.arm:
        hint = f"write it as a row: `y[i] = {name}(x[i]);`"
        fail(at, "E0232", f"`{name}` gives a row, and stands where none is assigned", node, help=hint)
    value = settle(at, (yield node.args[0], at))
    if not value.row:
        hint = f"give it a slice: `{name}(x[i])`"
        fail(at, "E0214", f"`{name}` takes a row, and this is one value of type {value}", node.args[0], help=hint)
    if row.rank != 1:
        hint = "loop over the others with `parallel`"
        fail(at, "E0214", f"`{name}` runs along one dimension, and this row has {row.rank}", node, help=hint)
    op, expr = SCAN_CALLS[name], widened(value.expr, place)
    if expr.dtype is BOOL:
        fail(at, "E0203", f"`{name}` is not defined on `bool`", node, help="convert first: `as i32`")
    row.scans.append(at)
    return Value(node.span, Scan(op, row.binders[0][0], expr, accumulator(op, expr.dtype), place), row=True)


CALLS: dict[type, Callable[..., Any]] = {syntax.Call: _call, FnBody: body}
