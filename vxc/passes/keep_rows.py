"""keep-rows: a row that several loops read is read once, and lanes keep what they hold of it.

Before: stage=tile; each reduction and each parallel loop over a row loads and computes what it needs.
After:  in a nest that reduces a row of which it is known how long it gets (a constant, or `most` says it), what several of the
        sweeps over it (reductions and parallel loops right in the body) load, or compute at some cost, is computed in the first of
        them that needs it and kept in a `fragment`: loads in a loop of their own before it, so that all are under way at once, in
        the dtype of the array. What a single later sweep loads, from places known before the first, is loaded there as well where
        all of it takes few registers: it need not wait for what is reduced. The nest has the `lanes` of its reductions, and says for how
        many `resident` threads there are to be registers, where such loads could wait. What would take more than REGISTERS of a lane, or
        a share of them where lanes are many, is read again.

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

from dataclasses import replace

from vxc.analysis.sweeps import ROW, Numbering, Sweep
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.kept_rows import OF_BLOCK, REGISTERS, Rows, rows_of
from vxc.passes.prove_parallel_text import source_name
from vxc.passes.simplify import simplify_insts


def keep(kernel: Kernel, context: Context, distinct: bool) -> Kernel:
    rows = rows_of(kernel, distinct)
    if rows is None:
        return kernel
    numbering, first, lanes = rows.numbering, rows.first, rows.order.lanes
    if rows.why and rows.candidates():
        context.missed(f"the row is read again by each loop over it: {rows.why}", kernel.name, first.loc)
        return kernel
    uses, refused = rows.choice()
    lanes_each = f"each of {lanes} lanes" if lanes > 1 else "a lane"
    for n, needs in refused.items():
        text = f"{_called(numbering, n)} is {_again(numbering, n)} by each loop over the row: keeping it would take"
        limit = min(REGISTERS, OF_BLOCK // lanes)
        context.missed(f"{text} {needs:,.0f} registers of {lanes_each}, more than {limit}", kernel.name, first.loc)
    if not uses:
        return kernel
    ahead = rows.ahead()
    kept = ", ".join(_called(numbering, n) for n in uses if n not in ahead)
    elements = rows.extent.most if type(rows.extent.size) is Const else f"up to {rows.extent.most}"
    text = f"{kept}: {elements} elements kept from loop to loop, in {rows.registers(uses):,.0f} registers of {lanes_each}"
    context.applied(text, kernel.name, first.loc)
    if early := ", ".join(_called(numbering, n) for n in uses if n in ahead):
        context.applied(f"{early}: loaded before what is reduced is known, counted in these registers", kernel.name, first.loc)
    elif late := ", ".join(_called(numbering, n) for n in ahead):
        needs = f"with the row, that would take {rows.too_many(uses | ahead)}"
        context.missed(f"{late}: not loaded before what is reduced is known: {needs}", kernel.name, first.loc)
    if resident := rows.resident(uses):
        text = f"registers for {resident} threads of a multiprocessor, not for more: else loads would wait for arithmetic"
        context.applied(text, kernel.name, first.loc)
    return replace(kernel, insts=simplify_insts(_Rewrite(rows, uses).run(), debug=context.debug))


def _called(numbering: Numbering, n: int) -> str:
    inst = numbering.made[n][0]
    return f"`{source_name(inst.operands[0].name)}`" if inst.op == "load" else f"the {inst.op}"


def _again(numbering: Numbering, n: int) -> str:
    return "read again" if numbering.made[n][0].op == "load" else "computed again"


class _Rewrite:
    """Writes the kernel with the rows that `uses` names kept."""

    def __init__(self, rows: Rows, uses: dict[int, list[int]]):
        self.rows, self.uses = rows, uses
        self.made, self.insts = rows.numbering.made, rows.kernel.insts
        self.regions = Regions.of(self.insts)
        self.nest = self.regions.parent[rows.sweeps[0].at]
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
            how = {"lanes": self.rows.order.lanes, "resident": self.rows.resident(self.uses)}
            self.rewriter.copy(inst.with_attrs(**how) if at == self.nest else inst)
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
            self.fragments[n] = b.declare("fragment", hint, inst.result.dtype, (self.rows.extent.most,))
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
        header, extent = self.insts[sweep.at], self.rows.extent
        with self.b.loop(0, extent.size, kind="parallel", name=header.result.name, independent=ROW, **extent.attrs) as index:
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
