"""Kept rows that may begin anywhere: rows that lanes can hold as they lie in memory (stage=team).

Lanes that keep a row hold what the order of its reductions deals them, V elements in a row, counted from the row's first. Where rows begin
at no multiple of V elements in memory, each such V lie in two aligned vectors. But a lane may as well hold the aligned vectors, counted
from the one in which the row begins: then what runs over the row loads and stores them whole, and reductions hand over what is of the next
lane once, at their end, as those of rows that are not kept do (`rows_anywhere`, `vxc.passes.lined_reduce`).

Other arrays (weights, which each row has anew; rows that lie otherwise) are then met at any place. So each array whose vectors they could
be is costed by the accesses of a lane, and so are elements as they are dealt; where lanes would need more registers, they stay so. What it
takes on an H200 is in `vxc/README.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, inf

from vxc.analysis.forms import Atom, Form, form
from vxc.analysis.offsets import Offsets
from vxc.analysis.sweeps import ROW
from vxc.analysis.thread_loop import slice_of
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions, definitions
from vxc.layout.layout import distribution, parse
from vxc.record import record
from vxc.semantics import Order
from vxc.target import VECTOR


@record
class KeptRow:
    """A row of `length` elements that `order` deals to lanes, and what runs over it, `sweeps`, by position. `access`, at a position in the
    sweep at `home`, is to the array whose vectors lanes may hold.
    """

    order: Order
    length: int
    sweeps: tuple[int, ...]
    home: int = -1
    access: int = -1

    @property
    def stretched(self) -> int:
        """Elements from the first of the vector in which a row begins, at most."""
        return self.length + self.order.v - 1

    @property
    def steps(self) -> int:
        """Vectors of a lane."""
        return -(-self.stretched // (self.order.v * self.order.lanes))

    @property
    def whole(self) -> int:
        """How many of them hold nothing behind the row, whichever lane's they are."""
        return self.length // (self.order.v * self.order.lanes)


def kept_row(kernel: Kernel) -> KeptRow | None:
    """The row that a kernel keeps, if its lanes should hold the vectors in which it lies."""
    tiles = [inst for inst in kernel.insts if inst.op == "fragment"]
    kinds = {(inst.result.shape, inst.attr("layout")) for inst in tiles}
    if len(kinds) != 1:
        return None
    ((shape, layout),) = kinds
    regions = Regions.of(kernel.insts)
    sweeps = _sweeps(kernel, regions, {inst.result for inst in tiles})
    reduces = [kernel.insts[at] for at in sweeps if kernel.insts[at].op == "reduce"]
    orders = {inst.attr("order") for inst in reduces}
    ours = any(kernel.insts[at].attr("independent") == ROW for at in sweeps)  # what a `grid` keeps lies as its author says
    if not ours or len(shape) != 1 or len(orders) != 1 or any(inst.attr("op") in ("argmax", "argmin") for inst in reduces):
        return None
    order, length = Order(*orders.pop()), shape[0].value
    if order.lanes == 1 or order.lanes != kernel.attr("group") or order.chunk != order.v or order.parts != 1 or order.v < 2:
        return None
    alike = all(kernel.insts[at].attr("layout") == layout and _over(kernel.insts[at], length) for at in sweeps)
    if not alike or parse(layout) != distribution(order) or len({regions.parent[at] for at in sweeps}) != 1:
        return None
    row = KeptRow(order, length, sweeps)
    fits = row.whole and row.steps == -(-length // (order.v * order.lanes))
    return _array(kernel, regions, row) if fits else None


def _over(sweep: Inst, length: int) -> bool:
    """Whether lanes run over a row of this length, from its first element on."""
    if sweep.op == "reduce":
        return sweep.operands[1] == Const(length)
    return sweep.operands in ((Const(0), Const(length)), (Const(0), Const(length), Const(1))) and sweep.attr("map") == "lanes"


def _sweeps(kernel: Kernel, regions: Regions, tiles: set[Buffer]) -> tuple[int, ...]:
    """What runs over the elements of tiles; nothing where one is accessed otherwise than at the element that the iteration is of."""
    found = set()
    for at, inst in enumerate(kernel.insts):
        for access in accesses(inst):
            if access.buffer in tiles:
                home = next((p for p in regions.parents(at) if (kernel.insts[p].result,) == tuple(access.box)), None)
                if home is None or inst.op not in ("load", "store"):
                    return ()
                found.add(home)
    return tuple(sorted(found))


def _array(kernel: Kernel, regions: Regions, row: KeptRow) -> KeptRow | None:
    """The row with the array whose vectors lanes should hold; None where they should hold elements as they are dealt."""
    offsets, made = Offsets.of(kernel.params), definitions(kernel.insts)
    for inst in kernel.insts:
        offsets.define(inst)
    places = [*_places(kernel, regions, offsets, row)]
    stored = {place.buffer for place in places if place.stored}
    if any(place.buffer in stored for place in places if not place.stored):
        return None  # what a vector has of the next row may be stored there meanwhile

    def early(home: int, at: int) -> bool:
        """Whether where its row begins follows from what is known before the first sweep."""
        box = accesses(kernel.insts[at])[0].box
        needed = slice_of(kernel.insts, regions, home, box)
        inside = {kernel.insts[i].result for i in needed}
        used = [*box, *(x for i in needed if i != home for x in kernel.insts[i].operands)]
        known = all(type(x) is not Value or x in inside or made.get(x.name, -1) < row.sweeps[0] for x in used)
        return known and all(i == home or OPS[kernel.insts[i].op].pure for i in needed)

    def cost(line: _Place | None) -> float:
        """Accesses of a lane; one at each end of a row has a part of a vector, whose elements go one by one, by few lanes, where the array
        is written. Rows that lie otherwise are not worth it where they are of words, which narrow accesses cost little, or where all
        vectors are at an end.
        """
        ends = row.order.v * sum(place.buffer.mode != "in" for place in places) if line else 0
        whole = [place.met if line is None else place.beside(line, row.order.v, offsets) for place in places]
        if line and (line.size >= 4 or row.whole == 1) and any(place.own and not met for place, met in zip(places, whole)):
            return inf
        return row.steps * sum(map(_Place.cost, places, whole)) + ends

    usable = [place for place in places if not place.met and place.size * row.order.v == VECTOR and early(place.home, place.at)]
    line = min([None, *sorted(usable, key=lambda place: not place.stored)], key=cost)
    return replace(row, home=line.home, access=line.at) if line else None


@record
class _Place:
    """An access of a sweep to consecutive elements, the first at `first`: `met` is whether rows begin with a vector, as far as is known,
    `own` whether each iteration has a row of its own.
    """

    home: int
    at: int
    buffer: Buffer
    first: Form
    stored: bool
    met: bool
    own: bool

    @property
    def size(self) -> int:
        return self.buffer.dtype.bytes

    def beside(self, line: _Place, v: int, offsets: Offsets) -> bool:
        """Whether its vectors begin where those of `line` do."""
        together = self.buffer == line.buffer or self.buffer.align == line.buffer.align == VECTOR
        return together and offsets.divisible(self.first - line.first, v, {}) == {}

    def cost(self, met: bool) -> float:
        """Accesses for 16 bytes, where they are a vector, or anywhere: see `vector_width`."""
        if met or not self.stored and self.size < 4:
            return 1 if met else 2
        return sum(VECTOR // gcd(past, VECTOR) for past in range(0, VECTOR, self.size)) * self.size / VECTOR


def _places(kernel: Kernel, regions: Regions, offsets: Offsets, row: KeptRow) -> Iterator[_Place]:
    for home in row.sweeps:
        index = Atom(kernel.insts[home].result.name)
        for at in regions.body(home):
            for access in accesses(kernel.insts[at]):
                buffer, stored = access.buffer, "w" in access.mode
                if buffer.space != "param" or buffer.dtype.bits < 8 or buffer.dtype.bytes >= VECTOR:
                    continue
                offset = offsets.linear(buffer, access.box)
                first = offset.without(index)
                if offset.coefficient(index) == form(1) and index not in first.atoms():
                    met = buffer.align in (VECTOR, None) and offsets.divisible(first, row.order.v, {}) is not None
                    own = kernel.insts[regions.parent[home]].result.name in {a.name for a in first.atoms()}
                    yield _Place(home, at, buffer, first, stored, met, own)
