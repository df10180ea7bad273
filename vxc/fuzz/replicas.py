"""Loops behind a fragment of which several threads hold each element: what they store to memory is read back, and added to, also in a
loop, under conditions and by atomics.
"""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import I32, I64, U32, U64
from vxc.fuzz.access import place, trips
from vxc.fuzz.block import Made, indent
from vxc.fuzz.copies import source_of
from vxc.fuzz.own import new_own
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import Context, State

_LENGTHS = (8, 16, 32, 64)
_ATOMIC = (I32, U32, I64, U64)


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
    head, own = f"parallel {name} in {dim.text}", f"{tile.name}[{name}]"
    stored, turned = place(array, (*indices, name)), s.pick((name, name, f"{dim.text} - 1 - {name}"))
    if s.chance(0.4):
        lines.append(f"{head} {{ {own} = {_sum(s, own, '1')}; }}")
    lines.append(f"{head} {{ {stored} = {tile.name}[{turned}]; }}")
    elements = [f"{tile.name}[{s.pick((name, f'{dim.text} - 1 - {name}'))}]" for _ in range(s.pick((1, 1, 2)))]
    further = [f"{head} {{ {_added(s, stored, array, tile, element)} }}" for element in elements]
    if s.chance(0.25):
        further.insert(s.pick((0, len(further))), f"{head} {{ {own} = {_sum(s, own, '1')}; }}")
    if s.chance(0.3):
        further = [f"serial {s.fresh('k')} in {s.pick((1, 2, 3))} {{", *indent(further), "}"]
    lines += further
    return lines, replace(ctx, ready=ctx.ready | {array} if whole else ctx.ready)


def _added(s: State, stored: str, array: Array, tile: Array, element: str) -> str:
    """What is added to an element in memory, once: maybe under a condition, or by an atomic."""
    if array.dtype is tile.dtype and array.dtype in _ATOMIC and s.chance(0.5):
        statement = f"{s.pick(('atomic_add', 'atomic_add', 'atomic_max', 'atomic_min'))}({stored}, {element});"
    else:
        statement = f"{stored} {s.pick(('+=', '-=', '*='))} {element};"
    return f"if {element} {s.pick(('>', '<='))} 1 {{ {statement} }}" if s.chance(0.3) else statement


def _sum(s: State, a: str, b: str) -> str:
    return f"{a} {s.pick('+*')} {b}"
