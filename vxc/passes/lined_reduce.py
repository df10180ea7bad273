"""One lane of a reduction over a row that may begin anywhere (part of lower-to-threads): see `vxc.analysis.rows_anywhere`.

Lane `l` of L loads the aligned vectors number l, l + L, l + 2L .. of those that hold the row, each at once, and joins element k of them to
its partial result k. The first `past` elements of a vector, as many as the row begins behind a multiple of 16 bytes, belong to the lane
before; those in front of the row, in lane 0, to nobody. At the end, partial results below `past` are those of the lane after, the last
lane's of the first one. They are then in place but for a turn by `past`, which folding them by halves does not see: it joins k with
k + V/2, and joining does not depend on which is first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vxc.analysis.rows_anywhere import OVERLAP, steps_of
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Scalar, Value
from vxc.passes.accumulate import Accumulator, Slots, kind_of
from vxc.passes.team import Team
from vxc.record import record
from vxc.semantics import Order
from vxc.target import VECTOR, WARP

Take = Callable[[tuple[Scalar, ...]], None]  # receives the operands of a `contribute`


@record
class Lined:
    """What a reduction reads: `load`, whose index in the row is `index`, of instructions `inside`, where all loads of that array are of the
    same element; `lower` emits instructions.
    """

    load: Inst
    index: Value
    inside: Sequence[Inst]
    outer: Rewriter
    lower: Callable[[Sequence[Inst], dict, Take], None]

    def place(self, b: Builder, index: Scalar) -> Scalar:
        """Where the element of an index lies in memory."""
        inner = self.outer.inside({self.index: index})
        for inst in self.inside[: self.inside.index(self.load)]:
            inner.copy(inst)
        buffer, *indices = self.load.operands
        return b.linear(inner(buffer), [inner(x) for x in indices], inner)

    def element(self, index: Scalar, value: Scalar, take: Take) -> None:
        """Emit one element, which is loaded already."""
        loads = [inst for inst in self.inside if inst.op == "load" and inst.operands[0] == self.load.operands[0]]
        others = [inst for inst in self.inside if inst not in loads]
        self.lower(others, {self.index: index} | {inst.result: value for inst in loads}, take)


class Lines:
    """The reductions of a kernel whose rows may begin anywhere, as `rows_anywhere` found them; `say` is given a remark on each.
    `overlap` is whether one was met of which a lane has loads to overlap.
    """

    def __init__(self, found: Mapping[str, Inst], say: Callable[[str, Inst], None]):
        self.found, self.say, self.overlap = found, say, False

    def lined(self, threads, inst: Inst, inside: Sequence[Inst], outer: Rewriter, team: Team | None) -> Lined | None:
        """How a team takes the rows of a reduction; None where it does so as the order deals them. `threads` lowers pieces of the kernel.
        """
        load = self.found.get(inst.result.name)
        if load is None or team is None or inst.attr("order")[2] != team.group:
            return None

        def lower(others: Sequence[Inst], known: dict, take: Take) -> None:
            threads.lower(others, outer.inside(known), None, take)

        name = load.operands[0].name
        self.say(f"lanes load `{name}` in aligned vectors, wherever a row begins, and hand over partial results where it ends", load)
        self.overlap |= steps_of(inst) >= OVERLAP
        return Lined(load, inst.result, inside, outer, lower)


@record
class LinedLane:
    """This lane's share of `count` elements from `base` on, `least` of them at least. `unroll`: steps of the main loop at once, if said."""

    lined: Lined
    acc: Accumulator
    order: Order
    b: Builder
    team: Team
    base: Scalar
    count: Scalar
    least: int
    unroll: int | None

    def slots(self) -> Slots:
        """Its partial results, in the order's places but for a turn."""
        b, v, lane = self.b, self.order.v, self.team.lane
        stride = v * self.order.lanes
        slots = Slots.declare(b, self.acc.dtypes, v, "acc")
        with b.loop(0, v, kind=kind_of(v), name="k") as k:
            slots.put(b, self.acc.start(), k)
        buffer = self.lined.load.operands[0]
        start = self.lined.place(b, self.base)
        past = b.emit("mod", b.emit("sub", 0, b.emit("ahead", buffer, start, bytes=VECTOR)), v, name="past")
        line = b.emit("sub", start, past)
        stop = b.emit("add", self.count, past)
        if not self.least:
            stop = b.emit("select", b.emit("gt", self.count, 0), stop, 0)  # no vector holds an element of an empty row
        known = isinstance(self.count, Const)
        upto = self.count if known else stop
        whole = b.emit("sub", upto, b.emit("mod", upto, stride))
        first = b.emit("mul", lane, v)
        with b.loop(0, whole, stride, kind="serial", name="o", unroll=self.unroll) as o:
            self._step(slots, line, past, b.emit("add", o, first), None, 0)
            with b.if_(b.emit("and", b.emit("eq", o, 0), b.emit("eq", lane, 0))), b.loop(0, v, kind="unroll", name="k") as k:
                before = b.emit("lt", k, past)
                slots.put(b, tuple(b.emit("select", before, x, y) for x, y in zip(self.acc.start(), slots.get(b, k))), k)
        rest = range(0, self.count.value % stride + v - 1, stride) if known else range(1)
        for further in rest:
            q = b.emit("add", b.emit("add", whole, further) if further else whole, first)
            with b.if_(b.emit("lt", q, stop)):
                self._step(slots, line, past, q, stop, self.least if known else max(0, self.least - stride + 1))
        hand_over(b, self.team, self.acc, self.order, slots, past)
        return slots

    def _step(self, slots: Slots, line: Scalar, past: Scalar, q: Scalar, stop: Scalar | None, least: int) -> None:
        """The vector that begins `q` elements behind `line`: all of it, or what is below `stop` and, unless `least` is more than 0, behind
        `past`.
        """
        b, v, buffer = self.b, self.order.v, self.lined.load.operands[0]
        held = b.declare("local", buffer.name, buffer.dtype, (v,))
        b.emit("move", held, 0, self.lined.outer(buffer), b.emit("add", line, q), width=v, anywhere="line")
        with b.loop(0, v, kind="unroll", name="v") as k:
            at = b.emit("add", q, k)
            e = b.emit("sub", at, past)
            index = e if self.base == Const(0) else b.emit("add", self.base, e)

            def take(operands: tuple[Scalar, ...], at: Scalar = at, k: Scalar = k, index: Scalar = index) -> None:
                old = slots.get(b, k)
                new = self.acc.feed(b, old, operands, index)
                if stop is not None:
                    inside = b.emit("lt", at, stop)
                    if not least:
                        inside = b.emit("and", inside, b.emit("ge", at, past))
                    new = tuple(b.emit("select", inside, x, y) for x, y in zip(new, old))
                slots.put(b, new, k)

            self.lined.element(index, b.emit("load", held, k), take)


def hand_over(b: Builder, team: Team, acc: Accumulator, order: Order, slots: Slots, past: Scalar) -> None:
    """Partial results below `past` are those of the lane after."""
    v, lanes = order.v, order.lanes
    width = min(lanes, WARP)
    after = b.emit("mod", b.emit("add", team.lane, 1), width)
    theirs = Slots.declare(b, acc.dtypes, v, "after")
    with b.loop(0, v, kind="unroll", name="k") as k:
        theirs.put(b, tuple(b.emit("shfl_idx", x, after, width=width) for x in slots.get(b, k)), k)
    if lanes > WARP:
        _across_warps(b, team, acc, order, slots, theirs)
    with b.loop(0, v, kind="unroll", name="k") as k:
        taken = b.emit("lt", k, past)
        slots.put(b, tuple(b.emit("select", taken, x, y) for x, y in zip(theirs.get(b, k), slots.get(b, k))), k)


def _across_warps(b: Builder, team: Team, acc: Accumulator, order: Order, slots: Slots, theirs: Slots) -> None:
    """What the last lane of a warp takes is the first lane's of the next. The barriers of the fold across warps, which comes after,
    are between this and the next row.
    """
    v, warps = order.v, order.lanes // WARP
    edge = Slots(tuple(team.shared(dtype, warps * v, at + 1) for at, dtype in enumerate(acc.dtypes)))
    warp, lane = b.emit("floordiv", team.lane, WARP), b.emit("mod", team.lane, WARP)
    for mine, at, here, there in ((0, warp, slots, edge), (WARP - 1, b.emit("mod", b.emit("add", warp, 1), warps), edge, theirs)):
        first = b.emit("mul", at, v)
        with b.if_(b.emit("eq", lane, mine)), b.loop(0, v, kind="unroll", name="k") as k:
            place = b.emit("add", first, k)
            there.put(b, here.get(b, place if here is edge else k), place if there is edge else k)
        if there is edge:
            team.barrier()
