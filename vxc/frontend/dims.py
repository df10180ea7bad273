"""Sizes and indices in normal form: an integer combination of atoms plus a constant, equal exactly where provably equal.

An atom is a symbol, or an operation that is no combination (`N // 2`), known by its name and the forms of its operands.
Loads and mutable variables are atoms equal only to themselves, for their value may change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vxc.dtypes import I64
from vxc.frontend import typed
from vxc.source import Span


class Form(NamedTuple):
    """sum of coefficient * atom, plus `const`. `fixed` is False where the value may change between two evaluations."""

    terms: frozenset[tuple[Any, int]]
    const: int
    fixed: bool = True

    @property
    def number(self) -> int | None:
        """The value, where the form is a constant."""
        return None if self.terms else self.const

    def minus(self, other: Form) -> Form:
        return _combine(self, other, -1)


_FOLD = {
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "min": min,
    "max": max,
}


def linear(expr: typed.Expr, forms: dict[typed.Symbol, Form]) -> Form:
    """The normal form of an i64 expression; `forms` gives that of lets."""
    done: list[Form] = []
    todo: list[tuple[typed.Expr, bool]] = [(expr, False)]
    while todo:
        item, ready = todo.pop()
        if not (isinstance(item, typed.Op) and item.dtype is I64):
            done.append(_leaf(item, forms))
        elif not ready:
            todo.append((item, True))
            todo.extend((arg, False) for arg in reversed(item.args))
        else:
            args = done[len(done) - len(item.args) :]
            del done[len(done) - len(item.args) :]
            done.append(_op(item.name, args))
    return done[0]


def _leaf(item: typed.Expr, forms: dict[typed.Symbol, Form]) -> Form:
    if isinstance(item, typed.Const) and item.dtype.is_int:
        return Form(frozenset(), int(item.value))
    if isinstance(item, typed.Var):
        known = forms.get(item.symbol)
        return known if known is not None else _atom(item.symbol, item.symbol.kind != "var")
    if isinstance(item, typed.Cast) and item.how == "cast" and item.arg.dtype.is_int and isinstance(item.arg, (typed.Var, typed.Const)):
        return _leaf(item.arg, forms)  # a widening, which keeps the value
    return _atom(item, False)


def _atom(key: Any, fixed: bool) -> Form:
    return Form(frozenset([(key, 1)]), 0, fixed)


def _op(name: str, args: list[Form]) -> Form:
    if name in ("add", "sub"):
        return _combine(args[0], args[1], 1 if name == "add" else -1)
    if name == "neg":
        return _scale(args[0], -1)
    if name == "mul":
        for one, other in (args, reversed(args)):
            if one.number is not None:
                return _scale(other, one.number)
    numbers = [arg.number for arg in args]
    if name in _FOLD and None not in numbers:
        return Form(frozenset(), _FOLD[name](*numbers))
    if name == "mul":
        args = sorted(args, key=hash)
    return _atom((name, *args), all(arg.fixed for arg in args))


def _combine(a: Form, b: Form, sign: int) -> Form:
    terms = dict(a.terms)
    for atom, coefficient in b.terms:
        terms[atom] = terms.get(atom, 0) + sign * coefficient
    return Form(frozenset((k, c) for k, c in terms.items() if c), a.const + sign * b.const, a.fixed and b.fixed)


def _scale(form: Form, by: int) -> Form:
    return Form(frozenset((k, c * by) for k, c in form.terms if by), form.const * by, form.fixed)


def show(form: Form) -> str:
    """The form as text for a message: `2*N + 3`."""
    parts = sorted(f"{_show_atom(atom)}" if c == 1 else f"{c}*{_show_atom(atom)}" for atom, c in form.terms)
    if form.const or not parts:
        parts.append(str(form.const))
    return " + ".join(parts).replace("+ -", "- ")


def _show_atom(atom: Any) -> str:
    if isinstance(atom, typed.Symbol):
        return atom.name
    if isinstance(atom, tuple) and all(not isinstance(arg, Form) or len(arg.terms) < 2 for arg in atom[1:]):
        names = [show(arg) if len(str(arg)) < 200 else ".." for arg in atom[1:]]
        return f"{atom[0]}({', '.join(names)})"
    return "(..)"


# i64 expressions, folded where constant -----------------------------------------------------------------------------------------


def const(value: int, span: Span) -> typed.Const:
    return typed.Const(value, I64, span)


def op(name: str, a: typed.Expr, b: typed.Expr, span: Span) -> typed.Expr:
    """`name` of two i64 expressions, simplified where it is plain (x + 0, x * 1, constants)."""
    x = a.value if isinstance(a, typed.Const) else None
    y = b.value if isinstance(b, typed.Const) else None
    if x is not None and y is not None:
        return const(_op(name, [Form(frozenset(), x), Form(frozenset(), y)]).const, span)
    if (name in ("add", "sub") and y == 0) or (name in ("mul", "floordiv", "ceildiv") and y == 1):
        return a
    if (name == "add" and x == 0) or (name == "mul" and x == 1):
        return b
    return typed.Op(name, (a, b), I64, span)
