"""Slices of which only the run knows the bounds: anywhere in a row, the wrong way round, or negative where they are empty."""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import I64
from vxc.fuzz.access import indices_of, levels, place, trips
from vxc.fuzz.block import Made
from vxc.fuzz.expr import expr
from vxc.fuzz.program import Dim
from vxc.fuzz.state import VOLUME, Context, Name, State

_REDUCED = {"sum": 6, "max": 2, "min": 1, "absmax": 1}


def cut(s: State, ctx: Context) -> Made | None:
    """A reduction of a slice of a row."""
    dim = s.pick([*s.dims, *(Dim(str(n), n, True) for n in (5, 40, 65))])
    if dim.size * ctx.volume > VOLUME or trips(ctx, dim.size) > 64:
        return None
    s.spend(trips(ctx, dim.size))
    outer = [b.dim for level in levels(ctx.level) for b in level.binders if b.dim.size]
    lead = outer[:1] if outer and s.chance(0.7) else [Dim("3", 3, True)] if s.chance(0.6) else []
    if lead and lead[0].size * dim.size > VOLUME:
        return None
    array = s.array(s.storage("fiu"), (*lead, dim))
    indices, first, last = indices_of(s, ctx, lead), s.fresh("a"), s.fresh("a")
    names = [Name(first, I64, "let", ctx.level), Name(last, I64, "let", ctx.level)]
    lines = [f"let {first} = {_bound(s, ctx, dim)};", f"let {last} = {_bound(s, ctx, dim)};"]
    (start, stop), step = s.pick(((first, last), (last, first))), s.pick(("", "", ":2", ":3"))
    if s.chance(0.25):  # empty wherever it begins
        start, stop = f"{start} - {s.pick((1, 5, 1000))}", f"min({start} - {s.pick((1000, 2000))}, {stop})"
    name = s.fresh("a")
    op = s.weighted([*_REDUCED], [*_REDUCED.values()])
    lines.append(f"let {name} = {op}({place(array, (*indices, f'{start}:{stop}{step}'))});")
    wide = array.dtype.compute
    dtype = wide if wide.is_float or op != "sum" or wide.bits >= 32 else None
    names += [Name(name, dtype, "let", ctx.level)] if dtype else []
    return lines, replace(ctx, names=(*ctx.names, *names))


def _bound(s: State, ctx: Context, dim: Dim) -> str:
    """A place in a dimension, or its end."""
    inside = expr(s, ctx, s.compute("iu"), s.pick((0, 1)))
    return f"clamp({inside} as i64, {s.pick((0, 0, 0, min(dim.size, 3)))}, {dim.text})"
