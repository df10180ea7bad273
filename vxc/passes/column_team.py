"""Lanes that share a column (part of lower-to-threads): threads that many apart, which meet in shared memory.

A block takes `columns` iterations, `vector` of them in a row by a thread: of so many threads side by side, thread t is lane t // beside of
iterations t % beside. Of a plain row, lanes leave what they have in shared memory; the thread of lane 0 folds it, as the order says, and
does what is left to do for its iterations. Of any other iteration lane 0 gives what it folds to all of them. Threads past the last
iteration do as those of the last do, for all meet at barriers, but have no effects.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Scalar, Value
from vxc.passes.accumulate import Accumulator, Slots, State, fold_halves
from vxc.passes.column_runs import Place, Runs
from vxc.passes.columns import AHEAD
from vxc.passes.lower_reduce import accumulator_of
from vxc.passes.plain_rows import PlainRow
from vxc.passes.team import Team
from vxc.record import state

Take = Callable[..., None]  # receives the operands of a `contribute`, and of which result they are


@state
class ColumnTeam(Team):
    """The lanes of one of `beside` iterations of a block. `inside` is false in threads past the last iteration; None: there are none."""

    beside: int = 1
    column: Scalar = Const(0)
    inside: Value | None = None

    @property
    def together(self) -> int:
        return 1

    def within(self, start: Scalar, stop: Scalar) -> Scalar:
        return stop if self.inside is None else self.b.emit("select", self.inside, stop, start)

    def across_lanes(self, acc: Accumulator, state: State, lanes: int) -> State:
        b = self.b
        left = Slots(tuple(self.shared(dtype, self.group * self.beside, at) for at, dtype in enumerate(acc.dtypes)))
        self.barrier()
        left.put(b, state, b.emit("add", b.emit("mul", self.lane, self.beside), self.column))
        self.barrier()
        with b.if_(b.emit("eq", self.lane, 0)):
            left.put(b, _folded(b, acc, left, lanes, self.beside, self.column), self.column)
        self.barrier()
        return left.get(b, self.column)


def column_team(threads, loop: Inst, runs: Runs | None, rewriter: Rewriter) -> Rewriter:
    """Have `threads` lower for this thread's team, and give what knows its iteration, `loop` being that over blocks."""
    b, beside = threads.b, loop.attr("columns")
    thread = b.emit("thread_index", name="t")
    lane = b.emit("floordiv", thread, beside, name="lane")
    column = b.emit("mod", thread, beside, name="column")
    place = Place.of(b, loop, runs, rewriter, column, beside)
    first, inside = b.emit("eq", lane, 0, name="first"), place.inside(b)
    if inside is not None:
        first = b.emit("and", first, inside)
    threads.team = ColumnTeam(b, threads.team.group, lane, first, threads.team.scratch, loop.attr("ahead", AHEAD), beside, column, inside)
    return rewriter.inside(place.clamped(b).known(b, loop))


def lower_columns(threads, row: PlainRow, loop: Inst, rewriter: Rewriter, runs: Runs | None) -> None:
    """Emit the iterations of a block, `loop` being that over blocks; `threads` lowers pieces of it."""
    b, team, across, width = threads.b, threads.team, loop.attr("columns"), loop.attr("vector", 1)
    beside, lanes = across // width, row.reduce.attr("order")[2]

    def of(further: Scalar) -> Rewriter:
        """What stands before the reduction may be emitted, and read, again: an iteration stores nothing until it has reduced, and a plain
        row reads nothing that it writes.
        """
        inner = rewriter.inside(place.known(b, loop, further))
        inner.copy_all(row.before)
        return inner

    def element(index: Scalar, _, take: Take) -> None:
        if width == 1:
            threads.lower(row.inside, start.inside({row.reduce.result: index}), None, take)
            return
        with b.loop(0, width, kind="unroll", name="c") as c:
            inner = of(c)
            inner.mapping[row.reduce.result] = index
            threads.lower(row.inside, inner, None, lambda operands: take(operands, c))

    b.at(row.reduce.loc)
    thread = b.emit("thread_index", name="t")
    team.ahead, team.lane = loop.attr("ahead", AHEAD), b.emit("floordiv", thread, beside, name="lane")
    column = b.emit("mul", b.emit("mod", thread, beside), width, name="column")
    place = Place.of(b, loop, runs, rewriter, column, across)
    inside = place.inside(b)
    acc = accumulator_of(row.reduce, row.inside)
    left = Slots(tuple(team.shared(dtype, lanes * across, at) for at, dtype in enumerate(acc.dtypes)))
    with nullcontext() if inside is None else b.if_(inside):
        start = of(Const(0))
        reduction = threads.reduction(row.reduce, row.inside, start, team)
        reduction = replace(reduction, element=element, width=width, weight=reduction.weight * width)
        slots, own = reduction.slots_of_lane(), b.emit("mul", thread, width)
        with b.loop(0, width, kind="unroll", name="c") as c:
            left.put(b, slots.get(b, c), b.emit("add", own, c))
    team.barrier()
    mine = b.emit("eq", team.lane, 0)
    with b.if_(mine if inside is None else b.emit("and", mine, inside)), b.loop(0, width, kind="unroll", name="c") as c:
        inner = of(c)
        folded = _folded(b, acc, left, lanes, across, b.emit("add", column, c))
        reduction = threads.reduction(row.reduce, row.inside, inner, team)
        b.emit("store", inner(row.reduce.operands[0]), reduction.finish(folded))
        threads.lower(row.after, inner, None)


def _folded(b: Builder, acc: Accumulator, left: Slots, lanes: int, pitch: int, at: Scalar) -> State:
    """What the lanes of a column left, from a place on and so far apart, as one: for a warp or less as xor distances leave it in lane 0."""
    slots = Slots.declare(b, acc.dtypes, lanes, "lanes")
    with b.loop(0, lanes, kind="unroll", name="l") as one:
        slots.put(b, left.get(b, b.emit("add", b.emit("mul", one, pitch), at)), one)
    fold_halves(b, acc, slots, lanes)
    return slots.get(b)
