"""Transposes: elementwise parallel nests whose arrays are contiguous along different loops (stage=tile).

Where what is stored is contiguous along one loop (`along`) and what is loaded along another (`across`), threads side by side can follow
only one of the two in memory. Loads that can go through shared memory instead are those of arrays that the kernel only reads, whole: each
index is another loop over the whole dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from vxc.analysis.forms import Atom, form
from vxc.analysis.offsets import Offsets
from vxc.analysis.vector_width import BYTES
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Operand, Value
from vxc.ir.ops import OPS, Access, accesses
from vxc.record import record

LEAST = 32  # iterations of a loop: rows of less lie in few lines of memory, which the cache keeps for the threads beside
WIDEST = 2 * BYTES  # elements of one byte, in what is accessed together
_ALLOWED = frozenset(("load", "store", "cell", "if", "else", "end"))
_OWN = ("lanes", "vector", "threads", "layout")  # attributes by which the author maps a loop


@record
class Staged:
    """An array that goes through shared memory, with the loops that its indices are, and the positions of its loads in the body.

    Its rows begin at multiples of `begins` elements, a power of two, from its own beginning, and those that a tile has follow one another
    `apart` elements later, None where only the call says.
    """

    buffer: Buffer
    indices: tuple[Operand, ...]
    loads: tuple[int, ...]
    begins: int
    apart: int | None


@record
class Transpose:
    """Numbers of the two loops; a store whose indices are loops or known before the nest, what its rows `begins` at multiples of, and how
    far `apart` they are; what is staged; why other loads are not.
    """

    along: int
    across: int
    anchor: Access
    begins: int
    apart: int | None
    staged: tuple[Staged, ...]
    missed: tuple[tuple[int, str], ...]


def find(params: Sequence[Value | Buffer], prologue: Sequence[Inst], loops: Sequence[Inst], body: Sequence[Inst]) -> Transpose | str | None:
    """What to stage in a nest; why nothing, though its arrays are contiguous along different loops; None where they are not."""
    if len(loops) < 2 or any(inst.op not in _ALLOWED and not OPS[inst.op].pure for inst in body):
        return None
    return _Search(params, prologue, loops, body).found()


class _Search:
    def __init__(self, params, prologue, loops: Sequence[Inst], body: Sequence[Inst]):
        self.loops, self.body = loops, body
        self.indices = [loop.result for loop in loops]
        self.own = {inst.result for inst in body if type(inst.result) is Value}
        self.offsets = Offsets.of(params)
        for inst in (*prologue, *loops, *body):
            self.offsets.define(inst)
        self.accesses = [(i, a) for i, inst in enumerate(body) for a in accesses(inst) if a.buffer.space in GLOBAL]
        self.written = {a.buffer.name for _, a in self.accesses if "w" in a.mode}

    def found(self) -> Transpose | str | None:
        stores = [(i, a) for i, a in self.accesses if a.mode == "w"]
        ways = [self.along(a) for _, a in stores]
        common = set.intersection(*ways) if ways else set()
        if not common:
            return "what is stored is contiguous along different loops" if ways and all(ways) else None
        along = max(common)
        loads = [(i, a, self.along(a) - {along}) for i, a in self.accesses if a.mode == "r" and self.strided(a, along)]
        across = [max(where) for _, _, where in loads if where]
        if not across:
            return None
        refused = [(i, why) for i, a, where in loads if where and (why := self.refused(a))]
        anchor = next((a for _, a in stores if all(self.is_plain(x) for x in a.box)), None)
        why = self.nest_refused(along, max(across)) or ("" if anchor else "no store is at indices that are loops")
        chosen = max(across)
        staged: dict[tuple, list[int]] = {}
        for i, a, where in loads:
            if chosen in where and i not in dict(refused):
                staged.setdefault((a.buffer, a.box), []).append(i)
        if why or not staged:
            return why or refused[0][1]
        others = [(i, "another array is contiguous along another loop") for i, _, where in loads if where and chosen not in where]
        arrays = tuple(
            Staged(buffer, box, tuple(at), self.begins(buffer, box, chosen), self.apart(buffer, box, along))
            for (buffer, box), at in staged.items()
        )
        begins, apart = self.begins(anchor.buffer, anchor.box, along), self.apart(anchor.buffer, anchor.box, chosen)
        return Transpose(along, chosen, anchor, begins, apart, arrays, (*refused, *others))

    def begins(self, buffer: Buffer, box: tuple[Operand, ...], along: int) -> int:
        """What power of two, WIDEST at most, divides the offset of an access in the first iteration of a loop, whatever the others are."""
        f = self.offsets.linear(buffer, box).without(Atom(self.indices[along].name))
        return gcd(WIDEST, *(c for _, c in f.terms))

    def apart(self, buffer: Buffer, box: tuple[Operand, ...], loop: int) -> int | None:
        """Elements from one iteration of a loop to the next, where that is known."""
        step = self.offsets.linear(buffer, box).coefficient(Atom(self.indices[loop].name))
        return None if step is None else step.value

    def along(self, access: Access) -> set[int]:
        """The loops along which an access is to elements that follow one another in memory."""
        f = self.offsets.linear(access.buffer, access.box)
        found = set()
        for number, index in enumerate(self.indices):
            atom = Atom(index.name)
            if f.coefficient(atom) == form(1) and atom not in f.without(atom).atoms():
                found.add(number)
        return found

    def strided(self, access: Access, along: int) -> bool:
        """Whether an access is to other elements in each iteration of a loop, and not to ones that follow one another."""
        atoms = {a.name for a in self.offsets.linear(access.buffer, access.box).atoms()}
        varies = self.indices[along].name in atoms or not atoms.isdisjoint(x.name for x in self.own)
        return varies and along not in self.along(access)

    def is_plain(self, x: Operand) -> bool:
        """A loop, or known before the nest."""
        return x not in self.own

    def nest_refused(self, along: int, across: int) -> str:
        """Why the nest as a whole cannot be cut into tiles, or ""."""
        for loop in self.loops:
            start, stop, step = (*loop.operands, Const(1))[:3]
            written = next((name for name in _OWN if loop.attr(name)), None)
            if written:
                return f"@{written} of `{loop.result.name}` says how it is mapped"
            if start != Const(0) or step != Const(1):
                return f"`{loop.result.name}` does not run from 0 by steps of 1"
        for number in (along, across):
            stop = self.loops[number].operands[1]
            if isinstance(stop, Const) and stop.value < LEAST:
                return f"`{self.indices[number].name}` has {stop.value} iterations, and fewer than {LEAST} need no tiles"
        return ""

    def refused(self, access: Access) -> str:
        """Why an array that is read cannot be staged, or ""."""
        buffer, box = access.buffer, access.box
        extents = {loop.result: loop.operands[1] for loop in self.loops}
        if any(x in self.own for x in box):
            return f"an index of `{buffer.name}` is computed, not a loop over a dimension"
        if any(extents.get(x) != n for x, n in zip(box, buffer.shape)) or len(set(box)) < len(box):
            return f"the loops do not run over all of `{buffer.name}`, each over one dimension"
        if buffer.strides is not None:
            return f"the rows of `{buffer.name}` have a pitch"
        if buffer.name in self.written or buffer.space != "param":
            return f"`{buffer.name}` is written by the kernel"
        if buffer.dtype.bits < 8:
            return f"two elements of `{buffer.name}` share a byte"
        return ""
