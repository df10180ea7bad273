"""Which thread accesses which element of a tile, and from which of its slots: by enumeration (stage=team).

A thread runs the iterations that the layouts of the loops around give it: of a loop over lanes, of one over teams, of a reduction. So
each thread's accesses are known in every iteration, and whether the elements are its own by the tile's layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple, Union

import numpy as np

from vxc import semantics
from vxc.analysis.sweeps import Extent
from vxc.binding import row_major
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS
from vxc.ir.walk import Regions, definitions
from vxc.layout.layout import Dim, Layout, distribution, parse
from vxc.layout.places import IN_A_ROW, Held, Places, different, held, places
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
    """A loop as its threads run it: `where` its iterations are; `table` [slot digits, highest first.., thread] is its index, -1 where a
    thread has no iteration.
    """

    at: int
    index: Value
    where: Places
    held: Held
    table: np.ndarray


@entity
class Runs:
    """How threads come to a position: the loops around it, outermost first, and what each runs over at most."""

    loops: tuple[Run, ...]
    counts: tuple[int, ...]

    @property
    def chain(self) -> tuple[int, ...]:
        return tuple(run.at for run in self.loops)

    @cached_property
    def exists(self) -> np.ndarray:
        """[digits of all loops.., thread]: where there is an iteration."""
        found = np.ones((1,) * (self._ranks + 1), bool)
        for table in self._tables:
            found = found & (table >= 0)
        return found

    @cached_property
    def iterations(self) -> np.ndarray:
        """[digits of all loops.., thread]: the number of the iteration, row-major; of another where there is none."""
        found = np.zeros((1,) * (self._ranks + 1), np.int64)
        for table, count in zip(self._tables, self.counts):
            found = found * count + np.maximum(table, 0)
        return found

    @property
    def _ranks(self) -> int:
        return sum(run.table.ndim - 1 for run in self.loops)

    @property
    def _tables(self) -> Iterator[np.ndarray]:
        """Each loop's index, with axes for the digits of all."""
        before = 0
        for run in self.loops:
            *digits, threads = run.table.shape
            after = self._ranks - before - len(digits)
            yield run.table.reshape((1,) * before + (*digits,) + (1,) * after + (threads,))
            before += len(digits)


def teams(count: int, lanes: int, threads: int) -> Places:
    """Iterations of a loop over teams of so many lanes: each is run by all lanes of its team."""
    several = threads // lanes
    thread = ("j", several, "%", lanes, "*", "r", "+")
    return places(Layout((Dim("j"), Dim("r", lanes)), thread, ("j", several, "//")), (count,))


class Ownership:
    """Answers for one kernel; `loops` gives the places of the iterations of its loops over lanes, by position.

    What an index is follows from the iterations, whoever runs them: it is evaluated once for each *chain* of loops around.
    """

    def __init__(self, kernel: Kernel):
        self.insts = kernel.insts
        self.threads = kernel.attr("group")
        self.regions = Regions.of(kernel.insts)
        self.made = definitions(kernel.insts)
        self._around = self._chains()
        self._counts = {at: _count(inst) for at, inst in enumerate(self.insts) if inst.op in ("loop", "reduce")}
        self._runs: dict[tuple, Runs | str] = {}
        self._known: dict[tuple[int, ...], tuple[dict, dict]] = {}  # values by name: those that are known, and with 0 for others
        self._numbers: dict[tuple, np.ndarray | None] = {}
        self._found: dict[tuple, Access] = {}

    def _chains(self) -> list[tuple[int, ...]]:
        """By position, and of the outermost level at last."""
        found: list[tuple[int, ...]] = [()] * (len(self.insts) + 1)
        for at, parent in enumerate(self.regions.parent):
            spread = parent >= 0 and (self.insts[parent].op in SHARED or self.insts[parent].attr("map") in ("lanes", "teams"))
            found[at] = (*found[parent], parent) if spread else found[parent]
        return found

    def around(self, at: int) -> tuple[int, ...]:
        """The loops over lanes or teams, reductions and scans around a position, outermost first."""
        return self._around[at]

    def count(self, loop: int) -> int | None:
        """Iterations of a loop or reduction from 0 on, at most; None where they are not known."""
        return self._counts.get(loop)

    def runs(self, at: int, loops: Mapping[int, Places]) -> Runs | str:
        """How threads come to a position; or why that is not known."""
        around = self.around(at)
        key = (around, *map(loops.get, around))
        if key not in self._runs:
            self._runs[key] = self._run(around, loops)
        return self._runs[key]

    def _run(self, around: tuple[int, ...], loops: Mapping[int, Places]) -> Runs | str:
        if not around:
            return "it is accessed outside of a loop spread over threads"
        over = [self.insts[loop].attr("map") == "teams" for loop in around]
        if len(around) > 2 or over not in ([True], [False], [True, False]) or any(self.insts[loop].op == "scan" for loop in around):
            return "it is accessed in a loop inside a loop spread over threads"
        team, found, counts = self.threads, [], []
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
            found.append(Run(loop, inst.result, where, made[0], table))
            counts.append(count)
            if inst.attr("map") == "teams":
                team = inst.attr("lanes")
        return Runs(tuple(found), tuple(counts))

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

    def indices(self, chain: Sequence[int], box: Sequence[Operand], unknown: bool = False) -> list[np.ndarray] | None:
        """[iterations of each loop of a chain], or 1 where it makes no difference: each index. What more than these loops says is 0 where
        `unknown`, else there is None.
        """
        chain = tuple(chain)
        if chain not in self._known:
            ranges = np.indices([self.count(loop) for loop in chain], sparse=True)
            known = {self.insts[loop].result.name: index for loop, index in zip(chain, ranges)}
            self._known[chain] = known, dict(known)
        found = [self._evaluate(x, self._known[chain][unknown], np.asarray(0) if unknown else None) for x in box]
        return None if any(x is None for x in found) else found

    def numbers(self, chain: Sequence[int], box: Sequence[Operand], strides: Sequence[int], unknown: bool = False) -> np.ndarray | None:
        """[iterations of a chain of loops, row-major]: the sum of indices times strides, as `indices` gives them."""
        key = (tuple(chain), tuple(box), tuple(strides), unknown)
        if key not in self._numbers:
            indices = self.indices(chain, box, unknown)
            flat = np.zeros([self.count(loop) for loop in chain], np.int64)
            with np.errstate(all="ignore"):
                for x, stride in zip(indices or (), strides):
                    flat += x.astype(np.int64) * stride
            self._numbers[key] = None if indices is None else flat.ravel()
        return self._numbers[key]

    def _evaluate(self, x: Operand, known: dict[str, np.ndarray | None], unknown: np.ndarray | None) -> np.ndarray | None:
        """A value where the indices of loops are known; what depends on more is made with `unknown`, and is None where there is none."""
        if isinstance(x, Const):
            return np.asarray(x.value)
        if x.name not in known:
            inst = self.insts[self.made[x.name]] if x.name in self.made else None
            known[x.name] = unknown
            if inst is not None and OPS[inst.op].pure and not inst.result.dtype.is_float:
                operands = [self._evaluate(y, known, unknown) for y in inst.operands]
                known[x.name] = None if any(y is None for y in operands) else _apply(inst, operands)
        return known[x.name]

    def access(self, at: int, buffer: Buffer, box: Sequence[Operand], where: Places, loops: Mapping[int, Places]) -> Access:
        """What an access to a tile with these places is."""
        runs = self.runs(at, loops)
        if isinstance(runs, str):
            return Foreign(runs)
        key = (at, buffer.name, where, runs)
        if key not in self._found:
            self._found[key] = self._access(at, buffer, box, where, runs)
        return self._found[key]

    def _access(self, at: int, buffer: Buffer, box: Sequence[Operand], where: Places, runs: Runs) -> Access:
        number = self.numbers(runs.chain, box, row_major([n.value for n in buffer.shape]))
        if number is None:
            return Foreign("an index depends on more than the loops over threads")
        if number.max() >= len(where.thread) or number.min() < 0:
            return Foreign("an index may lie outside of it")
        around = runs.loops[0].where
        alike = len(runs.loops) == 1 and (around is where or around.same(where))
        if alike and np.array_equal(number, np.arange(len(number))):
            return _by_digits(runs.loops[0])
        element = number.take(runs.iterations)
        exists = np.broadcast_to(runs.exists, element.shape)
        thread = np.broadcast_to(np.arange(self.threads), element.shape)
        return _own(element, exists, thread, where) or self._shuffled(at, runs.loops, element, exists, thread, where)

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


def _count(loop: Inst) -> int | None:
    starts = loop.op == "reduce" or loop.operands[0] == Const(0) and loop.operands[2:] in ((), (Const(1),))
    most = Extent.of(loop).most if starts else None
    return most if most is not None and 0 < most <= LARGEST else None


def _by_digits(run: Run) -> Own:
    """What an access is by which each iteration comes to the element of its number, where the elements are where the iterations are."""
    factors = [prod(run.held.radices[at + 1 :]) for at in range(len(run.held.radices))]
    used = zip(factors, run.held.radices)
    return Own((0, *(factor if radix > 1 and factor < run.where.slots else 0 for factor, radix in used)), True)


def _own(element: np.ndarray, exists: np.ndarray, thread: np.ndarray, where: Places) -> Own | None:
    """The slots that are accessed, where each thread holds what it accesses, and its slots follow the digits of its loops."""
    mine = where.thread.take(element, axis=0) == thread[..., None]
    if not ((mine[..., 0] if where.replicas == 1 else mine.any(axis=-1)) | ~exists).all():
        return None
    slot = where.slot.take(element, axis=0)
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
    reached, pairs = different(element[exists]), different(element[exists] * (int(thread.max()) + 1) + thread[exists])
    return Own(slots, pairs == reached * where.replicas)


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
