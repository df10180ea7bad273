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
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import LOOPS, Regions
from vxc.record import record
from vxc.semantics import Order
from vxc.target import VECTOR

STEPS = 2  # vectors of a row of constant length that each lane takes at least, for the hand-over to be worth it
LONG = 8  # the same where only the call knows the length, and shorter rows that are aligned would lose by registers and tests
OVERLAP = 4  # vectors from which on a lane has registers to load several before the first is used
RESIDENT = 1024  # threads of a multiprocessor that keep memory busy then


def steps_of(reduce: Inst) -> int:
    """How many vectors of a row each lane takes at least, but of a part of one at its end."""
    order, length = Order(*reduce.attr("order")), reduce.operands[1]
    if isinstance(length, Const):
        return length.value // (order.v * order.lanes * order.parts_of(length.value))
    return max(reduce.attr("least", 0), reduce.attr("usual", 0)) // (order.v * order.lanes)


@record
class Anywhere:
    """The first `load` of an array in such a reduction, all others being of the same element; `once`: the kernel reads none of the array's
    elements again.
    """

    load: Inst
    once: bool


def rows_anywhere(kernel: Kernel) -> dict[str, Anywhere]:
    """Such reductions of a kernel, by the name of their index, whose rows are long enough for it."""
    found = {}
    for at, row in begin_anywhere(kernel).items():
        reduce = kernel.insts[at]
        if steps_of(reduce) >= (STEPS if isinstance(reduce.operands[1], Const) else LONG):
            found[reduce.result.name] = row
    return found


def begin_anywhere(kernel: Kernel) -> dict[int, Anywhere]:
    """Such reductions, by position in a kernel (stage=tile or team)."""
    found: dict[int, Anywhere] = {}
    if any(inst.op == "reduce" for inst in kernel.insts):
        regions, offsets = Regions.of(kernel.insts), Offsets.of(kernel.params)
        for at, inst in enumerate(kernel.insts):
            offsets.define(inst)
            if inst.op == "reduce" and (load := _load(kernel, regions, at, offsets)):
                found[at] = Anywhere(load, _once(kernel, regions, at, load, offsets))
    return found


def _load(kernel: Kernel, regions: Regions, at: int, offsets: Offsets) -> Inst | None:
    reduce, inside = kernel.insts[at], [kernel.insts[i] for i in regions.body(at)]
    order, loads = Order(*reduce.attr("order")), [x for x in inside if x.op == "load" and x.operands[0].space in GLOBAL]
    v = order.v
    if reduce.attr("op") in ("argmax", "argmin") or order.chunk != v or v & (v - 1) or order.lanes == 1 or not loads:
        return None
    if not all(OPS[x.op].pure or x.op == "contribute" or x.op == "load" and x.operands[0].space in (*GLOBAL, "cell") for x in inside):
        return None
    buffer = loads[0].operands[0]
    if buffer.space != "param" or buffer.mode != "in" or buffer.dtype.bits < 8 or v * buffer.dtype.bytes != VECTOR:
        return None
    for x in inside:
        offsets.define(x)
    offset, index = offsets.linear(buffer, loads[0].operands[1:]), Atom(reduce.result.name)
    first = offset.without(index)
    same = all(x.operands[0] == buffer and offsets.linear(buffer, x.operands[1:]) == offset for x in loads)
    if not same or offset.coefficient(index) != form(1) or index in first.atoms():
        return None
    met = buffer.align == VECTOR and offsets.divisible(first, v, {}) == {}
    return None if met else loads[0]


def _once(kernel: Kernel, regions: Regions, at: int, load: Inst, offsets: Offsets) -> bool:
    """Whether nothing else reads the array, and rows of different iterations of the outer loop, which is the only one, do not overlap."""
    reduce, inside = kernel.insts[at], set(regions.body(at))
    loops = [inst for inst in kernel.insts if inst.op in LOOPS and inst is not reduce]
    readers = [i for i, inst in enumerate(kernel.insts) for a in accesses(inst) if a.buffer.name == load.operands[0].name]
    if len(loops) != 1 or not all(kernel.insts[i].op == "load" and i in inside for i in readers):
        return False
    offset, length = offsets.linear(load.operands[0], load.operands[1:]), offsets.form(reduce.operands[1])
    apart = offset.coefficient(Atom(loops[0].result.name))
    if apart is None or Atom(loops[0].result.name) in offset.without(Atom(loops[0].result.name)).atoms():
        return False
    return apart == length or None not in (apart.value, length.value) and apart.value >= length.value
