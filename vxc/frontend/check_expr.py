"""Typing expressions: literals, operators, conversions, value-`if`. Names are in `check_names`, calls in `check_calls`.

Handlers for `worklist.run`: each takes (state, node, at) and gives a `Value`; `yield node, at` gives that of a child.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from vxc.dtypes import BOOL, F64, I64, DType
from vxc.frontend import syntax
from vxc.frontend.check_args import ordered_as
from vxc.frontend.check_attrs import attributes
from vxc.frontend.scope import At, State, dtype_named, fail
from vxc.frontend.typed import Cond, Const, Op
from vxc.frontend.values import Branch, Value, common, convert, rounded, typed
from vxc.semantics import DIVISIONS, accepts, result_dtype
from vxc.source import Span

Task = Generator[tuple[Any, At], Value, Any]

BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod", "&": "and", "|": "or", "^": "xor", "<<": "shl",
    ">>": "shr", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
UNARY = {"-": "neg", "!": "not", "~": "bitnot"}
_COMPARE = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_FLAGS = {"eq": operator.eq, "ne": operator.ne, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
_ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_WHOLE: dict[str, Callable[..., int]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "ceildiv": lambda a, b: -(-a // b), "tdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "trem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1), "min": min, "max": max,
}  # fmt: skip
_BITS = 256  # of an integer literal while it is folded; more than any type holds


# Leaves --------------------------------------------------------------------------------------------------------------------------


def _number(st: State, node: syntax.Number, at: At) -> Value:
    return Value(node.span, literal=node.value)


def _bool(st: State, node: syntax.Bool, at: At) -> Value:
    return Value(node.span, Const(node.value, BOOL, at.place(node.span)))


def _string(st: State, node: syntax.String, at: At) -> Value:
    fail(at, "E0227", "a string has no value here", node, help="strings stand in `assert`, `print` and attributes")


# Operators -----------------------------------------------------------------------------------------------------------------------


def _unary(st: State, node: syntax.Unary, at: At) -> Task:
    value = yield node.operand, at
    name = UNARY[node.op]
    if value.number is not None and name == "neg":
        return Value(node.span, literal=-value.number, row=value.row)
    if isinstance(value.number, int) and name == "bitnot":
        return Value(node.span, literal=~value.number, row=value.row)
    if value.flag is not None and name == "not":
        return Value(node.span, Const(not value.flag, BOOL, at.place(node.span)))
    return apply(st, at, name, [value], node.span, f"`{node.op}`")


def _binary(st: State, node: syntax.Binary, at: At) -> Task:
    if node.op in ("&&", "||"):
        return (yield from _logical(st, node, at))
    left = yield node.left, at
    right = yield node.right, at
    return binary(st, at, node.op, left, right, node.span)


def binary(st: State, at: At, sign: str, left: Value, right: Value, span: Span) -> Value:
    """`left sign right`, folded exactly where both are literals."""
    name = BINARY[sign]
    if left.number is not None and right.number is not None:
        return fold(at, name, left.number, right.number, f"`{sign}`", right.span, span)
    if left.flag is not None and right.flag is not None and name in _FLAGS:
        return Value(span, Const(_FLAGS[name](left.flag, right.flag), BOOL, at.place(span)))
    return apply(st, at, name, [left, right], span, f"`{sign}`")


def _logical(st: State, node: syntax.Binary, at: At) -> Task:
    stop = node.op == "||"  # the value of the left operand that decides
    left = yield node.left, at
    require_bool(at, left, f"an operand of `{node.op}`")
    if left.flag is stop:
        return replace(left, span=node.span)
    right = yield node.right, at.but(arm=at.arm or left.flag is None)
    require_bool(at, right, f"an operand of `{node.op}`")
    if left.flag is not None:
        return replace(right, span=node.span)
    span = at.place(node.span)
    known = Const(stop, BOOL, span)
    arms = (known, right.expr) if stop else (right.expr, known)
    return Value(node.span, Cond(left.expr, *arms, BOOL, span), row=left.row or right.row)


def require_bool(at: At, value: Value, what: str) -> None:
    if value.expr is None or value.expr.dtype is not BOOL:
        fail(at, "E0206", f"{what} must be `bool`, not {value}", value.span, help="compare it: `x != 0`")


def fold(at: At, name: str, a: int | float, b: int | float, what: str, divisor: Span, span: Span) -> Value:
    """An operation between two literals, exactly."""
    if name in _COMPARE:
        return Value(span, Const(bool(_COMPARE[name](a, b)), BOOL, at.place(span)))
    whole = isinstance(a, int) and isinstance(b, int)
    if not whole:
        a, b = rounded(a, F64), rounded(b, F64)
    if name in _ARITHMETIC:
        number = _ARITHMETIC[name](a, b)
        if whole and number.bit_length() > _BITS:
            fail(at, "E0205", f"a literal of more than {_BITS} bits", span, help="give an operand a type with `as`, so that it wraps")
        return Value(span, literal=number)
    if name in DIVISIONS and b == 0 and whole:
        _by_zero(at, divisor)
    if name == "div" and not whole:
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return Value(span, literal=a / b if b else (math.nan if a == 0 or a != a else sign * math.inf))
    if name in _WHOLE and whole:
        return Value(span, literal=_WHOLE[name](a, b))
    if name in ("shl", "shr") and whole:
        if not 0 <= b < 64:
            fail(at, "E0205", f"a shift by {b} of a literal", divisor, help="shift by 0 to 63, or give the literal a type with `as`")
        return fold(at, "mul" if name == "shl" else "floordiv", a, 1 << b, what, divisor, span)
    operands = [Value(span, literal=a), Value(divisor, literal=b)]
    exprs, dtype = common(at, operands, what, span)
    _accepts(at, name, dtype, what, span)
    return Value(span, Op(name, tuple(exprs), result_dtype(name, dtype), at.place(span)))


def _by_zero(at: At, where: Span) -> None:
    fail(at, "E0217", "division by zero", where, help="the divisor is the constant 0")


def apply(st: State, at: At, name: str, values: list[Value], span: Span, what: str) -> Value:
    """An operation of semantics.SCALAR_OPS on operands brought to one type."""
    if not accepts(name, BOOL) and any(value.expr is not None and value.expr.dtype is BOOL for value in values):
        _accepts(at, name, BOOL, what, span)
    exprs, dtype = common(at, values, what, span)
    _accepts(at, name, dtype, what, span)
    if name in DIVISIONS and isinstance(exprs[1], Const) and exprs[1].value == 0:
        _by_zero(at, values[1].span)
    return Value(span, Op(name, tuple(exprs), result_dtype(name, dtype), at.place(span)), row=any(v.row for v in values))


def _accepts(at: At, name: str, dtype: DType, what: str, where: Span) -> None:
    if accepts(name, dtype):
        return
    if name == "div":
        hint = "write `//` for floor division, or `as f32` for the quotient"
        fail(at, "E0203", f"`/` divides floats, and these are `{dtype}`", where, help=hint)
    if name == "not":
        fail(at, "E0203", f"`!` is for `bool`, and this is `{dtype}`", where, help="write `~` for the bits inverted, or `x == 0`")
    if name == "bitnot" and dtype is BOOL:
        fail(at, "E0203", "`~` inverts the bits of integers, and this is `bool`", where, help="write `!`")
    if dtype is BOOL:
        hint = "convert first: `as i32`; `&`, `|`, `^`, `==` and `!=` take bools"
        fail(at, "E0203", f"{what} is not defined on `bool`", where, help=hint)
    hint = "convert first: `as f32`" if dtype.is_int else "convert first: `as i32`"
    fail(at, "E0203", f"{what} is not defined on `{dtype}`", where, help=hint)


def _cast(st: State, node: syntax.Cast, at: At) -> Task:
    dtype = dtype_named(at, node.type, node.type_span)
    value = yield node.operand, at
    if value.expr is None:
        return replace(_literal_as(at, value, dtype), span=node.span)
    return replace(value, span=node.span, expr=convert(value.expr, dtype, at.place(node.span)))


def _literal_as(at: At, value: Value, dtype: DType) -> Value:
    """`literal as dtype`: a float is rounded once from the exact number; what does not fit an integer converts as a value would."""
    number, place = value.number, at.place(value.span)
    if number is not None and dtype.is_float:
        expr = Const(rounded(number, dtype), dtype, place)
    elif isinstance(number, int) and dtype.is_int and dtype.min <= number <= dtype.max:
        expr = Const(number, dtype, place)
    else:
        expr = convert(typed(at, value, F64 if value.is_float else I64), dtype, place)
    return replace(value, expr=expr, literal=None)


def _if(st: State, node: syntax.IfExpr, at: At) -> Task:
    cond = yield node.cond, at
    require_bool(at, cond, "the condition of `if`")
    if cond.flag is not None:
        return (yield (node.then if cond.flag else node.orelse), at)
    then = yield node.then, at.but(arm=True)
    other = yield node.orelse, at.but(arm=True)
    return choose(at, cond, then, other, node.span, "cond")


def choose(at: At, cond: Value, then: Value, other: Value, span: Span, how: str) -> Value:
    """`then` or `other` by a condition: `if` ('cond') or `select`."""
    row = cond.row or then.row or other.row
    if then.expr is None and other.expr is None:
        return Value(span, literal=Branch(cond.expr, then.literal, other.literal, how), row=row)
    (a, b), dtype = common(at, [then, other], "the two arms are", span)
    place = at.place(span)
    return Value(span, Op("select", (cond.expr, a, b), dtype, place) if how == "select" else Cond(cond.expr, a, b, dtype, place), row=row)


def _attributed(st: State, node: syntax.AttrExpr, at: At) -> Task:
    position = ordered_as(node.operand) or "expression"
    order = dict(at.order) | (yield from attributes(node.attrs, position, at))
    return replace((yield node.operand, at.but(order=tuple(order.items()))), span=node.span)


EXPRESSIONS = {
    syntax.Number: _number,
    syntax.Bool: _bool,
    syntax.String: _string,
    syntax.Unary: _unary,
    syntax.Binary: _binary,
    syntax.Cast: _cast,
    syntax.IfExpr: _if,
    syntax.AttrExpr: _attributed,
}
