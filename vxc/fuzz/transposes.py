"""Nests whose arrays are contiguous along different loops, mostly long enough for tiles of them to go through shared memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vxc.dtypes import BOOL
from vxc.fuzz.access import as_type, place
from vxc.fuzz.block import Made, indent
from vxc.fuzz.expr import expr
from vxc.fuzz.levels import Binder, Level
from vxc.fuzz.own import index_name
from vxc.fuzz.program import Dim
from vxc.fuzz.state import VOLUME, Context, Name, State

SIDES = (31, 32, 33, 48, 64, 65, 66, 97)
ELEMENTS = 4_500  # of an array
WORK = 200  # what one counts for: interpreters take the elements of a nest together


def transposed(s: State, ctx: Context) -> Made | None:
    """Where no block is around it. Its arrays are its own: one that is read along the other loop, maybe one along the same, a result."""
    sides = [d for d in (*s.dims, *(Dim(str(n), n, True) for n in SIDES)) if d.size]
    dims = (s.pick(sides), s.pick(sides))
    batch = (Dim(str(n := s.pick((1, 2, 3))), n, True),) if s.chance(0.25) else ()
    volume = prod(d.size for d in (*batch, *dims))
    if ctx.grid or ctx.loose or volume > ELEMENTS or ctx.volume * volume > VOLUME:
        return None
    s.spend(WORK)
    binders = [Binder(s.fresh("i"), d) for d in (*batch, *dims)]
    level = Level(ctx.level, tuple(binders))
    *before, one, two = (b.name for b in binders)
    names, lines = [*ctx.names, *(index_name(b, level) for b in binders)], []
    for indices, extents in (((*before, two, one), (*batch, *dims[::-1])), ((*before, one, two), (*batch, *dims)))[: s.pick((1, 1, 2))]:
        array, name = s.array(s.storage(), extents), s.fresh("a")
        lines.append(f"let {name} = {place(array, indices)};")
        names.append(Name(name, array.dtype.compute, "let", level))
    inner = replace(ctx, level=level, names=tuple(names), loop="parallel", pure=True, volume=volume, steps=8 * ctx.steps)
    target = s.array(s.storage(), (*batch, *dims), s.pick(("out", "inout")))
    level.owned[target] = (*before, one, two)
    dtype, moved = target.dtype.compute, names[len(ctx.names) + len(binders)]
    value = as_type(s, moved.name, moved.dtype, dtype)
    if s.chance(0.6):
        value = f"({value} {'^' if dtype is BOOL else s.pick('+-*')} {expr(s, inner, dtype, 1)})"
    lines.append(f"{place(target, level.owned[target])} = {value};")
    order = s.pick(([*range(len(binders))], [*range(len(binders))][::-1]))
    ranges = ", ".join(f"{binders[k].name} in {binders[k].dim.text}" for k in order)
    return [f"parallel {ranges} {{", *indent(lines), "}"], replace(ctx, ready=ctx.ready | {target})
