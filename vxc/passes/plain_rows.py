"""Kernels that are nothing but a reduction of each row: what split-lengths, rows in flight and columns look for.

Before the reduction stand declarations, arithmetic and reads of what the kernel never writes; its elements are such too. After
it, whatever one thread can do for a row: arithmetic, branches, stores, atomics.
"""

from __future__ import annotations

from collections.abc import Sequence

from vxc.ir.kernel import GLOBAL, Const, Inst
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.passes.nest import is_parallel
from vxc.record import record

_BEFORE = ("cell", "load", "contribute")
_NOT_AFTER = ("reduce", "scan", "contribute", "prefix", "barrier", "local", "shared", "fragment", "copy", "gemm")


@record
class PlainRow:
    """The reduction of a nest's body, what stands before and inside it and after it."""

    reduce: Inst
    before: tuple[Inst, ...]
    inside: tuple[Inst, ...]
    after: tuple[Inst, ...]


def plain_row(body: Sequence[Inst]) -> PlainRow | None:
    """The body of a nest as a plain row reduction, or None."""
    found = [i for i, inst in enumerate(body) if inst.op == "reduce"]
    regions = Regions.of(body)
    if len(found) != 1 or regions.parent[found[0]] >= 0:
        return None
    at, end = found[0], regions.end[found[0]]
    before, inside, after = tuple(body[:at]), tuple(body[at + 1 : end]), tuple(body[end + 1 :])
    written = {a.buffer.name for inst in body for a in accesses(inst) if "w" in a.mode}
    read = {a.buffer.name for inst in (*before, *inside) for a in accesses(inst) if a.buffer.space in GLOBAL}
    if written & read or not all(OPS[inst.op].pure or inst.op in _BEFORE for inst in (*before, *inside)):
        return None
    if any(inst.op in _NOT_AFTER or is_parallel(inst) for inst in after):
        return None
    return PlainRow(body[at], before, inside, after)


def vectors_a_lane(reduce: Inst) -> int | None:
    """How many vectors a lane takes of a row at most, or None where nothing says."""
    v, _, lanes, parts = reduce.attr("order")
    most = reduce.operands[1].value if isinstance(reduce.operands[1], Const) else reduce.attr("most")
    return None if most is None or parts != 1 else max(1, -(-most // (v * lanes)))
