"""Typing calls: scalar functions, conversions by function, inlined `fn`s. Reductions and scans are in `check_reduce`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from vxc.diag import suggestion
from vxc.dtypes import BOOL, DTYPES, F32, I64
from vxc.frontend import syntax
from vxc.frontend.check_args import SCAN_CALLS, arity, is_reduction, named
from vxc.frontend.check_expr import BINARY, UNARY, apply, choose, fold, require_bool
from vxc.frontend.check_reduce import reduction, scan
from vxc.frontend.foreign import FUNCTIONS as FOREIGN
from vxc.frontend.inline import FnBody, body, inline
from vxc.frontend.scope import At, State, dtype_named, fail
from vxc.frontend.typed import Cast, Op
from vxc.frontend.values import Value, assign, settle, stored
from vxc.semantics import REDUCTIONS, SCALAR_OPS

Task = Generator[tuple[Any, At], Value, Any]

_OPERATORS = {*BINARY.values(), *UNARY.values()}
FUNCTIONS = {name: op for name, op in SCALAR_OPS.items() if name not in _OPERATORS}
CONVERSIONS = ("reinterpret", "sat")
ATOMICS = ("atomic_add", "atomic_max", "atomic_min")
STATEMENTS = (*ATOMICS, "copy", "gemm", "assert", "print")
BUILTINS = {*FUNCTIONS, *REDUCTIONS, *SCAN_CALLS, *CONVERSIONS, *STATEMENTS}


def _call(st: State, node: syntax.Call, at: At) -> Any:
    name = node.func.name
    if is_reduction(node):
        return reduction(st, node, at)
    if name in FUNCTIONS:
        return _function(st, node, at)
    if name in SCAN_CALLS:
        return scan(st, node, at)
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
    elif name in FOREIGN:
        hint = f"write {FOREIGN[name]}"
    elif name in DTYPES:
        hint = f"conversions are written `x as {name}`"
    fail(at, "E0207", f"there is no function `{name}`", node.func, help=hint)


# Scalar functions ----------------------------------------------------------------------------------------------------------------


def _function(st: State, node: syntax.Call, at: At) -> Task:
    name = node.func.name
    named(at, node)
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
    named(at, node)
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


CALLS: dict[type, Callable[..., Any]] = {syntax.Call: _call, FnBody: body}
