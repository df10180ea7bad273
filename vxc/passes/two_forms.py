"""What infer-vector-widths writes in two forms, and what decides between them when a kernel runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vxc.analysis.wide_loop import Widths
from vxc.ir.builder import Builder
from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.walk import LOOPS, Regions


def span(insts: Sequence[Inst], regions: Regions, at: int) -> range:
    """What there are two forms of, for the loop at a position: the loops around it, or all from the declaration of an array that they fill.

    Elements of less than 4 bytes share registers, but only where no branch joins them.
    """
    first = _around(regions, at)
    inside = range(first, regions.end[first] + 1)
    filled = (insts[i].operands[0] for i in inside if insts[i].op == "store")
    narrow = {x.name for x in filled if x.space == "local" and x.dtype.bytes < 4}
    places = [i for i in range(first) if insts[i].op == "local" and insts[i].result.name in narrow]
    if not places:
        return inside
    scope = regions.parent[places[0]]
    if scope < 0:
        return range(places[0], len(insts))
    arm = regions.other[scope]
    return range(places[0], arm if places[0] < arm else regions.end[scope])


def placed(b: Builder, kernel: Kernel, found: Widths) -> Iterator[Value]:
    """What wide accesses of unrolled loops count on."""
    parameters = {p.name: p for p in kernel.params}
    for name, size in found.aligned.items():
        yield b.emit("aligned", parameters[name], bytes=size)
    for name, by in found.divides.items():
        yield b.emit("eq", b.emit("mod", parameters[name], by), 0)


def least(b: Builder, kernel: Kernel, found: Widths) -> Iterator[Value]:
    """What divisions that go on from one another count on."""
    parameters = {p.name: p for p in kernel.params}
    for name, value in found.least.items():
        yield b.emit("ge", parameters[name], value)


def _around(regions: Regions, at: int) -> int:
    """The outermost loop around a position, itself counted."""
    return next((p for p in reversed([at, *regions.parents(at)]) if regions.insts[p].op in LOOPS))
