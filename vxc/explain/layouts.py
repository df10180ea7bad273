"""Where the elements of tiles, and the iterations of loops that threads share, lie."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from vxc.driver import Compiled
from vxc.explain.model import Layout
from vxc.ir.kernel import Const, Inst, placement_of, shared_bytes
from vxc.layout.layout import parse
from vxc.passes.prove_parallel_text import source_name

_SPREAD = ("fragment", "loop", "reduce", "scan")


def layouts_of(compiled: Compiled, name: str) -> tuple[Layout, ...]:
    """Of one kernel of the final plan, in program order: what is spread over threads as infer-layouts leaves it, then shared arrays."""
    team, final = compiled.after("infer-layouts").kernel(name), compiled.plan.kernel(name)
    spread = (_spread(inst) for inst in team.insts if inst.op in _SPREAD and inst.attr("layout"))
    return (*spread, *_shared(final.insts))


def _spread(inst: Inst) -> Layout:
    layout = parse(inst.attr("layout"))
    indices = [dim for dim in layout.dims if not dim.replicas]
    extents = _extents(inst)
    flat = len(indices) == 1 and extents is not None
    known = [prod(extents)] if flat else extents
    threads = slots = None
    if known is not None and prod(known):
        thread, slot = layout.evaluate(known)
        threads, slots = len(np.unique(thread)), int(slot.max()) + 1
    return Layout(
        buffer="" if inst.op in ("loop", "scan") else source_name(inst.result.name if inst.op == "fragment" else inst.operands[0].name),
        index=source_name(inst.result.name) if inst.op == "loop" else "",
        line=inst.loc[0] if inst.loc else None,
        kind={"reduce": "reduction"}.get(inst.op, inst.op),
        shape=None if extents is None else tuple(extents),
        layout=str(layout),
        threads=threads,
        slots=slots,
        replicas=prod(dim.replicas or 1 for dim in layout.dims),
    )


def _extents(inst: Inst) -> list[int] | None:
    """Of what a layout spreads: those of a tile; the iterations of a loop or reduction, or the most that there may be."""
    if inst.op == "fragment":
        return [n.value for n in inst.result.shape]
    if inst.op == "loop":
        start, stop, step = (*inst.operands, Const(1))[:3]
        if all(isinstance(x, Const) for x in (start, stop, step)):
            return [len(range(start.value, stop.value, step.value))]
    elif isinstance(inst.operands[-1], Const):
        return [inst.operands[-1].value]
    return [inst.attr("most")] if inst.attr("most") else None


def _shared(insts: tuple[Inst, ...]) -> Iterator[Layout]:
    for inst in insts:
        if inst.op == "shared":
            placement, buffer = placement_of(inst), inst.result
            yield Layout(
                buffer=source_name(buffer.name),
                line=inst.loc[0] if inst.loc else None,
                kind="shared",
                shape=tuple(n.value for n in buffer.shape),
                offset=inst.attr("offset"),
                bytes=shared_bytes(inst),
                pitch=placement.pitch or None,
                swizzle=placement.swizzle or None,
            )
