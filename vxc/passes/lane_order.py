"""Lanes in the order in which they do not meet in a bank of a shared array that lies as the author says (part of infer-layouts).

Where such an array lies is not free, but who takes which elements of a loop is: lanes are numbered as in a block of A x B x C of which the
last two axes change places. Each such order is costed, by sectors and turns of the banks of what every lane accesses. A loop whose
`layout` is another one than `in_turn`, and that is not `given`, is run so by lower-to-threads, several elements in a row to a lane or not.

    shared @s: f16[4, 4, 16, 16] {layout=..}
    %i = loop 0, 4096 {layout="[i] -> [i % 128, i // 128]", map="lanes", vector=8}
        ->  %i = loop 0, 4096 {layout="[e] -> [e // 8 % 2 + e // 64 % 4 * 2 + e // 16 % 4 * 8 + e // 256 % 4 * 32, ..]", ..}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vxc.analysis.ownership import Ownership
from vxc.ir.builder import Builder
from vxc.ir.kernel import GLOBAL, Inst, Kernel, Scalar
from vxc.ir.ops import accesses
from vxc.layout.arrangement import arrangement
from vxc.layout.digits import Digit, fit
from vxc.layout.layout import Layout, parse
from vxc.layout.places import places
from vxc.pass_manager import Context
from vxc.passes.layout_cost import SECTOR, Costs
from vxc.passes.layout_roots import shape_of
from vxc.passes.own_elements import shares
from vxc.passes.prove_parallel_text import source_name

LESS = 0.95  # of the cycles before, at most, for another order


class Order(NamedTuple):
    """Lane a + A * (c + C * (b + B * d)) runs what lane a + A * (b + B * (c + C * d)) would: powers of two; B = 1 for no other order."""

    a: int
    b: int
    c: int

    def layout(self, lanes: int, vector: int) -> Layout:
        """Of a loop dealt to so many lanes, `vector` elements in a row to each."""
        a, b, c = self
        digits = [(1, a, 1), (a * b, c, a), (a, b, a * c), (a * b * c, lanes // (a * b * c), a * b * c)]
        terms = [f"e // {at * vector} % {radix} * {stride}" for at, radix, stride in digits if radix > 1]
        return parse(f"[e] -> [{' + '.join(terms)}, e // {lanes * vector} * {vector} + e % {vector}]")


class _Taken(NamedTuple):
    """What a loop costs: sectors of global memory, turns of the banks, and those that no conflict would take."""

    sectors: float
    turns: int
    least: int

    @property
    def cycles(self) -> float:
        return SECTOR * self.sectors + self.turns


def in_turn(lanes: int) -> str:
    """The layout of a loop whose elements are dealt to lanes in turn; several in a row, where the loop is of vectors."""
    return f"[i] -> [i % {lanes}, i // {lanes}]"


def first_of(b: Builder, loop: Inst, lane: Scalar, lanes: int) -> Scalar:
    """The number of this lane in the order in which a loop's elements are dealt."""
    text, vector = loop.attr("layout"), loop.attr("vector", 1)
    if text is None or text == in_turn(lanes):
        return lane
    thread = places(parse(text), (lanes * vector,)).thread[::vector, 0]
    if not np.array_equal(np.sort(thread), np.arange(lanes)):
        return lane  # any order will do
    digits = fit(np.argsort(thread))
    return lane if digits is None else shares(b, digits, lane, 0)


def in_order(kernel: Kernel, context: Context) -> Kernel:
    """The kernel with a layout of loops over lanes that access arrays with a layout of the author's."""
    laid = {inst.result.name: _places(inst) for inst in kernel.insts if inst.op == "shared" and inst.attr("layout")}
    if not laid:
        return kernel
    insts, orders = [*kernel.insts], _Orders(kernel, laid)
    for at, inst in enumerate(kernel.insts):
        if inst.op == "loop" and inst.attr("map") == "lanes" and inst.attr("layout") == in_turn(orders.lanes):
            found = orders.best(at)
            if found:
                layout, before, after = found
                insts[at] = inst.with_attrs(layout=str(layout))
                text = f"parallel {source_name(inst.result.name)}: lanes take elements in another order, for shared arrays lie as @layout says"
                turns = f"{after.turns / after.least:.3g} instead of {before.turns / before.least:.3g} turns of the banks to an access"
                context.applied(f"{text}: {turns}", kernel.name, inst.loc)
    return replace(kernel, insts=tuple(insts))


def _places(inst: Inst) -> np.ndarray:
    """Where each element of a shared array lies, by its number in memory order."""
    return arrangement(inst.attr("layout")).offsets(shape_of(inst.result)).astype(np.int64)


class _Orders:
    def __init__(self, kernel: Kernel, laid: dict[str, np.ndarray]):
        self.kernel, self.laid, self.lanes = kernel, laid, kernel.attr("group")
        self.ownership = Ownership(kernel)
        self.costs = Costs(self.ownership)

    def best(self, loop: int) -> tuple[Layout, _Taken, _Taken] | None:
        """The layout of a loop that costs least, with what it takes without and with it; None where that is as it is, or not known."""
        inside = [at for at in self.ownership.regions.body(loop) if self.ownership.around(at) == (loop,)]
        found = [access for at in inside for access in accesses(self.kernel.insts[at])]
        if any(x.buffer.space == "fragment" for x in found) or not any(x.buffer.name in self.laid for x in found):
            return None
        vector = self.kernel.insts[loop].attr("vector", 1)
        before = self._taken(loop, inside, Order(1, 1, 1).layout(self.lanes, vector))
        if before is None or before.turns == before.least:
            return None
        best: tuple[float, Layout, _Taken] | None = None
        for order in _orders(self.lanes):
            layout = order.layout(self.lanes, vector)
            taken = self._taken(loop, inside, layout)
            if taken is not None and (best is None or taken.cycles < best[0]):
                best = taken.cycles, layout, taken
                if taken.turns == taken.least and taken.sectors <= before.sectors:
                    break
        if best is None or best[0] > LESS * before.cycles or best[2].turns >= before.turns:
            return None
        return best[1], before, best[2]

    def _taken(self, loop: int, inside: list[int], layout: Layout) -> _Taken | None:
        """By the accesses at these positions, with this layout of the loop around them."""
        ownership, count = self.ownership, self.ownership.count(loop)
        runs = ownership.runs(loop + 1, {loop: places(layout, (count,))}) if count else ""
        if isinstance(runs, str):
            return None
        sectors, turns, least = 0.0, 0, 0
        for at in inside:
            weight = self.costs.weight(at)
            for access in accesses(self.kernel.insts[at]):
                if access.buffer.space in GLOBAL:
                    sectors += weight * self.costs.sectors(runs, access.buffer, access.box)
                elif access.buffer.name in self.laid:
                    phases = self.costs.phases(runs, access.buffer, access.box, self.laid[access.buffer.name])
                    turns, least = turns + weight * int(phases.sum()), least + weight * int((phases > 0).sum())
        return _Taken(sectors, turns, least)


def _orders(lanes: int) -> Iterator[Order]:
    """All but that in which lanes are numbered, those that move elements least far first."""
    most = lanes & -lanes
    powers = [1 << k for k in range(1, most.bit_length())]
    found = [Order(n // (b * c), b, c) for n in powers for b in powers for c in powers if b * c <= n]
    yield from sorted(found, key=lambda order: (order.a * order.b * order.c, -order.a, order.b))
