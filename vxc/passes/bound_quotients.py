"""bound-quotients: divisions of a summand by the sum, whose quotient is never more than 1.

Before: stage=tile; each loop over a row computes what it needs.
After:  a division in a loop over a row has `part` where its divisor is the sum over the row of what it divides, in f32, and that is a
        number without a sign, by the instruction that makes it. Sums of such numbers, rounded or not, in whatever order, are no less
        than each of them, and so the quotient is in [0, 1], or NaN. Nothing else changes; share-reciprocals then needs no test of the
        quotient.

    %j = reduce @z, 64 {..}                             %j = reduce @z, 64 {..}
      %0: f32 = load @x, %i, %j                           %0: f32 = load @x, %i, %j
      %1: f32 = exp %0                                    %1: f32 = exp %0
      contribute %1                                       contribute %1
    end %j                                              end %j
    %2: f32 = load @z                             ->    %2: f32 = load @z
    %j.1 = loop 0, 64 {.., kind="parallel"}             %j.1 = loop 0, 64 {.., kind="parallel"}
      %3: f32 = load @x, %i, %j.1                         %3: f32 = load @x, %i, %j.1
      %4: f32 = exp %3                                    %4: f32 = exp %3
      %5: f32 = div %4, %2                                %5: f32 = div %4, %2 {part=true}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vxc.analysis.sweeps import Extent, Numbering, Sweep, stable_loads, sweep_extent
from vxc.dtypes import F32
from vxc.ir.kernel import Buffer, Kernel, Operand, Value
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, definitions
from vxc.pass_manager import Context, Pass
from vxc.passes.prove_parallel_text import source_name

UNSIGNED = ("abs", "exp", "exp2", "sigmoid")  # whose results have the sign of +0, or are NaN


class _Parts:
    """The divisions of one kernel that divide a summand by the sum."""

    def __init__(self, kernel: Kernel, distinct: bool):
        self.insts, self.regions = kernel.insts, Regions.of(kernel.insts)
        self.made = definitions(kernel.insts)
        self.distinct, self.arrays = distinct, [p for p in kernel.params if isinstance(p, Buffer)]
        # how often a cell is written, of which a reduction is once
        written = [a.buffer.name for inst in self.insts for a in accesses(inst) if "w" in a.mode]
        written += [inst.operands[0].name for inst in self.insts if inst.op in ("reduce", "extern")]
        self.once = {name for name in written if written.count(name) == 1}

    def found(self) -> Iterator[int]:
        """Their positions."""
        levels: dict[int, dict[int, Extent]] = {}  # opener -> the sweeps right in it, with what they run over
        for at, inst in enumerate(self.insts):
            if inst.op in ("loop", "reduce") and (extent := sweep_extent(self.insts, self.regions, at)):
                levels.setdefault(self.regions.parent[at], {})[at] = extent
        for sweeps in levels.values():
            if any(self._sums(at) for at in sweeps):
                yield from self._of_level(sweeps)

    def _of_level(self, extents: dict[int, Extent]) -> Iterator[int]:
        numbering = Numbering(stable_loads(self.insts, self.arrays, self.distinct))
        sums: dict[str, tuple[int, Extent, int]] = {}  # cell -> where it becomes the sum, over what, and of which number
        for at, extent in extents.items():
            sweep = numbering.sweep(self.insts, self.regions, at)
            if self._sums(at):
                if (n := self._unsigned_summand(sweep, numbering)) is not None:
                    sums[self.insts[at].operands[0].name] = at, extent, n
            else:
                yield from self._divisions(sweep, extent, sums)

    def _sums(self, at: int) -> bool:
        inst = self.insts[at]
        return inst.op == "reduce" and inst.attr("op") == "sum" and inst.operands[0].dtype is F32 and inst.operands[0].name in self.once

    def _unsigned_summand(self, sweep: Sweep, numbering: Numbering) -> int | None:
        """The number of what a sum adds up, if it has no sign."""
        inside = (self.insts[i] for i in self.regions.level(self.regions.body(sweep.at)))
        n = self._number(sweep, next(inst for inst in inside if inst.op == "contribute").operands[0])
        made = numbering.made[n][0] if n is not None else None
        return n if made is not None and made.op in UNSIGNED and made.result.dtype is F32 else None

    def _divisions(self, sweep: Sweep, extent: Extent, sums: dict[str, tuple[int, Extent, int]]) -> Iterator[int]:
        for i in sweep.numbers:
            inst = self.insts[i]
            loaded = self.made.get(inst.operands[1].name) if inst.op == "div" and type(inst.operands[1]) is Value else None
            if loaded is not None and self.insts[loaded].op == "load":
                at, *summed = sums.get(self.insts[loaded].operands[0].name, (loaded,))
                if at < loaded and summed == [extent, self._number(sweep, inst.operands[0])]:
                    yield i

    def _number(self, sweep: Sweep, x: Operand) -> int | None:
        return sweep.numbers.get(self.made.get(x.name)) if type(x) is Value else None


def mark(kernel: Kernel, context: Context, distinct: bool) -> Kernel:
    found = set(_Parts(kernel, distinct).found())
    if not found:
        return kernel
    made = definitions(kernel.insts)
    for at in sorted(found):
        inst = kernel.insts[at]
        cell = kernel.insts[made[inst.operands[1].name]].operands[0].name
        text = f"what is divided by `{source_name(cell)}` is one of its summands, none of which is negative: no quotient is more than 1"
        context.applied(text, kernel.name, inst.loc)
    return replace(kernel, insts=tuple(x.with_attrs(part=True) if i in found else x for i, x in enumerate(kernel.insts)))


def run(plan: Plan, context: Context) -> Plan:
    shares = plan.shares_arguments
    return plan.with_kernels(mark(kernel, context, kernel.name not in shares) for kernel in plan.kernels)


BOUND_QUOTIENTS = Pass("bound-quotients", run, "find divisions of summands by their sum", needs=("tile", "loops"))
