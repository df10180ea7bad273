"""infer-layouts: where the elements of each tile live, and who runs which iterations of the loops over them.

Before: stage=team; fragments are declared, loops are mapped. A fragment may have a `layout` of the author's.
After:  a fragment to whose elements only the threads that hold them store is spread over the threads: it has its `layout`, and so have
        the loops over it. Reads of others' elements are shuffles where one warp has them, else of a copy in shared memory. Any other
        fragment, and one that would take more than REGISTERS of a thread, lives in shared memory. Shared arrays with a `layout` of
        the author's lie so, and lanes take their elements in an order in which they do not meet in a bank, if there is one. Raises
        E0235 for a layout that does not fit.

    fragment @f: f32[8, 32]                       fragment @f: f32[8, 32] {layout="[e] -> [e % 128, e // 128]"}
    %i = loop 0, 256 {.., map="lanes"}     ->     %i = loop 0, 256 {.., map="lanes"}
      store @f, %1, %2, 0.0:f32                     store @f, %1, %2, 0.0:f32

Roots are tried in three levels: strict (an order of a reduction deals elements to lanes; a layout of the author's holds under every
root), common (an access is widest so), free. Each is followed through all loops and tiles that are accessed together and costed
(`layout_cost`); the cheapest is taken, the stricter of equals. All is shown by enumeration of the elements that each thread accesses.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vxc.diag import count
from vxc.ir.kernel import Buffer, Inst, Kernel
from vxc.ir.plan import Plan
from vxc.layout.layout import flattened
from vxc.pass_manager import Context, Pass
from vxc.passes.exchange import Exchanges
from vxc.passes.given_layouts import arranged, given_layouts, loops_of_the_author
from vxc.passes.lane_order import in_order
from vxc.passes.layout_choice import Choice, Chooser, too_large
from vxc.passes.layout_roots import Layouts, shape_of


def infer(kernel: Kernel, context: Context) -> Kernel:
    tiles = {i.result.name: i.result for i in kernel.insts if i.op == "fragment"}
    if not tiles:
        return kernel
    sizes = {name: prod(shape_of(tile)) * tile.dtype.bytes // kernel.attr("group") for name, tile in tiles.items()}
    large = {name: why for name, size in sizes.items() if (why := too_large(size))}
    for inst in kernel.insts:
        if inst.op == "fragment" and inst.result.name in large:
            context.missed(f"fragment {inst.result.name} lives in shared memory: {large[inst.result.name]}", kernel.name, inst.loc)
    small = {name: tile for name, tile in tiles.items() if name not in large}
    chooser = Chooser(kernel, small, Layouts(given_layouts(kernel), loops_of_the_author(kernel)))
    chosen: list[Choice] = []
    for component, ranked in chooser.components():
        chosen.append(ranked[0])
        _remarks(kernel, chooser, component, ranked, context)
    homes = {name: where for choice in chosen for name, where in choice.layouts.tiles.items() if name not in choice.shared}
    reads = {touch.at for choice in chosen for touch in choice.exchanged}
    over = {at for at, found in chooser.spreading.inside.items() if any(t.tile in homes and t.at not in reads for t in found)}
    loops = {at: where for choice in chosen for at, where in choice.layouts.loops.items() if at in over}  # others run as mapped
    exchanges = Exchanges(kernel, chooser.ownership, reads, {name: flattened(w.layout, shape_of(tiles[name])) for name, w in homes.items()})
    moved = {name: replace(tile, space="shared") for name, tile in tiles.items() if name not in homes}
    placed = tuple(_placed(inst, moved, homes, loops.get(at)) for at, inst in enumerate(kernel.insts))
    return exchanges.made(placed)


def _placed(inst: Inst, moved: dict[str, Buffer], homes: dict, loop) -> Inst:
    if inst.op == "fragment":
        if inst.result.name in moved:
            return replace(inst, op="shared", result=moved[inst.result.name], attrs=())
        return inst.with_attrs(layout=str(homes[inst.result.name].layout))
    if loop is not None:
        inst = inst.with_attrs(layout=str(loop.layout))
    if Buffer not in map(type, inst.operands):
        return inst
    return inst.over([moved.get(x.name, x) if type(x) is Buffer else x for x in inst.operands], inst.result)


def _remarks(kernel: Kernel, chooser: Chooser, component: set[str], ranked: list[Choice], context: Context) -> None:
    choice, threads = ranked[0], kernel.attr("group")
    declared = {i.result.name: i.loc for i in kernel.insts if i.op == "fragment"}
    for name in (name for name in chooser.tiles if name in component):
        if name in choice.shared:
            why, loc = choice.shared[name]
            instead = ", not as @layout says" if name in chooser.fixed else ""
            context.missed(f"fragment {name} lives in shared memory{instead}: {why}", kernel.name, loc or declared[name])
            continue
        where = choice.layouts.tiles[name]
        copies = f", each in {where.replicas} threads" if where.replicas > 1 else ""
        given = ", as @layout says" if name in chooser.fixed else ""
        held = f"{count(where.slots, 'element')} in each of {count(threads, 'thread')}"
        text = f"fragment {name} lives in registers: {held}{copies}{given}"
        context.applied(text, kernel.name, declared[name])
    for touches, how in ((choice.shuffled, "shuffles in the warp"), (choice.exchanged, "a copy in shared memory")):
        for touch in touches:
            text = f"fragment {touch.tile}: elements of other threads come by {how}"
            context.applied(text, kernel.name, kernel.insts[touch.at].loc)
    first = next(name for name in chooser.tiles if name in component)
    what = ", ".join(name for name in chooser.tiles if name in component)
    if len(ranked) > 1:
        context.applied(f"layouts of {what}: {choice.root.level}, {choice.root.why}: {choice.cost}", kernel.name, declared[first])
        for other in ranked[1:]:
            text = f"layouts of {what} are not {other.root.level}, {other.root.why}: {other.cost}"
            context.missed(text, kernel.name, declared[first])


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels([in_order(infer(arranged(kernel, context), context), context) for kernel in plan.kernels])


INFER_LAYOUTS = Pass(
    "infer-layouts", run, "spread fragments over threads, or put them in shared memory", needs=("team",), gives=("layouts",)
)
