"""How many elements in a row a lane takes in a parallel loop whose iterations are elements (part of map-loops)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vxc.analysis.conditions import ENDS, SAME, kind_of
from vxc.analysis.forms import Atom, Form
from vxc.analysis.offsets import Offsets, run_of, settled
from vxc.analysis.vector_width import BYTES, MEMORY
from vxc.ir.kernel import GLOBAL, Const, Inst, Value
from vxc.ir.narrow import Reason
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions

WIDEST = 2 * BYTES  # that a lane takes of one array
LENGTH = 512  # instructions of all copies of the body
_ALLOWED = frozenset(("load", "store", "cell", "if", "else", "extern", "end", "assert"))


class Choice(NamedTuple):
    """Elements in a row, and why there is only 1, where it is worth saying."""

    elements: int
    why: Reason | None = None


def choose(offsets: Offsets, insts: Sequence[Inst], loop: Inst, inside: range, lanes: int, alone: bool) -> Choice:
    """For a loop whose body is at positions `inside` of `insts`, shared by `lanes` lanes. `offsets` knows what is before it.

    `alone` says that no lane ever accesses what another iteration writes, as is so where iterations have nothing around them; else the
    buffers must show it.
    """
    body = [insts[i] for i in inside]
    start, stop, step = (*loop.operands, Const(1))[:3]
    others = sorted({inst.op for inst in body if inst.op not in _ALLOWED and not OPS[inst.op].pure})
    if step != Const(1) or others:
        return Choice(1, ("atomics",) if "atomic" in others else None)
    for inst in (loop, *body):
        offsets.define(inst)
    touched = {a.buffer.name: a.buffer for inst in body for a in accesses(inst)}
    declared = {inst.result.name for inst in body if inst.op == "cell"}
    strange = [name for name, buffer in touched.items() if buffer.space not in MEMORY and name not in declared]
    if strange:
        return Choice(1)
    if not (alone or _apart(insts, inside)):
        return Choice(1, ("elsewhere",))
    sizes = _consecutive(offsets, insts, inside, loop)
    if not sizes:
        always = any(a.buffer.space in MEMORY for i in Regions.of(insts).level(inside) for a in accesses(insts[i]))
        return Choice(1, ("no-run" if always else "conditions",)) if touched else Choice(1)
    elements = loop.attr("vector") or min(BYTES // min(sizes), WIDEST // max(sizes))
    trips = len(range(start.value, stop.value)) if isinstance(start, Const) and isinstance(stop, Const) else None
    while elements > 1 and not loop.attr("vector") and (elements * len(body) > LENGTH or (trips is not None and elements * lanes > trips)):
        elements //= 2
    return Choice(elements, None if elements > 1 else ("little-work",))


def choose_own(offsets: Offsets, insts: Sequence[Inst], loop: Inst, inside: range) -> int:
    """The same for a loop all of whose iterations one thread runs: as many as divide their number, 1 where it is not known."""
    body = [insts[i] for i in inside]
    start, stop, step = (*loop.operands, Const(1))[:3]
    for inst in (loop, *body):
        offsets.define(inst)
    if start != Const(0) or step != Const(1) or not isinstance(stop, Const):
        return 1
    if any(inst.op not in _ALLOWED and not OPS[inst.op].pure for inst in body):
        return 1
    if any(access.buffer.space == "fragment" for inst in body for access in accesses(inst)):
        return 1  # its elements are gone through as they are spread
    sizes = _consecutive(offsets, insts, inside, loop)
    elements = loop.attr("vector") or BYTES // max(sizes) if sizes else 1
    while elements > 1 and stop.value % elements:
        elements //= 2
    return elements


def _apart(insts: Sequence[Inst], inside: range) -> bool:
    """Whether nothing outside of the loop accesses the global memory that it writes, or writes what it accesses. Around loops that meet
    in shared memory there are barriers, whoever runs their iterations.
    """
    found = [(i in inside, a) for i, inst in enumerate(insts) for a in accesses(inst) if a.buffer.space in GLOBAL]
    here, there = ([a for within, a in found if within == own] for own in (True, False))

    def meet(writers, others) -> bool:
        return not {a.buffer.name for a in writers if "w" in a.mode}.isdisjoint(a.buffer.name for a in others)

    return not meet(here, there) and not meet(there, here)


def _consecutive(offsets: Offsets, insts: Sequence[Inst], inside: range, loop: Inst) -> set[int]:
    """Bytes of the elements that each iteration accesses and that follow one another from iteration to iteration; those under a condition
    count where it is one of where the element lies, as that a tile ends at the end of an array.
    """
    index, found, regions = Atom(loop.result.name), set(), Regions.of(insts)
    made = {insts[i].result.name: insts[i] for i in inside if type(insts[i].result) is Value}

    def kind(f: Form) -> str | None:
        moves = settled(f, index, 2)
        own = {a.name for a in moves.atoms()} & {*made, loop.result.name}
        return ENDS if run_of(f, index, 2) is not None and own == {loop.result.name} else None if own else SAME

    level = [*regions.level(inside)]
    for i in level:  # which grows
        if insts[i].op == "if" and regions.other[i] < 0 and kind_of(insts[i].operands[0], made, offsets.form, kind, lambda f: False):
            level += regions.level(regions.body(i))
    for i in level:
        for access in accesses(insts[i]):
            if access.buffer.space in MEMORY and access.buffer.dtype.bits >= 8:
                f = offsets.linear(access.buffer, access.box)
                if run_of(f, index, max(2, BYTES // access.buffer.dtype.bytes)) is not None:
                    found.add(access.buffer.dtype.bytes)
    return found
