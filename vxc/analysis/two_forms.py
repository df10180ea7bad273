"""How much of a kernel there are two forms of, where a loop has wide accesses that count on what only the run knows."""

from __future__ import annotations

from vxc.ir.walk import LOOPS, Regions


def two_forms(regions: Regions, at: int) -> range:
    """The positions for a loop: the outermost loop around it, or all from the declaration of an array on that this fills.

    Elements of less than 4 bytes share registers, but only where no branch joins them.
    """
    insts = regions.insts
    first = next(p for p in reversed([at, *regions.parents(at)]) if insts[p].op in LOOPS)
    span = range(first, regions.end[first] + 1)
    filled = (insts[i].operands[0] for i in span if insts[i].op == "store")
    narrow = {x.name for x in filled if x.space == "local" and x.dtype.bytes < 4}
    declared = next((i for i in range(first) if insts[i].op == "local" and insts[i].result.name in narrow), None)
    if declared is None:
        return span
    scope = regions.parent[declared]
    if scope < 0:
        return range(declared, len(insts))
    arm = regions.other[scope]
    return range(declared, arm if declared < arm else regions.end[scope])
