"""What is known about the unknowns of index forms, and proofs that a form is never negative.

`Ranges.nonnegative` eliminates unknowns one by one, innermost loop first, putting for each the end of its range that makes
the form least. What is left is a polynomial over dimensions, each at least 0 (1 where it bounds a loop that runs), and is
nonnegative if its coefficients are. Failing to show it means nothing. `ir/ranges.py` is another analysis: an
interval of numbers for each value of a kernel, at any stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from vxc.analysis.forms import ZERO, Atom, Call, Digit, Form, Unknown, atoms_of, digit, form, split, text_of
from vxc.record import record

_STEPS = 64  # unknowns eliminated before giving up


@record
class Ranges:
    """Inclusive ranges of unknowns.

    `bounds` maps a loop index to (lowest, highest), either None if unknown; an entry may mention only entries before it.
    `least` maps dimensions, digits of dimensions and bounds of loops that run to 0 or 1. Anything else may be any integer.
    """

    bounds: dict[Unknown, tuple[Form | None, Form | None]]
    least: dict[Unknown, int]

    def with_bounds(self, more: dict[Unknown, tuple[Form | None, Form | None]], positive: Iterable[Form] = ()) -> Ranges:
        """Ranges with entries added after the ones there, and forms that are known to be at least 1."""
        least = {**self.least, **{u: 1 for f in positive for u in _single(f) if self._is_common(u)}}
        return Ranges({**self.bounds, **more}, least)

    def nonnegative(self, f: Form) -> bool:
        if f.value is not None:
            return f.value >= 0
        low = self.lowest(f)
        return low is not None and (_no_negative(low) or _no_negative(low.replace(self._from_least)))

    def positive(self, f: Form) -> bool:
        return self.nonnegative(f - 1)

    def highest(self, f: Form) -> Form | None:
        low = self.lowest(-f)
        return None if low is None else -low

    def lowest(self, f: Form) -> Form | None:
        """A lower bound over dimensions alone, or None. Looked for once: proofs ask for the same bounds again and again."""
        if f.terms not in self._lowest:
            self._lowest[f.terms] = self._eliminated(f)
        return self._lowest[f.terms]

    @cached_property
    def _lowest(self) -> dict[frozenset, Form | None]:
        """By the terms of a form, its lower bound."""
        return {}

    def _eliminated(self, f: Form) -> Form | None:
        for _ in range(_STEPS):
            unknown = self._next(f)
            if unknown is None:
                return f
            f = self._eliminate(f, unknown)
            if f is None:
                return None
        return None

    def _from_least(self, u: Unknown) -> Form | None:
        """A dimension as its least value plus what is above it, under the same name."""
        return form(u) + self.least[u] if self.least.get(u) else None

    def floordiv(self, a: Form, b: Form) -> Form:
        """a // b as a form, simplified as far as the ranges allow."""
        return self._digits(a, b)[0]

    def mod(self, a: Form, b: Form) -> Form:
        return self._digits(a, b)[1]

    def _digits(self, a: Form, b: Form) -> tuple[Form, Form]:
        if b.value == 0:
            return ZERO, ZERO  # as semantics says
        if len(b.terms) != 1 or not self.positive(b):
            return digit("div", a, b), digit("mod", a, b)
        quotient, rest = split(a, b)
        if self.nonnegative(rest) and self.nonnegative(b - 1 - rest):
            return quotient, rest
        return quotient + self._quotient_node(rest, b), digit("mod", rest, b)

    def _quotient_node(self, rest: Form, b: Form) -> Form:
        """(k + x // c) // b is (k * c + x) // (c * b)."""
        digits = (m[0] for m, c in rest.terms if c == 1 and len(m) == 1 and isinstance(m[0], Digit) and m[0].kind == "div")
        inner = next((u for u in sorted(digits, key=text_of) if self.positive(u.by)), None)
        if inner is None:
            return digit("div", rest, b)
        return self.floordiv((rest - form(inner)) * inner.by + inner.arg, inner.by * b)

    def _is_common(self, u: Unknown) -> bool:
        """True for a dimension or scalar, and for what is made of dimensions alone: no loop index has a part in it."""
        return u not in self.bounds if isinstance(u, Atom) else all(a in self.least for a in atoms_of(u))

    def _next(self, f: Form) -> Unknown | None:
        """What to eliminate next: digits and calls of loop indices, then indices, innermost first, then digits of dimensions."""
        indices, nodes = [], []
        for m, _ in f.terms:
            for u in m:
                if type(u) is not Atom:
                    nodes.append(u)
                elif u not in self.least:
                    indices.append(u)
        varying = [u for u in nodes if any(a not in self.least for a in atoms_of(u))]
        if indices and not varying:
            return next((u for u in reversed(self.bounds) if u in indices), indices[0]) if len(indices) > 1 else indices[0]
        depth = max([u.depth for u in varying or nodes], default=0)
        deepest = [u for u in varying or nodes if u.depth == depth]
        return max(deepest, key=text_of) if len(deepest) > 1 else deepest[0] if deepest else None

    def _eliminate(self, f: Form, u: Unknown) -> Form | None:
        """A form nowhere above `f` and without `u`."""
        k = f.coefficient(u)
        if k is None:
            return None
        rises = self.nonnegative(k)
        if not rises and not self.nonnegative(-k):
            return None
        rest = f.without(u)
        if isinstance(u, Digit):
            if u.kind == "div" and not rises:  # k*(e // d) with d | k < 0: at least (k / d)*e
                whole, left = split(k, u.by) if len(u.by.terms) == 1 else (ZERO, k)
                if left == ZERO and self.nonnegative(u.by):
                    return rest + whole * u.arg
            low, high = self._digit_range(u)
        else:
            low, high = self.bounds.get(u) or (self._call_range(u) if isinstance(u, Call) else (None, None))
        end = low if rises else high
        return None if end is None else rest + k * end

    def _digit_range(self, u: Digit) -> tuple[Form | None, Form | None]:
        if self.least.get(u) or not self.positive(u.by):
            known = form(self.least.get(u, 0))
            return (known if known != ZERO or self.nonnegative(u.arg) and self.nonnegative(u.by) else None), None
        if u.kind == "mod":
            return ZERO, u.by - 1
        low, high = self.constants(u.arg)
        by = u.by.value
        floor = form(low // by) if low is not None and by else ZERO if self.nonnegative(u.arg) else None
        return floor, form(high // by) if high is not None and by else None

    def _call_range(self, u: Call) -> tuple[Form | None, Form | None]:
        """Of a minimum: it is no more than its first operand. Of an exclusive or of what is not negative: no bit is set above the highest
        of either.
        """
        if u.op == "min":
            return None, u.args[0]
        if u.op != "xor" or not all(map(self.nonnegative, u.args)):
            return None, None
        highs = [self.constants(arg)[1] for arg in u.args]
        return ZERO, None if None in highs else form((1 << max(highs).bit_length()) - 1)

    def constants(self, f: Form) -> tuple[int | None, int | None]:
        """The range of a form as integers, where its ends are constants."""
        low, high = self.lowest(f), self.highest(f)
        return (None if low is None else low.value), (None if high is None else high.value)


def _no_negative(f: Form) -> bool:
    """Whether no coefficient is below 0."""
    for _, c in f.terms:
        if c < 0:
            return False
    return True


def _single(f: Form) -> list[Unknown]:
    """[u] where the form is one unknown, else []."""
    return [m[0] for m, c in f.terms if c == 1 and len(m) == 1] if len(f.terms) == 1 else []
