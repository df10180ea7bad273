"""A search for a proof that a form is never negative, from forms that are known not to be.

Where `Ranges` alone do not show it, the goal is replaced by one that is nowhere above it, in the ways of `_weaker`: a known form is taken
away as often as it removes an unknown; a minimum, maximum or choice is split into its cases; a quotient is multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vxc.analysis.comparisons import AT_LEAST_0, NO_CHOICES, Choices, comparisons
from vxc.analysis.forms import Call, Digit, Form, call, form, gather, manageable, text_of
from vxc.analysis.ranges import Ranges
from vxc.record import state

_GOALS = 150  # tried for each depth before giving up
DEPTHS = (1, 2, 4, 7)  # replacements one after another: short proofs first
QUICK = DEPTHS[:2]  # where what is not proved costs little, and proofs are looked for in every kernel that is compiled

Facts = tuple[Form, ...]  # forms that are not negative


class Goal(NamedTuple):
    """A form, to be shown not to be negative where none of `facts` is."""

    form: Form
    facts: Facts


@state
class _Budget:
    left: int = _GOALS


def with_sizes(ranges: Ranges, facts: Facts) -> Ranges:
    """Ranges in which dimensions are at least 1 that the facts say are: where a product of some is not 0, none of them is."""
    least = dict(ranges.least)
    for fact in facts:
        high = ranges.highest(_without_quotient(fact, ranges))
        products = [m for m, c in high.terms if m] if high is not None and high.constant < 0 else []
        if len(products) == 1 and dict(high.terms)[products[0]] > 0 and all(u in least for u in products[0]):
            least |= dict.fromkeys(products[0], 1)
    return Ranges(ranges.bounds, least)


def _without_quotient(f: Form, ranges: Ranges) -> Form:
    """a // d + r as a + r * d, which is negative where the other is."""
    for u in f.unknowns:
        if isinstance(u, Digit) and u.kind == "div" and f.coefficient(u) == form(1) and ranges.positive(u.by):
            return f.without(u) * u.by + u.arg
    return f


def proved(f: Form, ranges: Ranges, facts: Facts, depths: tuple[int, ...] = DEPTHS) -> bool:
    """True where f is shown not to be negative; False says nothing."""
    return any(_proved(Goal(gather(f), facts), ranges, _Budget(), depth, set()) for depth in depths)


def _proved(goal: Goal, ranges: Ranges, budget: _Budget, depth: int, seen: set[Goal]) -> bool:
    if ranges.nonnegative(goal.form):
        return True
    if goal.form.value is not None or goal in seen or not depth or not budget.left or not manageable(goal.form):
        return False
    seen.add(goal)
    budget.left -= 1
    return any(all(_proved(part, ranges, budget, depth - 1, seen) for part in parts) for parts in _weaker(goal, ranges))


def _weaker(goal: Goal, ranges: Ranges) -> Iterator[tuple[Goal, ...]]:
    """Goals that together show this one."""
    f, facts = goal.form, goal.facts
    for u in sorted(f.unknowns, key=text_of):
        k = f.coefficient(u)
        if k is None:
            continue
        if isinstance(u, Call):
            yield from _cases(goal, u, k, ranges)
        elif isinstance(u, Digit) and k.value and ranges.positive(u.by):
            yield from ((Goal(weaker, facts),) for weaker in _multiplied_out(f.without(u), u, k.value, ranges))
    for g in facts:
        yield from ((Goal(f - g * k, facts),) for k in dict.fromkeys(_multiples(f, g, ranges)))


def _multiples(f: Form, g: Form, ranges: Ranges) -> Iterator[Form]:
    """How often to take g from f so that an unknown goes: not negative."""
    both = g.unknowns & f.unknowns
    for u in sorted(both, key=text_of) if len(both) > 1 else both:
        there, here = f.coefficient(u), g.coefficient(u)
        if there is None or here is None or not here.value:
            continue
        if there.value is not None and there.value % here.value == 0 and there.value // here.value > 0:
            yield form(there.value // here.value)
        elif there.value is None and abs(here.value) == 1 and ranges.nonnegative(there * here.value):
            yield there * here.value


def _cases(goal: Goal, u: Call, k: Form, ranges: Ranges) -> Iterator[tuple[Goal, ...]]:
    """Of f = k * u + rest, where u is one of several forms."""
    rest, facts = goal.form.without(u), goal.facts
    if u.op == "select":
        condition, a, b = u.args
        yield tuple(Goal(rest + k * x, (*facts, *said([(condition, holds)], ranges))) for x, holds in ((a, True), (b, False)))
    elif u.op == "clamp":
        x, low, high = u.args
        yield (Goal(rest + k * call("min", (call("max", (x, low), u.dtype), high), u.dtype), facts),)
    elif u.op in ("min", "max"):
        cases = [Goal(rest + k * x, facts) for x in u.args]
        rises = ranges.nonnegative(k)
        if (u.op == "max") == rises and (rises or ranges.nonnegative(-k)):
            yield from ((case,) for case in cases)
        yield tuple(cases)


def _multiplied_out(rest: Form, u: Digit, k: int, ranges: Ranges) -> Iterator[Form]:
    """Of f = k * u + rest: forms that are not negative only where f is not."""
    by, arg = u.by, u.arg
    if u.kind == "mod":
        if k < 0 and ranges.nonnegative(arg):
            yield rest + arg * k  # it is at most its dividend
    elif k < 0:
        yield rest * by - arg * -k + (by - 1 if k == -1 else 0)  # u <= arg / by; exact for one u
    else:
        yield rest * by + arg * k - ((by - 1) * k if k != 1 else 0)


def said(tests: Iterable[tuple[Form, bool]], ranges: Ranges, chosen: Choices = NO_CHOICES) -> Iterator[Form]:
    """What is not negative where each condition holds, or does not, as `comparisons` gives it."""
    for op, a, b in comparisons(tests, chosen):
        if op in AT_LEAST_0:
            yield AT_LEAST_0[op](a, b)
        elif op == "eq":
            yield from (a - b, b - a)
        else:
            yield from (above - below - 1 for above, below in ((a, b), (b, a)) if ranges.nonnegative(above - below))
