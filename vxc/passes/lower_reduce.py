"""A reduction as threads run it, in exactly the order that it carries (part of lower-to-threads).

In row scope a logical lane is a lane of the group. In element scope, inside a loop that is spread over lanes already, one
thread plays all lanes in turn. Parts follow one another in a loop. Within a lane, elements come in runs of V; `chunk`
partial results take them in turn; a main loop without tests is followed by one guarded step. Partial results of floats are joined as
`order` says; whatever may be regrouped freely (max, an index, ints) takes a row as one part.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from vxc.analysis.sweeps import Extent
from vxc.ir.builder import Builder
from vxc.ir.kernel import GLOBAL, Const, Inst, Scalar
from vxc.ir.walk import Regions
from vxc.passes.accumulate import Accumulator, Slots, State, fold_halves, kind_of
from vxc.passes.fragment_slots import Slotted
from vxc.passes.lined_reduce import Lined, LinedLane, hand_over
from vxc.passes.lined_rows import LinedRow
from vxc.passes.own_elements import own_elements
from vxc.record import record
from vxc.semantics import PARTS, Order, accumulator
from vxc.target import WARP

# Emits one element: (its index, the digits of its number among those that a lane holds, what to do with the operands of its contribute)
Element = Callable[[Scalar, tuple[Scalar, ...], Callable[..., None]], None]


WHOLE = 16  # loads of a row that may be unrolled at once
LENGTH = 256  # machine instructions of the copies that make loads overlap
UNROLL = 4  # loads that a lane has in flight in a loop of unknown or many steps


@record
class Reduction:
    """One reduction of `length` elements, which is within `bounds`. `team` is the group that shares it, or None for one thread alone;
    `weight` is about how many machine instructions an element takes, `loads` how many loads the kernel's reductions have. `slotted` are
    the elements that lanes hold in registers, so that a lane's own are counted by constants, and `extent` how many there are. `lined` says
    that lanes of the group take aligned vectors, `row` that they keep them. `width` results are reduced at once, and what takes an
    element's operands is told of which it is.
    """

    acc: Accumulator
    order: Order
    length: Scalar
    element: Element
    b: Builder
    team: object | None
    bounds: tuple[int, int | None]
    weight: int
    loads: int
    slotted: Slotted | None = None
    extent: Extent | None = None
    lined: Lined | None = None
    row: LinedRow | None = None
    width: int = 1

    def result(self) -> Scalar:
        """Emit it all; gives the value, in row scope the same in every lane of the group."""
        b, order = self.b, self.order
        if _one_part(self.acc, order, self.bounds):
            return self.finish(self._part(Const(0), self.length))
        parts, span = parts_of(b, order, self.length), span_of(b, order, self.length)
        holders = 1 if self.team is None or self.team.group > WARP else self.team.group
        fold = fold_order(order.most_parts, holders)  # the lanes of a warp hold the partial results of parts in turn
        slots = Slots.declare(b, self.acc.dtypes, fold.chunk, "parts")
        some = self._some(parts, span)
        if fold.lanes > 1 or some != parts:
            with b.loop(0, fold.chunk, kind=kind_of(fold.chunk), name="k") as k:
                slots.put(b, self.acc.start(), k)
        with b.loop(0, some, kind="serial", name="p") as p:
            base = b.emit("mul", p, span)
            state = self._part(base, b.emit("max", b.emit("min", span, b.emit("sub", self.length, base)), 0))
            if fold.lanes == 1:
                slots.put(b, state, p)
            else:
                with b.loop(0, fold.chunk, kind=kind_of(fold.chunk), name="k") as k:
                    mine = b.emit("eq", p, b.emit("add", self.team.lane, b.emit("mul", k, fold.lanes)))
                    slots.put(b, tuple(b.emit("select", mine, x, y) for x, y in zip(state, slots.get(b, k))), k)
        fold_halves(b, self.acc, slots, fold.chunk, parts if fold.lanes == 1 else None)
        state = slots.get(b)
        return self.finish(state if fold.lanes == 1 else self.team.across_lanes(self.acc, state, fold.lanes))

    def _some(self, parts: Scalar, span: Scalar) -> Scalar:
        """How many parts to go through. Of a fixed number most are empty where a row is short, and stay what they begin as; a number that
        goes with the length has next to none.
        """
        if isinstance(self.length, Const) or not self.order.parts:
            return parts
        return self.b.emit("ceildiv", self.length, self.b.emit("max", span, 1))

    def of_lane(self) -> State:
        """What this lane of the team makes of its elements, of one part."""
        return self.slots_of_lane().get(self.b)

    def slots_of_lane(self) -> Slots:
        """The same for each of the `width` results, in their order."""
        return self._slots(self.team.lane, Const(0), self.length)

    def finish(self, state: State) -> Scalar:
        """The value of the reduction from its last state."""
        when_empty = self.acc.result_if_empty()
        if when_empty is None or self.bounds[0] > 0:
            return state[-1]
        return self.b.emit("select", self.b.emit("eq", self.length, 0), when_empty, state[-1])

    def _part(self, base: Scalar, count: Scalar) -> State:
        if self.team is not None:
            active = count
            if self.order.lanes < self.team.group:
                active = self.b.emit("select", self.b.emit("lt", self.team.lane, self.order.lanes), count, 0)
            return self.team.across_lanes(self.acc, self._lane(self.team.lane, base, active), self.order.lanes)
        if self.order.lanes == 1:
            return self._lane(Const(0), base, count)
        slots = Slots.declare(self.b, self.acc.dtypes, self.order.lanes, "lanes")
        with self.b.loop(0, self.order.lanes, kind="serial", name="lane") as lane:
            slots.put(self.b, self._lane(lane, base, count), lane)
        return self._fold_played_lanes(slots)

    def _fold_played_lanes(self, slots: Slots) -> State:
        """What xor distances and then warps by increasing index leave in lane 0, by one thread over an array of lanes."""
        b, acc, warp = self.b, self.acc, self.order.warp
        with b.loop(0, self.order.lanes, warp, kind="serial", name="w") as first:
            distance = warp // 2
            while distance:
                with b.loop(0, distance, kind="serial") as i:
                    at = b.emit("add", first, i)
                    slots.put(b, acc.join(b, slots.get(b, at), slots.get(b, b.emit("add", at, distance))), at)
                distance //= 2
        if self.order.lanes > warp:
            with b.loop(warp, self.order.lanes, warp, kind="serial", name="w") as first:
                slots.put(b, acc.join(b, slots.get(b), slots.get(b, first)))
        return slots.get(b)

    def _lane(self, lane: Scalar, base: Scalar, count: Scalar) -> State:
        return self._slots(lane, base, count).get(self.b)

    def _slots(self, lane: Scalar, base: Scalar, count: Scalar) -> Slots:
        """What one lane makes of its elements of a part of `count` elements from `base`, for each result."""
        b, v = self.b, self.order.v
        chunk = self.order.chunk or max(1, self.order.span(self.length.value) // self.order.lanes)
        steps = chunk // gcd(chunk, v)  # runs until the partials come round again
        if self.lined is not None:
            unroll = self._unrolled(count, self.order.lanes * v, steps)
            least = self.bounds[0] if count == self.length else 0  # of several parts the last may be empty
            slots = LinedLane(self.lined, self.acc, self.order, b, self.team, base, count, least, unroll).slots()
            fold_halves(b, self.acc, slots, chunk)
            return slots
        many = chunk * self.width
        slots = Slots.declare(b, self.acc.dtypes, many, "acc")
        if many == 1:
            slots.put(b, self.acc.start())
        else:
            with b.loop(0, many, kind=kind_of(many), name="k") as k:
                slots.put(b, self.acc.start(), k)
        run = self.order.lanes * v
        stride = steps * run
        if self.row is not None:
            self.row.own(b, lane, lambda e, digits: self._feed(slots, base, e, digits[-1], digits), "e")
            if self.acc.ordered:
                hand_over(b, self.team, self.acc, self.order, slots, self.row.past)
        elif self.slotted:
            wraps = self.order.span(self.extent.most) // self.order.lanes > chunk
            held = self.slotted.run.held

            def one(e: Scalar, digits: tuple[Scalar, ...]) -> None:
                own: Scalar = Const(0)
                for digit, radix in zip(digits, held.radices):
                    own = b.emit("add", b.emit("mul", own, radix), digit) if own != Const(0) else digit
                self._feed(slots, base, e, b.emit("mod", own, chunk) if wraps else own, digits)

            own_elements(b, held, self.extent, lane, one, "e")
        elif self._ahead:
            self._batches(slots, base, lane, count, steps)
        elif steps * v == 1:
            with b.loop(lane, count, self.order.lanes, kind="serial", name="e") as e:
                self._feed(slots, base, e, Const(0))
        else:
            first = b.emit("mul", lane, v)
            whole: Scalar = Const(0)
            if isinstance(self.length, Const) or self.bounds[1] is None or self.bounds[1] > stride:
                whole = b.emit("sub", count, b.emit("mod", count, stride))
                with b.loop(0, whole, stride, kind="serial", name="o", unroll=self._unrolled(count, stride, steps)) as o:
                    self._step(slots, base, b.emit("add", o, first), steps, None)
            with b.if_(b.emit("lt", whole, count)):
                self._step(slots, base, b.emit("add", whole, first), steps, count)
        fold_halves(b, self.acc, slots, chunk, width=self.width)
        return slots

    @property
    def _ahead(self) -> int | None:
        return self.team and self.team.ahead

    def _batches(self, slots: Slots, base: Scalar, lane: Scalar, count: Scalar, steps: int) -> None:
        """Steps in batches whose loads are under way together. So are those of the last batch: what is past the end loads the last
        element again, and leaves it.
        """
        b, stride = self.b, steps * self.order.v * self.order.lanes
        fit = max(1, LENGTH // (steps * self.order.v * self.weight))
        batch = max(1, min(self._ahead // steps, fit))
        first, whole = b.emit("mul", lane, self.order.v), Const(0)

        def some(start: Scalar, many: int, limit: Scalar | None) -> None:
            with b.loop(0, many, kind="unroll", name="s") as s:
                self._step(slots, base, b.emit("add", b.emit("add", start, first), b.emit("mul", s, stride)), steps, limit)

        if self.bounds[1] is None or self.bounds[1] >= batch * stride:
            whole = b.emit("sub", count, b.emit("mod", count, batch * stride))
            with b.loop(0, whole, batch * stride, kind="serial", name="o", unroll=1) as o:
                some(o, batch, None)
        if not isinstance(count, Const):
            rest = b.emit("lt", whole, count)
            with b.if_(rest):
                some(whole, batch, count)
            return
        left, end = divmod(count.value % (batch * stride), stride)
        if left:
            some(Const(count.value - left * stride - end), left, None)
        if end:
            some(Const(count.value - end), 1, count)

    def _unrolled(self, count: Scalar, stride: int, steps: int) -> int | None:
        """Steps of the main loop at once, so that their loads overlap, and no more: ptxas would rather spill than have fewer warps, and
        keeps the addresses of all reductions; None where a constant count is left to it.
        """
        few = isinstance(count, Const) and count.value // stride * steps <= WHOLE
        fit = LENGTH // (steps * self.order.v * self.weight)
        return None if few or steps >= UNROLL else max(1, min(UNROLL // max(1, steps * self.loads), fit))

    def _step(self, slots: Slots, base: Scalar, start: Scalar, steps: int, limit: Scalar | None) -> None:
        """`steps` runs of V elements, the first at `start`, each below `limit` where one is given."""
        b, v, chunk = self.b, self.order.v, self.order.chunk
        run = self.order.lanes * v
        with b.loop(0, steps, kind=kind_of(steps), name="u") as u, b.loop(0, v, kind="unroll", name="v") as w:
            e = b.emit("add", b.emit("add", start, b.emit("mul", u, run)), w)
            slot = b.emit("add", b.emit("mul", u, v), w)
            if chunk and steps * v > chunk:
                slot = b.emit("mod", slot, chunk)
            if limit is None or self._ahead:
                self._feed(slots, base, e, slot, limit=limit)
            else:
                with b.if_(b.emit("lt", e, limit)):
                    self._feed(slots, base, e, slot)

    def _feed(
        self, slots: Slots, base: Scalar, e: Scalar, slot: Scalar, digits: tuple[Scalar, ...] = (), limit: Scalar | None = None
    ) -> None:
        """One element into its partial result; of what is not below a limit the last element instead, which changes nothing."""
        b = self.b
        inside = None if limit is None else b.emit("lt", e, limit)
        e = e if limit is None else b.emit("min", e, b.emit("sub", limit, 1))
        index = e if base == Const(0) else b.emit("add", base, e)

        def take(operands: tuple[Scalar, ...], of: Scalar = Const(0)) -> None:
            at = slot if self.width == 1 else b.emit("add", b.emit("mul", slot, self.width), of)
            before = slots.get(b, at)
            fed = self.acc.feed(b, before, operands, index)
            slots.put(b, fed if inside is None else tuple(b.emit("select", inside, x, y) for x, y in zip(fed, before)), at)

        self.element(index, digits, take)


def loads_of_reductions(regions: Regions) -> int:
    """How many loads of global memory stand in the reductions of a kernel."""
    inside = {i for at, inst in enumerate(regions.insts) if inst.op == "reduce" for i in regions.body(at)}
    return sum(1 for i in inside if regions.insts[i].op == "load" and regions.insts[i].operands[0].space in GLOBAL)


def bounds_of(reduce: Inst) -> tuple[int, int | None]:
    """What is known of the length: it is at least .. and at most .. (None: any)."""
    length = reduce.operands[1]
    return (length.value, length.value) if isinstance(length, Const) else (reduce.attr("least", 0), reduce.attr("most"))


def one_part(reduce: Inst, acc: Accumulator) -> bool:
    """Whether a reduction has one part, or may be taken as one."""
    return _one_part(acc, Order(*reduce.attr("order")), bounds_of(reduce))


def _one_part(acc: Accumulator, order: Order, bounds: tuple[int, int | None]) -> bool:
    return not acc.ordered or order.most_parts == 1 or bounds[1] is not None and order.parts_of(bounds[1]) == 1


def fold_order(parts: int, lanes: int = WARP) -> Order:
    """In which so many partial results are reduced by at most so many lanes, to the bits of their fold by halves.

    Powers of two fold by halves across lanes as well as within one.
    """
    if parts & (parts - 1):
        return Order(1, parts, 1)
    lanes = min(parts, lanes)
    return Order(1, parts // lanes, lanes)


def parts_of(b: Builder, order: Order, length: Scalar, least: int = 0) -> Scalar:
    """The number of parts, computed in `b`; 0 for a length below `least`."""
    return _by_length(b, order, length, least, Const)


def span_of(b: Builder, order: Order, length: Scalar, least: int = 0) -> Scalar:
    """Elements of a part, computed in `b`: ceil(ceil(length / parts) / tile) * tile. Of no use for a length below `least`."""
    if isinstance(length, Const):
        return Const(order.span(length.value))
    tile = order.v * order.lanes
    tiles = _by_length(b, order, length, least, lambda parts: b.emit("ceildiv", b.emit("ceildiv", length, parts), tile))
    return b.emit("mul", tiles, tile)


def _by_length(b: Builder, order: Order, length: Scalar, least: int, of: Callable[[int], Scalar]) -> Scalar:
    """What `of` makes of the number of parts that a length has."""
    if order.parts or isinstance(length, Const):
        return of(order.parts_of(length.value if isinstance(length, Const) else 0))
    steps = [step for step in PARTS if step[0] >= least]
    found = of(steps[0][1]) if steps[0][0] == 0 else b.emit("select", b.emit("ge", length, steps[0][0]), of(steps[0][1]), 0)
    for first, parts in steps[1:]:
        found = b.emit("select", b.emit("ge", length, first), of(parts), found)
    return found


def accumulator_of(inst: Inst, body) -> Accumulator:
    """The accumulator of a `reduce`, from the dtype of the `contribute` that stands at its own level."""
    regions = Regions.of(body)
    element = next(body[i] for i in regions.top() if body[i].op == "contribute").operands[0].dtype
    acc = Accumulator(inst.attr("op"), element)
    return acc if acc.finds_index else Accumulator(acc.op, accumulator(acc.op, element))
