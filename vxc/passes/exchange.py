"""Tiles whose elements other threads read, through shared memory (part of infer-layouts).

Before the loop in which a thread reads what is not its own, every element is stored to a shared copy by a thread that holds it; the read is
one of the copy. One copy serves all such reads until the tile is stored to again.

                                                   %e = loop 0, 128 {.., map="lanes", layout=..}
                                                     %0: f32 = load @f, %e
                                                     store @f.shared, %e, %0
                                                   end %e
    %j = loop 0, 128 {.., map="lanes"}     ->      %j = loop 0, 128 {.., map="lanes"}
      %3: f32 = load @f, %2                          %3: f32 = load @f.shared, %2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from vxc.analysis.ownership import Ownership
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Inst, Kernel, Scalar
from vxc.ir.ops import accesses
from vxc.ir.walk import names
from vxc.layout.layout import Layout


class Exchanges:
    """`reads` are the positions of loads that go to copies, `tiles` the layouts over element numbers of the tiles that they read."""

    def __init__(self, kernel: Kernel, ownership: Ownership, reads: Collection[int], tiles: Mapping[str, Layout]):
        self.kernel, self.ownership, self.tiles = kernel, ownership, tiles
        self.reads = set(reads)
        self.regions = ownership.regions
        self.b = Builder(names(kernel.params, kernel.insts))

    def places(self) -> dict[int, list[Buffer]]:
        """Before which positions which tiles are copied."""
        found: dict[int, list[Buffer]] = {}
        valid: dict[str, int] = {}  # tile -> the region in which its copy was made
        for at, inst in enumerate(self.kernel.insts):
            if inst.op in ("else", "end"):
                valid = {name: home for name, home in valid.items() if home < 0 or self.regions.end[home] != self.regions.end[at]}
            self._forget(at, inst, valid)
            if at in self.reads:
                around = self.ownership.around(at)
                tile, before = inst.operands[0], around[0] if around else at
                if tile.name not in valid:
                    found.setdefault(before, []).append(tile)
                    valid[tile.name] = self.regions.parent[before]
        return found

    def _forget(self, at: int, inst: Inst, valid: dict[str, int]) -> None:
        """Copies end where the tile is stored to, and where a region begins that stores to it, since it may repeat."""
        inside = range(at, self.regions.end[at] + 1)
        stored = {a.buffer.name for p in inside for a in accesses(self.kernel.insts[p]) if "w" in a.mode} if valid else set()
        for name in stored & valid.keys():
            del valid[name]

    def made(self, insts: Sequence[Inst]) -> Kernel:
        """The kernel with these instructions, which are its own with layouts, and the copies."""
        copied = self.places()
        tiles = {tile.name: tile for found in copied.values() for tile in found}
        shared = {name: replace(tile, name=self.b.fresh(f"{name}.shared"), space="shared") for name, tile in tiles.items()}
        for at, inst in enumerate(insts):
            self.b.at(inst.loc)
            for tile in copied.get(at, ()):
                self._copy(tile, shared[tile.name])
            if at in self.reads:
                inst = inst.over((shared[inst.operands[0].name], *inst.operands[1:]), inst.result)
            self.b.add(inst)
            if inst.op == "fragment" and inst.result.name in shared:
                self.b.add(replace(inst, op="shared", result=shared[inst.result.name], attrs=()))
        return replace(self.kernel, insts=tuple(self.b.insts))

    def _copy(self, tile: Buffer, to: Buffer) -> None:
        b, shape = self.b, [n.value for n in tile.shape]
        attrs = {"independent": "tile", "layout": str(self.tiles[tile.name]), "map": "lanes"}
        with b.loop(0, prod(shape), kind="parallel", name="e", **attrs) as e:
            index: list[Scalar] = []
            for at, extent in enumerate(shape):
                inner = prod(shape[at + 1 :])
                digit = b.emit("floordiv", e, inner) if inner > 1 else e
                index.append(b.emit("mod", digit, extent) if at else digit)
            b.emit("store", to, *index, b.emit("load", tile, *index))
