"""Indices that certainly leave their array: constants past a constant extent, and loops that run past the end.

Nothing is reported that some input could make right: the access is unconditional, and the index a constant, or one whose
loops are rectangular and whose greatest or least value is outside whatever the sizes, as long as the loops run at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.forms import Form


@dataclass(frozen=True)
class OutOfRange:
    """Index `dimension` of the access reaches `reached`, below 0 or at least `extent`."""

    access: Access
    dimension: int
    reached: Form
    extent: Form
    below: bool


def out_of_range(facts: KernelFacts) -> Iterator[OutOfRange]:
    for access in facts.accesses:
        if access.guards or not access.regular or any(map(_never_runs, access.loops)):
            continue
        for d, (index, extent) in enumerate(zip(access.indices, facts.extents[access.buffer.name])):
            if index.value is not None:
                past = extent.value is not None and index.value >= extent.value
                if past or index.value < 0:
                    yield OutOfRange(access, d, index, extent, index.value < 0)
            elif access.loops and _attains_its_range(index, access):
                yield from _varying(access, d, index, extent)


def _never_runs(loop: LoopFact) -> bool:
    bounds = [f.value for f in (loop.start, loop.stop, loop.step)]
    return None not in bounds and bounds[2] != 0 and not range(*bounds)


def _varying(access: Access, d: int, index: Form, extent: Form) -> Iterator[OutOfRange]:
    ranges = access.loops[-1].ranges
    high, low = _end(index, access, 1), _end(index, access, -1)
    if high is not None and ranges.nonnegative(high - extent):
        yield OutOfRange(access, d, high, extent, False)
    elif low is not None and ranges.positive(-low):
        yield OutOfRange(access, d, low, extent, True)


def _end(index: Form, access: Access, sign: int) -> Form | None:
    """The greatest (sign 1) or least (-1) value that the index takes, exactly."""
    for loop in access.loops:
        k = index.coefficient(loop.index)
        rises = access.loops[-1].ranges.nonnegative(k * sign)
        if not rises and not access.loops[-1].ranges.nonnegative(k * -sign):
            return None
        index = index.without(loop.index) + k * (loop.stop - 1 if rises else loop.start)
    return index


def _attains_its_range(index: Form, access: Access) -> bool:
    """True where the index takes both ends of its range: linear, over loops of step 1 whose bounds are common to all iterations."""
    indices = {loop.index for loop in access.loops}
    common = access.loops[-1].ranges.least.keys() | indices
    rectangular = all(not indices & set(f.atoms()) for loop in access.loops for f in (loop.start, loop.stop))
    linear = all(set(m) <= common and sum(u in indices for u in m) <= 1 for m, _ in index.terms)
    return rectangular and linear and all(loop.step.value == 1 for loop in access.loops)
