"""Sizes and indices in normal form: an integer combination of atoms plus a constant, equal exactly where provably equal.

An atom is a symbol, or an operation that is no combination (`N // 2`), known by its name and the forms of its operands.
Loads and mutable variables are atoms equal only to themselves, for their value may change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import prod
from typing import NamedTuple, Union

from vxc.dtypes import I64
from vxc.frontend import typed
from vxc.record import entity, state
from vxc.source import Span


@entity
class Atom:
    """An operation that is no combination. `text` is how messages show it; `fixed` as in Form; `natural`: it is never negative."""

    text: str
    fixed: bool
    natural: bool = False


class Form(NamedTuple):
    """sum of coefficient * atom, plus `const`. `fixed` is False where the value may change between two evaluations."""

    terms: frozenset[tuple[Union[typed.Symbol, Atom], int]]
    const: int
    fixed: bool = True

    @property
    def number(self) -> int | None:
        """The value, where the form is a constant."""
        return None if self.terms else self.const

    def minus(self, other: Form) -> Form:
        return _combine(self, other, -1)


def integer(value: int) -> Form:
    return Form(frozenset(), value)


@state
class Forms:
    """What is known of the symbols of one kernel: the forms of lets, one Atom for each operation on given forms, and indices of
    loops that begin at 0 or above."""

    lets: dict[typed.Symbol, Form] = field(default_factory=dict)
    atoms: dict[tuple, Atom] = field(default_factory=dict)
    natural: set[typed.Symbol] = field(default_factory=set)


_FOLD = {
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "min": min,
    "max": max,
}
_NATURAL = {"floordiv": all, "ceildiv": all, "mod": all, "min": all, "max": any}  # of which operands, for the result to be
_TEXT = 60  # characters of an operation in a message


def linear(expr: typed.Expr, forms: Forms) -> Form:
    """The normal form of an i64 expression."""
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
            done.append(_op(item.name, args, forms))
    return done[0]


def volume(shape: Iterable[typed.Expr]) -> int:
    """The product of the constant extents."""
    return prod(extent.value for extent in shape if isinstance(extent, typed.Const))


def is_arithmetic(expr: typed.Expr, binders: set[typed.Symbol]) -> bool:
    """True for plain arithmetic that mentions none of the binders."""
    todo = [expr]
    while todo:
        match item := todo.pop():
            case typed.Var(symbol=symbol) if symbol.kind != "var" and symbol not in binders:
                pass
            case typed.Const():
                pass
            case typed.Op():
                todo.extend(item.args)
            case typed.Cast():
                todo.append(item.arg)
            case _:
                return False
    return True


def _leaf(item: typed.Expr, forms: Forms) -> Form:
    if isinstance(item, typed.Const) and item.dtype.is_int:
        return integer(int(item.value))
    if isinstance(item, typed.Var):
        symbol = item.symbol
        return forms.lets.get(symbol) or Form(frozenset([(symbol, 1)]), 0, symbol.kind != "var")
    if isinstance(item, typed.Cast) and item.how == "cast" and item.arg.dtype.is_int and isinstance(item.arg, (typed.Var, typed.Const)):
        return _leaf(item.arg, forms)  # a widening, which keeps the value
    return Form(frozenset([(Atom("(..)", False), 1)]), 0, False)


def _op(name: str, args: list[Form], forms: Forms) -> Form:
    if name in ("add", "sub"):
        return _combine(args[0], args[1], 1 if name == "add" else -1)
    if name == "neg":
        return _scale(args[0], -1)
    if name == "mul":
        for one, other in (args, reversed(args)):
            if one.number is not None:
                return _scale(other, one.number)
        args = sorted(args, key=show)
    numbers = [arg.number for arg in args]
    if name in _FOLD and None not in numbers:
        return integer(_FOLD[name](*numbers))
    key = (name, *args)
    if key not in forms.atoms:
        text = f"{name}({', '.join(map(show, args))})"
        forms.atoms[key] = Atom(
            text if len(text) <= _TEXT else "(..)",
            all(arg.fixed for arg in args),
            name in _NATURAL and _NATURAL[name](natural(arg, forms) for arg in args),
        )
    atom = forms.atoms[key]
    return Form(frozenset([(atom, 1)]), 0, atom.fixed)


def _combine(a: Form, b: Form, sign: int) -> Form:
    terms = dict(a.terms)
    for atom, coefficient in b.terms:
        terms[atom] = terms.get(atom, 0) + sign * coefficient
    return Form(frozenset((k, c) for k, c in terms.items() if c), a.const + sign * b.const, a.fixed and b.fixed)


def _scale(form: Form, by: int) -> Form:
    return Form(frozenset((k, c * by) for k, c in form.terms if by), form.const * by, form.fixed)


def natural(form: Form, forms: Forms) -> bool:
    """Whether it is shown never to be negative: nothing in it is, and nothing is taken away."""
    known = (a.natural if isinstance(a, Atom) else a.kind == "dim" or a in forms.natural for a, _ in form.terms)
    return form.const >= 0 and all(c > 0 for _, c in form.terms) and all(known)


def show(form: Form) -> str:
    """The form as text for a message: `2*N + 3`."""
    names = [(atom.name if isinstance(atom, typed.Symbol) else atom.text, c) for atom, c in form.terms]
    parts = [name if c == 1 else f"{c}*{name}" for name, c in sorted(names)]
    if form.const or not parts:
        parts.append(str(form.const))
    return " + ".join(parts).replace("+ -", "- ")


# i64 expressions, folded where constant -----------------------------------------------------------------------------------------


def const(value: int, span: Span) -> typed.Const:
    return typed.Const(value, I64, span)


def op(name: str, a: typed.Expr, b: typed.Expr, span: Span) -> typed.Expr:
    """`name` of two i64 expressions, simplified where it is plain (x + 0, x * 1, constants)."""
    x = a.value if isinstance(a, typed.Const) else None
    y = b.value if isinstance(b, typed.Const) else None
    if x is not None and y is not None:
        return const(_op(name, [integer(x), integer(y)], Forms()).const, span)
    if (name in ("add", "sub") and y == 0) or (name in ("mul", "floordiv", "ceildiv") and y == 1):
        return a
    if (name == "add" and x == 0) or (name == "mul" and x == 1):
        return b
    return typed.Op(name, (a, b), I64, span)
