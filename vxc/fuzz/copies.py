"""Tiles: what a block declares, and `copy` between global arrays, shared memory and fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vxc.dtypes import BOOL, DTYPES, DType
from vxc.frontend.values import contains
from vxc.fuzz.access import readable, trips
from vxc.fuzz.block import Made
from vxc.fuzz.levels import Window
from vxc.fuzz.own import leading_of, new_own
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.rows import RANK, volume_of
from vxc.fuzz.state import ARRAYS, COUNTED, Context, State
from vxc.fuzz.stmt import declared
from vxc.fuzz.windows import Parts, free, own_window, part_of, section

TILE = 320  # elements of a tile, at most
SPACES = {"shared": 5, "fragment": 5, "local": 0.5}
WHOLE_NUMBERS = ("randint", -3, 4)  # of which products and sums are exact in any order

# Storage ---------------------------------------------------------------------------------------------------------------------------


def tile_dims(s: State, ctx: Context) -> tuple[Dim, ...]:
    """The extents of a tile."""
    dims: tuple[Dim, ...] = (s.pick(ctx.grid.dims),)
    for _ in range(RANK - 1):
        further = s.pick(ctx.grid.dims)
        if s.chance(0.5) and volume_of((*dims, further)) <= TILE:
            dims = (*dims, further)
    return dims


def storage(s: State, ctx: Context) -> Made:
    """`shared`, `fragment`, or an array of each thread, filled or not."""
    space = s.weighted(list(SPACES), list(SPACES.values()))
    return declared(s, ctx, space, s.storage(), tile_dims(s, ctx), s.chance(0.6))


def tiles_of(ctx: Context) -> list[Array]:
    """What the block has declared and may write."""
    return [a for a in ctx.locals if a.mode in SPACES]


# copy ------------------------------------------------------------------------------------------------------------------------------


def _converts(source: DType, target: DType) -> bool:
    """Whether elements convert by themselves as they are copied."""
    return contains(target, source.compute) or (source.is_float and target.is_float)


def copy_in(s: State, ctx: Context) -> Made:
    """A copy to a tile of the block's, an old one or a new one."""
    lines: list[str] = []
    known = [a for a in tiles_of(ctx) if a.mode != "local" or s.chance(0.3)]
    if known and s.chance(0.65):
        target = s.pick(known)
    else:
        filled = [a for a in tiles_of(ctx) if a in ctx.ready and a.mode != "local"]
        like = s.pick(filled) if filled and s.chance(0.5) else None  # for what a tile may be copied to in the other space
        space = s.pick(("shared", "fragment")) if like is None else "fragment" if like.mode == "shared" else "shared"
        dtype, dims = (s.storage(), tile_dims(s, ctx)) if like is None else (like.dtype, like.dims)
        lines, ctx = declared(s, ctx, space, dtype, dims, s.chance(0.15))
        target = ctx.locals[-1]
    extents = part_of(s, target.dims) if s.chance(0.3) else target.dims
    if s.chance(0.04) and s.dims[0].size <= 65 and not s.dims[0].fixed and all(d.size for d in target.dims):
        extents = (s.dims[0],)  # known when it runs
    to = section(s, ctx, target, free(target.dims), extents, inside=True) if extents[0].fixed else (f"{target.name}{_zeros(target)}", False)
    source = source_of(s, replace(ctx, target=(target, "")), extents, target.dtype, start=extents[0].fixed)
    text, whole = to
    s.spend(20 * trips(ctx, volume_of(tuple(extents))))
    ready = ctx.ready | {target} if whole else ctx.ready
    return [*lines, f"copy({source}, {text}{_pad(s, ctx, target.dtype)});"], replace(ctx, ready=ready)


def _zeros(array: Array) -> str:
    return f"[{', '.join('0' for _ in array.dims)}]"


def source_of(s: State, ctx: Context, extents: Sequence[Dim], dtype: DType, start: bool = True, whole_numbers: bool = False) -> str:
    """A tile to read, of these extents and of a type that converts."""
    fitting = [a for a in readable(s, ctx) if _converts(a.dtype, dtype) and a.fill != COUNTED]
    if whole_numbers:
        fitting = [a for a in fitting if a.fill == WHOLE_NUMBERS]
    s.random.shuffle(fitting)
    if s.chance(0.4):
        fitting.sort(key=lambda array: array not in ctx.locals)
    for array in fitting if s.chance(0.5) or len(s.arrays) > ARRAYS else ():
        found = _readable_section(s, ctx, array, extents, start)
        if found:
            return found
    kind = [d for d in DTYPES.values() if _converts(d, dtype)]
    of = s.pick([d for d in (s.storage(dtype.kind) for _ in range(4)) if _converts(d, dtype)] or kind)
    array = s.array(dtype if s.chance(0.5) else of, _around(s, ctx, extents), fill=WHOLE_NUMBERS if whole_numbers else None)
    return section(s, ctx, array, free(array.dims), extents, start=start)[0]


def _readable_section(s: State, ctx: Context, array: Array, extents: Sequence[Dim], start: bool) -> str | None:
    """A tile of what the block may read."""
    if array in ctx.grid.level.windows:
        found = section(s, ctx, array, ctx.grid.level.windows[array], extents, start=start)
        return found and found[0]
    leading = ctx.level.read(array)
    if leading is None:
        return None
    parts = (*(Window(text, d) for text, d in zip(leading, array.dims)), *free(array.dims[len(leading) :]))
    found = section(s, ctx, array, parts, extents, inside=array in ctx.locals, start=start)
    return found and found[0]


def _around(s: State, ctx: Context, extents: Sequence[Dim]) -> list[Dim]:
    """The dimensions of an array that tiles of these extents are cut from."""
    dims = [_longer(s, e) for e in extents]
    for _ in range(s.weighted([0, 1, 2], [6, 3, 1])):
        further = s.pick([*(b.dim for b in ctx.level.binders), *ctx.grid.dims, *s.dims])
        if further.size and volume_of((*dims, further)) <= 4 * TILE and len(dims) < RANK + 1:
            dims.insert(s.random.randint(0, len(dims)), further)
    return dims


def _longer(s: State, extent: Dim) -> Dim:
    """A dimension for a tile to lie in: mostly longer, now and then as long or shorter."""
    other = s.pick(s.dims)
    length = max(extent.size + s.pick((-1, 0, 1, 2, 5)), 0)
    dim = s.weighted([extent, other, Dim(str(length), length, True)], [2, 4, 2])
    return dim if dim.size <= 129 else extent


def _pad(s: State, ctx: Context, dtype: DType) -> str:
    if not s.chance(0.25):
        return ""
    if dtype is BOOL:
        return f", pad = {s.pick(('true', 'false'))}"
    known = [n.name for n in ctx.names if n.dtype is dtype and n.kind in ("scalar", "let")]
    if known and s.chance(0.3):
        return f", pad = {s.pick(known)}"
    return f", pad = {s.pick(('-99.0', 'inf', '-inf', 'nan', '-0.0', '1') if dtype.is_float else ('1', '7', str(max(dtype.min, -99))))}"


def copy_out(s: State, ctx: Context) -> Made:
    """A copy to what the block owns of a global array."""
    tiles = [a for a in ctx.locals if (a.mode == "in" or a in ctx.ready) and a.mode != "local"]
    if not tiles:
        lines, ctx = copy_in(s, ctx)
        tiles = [a for a in ctx.locals if a in ctx.ready and a.mode != "local"]
        if not tiles:
            return lines, ctx
    else:
        lines = []
    source = s.pick(tiles)
    extents = part_of(s, source.dims) if s.chance(0.2) else source.dims
    array, parts, owned = _target(s, ctx, extents, source.dtype)
    found = section(s, ctx, array, parts, extents, start=True)
    if found is None:
        array, indices, owned = new_own(s, ctx, tuple(extents), source.dtype)
        parts = (*(Window(text, d) for text, d in zip(indices, array.dims)), *free(array.dims[len(indices) :]))
        found = section(s, ctx, array, parts, extents, start=True)
    text, whole = found
    if s.chance(0.15):
        tile = source_of(s, replace(ctx, target=(array, "")), extents, array.dtype, start=False)  # maybe from another global array
    else:
        tile = section(s, ctx, source, free(source.dims), extents, inside=True)[0]
    s.spend(20 * trips(ctx, volume_of(tuple(extents))))
    ready = ctx.ready | {array} if whole and owned else ctx.ready
    return [*lines, f"copy({tile}, {text});"], replace(ctx, ready=ready)


def _target(s: State, ctx: Context, extents: tuple[Dim, ...], dtype: DType) -> tuple[Array, Parts, bool]:
    """An array to write a tile to, in parts; whether the block owns all of what the parts say."""
    if ctx.grid.tiles and s.chance(0.6):
        array, parts = own_window(s, ctx, dtype.kind, dtype if s.chance(0.7) else None)
        if _converts(dtype, array.dtype):
            return array, parts, True
    known = [a for a in s.arrays if a.mode != "in" and _converts(dtype, a.dtype) and a.fill != COUNTED]
    s.random.shuffle(known)
    for array in known if s.chance(0.5) else ():
        leading = leading_of(s, ctx, array)
        if leading is not None and len(leading) + len(extents) <= len(array.dims):
            return array, (*(Window(text, d) for text, d in zip(leading, array.dims)), *free(array.dims[len(leading) :])), True
    to = dtype if s.chance(0.6) else s.pick([d for d in (s.storage(dtype.kind) for _ in range(4)) if _converts(dtype, d)] or [dtype])
    array, indices, owned = new_own(s, ctx, tuple(_around_target(s, extents)), to)
    return array, (*(Window(text, d) for text, d in zip(indices, array.dims)), *free(array.dims[len(indices) :])), owned


def _around_target(s: State, extents: tuple[Dim, ...]) -> list[Dim]:
    dims = [e if s.chance(0.6) else _longer(s, e) for e in extents]
    if s.chance(0.15):
        dims.insert(s.random.randint(0, len(dims)), Dim("2", 2, True))
    return dims
