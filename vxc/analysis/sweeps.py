"""Sweeps: the reductions and parallel loops that run over the same elements one after another, and what several of them compute.

The pure instructions and loads at a sweep's own level get *numbers*: equal ones have equal values at equal elements. So the same
row read in two loops is one number, and so is all that follows from it in both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace

from vxc.ir.kernel import Buffer, Const, Inst, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.record import record, state

_INDEX = 0  # the number of the index of every sweep

ROW = "row"  # why iterations over the elements of a row that is loaded to be kept are independent


@record
class Sweep:
    """The region at position `at`. `numbers` are those of the instructions at its own level, by position; `roots` those of what anything
    else there uses.
    """

    at: int
    numbers: dict[int, int]
    roots: tuple[int, ...]


@state
class Numbering:
    """Numbers of values, in the order in which they are met. `made[n]` is the first instruction of a number and its operands' numbers."""

    stable: dict[str, int]  # by buffer: the position from which on a load may see what the kernel stores
    made: dict[int, tuple[Inst, tuple[int, ...]]] = field(default_factory=dict)
    moving: set[int] = field(default_factory=lambda: {_INDEX})  # numbers that depend on the element
    ids: dict[Hashable, int] = field(default_factory=lambda: {"index": _INDEX})

    def number(self, key: Hashable) -> int:
        return self.ids.setdefault(key, len(self.ids))

    def sweep(self, insts: Sequence[Inst], regions: Regions, at: int) -> Sweep:
        """Number a region's own level; the rest of it only uses."""
        known: dict[str, int] = {insts[at].result.name: _INDEX}
        numbers: dict[int, int] = {}
        for i in regions.level(regions.body(at)):
            n = self.of(insts[i], i, known)
            if n is not None:
                numbers[i] = n
        others = (insts[i] for i in regions.body(at) if i not in numbers)
        used = {x.name: None for inst in others for x in inst.operands if type(x) is Value}
        return Sweep(at, numbers, tuple(known[name] for name in used if name in known))

    def of(self, inst: Inst, at: int, known: dict[str, int]) -> int | None:
        """The number of what an instruction at a position gives, which becomes `known`; None where equal ones need not give the same."""
        if not (OPS[inst.op].pure or self._steady(inst, at)):
            return None
        operands = tuple(
            self.number(x) if type(x) is not Value else known[x.name] if x.name in known else self.number(("outside", x.name))
            for x in inst.operands
        )
        n = self.number((inst.op, operands, inst.result.dtype.name, inst.attrs))
        if n not in self.made:
            self.made[n] = (inst, operands)
            if not self.moving.isdisjoint(operands):
                self.moving.add(n)
        known[inst.result.name] = n
        return n

    def _steady(self, inst: Inst, at: int) -> bool:
        return inst.op == "load" and at < self.stable.get(inst.operands[0].name, -1)

    def needed(self, roots: Iterable[int], known: Iterable[int]) -> tuple[set[int], set[int]]:
        """(numbers to compute for the roots, numbers among the known that this takes)."""
        known, compute, take, work = set(known), set(), set(), list(roots)
        while work:
            n = work.pop()
            if n in known:
                take.add(n)
            elif n in self.made and n not in compute:
                compute.add(n)
                work += self.made[n][1]
        return compute, take


def stable_loads(insts: Sequence[Inst], params: Iterable[Buffer], distinct: bool) -> dict[str, int]:
    """For each array, the position up to which loads read what was there before the kernel; `distinct` says that no two share memory."""
    first = {}
    for i, inst in enumerate(insts):
        for access in accesses(inst):
            if "w" in access.mode:
                first.setdefault(access.buffer.name, i)
    least = len(insts) if distinct else min(first.values(), default=len(insts))
    return {p.name: first.get(p.name, least) for p in params}


@record
class Extent:
    """How many elements a reduction or loop from 0 runs over: `size`, which is at most `most` (None: any) and a multiple of `multiple`."""

    size: Operand
    most: int | None
    multiple: int

    @classmethod
    def of(cls, inst: Inst) -> Extent:
        size = inst.operands[1]
        if type(size) is Const:
            return cls(size, size.value, size.value)
        return cls(size, inst.attr("most"), inst.attr("multiple", 1))

    def over(self, new: Callable[[Operand], Operand]) -> Extent:
        """The same in terms of other values."""
        return replace(self, size=new(self.size))

    @property
    def attrs(self) -> dict[str, int | None]:
        """What an instruction says of it besides the size."""
        return {} if type(self.size) is Const else {"most": self.most, "multiple": self.multiple if self.multiple > 1 else None}


def sweep_extent(insts: Sequence[Inst], regions: Regions, at: int) -> Extent | None:
    """The elements, at least 1 where that is known, if lanes can share the region at a position as one run over a row; else None."""
    inst = insts[at]
    if inst.op == "loop" and inst.attr("kind") == "parallel":
        if inst.operands[0] != Const(0) or inst.operands[2:] not in ((), (Const(1),)):
            return None
    elif inst.op != "reduce":
        return None
    inside = [insts[i] for i in regions.body(at)]
    own = {i.result.name for i in inside if type(i.result) is Buffer}
    shared = any(i.op in ("reduce", "scan") or (i.op == "loop" and i.attr("kind") == "parallel") for i in inside)
    outer = any(a.buffer.space in ("cell", "local") and a.buffer.name not in own and "w" in a.mode for i in inside for a in accesses(i))
    extent = Extent.of(inst)
    return None if shared or outer or (type(extent.size) is Const and extent.size.value < 1) else extent
