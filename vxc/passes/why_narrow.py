"""Why accesses to global and shared memory stay at one element, or less than 16 bytes (part of infer-vector-widths)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from vxc.analysis.forms import Atom, Form, form
from vxc.analysis.thread_loop import MEMORY
from vxc.analysis.vector_width import BYTES, MOST, candidate, refusal
from vxc.analysis.wide_loop import Widths
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions, definitions
from vxc.passes.limit_unrolling import trips
from vxc.passes.prove_parallel_text import source_name

ATOMIC = "an atomic updates one element"
ONE = "a thread takes one element here"
REST = "elements that fill no whole vector go one by one"
STEP = "elements on both sides of the end of a row do not lie together"
_INSIDE = {"loop": "a loop", "while": "a loop", "break": "a `break`", "continue": "a `continue`", "print": "a `print`",
           "barrier": "a barrier"}  # fmt: skip


def tests(found: Widths) -> list[str]:
    """What the kernel tests for its wide form, in words."""
    begin, be = ("begin", "begins"), ("are multiples", "is a multiple")
    words = [f"{' and '.join(xs)} {begin[len(xs) == 1]} at a multiple of {n} bytes" for n, xs in _alike(found.aligned, "`{}`").items()]
    return words + [f"{' and '.join(xs)} {be[len(xs) == 1]} of {n}" for n, xs in _alike(found.divides, "{}").items()]


def _fails(found: Widths) -> str:
    """The opposite."""
    words = [f"{' or '.join(xs)} begins at no multiple of {n} bytes" for n, xs in _alike(found.aligned, "`{}`").items()]
    return ", or ".join(words + [f"{' or '.join(xs)} is no multiple of {n}" for n, xs in _alike(found.divides, "{}").items()])


def _alike(needs: Mapping[str, int], how: str) -> dict[int, list[str]]:
    """By what is needed, the names of what it is needed of."""
    found: dict[int, list[str]] = {}
    for name, by in needs.items():
        found.setdefault(by, []).append(how.format(source_name(name)))
    return found


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


def _looked_at(found: Widths) -> Iterator[tuple[int, str]]:
    """The accesses of loops that were looked at; those that move with others stay single only where the tests fail."""
    other = f"for calls where {_fails(found)}" if found.two_forms else REST
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

    def why(self, at: int) -> str:
        inst = self.insts[at]
        buffer = inst.operands[0]
        if inst.op == "atomic":
            return ATOMIC
        (access,) = accesses(inst)
        if self._from_memory(access.box):
            return "where it is depends on memory"
        offset = self.offsets.linear(buffer, access.box)
        for loop in (p for p in self.regions.parents(at) if self.insts[p].op == "loop"):
            index = Atom(self.insts[loop].result.name)
            if index in offset.atoms() and trips(self.insts[loop]) != 1:
                return self._next(loop, buffer, offset.coefficient(index), offset.without(index))
        return ONE

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

    def _next(self, loop: int, buffer: Buffer, step: Form | None, rest: Form) -> str:
        """Of elements that the iterations of a loop go to."""
        inst = self.insts[loop]
        here = f"the loop on line {inst.loc[0]}" if inst.loc else "the loop around it"
        if step is None or Atom(inst.result.name) in rest.atoms():
            return f"the elements that a thread takes in {here} do not follow one another in memory"
        if buffer.dtype.bits < 8:
            return f"two elements of {buffer.dtype} share a byte"
        if step != form(1):
            by = f"{step.value * buffer.dtype.bytes:,} bytes" if step.value is not None else f"{source_name(str(step))} elements"
            return f"the next element that the thread takes is {by} further on"
        return f"{here} {self._kept(inst, loop)}"

    def _kept(self, inst: Inst, loop: int) -> str:
        """Why a loop over consecutive elements is none that is looked at."""
        if candidate(inst):
            inside = refusal(self.insts[i] for i in self.regions.body(loop))
            return f"has {_INSIDE.get(inside, 'an exchange between lanes')} in it" if inside else "accesses other elements in between"
        if inst.attr("kind") != "unroll":
            return "runs its iterations one after another: it is no `unroll` loop"
        count = trips(inst)
        if count is None:
            return "is as long as only the call knows"
        return f"has {count} iterations, and a vector has 2 to {MOST}, a power of two"


