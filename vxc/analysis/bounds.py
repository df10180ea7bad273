"""Indices that certainly leave their array: constants past a constant extent, and loops that run past the end.

Nothing is reported that some input could make right: the access is unconditional, and the index a constant, or one whose
loops are rectangular and whose greatest or least value is outside whatever the sizes, as long as the loops run at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.forms import ZERO, Form
from vxc.record import record

Loops = tuple[LoopFact, ...]


@record
class OutOfRange:
    """Index `dimension` of the access reaches `reached`, below 0 or at least `extent`."""

    access: Access
    dimension: int
    reached: Form
    extent: Form
    below: bool


def out_of_range(facts: KernelFacts) -> Iterator[OutOfRange]:
    reached: dict[tuple[Form, Form, Loops], tuple[Form, bool] | None] = {}  # the same index is mostly that of several accesses
    for access in facts.accesses:
        if access.guards or not access.regular or any(loop.trips == 0 for loop in access.loops):
            continue
        for d, (index, extent) in enumerate(zip(access.indices, facts.extents[access.buffer.name])):
            key = (index, extent, access.loops)
            if key not in reached:
                reached[key] = _outside(*key)
            if reached[key] is not None:
                value, below = reached[key]
                yield OutOfRange(access, d, value, extent, below)


def _outside(index: Form, extent: Form, loops: Loops) -> tuple[Form, bool] | None:
    """(a value outside of the extent that the index takes, whether it is below 0), or None."""
    if index.value is not None:
        past = extent.value is not None and index.value >= extent.value
        return (index, index.value < 0) if past or index.value < 0 else None
    if not loops or not _attains_its_range(index, loops):
        return None
    ranges = loops[-1].ranges
    high, low = _end(index, loops, 1), _end(index, loops, -1)
    if high is not None and ranges.nonnegative(high - extent):
        return high, False
    return (low, True) if low is not None and ranges.positive(-low) else None


def _end(index: Form, loops: Loops, sign: int) -> Form | None:
    """The greatest (sign 1) or least (-1) value that the index takes, exactly."""
    ranges = loops[-1].ranges
    for loop in loops:
        k = index.coefficient(loop.index)
        if k == ZERO:
            continue
        rises = ranges.nonnegative(k * sign)
        if not rises and not ranges.nonnegative(k * -sign):
            return None
        index = index.without(loop.index) + k * (loop.stop - 1 if rises else loop.start)
    return index


def _attains_its_range(index: Form, loops: Loops) -> bool:
    """True where the index takes both ends of its range: linear, over loops of step 1 whose bounds are common to all iterations."""
    if not all(loop.is_rectangular and loop.step.value == 1 for loop in loops):
        return False
    indices, least = {loop.index for loop in loops}, loops[-1].ranges.least
    return all(all(u in indices or u in least for u in m) and sum(u in indices for u in m) <= 1 for m, _ in index.terms)
