"""The shape passes work on: a kernel as prologue, perfect nest of parallel loops, body."""

from __future__ import annotations

from vxc.ir.kernel import Buffer, Inst, Kernel, Value
from vxc.ir.ops import OPS
from vxc.ir.walk import Regions
from vxc.layout.layout import parse
from vxc.record import record


@record
class Nest:
    """`prologue` depends on no loop and has no effect, so that every lane may run it; `loops` are the parallel loops, outermost
    first; `body` is what they enclose.
    """

    prologue: tuple[Inst, ...]
    loops: tuple[Inst, ...]
    body: tuple[Inst, ...]


def top_level(insts) -> list[tuple[Inst, ...]]:
    """The instructions cut into top-level items: single instructions and whole regions."""
    items, depth, start = [], 0, 0
    for i, inst in enumerate(insts):
        depth += OPS[inst.op].opens - (inst.op == "end")
        if depth == 0:
            items.append(tuple(insts[start : i + 1]))
            start = i + 1
    return items


def is_nest(item: tuple[Inst, ...]) -> bool:
    return is_parallel(item[0])


def nest_of(kernel: Kernel) -> Nest:
    """The nest of a kernel that is a prologue and one top-level parallel loop, as split-launches leaves it."""
    insts, regions = kernel.insts, Regions.of(kernel.insts)
    first = next(i for i in regions.top() if insts[i].op == "loop")
    loops, hoisted, body = perfect_nest(insts, regions, first)
    prologue = (*insts[:first], *(insts[i] for i in hoisted))
    return Nest(prologue, tuple(insts[i] for i in loops), insts[body : regions.end[loops[-1]]])


def perfect_nest(insts, regions: Regions, at: int) -> tuple[list[int], list[int], int]:
    """The parallel loop at `at` and those that stand alone in it, outermost first; pure instructions between that may move
    out; where the innermost body begins. Positions in `insts`. Loops over blocks nest only with one another, and a loop with
    lanes or a layout of its own begins a row. A layout is of as many loops as it has indices.
    """
    loops, hoisted = [at], []
    layout = insts[at].attr("layout")
    most = len(parse(layout).dims) if layout else len(insts)
    indices: set[str] = set()
    while is_parallel(insts[loops[-1]]) and len(loops) < most:
        outer = loops[-1]
        indices.add(insts[outer].result.name)
        inside = list(regions.level(regions.body(outer)))
        inner = inside[-1] if inside else outer
        between = inside[:-1]
        used = {x.name for i in inside for x in insts[i].operands if isinstance(x, Value)}
        alone = inside and is_parallel(insts[inner]) and all(OPS[insts[i].op].pure for i in between)
        apart = insts[inner].attr("threads") != insts[outer].attr("threads") or insts[inner].attr("lanes") or insts[inner].attr("layout")
        if not alone or used & indices or apart:
            break
        hoisted += between
        loops.append(inner)
    return loops, hoisted, loops[-1] + 1


def dimensions(kernel: Kernel) -> set[str]:
    """Names of the parameters that are sizes of arrays, and so never negative."""
    return {x.name for p in kernel.params if isinstance(p, Buffer) for x in p.shape if isinstance(x, Value)}


def is_parallel(inst: Inst) -> bool:
    return inst.op == "loop" and inst.attr("kind") == "parallel"
