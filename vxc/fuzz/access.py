"""Reading elements that are in range: indices, elements, rows, slices, columns, gathers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from vxc.dtypes import DTYPES, DType
from vxc.fuzz.levels import Indices, Level
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import ARRAYS, STEPS, VOLUME, Context, State

INDEX_TYPES = [DTYPES[name] for name in ("i32", "i64", "u8", "u32", "i16")]
ELEMENTS = 4_000  # of one array

# Indices ---------------------------------------------------------------------------------------------------------------------------


def index(s: State, ctx: Context, dim: Dim) -> str:
    """An index into a dimension that has elements."""
    ctx = replace(ctx, row=None, target=ctx.target and (ctx.target[0], ""), scans=False)
    near = [n.name for n in ctx.names if n.limit is not None and n.limit <= dim.size]
    far = [n.name for n in ctx.names if n.kind == "index" and n.limit]
    if near and s.chance(0.5):
        name = s.pick(near)
        return s.weighted([name, f"{dim.text} - 1 - {name}", f"({name} + {s.pick((1, 3, 7))}) % ({dim.text})"], [4, 1, 1])
    if far and s.chance(0.3):
        name, by = s.pick(far), s.pick((2, 3, 5))
        return f"({s.pick((f'{name} * {by} + {s.pick((0, 1, 4))}', f'{name} // {by}', f'{name} ^ {by}'))}) % ({dim.text})"
    if s.chance(0.4):
        return str(s.random.randrange(dim.size))
    inside = s.expr(s, ctx, s.compute("iu"), s.pick((0, 0, 1)))
    if s.chance(0.5):
        return f"({inside} as i64) % ({dim.text})"
    return f"clamp({inside} as i64, 0, {dim.text} - 1)"


def indices_of(s: State, ctx: Context, dims: Sequence[Dim]) -> Indices | None:
    """An index into each dimension, or None where one is empty."""
    return None if any(d.size == 0 for d in dims) else tuple(index(s, ctx, d) for d in dims)


def place(array: Array, indices: Indices) -> str:
    """The text of a part of an array."""
    return f"{array.name}[{', '.join(indices)}]" if indices else array.name


# Reading ---------------------------------------------------------------------------------------------------------------------------


def readable(s: State, ctx: Context) -> Iterator[Array]:
    """Arrays whose contents are known where `ctx` stands, but for the one that the statement assigns."""
    for array in (*s.arrays, *ctx.locals):
        if array.mode == "in" or (not ctx.stable and (array.mode == "inout" or array in ctx.ready)):
            if ctx.target is None or array is not ctx.target[0]:
                yield array


def element(s: State, ctx: Context, dtype: DType) -> str | None:
    """One element, as a value of `dtype`."""
    if ctx.pure:
        return None
    known = list(readable(s, ctx))
    tiles = [a for a in known if a in ctx.locals]
    if tiles and ctx.grid and s.chance(0.6):
        known = tiles
    elif not known or (len(s.arrays) < ARRAYS and s.chance(0.3)):
        known = [s.array(_stored(s, dtype), _some_dims(s, ctx))]
    array = s.pick([a for a in known if a.dtype.compute is dtype] or known)
    leading = ctx.level.read(array)
    rest = None if leading is None else indices_of(s, ctx, array.dims[len(leading) :])
    return None if rest is None else as_type(s, place(array, leading + rest), array.dtype.compute, dtype)


def row_leaf(s: State, ctx: Context, dtype: DType) -> str | None:
    """Something that varies along `ctx.row`: a row, a slice, a column, a gather, a row `let`, the element that is assigned."""
    ways = [(_row_name, 3), (_whole_row, 6), (_new_row, 2 if len(s.arrays) < ARRAYS else 0.1), (_gather, 1), (_target, 2)]
    way = s.weighted([w for w, _ in ways], [weight for _, weight in ways])
    found = way(s, ctx, ctx.row.dims)
    if found is None:
        return None
    ctx.row.used = True
    return as_type(s, *found, dtype)


def _row_name(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    known = [r for r in ctx.rows if r.dims == dims]
    found = s.pick(known) if known else None
    return found and (found.name, found.dtype)


def _target(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    if ctx.target is None or not ctx.target[1] or not (ctx.target[0].mode == "inout" or ctx.target[0] in ctx.ready):
        return None
    return ctx.target[1], ctx.target[0].dtype.compute


def _whole_row(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    known = [a for a in readable(s, ctx) if a.dims[-len(dims) :] == dims]
    if not known:
        return None
    array = s.pick(known)
    leading = ctx.level.read(array)
    if leading is None or len(leading) > len(array.dims) - len(dims):
        return None
    lead = indices_of(s, ctx, array.dims[len(leading) : len(array.dims) - len(dims)])
    return None if lead is None else (place(array, leading + lead), array.dtype.compute)


def _new_row(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    """A row of a new array: whole, or where its length is fixed a slice, or a column."""
    dim, dtype = dims[-1], s.storage()
    outer = [b.dim for level in levels(ctx.level) for b in level.binders]
    lead = [d for d in outer if d.size and s.chance(0.6)][:2]
    if prod(d.size for d in (*lead, *dims)) > ELEMENTS:
        lead = []
    if len(dims) > 1 or s.chance(0.5):
        array, ends = s.array(dtype, (*lead, *dims)), ()
    elif lead and s.chance(0.4):
        array, ends = s.array(dtype, (dim, lead[0])), (index(s, ctx, lead[0]),)
        return f"{array.name}[:, {ends[0]}]", array.dtype.compute
    elif dim.fixed and dim.text.isdigit():
        start, step, extra = s.random.randrange(4), s.pick((1, 1, 2, 3)), s.random.randrange(3)
        stop = start + max((dim.size - 1) * step + 1, 0) if dim.size else start
        array = s.array(dtype, (*lead, Dim(str(stop + extra), stop + extra, True)))
        window = f"{start} :+ {dim.size}" if step == 1 and s.chance(0.5) else f"{start}:{stop}" + (f":{step}" if step > 1 else "")
        ends = (window if start or extra or s.chance(0.5) else f":{stop}" + (f":{step}" if step > 1 else ""),)
    else:
        array, ends = s.array(dtype, (*lead, Dim(f"{dim.text} + 3", dim.size + 3, dim.fixed))), (f"{s.random.randrange(4)} :+ {dim.text}",)
    indices = indices_of(s, ctx, lead)
    return None if indices is None else (place(array, indices + ends), array.dtype.compute)


def _gather(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    """`table[index row]`."""
    tables = [a for a in readable(s, ctx) if a.mode == "in" and len(a.dims) == 1 and 0 < a.dims[0].size <= 128]
    if not tables or len(dims) > 1:
        return None
    table = s.pick(tables)
    return f"{table.name}[{numbers(s, dims, table.dims[0].size).name}]", table.dtype.compute


def numbers(s: State, dims: tuple[Dim, ...], below: int, low: int = 0) -> Array:
    """An array of integers from `low` on, below a bound."""
    fill = ("randint", low, below)
    at = next((a for a in s.arrays if a.fill == fill and a.dims == dims and a.dtype in INDEX_TYPES), None)
    types = [d for d in INDEX_TYPES if d.min <= low and below <= d.max]
    return at or s.array(s.pick(types), dims, fill=fill)


def as_type(s: State, text: str, source: DType, dtype: DType) -> str:
    """A value of one type as another."""
    return text if source is dtype else f"({text} as {s.spelled(dtype)})"


def _stored(s: State, dtype: DType) -> DType:
    same = [d for d in (s.storage(dtype.kind) for _ in range(4)) if d.compute is dtype]
    return same[0] if same else dtype


def _some_dims(s: State, ctx: Context) -> tuple[Dim, ...]:
    outer = [b.dim for level in levels(ctx.level) for b in level.binders]
    dims = tuple(d for d in (outer or s.dims) if d.size and s.chance(0.7))[:3]
    return dims if dims and prod(d.size for d in dims) <= ELEMENTS else (Dim("7", 7, True),)


def levels(level: Level | None) -> Iterator[Level]:
    """A level and those around it."""
    while level is not None:
        yield level
        level = level.parent


# Extents ---------------------------------------------------------------------------------------------------------------------------


def row_dims(s: State, ctx: Context, fixed: bool = False) -> tuple[Dim, ...]:
    """The extents of a row to reduce or fill, small enough for where `ctx` stands."""
    pool = list(ctx.grid.dims) if ctx.grid and (fixed or s.chance(0.7)) else s.dims
    fitting = [d for d in pool if d.size * ctx.volume <= VOLUME and trips(ctx, d.size) <= 2 * STEPS and (d.fixed or not fixed)]
    few = Dim(str(n := s.pick((1, 2, 3, 4, 5, 8))), n, True)
    dims = (s.pick(fitting) if fitting and s.chance(0.8) else few,)
    for _ in range(2):
        further = s.pick(fitting) if ctx.in_block and fitting else few
        size = prod(d.size for d in (*dims, further))
        if s.chance(0.4 if ctx.in_block else 0.05) and size * ctx.volume <= VOLUME and trips(ctx, size) <= 2 * STEPS:
            dims = (*dims, further)
    return dims


def trips(ctx: Context, count: int) -> int:
    """The steps that so many iterations take, one after the other or by the threads of a block."""
    if ctx.in_block:
        return ctx.steps * max(1, -(-count // ctx.grid.threads))
    return ctx.steps * count * (max(1, 8 * ctx.crowd // ctx.grid.threads) if ctx.grid else 1)  # about eight lanes share an iteration
