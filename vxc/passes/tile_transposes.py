"""tile-transposes: nests whose arrays are contiguous along different loops go through shared memory, a tile to a block.

Before: stage=tile, one parallel nest a kernel, tile instructions written as loops.
After:  where what a nest stores is contiguous along one loop, and what it loads along another, the nest is a `grid` over tiles of the
        two (and over the other loops). A block first copies its tile of each such array to shared memory, in pieces of 16 bytes
        along the rows of the array; then each thread takes a few elements in a row of what is stored. Other accesses, and what
        is computed, stay as they are. Where only the call says how long the two loops are, there are two launches: one of tiles, and
        one of the nest as it was, of no block where each of them has FEW iterations; otherwise the first has none.

    %i = loop 0, 64 {.., kind="parallel"}            %p = loop 0, %0 {.., kind="parallel", threads=256}
      %j = loop 0, 64 {.., kind="parallel"}            %q = loop 0, %1 {.., kind="parallel", threads=256}
        %0: f32 = load @x, %j, %i                        shared @x.tile: f32[4156]
        store @y, %i, %j, %0                 ->          %e = loop 0, 1024 {async=true, independent="tile", kind="parallel"}
      end %j                                               ..
    end %i                                               %e.1 = loop 0, 1024 {independent="tile", kind="parallel"}
                                                           ..

`transposed_tiles.py` says how a tile is laid out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from vxc.analysis.transposes import Transpose, find
from vxc.analysis.vector_width import BYTES
from vxc.ir.kernel import Const, Inst, Kernel, Operand
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass
from vxc.passes.launches import ONCE, Launched, Site, some_launches
from vxc.passes.nest import Nest, nest_of
from vxc.passes.prove_parallel_text import source_name
from vxc.passes.transposed_tiles import Shape, tiled
from vxc.passes.turned_rows import LANES
from vxc.target import WARP

SIDES = (128, 64, 32)  # elements of a side of a tile: the most that leaves room for two blocks on a multiprocessor
FEW = 64  # iterations: half the side of a tile, below which most of it would be empty


def run(plan: Plan, context: Context) -> Plan:
    return some_launches(plan, lambda site: _tiled(site, context))


def _tiled(site: Site, context: Context) -> Iterator[Launched]:
    kernel, nest = site.kernel, nest_of(site.kernel)
    found = find(kernel.params, nest.prologue, nest.loops, nest.body)
    if found is None:
        return
    if isinstance(found, str):
        loops, loc = ", ".join(source_name(loop.result.name) for loop in nest.loops), nest.loops[0].loc
        context.missed(f"parallel {loops}: arrays contiguous along different loops are accessed in place: {found}", kernel.name, loc)
        return
    shape = _shape(nest, found, context)
    _remarks(kernel, nest, found, shape, context)
    unknown = [loop.operands[1] for loop in (nest.loops[found.along], nest.loops[found.across]) if not isinstance(loop.operands[1], Const)]
    if not unknown:
        yield tiled(kernel, nest, found, shape), ONCE
        return
    b, outside = site.b, site.outside(nest)
    enough = reduce(lambda both, n: b.emit("and", both, n), [b.emit("ge", outside(n), FEW) for n in unknown])
    yield tiled(kernel, nest, found, shape), b.emit("select", enough, ONCE, 0)
    yield replace(kernel, name=site.name("_few")), b.emit("select", enough, Const(0), 1)


def _shape(nest: Nest, found: Transpose, context: Context) -> Shape:
    """The largest tile of which two fit on a multiprocessor, and no larger than the loops ask for."""
    stores = [inst.operands[0].dtype.bytes for inst in nest.body if inst.op == "store" and inst.operands[0].space != "cell"]
    for side in SIDES:
        rows, columns = (_side(nest.loops[k].operands[1], side) for k in (found.along, found.across))
        vector = min(max(BYTES // min(stores), 2), rows // LANES)
        shape = Shape(rows, columns, vector, 0 if found.begins % (2 * vector) == 0 else 2 * vector)
        if 2 * shape.bytes(found.staged) <= context.target.shared_per_block:
            break
    return shape


def _side(extent: Operand, most: int) -> int:
    """A side of a tile for a loop of so many iterations."""
    return min(most, max(WARP, 1 << (extent.value - 1).bit_length())) if isinstance(extent, Const) else most


def _remarks(kernel: Kernel, nest: Nest, found: Transpose, shape: Shape, context: Context) -> None:
    def say(report, inst: Inst, text: str) -> None:
        report(f"`{source_name(inst.operands[0].name)}`{text}", kernel.name, inst.loc)

    for at, why in found.missed:
        say(context.missed, nest.body[at], f" is accessed in place: {why}")
    along, across = (source_name(nest.loops[k].result.name) for k in (found.along, found.across))
    size = f"tiles of {shape.rows} {along} by {shape.columns} {across}, {shape.threads(found.staged)} threads each"
    for x in found.staged:
        why = f"since what is stored is contiguous along {along}"
        say(context.applied, nest.body[x.loads[0]], f", contiguous along {across}, goes through shared memory, {why}: {size}")


TILE_TRANSPOSES = Pass(
    "tile-transposes", run, "stage arrays contiguous along another loop in shared memory", needs=("tile", "one-nest", "loops")
)
