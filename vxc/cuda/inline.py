"""Which values of a kernel are written out where they are used, instead of being declared.

A temporary (a value that the source gives no name) with one use goes there if its meaning is the same there: it is pure,
or it is a load and nothing is written, awaited or entered between.
"""

from __future__ import annotations

from itertools import accumulate

from vxc.ir.kernel import Const, Inst, Value
from vxc.ir.ops import OPS, TERMINATES, accesses
from vxc.ir.walk import Regions


def inlinable(regions: Regions) -> set[int]:
    """Positions of the instructions whose text may stand in the one that uses them."""
    insts = regions.insts
    use = _single_uses(regions)
    effects = list(accumulate(map(_has_effect, insts), initial=0))  # how many stand before each position
    place = list(range(len(insts)))  # where the text of each instruction ends up
    for i in range(len(insts) - 1, -1, -1):
        at = use.get(i)
        if at is None or regions.parent[at] != regions.parent[i] or insts[at].op == "loop":  # a loop's bounds are evaluated again and again
            continue
        moves = OPS[insts[i].op].pure or (insts[i].op == "load" and effects[place[at]] == effects[i])
        if moves:
            place[i] = place[at]
    return {i for i, at in enumerate(place) if i != at}


def _single_uses(regions: Regions) -> dict[int, int]:
    """Position of each temporary used once -> position of the use."""
    defined: dict[str, int] = {}
    uses: dict[int, list[int]] = {}
    at = 0
    while at < len(regions.insts):
        inst = regions.insts[at]
        for operand in inst.operands:
            if not isinstance(operand, Const) and operand.name in defined:
                uses.setdefault(defined[operand.name], []).append(at)
        if isinstance(inst.result, Value) and inst.result.name.isdecimal():
            defined[inst.result.name] = at
        at = regions.end[at] + 1 if inst.op == "extern" else at + 1
    return {i: found[0] for i, found in uses.items() if len(found) == 1}


def _has_effect(inst: Inst) -> bool:
    enters = OPS[inst.op].opens or inst.op in ("else", "end", *TERMINATES)
    return enters or inst.op in ("barrier", "await") or any("w" in access.mode for access in accesses(inst))
