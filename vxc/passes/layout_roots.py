"""What a kernel's tiles and loops are when one of them is given a layout: a root, and what follows from it (part of infer-layouts).

A root deals out a tile of any shape. From a tile, the loops that store to it, or read all of it, get their layout, and from these the other
tiles that they store to; a loop has replicas only if it stores to a tile that has. Where nothing more follows, the largest tile left gets
the root's layout. What a team stores in row scope is held by all its lanes. Tiles and loops with a layout of the author's have it under
every root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from vxc.analysis.ownership import Own, Ownership, teams
from vxc.binding import row_major
from vxc.diag import count
from vxc.ir.kernel import Buffer, Inst, Kernel, Operand
from vxc.ir.ops import accesses
from vxc.layout.layout import parse, spread
from vxc.layout.places import Places, by_number, held, places, written
from vxc.record import entity, state
from vxc.semantics import Order

EFFECTS = ("atomic", "print", "assert", "extern")
STRICT, COMMON, FREE = "strict", "common", "free"


class Root(NamedTuple):
    """`level`: strict where something needs it, common where an access is widest so, free otherwise; `why` in words."""

    level: str
    why: str
    places: Callable[[tuple[int, ...]], Places]


@entity
class Elements:
    """The element, by its number in memory order, that each iteration of a loop accesses."""

    number: np.ndarray

    @cached_property
    def different(self) -> int:
        """How many are accessed."""
        return int(np.count_nonzero(np.bincount(self.number)))

    @cached_property
    def once(self) -> bool:
        return self.different == len(self.number)

    @cached_property
    def in_order(self) -> bool:
        return np.array_equal(self.number, np.arange(len(self.number)))


class Touch(NamedTuple):
    """An access to a tile."""

    at: int
    tile: str
    box: tuple[Operand, ...]
    mode: str


@state
class Layouts:
    """Where the elements of tiles are, and the iterations of loops over lanes, by position."""

    tiles: dict[str, Places] = field(default_factory=dict)
    loops: dict[int, Places] = field(default_factory=dict)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    return tuple(n.value for n in buffer.shape)


class Propagation:
    """`tiles` are those that may be spread, `fixed` the layouts of the author's, of tiles and of loops."""

    def __init__(self, kernel: Kernel, ownership: Ownership, tiles: Mapping[str, Buffer], fixed: Layouts):
        self.ownership, self.tiles, self.fixed = ownership, tiles, fixed
        found = ((at, access) for at, inst in enumerate(kernel.insts) for access in accesses(inst) if access.buffer.name in tiles)
        self.touches = [Touch(at, access.buffer.name, access.box, access.mode) for at, access in found]
        self.inside: dict[int, list[Touch]] = {}  # loops over lanes and teams -> the accesses right in them
        for touch in self.touches:
            around = ownership.around(touch.at)
            if len(around) == 1 and ownership.insts[around[0]].op == "loop" and ownership.count(around[0]):
                self.inside.setdefault(around[0], []).append(touch)
        self._elements: dict[tuple[int, str, tuple[Operand, ...]], Elements | None] = {}

    def components(self) -> list[set[str]]:
        """The tiles in groups, those accessed in one loop together."""
        groups: list[set[str]] = []
        for loop in {self.ownership.around(touch.at)[0] if self.ownership.around(touch.at) else -1 - touch.at for touch in self.touches}:
            here = {t.tile for t in self.touches if loop in self.ownership.around(t.at)[:1] or -1 - t.at == loop}
            near = [group for group in groups if group & here]
            groups = [group for group in groups if group not in near] + [here.union(*near)]
        return sorted(groups, key=sorted)

    def roots(self, component: set[str]) -> list[Root]:
        """What may deal out the tiles of a component, strict ones first."""
        insts, found, threads = self.ownership.insts, {}, self.ownership.threads
        for touch in self.touches:
            around = self.ownership.around(touch.at)
            if touch.tile not in component or not around:
                continue
            last = insts[around[-1]]
            if last.op == "reduce" and Order(*last.attr("order")).parts < 2:
                order, line = Order(*last.attr("order")), _line(last)
                over = insts[around[0]]
                if len(around) == 1 and order.lanes == threads:
                    found.setdefault((STRICT, order.v, threads), (f"as the {last.attr('op')}{line} deals elements to lanes", None))
                elif len(around) == 2 and order.lanes <= over.attr("lanes", 0):
                    team = over.attr("lanes")
                    why = f"rows as the {last.attr('op')}{line} deals them to {count(team, 'lane')}"
                    found.setdefault((STRICT, order.v, order.lanes, team), (why, team))
            elif last.attr("vector"):
                why = f"elements in a row, as the accesses{_line(last)} are widest"
                found.setdefault((COMMON, last.attr("vector"), threads), (why, None))
        found.setdefault((FREE, 1, threads), ("an element to each thread in turn", None))
        seen, roots = set(), []
        for (level, v, lanes, *_), (why, team) in sorted(found.items(), key=lambda item: (STRICT, COMMON, FREE).index(item[0][0])):
            if (v, lanes, team) not in seen:
                seen.add((v, lanes, team))
                roots.append(Root(level, why, _rows(v, lanes, team, threads) if team else _spread(v, threads)))
        return roots

    def under(self, root: Root, component: set[str]) -> Layouts:
        """The layouts that follow."""
        mine = {at for at, touches in self.inside.items() if touches[0].tile in component}
        made = Layouts(*({key: x for key, x in known.items() if key in own} for known, own in
                         ((self.fixed.tiles, component), (self.fixed.loops, mine))))  # fmt: skip
        tried: dict[int, set[str]] = {}  # loop -> the tiles known when no layout followed for it
        while True:
            before = len(made.tiles) + len(made.loops)
            for loop, touches in self.inside.items():
                known = {touch.tile for touch in touches} & made.tiles.keys()
                if loop not in made.loops and touches[0].tile in component and known != tried.get(loop):
                    tried[loop] = known
                    self._loop(loop, touches, made)
            for loop, touches in self.inside.items():
                for touch in touches if touches[0].tile in component else ():
                    self._tile(loop, touch, made)
            if len(made.tiles) + len(made.loops) > before:
                continue
            left = [name for name in component if name not in made.tiles]
            if not left:
                return made
            largest = max(left, key=lambda name: (prod(shape_of(self.tiles[name])), name))
            made.tiles[largest] = root.places(shape_of(self.tiles[largest]))

    def _loop(self, loop: int, touches: list[Touch], made: Layouts) -> None:
        """A loop over lanes runs an iteration where an element that it stores, else one that it reads, is."""
        if self.ownership.insts[loop].attr("map") != "lanes":
            return
        known = [touch for touch in touches if touch.tile in made.tiles]
        for touch in sorted(known, key=lambda touch: (touch.mode == "r", -prod(shape_of(self.tiles[touch.tile])), touch.at)):
            where, elements = made.tiles[touch.tile], self.elements(touch, loop)
            if elements is None or not elements.once:
                continue
            found = self._iterations(where, elements, shape_of(self.tiles[touch.tile]))
            if found is None or found.replicas > 1 and not self._repeatable(loop, touches):
                continue
            if isinstance(self.ownership.access(touch.at, self.tiles[touch.tile], touch.box, where, {loop: found}), Own):
                made.loops[loop] = found
                return

    def _iterations(self, where: Places, elements: Elements, shape: tuple[int, ...]) -> Places | None:
        """The places of iterations, each where the element of its number is."""
        number = elements.number
        if elements.in_order and len(number) == len(where.thread):
            return by_number(where, shape)
        thread, slot = where.thread[number], where.slot[number]
        return written(thread, _ranked(thread, slot) if len(number) < len(where.thread) else slot)

    def _tile(self, loop: int, touch: Touch, made: Layouts) -> None:
        """A tile is where the iterations are that store its elements."""
        insts = self.ownership.insts
        over = insts[loop].attr("map") == "teams"
        if touch.mode == "r" or touch.tile in made.tiles or not over and loop not in made.loops:
            return
        count = self.ownership.count(loop)
        where = teams(count, insts[loop].attr("lanes"), self.ownership.threads) if over else made.loops[loop]
        elements = self.elements(touch, loop)
        if elements is None or count != prod(shape_of(self.tiles[touch.tile])) or not elements.once:
            return
        if elements.in_order:
            found = where
        else:
            order = np.argsort(elements.number)
            found = written(where.thread[order], where.slot[order])
        if found:
            made.tiles[touch.tile] = found

    def elements(self, touch: Touch, loop: int) -> Elements | None:
        """What the iterations of a loop access; None where that depends on more, or may lie outside."""
        key = (loop, touch.tile, touch.box)
        if key not in self._elements:
            shape = shape_of(self.tiles[touch.tile])
            indices = self.ownership.indices((loop,), touch.box)
            inside = indices is not None and all(((x >= 0) & (x < extent)).all() for x, extent in zip(indices, shape))
            self._elements[key] = Elements(self.ownership.numbers((loop,), touch.box, row_major(shape))) if inside else None
        return self._elements[key]

    def _repeatable(self, loop: int, touches: list[Touch]) -> bool:
        """Whether several threads may run an iteration, each to store to its copy of an element: what it does beside has no effect that
        would show twice. A loop that only reads will be run by one (`Chooser.follow`).
        """
        inside = (self.ownership.insts[at] for at in self.ownership.regions.body(loop))
        return all(touch.mode == "r" for touch in touches) or not any(inst.op in EFFECTS for inst in inside)


def single(where: Places, threads: int) -> Places | None:
    """One replica of iterations, the first that so many threads can count; None where there is none."""
    for r in range(where.replicas):
        found = written(where.thread[:, r : r + 1], where.slot[:, r : r + 1])
        if found and held(found, threads):
            return found
    return None


def _ranked(thread: np.ndarray, slot: np.ndarray) -> np.ndarray:
    """Slots without those between that a thread does not have."""
    order = np.lexsort((slot.ravel(), thread.ravel()))
    sorted_ = thread.ravel()[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_[1:] != sorted_[:-1]]))
    rank = np.empty(slot.size, np.int64)
    rank[order] = np.arange(slot.size) - np.repeat(starts, np.diff([*starts, slot.size]))
    return rank.reshape(slot.shape)


def _spread(v: int, threads: int) -> Callable[[tuple[int, ...]], Places]:
    return lambda shape: places(spread(v, threads), (prod(shape),))


def _rows(v: int, lanes: int, team: int, threads: int) -> Callable[[tuple[int, ...]], Places]:
    """Rows dealt to teams in turn, the elements of a row to lanes, v at a time."""

    def of(shape: tuple[int, ...]) -> Places:
        if len(shape) == 1:
            return places(spread(1, threads), shape)
        several, length = threads // team, shape[-1]
        dims, row, k = ("i, k", "i", "k") if len(shape) == 2 else ("e", f"e // {length}", f"e % {length}")
        per = -(-length // (v * lanes)) * v
        text = f"{row} % {several} * {team} + {k} // {v} % {lanes}, {row} // {several} * {per} + {k} // {v * lanes} * {v} + {k} % {v}"
        return places(parse(f"[{dims}] -> [{text}]"), shape if len(shape) == 2 else (prod(shape),))

    return of


def _line(inst: Inst) -> str:
    return f" on line {inst.loc[0]}" if inst.loc else ""
