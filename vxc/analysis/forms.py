"""Index forms: integer polynomials over unknowns, digits kept as typed nodes.

`N * i + j // 4 - 1` is the form {(N, i): 1, (div(j, 4),): 1, (): -1}. A monomial is a tuple of unknowns: an `Atom` (a loop
index, a dimension, a scalar, a value that only the run knows), a `Digit` (floor quotient or modulus: one digit of a mixed
radix number) or a `Call` (any other pure operation). Equal forms are equal objects in every run: they hash by content. Unknowns are
named tuples, which hash and compare without a line of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import gcd
from operator import is_
from typing import NamedTuple, Union

from vxc.dtypes import I64, DType
from vxc.record import value

MAX_TERMS, MAX_DEGREE, MAX_DEPTH, MAX_COEFFICIENT = 24, 4, 6, 1 << 40  # beyond these a value is just an unknown
KEPT = 1 << 12  # forms of one unknown or number, and texts of unknowns, that are remembered


class Atom(NamedTuple):
    """An unknown value of the IR, by name; `side` 1 and 2 tell two iterations apart."""

    name: str
    side: int = 0

    depth = 0

    def __str__(self) -> str:
        return self.name


class Digit(NamedTuple):
    """`arg // by` (kind 'div') or `arg % by` (kind 'mod'), floored; `by` is positive or a dimension."""

    kind: str
    arg: Form
    by: Form
    depth: int = 1

    def __str__(self) -> str:
        return f"{_bracketed(self.arg)} {'//' if self.kind == 'div' else '%'} {_bracketed(self.by)}"


class Call(NamedTuple):
    """Operation `op` of semantics.SCALAR_OPS (or 'cast') on operands of `dtype`."""

    op: str
    args: tuple[Form, ...]
    dtype: DType
    depth: int = 1

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


Unknown = Union[Atom, Digit, Call]
Monomial = tuple[Unknown, ...]


@value
class Form:
    """A sum of integer multiples of monomials; the constant is the multiple of ()."""

    terms: frozenset[tuple[Monomial, int]]

    def __hash__(self) -> int:
        return hash(self.terms)

    @staticmethod
    def of(terms: dict[Monomial, int]) -> Form:
        return Form(frozenset([term for term in terms.items() if term[1]]))

    @property
    def constant(self) -> int:
        for m, c in self.terms:
            if not m:
                return c
        return 0

    @property
    def value(self) -> int | None:
        """The integer that this form is, or None."""
        if len(self.terms) > 1:
            return None
        for m, c in self.terms:
            return None if m else c
        return 0

    @property
    def unknowns(self) -> set[Unknown]:
        return {u for m, _ in self.terms for u in m}

    @property
    def depth(self) -> int:
        return max((u.depth for m, _ in self.terms for u in m), default=0)

    def atoms(self) -> Iterator[Atom]:
        """Every atom, those inside digits and calls too."""
        for u in self.unknowns:
            if type(u) is Atom:
                yield u
            else:
                yield from atoms_of(u)

    def __add__(self, other: Form | int) -> Form:
        return self._plus(other, 1)

    def _plus(self, other: Form | int, sign: int) -> Form:
        added = other.terms if type(other) is Form else form(other).terms
        if not added:
            return self
        terms = dict(self.terms)
        for m, c in added:
            terms[m] = terms.get(m, 0) + c * sign
        return Form.of(terms)

    def __neg__(self) -> Form:
        return Form(frozenset([(m, -c) for m, c in self.terms]))

    def __sub__(self, other: Form | int) -> Form:
        return self._plus(other, -1)

    def __mul__(self, other: Form | int) -> Form:
        other = form(other)
        by = other.value
        if by is not None:
            return self if by == 1 else Form(frozenset([(m, c * by) for m, c in self.terms])) if by else ZERO
        terms: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                product = tuple(sorted((*m, *n), key=text_of)) if m and n else m or n
                terms[product] = terms.get(product, 0) + c * d
        return Form.of(terms)

    def coefficient(self, unknown: Unknown) -> Form | None:
        """What multiplies an unknown; None where it occurs squared."""
        terms: dict[Monomial, int] = {}
        for m, c in self.terms:
            if unknown in m:
                at = m.index(unknown)
                rest = m[:at] + m[at + 1 :]
                if unknown in rest:
                    return None
                terms[rest] = c
        return Form.of(terms) if terms else ZERO

    def without(self, unknown: Unknown) -> Form:
        """The terms in which an unknown does not occur."""
        return Form(frozenset([(m, c) for m, c in self.terms if unknown not in m]))

    def replace(self, new: Callable[[Unknown], Form | None]) -> Form:
        """The form with unknowns replaced where `new` gives a form; digits and calls are rebuilt around replaced arguments."""
        changed = {u: f for u in self.unknowns if (f := _replaced(u, new)) is not None}
        if not changed:
            return self
        result = Form(frozenset([(m, c) for m, c in self.terms if not any(u in changed for u in m)]))
        for m, c in self.terms - result.terms:
            product = form(c)
            for u in m:
                product = product * changed.get(u, form(u))
            result = result + product
        return result

    def __str__(self) -> str:
        def text(m: Monomial, c: int) -> str:
            factors = [f"({u})" if isinstance(u, Digit) and (len(m) > 1 or abs(c) != 1) else str(u) for u in m]
            return " * ".join(([str(abs(c))] if abs(c) != 1 or not m else []) + factors)

        ordered = sorted(self.terms, key=lambda term: (not term[0], term[1] < 0, text(*term)))
        parts = [(" - " if c < 0 else " + ") + text(m, c) for m, c in ordered]
        if not parts:
            return "0"
        return ("-" if parts[0][1] == "-" else "") + "".join(parts)[3:]


ZERO = Form(frozenset())


def form(value: Form | Unknown | int) -> Form:
    return value if type(value) is Form else _alone(value)


@lru_cache(KEPT)
def _alone(value: Unknown | int) -> Form:
    if isinstance(value, int):
        return Form(frozenset([((), value)])) if value else ZERO
    return Form(frozenset([((value,), 1)]))


@lru_cache(KEPT)
def text_of(unknown: Unknown) -> str:
    """What unknowns are put in order by."""
    return str(unknown)


def atoms_of(unknown: Unknown) -> Iterator[Atom]:
    """The atoms that an unknown depends on."""
    if type(unknown) is Atom:
        yield unknown
        return
    for part in (unknown.arg, unknown.by) if type(unknown) is Digit else unknown.args:
        yield from part.atoms()


def digit(kind: str, arg: Form, by: Form) -> Form:
    """`arg // by` or `arg % by` as a node of its own, without any simplification."""
    return form(Digit(kind, arg, by, 1 + max(arg.depth, by.depth)))


def call(op: str, args: Iterable[Form], dtype: DType = I64) -> Form:
    args = tuple(args)
    return form(Call(op, args, dtype, 1 + max((a.depth for a in args), default=0)))


def manageable(f: Form) -> bool:
    """False for a form that has grown past what is worth following."""
    for m, c in f.terms:
        if len(m) > MAX_DEGREE or not -MAX_COEFFICIENT <= c <= MAX_COEFFICIENT:
            return False
        for u in m:
            if u.depth > MAX_DEPTH:
                return False
    return len(f.terms) <= MAX_TERMS


def split(f: Form, by: Form) -> tuple[Form, Form]:
    """(q, r) with f = q * by + r, `by` one monomial; coefficients divide towards zero, so that -1 stays -1."""
    ((base, scale),) = by.terms
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, c in f.terms:
        left = _divided(m, base)
        if left is None or scale == 0:
            rest[m] = c
            continue
        quotient[left] = abs(c) // abs(scale) * (1 if c * scale > 0 else -1)
        rest[m] = c - quotient[left] * scale
    return Form.of(quotient), Form.of(rest)


def gather(f: Form) -> Form:
    """Rewrite k*d*(e // d) + k*(e % d) to k*e wherever both digits are there."""
    for u in sorted((u for u in f.unknowns if isinstance(u, Digit) and u.kind == "mod"), key=text_of):
        k = dict(f.terms).get((u,), 0)
        high = digit("div", u.arg, u.by) * u.by * k
        if k and high.terms <= f.terms:
            return gather(f - high - form(u) * k + u.arg * k)
    return f


def content(f: Form) -> int:
    """The greatest common divisor of the coefficients of everything but the constant; 0 where there is nothing."""
    return gcd(*(c for m, c in f.terms if m))


def _divided(m: Monomial, base: Monomial) -> Monomial | None:
    rest = list(m)
    for u in base:
        if u not in rest:
            return None
        rest.remove(u)
    return tuple(rest)


def _replaced(u: Unknown, new: Callable[[Unknown], Form | None]) -> Form | None:
    """What stands for an unknown, or None where nothing in it is replaced."""
    found = new(u)
    if found is not None or type(u) is Atom:
        return found
    parts = (u.arg, u.by) if type(u) is Digit else u.args
    over = tuple([part.replace(new) for part in parts])
    if all(map(is_, over, parts)):
        return None
    return digit(u.kind, *over) if type(u) is Digit else call(u.op, over, u.dtype)


def _bracketed(f: Form) -> str:
    text = str(f)
    return f"({text})" if " " in text or text.startswith("-") else text
