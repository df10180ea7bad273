"""Values of expressions: typed, or literals that take their type from what they meet.

A literal (and an `if` or `select` between literals) has no dtype until an operand, a store, a declared type or the
default (i64, f32) gives it one; until then it is an exact Python number. Conversions that happen by themselves are the
widening ones, written into the typed tree as `Cast`; all others need `as`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Union

from vxc.dtypes import BOOL, F32, F64, I64, DType
from vxc.frontend.scope import At, fail
from vxc.frontend.typed import Cast, Cond, Const, Expr, Load, Op
from vxc.record import value
from vxc.semantics import cast
from vxc.source import Span


@value
class Branch:
    """One of two literals, chosen at run time by `if` or `select`."""

    cond: Expr
    then: Literal
    other: Literal
    how: str


Literal = Union[int, float, Branch]


@value
class Value:
    """`expr`, or else `literal`. `row` is True where the value differs along the rows of the context it stands in."""

    span: Span
    expr: Expr | None = None
    literal: Literal | None = None
    row: bool = False

    @property
    def is_float(self) -> bool:
        """Whether this is a float, typed or literal."""
        return self.expr.dtype.is_float if self.expr is not None else any(isinstance(n, float) for n in leaves(self.literal))

    @property
    def flag(self) -> bool | None:
        """The value of a bool that is known."""
        return self.expr.value if isinstance(self.expr, Const) and self.expr.dtype is BOOL else None

    @property
    def number(self) -> int | float | None:
        """The number, where this is a plain literal."""
        return None if isinstance(self.literal, Branch) else self.literal

    def __str__(self) -> str:
        if self.expr is not None:
            return f"`{self.expr.dtype}`"
        return "a float literal" if self.is_float else "an integer literal"


def leaves(literal: Literal | None) -> list[int | float]:
    """The numbers that a literal may be."""
    found, todo = [], [literal]
    while todo:
        item = todo.pop()
        if isinstance(item, Branch):
            todo += (item.other, item.then)
        elif item is not None:
            found.append(item)
    return found


# Literals into types -------------------------------------------------------------------------------------------------------------


def constant(at: At, number: int | float, dtype: DType, span: Span) -> Const:
    """A literal as a constant of a type, rounded once. Fails (E0203, E0205) where it does not fit."""
    if dtype is BOOL:
        fail(at, "E0203", "a number literal is no `bool`", span, help="write `true`, `false` or a comparison such as `x != 0`")
    if dtype.is_int:
        if isinstance(number, float):
            hint = f"write the other operand `as f32`, or this one as an integer{f': `{int(number)}`' if number == number // 1 else ''}"
            fail(at, "E0203", f"a float literal meets a value of type `{dtype}`", span, help=hint)
        if not dtype.min <= number <= dtype.max:
            fail(at, "E0205", f"`{number}` does not fit `{dtype}`, which holds {dtype.min} to {dtype.max}", span, help="use a wider type")
        return Const(number, dtype, at.place(span))
    nearest = rounded(number, dtype)
    if (isinstance(number, int) or math.isfinite(number)) and not math.isfinite(nearest):
        fail(at, "E0205", f"`{number}` is beyond the range of `{dtype}`", span, help="use a wider type, or `inf`")
    if isinstance(number, int) and nearest != number:
        hint = f"write `{number}.0` to round it to {nearest!r}, or use a wider type"
        fail(at, "E0205", f"the integer `{number}` is not exact in `{dtype}`", span, help=hint)
    return Const(nearest, dtype, at.place(span))


def rounded(number: int | float, dtype: DType) -> float:
    """The value of a float type nearest to a number (beyond its range: infinity, for f8e4m3 NaN). A NaN literal has no sign."""
    if number != number:
        return math.nan
    try:
        value = float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    return value if dtype is F64 else float(cast(value, F64, dtype))


def typed(at: At, value: Value, dtype: DType) -> Expr:
    """A literal as an expression of a type."""
    done: list[Expr] = []
    todo: list[tuple[Literal, bool]] = [(value.literal, False)]
    while todo:
        item, ready = todo.pop()
        if not isinstance(item, Branch):
            done.append(constant(at, item, dtype, value.span))
        elif not ready:
            todo += ((item, True), (item.other, False), (item.then, False))
        else:
            other, then, span = done.pop(), done.pop(), at.place(value.span)
            select = item.how == "select"
            done.append(Op("select", (item.cond, then, other), dtype, span) if select else Cond(item.cond, then, other, dtype, span))
    return done[0]


def settle(at: At, value: Value) -> Value:
    """The value with a dtype: a literal takes its default, i64 or f32. A load stays wide; `as f16` stays f16."""
    if value.expr is not None:
        return value
    return replace(value, expr=typed(at, value, F32 if value.is_float else I64), literal=None)


# Conversions ---------------------------------------------------------------------------------------------------------------------


def contains(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if wide is narrow:
        return True
    if wide.is_int and narrow.is_int:
        return wide.min <= narrow.min and narrow.max <= wide.max
    return wide.is_float and narrow.is_float and wide.bits > narrow.bits


def convert(expr: Expr, dtype: DType, span: Span) -> Expr:
    """`expr as dtype`; a widening that is undone leaves no trace."""
    if expr.dtype is dtype:
        return expr
    if isinstance(expr, Cast) and expr.how == "cast" and expr.arg.dtype is dtype and contains(expr.dtype, dtype):
        return expr.arg
    return Cast("cast", expr, dtype, span)


def widened(expr: Expr, span: Span) -> Expr:
    """The expression in the type it computes in."""
    return convert(expr, expr.dtype.compute, span) if expr.dtype.is_storage else expr


def stored(expr: Expr, bits: int) -> Expr:
    """What `reinterpret` to `bits` reads: the loaded value as it is in memory, where the widened one has another width."""
    return expr.arg if _is_load(expr) and expr.dtype.bits != bits and expr.arg.dtype.bits == bits else expr


def _is_load(expr: Expr) -> bool:
    """Whether this is a loaded element, widened."""
    return isinstance(expr, Cast) and expr.how == "cast" and isinstance(expr.arg, Load) and expr.arg.dtype.is_storage


def assign(at: At, value: Value, dtype: DType, what: str, store: bool = False) -> Expr:
    """The value as `what` (an element of `y`, parameter `a` ..) of type `dtype`. Only `store` to a float narrows by itself."""
    if value.expr is None:
        return typed(at, value, dtype)
    source = value.expr.dtype
    if _is_load(value.expr) and value.expr.arg.dtype is dtype:
        return value.expr.arg
    if not contains(dtype, source) and not (store and dtype.is_float and source.is_float):
        fix = "`!= 0` or `as bool`" if dtype is BOOL else f"`as {dtype}`"
        fail(at, "E0204", f"{what} is `{dtype}`, and this value is `{source}`", value.span, help=f"convert it where that is meant: {fix}")
    return convert(value.expr, dtype, at.place(value.span))


def common(at: At, values: list[Value], what: str, where: Span) -> tuple[list[Expr], DType]:
    """The operands in the one type that they meet in. Fails (E0203) where there is none."""
    exprs = [None if v.expr is None else widened(v.expr, at.place(v.span)) for v in values]
    dtype: DType | None = None
    for expr in exprs:
        if expr is not None:
            dtype = expr.dtype if dtype is None else _meet(at, dtype, expr.dtype, what, where)
    if dtype is None:
        dtype = F32 if any(v.is_float for v in values) else I64
    return [typed(at, v, dtype) if e is None else convert(e, dtype, at.place(v.span)) for v, e in zip(values, exprs)], dtype


def _meet(at: At, a: DType, b: DType, what: str, where: Span) -> DType:
    if contains(a, b):
        return a
    if contains(b, a):
        return b
    if BOOL in (a, b):
        hint = "write `x != 0` for the number, or `as i32` for the bool"
    elif a.is_float or b.is_float:
        hint = f"convert the integer: `as {a if a.is_float else b}`"
    else:
        hint = f"neither type holds every value of the other: convert one, such as `as {'i64' if 64 not in (a.bits, b.bits) else a}`"
    fail(at, "E0203", f"{what} of `{a}` and `{b}`", where, help=hint)
