"""lower-to-threads: explicit blocks, threads, lanes, shuffles and shared scratch (stage=team -> stage=thread).

Before: stage=team with barriers placed; loops say `map`, reductions and scans carry their `order`.
After:  stage=thread: no parallel loop, reduce, scan, role or layout is left. A thread finds its iteration from `block_index` and
        `thread_index`; what an iteration does once is done by every lane, but for effects on memory, which lane 0 has.

    %i = loop 0, %M {.., map="blocks"}             %b = block_index
      %j = loop 0, %N {.., map="lanes"}            %t = thread_index
        %0: f32 = load @x, %i, %j          ->      %lane: i64 = mod %t, 32
        store @y, %i, %j, %0                       ..
      end %j                                       %i: i64 = add %1, %0
    end %i                                         %2: bool = lt %i, %M
                                                   if %2
                                                     ..
                                                     %j = loop %4, %N, %5 {kind="serial"}
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Kernel, Operand, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.lower_reduce import Reduction, accumulator_of
from vxc.passes.lower_scan import lower_scan
from vxc.passes.team import WARP, Team
from vxc.semantics import Order

TEAM_ATTRS = ("map", "layout", "independent", "lanes")
EFFECTS = ("assert", "print")


def lower_kernel(kernel: Kernel) -> Kernel:
    regions = Regions.of(kernel.insts)
    role = next(i for i, inst in enumerate(kernel.insts) if inst.op == "role")
    blocks = next(i for i in regions.level(regions.body(role)) if kernel.insts[i].op == "loop")
    b = Builder(names(kernel.params))
    rewriter = Rewriter(b)
    rewriter.copy_all(kernel.insts[:role])
    threads = Threads(b, kernel.attr("group"), kernel.attr("rows"))
    rewriter.copy_all(kernel.insts[role + 1 : blocks])
    loop = kernel.insts[blocks]
    body = kernel.insts[blocks + 1 : regions.end[blocks]]
    b.at(loop.loc)
    with threads.iteration(loop, rewriter) as index:
        rewriter.mapping[loop.result] = index
        threads.lower(body, rewriter, element=False)
    attrs = {k: v for k, v in kernel.attrs if k != "rows"}
    made = b.build(kernel.name, kernel.params, stage="thread", attrs=attrs.items())
    return replace(made, insts=(*threads.team.declarations(), *made.insts))


class Threads:
    """Lowers the body of one kernel."""

    def __init__(self, b: Builder, group: int, rows: int):
        self.b, self.rows = b, rows
        self.team = Team(b, group)

    @contextmanager
    def iteration(self, loop: Inst, rewriter: Rewriter) -> Iterator[Value]:
        """The region that runs this thread's iteration of the blocks loop; gives its index."""
        b, group, rows = self.b, self.team.group, self.rows
        index = b.emit("block_index", name="b")
        thread = b.emit("thread_index", name="t")
        if group > 1:
            self.team.lane = b.emit("mod", thread, group, name="lane") if rows > 1 else thread
            self.team.first = b.emit("eq", self.team.lane, 0, name="first")
        if rows == 1:
            yield index
            return
        row = b.emit("floordiv", thread, group) if group > 1 else thread
        index = b.emit("add", b.emit("mul", index, rows), row, name=loop.result.name)
        with b.if_(b.emit("lt", index, rewriter(loop.operands[1]))):
            yield index

    def lower(self, insts, rewriter: Rewriter, *, element: bool, take=None) -> None:
        """Emit a list of instructions; `take` receives the operands of its own `contribute`."""
        b = self.b
        regions = Regions.of(insts)
        scopes = [element]
        at = 0
        while at < len(insts):
            inst = insts[at]
            b.at(inst.loc)
            if inst.op == "reduce":
                self._reduce(inst, insts[at + 1 : regions.end[at]], rewriter, scopes[-1])
                at = regions.end[at]
            elif inst.op == "scan":
                lower_scan(self, inst, insts[at + 1 : regions.end[at]], rewriter)
                at = regions.end[at]
            elif inst.op == "contribute":
                take(tuple(map(rewriter, inst.operands)))
            elif inst.op == "loop":
                scopes.append(scopes[-1] or inst.attr("map") == "lanes")
                loop = self._loop(inst, scopes[-1] and not scopes[-2], rewriter)
                rewriter.copy(loop if scopes[-1] else self._together(loop))
            elif not scopes[-1] and self.team.group > 1 and self._has_effect(inst):
                self._once(inst, rewriter)
            else:
                if inst.op in ("if", "while", "extern"):
                    scopes.append(scopes[-1])
                    inst = inst if scopes[-1] or inst.op == "extern" else self._together(inst)
                elif inst.op == "end":
                    scopes.pop()
                rewriter.copy(inst)
            at += 1

    def _loop(self, loop: Inst, spread: bool, rewriter: Rewriter) -> Inst:
        """The loop as one thread runs it: every iteration, or, where it is spread over lanes, each group-th from its lane on."""
        kind = "serial" if loop.attr("kind") == "parallel" else loop.attr("kind")
        loop = loop.with_attrs(kind=kind, **dict.fromkeys(TEAM_ATTRS))
        if not spread or self.team.group == 1:
            return loop
        start, stop, step = (*map(rewriter, loop.operands), Const(1))[:3]
        b = self.b
        own = b.emit("add", start, b.emit("mul", self.team.lane, step))
        return replace(loop, operands=(own, stop, b.emit("mul", step, self.team.group)))

    def _together(self, opener: Inst) -> Inst:
        """Control in row scope: every lane of the group computes the same and goes the same way."""
        return opener.with_attrs(uniform=True) if self.team.group > 1 else opener

    def _has_effect(self, inst: Inst) -> bool:
        if inst.op in ("store", "atomic"):
            return inst.operands[0].space not in ("cell", "local")
        return inst.op in EFFECTS

    def _once(self, inst: Inst, rewriter: Rewriter) -> None:
        """An effect in row scope: by lane 0, its result then given to every lane."""
        b, team = self.b, self.team
        if inst.result is None:
            with b.if_(team.first):
                rewriter.copy(inst)
            return
        cell = b.declare("cell", inst.result.name, inst.result.dtype)
        b.emit("store", cell, Const(_zero(inst.result), inst.result.dtype))
        with b.if_(team.first):
            b.emit("store", cell, rewriter.copy(inst))
        rewriter.mapping[inst.result] = team.broadcast((b.emit("load", cell),))[0]

    def _reduce(self, inst: Inst, body, rewriter: Rewriter, element: bool) -> None:
        order = Order(*inst.attr("order"))

        def one(index: Operand, take) -> None:
            inner = Rewriter(self.b, ChainMap({inst.result: index}, rewriter.mapping))
            self.lower(body, inner, element=True, take=take)

        team = None if element else self.team
        reduction = Reduction(accumulator_of(inst, body), order, rewriter(inst.operands[1]), one, self.b, team)
        self.b.emit("store", rewriter(inst.operands[0]), reduction.result())


def _zero(value: Value):
    return 0.0 if value.dtype.is_float else False if value.dtype.kind == "b" else 0


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels(map(lower_kernel, plan.kernels))


LOWER_TO_THREADS = Pass(
    "lower-to-threads", run, "make blocks, threads and lanes explicit", needs=("team", "barriers"), gives=("thread",), breaks=("team", "barriers")
)
