"""Rows that may begin anywhere: reductions whose lanes can take the aligned vectors of a row as they lie (stage=team).

The order of a reduction deals V elements in a row to each lane, counted from the row's first. Where that element is none at a multiple of
V elements in memory, a lane's elements lie in two aligned vectors, and an aligned vector has elements of two lanes: always the same two,
and always the same partial results of them. So a lane may keep the partial results of the vectors as they lie, in the order of the order,
and hand over those that are not its own once, at the end of the row (`vxc.passes.lined_reduce`).
"""

from __future__ import annotations

from vxc.analysis.forms import Atom, form
from vxc.analysis.offsets import Offsets
from vxc.ir.kernel import GLOBAL, Const, Inst, Kernel
from vxc.ir.ops import OPS
from vxc.ir.walk import Regions
from vxc.semantics import Order
from vxc.target import VECTOR

STEPS = 2  # vectors of a row that each lane takes at least, for the hand-over to be worth it


def rows_anywhere(kernel: Kernel) -> dict[str, Inst]:
    """By the index of each such reduction, the one load of an array in it."""
    found: dict[str, Inst] = {}
    if any(inst.op == "reduce" for inst in kernel.insts):
        regions, offsets = Regions.of(kernel.insts), Offsets.of(kernel.params)
        for at, inst in enumerate(kernel.insts):
            offsets.define(inst)
            if inst.op == "reduce" and (load := _load(kernel, regions, at, offsets)):
                found[inst.result.name] = load
    return found


def _load(kernel: Kernel, regions: Regions, at: int, offsets: Offsets) -> Inst | None:
    reduce, inside = kernel.insts[at], [kernel.insts[i] for i in regions.body(at)]
    order, length = Order(*reduce.attr("order")), reduce.operands[1]
    v, lanes, loads = order.v, order.lanes, [x for x in inside if x.op == "load" and x.operands[0].space in GLOBAL]
    if reduce.attr("op") in ("argmax", "argmin") or order.chunk != v or v & (v - 1) or lanes == 1 or len(loads) != 1:
        return None
    most = length.value if isinstance(length, Const) else reduce.attr("most")
    if most is not None and most < STEPS * v * lanes * order.parts_of(most):
        return None
    if not all(OPS[x.op].pure or x.op == "contribute" or x.op == "load" and x.operands[0].space in (*GLOBAL, "cell") for x in inside):
        return None
    buffer, *indices = loads[0].operands
    if buffer.space != "param" or buffer.mode != "in" or buffer.dtype.bits < 8 or v * buffer.dtype.bytes != VECTOR:
        return None
    for x in inside:
        offsets.define(x)
    offset, index = offsets.linear(buffer, tuple(indices)), Atom(reduce.result.name)
    first = offset.without(index)
    if offset.coefficient(index) != form(1) or index in first.atoms():
        return None
    met = buffer.align == VECTOR and offsets.divisible(first, v, {}) == {}
    return None if met else loads[0]
