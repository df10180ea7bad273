"""Stages tile and team: every parallel loop (and reduction, `flat_reduce`) opens an axis; its body runs once on whole arrays.

The outermost parallel axis (any parallel axis, where it is long) is cut into chunks, so that memory stays bounded. At
stage=team the instructions mean the same; layouts and maps say which thread does what, and only race detection looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from vxc.interp.flat_control import bounds, serial
from vxc.interp.flat_lanes import Lanes, both, lanes, lift, lift_lanes
from vxc.interp.flat_machine import Frame, Machine, Step
from vxc.interp.flat_memory import per_lane
from vxc.interp.flat_races import BLOCK, INNER, THREAD, UNORDERED, Race, Shadow, Who
from vxc.ir.kernel import Const, Inst
from vxc.layout.layout import parse
from vxc.semantics import trip_counts

_LIVE = 1 << 25  # elements alive at once, over all values of a loop body
CHECKED = 1 << 20  # iterations for which a layout is looked at
_LEAST, _MOST = 1 << 12, 1 << 18  # elements of one value
_UNKNOWN = 256  # taken for an inner extent that is not known when the outer loop starts


class Place(NamedTuple):
    """Where in the open axes a lane is: iteration of the outermost loop, and thread in it.

    `everyone`: all threads run it, and one of them has its effects on memory.
    """

    outer: np.ndarray
    thread: np.ndarray
    everyone: bool


@dataclass
class TileMachine(Machine):
    """`place` is None outside of parallel loops; `epoch` counts the barriers that an iteration of the outermost one has passed."""

    place: Place | None = None
    epoch: np.ndarray | int = 0

    @property
    def spread(self) -> bool:
        """Whether layouts say which thread does what."""
        return self.program.attrs["stage"] == "team"

    @property
    def width(self) -> int:
        """Threads that layouts count; 0 where nothing says."""
        return self.program.attrs.get("group", 0)

    def meet(self, step: Step) -> int | None:
        """A barrier, to which all that run come at once: the threads of an iteration are ordered by it."""
        self.epoch = lift(np.asarray(self.epoch), self.depth) + np.where(lift_lanes(self.mask, self.depth), 1, 0)
        return None

    def who(self, mode: str) -> Who | None:
        if self.place is None:
            return None
        outer, thread, everyone = self.place
        owner = lift(outer, self.depth) << INNER | lift(thread, self.depth)
        return Who(owner, np.asarray(self.epoch) << INNER, BLOCK if everyone and mode == "r" else THREAD)

    def describe(self, lane: tuple[int, ...]) -> str:
        loops = [f for f in self.frames if isinstance(f, Axis)]
        return f"at {', '.join(f'{f.index.name}={self.at_lane(self.get(f.index.name), lane)}' for f in loops)}" if loops else ""

    def raced(self, inst: Inst, element: str, race: Race, mode: str):
        (a, s), (b, t) = (divmod(owner, 1 << INNER) for owner in sorted((race.before, race.now)))
        unit = "lanes" if self.spread else "inner iterations"
        pair = f"{unit} {s} and {t} of iteration {a}" if s != t else f"several {unit} of iteration {a}"
        pair = f"iterations {a} and {b}" if a != b else pair
        what = "both write" if {race.mode, mode} == {"w"} else "access, and one writes,"
        if self.spread and a == b:
            return self.fault("E0725", f"{pair} {what} `{element}` with no barrier between", inst, help=UNORDERED)
        return self.fault("E0722", f"{pair} {what} `{element}`", inst, help="use an atomic or a `serial` loop")


class Axis(Frame):
    """A region run once for all of many indices."""

    def __init__(self, m: TileMachine, step: Step):
        super().__init__(m, step)
        self.step, self.index, self.body = step, step.inst.result, step.at + 1
        self.shape, self.gone, self.place = m.shape, m.gone, m.place

    def open(self, m: TileMachine, ticks: np.ndarray, index: np.ndarray, mask: Lanes, place: Place | None) -> int:
        m.shape, m.mask, m.gone, m.place = (*self.shape, ticks.shape[-1]), mask, False, place
        if self.place is None:
            m.epoch = 0
        m.env[self.index.name] = index.astype(self.index.dtype.numpy, copy=False)
        return self.body

    def restore(self, m: TileMachine) -> None:
        m.shape, m.gone, m.place, m.mask = self.shape, self.gone, self.place, self.saved
        epoch = np.asarray(m.epoch)
        m.epoch = epoch.max(axis=tuple(range(m.depth, epoch.ndim)), initial=0)

    def done(self, m: TileMachine) -> int:
        self.restore(m)
        sync(m)
        return m.leave(self)


def sync(m: TileMachine) -> None:
    """A parallel region starts or ends: at stage=tile that orders the iterations inside with what stands around it."""
    if not m.shape:
        for memory in m.storage.values():
            if getattr(memory, "races", None) is not None:
                memory.races.clear()
    elif not m.spread:
        m.epoch = m.epoch + 1


def ticks_of(m: TileMachine, first: int, stop: int) -> np.ndarray:
    return np.arange(first, stop).reshape((1,) * m.depth + (-1,))


class Parallel(Axis):
    """A parallel loop, a chunk of iterations at a time; `count` is the number of iterations of each lane."""

    def __init__(self, m: TileMachine, step: Step):
        super().__init__(m, step)
        start, stop, by = bounds(m, step)
        count = trip_counts(start, stop, by)
        inside = count if m.mask is True or not count.ndim else np.where(m.mask, count, 0)
        self.start, self.by, self.count = start, by, inside
        self.next, self.total = 0, int(inside.max(initial=0))
        self.chunk = chunk_of(m, step.at) if m.program.attrs["alike"] else 1
        m.frames.append(self)
        sync(m)

    def close(self, m: TileMachine) -> int:
        self.restore(m)
        depth = m.depth + 1
        while self.next < self.total:
            ticks = ticks_of(m, self.next, min(self.next + self.chunk, self.total))
            self.next += self.chunk
            mask = lift_lanes(self.saved, depth)
            if self.count.ndim:
                mask = both(mask, lanes(ticks < lift(self.count, depth)))
            if mask is not False:
                index = lift(self.start, depth) + ticks * lift(self.by, depth)
                return self.open(m, ticks, index, mask, self.where(m, ticks))
        return self.done(m)

    @property
    def _by_one_lane(self) -> bool:
        """Whether each iteration over blocks has its effects by one lane."""
        return bool(self.step.inst.attr("flight") or self.step.inst.attr("columns"))

    def where(self, m: TileMachine, ticks: np.ndarray) -> Place:
        if self.place is None:
            together = m.spread and m.program.attrs.get("group", 2) > 1 and not self._by_one_lane
            return Place(ticks, np.asarray(0), together)
        outer, thread, everyone = self.place
        if not m.spread:
            return Place(outer, lift(thread, ticks.ndim) * self.total + ticks, False)
        how, thread = self.step.inst.attr("map"), lift(thread, ticks.ndim)
        if how == "all":
            return self.place
        if how == "teams":  # an iteration's team is spoken of by its first lane
            lanes = self.step.inst.attr("lanes")
            return Place(outer, thread + ticks % (m.width // lanes) * lanes, False)
        layout = self.step.inst.attr("layout", "[i] -> [i, 0]")
        return Place(outer, thread + threads_of(m, self.step, layout, self.total, ticks), False)


def threads_of(m: TileMachine, step: Step, text: str, count: int, ticks: np.ndarray) -> np.ndarray:
    """The thread that a layout gives each of some of so many iterations, the first of several. Raises E0730 where it is not total or not
    injective on the first CHECKED of these.
    """
    layout, checked = parse(text), min(count, CHECKED)
    wrong = layout.check([checked], m.width or max(checked, 1))
    if wrong:
        message = f"layout `{text}` does not fit {count} iterations: {wrong}"
        raise m.fault("E0730", message, step.inst, help="give each iteration a thread and slot of its own")
    return layout.threads(ticks)


def loop(m: TileMachine, step: Step) -> int:
    if step.inst.attr("kind") == "parallel":
        return Parallel(m, step).close(m)
    return serial(m, step)


def chunk_of(m: TileMachine, at: int) -> int:
    """Iterations of the parallel loop at `at` to run at once: as many as keep its values below _LIVE elements together."""
    regions = m.program.regions
    around, widest = [(regions.end[at], 1)], 1
    for inner in regions.body(at):
        inst = regions.insts[inner]
        if inst.op in ("reduce", "scan") or inst.attr("kind") == "parallel":
            while around[-1][0] < inner:
                around.pop()
            around.append((regions.end[inner], around[-1][1] * _extent(m, inst)))
            widest = max(widest, around[-1][1])
    elements = min(max(_LIVE // max(len(regions.body(at)), 1), _LEAST), _MOST)
    return max(1, elements // (widest * max(prod(m.shape), 1)))


def _extent(m: TileMachine, inst: Inst) -> int:
    if inst.op == "loop" and all(isinstance(x, Const) for x in inst.operands):
        return max(len(range(*(x.value for x in inst.operands))), 1)
    known = inst.operands[1 if inst.op in ("reduce", "loop") else 0]
    value = np.asarray(known.value) if isinstance(known, Const) else m.env.get(known.name)
    return max(int(value), 1) if value is not None and not value.ndim else _UNKNOWN


def barrier(m: TileMachine, step: Step) -> int | None:
    """Stage=team: orders what threads did before with what they do after."""
    inner = [f.step.inst.attr("map") for f in m.frames if isinstance(f, Axis)][1:]
    if any(how not in ("teams", "all") for how in inner) or ("teams" in inner and step.inst.attr("scope") != "group"):
        raise m.fault("E0726", "a barrier in a loop over lanes, which not all lanes run alike", step.inst)
    return TileMachine.meet(m, step) if inner else m.meet(step)


def block_array(m: TileMachine, step: Step) -> None:
    """Shared memory, or a tile over the threads of a block: one copy for each iteration of the loop over blocks.

    Where a tile has its layout, threads access what they hold, or lower-to-threads refuses it: no two share memory then.
    """
    memory = per_lane(step.inst.result, m.shape, m.debug)
    watched = m.debug and m.program.attrs["ordered"] and step.inst.attr("layout") is None
    memory.races = Shadow(memory.data.size) if watched else None
    m.storage[memory.name] = memory
