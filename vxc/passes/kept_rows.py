"""The rows that a kernel could keep: its sweeps over one row, and what several of them compute (part of keep-rows and bound-rows)."""

from __future__ import annotations

from collections.abc import Sequence

from vxc.analysis.sweeps import Extent, Numbering, Sweep, stable_loads, sweep_extent
from vxc.diag import count
from vxc.ir.kernel import Buffer, Const, Inst, Kernel
from vxc.ir.walk import Regions
from vxc.passes.limit_unrolling import weight
from vxc.passes.nest import nest_of
from vxc.record import state
from vxc.semantics import Order

REGISTERS = 64  # of 4 bytes, that a lane gives to kept rows at most
AHEAD = 48  # the same with what is loaded ahead: beyond, the warps that it leaves no room for hide more than it does
OF_BLOCK = 32768  # of 4 bytes, that a block gives to them: half of what a multiprocessor has
RESIDENT = 768  # threads of a multiprocessor that hide the latency of rows, if their loads are all under way before the first is used
DEAR = ("div", "sqrt")  # several instructions, besides those that `weight` knows as such


@state
class Rows:
    """The sweeps of one kernel over rows of `extent`, which the reduction `first` deals to lanes as its order says. `why` is for what lanes
    cannot keep them all the same, if anything.
    """

    kernel: Kernel
    numbering: Numbering
    sweeps: Sequence[Sweep]
    first: Inst
    extent: Extent
    why: str

    @property
    def order(self) -> Order:
        return Order(*self.first.attr("order"))

    def seen(self) -> dict[int, list[int]]:
        """For each number the sweeps, by position in the list, that have it."""
        found: dict[int, list[int]] = {}
        for s, sweep in enumerate(self.sweeps):
            for n in set(sweep.numbers.values()):
                found.setdefault(n, []).append(s)
        return found

    def candidates(self) -> list[int]:
        """Numbers that two sweeps compute and that are worth keeping: loads first, then as the kernel has them."""
        moving = self.numbering.moving
        insts = {n: self.numbering.made[n][0] for n, places in self.seen().items() if len(places) > 1 and n in moving}
        worth = [n for n, inst in insts.items() if inst.op == "load" or (inst.result.dtype.is_float and _dear(inst))]
        return sorted(worth, key=lambda n: (insts[n].op != "load", n))

    def uses(self, kept: set[int]) -> dict[int, list[int]]:
        """For each kept number the sweeps, by position in the list, that compute (first) and take it."""
        found: dict[int, list[int]] = {}
        for s, sweep in enumerate(self.sweeps):
            compute, take = self.numbering.needed(sweep.roots, found)
            for n in sorted(take):
                found[n].append(s)
            for n in sorted(compute & kept):
                found[n] = [s]
        return {n: places for n, places in found.items() if len(places) > 1}

    def ahead(self) -> dict[int, list[int]]:
        """Loads of a single sweep, not the first, whose place is known before the first: as `uses` has them."""
        made = self.numbering.made
        indices = {self.kernel.insts[sweep.at].result.name for sweep in self.sweeps}
        early = {i.result.name for i in self.kernel.insts[: self.sweeps[0].at] if i.result} | {p.name for p in self.kernel.params} | indices
        found = {}
        for n, places in sorted(self.seen().items()):
            if made[n][0].op == "load" and n in self.numbering.moving and len(places) == 1 and places != [0]:
                compute, _ = self.numbering.needed([n], ())
                used = {x.name for k in compute for x in made[k][0].operands if type(x) is not Const}
                if used <= early | {made[k][0].result.name for k in compute}:
                    found[n] = [0, *places]
        return found

    def registers(self, uses: dict[int, list[int]], least: int = 1) -> float:
        """Registers of a lane that kept rows take where they take the most, between two sweeps, of `least` bytes an element or more."""
        v, lanes = self.order.v, self.order.lanes
        slots = -(-self.extent.most // (v * lanes)) * v
        size = {n: slots * max(least, self.numbering.made[n][0].result.dtype.bytes) / 4 for n in uses}
        return max((sum(size[n] for n, p in uses.items() if p[0] <= s < p[-1]) for s in range(len(self.sweeps))), default=0)

    def choice(self) -> tuple[dict[int, list[int]], dict[int, float]]:
        """(what is kept, with the sweeps that use it; what is not, with the registers that it would take)."""
        kept, refused = set(), {}
        for n in self.candidates():
            needs = self.registers(self.uses(kept | {n}))
            if needs <= min(REGISTERS, OF_BLOCK // self.order.lanes):
                kept.add(n)
            else:
                refused[n] = needs
        uses = self.uses(kept)
        early = uses | self.ahead() if uses else {}
        return uses if self.too_many(early) else early, refused

    def resident(self, uses: dict[int, list[int]]) -> int | None:
        """So many threads, where loads of other rows could be ahead of the arithmetic on the first, and what is kept leaves registers for
        it: ptxas puts them behind it otherwise, to have registers for more threads. Of 16384 rows of 1000 f16, rmsnorm takes .0215 ms for
        .0225 so, and layernorm .0233 for .0245, on an H200.
        """
        ahead = self.ahead()
        needs = self.registers({n: places for n, places in uses.items() if n not in ahead}, least=4)
        return RESIDENT if ahead and needs <= AHEAD else None

    def too_many(self, early: dict[int, list[int]]) -> str | None:
        """Why not all of this is loaded before the first sweep. Narrow elements may end up in a register each, where a row ends between."""
        for needs, limit in ((self.registers(early), AHEAD), (self.registers(early, least=4), REGISTERS)):
            if needs > limit:
                return f"{needs:,.0f} registers of each lane, more than {limit}"
        return None


def rows_of(kernel: Kernel, distinct: bool) -> Rows | None:
    """The sweeps over the first row that a nest reduces, if there are several; `distinct` says that no two parameters share memory."""
    nest, regions = nest_of(kernel), Regions.of(kernel.insts)
    outer = nest.loops[0]
    at = next(i for i, inst in enumerate(kernel.insts) if inst is outer)
    if outer.attr("threads"):
        return None
    extents = {i: found for i in regions.level(regions.body(at)) if (found := _bounded(kernel, regions, i))}
    first = next((kernel.insts[i] for i in extents if kernel.insts[i].op == "reduce"), None)
    if first is None:
        return None
    order, extent = Order(*first.attr("order")), Extent.of(first)
    sweeps = [i for i, found in extents.items() if found == extent and _same_deal(kernel.insts[i], order)]
    if len(sweeps) < 2:
        return None
    arrays = [p for p in kernel.params if isinstance(p, Buffer)]
    numbering = Numbering(stable_loads(kernel.insts, arrays, distinct))
    found = [numbering.sweep(kernel.insts, regions, i) for i in sweeps]
    widest = max(x.attr("order")[2] for x in nest.body if x.op in ("reduce", "scan"))
    return Rows(kernel, numbering, found, first, extent, _other_lanes(outer, order, widest))


def _bounded(kernel: Kernel, regions: Regions, at: int) -> Extent | None:
    """The extent of a sweep of which it is known how long it is at most."""
    found = sweep_extent(kernel.insts, regions, at)
    return found if found is not None and found.most is not None else None


def _dear(inst: Inst) -> bool:
    """Whether computing a value costs more than keeping it."""
    return inst.op in DEAR or weight(inst) > 1


def _same_deal(inst: Inst, order: Order) -> bool:
    """Whether a sweep can deal elements to lanes as an order does."""
    if inst.op == "loop":
        return True
    v, _, lanes, parts = inst.attr("order")
    return (v, lanes, parts) == (order.v, order.lanes, 1)


def _other_lanes(loop: Inst, order: Order, widest: int) -> str:
    """Why the group that runs an iteration is not that of the order, if it is not."""
    if loop.attr("lanes", order.lanes) != order.lanes:
        return f"@lanes({loop.attr('lanes')}) is not the {count(order.lanes, 'lane')} of its reductions"
    return f"other reductions take {count(widest, 'lane')}, not {order.lanes}" if widest != order.lanes else ""
