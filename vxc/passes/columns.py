"""Reductions of columns (part of split-reductions, map-loops and lower-to-threads): neighbouring threads take neighbouring iterations.

Where iterations that follow one another read elements that lie beside one another, and the elements of one iteration lie apart, lanes that
are neighbours would each touch a line of memory of their own. Where the kernel is nothing but that reduction (`plain_rows`), a block
takes `columns` iterations at once: thread t runs lane t // columns of iteration t % columns, so that the threads of a warp load a
line. Lanes leave what they have in shared memory; the thread of lane 0 folds it, as the order says, and does what is left to do for
its iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple, replace

from vxc.analysis.forms import Atom, Digit, Form, atoms_of, form
from vxc.analysis.offsets import Offsets, run_of
from vxc.analysis.vector_width import BYTES
from vxc.ir.builder import Rewriter
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel, Scalar
from vxc.ir.ops import accesses
from vxc.ir.walk import Regions
from vxc.passes.accumulate import Slots, fold_halves
from vxc.passes.lower_reduce import accumulator_of, bounds_of, one_part
from vxc.passes.nest import Nest
from vxc.passes.plain_rows import PlainRow, plain_row
from vxc.record import record
from vxc.semantics import Order
from vxc.target import WARP

# Of a column whose order leaves them open: enough threads to keep the memory busy with a few thousand columns. Shorter columns have fewer,
# since the block waits for the fold, too, in which all lanes but one are idle.
LANES = 16
LEAST = 8  # elements that a lane takes
AHEAD = 16  # loads that a lane has in flight
SLOTS = 32  # partial results of a thread, at most
LINE = 128  # bytes of a line of memory
# Threads that take a vector of columns each are fewer, and so is what is under way: it pays where there are as many as an H200 holds (132
# multiprocessors of 2048). Of [8192, 8192] f16, in 16 lanes, a column each took 53 us, 8 each 121; of [64, 1048576], in 4, 52 and 43.
FULL = 132 * 2048

Take = Callable[..., None]  # receives the operands of a `contribute`, and of which result they are


@record
class Columns:
    """How a block takes iterations: so many at once, `width` of them in a row by a thread, each by as many lanes as `order` has, which
    gives the bits of the reduction's own. `array` is one whose neighbours they read.
    """

    across: int
    width: int
    order: Order
    array: Buffer

    def ordered(self, nest: Nest) -> Nest:
        """The nest with its reduction in that order."""
        body = tuple(inst.with_attrs(order=astuple(self.order)) if inst.op == "reduce" else inst for inst in nest.body)
        return replace(nest, body=body)


def columns_of(kernel: Kernel, nest: Nest) -> Columns | str | None:
    """For a nest of one loop; None where iterations read no neighbours, and a reason where they do and yet are not taken so."""
    reductions = [at for at, inst in enumerate(nest.body) if inst.op == "reduce"]
    array = next((found for at in reductions if (found := read_across(kernel, nest, at))), None)
    if array is None or nest.loops[0].attr("threads"):
        return None
    row = plain_row(nest.body)
    if row is None:
        return "the kernel does more than reduce each of them once"
    order = Order(*row.reduce.attr("order"))
    if not one_part(row.reduce, accumulator_of(row.reduce, row.inside)):
        return f"the parts of the {row.reduce.attr('op')} are in one launch"
    most = bounds_of(row.reduce)[1]
    order = dealt(replace(order, parts=1), LANES if most is None else min(LANES, 1 << max(0, (most // LEAST).bit_length() - 1)))
    if order.lanes == 1:
        return None if order.chunk == 1 or order.v > 1 else "its partial results are no power of two"
    if nest.loops[0].attr("lanes", order.lanes) != order.lanes:
        return f"@lanes({nest.loops[0].attr('lanes')}) says how many share one"
    if order.lanes > WARP:
        return f"its order has {order.lanes} lanes, and a block has room for {WARP} of each"
    width = _width(kernel, nest, row, order)
    beside = WARP if width == 1 else max(LINE // BYTES, WARP // order.lanes)  # threads: of a line, and no less than a warp in all
    return Columns(beside * width, width, order, array)


def _width(kernel: Kernel, nest: Nest, row: PlainRow, order: Order) -> int:
    """How many iterations in a row a thread takes: a vector of the widest array that is read across, where that divides their number and
    leaves enough threads.
    """
    offsets = Offsets.of(kernel.params)
    for inst in (*nest.prologue, *nest.loops, *nest.body):
        offsets.define(inst)
    index, count = Atom(nest.loops[0].result.name), nest.loops[0].operands[1]
    if not isinstance(count, Const) or any(inst.op == "load" for inst in row.before):
        return 1
    read = [access for inst in row.inside if inst.op == "load" for access in accesses(inst) if access.buffer.space in GLOBAL]
    found = [(access.buffer.dtype, f) for access in read if index in (f := offsets.linear(access.buffer, access.box)).atoms()]
    width = BYTES * 8 // max(dtype.bits for dtype, _ in found)
    alike = all(run_of(f, index, width) is not None and dtype.bits >= 8 for dtype, f in found)
    enough = count.value % width == 0 and count.value // width * order.lanes >= FULL
    return width if alike and enough and 0 < order.chunk * width <= SLOTS else 1


def dealt(order: Order, lanes: int) -> Order:
    """Of an order of one lane the same with up to so many lanes that share its partial results, to the same bits: e % chunk is
    e // lanes % (chunk // lanes) of lane e % lanes, and halves that are no fewer than the lanes fold within a lane. `lanes` is a
    power of two up to a warp; any other order stays.
    """
    if order.lanes > 1 or order.v > 1 or order.chunk & (order.chunk - 1) or not order.chunk:
        return order
    lanes = min(lanes, order.chunk)
    return replace(order, lanes=lanes, chunk=order.chunk // lanes)


def read_across(kernel: Kernel, nest: Nest, at: int) -> Buffer | None:
    """An array of which neighbouring iterations of the innermost loop of a nest read neighbours, where the elements of one iteration lie
    apart in it: one that the reduction at a position of the nest's body reads.
    """
    offsets = Offsets.of(kernel.params)
    end = Regions.of(nest.body).end[at]
    for inst in (*nest.prologue, *nest.loops, *nest.body[:end]):
        offsets.define(inst)
    index, own = (Atom(inst.result.name) for inst in (nest.loops[-1], nest.body[at]))
    read = (access for inst in nest.body[at:end] if inst.op == "load" for access in accesses(inst) if access.buffer.space in GLOBAL)
    offset = ((access.buffer, offsets.linear(access.buffer, access.box)) for access in read)
    return next((array for array, f in offset if _follows(f, index) and not _follows(f, own)), None)


def _follows(f: Form, index: Atom) -> bool:
    """Whether an offset goes up by 1 with an index, but where a quotient of it by a warp or more, or by what only the call knows, does."""

    def still(u) -> Form | None:
        if not isinstance(u, Digit) or index not in atoms_of(u) or u.by.value is not None and u.by.value < WARP:
            return None
        return form(0)

    found = f.replace(still)
    return found.coefficient(index) == form(1) and index not in found.without(index).atoms()


def lower_columns(threads, row: PlainRow, loop: Inst, rewriter: Rewriter) -> None:
    """Emit the iterations of a block, `loop` being that over blocks; `threads` lowers pieces of it."""
    b, team, across, width = threads.b, threads.team, loop.attr("columns"), loop.attr("vector", 1)
    limit = rewriter(loop.operands[1])
    even = isinstance(limit, Const) and limit.value % across == 0

    def of(index: Scalar) -> Rewriter:
        """What stands before the reduction may be emitted, and read, again: an iteration stores nothing until it has reduced, and a plain
        row reads nothing that it writes.
        """
        inner = rewriter.inside({loop.result: index})
        inner.copy_all(row.before)
        return inner

    def element(index: Scalar, _, take: Take) -> None:
        if width == 1:
            threads.lower(row.inside, start.inside({row.reduce.result: index}), None, take)
            return
        with b.loop(0, width, kind="unroll", name="c") as c:
            inner = of(b.emit("add", first, c, name=loop.result.name))
            inner.mapping[row.reduce.result] = index
            threads.lower(row.inside, inner, None, lambda operands: take(operands, c))

    b.at(row.reduce.loc)
    block, thread = b.emit("block_index", name="b"), b.emit("thread_index", name="t")
    team.lane = b.emit("floordiv", thread, across // width, name="lane")
    column = b.emit("mul", b.emit("mod", thread, across // width), width, name="column")
    first = b.emit("add", b.emit("mul", block, across), column, name=loop.result.name)
    acc, lanes = accumulator_of(row.reduce, row.inside), row.reduce.attr("order")[2]
    left = Slots(tuple(team.shared(dtype, lanes * across, at) for at, dtype in enumerate(acc.dtypes)))
    with nullcontext() if even else b.if_(b.emit("lt", first, limit)):
        start = of(first)
        reduction = threads.reduction(row.reduce, row.inside, start, team)
        reduction = replace(reduction, element=element, width=width, ahead=AHEAD, weight=reduction.weight * width)
        slots, place = reduction.slots_of_lane(), b.emit("mul", thread, width)
        with b.loop(0, width, kind="unroll", name="c") as c:
            left.put(b, slots.get(b, c), b.emit("add", place, c))
    team.barrier()
    mine = b.emit("eq", team.lane, 0)
    with b.if_(mine if even else b.emit("and", mine, b.emit("lt", first, limit))), b.loop(0, width, kind="unroll", name="c") as c:
        inner = of(b.emit("add", first, c, name=loop.result.name))
        slots = Slots.declare(b, acc.dtypes, lanes, "lanes")
        with b.loop(0, lanes, kind="unroll", name="l") as one:
            slots.put(b, left.get(b, b.emit("add", b.emit("add", b.emit("mul", one, across), column), c)), one)
        fold_halves(b, acc, slots, lanes)  # which for a warp or less is what xor distances leave in lane 0
        reduction = threads.reduction(row.reduce, row.inside, inner, team)
        b.emit("store", inner(row.reduce.operands[0]), reduction.finish(slots.get(b)))
        threads.lower(row.after, inner, None)
