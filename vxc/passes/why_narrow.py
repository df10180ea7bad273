"""Why accesses to global and shared memory stay at one element, or less than 16 bytes (part of infer-vector-widths)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vxc.analysis.forms import Atom, Form, form
from vxc.analysis.thread_loop import MEMORY
from vxc.analysis.vector_width import BYTES, MOST, candidate, refusal
from vxc.analysis.wide_loop import Widths
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand
from vxc.ir.narrow import Reason, alike
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions, definitions
from vxc.passes.limit_unrolling import trips
from vxc.passes.prove_parallel_text import source_name

REST: Reason = ("rest",)
ROW_END: Reason = ("row-end",)


def tests(found: Widths) -> list[str]:
    """What the kernel tests for its wide form, in words."""
    begin, be = ("begin", "begins"), ("are multiples", "is a multiple")
    aligned, divides = (alike((source_name(name), n) for name, n in x.items()) for x in (found.aligned, found.divides))
    words = [f"`{'` and `'.join(xs)}` {begin[len(xs) == 1]} at a multiple of {n} bytes" for n, xs in aligned.items()]
    return words + [f"{' and '.join(xs)} {be[len(xs) == 1]} of {n}" for n, xs in divides.items()]


def _fails(found: Widths) -> Reason:
    """The opposite."""
    needs = [*((f"@{name}", n) for name, n in found.aligned.items()), *((f"%{name}", n) for name, n in found.divides.items())]
    return ("calls", *(x for name, n in needs for x in (source_name(name), n)))


def marked(kernel: Kernel, found: Widths) -> Kernel:
    """The kernel with `narrow` at each access of one element: what keeps it so, wherever it is not moved with others.

    What a pass before said of one stays, unless it is looked at here.
    """
    reasons = dict(_looked_at(found))
    single = _Single(kernel, found)
    insts = []
    for at, inst in enumerate(kernel.insts):
        if inst.op in ("load", "store", "atomic") and inst.operands[0].space in MEMORY and inst.operands[0].dtype.bytes < BYTES:
            why = reasons.get(at) or inst.attr("narrow") or single.why(at)
            inst = inst.with_attrs(narrow=why)
        insts.append(inst)
    return replace(kernel, insts=tuple(insts))


def _looked_at(found: Widths) -> Iterator[tuple[int, Reason]]:
    """The accesses of loops that were looked at; those that move with others stay single only where the tests fail."""
    other = _fails(found) if found.two_forms else REST
    for loop in found.loops.values():
        for run in loop.runs:
            yield from dict.fromkeys((*run.loads, *run.stores), other).items()
    for miss in found.missed:
        yield from dict.fromkeys(miss.places, miss.why).items()


class _Single:
    """Accesses outside of the loops that were looked at: what their thread takes next, and where that lies."""

    def __init__(self, kernel: Kernel, found: Widths):
        self.insts, self.offsets = kernel.insts, found.offsets
        self.regions, self.defined = Regions.of(kernel.insts), definitions(kernel.insts)

    def why(self, at: int) -> Reason:
        inst = self.insts[at]
        buffer = inst.operands[0]
        if inst.op == "atomic":
            return ("atomic",)
        (access,) = accesses(inst)
        if self._from_memory(access.box):
            return ("data",)
        offset = self.offsets.linear(buffer, access.box)
        for loop in (p for p in self.regions.parents(at) if self.insts[p].op == "loop"):
            index = Atom(self.insts[loop].result.name)
            if index in offset.atoms() and trips(self.insts[loop]) != 1:
                return self._next(loop, buffer, offset.coefficient(index), offset.without(index))
        return ("single",)

    def _from_memory(self, indices: Iterable[Operand]) -> bool:
        """Whether an index follows from what something else than arithmetic gives."""
        work, seen = list(indices), set()
        while work:
            x = work.pop()
            at = None if type(x) is Const else self.defined.get(x.name)
            if at is None or at in seen:
                continue
            seen.add(at)
            inst = self.insts[at]
            if inst.op in ("load", "atomic") or inst.op.startswith("shfl"):
                return True
            work += inst.operands if OPS[inst.op].pure or inst.op == "loop" else ()
        return False

    def _next(self, loop: int, buffer: Buffer, step: Form | None, rest: Form) -> Reason:
        """Of elements that the iterations of a loop go to."""
        inst = self.insts[loop]
        line = inst.loc[0] if inst.loc else 0
        if step is None or Atom(inst.result.name) in rest.atoms():
            return "scattered", line
        if buffer.dtype.bits < 8:
            return "packed", str(buffer.dtype)
        if step != form(1):
            ahead = step * buffer.dtype.bytes
            return "next", source_name(str(ahead)) if ahead.value is None else ahead.value
        return self._kept(inst, loop, line)

    def _kept(self, inst: Inst, loop: int, line: int) -> Reason:
        """Why a loop over consecutive elements is none that is looked at."""
        if candidate(inst):
            inside = refusal(self.insts[i] for i in self.regions.body(loop))
            return ("holds", line, inside) if inside else ("between", line)
        if inst.attr("kind") != "unroll":
            return "serial", line
        count = trips(inst)
        if count is None:
            return "length", line
        return "count", line, count, MOST


