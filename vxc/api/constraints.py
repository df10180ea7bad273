"""Constraints of `vxc.autotune`: expressions of Python over the names of axes, or functions of some of them.

Of an expression nothing is run but arithmetic, comparisons and conditions of numbers, strs and bools, which is what a constraint is made
of: it ends, and soon, whatever is written. What a function does is its author's.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from vxc.api.functions import gives_none
from vxc.api.tune_refusals import guarded, shown, untunable
from vxc.diag import listed

Value = int | bool | str
Constraint = str | Callable[..., Any]
Test = Callable[[Mapping[str, Value]], bool]
"""Whether these values of the axes satisfy a constraint. Raises `VxcError` E0719 for what the constraint raises."""

_MOST = 1000  # constraints
_SHOWN = 120  # characters of an expression
_BITS = 4096  # of a number: longer ones compare with nothing that an axis has
_LIKE = "give a text such as 'BM * BN <= 16384', or a function of the axes it names"


def tests_of(where: Any, axes: Iterable[str]) -> list[Test]:
    """The constraints that `where` gives, one or several. Raises `VxcError` E0719."""
    single = isinstance(where, (str, bytes, Mapping)) or callable(where) or not isinstance(where, Iterable)
    given = [where] if single else guarded("`where`", _LIKE, lambda: list(islice(where, _MOST + 1)))
    if len(given) > _MOST:
        raise untunable(f"`where` gives more than {_MOST:,} constraints", "write them as one function of the axes")
    return [_test(constraint, axes) for constraint in given]


def _test(constraint: Any, axes: Iterable[str]) -> Test:
    if isinstance(constraint, str):
        what = f"the constraint `{constraint if constraint.isprintable() and len(constraint) < _SHOWN else shown(constraint)}`"
        holds = _expression(constraint, axes, what)
    elif callable(constraint):
        what = "a constraint"
        holds = _function(constraint, axes)
    else:
        raise untunable(f"a constraint is {shown(constraint)}", _LIKE)

    def test(values: Mapping[str, Value]) -> bool:
        given = " ".join(f"{name}={value}" for name, value in values.items())
        return guarded(f"{what}, for {given}," if given else what, _LIKE, lambda: bool(holds(values)))

    return test


def _function(function: Callable[..., Any], axes: Iterable[str]) -> Callable[[Mapping[str, Value]], Any]:
    """Parameters that are no axes keep their defaults."""
    way_out = "write it as `lambda BM, BN: ..`, with the axes it looks at as its parameters"
    if gives_none(function):
        raise untunable(f"a constraint is {gives_none(function)}", "give a function that returns whether the constraint holds")
    params = guarded("asking a constraint for its parameters", way_out, inspect.signature, function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in params):
        raise untunable(f"a constraint is {shown(function)}, which does not say what it looks at", way_out)
    _known([p.name for p in params if p.default is p.empty], axes, "a constraint")
    placed = [p for p in params if p.kind is p.POSITIONAL_ONLY]
    named = [p.name for p in params if p.kind is not p.POSITIONAL_ONLY and p.name in axes]
    return lambda values: function(*(values.get(p.name, p.default) for p in placed), **{name: values[name] for name in named})


def _known(names: Iterable[str], axes: Iterable[str], what: str) -> None:
    for name in names:
        if name not in axes:
            raise untunable(f"{what} asks for `{name}`, which is no axis", f"the axes are {listed(axes)}")


# ---- expressions -----------------------------------------------------------------------------------------------------


def _expression(text: str, axes: Iterable[str], what: str) -> Callable[[Mapping[str, Value]], Any]:
    try:
        node = ast.parse(text.strip(), mode="eval").body
        parts = list(ast.walk(node))
    except SyntaxError as error:
        raise untunable(f"{what} is no expression: {error.msg}", _LIKE) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise untunable(f"{what} is no expression: {str(error) or type(error).__name__}", _LIKE) from None
    for part in parts:
        if not isinstance(part, (*_RULES, *_OPERATORS, ast.And, ast.Or, ast.Load)):
            way_out = "write numbers, axes, operators, comparisons, `and`, `or`, `not`, `in (..)` and `.. if .. else ..`, or a function"
            has = _NAMES.get(type(part), f"a {type(part).__name__}")
            raise untunable(f"{what} has {has}, and is to be arithmetic over the axes", way_out)
    _known([part.id for part in parts if isinstance(part, ast.Name)], axes, what)
    return lambda values: _value(node, values)


_NAMES: dict[type, str] = {
    ast.Call: "a call", ast.Attribute: "an attribute", ast.Subscript: "an index", ast.Lambda: "a `lambda`", ast.MatMult: "an `@`",
    ast.ListComp: "a comprehension", ast.GeneratorExp: "a comprehension", ast.JoinedStr: "an f-string",
}  # fmt: skip


def _value(node: ast.expr, values: Mapping[str, Value]) -> Any:
    return _RULES[type(node)](node, values)


def _binary(node: ast.BinOp, values: Mapping[str, Value]) -> Any:
    left, right = _value(node.left, values), _value(node.right, values)
    for one in (left, right):
        if not isinstance(one, (int, float)):
            raise TypeError(f"{shown(one)} is no number")
    if isinstance(left, int) and isinstance(right, int) and type(node.op) in _BITS_OF:
        if _BITS_OF[type(node.op)](left.bit_length(), right) > _BITS:
            raise OverflowError(f"a number is of more than {_BITS:,} bits")
    return _OPERATORS[type(node.op)](left, right)


_BITS_OF: dict[type, Callable[[int, int], int]] = {
    ast.Pow: lambda bits, times: bits * times, ast.LShift: lambda bits, by: bits + by, ast.Mult: lambda bits, by: bits + by.bit_length(),
}  # fmt: skip
"""Of how many bits the result is at most, for a left operand of so many."""


def _compare(node: ast.Compare, values: Mapping[str, Value]) -> bool:
    left = _value(node.left, values)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, values)
        if not _OPERATORS[type(op)](left, right):
            return False
        left = right
    return True


def _joined(node: ast.BoolOp, values: Mapping[str, Value]) -> Any:
    decides = bool if isinstance(node.op, ast.Or) else operator.not_
    found = None
    for part in node.values:
        found = _value(part, values)
        if decides(found):
            break
    return found


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
    ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
_RULES: dict[type, Callable[[Any, Mapping[str, Value]], Any]] = {
    ast.Constant: lambda node, values: node.value,
    ast.Name: lambda node, values: values[node.id],
    ast.Tuple: lambda node, values: tuple(_value(part, values) for part in node.elts),
    ast.List: lambda node, values: [_value(part, values) for part in node.elts],
    ast.Set: lambda node, values: {_value(part, values) for part in node.elts},
    ast.UnaryOp: lambda node, values: _OPERATORS[type(node.op)](_value(node.operand, values)),
    ast.IfExp: lambda node, values: _value(node.body if _value(node.test, values) else node.orelse, values),
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.BoolOp: _joined,
}  # fmt: skip
