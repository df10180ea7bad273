"""Several rows in flight (part of map-loops and lower-to-threads): a group of lanes reads a few short rows before it folds the first.

A short row is one or two loads a lane, and then a chain of shuffles that waits for them. Where a kernel is nothing but the
reduction of a row (`plain_rows`), a group takes `flight` rows: all their loads, then their folds; lane r keeps the result of row r and
does what is left to do for it, so that a warp stores its results together. A row past the last is read as the last again.
"""

from __future__ import annotations


from vxc.ir.builder import Rewriter
from vxc.ir.kernel import Const, Inst, Scalar, Value
from vxc.passes.accumulate import Slots
from vxc.passes.plain_rows import PlainRow, vectors_a_lane
from vxc.target import WARP

VECTORS = 4  # of one array that a lane has in flight: 64 bytes


def flight(row: PlainRow | None, group: int) -> int:
    """How many rows a group of lanes takes at once; a power of two."""
    vectors = vectors_a_lane(row.reduce) if row is not None else None
    if vectors is None or not 1 < group <= WARP or row.reduce.attr("order")[2] != group:
        return 1
    rows = 1
    while rows * 2 * vectors <= VECTORS and rows * 2 <= group:
        rows *= 2
    return rows


def lower_rows(threads, row: PlainRow, loop: Inst, rewriter: Rewriter) -> None:
    """Emit the rows of a block, `loop` being that over blocks; `threads` lowers pieces of it."""
    b, team, many = threads.b, threads.team, loop.attr("flight")
    limit, apart = rewriter(loop.operands[1]), WARP // team.group  # rows of the groups of a warp are neighbours
    first = _first(threads, apart * many, apart)
    even = isinstance(limit, Const) and limit.value % threads.rows == 0

    def row_at(r: Scalar) -> Value:
        return b.emit("add", first, b.emit("mul", r, apart), name=loop.result.name)

    def of(index: Scalar) -> Rewriter:
        inner = rewriter.inside({loop.result: index})
        inner.copy_all(row.before)
        return inner

    b.at(row.reduce.loc)
    reduction = threads.reduction(row.reduce, row.inside, rewriter, team)
    states = Slots.declare(b, reduction.acc.dtypes, many, "row")
    with b.loop(0, many, kind="unroll", name="r") as r:
        inner = of(row_at(r) if even else b.emit("min", row_at(r), b.emit("sub", limit, 1)))
        states.put(b, threads.reduction(row.reduce, row.inside, inner, team).of_lane(), r)
    kept = Slots.declare(b, reduction.acc.dtypes, 1, "kept")
    kept.put(b, reduction.acc.start())
    with b.loop(0, many, kind="unroll", name="r") as r:
        state = team.across_lanes(reduction.acc, states.get(b, r), team.group)
        mine = b.emit("eq", team.lane, r)
        kept.put(b, tuple(b.emit("select", mine, x, y) for x, y in zip(state, kept.get(b))))
    index = row_at(team.lane)
    inside = b.emit("lt", team.lane, many)
    with b.if_(inside if even else b.emit("and", inside, b.emit("lt", index, limit))):
        inner = of(index)
        b.emit("store", inner(row.reduce.operands[0]), reduction.finish(kept.get(b)))
        threads.lower(row.after, inner, None)


def _first(threads, rows: int, apart: int) -> Value:
    """The first row of this thread's group, a warp taking so many `rows`."""
    b = threads.b
    block, thread = b.emit("block_index", name="b"), b.emit("thread_index", name="t")
    threads.team.number(thread)
    group = b.emit("mod", b.emit("floordiv", thread, threads.team.group), apart) if apart > 1 else Const(0)
    warp = b.emit("mul", b.emit("floordiv", thread, WARP), rows)
    return b.emit("add", b.emit("add", b.emit("mul", block, threads.rows), warp), group)
