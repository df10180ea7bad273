"""Whether distinct iterations of a loop can touch one element: a proof by comparing index tuples, or none.

For two accesses of a buffer under a loop over p, suppose that iterations p and p' touch the same element: each dimension
then gives an equation a(p, s) - b(p', s') = 0, s being what differs between iterations (inner indices, values that only the
run knows) and everything else being common. `separate` shows that no p != p' solves them, with

  digits     x + e // c and e % c equal  =>  x * c + e equal (mixed radix)
  order      p' = p + step*d with d >= 1, or the other way round
  intervals  an equation that is always positive, or always negative
  congruence an equation that is never 0 modulo some g: g*q + r with 0 < |r| < g, or a constant that g does not divide;
             e % c and e' % c equal  =>  e and e' lie c*q apart
  exchange   e ^ c and e' ^ c equal  =>  e and e' equal; the same times g, where what is added to it is less than g
  unit terms x = ... from one equation, put into the others and into loop bounds and conditions

There is no search, so the cost is a few polynomials per pair. Failing to show it means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, permutations

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.comparisons import AT_LEAST_0, comparisons
from vxc.analysis.forms import ZERO, Atom, Call, Digit, Form, Unknown, atoms_of, content, form, gather, split, text_of
from vxc.analysis.ranges import Ranges
from vxc.record import record

DISTANCE = Atom("distance")  # between the two iterations
MAX_TOUCHES = 64  # accesses of one buffer that are compared pair by pair


@record
class Touch:
    """An access, or several that differ by constants alone: those constants are then unknowns with `bounds`."""

    access: Access
    bounds: Mapping[Atom, tuple[Form, Form]]


def independent(facts: KernelFacts, loop: LoopFact, accesses: Sequence[Access]) -> bool:
    """True where it is shown that distinct iterations of the loop do not conflict through these accesses of one buffer.

    Two conflict if they touch one element and are neither both reads nor both atomic.
    """
    dimensions = range(len(accesses[0].indices))
    if loop.trips in (0, 1) or any(_numbers_iterations(facts, loop, {a.indices[d]: a for a in accesses}) for d in dimensions):
        return True
    exact = [Touch(a, {}) for a in accesses]
    return any(_all_separate(facts, loop, touches) for touches in (merged(loop, accesses), exact) if len(touches) <= MAX_TOUCHES)


def _numbers_iterations(facts: KernelFacts, loop: LoopFact, forms: Mapping[Form, Access]) -> bool:
    """True where a dimension of all accesses is c * p + what is common + less than c: a row or a block for each iteration.

    By far the usual case. `forms` are the indices in that dimension, each with an access that has it.
    """
    shared = {(f.coefficient(loop.index) or ZERO, _common_part(facts, loop, f)) for f in forms}
    scale = abs(next(iter(shared))[0].value or 0)
    if len(shared) > 1 or not scale:
        return False
    low = high = 0
    for n, (f, access) in enumerate(forms.items()):
        own = f.without(loop.index) - _common_part(facts, loop, f)
        least, most = access.loops[-1].ranges.constants(own)
        if least is None or most is None:
            return False
        low, high = (min(low, least), max(high, most)) if n else (least, most)
    return high - low < scale


def _common_part(facts: KernelFacts, loop: LoopFact, f: Form) -> Form:
    """The terms, but for the constant, that are equal in all iterations of the loop."""
    return Form(frozenset((m, c) for m, c in f.terms if m and not any(facts.varies(a.name, loop) for u in m for a in atoms_of(u))))


def _all_separate(facts: KernelFacts, loop: LoopFact, touches: Sequence[Touch]) -> bool:
    pairs = combinations_with_replacement(touches, 2)
    return all(separate(facts, loop, a, b) for a, b in pairs if {a.access.mode, b.access.mode} not in ({"read"}, {"atomic"}))


def separate(facts: KernelFacts, loop: LoopFact, a: Touch, b: Touch) -> bool:
    """True where it is shown that no two distinct iterations of the loop touch one element through `a` and `b`."""
    one, two = _Side(facts, loop, a, 1), _Side(facts, loop, b, 2)
    equations = [one(f) - two(g) for f, g in zip(a.access.indices, b.access.indices)]
    equations += _equalities(one) + _equalities(two)
    ranges = _ranges(facts, loop, one, two)
    equations = _join_digits([gather(e) for e in equations], ranges)
    equations += list(_congruences(equations))
    limits = _limits(one) + _limits(two)
    if _impossible(equations, limits, ranges):
        return True
    p1, p2 = Atom(loop.index.name, 1), Atom(loop.index.name, 2)

    def excluded(far: Atom, place: Form, apart: Ranges) -> bool:
        return _impossible(_put(equations, far, place), _put(limits, far, place), apart)

    orders = ((p1, p2), (p2, p1))
    return all(any(excluded(far, form(near) + gap, apart) for gap, apart in _gaps(loop, ranges)) for near, far in orders)


def _gaps(loop: LoopFact, ranges: Ranges) -> Iterator[tuple[Form, Ranges]]:
    """How far apart two iterations' indices are: so many steps, and a distance within the loop's bounds."""
    step = loop.step.value
    widest = loop.stop - 1 - loop.start
    if step == 1:
        yield form(DISTANCE), ranges.with_bounds({DISTANCE: (form(1), widest)})
        return
    yield form(abs(step or 1)) * form(DISTANCE), ranges.with_bounds({DISTANCE: (form(1), None)})
    if step is not None and step > 1:
        yield form(DISTANCE), ranges.with_bounds({DISTANCE: (form(step), widest)})


def merged(loop: LoopFact, accesses: Sequence[Access]) -> list[Touch]:
    """The accesses, those that differ by constants alone as one, which stands for more elements than they touch.

    Straight-line code that touches `y[i, 0]`, `y[i, 1]`, ... then costs one comparison. So does a sequence of equal inner loops.
    """
    groups: dict[tuple, list[Access]] = {}
    for a in accesses:
        groups.setdefault(_shape(loop, a), []).append(a)
    found = []
    for group in groups.values():
        indices, bounds = [], {}
        for d, f in enumerate(group[0].indices):
            constants = [a.indices[d].constant for a in group]
            if len(set(constants)) > 1:
                unknown = Atom(f"constant {d}")
                bounds[unknown] = (form(min(constants)), form(max(constants)))
                f = f - f.constant + form(unknown)
            indices.append(f)
        guards = group[0].guards if len(group) == 1 else ()
        found.append(Touch(replace(group[0], indices=tuple(indices), guards=guards), bounds))
    return found


def _shape(loop: LoopFact, access: Access) -> tuple:
    """What an access is but for its constants, its conditions and the names of the loops inside `loop`."""
    inner = access.loops[len(loop.outer) + 1 :]
    names = {inside.index: form(Atom(f"inner {n}")) for n, inside in enumerate(inner)}
    bounds = tuple(f.replace(names.get) for inside in inner for f in (inside.start, inside.stop, inside.step))
    return access.mode, bounds, tuple((f - f.constant).replace(names.get) for f in access.indices)


class _Side:
    """Renames what differs between iterations of the loop to one of its two sides."""

    def __init__(self, facts: KernelFacts, loop: LoopFact, touch: Touch, side: int) -> None:
        self.facts, self.loop, self.touch, self.side = facts, loop, touch, side

    def __call__(self, f: Form) -> Form:
        return f.replace(self.renamed)

    def renamed(self, u: Unknown) -> Form | None:
        if isinstance(u, Atom) and (u in self.touch.bounds or self.facts.varies(u.name, self.loop)):
            return form(Atom(u.name, self.side))
        return None


def _ranges(facts: KernelFacts, loop: LoopFact, *sides: _Side) -> Ranges:
    """Ranges of both sides' indices; every loop around either access has run, and no dimension of the buffer is 0."""
    bounds: dict[Unknown, tuple[Form | None, Form | None]] = {}
    least = dict(loop.ranges.least)
    for side in sides:
        inner = side.touch.access.loops[-1].ranges
        least.update(inner.least)
        for u, ends in (*inner.bounds.items(), *side.touch.bounds.items()):
            ((m, _),) = (side.renamed(u) or form(u)).terms
            bounds[m[0]] = tuple(None if end is None else side(end) for end in ends)
    return Ranges(bounds, least).with_bounds({}, facts.extents[sides[0].touch.access.buffer.name])


def _equalities(side: _Side) -> list[Form]:
    """Forms that are 0 wherever the access runs."""
    return [side(a - b) for op, a, b in comparisons(side.touch.access.guards) if op == "eq"]


def _limits(side: _Side) -> list[Form]:
    """Forms that are at least 0 wherever the access runs: what its conditions and the bounds of its loops say."""
    ordered = [(op, a, b) for op, a, b in comparisons(side.touch.access.guards) if op in AT_LEAST_0]
    found = [AT_LEAST_0[op](a, b) for op, a, b in ordered if side.facts.wrapped.isdisjoint((a, b))]
    for loop in side.touch.access.loops:
        low, high = loop.ranges.bounds[loop.index]
        found += [form(loop.index) - low] if low is not None else []
        found += [high - form(loop.index)] if high is not None else []
    return [side(f) for f in found]


def _put(forms: list[Form], unknown: Unknown, value: Form) -> list[Form]:
    """The forms with an unknown replaced."""
    return [gather(f.replace(lambda u: value if u == unknown else None)) for f in forms]


def _join_digits(equations: list[Form], ranges: Ranges) -> list[Form]:
    """Replace the equations e % c = e' % c and x + e // c = x' + e' // c by x * c + e = x' * c + e'."""
    for at, equation in enumerate(equations):
        pair = _difference(equation)
        if pair is None:
            continue
        (e, by), (other, _) = pair
        high = ranges.floordiv(e, by) - ranges.floordiv(other, by)
        for n, q in enumerate(equations) if high != ZERO else ():
            higher = next((signed for signed in (q, -q) if high.terms <= signed.terms), None)
            if n != at and higher is not None:
                rest = [f for k, f in enumerate(equations) if k not in (at, n)]
                return _join_digits([gather((higher - high) * by + e - other), *rest], ranges)
    return equations


def _congruences(equations: list[Form]) -> Iterator[Form]:
    """Where e % c = e' % c, e and e' lie some number of c apart."""
    for at, equation in enumerate(equations):
        pair = _difference(equation)
        if pair is not None:
            (e, by), (other, _) = pair
            yield gather(e - other - by * form(Atom(f"turns {at}", 1)))


def _difference(equation: Form) -> tuple[tuple[Form, Form], tuple[Form, Form]] | None:
    """((e, c), (e', c)) where the equation is e % c - e' % c = 0."""
    terms = {c: m for m, c in equation.terms}
    if len(equation.terms) != 2 or set(terms) != {1, -1} or len(terms[1]) != 1 or len(terms[-1]) != 1:
        return None
    a, b = terms[1][0], terms[-1][0]
    if isinstance(a, Digit) and isinstance(b, Digit) and a.kind == b.kind == "mod" and a.by == b.by:
        return (a.arg, a.by), (b.arg, b.by)
    return None


def _impossible(equations: list[Form], limits: list[Form], ranges: Ranges) -> bool:
    """True where an equation (= 0) or a limit (>= 0) has no solution, after solving equations for unit terms."""
    while True:
        equations = [found for e in equations for found in _exchanged(e, ranges)]
        if any(_never_zero(e, ranges) for e in equations):
            return True
        solved = next(((n, u, e) for n, e in enumerate(equations) if (u := _unit(e))), None)
        if solved is None:
            return any(ranges.positive(-f) for f in limits)
        n, u, e = solved
        value = e.without(u) * -dict(e.terms)[(u,)]
        equations = _put(equations[:n] + equations[n + 1 :], u, value)
        limits = _put(limits, u, value)


def _exchanged(e: Form, ranges: Ranges) -> list[Form]:
    """What g * (x ^ c) - g * (y ^ d) + r = 0 with |r| < g says: r = 0, and x = y where c and d are the same; any other equation itself."""
    calls = [(m[0], k) for m, k in e.terms if len(m) == 1 and isinstance(m[0], Call) and m[0].op == "xor"]
    for (one, k), (two, other) in permutations(calls, 2):
        rest = e - form(one) * k - form(two) * other
        if k < 0 or other != -k or not all(ranges.positive(form(k) + x) for x in (rest, -rest)):
            continue
        common = next((x for x in one.args if x in two.args), None)
        if common is not None:
            left, right = (call.args[call.args[0] == common] for call in (one, two))
            return [*_exchanged(gather(left - right), ranges), *([rest] if rest != ZERO else [])]
        return [form(one) - form(two), rest] if rest != ZERO else [e]
    return [e]


def _unit(e: Form) -> Atom | None:
    """An unknown of one side that the equation gives: it occurs once, times 1 or -1."""
    counts: dict[Atom, int] = {}
    for m, _ in e.terms:
        for u in m:
            for atom in {u} if isinstance(u, Atom) else set(form(u).atoms()):
                counts[atom] = counts.get(atom, 0) + 1
    units = [m[0] for m, c in e.terms if len(m) == 1 and abs(c) == 1 and isinstance(m[0], Atom)]
    return min((u for u in units if u.side and counts[u] == 1), key=lambda u: (u.name, u.side), default=None)


def _never_zero(e: Form, ranges: Ranges) -> bool:
    if ranges.positive(e) or ranges.positive(-e):
        return True
    g = content(e)
    if g > 1 and e.constant % g:
        return True
    return any(_never_multiple(split(e, by)[1], by, ranges) for by in _moduli(e))


def _never_multiple(r: Form, by: Form, ranges: Ranges) -> bool:
    """0 < |r| < by."""
    return any(ranges.positive(x) and ranges.positive(by - x) for x in (r, -r))


def _moduli(e: Form) -> list[Form]:
    """Numbers and dimensions that divide some of the terms."""
    numbers = {abs(c) for m, c in e.terms if m and abs(c) > 1}
    factors = {u for m, _ in e.terms if len(m) > 1 for u in m if isinstance(u, Atom) and not u.side and u != DISTANCE}
    return [form(n) for n in sorted(numbers)] + [form(u) for u in sorted(factors, key=text_of)]
