"""Which thread accesses which element of a tile, and from which of its slots: by enumeration (stage=team).

A thread runs the iterations that the layouts of the loops around give it: of a loop over lanes, of one over teams, of a reduction. So
each thread's accesses are known in every iteration, and whether the elements are its own by the tile's layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import NamedTuple, Union

import numpy as np

from vxc import semantics
from vxc.analysis.sweeps import Extent
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS
from vxc.ir.walk import Regions, definitions
from vxc.layout.layout import Dim, Layout, distribution, parse
from vxc.layout.places import IN_A_ROW, Held, Places, held, places
from vxc.record import entity
from vxc.semantics import Order
from vxc.target import WARP

SHARED = ("reduce", "scan")  # run by all lanes of a group together
LARGEST = 1 << 22  # iterations that are enumerated
Slots = tuple[int, ...]  # a slot as a sum: a constant, then what each digit of the loops around counts for, outermost first


class Own(NamedTuple):
    """Every thread accesses its own elements. `whole`: where it stores, all threads that hold an element do."""

    slot: Slots
    whole: bool


class Shuffle(NamedTuple):
    """Every element is held in the warp that reads it, in one of these slots of its thread (one or two)."""

    slots: tuple[Slots, ...]


class Foreign(NamedTuple):
    why: str


Access = Union[Own, Shuffle, Foreign]


@entity
class Run:
    """A loop as its threads run it: `table` [slot digits, highest first.., thread] is its index, -1 where a thread has no iteration."""

    at: int
    index: Value
    held: Held
    table: np.ndarray


def teams(count: int, lanes: int, threads: int) -> Places:
    """Iterations of a loop over teams of so many lanes: each is run by all lanes of its team."""
    several = threads // lanes
    thread = ("j", several, "%", lanes, "*", "r", "+")
    return places(Layout((Dim("j"), Dim("r", lanes)), thread, ("j", several, "//")), (count,))


class Ownership:
    """Answers for one kernel; `loops` gives the places of the iterations of its loops over lanes, by position."""

    def __init__(self, kernel: Kernel):
        self.insts = kernel.insts
        self.threads = kernel.attr("group")
        self.regions = Regions.of(kernel.insts)
        self.made = definitions(kernel.insts)
        self._points: dict[tuple, tuple[dict[str, np.ndarray], np.ndarray]] = {}
        self._found: dict[tuple, Access] = {}

    def around(self, at: int) -> list[int]:
        """The loops over lanes or teams, reductions and scans around a position, outermost first."""
        spread = (p for p in self.regions.parents(at) if self.insts[p].op in SHARED or self.insts[p].attr("map") in ("lanes", "teams"))
        return [*spread][::-1]

    def count(self, loop: int) -> int | None:
        """Iterations of a loop or reduction from 0 on, at most; None where they are not known."""
        inst = self.insts[loop]
        starts = inst.op == "reduce" or inst.op == "loop" and inst.operands[0] == Const(0) and inst.operands[2:] in ((), (Const(1),))
        most = Extent.of(inst).most if starts else None
        return most if most is not None and 0 < most <= LARGEST else None

    def runs(self, at: int, loops: Mapping[int, Places]) -> list[Run] | str:
        """How threads come to a position, outermost loop first; or why that is not known."""
        around = self.around(at)
        if not around:
            return "it is accessed outside of a loop spread over threads"
        over = [self.insts[loop].attr("map") == "teams" for loop in around]
        if len(around) > 2 or over not in ([True], [False], [True, False]) or any(self.insts[loop].op == "scan" for loop in around):
            return "it is accessed in a loop inside a loop spread over threads"
        team, found = self.threads, []
        for loop in around:
            inst, count = self.insts[loop], self.count(loop)
            if count is None:
                return "the bounds of the loop over it are not known when compiling"
            where = self.places(loop, count, loops, team)
            extent = Extent.of(inst)
            run = IN_A_ROW if team > 1 or type(extent.size) is Const else gcd(extent.multiple, IN_A_ROW)  # tested at once
            made = where if isinstance(where, str) else held(where, team, run)
            if made is None or isinstance(made, str):
                return made or "no sum of digits says which iterations a thread has"
            table = made[1] if team == self.threads else made[1][..., np.arange(self.threads) % team]
            found.append(Run(loop, inst.result, made[0], table))
            if inst.attr("map") == "teams":
                team = inst.attr("lanes")
        return found

    def places(self, loop: int, count: int, loops: Mapping[int, Places], team: int) -> Places | str:
        """Where the iterations of a loop are, counted in a team of so many lanes."""
        inst = self.insts[loop]
        if inst.attr("map") == "teams":
            return teams(count, inst.attr("lanes"), self.threads)
        if inst.op == "reduce":
            order = Order(*inst.attr("order"))
            if order.parts_of(count) > 1 or order.lanes > team:
                return f"a reduction over it has the order {order}, which does not deal it to {team} threads"
            return places(distribution(order), (count,))
        return loops.get(loop) or places(parse(inst.attr("layout")), (count,))

    def points(self, runs: Sequence[Run]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """[digits of all runs.., thread]: each run's index, 0 where there is no iteration; and where there is one."""
        key = tuple((run.at, run.held) for run in runs)
        if key not in self._points:
            ranks, found = [run.table.ndim - 1 for run in runs], {}
            exists = np.ones((1,) * (sum(ranks) + 1), bool)
            for n, run in enumerate(runs):
                shape = run.table.shape
                table = run.table.reshape((1,) * sum(ranks[:n]) + shape[:-1] + (1,) * sum(ranks[n + 1 :]) + shape[-1:])
                found[run.index.name] = np.maximum(table, 0)
                exists = exists & (table >= 0)
            self._points[key] = found, exists
        return self._points[key]

    def elements(self, runs: Sequence[Run], box: Sequence[Operand], shape: Sequence[int]) -> np.ndarray | None:
        """[digits.., thread]: the number in memory order of the element with these indices; None where more than the runs says it."""
        known, exists = self.points(runs)
        known = dict(known)
        flat = np.zeros(exists.shape, np.int64)
        for x, extent in zip(box, shape):
            place = self.evaluate(x, known)
            if place is None:
                return None
            flat = flat * extent + place
        return flat

    def evaluate(self, x: Operand, known: dict[str, np.ndarray | None], unknown: np.ndarray | None = None) -> np.ndarray | None:
        """A value where the indices of loops are known; what depends on more is made with `unknown`, and is None where there is none."""
        if isinstance(x, Const):
            return np.asarray(x.value)
        if x.name not in known:
            inst = self.insts[self.made[x.name]] if x.name in self.made else None
            known[x.name] = unknown
            if inst is not None and OPS[inst.op].pure and not inst.result.dtype.is_float:
                operands = [self.evaluate(y, known, unknown) for y in inst.operands]
                known[x.name] = None if any(y is None for y in operands) else _apply(inst, operands)
        return known[x.name]

    def access(self, at: int, buffer: Buffer, box: Sequence[Operand], where: Places, loops: Mapping[int, Places]) -> Access:
        """What an access to a tile with these places is."""
        runs = self.runs(at, loops)
        if isinstance(runs, str):
            return Foreign(runs)
        key = (at, buffer.name, where, *(run.held for run in runs))
        if key not in self._found:
            self._found[key] = self._access(at, buffer, box, where, runs)
        return self._found[key]

    def _access(self, at: int, buffer: Buffer, box: Sequence[Operand], where: Places, runs: Sequence[Run]) -> Access:
        shape = [n.value for n in buffer.shape]
        element = self.elements(runs, box, shape)
        if element is None:
            return Foreign("an index depends on more than the loops over threads")
        exists = np.broadcast_to(self.points(runs)[1], element.shape)
        if element[exists].max(initial=0) >= prod(shape) or element[exists].min(initial=0) < 0:
            return Foreign("an index may lie outside of it")
        element = np.where(exists, element, 0)
        thread = np.broadcast_to(np.arange(self.threads), element.shape)
        return _own(element, exists, thread, where) or self._shuffled(at, runs, element, exists, thread, where)

    def _shuffled(self, at: int, runs: Sequence[Run], element, exists, thread, where: Places) -> Shuffle | Foreign:
        """Whether a shuffle can bring the elements: all lanes of a warp come to it together, and each gives the same slot or one of two."""
        other = Foreign("another thread's element is accessed")
        alone = len(runs) > 1 or self.insts[runs[0].at].attr("map") != "lanes" or self.regions.parent[at] != runs[0].at
        if self.insts[at].op != "load" or alone or where.replicas > 1 or not exists.all() or self.threads % WARP:
            return other
        owner, slot = where.thread[element, 0], where.slot[element, 0]
        if (owner // WARP != thread // WARP).any():
            return other
        slots = {slots for bound in (slot.min(axis=-1), slot.max(axis=-1)) for slots in [_linear(bound, np.ones_like(bound, bool))]}
        low, high = slot.min(axis=-1, keepdims=True), slot.max(axis=-1, keepdims=True)
        if None in slots or ((slot != low) & (slot != high)).any():
            return other
        return Shuffle(tuple(sorted(slots)))


def _own(element: np.ndarray, exists: np.ndarray, thread: np.ndarray, where: Places) -> Own | None:
    """The slots that are accessed, where each thread holds what it accesses, and its slots follow the digits of its loops."""
    mine = where.thread[element] == thread[..., None]
    if not (mine.any(axis=-1) | ~exists).all():
        return None
    slot = where.slot[element]
    slot = slot[..., 0] if where.replicas == 1 else np.take_along_axis(slot, mine.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    slot = np.where(exists, slot, -1)
    by_digits = slot.max(axis=-1)
    if ((slot != by_digits[..., None]) & exists).any():
        return None
    slots = _linear(by_digits, exists.any(axis=-1))
    if slots is None:
        return None
    if where.replicas == 1:
        return Own(slots, True)
    reached, pairs = np.unique(element[exists]), np.unique(element[exists] * (int(thread.max()) + 1) + thread[exists])
    return Own(slots, len(pairs) == len(reached) * where.replicas)


def _linear(slot: np.ndarray, known: np.ndarray) -> Slots | None:
    """The constant and the factor of each axis whose sum an array is where it is `known`."""
    origin = (0,) * slot.ndim
    base = int(slot[origin])
    if not known[origin]:
        return None
    made, found = np.full(slot.shape, base), [base]
    for axis, size in enumerate(slot.shape):
        one = tuple(int(k == axis) for k in range(slot.ndim))
        factor = int(slot[one]) - base if size > 1 and known[one] else 0
        made = made + factor * np.arange(size).reshape([-1 if k == axis else 1 for k in range(slot.ndim)])
        found.append(factor)
    return None if (made != slot)[known].any() else tuple(found)


def _apply(inst: Inst, operands: list[np.ndarray]) -> np.ndarray:
    if inst.op in ("cast", "sat", "reinterpret"):
        return getattr(semantics, inst.op)(operands[0], inst.operands[0].dtype, inst.result.dtype)
    return semantics.evaluate(inst.op, inst.operands[-1].dtype, *operands)
