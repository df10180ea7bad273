"""Reductions of columns (part of split-reductions and map-loops): neighbouring threads take neighbouring iterations.

Where iterations that follow one another read elements that lie beside one another, and the elements of one iteration lie apart, lanes that
are neighbours would each touch a line of memory of their own. There a block takes `columns` iterations at once, and the lanes that share
one are so many threads apart (`column_team`): the threads of a warp load a line. An iteration may be several reductions and loops over
elements, one after the other, as of a softmax along columns. Where it is nothing but one reduction (`plain_rows`), a thread may take a
vector of iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace

from vxc.analysis.forms import Atom, Digit, Form, atoms_of, form
from vxc.analysis.offsets import Offsets, run_of
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.passes.column_runs import Runs
from vxc.passes.lower_reduce import accumulator_of, bounds_of, one_part
from vxc.passes.nest import Nest, is_parallel
from vxc.passes.plain_rows import PlainRow, plain_row
from vxc.record import record
from vxc.semantics import Order
from vxc.target import WARP

LANES = WARP  # of a column whose order leaves them open, at most
LEAST = 8  # elements that a lane takes: the block waits for the fold, in which all lanes but one are idle
SLOTS = 32  # partial results of a thread, at most
WORD = 4  # bytes that a thread loads at once of neighbours, so that a warp loads a line
LINE = 128  # bytes of a line of memory
AHEAD = 16  # loads that a lane has under way in a block of as many columns as a warp has threads
FEW = 512  # iterations that are so few that blocks of them would leave most multiprocessors idle
RESIDENT = 512  # threads of a multiprocessor that are enough then: ptxas would save registers for more, and load less ahead
SECTOR = 8  # threads that load a sector, 4 bytes each
_TOGETHER = {"cell", "load", "store", "contribute", "loop", "if", "else", "end", "reduce"}  # what such lanes can do, besides what is pure


@record
class Columns:
    """How a block takes iterations: so many at once, `width` of them in a row by a thread, each by up to `lanes` lanes. `array` is one
    whose neighbours they read; where `runs` are given, no block has iterations of two of them. A lane has `ahead` loads under way.
    """

    across: int
    width: int
    lanes: int
    array: Buffer
    runs: Runs | None
    ahead: int = AHEAD

    def variants(self, nest: Nest) -> list[Columns]:
        """How to take many iterations, and before it how to take up to `FEW`, where the nest is a plain row of so many elements that it
        matters: in smaller blocks, of which more multiprocessors have one, each with as many bytes under way.
        """
        count, row = nest.loops[0].operands[1], lone_row(nest.body)
        length = row.reduce.operands[1] if row else None
        many = isinstance(length, Const) and length.value >= 2 * self.ahead * self.lanes
        narrow = self.across // self.width > SECTOR and self.lanes == WARP
        if self.runs or not (many and narrow) or isinstance(count, Const) and count.value > FEW:
            return [self]
        few = replace(self, across=SECTOR * self.width, ahead=self.ahead * WARP // SECTOR)
        return [few] if isinstance(count, Const) else [few, self]

    def ordered(self, nest: Nest) -> Nest:
        """The nest with its reductions in orders that lanes share, to the same bits."""
        body = list(nest.body)
        for at in (at for at, inst in enumerate(body) if inst.op == "reduce"):
            body[at] = body[at].with_attrs(order=astuple(_shared(nest.body, at)))
        return replace(nest, body=tuple(body))


def columns_of(kernel: Kernel, nest: Nest) -> Columns | str | None:
    """For a nest of one loop; None where iterations read no neighbours, and a reason where they do and yet are not taken so."""
    regions = Regions.of(nest.body)
    found = next((found for at in regions.top() if nest.body[at].op == "reduce" and (found := read_across(kernel, nest, at))), None)
    if found is None or nest.loops[0].attr("threads"):
        return None
    (array, f, run), row = found, lone_row(nest.body)
    reason = None if row else _not_shared(nest.body, regions)
    if reason:
        return reason
    orders = [_shared(nest.body, at) for at in regions.top() if nest.body[at].op == "reduce"]
    lanes = max(order.lanes for order in orders)
    if lanes == 1:
        if any(order.parts != 1 for order in orders):
            return "its parts, which are in one launch, would end elsewhere"
        return "its partial results are no power of two" if any(order.chunk & (order.chunk - 1) for order in orders) else None
    ends = (nest.body[at].operands[1] for at in regions.top() if not row and is_parallel(nest.body[at]))
    lanes = max(lanes, *(_lanes(end.value if isinstance(end, Const) else None) for end in ends), 1)
    if nest.loops[0].attr("lanes", lanes) != lanes:
        return f"@lanes({nest.loops[0].attr('lanes')}) says how many share one"
    if lanes > WARP:
        return f"its order has {lanes} lanes, and a block has room for {WARP} of each"
    runs = _runs(kernel, nest, f)
    count = runs.extent if runs else nest.loops[0].operands[1]
    if isinstance(count, Const):
        run = min(run, max(1, count.value))
    width = _width(kernel, nest, row, runs) if row else 1
    across = _across(run, width, lanes)
    return Columns(across, width, lanes, array, runs)


def _runs(kernel: Kernel, nest: Nest, f: Form) -> Runs | None:
    """The runs of a nest's index that end where the offset's neighbours do, if there are no fewer of these than a warp takes."""
    runs, index = Runs.of(nest.loops[0], nest.body), form(Atom(nest.loops[0].result.name))
    if runs is None:
        return None
    offsets = _before(kernel, nest)
    extent = offsets.form(runs.extent)
    ends = any(isinstance(u, Digit) and (u.arg, u.by) == (index, extent) for u in f.unknowns)
    enough = extent.value is None or extent.value >= WARP
    return runs if ends and enough and runs.whole(offsets, nest.loops[0].operands[1]) else None


def _before(kernel: Kernel, nest: Nest) -> Offsets:
    """What is known of offsets in front of a nest's body."""
    offsets = Offsets.of(kernel.params)
    for inst in (*nest.prologue, *nest.loops):
        offsets.define(inst)
    return offsets


def along(kernel: Kernel, nest: Nest) -> Nest:
    """The nest with its reductions of one lane, whose elements lie beside one another, in orders that up to a warp shares, to the same
    bits: as of the columns of an array that comes transposed.
    """
    if any(loop.attr("lanes") or loop.attr("threads") for loop in nest.loops):
        return nest
    body, regions = list(nest.body), Regions.of(nest.body)
    for at in (at for at in regions.top() if body[at].op == "reduce"):
        order, own = Order(*body[at].attr("order")), Atom(body[at].result.name)
        if order.parts == 1 and any(_run(f, own) for _, f in _read(kernel, nest, at)):
            body[at] = body[at].with_attrs(order=astuple(dealt(order, WARP)))
    return replace(nest, body=tuple(body))


def lone_row(body: Sequence[Inst]) -> PlainRow | None:
    """The body of a nest that is nothing but a reduction of one part, or None."""
    row = plain_row(body)
    return row if row and one_part(row.reduce, accumulator_of(row.reduce, row.inside)) else None


def _not_shared(body: Sequence[Inst], regions: Regions) -> str | None:
    """Why lanes that meet in shared memory cannot share an iteration that is no plain row, or None."""
    touched = [(inst, a) for inst in body for a in accesses(inst) if a.buffer.space in GLOBAL]
    written = {a.buffer.name for _, a in touched if "w" in a.mode}
    both = next((a.buffer.name for inst, a in touched if inst.op != "atomic" and "r" in a.mode and a.buffer.name in written), None)
    if both:
        return f"it reads {both}, which it writes"
    for at in regions.top():
        inst, inside, parallel = body[at], body[at + 1 : regions.end[at]], is_parallel(body[at])
        strange = {x.op for x in (inst, *inside) if not OPS[x.op].pure} - _TOGETHER - ({"atomic"} if parallel else set())
        if inst.op == "fragment":
            return "a thread keeps each in registers"
        if strange:
            return f"there is `{min(strange)}` in it"
        if any(x.op == "reduce" for x in inside):
            return "a reduction stands in another, in a loop or under a condition"
        if inst.op == "loop" and not parallel or inst.op == "if" and any(x.op == "loop" for x in inside):
            return "a loop runs in turn, or under a condition"
        own = {x.result.name for x in inside if isinstance(x.result, Buffer)}
        stored = {a.buffer.name for x in inside for a in accesses(x) if "w" in a.mode and a.buffer.space not in GLOBAL}
        if parallel and (inst.attr("layout") or any(map(is_parallel, inside)) or stored - own):
            return "a loop in it has a layout, parallel loops in it, or results of its own"
    return None


def _shared(body: Sequence[Inst], at: int) -> Order:
    """The order of the reduction at a position, of as many lanes as it leaves to choose; of one if parts would end elsewhere with more."""
    reduce, inside = body[at], body[at + 1 : Regions.of(body).end[at]]
    order, (_, most) = Order(*reduce.attr("order")), bounds_of(reduce)
    if one_part(reduce, accumulator_of(reduce, inside)):
        order = replace(order, parts=1)
    found = dealt(order, _lanes(None if most is None else order.span(most)))
    same = order.parts == 1 or isinstance(reduce.operands[1], Const) and found.span(most) == order.span(most)
    return found if same else order


def _lanes(most: int | None) -> int:
    """As many as have enough of so many elements (None: any number)."""
    return LANES if most is None else min(LANES, 1 << max(0, (most // LEAST).bit_length() - 1))


def _across(run: int, width: int, lanes: int) -> int:
    """How many iterations a block takes: those of a warp of threads, no more than read neighbours, and with their lanes whole warps."""
    whole = WARP // lanes
    return -(-min(WARP, max(1, run // width)) // whole) * whole * width


def _width(kernel: Kernel, nest: Nest, row: PlainRow, runs: Runs | None) -> int:
    """How many iterations in a row a thread takes: `WORD` bytes of the widest array read across, where that is known to divide their
    number, or that of a run.
    """
    offsets, index = _before(kernel, nest), Atom(nest.loops[0].result.name)
    count = offsets.form(runs.extent if runs else nest.loops[0].operands[1])
    for inst in nest.body:
        offsets.define(inst)
        if runs and inst in runs.quotients:  # by itself, and the same for all iterations of a thread
            offsets.forms[inst.result.name] = form(Atom(inst.result.name))
        if runs and inst in runs.remainders:
            offsets.forms[inst.result.name] = form(index)
    pairs = accumulator_of(row.reduce, row.inside).finds_index  # of a value and an index: so many take more registers than there are
    if pairs or any(inst.op == "load" for inst in row.before):
        return 1
    read = [access for inst in row.inside if inst.op == "load" for access in accesses(inst) if access.buffer.space in GLOBAL]
    found = [(access.buffer.dtype, f) for access in read if index in (f := offsets.linear(access.buffer, access.box)).atoms()]
    width = max(1, WORD * 8 // max(dtype.bits for dtype, _ in found))
    alike = all(run_of(f, index, width) is not None and dtype.bits >= 8 for dtype, f in found)
    whole = offsets.divisible(count, width, {}) == {}
    return width if alike and whole and 0 < _shared(nest.body, nest.body.index(row.reduce)).chunk * width <= SLOTS else 1


def dealt(order: Order, lanes: int) -> Order:
    """Of an order of one lane the same with up to so many lanes that share its partial results, to the same bits: e % chunk is
    e // lanes % (chunk // lanes) of lane e % lanes, and halves that are no fewer than the lanes fold within a lane. `lanes` is a
    power of two up to a warp; any other order stays.
    """
    if order.lanes > 1 or order.v > 1 or order.chunk & (order.chunk - 1) or not order.chunk:
        return order
    lanes = min(lanes, order.chunk)
    return replace(order, lanes=lanes, chunk=order.chunk // lanes)


def read_across(kernel: Kernel, nest: Nest, at: int) -> tuple[Buffer, Form, int] | None:
    """An array of which neighbouring iterations of the innermost loop of a nest read neighbours, where the elements of one iteration lie
    apart in it: one that the reduction at a position of the nest's body reads; the offset there, and how many iterations in a row do,
    `LINE` for more.
    """
    index, own = (Atom(inst.result.name) for inst in (nest.loops[-1], nest.body[at]))
    return next(((array, f, run) for array, f in _read(kernel, nest, at) if (run := _run(f, index)) and not _run(f, own)), None)


def _read(kernel: Kernel, nest: Nest, at: int) -> Iterator[tuple[Buffer, Form]]:
    """What the reduction at a position of the nest's body reads of global memory: the array and the offset."""
    offsets = Offsets.of(kernel.params)
    end = Regions.of(nest.body).end[at]
    for inst in (*nest.prologue, *nest.loops, *nest.body[:end]):
        offsets.define(inst)
    read = (access for inst in nest.body[at:end] if inst.op == "load" for access in accesses(inst) if access.buffer.space in GLOBAL)
    return ((access.buffer, offsets.linear(access.buffer, access.box)) for access in read)


def _run(f: Form, index: Atom) -> int:
    """By how many values of an index in a row an offset goes up by 1, `LINE` for more; 0 for none. Quotients of the index end a run; what
    only the call knows is taken to be long.
    """
    run = LINE

    def still(u) -> Form | None:
        nonlocal run
        if not isinstance(u, Digit) or index not in atoms_of(u):
            return None
        run = min(run, u.by.value or run)
        return form(0)

    found = f.replace(still)
    return run if found.coefficient(index) == form(1) and index not in found.without(index).atoms() else 0
