"""Loops behind a fragment of which several threads hold each element: what they store to memory is read back, and added to."""

from __future__ import annotations

from dataclasses import replace

from vxc.fuzz.access import place, trips
from vxc.fuzz.block import Made
from vxc.fuzz.copies import source_of
from vxc.fuzz.own import new_own
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import Context, State

_LENGTHS = (8, 16, 32, 64)


def replicated(s: State, ctx: Context) -> Made | None:
    """A fragment with replicas, filled, and two loops or three over it, of which only the first may store to it."""
    length = s.pick(_LENGTHS)
    dim, copies = Dim(str(length), length, True), s.pick((2, 2, 4))
    lanes = ctx.grid.threads // copies
    dtype = s.storage("fiu")
    tile = Array(s.fresh("f"), dtype, (dim,), "fragment")
    ctx.level.owned[tile] = ()
    layout = f"[e, r in {copies}] -> [e % {lanes} + r * {lanes}, e // {lanes}]"
    source = source_of(s, replace(ctx, locals=(*ctx.locals, tile), target=(tile, "")), (dim,), dtype)
    ctx = replace(ctx, locals=(*ctx.locals, tile), ready=ctx.ready | {tile})
    lines = [f"@layout({layout}) fragment {tile};", f"copy({source}, {tile.name});"]
    array, indices, whole = new_own(s, ctx, (dim,), dtype)
    s.spend(60 * trips(ctx, length))
    name = s.fresh("i")
    stored, turned = place(array, (*indices, name)), s.pick((name, name, f"{dim.text} - 1 - {name}"))
    if s.chance(0.4):
        lines.append(f"parallel {name} in {dim.text} {{ {tile.name}[{name}] = {_sum(s, f'{tile.name}[{name}]', '1')}; }}")
    lines.append(f"parallel {name} in {dim.text} {{ {stored} = {tile.name}[{turned}]; }}")
    for _ in range(s.pick((1, 1, 2))):
        turned = s.pick((name, f"{dim.text} - 1 - {name}"))
        lines.append(f"parallel {name} in {dim.text} {{ {stored} {s.pick(('+=', '-=', '*='))} {tile.name}[{turned}]; }}")
    return lines, replace(ctx, ready=ctx.ready | {array} if whole else ctx.ready)


def _sum(s: State, a: str, b: str) -> str:
    return f"{a} {s.pick('+*')} {b}"
