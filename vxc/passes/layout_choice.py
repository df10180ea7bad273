"""Choosing the layouts of some tiles: every root is followed through, costed, and the cheapest taken (part of infer-layouts).

Under a root a tile lives in registers where each thread stores to its own elements only; what threads read of others' they get by a shuffle
or, if that is cheaper than to keep the tile in shared memory, by an exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from math import prod

import numpy as np

from vxc.analysis.ownership import Foreign, Own, Ownership, Shuffle
from vxc.ir.kernel import GLOBAL, Buffer, Const, Kernel
from vxc.ir.ops import accesses
from vxc.layout.places import different
from vxc.passes.layout_cost import Cost, Costs
from vxc.passes.layout_roots import Layouts, Propagation, Root, Touch, shape_of, single
from vxc.record import state
from vxc.target import WARP

# Registers of 4 bytes that a lane gives at most, as timed on an H200 (tiles of so many registers of each of 128 threads, softmax of their
# rows or sums with the row read backwards; 2^18 rows of 128 f32): in registers, in shared memory, us.
#   rows reduced by teams            32: 77, 113    48: 106, 120    64: 99, 150    96: 120, 196    128: 152, 241    192: 219, 338
#   elements of others exchanged      4: 78, 84      8: 78, 82      12: 69, 81     16: 80, 82      24: 77, 81       32: 83, 83
REGISTERS = 128  # to one tile: with the addresses of unrolled loops that is 190 of the 255 that there are, with 192 it is 215
TOGETHER = 128  # to all tiles of which teams reduce rows
EXCHANGED = 12  # to a tile of which other threads read elements through shared memory: of 14 on, quotients of the row's sum are spilled

NOT_ALL = ("not all threads that hold an element store to it", "not all threads have an element to give to others by a shuffle")
SEEN = (*GLOBAL, "shared")  # memory that threads share


def too_large(size: int) -> str | None:
    """Why a tile that takes so many bytes of a thread is not spread, or None."""
    return f"it would take {size // 4} registers of each thread, more than {REGISTERS}" if size > 4 * REGISTERS else None


@state
class Choice:
    """`shared` are the tiles that live in shared memory, with the reason and the place of it; `exchanged` and `shuffled` the reads of
    others' elements.
    """

    root: Root
    layouts: Layouts
    shared: dict[str, tuple[str, tuple[int, int] | None]] = field(default_factory=dict)
    exchanged: list[Touch] = field(default_factory=list)
    shuffled: list[Touch] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)


class Chooser:
    def __init__(self, kernel: Kernel, tiles: Mapping[str, Buffer], fixed: Layouts):
        self.kernel, self.tiles, self.fixed = kernel, tiles, fixed.tiles
        self.ownership = Ownership(kernel)
        self.costs = Costs(self.ownership)
        self.spreading = Propagation(kernel, self.ownership, tiles, fixed)

    def components(self) -> list[tuple[set[str], list[Choice]]]:
        """The tiles in groups that are chosen together, with what each root makes of them, the choice first."""
        return [(tiles, self._ranked(tiles)) for tiles in self.spreading.components()]

    def _ranked(self, component: set[str]) -> list[Choice]:
        touches = {name: [touch for touch in self.spreading.touches if touch.tile == name] for name in component}
        found = [self.follow(root, touches) for root in self.spreading.roots(component)]
        if len(found) == 1:
            return found
        for choice in found:
            choice.cost = self.cost(choice, touches)
        apart = self.kernel.attr("rows") == 1  # else several groups of lanes would share one array
        return sorted(found, key=lambda choice: (bool(choice.shared or choice.exchanged) and not apart, choice.cost.key))

    def follow(self, root: Root, touches: Mapping[str, list[Touch]]) -> Choice:
        """What a root makes of tiles, given the accesses to each."""
        layouts, met = self.spreading.under(root, {*touches}), {}
        while True:
            choice = Choice(root, layouts, dict(met))
            for name in sorted(touches.keys() - met.keys()):
                self._home(name, touches[name], choice)
            self._spare(touches, choice)
            alone = [at for at, where in layouts.loops.items() if where.replicas > 1 and not self._repeats(at, choice)]
            overtaken = {name: why for name in touches if name not in choice.shared and (why := self._overtaken(touches[name], choice))}
            if not alone and not overtaken:
                return choice
            met |= overtaken
            for at in alone:
                if (one := single(layouts.loops[at], self.ownership.threads)) is not None:
                    layouts.loops[at] = one
                else:
                    del layouts.loops[at]

    def _repeats(self, loop: int, choice: Choice) -> bool:
        """Whether a loop stores to a tile in registers, of which several threads have copies."""
        return any("w" in touch.mode and touch.tile not in choice.shared for touch in self.spreading.inside[loop])

    def _spare(self, touches: Mapping[str, list[Touch]], choice: Choice) -> None:
        """Moves tiles that teams access to shared memory, the largest first, while all take too many registers together."""
        sizes = {name: self._registers(name, choice) for name in touches if name not in choice.shared}
        insts, around = self.kernel.insts, self.ownership.around
        movable = [name for name in sizes if any(len(around(t.at)) > 1 or insts[around(t.at)[0]].attr("map") == "teams"
                                                 for t in touches[name] if around(t.at))]  # fmt: skip
        movable = [name for name in movable if name not in self.fixed and self.kernel.attr("rows") == 1]
        for name in sorted(movable, key=lambda name: (-sizes[name], name)):
            total = sum(sizes.values())
            if total > TOGETHER:
                choice.shared[name] = f"tiles would take {total} registers of each thread together, more than {TOGETHER}", None
                choice.exchanged = [touch for touch in choice.exchanged if touch.tile != name]
                choice.shuffled = [touch for touch in choice.shuffled if touch.tile != name]
                del sizes[name]

    def _registers(self, name: str, choice: Choice) -> int:
        return -(-choice.layouts.tiles[name].slots * self.tiles[name].dtype.bytes // 4)

    def cost(self, choice: Choice, touches: Mapping[str, list[Touch]]) -> Cost:
        """What it all costs, given the accesses to each tile."""
        shared = [touch for name in choice.shared for touch in touches[name]]
        outermost = {self.ownership.around(t.at)[0] for name in touches for t in touches[name] if self.ownership.around(t.at)}
        cost = self.costs.loops(sorted(outermost), choice.layouts)
        for touch in [*shared, *choice.exchanged]:
            cost.access(touch.tile, self._turns(touch, choice))
        for touch in self._copies(choice.exchanged):
            cost.access(touch.tile, self._exchange(touch, choice))
            cost.barriers += 2 * self.costs.weight(touch.at)
            cost.exchanges += 1
        cost.barriers += sum(self._barriers(touches[name]) for name in choice.shared)
        cost.shuffles = sum(2 * self.costs.weight(touch.at) * self.ownership.threads / WARP for touch in choice.shuffled)
        cost.registers = sum(self._registers(name, choice) for name in touches if name not in choice.shared)
        return cost

    def _turns(self, touch: Touch, choice: Choice) -> np.ndarray:
        return self.costs.turns(touch.at, self.tiles[touch.tile], touch.box, choice.layouts)

    def _exchange(self, touch: Touch, choice: Choice) -> np.ndarray:
        around = self.ownership.around(touch.at)
        return self.costs.exchange(self.tiles[touch.tile], choice.layouts.tiles[touch.tile], around[0] if around else touch.at)

    def _copies(self, reads: Iterable[Touch]) -> list[Touch]:
        """A read for each copy of a tile: those in one loop share it."""
        return list({(touch.tile, (self.ownership.around(touch.at) or [touch.at])[0]): touch for touch in reads}.values())

    def _barriers(self, touches: list[Touch]) -> float:
        """Two for each loop that stores to a tile in shared memory."""
        loops = {(self.ownership.around(t.at) or [t.at])[0] for t in touches if "w" in t.mode}
        return 2 * sum(self.costs.weight(loop) for loop in loops)

    def _home(self, name: str, touches: list[Touch], choice: Choice) -> None:
        """Decides where a tile lives and how threads come to what others hold."""
        buffer, where = self.tiles[name], choice.layouts.tiles[name]
        size = where.slots * buffer.dtype.bytes
        why = too_large(size)
        if why:
            choice.shared[name] = why, None
            return
        exchanged, shuffled = [], []
        full = where.slots * self.ownership.threads == different(where.thread * where.slots + where.slot)
        for touch in touches:
            found = self.ownership.access(touch.at, buffer, touch.box, where, choice.layouts.loops)
            if isinstance(found, Own) and (touch.mode == "r" or found.whole):
                continue
            why = found.why if isinstance(found, Foreign) else NOT_ALL[isinstance(found, Shuffle)]
            own = self.ownership.around(touch.at)[:1]
            stored = any("w" in other.mode and own and self.ownership.around(other.at)[:1] == own for other in touches)
            if isinstance(found, Shuffle) and not stored and full:
                shuffled.append(touch)
            elif "w" in touch.mode or stored or not self._filled(name, touches, touch):
                choice.shared[name] = why, self._loc(touch)
                return
            else:
                exchanged.append((touch, why))
        if exchanged and (why := self._dear(name, touches, exchanged, size, choice)):
            choice.shared[name] = why, self._loc(exchanged[0][0])
            return
        choice.exchanged += [touch for touch, _ in exchanged]
        choice.shuffled += shuffled

    def _dear(self, name: str, touches: list[Touch], exchanged: list[tuple[Touch, str]], size: int, choice: Choice) -> str | None:
        """Why a tile of which others' elements are read is kept in shared memory, if it is cheaper there than copied for each loop."""
        why = exchanged[0][1]
        if size > 4 * EXCHANGED and name not in self.fixed:
            return f"{why}, and it would take {size // 4} registers of each thread"
        apart, together = Cost(), Cost(barriers=self._barriers(touches))
        for touch in touches:
            together.access(name, self._turns(touch, choice))
        for touch, _ in exchanged:
            apart.access(name, self._turns(touch, choice))
        for touch in self._copies(touch for touch, _ in exchanged):
            apart.access(name, self._exchange(touch, choice))
            apart.barriers += 2 * self.costs.weight(touch.at)
        return why if apart.cycles >= together.cycles else None

    def _overtaken(self, touches: list[Touch], choice: Choice) -> tuple[str, tuple[int, int] | None] | None:
        """Why not all threads that hold an element can run a loop that stores to it: one may have stored already what others load."""
        if choice.layouts.tiles[touches[0].tile].replicas == 1:
            return None
        for loop in {(self.ownership.around(t.at) or [t.at])[0] for t in touches if "w" in t.mode}:
            inside = [a for i in range(loop, self.ownership.regions.end[loop]) for a in accesses(self.kernel.insts[i])]
            seen = {mode: {a.buffer.name for a in inside if mode in a.mode and self._seen(a.buffer, choice)} for mode in "rw"}
            if both := sorted(seen["r"] & seen["w"]):
                why = f"the loop that stores to it reads and writes `{both[0]}`, where one thread may be ahead of another"
                return f"{why} with the same element", self.kernel.insts[loop].loc
        return None

    def _seen(self, buffer: Buffer, choice: Choice) -> bool:
        """Whether threads share a buffer."""
        return buffer.space in SEEN or buffer.space == "fragment" and (buffer.name not in self.tiles or buffer.name in choice.shared)

    def _loc(self, touch: Touch) -> tuple[int, int] | None:
        return self.kernel.insts[touch.at].loc

    def _filled(self, name: str, touches: list[Touch], read: Touch) -> bool:
        """Whether every element of a tile is stored to before a read, so that all of it may be copied."""
        ownership, regions = self.ownership, self.ownership.regions
        before = (ownership.around(read.at) or [read.at])[0]
        outside = {-1, *regions.parents(before)}
        for touch in touches:
            loop = regions.parent[touch.at]
            if touch.mode != "w" or loop >= before or regions.parent[loop] not in outside or ownership.around(touch.at) != (loop,):
                continue
            known = ownership.count(loop) and type(ownership.insts[loop].operands[1]) is Const
            elements = self.spreading.elements(touch, loop) if known else None
            if elements and elements.different == prod(shape_of(self.tiles[name])):
                return True
        return False
