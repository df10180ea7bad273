"""keep-rows: a row that several loops read is read once, and lanes keep what they hold of it.

Before: stage=tile; each reduction and each parallel loop over a row loads and computes what it needs.
After:  in a nest that reduces a row of known length, what several of the sweeps over it (reductions and parallel loops right in the
        body) load, or compute at some cost, is computed in the first of them that needs it and kept in a `fragment`: loads in a loop
        of their own before it, so that all are under way at once, in the dtype of the array. What a single later sweep loads, from
        places known before the first, is loaded there as well where all of it takes few registers: it need not wait for what is
        reduced. The nest has the `lanes` of its reductions. What would take more than REGISTERS of a lane, or a share of them where
        lanes are many, is read again.

    %j = reduce @m, 64 {op="max", ..}               fragment @x.1: f32[64]
      %0: f32 = load @x, %i, %j                     %j = loop 0, 64 {independent="row", kind="parallel"}
      contribute %0                                   %0: f32 = load @x, %i, %j
    end %j                                            store @x.1, %j, %0
    %1: f32 = load @m                           ->  end %j
    %j.1 = loop 0, 64 {.., kind="parallel"}         %j.1 = reduce @m, 64 {op="max", ..}
      %2: f32 = load @x, %i, %j.1                     %1: f32 = load @x.1, %j.1
      ..                                              ..

Loads count as equal where their indices are and nothing was stored to the array before. In a `grid` the author says what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vxc.analysis.sweeps import Numbering, Sweep, is_sweep, stable_loads
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.limit_unrolling import weight
from vxc.passes.nest import nest_of
from vxc.passes.prove_parallel_text import source_name
from vxc.passes.simplify import simplify_insts
from vxc.semantics import Order

REGISTERS = 64  # of 4 bytes, that a lane gives to kept rows at most
AHEAD = 48  # the same with what is loaded ahead: beyond, the warps that it leaves no room for hide more than it does
OF_BLOCK = 32768  # of 4 bytes, that a block gives to them: half of what a multiprocessor has
ROW = "row"  # why iterations over the elements of a row are independent
DEAR = ("div", "sqrt")  # several instructions, besides those that `weight` knows as such


@dataclass
class _Rows:
    """The sweeps of one kernel over rows of `length` elements, `slots` of them in each of `lanes` lanes."""

    kernel: Kernel
    numbering: Numbering
    sweeps: Sequence[Sweep]
    length: int
    slots: int
    lanes: int

    def seen(self) -> dict[int, list[int]]:
        """For each number the sweeps, by position in the list, that have it."""
        found: dict[int, list[int]] = {}
        for s, sweep in enumerate(self.sweeps):
            for n in set(sweep.numbers.values()):
                found.setdefault(n, []).append(s)
        return found

    def candidates(self) -> list[int]:
        """Numbers that two sweeps compute and that are worth keeping: loads first, then as the kernel has them."""
        moving = self.numbering.moving
        insts = {n: self.numbering.made[n][0] for n, places in self.seen().items() if len(places) > 1 and n in moving}
        worth = [n for n, inst in insts.items() if inst.op == "load" or (inst.result.dtype.is_float and _dear(inst))]
        return sorted(worth, key=lambda n: (insts[n].op != "load", n))

    def uses(self, kept: set[int]) -> dict[int, list[int]]:
        """For each kept number the sweeps, by position in the list, that compute (first) and take it."""
        found: dict[int, list[int]] = {}
        for s, sweep in enumerate(self.sweeps):
            compute, take = self.numbering.needed(sweep.roots, found)
            for n in sorted(take):
                found[n].append(s)
            for n in sorted(compute & kept):
                found[n] = [s]
        return {n: places for n, places in found.items() if len(places) > 1}

    def ahead(self) -> dict[int, list[int]]:
        """Loads of a single sweep, not the first, whose place is known before the first: as `uses` has them."""
        made = self.numbering.made
        indices = {self.kernel.insts[sweep.at].result.name for sweep in self.sweeps}
        early = {i.result.name for i in self.kernel.insts[: self.sweeps[0].at] if i.result} | {p.name for p in self.kernel.params} | indices
        found = {}
        for n, places in sorted(self.seen().items()):
            if made[n][0].op == "load" and n in self.numbering.moving and len(places) == 1 and places != [0]:
                compute, _ = self.numbering.needed([n], ())
                used = {x.name for k in compute for x in made[k][0].operands if type(x) is not Const}
                if used <= early | {made[k][0].result.name for k in compute}:
                    found[n] = [0, *places]
        return found

    def registers(self, uses: dict[int, list[int]], least: int = 1) -> float:
        """Registers of a lane that kept rows take where they take the most, between two sweeps, of `least` bytes an element or more."""
        size = {n: self.slots * max(least, self.numbering.made[n][0].result.dtype.bytes) / 4 for n in uses}
        return max((sum(size[n] for n, p in uses.items() if p[0] <= s < p[-1]) for s in range(len(self.sweeps))), default=0)

    def choice(self) -> tuple[dict[int, list[int]], dict[int, float]]:
        """(what is kept, with the sweeps that use it; what is not, with the registers that it would take)."""
        kept, refused = set(), {}
        for n in self.candidates():
            needs = self.registers(self.uses(kept | {n}))
            if needs <= min(REGISTERS, OF_BLOCK // self.lanes):
                kept.add(n)
            else:
                refused[n] = needs
        uses = self.uses(kept)
        early = uses | self.ahead() if uses else {}
        return uses if self.too_many(early) else early, refused

    def too_many(self, early: dict[int, list[int]]) -> str | None:
        """Why not all of this is loaded before the first sweep. Narrow elements may end up in a register each, where a row ends between."""
        for needs, limit in ((self.registers(early), AHEAD), (self.registers(early, least=4), REGISTERS)):
            if needs > limit:
                return f"{needs:,.0f} registers of each lane, more than {limit}"
        return None


def keep(kernel: Kernel, context: Context, distinct: bool) -> Kernel:
    nest, regions = nest_of(kernel), Regions.of(kernel.insts)
    outer = nest.loops[0]
    at = next(i for i, inst in enumerate(kernel.insts) if inst is outer)
    if outer.attr("threads"):
        return kernel
    level = list(regions.level(regions.body(at)))
    reduces = [i for i in level if kernel.insts[i].op == "reduce" and is_sweep(kernel.insts, regions, i)]
    if not reduces:
        return kernel
    first = kernel.insts[reduces[0]]
    order, length = Order(*first.attr("order")), first.operands[1].value
    sweeps = [i for i in level if is_sweep(kernel.insts, regions, i) == length and _same_deal(kernel.insts[i], order)]
    lanes = max(x.attr("order")[2] for x in nest.body if x.op in ("reduce", "scan"))
    if len(sweeps) < 2:
        return kernel
    arrays = [p for p in kernel.params if isinstance(p, Buffer)]
    numbering = Numbering(stable_loads(kernel.insts, arrays, distinct))
    found = [numbering.sweep(kernel.insts, regions, i) for i in sweeps]
    slots = -(-length // (order.v * order.lanes)) * order.v
    rows = _Rows(kernel, numbering, found, length, slots, order.lanes)
    why = _other_lanes(outer, order, lanes)
    if why and rows.candidates():
        context.missed(f"the row is read again by each loop over it: {why}", kernel.name, first.loc)
        return kernel
    uses, refused = rows.choice()
    for n, needs in refused.items():
        text = f"{_called(numbering, n)} is {_again(numbering, n)} by each loop over the row: keeping it would take"
        limit = min(REGISTERS, OF_BLOCK // order.lanes)
        context.missed(f"{text} {needs:,.0f} registers of each of {order.lanes} lanes, more than {limit}", kernel.name, first.loc)
    if not uses:
        return kernel
    ahead = rows.ahead()
    kept = ", ".join(_called(numbering, n) for n in uses if n not in ahead)
    text = f"{kept}: {length} elements kept from loop to loop, in {rows.registers(uses):,.0f} registers of each of {order.lanes} lanes"
    context.applied(text, kernel.name, first.loc)
    if early := ", ".join(_called(numbering, n) for n in uses if n in ahead):
        context.applied(f"{early}: loaded before what is reduced is known, counted in these registers", kernel.name, first.loc)
    elif late := ", ".join(_called(numbering, n) for n in ahead):
        needs = f"with the row, that would take {rows.too_many(uses | ahead)}"
        context.missed(f"{late}: not loaded before what is reduced is known: {needs}", kernel.name, first.loc)
    return replace(kernel, insts=simplify_insts(_Rewrite(rows, uses, at).run()))


def _dear(inst: Inst) -> bool:
    """Whether computing a value costs more than keeping it."""
    return inst.op in DEAR or weight(inst) > 1


def _same_deal(inst: Inst, order: Order) -> bool:
    """Whether a sweep can deal elements to lanes as an order does."""
    if inst.op == "loop":
        return True
    v, _, lanes, parts = inst.attr("order")
    return (v, lanes, parts) == (order.v, order.lanes, 1)


def _other_lanes(loop: Inst, order: Order, widest: int) -> str:
    """Why the group that runs an iteration is not that of the order, if it is not."""
    if loop.attr("lanes", order.lanes) != order.lanes:
        return f"@lanes({loop.attr('lanes')}) is not the {order.lanes} lanes of its reductions"
    return f"other reductions take {widest} lanes, not {order.lanes}" if widest != order.lanes else ""


def _called(numbering: Numbering, n: int) -> str:
    inst = numbering.made[n][0]
    return f"`{source_name(inst.operands[0].name)}`" if inst.op == "load" else f"the {inst.op}"


def _again(numbering: Numbering, n: int) -> str:
    return "read again" if numbering.made[n][0].op == "load" else "computed again"


class _Rewrite:
    """Writes the kernel with the rows that `uses` names kept."""

    def __init__(self, rows: _Rows, uses: dict[int, list[int]], nest: int):
        self.rows, self.uses, self.nest = rows, uses, nest
        self.made, self.insts = rows.numbering.made, rows.kernel.insts
        self.regions = Regions.of(self.insts)
        self.b = Builder(names(rows.kernel.params))
        self.rewriter = Rewriter(self.b)
        self.fragments: dict[int, Buffer] = {}

    def run(self) -> list[Inst]:
        numbers = {sweep.at: s for s, sweep in enumerate(self.rows.sweeps)}
        at = 0
        while at < len(self.insts):
            if at in numbers:
                self._sweep(numbers[at])
                at = self.regions.end[at] + 1
                continue
            inst = self.insts[at]
            self.rewriter.copy(inst.with_attrs(lanes=self.rows.lanes) if at == self.nest else inst)
            at += 1
        return self.b.insts

    def _sweep(self, s: int) -> None:
        sweep, b = self.rows.sweeps[s], self.b
        taken = [n for n in self.fragments if s in self.uses[n]]
        new = [n for n, places in self.uses.items() if places[0] == s]
        b.at(self.insts[sweep.at].loc)
        for n in new:
            inst = self.made[n][0]
            hint = inst.operands[0].name if inst.op == "load" else inst.op
            self.fragments[n] = b.declare("fragment", hint, inst.result.dtype, (self.rows.length,))
        loads = [n for n in new if self.made[n][0].op == "load"]
        if loads:
            self._load(sweep, loads)
        index = self.rewriter.copy(self.insts[sweep.at])
        here = set(sweep.numbers.values())
        own: dict[int, Value] = {n: b.emit("load", self.fragments[n], index) for n in (*taken, *loads) if n in here}
        for i in self.regions.body(sweep.at):
            n, inst = sweep.numbers.get(i), self.insts[i]
            if n in own:
                self.rewriter.mapping[inst.result] = own[n]
                continue
            self.rewriter.copy(inst)
            if n in new:
                own[n] = self.rewriter(inst.result)
                b.at(inst.loc).emit("store", self.fragments[n], index, own[n])
        self.rewriter.copy(self.insts[self.regions.end[sweep.at]])

    def _load(self, sweep: Sweep, loads: list[int]) -> None:
        """A loop that loads rows into their fragments."""
        compute, _ = self.rows.numbering.needed(loads, ())
        inner = Rewriter(self.b, dict(self.rewriter.mapping))
        header = self.insts[sweep.at]
        with self.b.loop(0, self.rows.length, kind="parallel", name=header.result.name, independent=ROW) as index:
            inner.mapping.update((self.insts[x.at].result, index) for x in self.rows.sweeps)
            done: dict[int, Value] = {}
            for i, n in (item for x in self.rows.sweeps for item in x.numbers.items()):
                if n in compute and n not in done:
                    done[n] = inner.copy(self.insts[i])
                elif n in done:
                    inner.mapping[self.insts[i].result] = done[n]
            for n in loads:
                self.b.emit("store", self.fragments[n], index, done[n])


def run(plan: Plan, context: Context) -> Plan:
    shares = plan.shares_arguments
    return plan.with_kernels(keep(kernel, context, kernel.name not in shares) for kernel in plan.kernels)


KEEP_ROWS = Pass("keep-rows", run, "read a row that several loops use once, and keep it", needs=("tile", "one-nest", "fused"))
