"""Kept rows that may begin anywhere: rows that lanes can hold as they lie in memory (stage=team).

Lanes that keep a row hold what the order of its reductions deals them, V elements in a row, counted from the row's first. Where rows begin
at no multiple of V elements in memory, each such V lie in two aligned vectors. But a lane may as well hold the aligned vectors, counted
from the one in which the row begins: then what runs over the row loads and stores them whole, and reductions hand over what is of the next
lane once, at their end, as those of rows that are not kept do (`rows_anywhere`, `vxc.passes.lined_reduce`).

The array whose vectors they are is one that is written, if any is: what is loaded from elsewhere is two vectors and a shift, and stores
have nothing like it. Of arrays that each row has anew (a row's weights) nothing is asked; where another array of rows is at multiples as
it is, or a lane would need more registers, rows stay as they are dealt.
"""

from __future__ import annotations

from collections.abc import Iterator

from vxc.analysis.forms import Atom, form
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
    home: int
    access: int

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
    found = _array(kernel, regions, sweeps, order.v)
    if found is None:
        return None
    row = KeptRow(order, length, sweeps, *found)
    return row if row.whole and row.steps == -(-length // (order.v * order.lanes)) else None


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


def _array(kernel: Kernel, regions: Regions, sweeps: tuple[int, ...], v: int) -> tuple[int, int] | None:
    """The sweep and the access of the array whose vectors lanes may hold: the first that is written, else the first that is read."""
    offsets, made = Offsets.of(kernel.params), definitions(kernel.insts)
    for inst in kernel.insts:
        offsets.define(inst)
    places = [*_places(kernel, regions, offsets, sweeps, v)]
    if not places or any(met for _, _, met in places):
        return None

    def early(home: int, at: int) -> bool:
        """Whether where its row begins follows from what is known before the first sweep."""
        needed = slice_of(kernel.insts, regions, home, accesses(kernel.insts[at])[0].box)
        inside = {kernel.insts[i].result for i in needed}
        used = [x for i in needed if i != home for x in kernel.insts[i].operands] + [*accesses(kernel.insts[at])[0].box]
        known = all(type(x) is not Value or x in inside or made.get(x.name, -1) < sweeps[0] for x in used)
        return known and all(i == home or OPS[kernel.insts[i].op].pure for i in needed)

    usable = [(home, at) for home, at, _ in places if early(home, at)]
    return min(usable, key=lambda place: (kernel.insts[place[1]].op != "store", place[1]), default=None)


def _places(kernel: Kernel, regions: Regions, offsets: Offsets, sweeps: tuple[int, ...], v: int) -> Iterator[tuple[int, int, bool]]:
    """(sweep, access, whether its rows begin at multiples of 16 bytes as far as is known) of arrays that have a row to each iteration."""
    for home in sweeps:
        index, row = Atom(kernel.insts[home].result.name), Atom(kernel.insts[regions.parent[home]].result.name)
        for at in regions.body(home):
            for access in accesses(kernel.insts[at]):
                buffer = access.buffer
                if buffer.space != "param" or buffer.dtype.bits < 8 or v * buffer.dtype.bytes != VECTOR or kernel.insts[at].op == "atomic":
                    continue
                offset = offsets.linear(buffer, access.box)
                first = offset.without(index)
                if offset.coefficient(index) == form(1) and index not in first.atoms() and row in first.atoms():
                    yield home, at, buffer.align in (VECTOR, None) and offsets.divisible(first, v, {}) is not None
