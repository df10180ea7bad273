"""Tiles spread over threads as arrays of each thread's slots (part of lower-to-threads).

An access to a tile becomes one to the slot of it that the digits of the loops around say, a read of what another lane of the warp holds a
shuffle. The digits are values that lower-to-threads gives when it opens these loops, by `Slotted`. Of an iteration that several threads
run, since the tile it writes has replicas, the first thread has the effects on memory that all see.

    fragment @f: f32[8, 32] {layout=..}            local @f: f32[2]
    %i = loop 0, 256 {.., map="lanes"}      ->     %i = loop 0, 256 {.., map="lanes"}
      store @f, %1, %2, 0.0:f32                      store @f, %i.slot, 0.0:f32
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from vxc.analysis.ownership import Foreign, Own, Ownership, Run, Shuffle, Slots
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import BOOL, I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Scalar, Value
from vxc.ir.ops import accesses
from vxc.ir.walk import names
from vxc.layout.layout import flattened, parse
from vxc.layout.places import Places, held, places
from vxc.passes.own_elements import of_layout
from vxc.record import record
from vxc.target import WARP


@record
class Slotted:
    """A loop that runs over slots: `digits` (highest first) count them, `first` is whether this thread is the iteration's first."""

    run: Run
    digits: tuple[Value, ...]
    first: Value | None = None


def in_slots(kernel: Kernel) -> tuple[Kernel, dict[Value, Slotted]]:
    """The kernel with tiles in slots, and the loops that run over them, or over those of a layout of the author's, by their index."""
    declared = [inst for inst in kernel.insts if inst.op == "fragment"]
    tiles = {inst.result: places(parse(inst.attr("layout")), tuple(n.value for n in inst.result.shape)) for inst in declared}
    given = any(inst.attr("given") for inst in kernel.insts)
    return _Slots(kernel, tiles).made() if tiles or given else (kernel, {})


class _Slots:
    """`local` are the arrays of slots, `found` what each access to a tile is, by position, `loops` those around them, by their index."""

    def __init__(self, kernel: Kernel, tiles: Mapping[Buffer, Places]):
        self.kernel, self.tiles = kernel, tiles
        self.ownership = Ownership(kernel)
        self.b = Builder(names(kernel.params, kernel.insts))
        slots = {tile: Const(_slots(where, kernel.attr("group"))) for tile, where in tiles.items()}
        self.local = {tile: replace(tile, space="local", shape=(slots[tile],)) for tile in tiles}
        self.found: dict[int, tuple[Own | Shuffle, list[Slotted], Buffer, tuple[Operand, ...]]] = {}
        self.loops: dict[Value, Slotted] = {}
        for at, inst in enumerate(kernel.insts):
            if inst.attr("given"):
                self._slotted(*self.ownership.runs(at + 1, {}).loops)
            for access in accesses(inst):
                if access.buffer in tiles:
                    self._find(at, access.buffer, access.box)

    def _find(self, at: int, tile: Buffer, box: tuple[Operand, ...]) -> None:
        found = self.ownership.access(at, tile, box, self.tiles[tile], {})
        if isinstance(found, Foreign):
            raise VxcError(_foreign(self.kernel, at, tile, found.why))
        runs = self.ownership.runs(at, {})
        self.found[at] = found, [self.loops.get(run.index) or self._slotted(run) for run in runs.loops], tile, box

    def _slotted(self, run: Run) -> Slotted:
        digits = tuple(Value(self.b.fresh(f"{run.index.name}.slot"), I64) for _ in run.held.slots)
        copied = any(dim.replicas for dim in run.held.layout.dims) and self.kernel.insts[run.at].attr("map") == "lanes"
        first = Value(self.b.fresh(f"{run.index.name}.first"), BOOL) if copied else None
        self.loops[run.index] = slotted = Slotted(run, digits, first)
        return slotted

    def made(self) -> tuple[Kernel, dict[Value, Slotted]]:
        for at, inst in enumerate(self.kernel.insts):
            self.b.at(inst.loc)
            if inst.op == "fragment":
                self.b.add(replace(inst, op="local", result=self.local[inst.result], attrs=()))
            elif at in self.found:
                self._access(inst, *self.found[at])
            else:
                self._effect(at, inst)
        return replace(self.kernel, insts=tuple(self.b.insts)), self.loops

    def _access(self, inst: Inst, found: Own | Shuffle, loops: list[Slotted], tile: Buffer, box: tuple[Operand, ...]) -> None:
        local, digits = self.local[tile], [digit for loop in loops for digit in loop.digits]
        if isinstance(found, Own):
            self.b.add(inst.over((local, self._slot(found.slot, digits), *inst.operands[1 + len(box) :]), inst.result))
            return
        b, where, shape = self.b, flattened(self.tiles[tile].layout, [n.value for n in tile.shape]), tile.shape
        element: Scalar = box[0]
        for x, extent in zip(box[1:], shape[1:]):
            element = b.emit("add", b.emit("mul", element, extent), x)
        names = {dim.name: element for dim in where.dims}
        lane = b.emit("mod", of_layout(b, where.thread, names), WARP)
        given = [self._slot(slots, digits) for slots in found.slots]
        held = [b.emit("shfl_idx", b.emit("load", local, slot), lane, width=WARP) for slot in given]
        if len(held) > 1:
            here = b.emit("eq", of_layout(b, where.slot, names), given[1])
            b.emit("select", here, held[1], held[0])
        b.insts[-1] = replace(b.insts[-1], result=inst.result)

    def _slot(self, slots: Slots, digits: list[Value]) -> Scalar:
        slot: Scalar = Const(slots[0])
        for factor, digit in zip(slots[1:], digits):
            if factor:
                part = self.b.emit("mul", digit, factor) if factor != 1 else digit
                slot = part if slot == Const(0) else self.b.emit("add", slot, part)
        return slot

    def _effect(self, at: int, inst: Inst) -> None:
        """What memory that all threads see gets from an iteration that several threads run."""
        around = [self.loops.get(self.kernel.insts[p].result) for p in self.ownership.around(at)]
        first = next((loop.first for loop in around if loop and loop.first), None)
        if first is None or inst.op != "store" or inst.operands[0].space in ("cell", "local"):
            self.b.add(inst)
            return
        with self.b.if_(first):
            self.b.add(inst)


def _slots(where: Places, threads: int) -> int:
    made = held(where, threads)
    return prod(made[0].radices) if made else max(1, where.slots)


def _foreign(kernel: Kernel, at: int, tile: Buffer, why: str) -> Diagnostic:
    message = f"the layout of fragment `{tile.name}` does not fit an access to it: {why}"
    return Diagnostic("E0235", message, kernel.source, kernel.span(kernel.insts[at]), help="leave layouts to the pass infer-layouts")
