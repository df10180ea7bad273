"""Accesses of arrays that are in range: indices, elements, rows and slices to read, elements of one's own to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from vxc.dtypes import DTYPES, I64, DType
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import ARRAYS, STEPS, VOLUME, Binder, Context, Indices, Level, Name, State

INDEX_TYPES = [DTYPES[name] for name in ("i32", "i64", "u8", "u32", "i16")]
ELEMENTS = 20_000  # of one array

# Indices ---------------------------------------------------------------------------------------------------------------------------


def index(s: State, ctx: Context, dim: Dim) -> str:
    """An index into a dimension that has elements."""
    ctx = replace(ctx, row=None, target=ctx.target and (ctx.target[0], ""), scans=False)
    near = [n.name for n in ctx.names if n.limit is not None and n.limit <= dim.size]
    if near and s.chance(0.5):
        name = s.pick(near)
        return s.weighted([name, f"{dim.text} - 1 - {name}", f"({name} + {s.pick((1, 3, 7))}) % ({dim.text})"], [4, 1, 1])
    if s.chance(0.4):
        return str(s.random.randrange(dim.size))
    inside = s.expr(s, ctx, s.compute("iu"), s.pick((0, 0, 1)))
    if s.chance(0.5):
        return f"({inside} as i64) % ({dim.text})"
    return f"clamp({inside} as i64, 0, {dim.text} - 1)"


def _indices(s: State, ctx: Context, dims: Sequence[Dim]) -> Indices | None:
    return None if any(d.size == 0 for d in dims) else tuple(index(s, ctx, d) for d in dims)


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
    if not known or (len(s.arrays) < ARRAYS and s.chance(0.3)):
        known = [s.array(_stored(s, dtype), _some_dims(s, ctx))]
    array = s.pick([a for a in known if a.dtype.compute is dtype] or known)
    leading = ctx.level.read(array)
    rest = None if leading is None else _indices(s, ctx, array.dims[len(leading) :])
    return None if rest is None else _as(f"{array.name}[{', '.join(leading + rest)}]", array.dtype.compute, dtype)


def row_leaf(s: State, ctx: Context, dtype: DType) -> str | None:
    """Something that varies along `ctx.row`: a row, a slice, a column, a gather, a row `let`, the element that is assigned."""
    ways = [(_row_name, 3), (_whole_row, 6), (_new_row, 2 if len(s.arrays) < ARRAYS else 0.1), (_gather, 1), (_target, 2)]
    way = s.weighted([w for w, _ in ways], [weight for _, weight in ways])
    found = way(s, ctx, ctx.row.dims)
    if found is None:
        return None
    ctx.row.used = True
    return _as(*found, dtype)


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
    lead = _indices(s, ctx, array.dims[len(leading) : len(array.dims) - len(dims)])
    return None if lead is None else (_subscript(array, leading + lead), array.dtype.compute)


def _new_row(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    """A row of a new array: whole, or where its length is fixed a slice, or a column."""
    dim, dtype = dims[-1], s.storage()
    outer = [b.dim for level in _levels(ctx.level) for b in level.binders]
    lead = [d for d in outer if d.size and s.chance(0.6)][:2]
    if prod(d.size for d in (*lead, *dims)) > ELEMENTS:
        lead = []
    if len(dims) > 1 or s.chance(0.5):
        array, ends = s.array(dtype, (*lead, *dims)), ()
    elif lead and s.chance(0.4):
        array, ends = s.array(dtype, (dim, lead[0])), (index(s, ctx, lead[0]),)
        return f"{array.name}[:, {ends[0]}]", dtype.compute
    elif dim.fixed and dim.text.isdigit():
        start, step, extra = s.random.randrange(4), s.pick((1, 1, 2, 3)), s.random.randrange(3)
        stop = start + max((dim.size - 1) * step + 1, 0) if dim.size else start
        array = s.array(dtype, (*lead, Dim(str(stop + extra), stop + extra, True)))
        ends = (f"{start} :+ {dim.size}" if step == 1 and s.chance(0.5) else f"{start}:{stop}" + (f":{step}" if step > 1 else ""),)
    else:
        array, ends = s.array(dtype, (*lead, Dim(f"{dim.text} + 3", dim.size + 3, dim.fixed))), (f"{s.random.randrange(4)} :+ {dim.text}",)
    indices = _indices(s, ctx, lead)
    return None if indices is None else (_subscript(array, indices + ends), dtype.compute)


def _gather(s: State, ctx: Context, dims: tuple[Dim, ...]) -> tuple[str, DType] | None:
    """`table[index row]`."""
    tables = [a for a in readable(s, ctx) if a.mode == "in" and len(a.dims) == 1 and 0 < a.dims[0].size <= 128]
    if not tables or len(dims) > 1:
        return None
    table = s.pick(tables)
    fill = ("randint", 0, table.dims[0].size)
    at = next((a for a in s.arrays if a.fill == fill and a.dims == dims and a.dtype in INDEX_TYPES), None)
    at = at or s.array(s.pick(INDEX_TYPES), dims, fill=fill)
    return f"{table.name}[{at.name}]", table.dtype.compute


def _subscript(array: Array, indices: Indices) -> str:
    return f"{array.name}[{', '.join(indices)}]" if indices else array.name


def _as(text: str, source: DType, dtype: DType) -> str:
    return text if source is dtype else f"({text} as {dtype})"


def _stored(s: State, dtype: DType) -> DType:
    same = [d for d in (s.storage(dtype.kind) for _ in range(4)) if d.compute is dtype]
    return same[0] if same else dtype


def _some_dims(s: State, ctx: Context) -> tuple[Dim, ...]:
    outer = [b.dim for level in _levels(ctx.level) for b in level.binders]
    dims = tuple(d for d in (outer or s.dims) if d.size and s.chance(0.7))[:3]
    return dims if dims and prod(d.size for d in dims) <= ELEMENTS else (Dim("7", 7, True),)


def _levels(level: Level | None) -> Iterator[Level]:
    while level is not None:
        yield level
        level = level.parent


def row_dims(s: State, ctx: Context) -> tuple[Dim, ...]:
    """The extents of a row to reduce or fill, small enough for where `ctx` stands."""
    fitting = [d for d in s.dims if d.size * ctx.volume <= VOLUME and d.size * ctx.steps <= 8 * STEPS]
    few = Dim(str(n := s.pick((1, 2, 3, 4, 5, 8))), n, True)
    dim = s.pick(fitting) if fitting and s.chance(0.8) else few
    return (dim,) if s.chance(0.95) or dim.size * ctx.volume * 4 > VOLUME else (dim, few)


# Writing ---------------------------------------------------------------------------------------------------------------------------


def own(s: State, ctx: Context, rest: tuple[Dim, ...] = (), kinds: str = "fiub") -> tuple[Array, Indices, bool]:
    """An array and the indices of what is this iteration's own, `rest` dimensions being left to the caller; whether that is all of it."""

    def match(level: Level, array: Array, dims: Sequence[Dim]) -> Indices | None:
        return _match(s, level, dims)

    known = [a for a in (*ctx.locals, *s.arrays) if a.mode != "in" and a.dtype.kind in kinds]
    s.random.shuffle(known)
    for array in known if s.chance(0.6) else ():
        if len(array.dims) < len(rest) or array.dims[len(array.dims) - len(rest) :] != rest:
            continue
        leading = ctx.level.own(array, match)
        if leading is not None and len(leading) <= len(array.dims) - len(rest):
            middle = _indices(s, replace(ctx, target=(array, "")), array.dims[len(leading) : len(array.dims) - len(rest)])
            if middle is not None:
                return array, leading + middle, not middle
    return _new_own(s, ctx, rest, kinds)


def _new_own(s: State, ctx: Context, rest: tuple[Dim, ...], kinds: str) -> tuple[Array, Indices, bool]:
    """A new parameter, its leading dimensions made for the loops around."""
    maps: list[tuple[Level, list[Dim], list[str], bool]] = []
    for level in reversed(list(_levels(ctx.level))):
        maps.append((level, *_placement(s, level)))
    dims = [d for _, part, _, _ in maps for d in part]
    if not dims and not rest:
        dims, at_root = [Dim("3", 3, True)], ("1",)
    else:
        at_root = ()
    array = s.array(s.storage(kinds), (*dims, *rest), s.weighted(["out", "inout"], [3, 2]))
    leading: Indices = ()
    for level, _, texts, partial in maps:
        leading += tuple(texts)
        if level.parent is not None:
            level.owned[array] = leading
        if partial:
            level.partial.add(array)
    return array, leading + at_root, not at_root


def _placement(s: State, level: Level) -> tuple[list[Dim], list[str], bool]:
    """Dimensions for the level's binders, an injective map into them, and whether elements are left out."""
    binders = list(level.binders)
    s.random.shuffle(binders) if s.chance(0.3) else None
    if len(binders) == 2 and s.chance(0.15):  # mixed radix
        a, b = binders
        dim = Dim(f"{_factor(a.dim)} * {_factor(b.dim)}", a.dim.size * b.dim.size, a.dim.fixed and b.dim.fixed)
        return [dim], [f"{a.name} * {_factor(b.dim)} + {b.name}"], not (a.full and b.full)
    dims, texts, partial = [], [], False
    for b in binders:
        if s.chance(0.15):
            scale, shift = s.pick((1, 2, 3)), s.pick((0, 1, 2))
            dims.append(Dim(f"{scale} * {_factor(b.dim)} + {shift}", scale * b.dim.size + shift, b.dim.fixed))
            texts.append(f"{scale} * {b.name} + {shift}")
            partial = True
        else:
            dims.append(b.dim)
            texts.append(_bijection(s, level, b))
            partial |= not b.full
    return dims, texts, partial


def _factor(dim: Dim) -> str:
    return dim.text if dim.text.isalnum() else f"({dim.text})"


def _bijection(s: State, level: Level, b: Binder) -> str:
    ways = [b.name, f"{b.dim.text} - 1 - {b.name}", f"({b.name} + {s.pick((1, 2, 5))}) % ({b.dim.text})", ""]
    way = s.weighted(ways, [8, 1, 1 if b.dim.size else 0, 0.4])
    if way:
        return way
    order = next((a for a in s.arrays if a.fill == ("permutation",) and a.dims == (b.dim,)), None)
    order = order or s.array(s.pick([DTYPES["i32"], I64]), (b.dim,), fill=("permutation",))
    level.promised = True
    return f"{order.name}[{b.name}]"


def _match(s: State, level: Level, dims: Sequence[Dim]) -> Indices | None:
    """A map of the level's binders onto the first of these dimensions, in some order."""
    left, texts = list(level.binders), []
    while left:
        if len(texts) == len(dims):
            return None
        fitting = [b for b in left if b.dim == dims[len(texts)]]
        if not fitting:
            return None
        b = s.pick(fitting)
        left.remove(b)
        texts.append(_bijection(s, level, b))
    return tuple(texts)


def index_name(binder: Binder, level: Level) -> Name:
    """The binder as a name in scope."""
    return Name(binder.name, I64, "index", level, binder.dim.size)
