"""Offsets: where in memory an access lies, as an index form, and by what such a form is divisible.

The forms here are right modulo 2**64, so that wrapping does not matter: a quotient is always an unknown of its own, and a
remainder is written as a - b * (a // b), so that the digits of a number add up to it again: (e // N) * N + e % N is e. By a
divisor of 0 they do not; `Offsets.divisors` are the dimensions that must not be 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import gcd

from vxc.analysis.forms import Atom, Call, Digit, Form, call, digit, form, manageable
from vxc.dtypes import I64
from vxc.ir.alignment import multiples
from vxc.ir.kernel import Buffer, Const, Inst, Operand, Value
from vxc.record import state


ADDRESS = "&"  # begins the names of where arrays begin


@state
class Offsets:
    """Forms of the i64 values of one kernel, filled in program order. An index of a loop counts iterations: start + step * unknown."""

    params: frozenset[str]  # names of scalar parameters: the same in the whole launch
    multiples: Mapping[str, int] = field(default_factory=dict)  # of these, what is known of the lie of arrays
    forms: dict[str, Form] = field(default_factory=dict)
    divisors: dict[str, frozenset[str]] = field(default_factory=dict)  # by value: parameters that a remainder in its form is by

    @classmethod
    def of(cls, params) -> Offsets:
        return cls(frozenset(p.name for p in params if isinstance(p, Value)), multiples(params))

    def form(self, x: Operand) -> Form:
        if type(x) is Const:
            return form(int(x.value))
        return self.forms.get(x.name) or form(Atom(x.name))

    def define(self, inst: Inst) -> None:
        """Give the result of an instruction its form."""
        result = inst.result
        if type(result) is not Value or result.dtype is not I64:
            return
        rule = _RULES.get(inst.op)
        if inst.op == "loop":
            start, _, step = (*map(self.form, inst.operands), form(1))[:3]
            found: Form | None = start + form(Atom(result.name)) * step
        elif inst.op == "ahead":
            buffer, index = inst.operands
            short = -(address(buffer) + self.form(index))
            by = form(inst.attr("bytes") // buffer.dtype.bytes)
            found = short - digit("div", short, by) * by
        else:
            found = rule(self, *inst.operands) if rule else None
        if found is not None and manageable(found):
            self.forms[result.name] = found
            divides = inst.op == "mod" and type(inst.operands[1]) is Value
            if self.divisors or divides:
                used = frozenset().union(*(self.divisors.get(x.name, ()) for x in inst.operands if type(x) is Value))
                used |= {inst.operands[1].name} if divides else frozenset()
                if used:
                    self.divisors[result.name] = used

    def remainder(self, a: Operand, b: Operand) -> Form | None:
        positive = b.value > 0 if type(b) is Const else b.name in self.params
        return self.form(a) - self.quotient(a, b) * self.form(b) if positive else None

    def quotient(self, a: Operand, b: Operand) -> Form:
        """A quotient of a quotient, by positive constants, is one by their product."""
        f, by = self.form(a), self.form(b)
        if by.value is not None and by.value > 0 and len(f.terms) == 1:
            ((factors, c),) = f.terms
            inner = factors[0] if c == 1 and len(factors) == 1 else None
            if isinstance(inner, Digit) and inner.kind == "div" and (inner.by.value or 0) > 0:
                return digit("div", inner.arg, inner.by * by)
        return digit("div", f, by)

    def linear(self, buffer: Buffer, indices: tuple[Operand, ...]) -> Form:
        """The offset of an element in memory, in elements."""
        found = form(0)
        for at, index in enumerate(indices):
            if buffer.strides is None:
                found = found * self.form(buffer.shape[at]) + self.form(index)
            else:
                found = found + self.form(index) * self.form(buffer.strides[at])
        return found

    def divisible(self, f: Form, by: int, given: Mapping[str, int]) -> dict[str, int] | None:
        """Which parameters must be divisible by what, for a form to be so by a power of two; None where that is not enough.

        Where there is a choice, one of those that must be already (`given`).
        """
        needs: dict[str, int] = {}
        choices = []
        for factors, c in f.terms:
            rest = by // gcd(c, by)
            if rest == 1:
                continue
            found = [n for u in factors if (n := self._factor(u, rest, given)) is not None]
            if not found:
                return None
            choices.append(found)
        # Terms come in no order of their own: which parameters are tested, and in which order, must not depend on the process.
        for found in sorted(choices, key=lambda found: (len(found), [[*n.items()] for n in found])):
            merge(needs, min(found, key=lambda n: sum(max(given.get(k, 1), needs.get(k, 1)) < v for k, v in n.items())))
        return needs

    def _factor(self, u, by: int, given: Mapping[str, int]) -> dict[str, int] | None:
        match u:
            case Atom(name) if name in self.params:
                return {} if self.multiples.get(name, 1) % by == 0 else {name: by}
            case Call("max" | "min", args):
                needs: dict[str, int] = {}
                for arg in args:
                    found = self.divisible(arg, by, {**given, **needs})
                    if found is None:
                        return None
                    merge(needs, found)
                return needs
        return None


def address(buffer: Buffer) -> Form:
    """Where an array begins, counted in its elements: no value of the IR has this name."""
    return form(Atom(f"{ADDRESS}{buffer.name}"))


def merge(needs: dict[str, int], more: Mapping[str, int]) -> None:
    """Add needs to needs: the greater (of two powers of two, where it is about divisibility) says both."""
    for name, by in more.items():
        needs[name] = max(needs.get(name, 1), by)


def run_of(f: Form, index: Atom, count: int) -> Form | None:
    """What a form is at index 0, if it is that plus `index` for each index below `count`, a power of two; else None.

    A quotient by a multiple of `count` is the same for all of them where what it divides begins at such a multiple.
    """
    found = settled(f, index, count)
    if found.coefficient(index) != form(1):
        return None
    base = found.without(index)
    return None if index in base.atoms() else base


def settled(f: Form, index: Atom, count: int) -> Form:
    """The form with the quotients in it that are the same for each index below `count` as they are at index 0."""
    return f.replace(lambda u: _fixed(u, index, count) if isinstance(u, Digit) else None)


def _fixed(u: Digit, index: Atom, count: int) -> Form | None:
    by, arg = u.by.value, settled(u.arg, index, count)  # the digit of a digit, as of a row in tiles of tiles
    if by is None or by % count or arg.coefficient(index) != form(1):
        return None
    base = arg.without(index)
    if index in base.atoms() or any(c % count for _, c in base.terms):
        return None
    return digit("div", base, u.by)


def repeated_run_of(f: Form, index: Atom, count: int) -> tuple[Form, int] | None:
    """(what a form is at index 0, r) if it is that plus `index // r` for each index below `count`, both powers of two; else None.

    So bytes lie of which each has two elements: where e begins at an even number, (e + index) // 2 is e // 2 + index // 2.
    """
    found = settled(f, index, count)
    quotients = [u for u in found.unknowns if isinstance(u, Digit) and u.kind == "div" and index in u.arg.atoms()]
    if len(quotients) != 1:
        return None
    (quotient,) = quotients
    each, first = quotient.by.value or 0, quotient.arg.without(index)
    if not 1 < each < count or count % each or quotient.arg.coefficient(index) != form(1) or any(c % each for _, c in first.terms):
        return None
    base = found.without(quotient)
    if found.coefficient(quotient) != form(1) or index in (*base.atoms(), *first.atoms()):
        return None
    return base + Form(frozenset((m, c // each) for m, c in first.terms)), each


def _shifted(o: Offsets, a: Operand, b: Operand) -> Form | None:
    return o.form(a) * (1 << b.value) if type(b) is Const and 0 <= b.value < 40 else None


def _same(o: Offsets, a: Operand) -> Form | None:
    """A cast of what i64 holds as it is: an unknown of another type is unknown as such."""
    return o.form(a) if a.dtype.is_int and I64.min <= a.dtype.min and a.dtype.max <= I64.max else None


_RULES = {
    "cast": _same,
    "add": lambda o, a, b: o.form(a) + o.form(b),
    "sub": lambda o, a, b: o.form(a) - o.form(b),
    "mul": lambda o, a, b: o.form(a) * o.form(b),
    "fma": lambda o, a, b, c: o.form(a) * o.form(b) + o.form(c),
    "neg": lambda o, a: -o.form(a),
    "shl": _shifted,
    "floordiv": Offsets.quotient,
    "mod": Offsets.remainder,
    "max": lambda o, a, b: call("max", (o.form(a), o.form(b))),
    "min": lambda o, a, b: call("min", (o.form(a), o.form(b))),
}
