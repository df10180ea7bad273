"""bound-quotients: divisions of a summand by the sum, whose quotient is never more than 1.

Before: stage=tile; each loop over a row computes what it needs.
After:  a division in a loop over a row has `part` where its divisor is the sum over the row of what it divides, in f32, and that is a
        number without a sign, by the instruction that makes it. Sums of such numbers, rounded or not, in whatever order, are no less
        than each of them, and so the quotient is in [0, 1], or NaN; share-reciprocals then needs no test of it. Where the summand is
        a power of an element less the greatest of the row, of which there is no use but this sum and these quotients, and they are
        only stored in 16 or 8 bits, the summand has that `precision`, as elementary-precision has it for what is stored itself.
        Nothing else changes.

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

The greatest of such powers is 1, and the sum no less. Where each is off by a factor of 1 + e at most, a quotient is by 1 + 2e; e is below
2^-16 for the forms of `semantics/stored.py` (2^x of an x that was rounded, 126 at most in size), and 2^-11 would do. In the form for f16
powers below 2^-126 are 0, and so is what f16 makes of their quotients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from vxc.analysis.sweeps import Extent, Numbering, Sweep, stable_loads, sweep_extent
from vxc.dtypes import F32
from vxc.ir.kernel import Buffer, Inst, Kernel, Operand, Value
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, definitions
from vxc.pass_manager import Context, Pass
from vxc.passes.elementary_precision import stored_as, users
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record
from vxc.semantics import STORED

UNSIGNED = ("abs", "exp", "exp2", "sigmoid")  # whose results have the sign of +0, or are NaN
POWERS = ("exp", "exp2")  # which are 1 at 0, and less below it
Reduced = dict[str, tuple[int, Extent, int]]  # cell -> where it becomes what a row is reduced to, over what, and of which number


@record
class Parts:
    """Where elements of a row are divided by their sum, `summands` all places at which these are computed. `powers`: of what is at most 0,
    and 0 for one of them.
    """

    divisions: tuple[int, ...]
    summands: tuple[int, ...]
    powers: bool


class _Finder:
    """The parts of sums in one kernel."""

    def __init__(self, kernel: Kernel, distinct: bool):
        self.insts, self.regions = kernel.insts, Regions.of(kernel.insts)
        self.made = definitions(kernel.insts)
        self.distinct, self.arrays = distinct, [p for p in kernel.params if isinstance(p, Buffer)]
        # how often a cell is written, of which a reduction is once
        written = [a.buffer.name for inst in self.insts for a in accesses(inst) if "w" in a.mode]
        written += [inst.operands[0].name for inst in self.insts if inst.op in ("reduce", "extern")]
        self.once = {name for name, times in Counter(written).items() if times == 1}

    def found(self) -> Iterator[Parts]:
        levels: dict[int, dict[int, Extent]] = {}  # opener -> the sweeps right in it, with what they run over
        for at, inst in enumerate(self.insts):
            if inst.op in ("loop", "reduce") and (extent := sweep_extent(self.insts, self.regions, at)):
                levels.setdefault(self.regions.parent[at], {})[at] = extent
        for sweeps in levels.values():
            if any(self._reduces(at, "sum") for at in sweeps):
                yield from self._of_level(sweeps)

    def _of_level(self, extents: dict[int, Extent]) -> Iterator[Parts]:
        numbering = Numbering(stable_loads(self.insts, self.arrays, self.distinct))
        sums: Reduced = {}
        tops: Reduced = {}
        numbers: dict[int, int] = {}
        divisions: dict[str, list[int]] = {}  # cell of a sum -> what divides its summands by it
        for at, extent in extents.items():
            sweep = numbering.sweep(self.insts, self.regions, at)
            numbers |= sweep.numbers
            for op, reduced in (("sum", sums), ("max", tops)):
                if self._reduces(at, op) and (n := self._contributed(sweep)) is not None:
                    reduced[self.insts[at].operands[0].name] = at, extent, n
            if self.insts[at].op == "loop":
                for cell, i in self._divisions(sweep, extent, sums):
                    if self._unsigned(numbering, sums[cell][2]):
                        divisions.setdefault(cell, []).append(i)
        for cell, found in divisions.items():
            _, extent, n = sums[cell]
            yield Parts(tuple(found), tuple(i for i, k in numbers.items() if k == n), self._powers(numbering, n, extent, tops))

    def _reduces(self, at: int, op: str) -> bool:
        inst = self.insts[at]
        return inst.op == "reduce" and inst.attr("op") == op and inst.operands[0].dtype is F32 and inst.operands[0].name in self.once

    def _contributed(self, sweep: Sweep) -> int | None:
        """The number of what is reduced."""
        inside = (self.insts[i] for i in self.regions.level(self.regions.body(sweep.at)))
        return self._number(sweep, next(inst for inst in inside if inst.op == "contribute").operands[0])

    def _unsigned(self, numbering: Numbering, n: int) -> bool:
        made = numbering.made.get(n)
        return made is not None and made[0].op in UNSIGNED and made[0].result.dtype is F32

    def _powers(self, numbering: Numbering, n: int, extent: Extent, tops: Reduced) -> bool:
        """Whether a number is a power of what `tops` say is the difference of an element from the greatest one."""
        power, (exponent, *_) = numbering.made[n]
        difference, operands = numbering.made.get(exponent, (None, ()))
        if power.op not in POWERS or difference is None or difference.op != "sub":
            return False
        return self._loaded(difference.operands[1], tops)[1:] == (extent, operands[0])

    def _divisions(self, sweep: Sweep, extent: Extent, sums: Reduced) -> Iterator[tuple[str, int]]:
        for i in sweep.numbers:
            inst = self.insts[i]
            if inst.op == "div" and self._loaded(inst.operands[1], sums)[1:] == (extent, self._number(sweep, inst.operands[0])):
                yield self._loaded(inst.operands[1], sums)[0], i

    def _loaded(self, x: Operand, reduced: Reduced) -> tuple:
        """(cell, over what, of which number) if a value is loaded from a cell once a row is reduced to it; else ()."""
        at = self.made.get(x.name) if type(x) is Value else None
        if at is None or self.insts[at].op != "load" or (cell := self.insts[at].operands[0].name) not in reduced:
            return ()
        then, *what = reduced[cell]
        return (cell, *what) if then < at else ()

    def _number(self, sweep: Sweep, x: Operand) -> int | None:
        return sweep.numbers.get(self.made.get(x.name)) if type(x) is Value else None


def _precision(kernel: Kernel, uses: dict[str, list[Inst]], parts: Parts) -> str | None:
    """That in which the quotients are stored, if it is one, and all that the summands are used for is this."""
    insts = kernel.insts
    divisions = [insts[i] for i in parts.divisions]
    divisors = {inst.operands[1] for inst in divisions}
    cells = {inst.operands[0] for inst in insts if inst.result in divisors}
    loads = [inst.result for inst in insts if inst.op == "load" and inst.operands[0] in cells]
    stored = set().union(*(stored_as(inst.result, uses) for inst in divisions))
    precision = next(iter(stored)) if len(stored) == 1 else None
    if not parts.powers or precision is None or insts[parts.summands[0]].op not in STORED[precision]:
        return None
    shared = all(use in divisions and use.operands[0] != x for x in loads for use in uses.get(x.name, ()))
    for x in (insts[i].result for i in parts.summands):
        shared &= all(use.op == "contribute" or (use in divisions and use.operands[1] != x) for use in uses.get(x.name, ()))
    reduced = sum(inst.op == "contribute" and inst.operands[0] in {insts[i].result for i in parts.summands} for inst in insts)
    return precision if shared and reduced == 1 else None


def mark(kernel: Kernel, context: Context, distinct: bool) -> Kernel:
    found = sorted(_Finder(kernel, distinct).found(), key=lambda parts: parts.divisions)
    if not found:
        return kernel
    made, uses = definitions(kernel.insts), users(kernel)
    marks: dict[int, dict[str, bool | str]] = {}
    for parts in found:
        for at in parts.divisions:
            inst = kernel.insts[at]
            cell = source_name(kernel.insts[made[inst.operands[1].name]].operands[0].name)
            text = f"what is divided by `{cell}` is one of its summands, none of which is negative: no quotient is more than 1"
            context.applied(text, kernel.name, inst.loc)
            marks[at] = {"part": True}
        if precision := _precision(kernel, uses, parts):
            marks |= {i: {"precision": precision} for i in parts.summands}
            power = kernel.insts[parts.summands[0]]
            text = f"{power.op} is computed for {precision}, as which alone its quotients by `{cell}` are stored"
            context.applied(text, kernel.name, power.loc)
    return replace(kernel, insts=tuple(x.with_attrs(**marks.get(i, {})) for i, x in enumerate(kernel.insts)))


def run(plan: Plan, context: Context) -> Plan:
    shares = plan.shares_arguments
    return plan.with_kernels(mark(kernel, context, kernel.name not in shares) for kernel in plan.kernels)


BOUND_QUOTIENTS = Pass("bound-quotients", run, "find divisions of summands by their sum", needs=("tile", "loops"))
