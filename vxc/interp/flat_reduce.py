"""Reductions and scans at stages tile and team: the body runs once over a new axis, then `vxc.semantics` goes along it.

The `order` that the instruction carries says how; lanes whose lengths differ are taken apart, as the order depends on it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from vxc.dtypes import DType
from vxc.interp.flat_lanes import Lanes, both, lanes, lift, lift_lanes
from vxc.interp.flat_machine import Frame, Step
from vxc.interp.flat_memory import Memory
from vxc.interp.flat_tile import Axis, Parallel, Place, TileMachine, sync, threads_of, ticks_of
from vxc.layout.layout import distribution
from vxc.semantics import Order, dot, reduce, scan


class Along(Axis):
    """A reduction or scan. Where its length differs between lanes, lanes of one length are run together, as order depends on it."""

    def __init__(self, m: TileMachine, step: Step, length: np.ndarray):
        super().__init__(m, step)
        self.order = Order(*step.inst.attr("order"))
        full = np.maximum(length, 0)
        lengths = np.unique(full if m.mask is True else np.broadcast_to(full, m.shape)[np.broadcast_to(m.mask, m.shape)])
        self.groups = [(int(n), both(m.mask, lanes(full == n))) for n in lengths[::-1]]
        self.rows: Lanes = False
        self.count = self.ran = 0  # iterations of the lanes of one length, and those that run now
        m.frames.append(self)
        sync(m)

    def next(self, m: TileMachine) -> int:
        self.restore(m)
        while self.groups:
            self.count, self.rows = self.groups.pop()
            if self.count == 0:
                self.nothing(m)
                continue
            return self.first(m, self.within(m))
        return self.done(m)

    def first(self, m: TileMachine, count: int) -> int:
        """Run the first `count` iterations at once."""
        self.ran, ticks = count, ticks_of(m, 0, count)
        return self.open(m, ticks, ticks, lift_lanes(self.rows, ticks.ndim), self.where(m, ticks))

    def close(self, m: TileMachine) -> int:
        if self.ran == self.count:
            return self.closed(m)
        self.restore(m)  # no access was out of range, so that accesses are not all there is to it
        return self.first(m, self.count)

    closed = next

    def within(self, m: TileMachine) -> int:
        """The iterations to run first: of a row longer than any array so many that an index out of range is among them."""
        sizes = (prod(memory.shape) for memory in m.storage.values() if isinstance(memory, Memory))
        return min(self.count, 1 + max(sizes, default=0))

    def nothing(self, m: TileMachine) -> None:
        """A length of 0."""

    def where(self, m: TileMachine, ticks: np.ndarray) -> Place | None:
        if self.place is None:
            return None
        outer, count = self.place.outer, ticks.shape[-1]
        thread = lift(self.place.thread, ticks.ndim)
        if not m.spread:
            return Place(outer, thread * count + ticks, False)
        if any(frame is not self and _alone(frame) for frame in m.frames):
            return Place(outer, thread, False)  # one thread plays all lanes
        layout, span = self.step.inst.attr("layout") or str(distribution(self.order)), self.order.span(count)
        return Place(outer, thread + threads_of(m, self.step, layout, min(span, count), ticks % span), False)


def _alone(frame: Frame) -> bool:
    """Whether the body of a region is run by one thread for each element."""
    return isinstance(frame, Along) or isinstance(frame, Parallel) and frame.step.inst.attr("map") == "lanes"


class Reduce(Along):
    """`fed` is what the body contributed, of `dtype`, over all axes."""

    fed: list[np.ndarray]
    dtype: DType

    def closed(self, m: TileMachine) -> int:
        fed = self.fed
        self.restore(m)
        self.put(m, fed)
        return self.next(m)

    def nothing(self, m: TileMachine) -> None:
        regions = m.program.regions
        inside = regions.level(regions.body(self.step.at))
        feeder = next(i for i in inside if regions.insts[i].op == "contribute")
        self.dtype = regions.insts[feeder].operands[0].dtype
        self.put(m, [np.zeros((*m.shape, 0), o.dtype.numpy) for o in regions.insts[feeder].operands])

    def put(self, m: TileMachine, fed: list[np.ndarray]) -> None:
        op = self.step.inst.attr("op")
        value = dot(*fed, self.dtype, self.order) if op == "dot" else reduce(op, *fed, self.dtype, self.order)
        m.storage[self.step.args[0].name].store(m, self.rows, value, self.step)


def reduce_(m: TileMachine, step: Step) -> int:
    return Reduce(m, step, m.get(step.args[1])).next(m)


def contribute(m: TileMachine, step: Step) -> None:
    frame = next(f for f in reversed(m.frames) if isinstance(f, Reduce))
    frame.dtype = step.inst.operands[0].dtype
    frame.fed = [np.broadcast_to(m.get(arg), m.shape) for arg in step.args]


def scan_(m: TileMachine, step: Step) -> int:
    return Along(m, step, m.get(step.args[0])).next(m)


def prefix(m: TileMachine, step: Step) -> None:
    frame = next(f for f in reversed(m.frames) if type(f) is Along)
    value = np.broadcast_to(m.get(step.args[0]), m.shape)
    m.env[step.inst.result.name] = scan(step.inst.attr("op"), value, step.inst.operands[0].dtype, frame.order)
