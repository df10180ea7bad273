"""Lanes in the order in which they move whole sectors, and do not meet in a bank (part of infer-layouts).

Who takes which elements of a loop between global and shared memory is free: lanes are numbered as in a block of A x B x C of which the
last two axes change places. Each such order is costed by the sectors of what every warp accesses; and by turns of the banks, of arrays
that lie as the author says, others being placed afterwards. A loop whose `layout` is another one than `in_turn`, and that is not `given`,
is run so by lower-to-threads, several elements in a row to a lane or not.

    shared @s: f16[4, 4, 16, 16] {layout=..}
    %i = loop 0, 4096 {layout="[i] -> [i % 128, i // 128]", map="lanes", vector=8}
        ->  %i = loop 0, 4096 {layout="[e] -> [e // 8 % 2 + e // 64 % 4 * 2 + e // 16 % 4 * 8 + e // 256 % 4 * 32, ..]", ..}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vxc.analysis.ownership import Ownership, Runs
from vxc.ir.builder import Builder
from vxc.ir.kernel import GLOBAL, Buffer, Inst, Kernel, Operand, Scalar
from vxc.ir.ops import accesses
from vxc.layout.arrangement import arrangement
from vxc.layout.digits import fit
from vxc.layout.layout import Layout, parse
from vxc.layout.places import places
from vxc.pass_manager import Context
from vxc.passes.layout_cost import SECTOR, Costs
from vxc.passes.layout_roots import shape_of
from vxc.passes.own_elements import shares
from vxc.passes.prove_parallel_text import source_name

LESS = 0.95  # of the cycles before, at most, for another order


class LaneOrder(NamedTuple):
    """Lane a + A * (c + C * (b + B * d)) runs what lane a + A * (b + B * (c + C * d)) would: powers of two; B = 1 for no other order."""

    a: int
    b: int
    c: int

    def layout(self, lanes: int, vector: int) -> Layout:
        """Of a loop dealt to so many lanes, `vector` elements in a row to each."""
        a, b, c = self
        digits = [(1, a, 1), (a * b, c, a), (a, b, a * c), (a * b * c, lanes // (a * b * c), a * b * c)]
        terms = [f"e // {at * vector} % {radix}{f' * {stride}' * (stride > 1)}" for at, radix, stride in digits if radix > 1]
        return parse(f"[e] -> [{' + '.join(terms)}, e // {lanes * vector} * {vector} + e % {vector}]")


class _Taken(NamedTuple):
    """What a loop costs: sectors of global memory, and turns of the banks; `fewest` and `least` are those that no order goes below."""

    sectors: float
    fewest: float
    turns: float
    least: float

    @property
    def cycles(self) -> float:
        return SECTOR * self.sectors + self.turns

    @property
    def best(self) -> bool:
        return SECTOR * self.fewest + self.least > LESS * self.cycles


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
    """The kernel with a layout of loops over lanes that costs less than to deal out elements in turn."""
    shared = [inst for inst in kernel.insts if inst.op == "shared"]
    if not shared:
        return kernel
    insts, orders = [*kernel.insts], _Orders(kernel, {inst.result.name: _places(inst) for inst in shared if inst.attr("layout")})
    for at, inst in enumerate(kernel.insts):
        if inst.op == "loop" and inst.attr("map") == "lanes" and inst.attr("layout") == in_turn(orders.lanes):
            found = orders.best(at)
            if found:
                layout, before, after = found
                insts[at] = inst.with_attrs(layout=str(layout))
                name = source_name(inst.result.name)
                text = f"parallel {name}: lanes take elements in another order than in turn: {_words(before, after)}"
                context.applied(text, kernel.name, inst.loc)
    return replace(kernel, insts=tuple(insts))


def _words(before: _Taken, after: _Taken) -> str:
    """What is gained."""
    found = [f"{after.sectors:,.0f} instead of {before.sectors:,.0f} sectors"] if after.sectors != before.sectors else []
    if after.turns != before.turns:
        turns = f"{after.turns / after.least:.3g} instead of {before.turns / before.least:.3g} turns of the banks to an access"
        found.append(f"{turns} of what lies as @layout says")
    return ", ".join(found)


def _places(inst: Inst) -> np.ndarray:
    """Where each element of a shared array lies, by its number in memory order."""
    return arrangement(inst.attr("layout")).offsets(shape_of(inst.result))


class _Orders:
    """`laid` are the places of elements of arrays that lie as the author says."""

    def __init__(self, kernel: Kernel, laid: dict[str, np.ndarray]):
        self.kernel, self.laid, self.lanes = kernel, laid, kernel.attr("group")
        self.ownership = Ownership(kernel)
        self.costs = Costs(self.ownership)

    def best(self, loop: int) -> tuple[Layout, _Taken, _Taken] | None:
        """The layout of a loop that costs least, with what it takes without and with it; None where that is as it is, or not known."""
        body = self.ownership.regions.body(loop)
        spaces = {access.buffer.space for at in body for access in accesses(self.kernel.insts[at])}
        if "shared" not in spaces or "fragment" in spaces:
            return None
        inside = [at for at in body if self.ownership.around(at) == (loop,)]
        vector = self.kernel.insts[loop].attr("vector", 1)
        before = self._taken(loop, inside, LaneOrder(1, 1, 1).layout(self.lanes, vector))
        if before is None or before.best:
            return None
        best: tuple[Layout, _Taken] | None = None
        for order in _orders(self.lanes):
            layout = order.layout(self.lanes, vector)
            taken = self._taken(loop, inside, layout)
            if taken is not None and taken.cycles < (best[1] if best else before).cycles:
                best = layout, taken
                if taken.best:
                    break
        return (best[0], before, best[1]) if best and best[1].cycles <= LESS * before.cycles else None

    def _taken(self, loop: int, inside: list[int], layout: Layout) -> _Taken | None:
        """By the accesses at these positions, with this layout of the loop around them."""
        count = self.ownership.count(loop)
        runs = self.ownership.runs(loop + 1, {loop: places(layout, (count,))}) if count else ""
        if isinstance(runs, str):
            return None
        found = np.zeros(4)
        for at in inside:
            for buffer, box, _ in accesses(self.kernel.insts[at]):
                found += self.costs.weight(at) * np.array(self._access(runs, buffer, box))
        return _Taken(*found.tolist())

    def _access(self, runs: Runs, buffer: Buffer, box: Sequence[Operand]) -> tuple[float, ...]:
        if buffer.space in GLOBAL:
            return self.costs.sectors(runs, buffer, box), self.costs.fewest(runs, buffer, box), 0, 0
        if buffer.name not in self.laid:
            return 0, 0, 0, 0
        phases = self.costs.phases(runs, buffer, box, self.laid[buffer.name])
        return 0, 0, phases.sum(), (phases > 0).sum()


def _orders(lanes: int) -> Iterator[LaneOrder]:
    """All but that in which lanes are numbered, those that move elements least far first."""
    most = lanes & -lanes
    powers = [1 << k for k in range(1, most.bit_length())]
    found = [LaneOrder(n // (b * c), b, c) for n in powers for b in powers for c in powers if b * c <= n]
    yield from sorted(found, key=lambda order: (order.a * order.b * order.c, -order.a, order.b))
