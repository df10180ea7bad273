"""lower-to-threads: explicit blocks, threads, lanes, shuffles and shared scratch (stage=team -> stage=thread).

Before: stage=team with barriers placed; loops say `map`, reductions and scans carry their `order`.
After:  stage=thread: no parallel loop, reduce, scan, role or layout is left. A thread finds its iteration from `block_index` and
        `thread_index`; what an iteration does once is done by every lane, but for effects on memory, which lane 0 has. Raises
        E0404 for a kernel of several roles.

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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from vxc.analysis.rows_anywhere import RESIDENT, rows_anywhere
from vxc.analysis.sweeps import Extent
from vxc.diag import Diagnostic, VxcError
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Kernel, Operand, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.column_runs import Runs
from vxc.passes.column_team import column_team, lower_columns
from vxc.passes.columns import lone_row
from vxc.passes.fragment_slots import Slotted, in_slots
from vxc.passes.lane_order import first_of
from vxc.passes.limit_unrolling import weight
from vxc.passes.lined_reduce import Lines
from vxc.passes.lined_rows import LinedRows, parts_of_sweep
from vxc.passes.lower_reduce import Reduction, accumulator_of, bounds_of, loads_of_reductions
from vxc.passes.local_memory import fitting
from vxc.passes.lower_scan import lower_scan
from vxc.passes.own_elements import of_layout, own_elements, own_vectors
from vxc.passes.rows_in_flight import lower_rows
from vxc.passes.team import Team
from vxc.record import state
from vxc.semantics import Order

WISHES = {  # attributes of the author's that no pass realises yet -> what is done instead
    "stages": "an iteration's copies begin when the one before is done",
}
# Of no thread's loop.
TEAM_ATTRS = ("map", "layout", "given", "independent", "lanes", "flight", "columns", "ahead", "one_run", "stages", "most", "multiple")
PARALLEL_ATTRS = (*TEAM_ATTRS, "vector")
Take = Callable[[tuple[Operand, ...]], None]  # receives the operands of a `contribute`
EFFECTS = ("assert", "print")


def lower_kernel(kernel: Kernel, context: Context) -> Kernel:
    kept = LinedRows.of(kernel, lambda text, access: context.applied(text, kernel.name, access.loc))
    kernel, slotted = in_slots(kept.stretched(kernel))
    regions = Regions.of(kernel.insts)
    role = next(i for i, inst in enumerate(kernel.insts) if inst.op == "role")
    blocks = next(i for i in regions.level(regions.body(role)) if kernel.insts[i].op == "loop")
    b = Builder(names(kernel.params))
    rewriter = Rewriter(b)
    rewriter.copy_all(kernel.insts[:role])
    loop = kernel.insts[blocks]
    body = kernel.insts[blocks + 1 : regions.end[blocks]]
    columns, runs = loop.attr("columns"), Runs.of(loop, body) if loop.attr("one_run") else None
    body = runs.without(body) if runs else body
    plain = lone_row(body)
    several = lower_rows if loop.attr("flight") else partial(lower_columns, runs=runs) if columns and plain else None
    lines = Lines({} if several or columns else rows_anywhere(kernel), lambda text, load: context.applied(text, kernel.name, load.loc))
    threads = Threads(b, kernel.attr("group"), kernel.attr("rows"), loads_of_reductions(regions), slotted, lines, kept)
    rewriter.copy_all(kernel.insts[role + 1 : blocks])
    b.at(loop.loc)
    if several:
        several(threads, plain, loop, rewriter)
    elif columns:
        threads.lower(body, column_team(threads, loop, runs, rewriter), threads.team)
    else:
        with threads.iteration(loop, rewriter) as index:
            threads.lower(body, rewriter.inside({loop.result: index}), threads.team)
    attrs = {k: v for k, v in kernel.attrs if k != "rows"}
    if lines.overlap:
        attrs.setdefault("min_blocks", max(1, RESIDENT // kernel.attr("threads")))
    made = b.build(kernel.name, kernel.params, stage="thread", done=kernel.done, attrs=attrs.items(), source=kernel.source)
    scratch = threads.team.declarations(lambda text: context.applied(text, kernel.name))
    return replace(made, insts=(*scratch, *made.insts))


@state
class _Body:
    """A list of instructions on its way. `scopes` says who runs the innermost open region, and those around it."""

    insts: Sequence[Inst]
    regions: Regions
    rewriter: Rewriter
    scopes: list[Team | None]
    take: Take | None

    @property
    def team(self) -> Team | None:
        return self.scopes[-1]

    def inside(self, at: int) -> Sequence[Inst]:
        """The instructions in the region at a position."""
        return self.insts[at + 1 : self.regions.end[at]]

    def after(self, at: int) -> int:
        return self.regions.end[at] + 1


class Threads:
    """Lowers the body of one kernel. `team` is the group that runs an iteration of the blocks loop, `loads` are those of reductions,
    `slotted` the loops that run over a thread's slots of tiles, `lines` the reductions of rows that begin anywhere, `kept` the row that
    lanes keep as it lies.
    """

    def __init__(self, b: Builder, group: int, rows: int, loads: int, slotted: dict[Value, Slotted], lines: Lines, kept: LinedRows):
        self.b, self.rows, self.loads, self.slotted, self.lines, self.kept = b, rows, loads, slotted, lines, kept
        self.team = Team(b, group)

    @contextmanager
    def iteration(self, loop: Inst, rewriter: Rewriter) -> Iterator[Value]:
        """The region that runs this thread's iteration of the blocks loop; gives its index."""
        b, group, rows = self.b, self.team.group, self.rows
        single = rows == 1 and rewriter(loop.operands[1]) == Const(1)
        index = Const(0) if single else b.emit("block_index", name="b")  # ptxas of CUDA 13.0 drops `(block + 1) & 1` behind `block < 1`
        thread = b.emit("thread_index", name="t")
        if group > 1:
            self.team.number(thread, rows > 1)
        if rows == 1:
            yield index
            return
        if loop.attr("vector"):
            with self._dealt(b.emit("mul", index, rows), rewriter(loop.operands[1]), thread, rows, loop) as element:
                yield element
            return
        row = b.emit("floordiv", thread, group) if group > 1 else thread
        index = b.emit("add", b.emit("mul", index, rows), row, name=loop.result.name)
        with b.if_(b.emit("lt", index, rewriter(loop.operands[1]))):
            yield index

    @contextmanager
    def _dealt(self, first: Operand, limit: Operand, lane: Operand, count: int, loop: Inst) -> Iterator[Value]:
        """The region that runs this lane's elements of the `count` elements from `first` on, those below a limit."""
        b, vector = self.b, loop.attr("vector")
        with b.loop(lane, count, count // vector, kind="serial", name="e", deal=vector) as e:
            element = b.emit("add", first, e, name=loop.result.name)
            with b.if_(b.emit("lt", element, limit)):
                yield element

    def lower(self, insts: Sequence[Inst], rewriter: Rewriter, team: Team | None, take: Take | None = None) -> None:
        """Emit a list of instructions run by all lanes of a team, or (None) by this thread alone, in an element of a spread loop.

        `take` receives the operands of the list's own `contribute`.
        """
        body = _Body(insts, Regions.of(insts), rewriter, [team], take)
        at = 0
        while at < len(insts):
            self.b.at(insts[at].loc)
            at = _LOWERED.get(insts[at].op, Threads.copy)(self, body, at)

    # How each instruction is emitted: given the list that it stands in and its position, emits it and gives the position after it.

    def copy(self, body: _Body, at: int) -> int:
        body.rewriter.copy(body.insts[at])
        return at + 1

    def effect(self, body: _Body, at: int) -> int:
        """Effects in row scope are those of lane 0."""
        inst, team = body.insts[at], body.team
        private = inst.op in ("store", "atomic") and inst.operands[0].space in ("cell", "local")
        if private or team is None or team.group == 1:
            return self.copy(body, at)
        self._once(inst, body.rewriter, team)
        return at + 1

    def branch(self, body: _Body, at: int) -> int:
        """Control in row scope: every lane goes the same way."""
        body.rewriter.copy(_together(body.insts[at], body.team))
        body.scopes.append(body.team)
        return at + 1

    def extern(self, body: _Body, at: int) -> int:
        body.scopes.append(body.team)
        return self.copy(body, at)

    def end(self, body: _Body, at: int) -> int:
        body.scopes.pop()
        return self.copy(body, at)

    def contribute(self, body: _Body, at: int) -> int:
        body.take(tuple(map(body.rewriter, body.insts[at].operands)))
        return at + 1

    def scan(self, body: _Body, at: int) -> int:
        lower_scan(self, body.insts[at], body.inside(at), body.rewriter, body.team)
        return body.after(at)

    def reduce(self, body: _Body, at: int) -> int:
        inst = body.insts[at]
        reduction = self.reduction(inst, body.inside(at), body.rewriter, body.team)
        self.b.emit("store", body.rewriter(inst.operands[0]), reduction.result())
        return body.after(at)

    def reduction(self, inst: Inst, inside: Sequence[Inst], rewriter: Rewriter, team: Team | None) -> Reduction:
        """The reduction `inst` with its body, as a team (or this thread alone) runs it."""
        order = Order(*inst.attr("order"))
        slotted = self.slotted.get(inst.result) if team is not None else None
        extent = Extent.of(inst).over(rewriter)

        def one(index: Operand, digits: tuple[Operand, ...], take: Take) -> None:
            known = {inst.result: index} | (dict(zip(slotted.digits, digits)) if slotted else {})
            self.lower(inside, rewriter.inside(known), None, take)

        if team is not None and order.lanes > team.group:
            team = None  # every thread plays all lanes
        acc, cost, length = accumulator_of(inst, inside), sum(map(weight, inside)), rewriter(inst.operands[1])
        lined, row = self.lines.lined(self, inst, inside, rewriter, team), self.kept.over(self.b, inst.result, rewriter)
        return Reduction(acc, order, length, one, self.b, team, bounds_of(inst), cost, self.loads, slotted, extent, lined, row)

    def loop(self, body: _Body, at: int) -> int:
        """A loop over the elements of tiles spread over threads is one over slots; any other is opened as this thread runs it."""
        loop, inside = body.insts[at], body.inside(at)
        if loop.result in self.slotted:
            self._slots(loop, inside, body.rewriter, body.team)
            return body.after(at)
        alone = body.team is None or body.team.group == 1
        if loop.attr("map") and loop.attr("vector") and (alone or loop.attr("map") == "all"):
            outer, team = body.rewriter, body.team
            with own_vectors(self.b, loop) as element:
                self.lower(inside, outer.inside({loop.result: element}), team)
            return body.after(at)
        if loop.attr("map") == "lanes" and loop.attr("vector"):
            self._vectors(loop, inside, body.rewriter, body.team)
            return body.after(at)
        body.scopes.append(self._loop(loop, body.rewriter, body.team))
        return at + 1

    def _loop(self, loop: Inst, rewriter: Rewriter, team: Team | None) -> Team | None:
        """Open a loop as this thread runs it: every iteration, or those of its lane or of its team; gives who runs the body."""
        b, how = self.b, loop.attr("map")
        kind = "serial" if loop.attr("kind") == "parallel" else loop.attr("kind")
        plain = loop.with_attrs(kind=kind, **dict.fromkeys(PARALLEL_ATTRS if how else TEAM_ATTRS))
        if team is None or how not in ("lanes", "teams") or team.group == 1:
            rewriter.copy(_together(plain, team))
            return None if how == "lanes" else team
        start, stop, step = (*map(rewriter, loop.operands), Const(1))[:3]
        width = loop.attr("lanes") if how == "teams" else 1
        first = b.emit("floordiv", team.lane, width) if width > 1 else first_of(b, loop, team.lane, team.group)
        own = b.emit("add", start, b.emit("mul", first, step))
        stop, stride = team.within(own, stop), b.emit("mul", step, team.group // width)
        inner = self._inner(loop, team) if how == "teams" else None
        attrs = dict(_together(plain, inner).attrs)
        rewriter.mapping[loop.result] = b.emit("loop", own, stop, stride, name=loop.result.name, **attrs)
        return inner

    def _vectors(self, loop: Inst, body: Sequence[Inst], rewriter: Rewriter, team: Team) -> None:
        """A loop over elements of which a lane may take several in a row: a block of them for the whole team after the other."""
        b, count = self.b, loop.attr("vector") * team.group
        start, stop = map(rewriter, loop.operands[:2])
        lane = first_of(b, loop, team.lane, team.group)
        with b.loop(start, team.within(start, stop), count, kind="serial", name="o") as first:
            with self._dealt(first, stop, lane, count, loop) as element:
                self.lower(body, rewriter.inside({loop.result: element}), None)

    def _slots(self, loop: Inst, body: Sequence[Inst], rewriter: Rewriter, team: Team) -> None:
        """A loop over the elements of tiles spread over threads, or over teams that hold rows of them: those that this thread holds."""
        slotted, inner = self.slotted[loop.result], None
        held, lane, b = slotted.run.held, team.lane, self.b
        if loop.attr("map") == "teams":
            inner = self._inner(loop, team)

        def one(body: Sequence[Inst], e: Operand, digits: tuple[Operand, ...]) -> None:
            known = {loop.result: e, **dict(zip(slotted.digits, digits))}
            if slotted.first is not None:
                replica = {dim.name: Const(0) if dim.replicas else e for dim in held.layout.dims}
                known[slotted.first] = b.emit("eq", of_layout(b, held.layout.thread, replica), lane)
            self.lower(body, rewriter.inside(known), inner)

        row = self.kept.over(b, loop.result, rewriter)
        if row is not None:
            for part in parts_of_sweep(body):
                row.own(b, lane, partial(one, part), loop.result.name)
            return
        own_elements(b, held, Extent.of(loop).over(rewriter), lane, partial(one, body), loop.result.name, inner and inner.group)

    def _inner(self, loop: Inst, team: Team) -> Team:
        """This thread's team, of those that take the iterations of a loop."""
        width = loop.attr("lanes")
        lane = self.b.emit("mod", team.lane, width, name="lane")
        return Team(self.b, width, lane, self.b.emit("eq", lane, 0, name="first"), team.scratch)

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


_LOWERED: dict[str, Callable[[Threads, _Body, int], int]] = {
    "store": Threads.effect, "atomic": Threads.effect, "assert": Threads.effect, "print": Threads.effect,
    "if": Threads.branch, "while": Threads.branch, "extern": Threads.extern, "end": Threads.end, "loop": Threads.loop,
    "reduce": Threads.reduce, "contribute": Threads.contribute, "scan": Threads.scan,
}  # fmt: skip


def _together(opener: Inst, team: Team | None) -> Inst:
    """Control in row scope: every lane of the team computes the same and goes the same way."""
    return opener.with_attrs(uniform=team.together) if team is not None and team.together > 1 else opener


def _zero(value: Value):
    return 0.0 if value.dtype.is_float else False if value.dtype.kind == "b" else 0


def run(plan: Plan, context: Context) -> Plan:
    several = [k.name for k in plan.kernels if sum(inst.op == "role" for inst in k.insts) > 1]
    if several:
        text = f"kernel {several[0]} has several roles, which are not lowered to threads yet"
        raise VxcError(Diagnostic("E0404", text, help="the interpreter runs it; for the device, write one role and barriers"))
    for kernel in plan.kernels:
        _wishes(kernel, context)
    return plan.with_kernels([fitting(lower_kernel(kernel, context)) for kernel in plan.kernels])


def _wishes(kernel: Kernel, context: Context) -> None:
    """Says which attributes of the author's have no effect."""
    for inst in kernel.insts:
        for name, instead in WISHES.items() if inst.op == "loop" else ():
            if inst.attr(name) is not None:
                context.missed(f"@{name}({inst.attr(name)}) of {inst.result.name}: {instead}", kernel.name, inst.loc)


LOWER_TO_THREADS = Pass(
    "lower-to-threads", run, "make blocks, threads and lanes explicit",
    needs=("team", "barriers"), gives=("thread",), breaks=("team", "barriers"),
)  # fmt: skip
