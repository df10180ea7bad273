"""Whether neighbouring nests of parallel loops may be one nest: the dependence rule, as a function of access facts.

Nests over equal domains (as many loops, each with the same number of iterations and the same step) become one where iterations touch one
another at the same point only. For two accesses x of the first and y of the second to one buffer, one of them a write, either of two
things shows that.

  pinned   For each loop of the nest there is a dimension in which both have the same index: the loop's, times a constant, plus what is the
           same in the whole nest. Where they meet, those are equal, and so the point.
  covered  A write w of either nest has, in each iteration, all elements of the other nest's access among its own: w in the first covers y,
           or w in the second covers x. If x at point p met y at point p', x at p would meet w at p', within one nest, whose iterations are
           independent: so p = p'. `w` covers an access with the same index tuple, in inner loops with the same bounds, under no condition
           that the other is not under.

Atomic updates have no place in the order of a point and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.forms import Atom, Form, form
from vxc.record import record

INNER = "(inner)."  # begins no name of the IR


@record
class Touch:
    """An access of a nest, in terms of the indices of the first nest; inner loops count by their depth, with their bounds."""

    access: Access
    indices: tuple[Form, ...]
    bounds: tuple[tuple[Form, Form, Form], ...]
    guards: frozenset[tuple[Form, bool]]

    @property
    def writes(self) -> bool:
        return self.access.mode != "read"

    def covers(self, other: Touch) -> bool:
        mine, theirs = self.access, other.access
        same = mine.buffer == theirs.buffer and self.indices == other.indices and self.bounds == other.bounds
        return same and mine.mode == "write" and mine.regular and self.guards <= other.guards


@record
class Nest:
    """A perfect nest: the positions of its loops, its accesses, and its indices in terms of those of the nest that it is compared with."""

    loops: tuple[int, ...]
    points: tuple[Atom, ...]
    accesses: tuple[Access, ...]
    names: Mapping[Atom, Form]

    @cached_property
    def touches(self) -> tuple[Touch, ...]:
        return tuple(_touch(a, self.loops[-1], self.names) for a in self.accesses)


@record
class Met:
    """Two accesses that may touch one element at different points, the first in the earlier nest; `exchanged` says that they have the same
    indices in another order.
    """

    first: Access
    second: Access
    exchanged: bool


def nest_of(facts: KernelFacts, loops: Sequence[int], onto: Sequence[int]) -> Nest | None:
    """The nest with loops at these positions, in terms of the nest with loops at `onto`; None where the domains differ."""
    by_place = {loop.at: loop for loop in facts.loops}
    pairs = [(by_place[mine], by_place[other]) for mine, other in zip(loops, onto)]
    if len(loops) != len(onto) or not all(_alike(mine, other) for mine, other in pairs):
        return None
    names = {mine.index: form(other.index) + mine.start - other.start for mine, other in pairs}
    return Nest(tuple(loops), tuple(other.index for _, other in pairs), facts.within[loops[0]], names)


def _alike(mine: LoopFact, other: LoopFact) -> bool:
    """As many iterations, by one step, from starts that are the same or constants."""
    starts = mine.start == other.start or None not in (mine.start.value, other.start.value)
    return starts and mine.step == other.step and mine.stop - mine.start == other.stop - other.start


def _touch(access: Access, innermost: int, points: Mapping[Atom, Form]) -> Touch:
    inner = access.loops[[loop.at for loop in access.loops].index(innermost) + 1 :]
    names = dict(points) | {loop.index: form(Atom(f"{INNER}{n}")) for n, loop in enumerate(inner)}

    def over(f: Form) -> Form:
        return f.replace(lambda u: names.get(u) if isinstance(u, Atom) else None)

    bounds = tuple((over(loop.start), over(loop.stop), over(loop.step)) for loop in inner)
    return Touch(access, tuple(map(over, access.indices)), bounds, frozenset((over(f), holds) for f, holds in access.guards))


def meetings(first: Nest, second: Nest) -> Iterator[Met]:
    """The pairs of accesses for which the rule does not show that they meet at the same point only."""
    for y in second.touches:
        for x in first.touches:
            if x.access.buffer != y.access.buffer or not (x.writes or y.writes):
                continue
            covered = any(w.covers(y) for w in first.touches) or any(w.covers(x) for w in second.touches)
            if "atomic" in (x.access.mode, y.access.mode) or not (covered or _pinned(x, y, first.points)):
                exchanged = x.indices != y.indices and sorted(map(str, x.indices)) == sorted(map(str, y.indices))
                yield Met(x.access, y.access, exchanged)



def _pinned(x: Touch, y: Touch, points: Sequence[Atom]) -> bool:
    same = [f for f, g in zip(x.indices, y.indices) if f == g]
    return all(any(_moves_with(f, point, points) for f in same) for point in points)


def _moves_with(f: Form, point: Atom, points: Sequence[Atom]) -> bool:
    """Whether an index that two nests have in common is one loop's, times a constant, plus what the whole of both nests has in common."""
    step, rest = f.coefficient(point), f.without(point)
    varies = any(a in points or a.name.startswith(INNER) for a in rest.atoms())
    return step is not None and bool(step.value) and not varies
