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
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from math import prod

from vxc.diag import Diagnostic, VxcError
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.accumulate import kind_of
from vxc.passes.lower_reduce import Reduction, accumulator_of
from vxc.passes.lower_scan import lower_scan
from vxc.passes.team import Team
from vxc.semantics import Order
from vxc.target import MAX_LOCAL_BYTES

WISHES = {  # attributes of the author's that no pass realises yet -> what is done instead
    "vector": "one element is accessed at a time",
    "stages": "an iteration's copies begin when the one before is done",
}
TEAM_ATTRS = ("map", "layout", "independent", "lanes", "stages")
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
        threads.lower(body, rewriter, threads.team)
    attrs = {k: v for k, v in kernel.attrs if k != "rows"}
    made = b.build(kernel.name, kernel.params, stage="thread", attrs=attrs.items(), source=kernel.source)
    return replace(made, insts=(*threads.team.declarations(), *made.insts))


class Threads:
    """Lowers the body of one kernel. `team` is the group that runs an iteration of the blocks loop."""

    def __init__(self, b: Builder, group: int, rows: int):
        self.b, self.rows = b, rows
        self.team = Team(b, group)
        self.fragments: dict[Buffer, Buffer] = {}  # a tile spread over threads -> this thread's slots of it

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

    def lower(self, insts, rewriter: Rewriter, team: Team | None, take=None) -> None:
        """Emit a list of instructions run by all lanes of a team, or (None) by this thread alone, in an element of a spread loop.

        `take` receives the operands of the list's own `contribute`.
        """
        b = self.b
        regions = Regions.of(insts)
        scopes: list[Team | None] = [team]
        at = 0
        while at < len(insts):
            inst, team = insts[at], scopes[-1]
            b.at(inst.loc)
            if inst.op == "reduce":
                self._reduce(inst, insts[at + 1 : regions.end[at]], rewriter, team)
                at = regions.end[at]
            elif inst.op == "scan":
                lower_scan(self, inst, insts[at + 1 : regions.end[at]], rewriter, team)
                at = regions.end[at]
            elif inst.op == "loop" and inst.attr("map") == "lanes" and self._owned(insts[at : regions.end[at]]):
                self._slots(inst, insts[at + 1 : regions.end[at]], rewriter)
                at = regions.end[at]
            elif inst.op == "loop":
                scopes.append(self._loop(inst, rewriter, team))
            elif inst.op == "contribute":
                take(tuple(map(rewriter, inst.operands)))
            elif inst.op == "fragment":
                self._fragment(inst)
            elif team is not None and team.group > 1 and self._has_effect(inst):
                self._once(inst, rewriter, team)
            else:
                if inst.op in ("if", "while", "extern"):
                    scopes.append(team)
                    inst = inst if inst.op == "extern" else _together(inst, team)
                elif inst.op == "end":
                    scopes.pop()
                rewriter.copy(inst)
            at += 1

    def _loop(self, loop: Inst, rewriter: Rewriter, team: Team | None) -> Team | None:
        """Open a loop as this thread runs it: every iteration, or those of its lane or of its team; gives who runs the body."""
        b, how = self.b, loop.attr("map")
        kind = "serial" if loop.attr("kind") == "parallel" else loop.attr("kind")
        plain = loop.with_attrs(kind=kind, **dict.fromkeys(TEAM_ATTRS))
        if team is None or how not in ("lanes", "teams") or team.group == 1:
            rewriter.copy(_together(plain, team))
            return None if how == "lanes" else team
        start, stop, step = (*map(rewriter, loop.operands), Const(1))[:3]
        width = loop.attr("lanes") if how == "teams" else 1
        first = b.emit("floordiv", team.lane, width) if width > 1 else team.lane
        own = b.emit("add", start, b.emit("mul", first, step))
        stride = b.emit("mul", step, team.group // width)
        inner = None
        if how == "teams":
            lane = b.emit("mod", team.lane, width, name="lane")
            inner = Team(b, width, lane, b.emit("eq", lane, 0, name="first"), team.scratch)
        attrs = dict(_together(plain, inner).attrs)
        rewriter.mapping[loop.result] = b.emit("loop", own, stop, stride, name=loop.result.name, **attrs)
        return inner

    def _fragment(self, inst: Inst) -> None:
        slots = -(-prod(n.value for n in inst.result.shape) // self.team.group)
        self.fragments[inst.result] = self.b.declare("local", inst.result.name, inst.result.dtype, (slots,))

    def _owned(self, insts) -> bool:
        return any(isinstance(x, Buffer) and x in self.fragments for inst in insts for x in inst.operands)

    def _slots(self, loop: Inst, body, rewriter: Rewriter) -> None:
        """A loop over the elements of tiles spread over threads: slot after slot, the element following from the slot."""
        b, total = self.b, loop.operands[1].value
        slots = -(-total // self.team.group)
        with b.loop(0, slots, kind=kind_of(slots), name="slot") as slot:
            e = b.emit("add", b.emit("mul", slot, self.team.group), self.team.lane, name=loop.result.name)
            with b.if_(b.emit("lt", e, total)) if total % self.team.group else nullcontext():
                inner = Rewriter(b, ChainMap({loop.result: e}, rewriter.mapping))
                self.lower([self._in_slot(inst, slot) for inst in body], inner, None)

    def _in_slot(self, inst: Inst, slot: Value) -> Inst:
        """An access to a spread tile as one to the thread's slot of it."""
        if not inst.operands or not isinstance(inst.operands[0], Buffer) or inst.operands[0] not in self.fragments:
            return inst
        buffer = inst.operands[0]
        return replace(inst, operands=(self.fragments[buffer], slot, *inst.operands[1 + len(buffer.shape) :]))

    def _has_effect(self, inst: Inst) -> bool:
        if inst.op in ("store", "atomic"):
            return inst.operands[0].space not in ("cell", "local")
        return inst.op in EFFECTS

    def _once(self, inst: Inst, rewriter: Rewriter, team: Team) -> None:
        """An effect in row scope: by lane 0, its result then given to every lane."""
        b = self.b
        if inst.result is None:
            with b.if_(team.first):
                rewriter.copy(inst)
            return
        cell = b.declare("cell", inst.result.name, inst.result.dtype)
        b.emit("store", cell, Const(_zero(inst.result), inst.result.dtype))
        with b.if_(team.first):
            b.emit("store", cell, rewriter.copy(inst))
        rewriter.mapping[inst.result] = team.broadcast((b.emit("load", cell),))[0]

    def _reduce(self, inst: Inst, body, rewriter: Rewriter, team: Team | None) -> None:
        order = Order(*inst.attr("order"))

        def one(index: Operand, take) -> None:
            inner = Rewriter(self.b, ChainMap({inst.result: index}, rewriter.mapping))
            self.lower(body, inner, None, take)

        if team is not None and order.lanes > team.group:
            team = None  # every thread plays all lanes
        reduction = Reduction(accumulator_of(inst, body), order, rewriter(inst.operands[1]), one, self.b, team)
        self.b.emit("store", rewriter(inst.operands[0]), reduction.result())


def _together(opener: Inst, team: Team | None) -> Inst:
    """Control in row scope: every lane of the team computes the same and goes the same way."""
    return opener.with_attrs(uniform=team.group) if team is not None and team.group > 1 else opener


def _zero(value: Value):
    return 0.0 if value.dtype.is_float else False if value.dtype.kind == "b" else 0


def run(plan: Plan, context: Context) -> Plan:
    several = [k.name for k in plan.kernels if sum(inst.op == "role" for inst in k.insts) > 1]
    if several:
        text = f"kernel {several[0]} has several roles, which are not lowered to threads yet"
        raise VxcError(Diagnostic("E0404", text, help="the interpreter runs it; for the device, write one role and barriers"))
    for kernel in plan.kernels:
        _wishes(kernel, context)
    kernels = [lower_kernel(kernel) for kernel in plan.kernels]
    for kernel in kernels:
        _fits(kernel)
    return plan.with_kernels(kernels)


def _wishes(kernel: Kernel, context: Context) -> None:
    """Says which attributes of the author's have no effect."""
    for inst in kernel.insts:
        for name, instead in WISHES.items() if inst.op == "loop" else ():
            if inst.attr(name) is not None:
                context.missed(f"@{name}({inst.attr(name)}) of {inst.result.name}: {instead}", kernel.name, inst.loc)


def _fits(kernel: Kernel) -> None:
    """Raises VxcError (E0717) where the arrays of a thread need more local memory than there is."""
    arrays = [inst for inst in kernel.insts if inst.op == "local"]
    sizes = [prod(n.value for n in inst.result.shape) * inst.result.dtype.bytes for inst in arrays]
    if sum(sizes) > MAX_LOCAL_BYTES:
        largest = max(zip(sizes, arrays), key=lambda pair: pair[0])[1]
        message = f"`{kernel.name}` needs {sum(sizes):,} bytes of local memory a thread, and there are {MAX_LOCAL_BYTES:,}"
        hint = "use smaller `local` arrays, or a smaller `@chunk` of the reductions"
        raise VxcError(Diagnostic("E0717", message, kernel.source, kernel.span(largest), help=hint))


LOWER_TO_THREADS = Pass(
    "lower-to-threads",
    run,
    "make blocks, threads and lanes explicit",
    needs=("team", "barriers"),
    gives=("thread",),
    breaks=("team", "barriers"),
)
