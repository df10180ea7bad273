"""Statements that name and assign: `let`, `var`, `local`, stores to elements and rows, scans, atomics, `assert`, `print`."""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import BOOL, DTYPES, F32, F64, I64, DType
from vxc.fuzz.access import index, place, row_dims, trips
from vxc.fuzz.block import Made
from vxc.fuzz.expr import bare_literal, expr
from vxc.fuzz.layouts import layout
from vxc.fuzz.own import own
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.rows import order_attributes, row_expr, volume_of
from vxc.fuzz.state import COUNTED, STEPS, Context, Name, Row, RowName, State
from vxc.fuzz.windows import free, part_of, section
from vxc.semantics import SCANS

DEPTH = 3  # of expressions

# Names -----------------------------------------------------------------------------------------------------------------------------


def _bind(s: State, ctx: Context, kind: str) -> Made:
    dtype, name = s.compute(), s.fresh("v" if kind == "var" else "a")
    type_ = f": {s.spelled(dtype)}" if s.chance(0.4) else ""
    line = f"{kind} {name}{type_} = {expr(s, ctx, dtype, DEPTH)};"
    lines = [line]
    if kind == "var" and s.chance(0.15):  # declared first, set after
        lines = [f"var {name}: {dtype};", line.replace(f"var {name}{type_}", name)]
    return lines, replace(ctx, names=(*ctx.names, Name(name, dtype, kind, ctx.level)))


def let(s: State, ctx: Context) -> Made:
    return _bind(s, ctx, "let")


def var(s: State, ctx: Context) -> Made:
    return _bind(s, ctx, "var")


def row_let(s: State, ctx: Context) -> Made:
    """A row for later, made of what nothing writes; in a block a tile, computed where it stands."""
    name, dtype = s.fresh("r"), s.compute()
    if not ctx.in_block:
        dims = row_dims(s, ctx)
        line = f"let {name} = {row_expr(s, replace(ctx, stable=True), dims, dtype, 2)};"
        return [line], replace(ctx, rows=(*ctx.rows, RowName(name, dtype, dims)))
    dims = row_dims(s, ctx, fixed=True)
    line = f"let {name} = {row_expr(s, replace(ctx, scans=s.chance(0.5)), dims, dtype, 2)};"
    return [line], replace(ctx, locals=(*ctx.locals, Array(name, dtype, dims, "in")))


def local(s: State, ctx: Context) -> Made:
    """An array of each thread."""
    sizes = s.pick(((1,), (2,), (5,), (8,), (2, 3)))
    return declared(s, ctx, "local", s.storage(), tuple(Dim(str(n), n, True) for n in sizes), s.chance(0.7))


def declared(s: State, ctx: Context, space: str, dtype: DType, dims: tuple[Dim, ...], filled: bool) -> Made:
    """A new array of the program's own, filled or not."""
    array = Array(s.fresh("m" if space == "local" else space[0]), dtype, dims, space, spelled=s.spelled(dtype))
    init = f" = {expr(s, _along(ctx, dims), dtype.compute, 2)}" if filled else ""
    ctx.level.owned[array] = ()
    ready = ctx.ready | {array} if filled else ctx.ready
    return [f"{layout(s, ctx, space, dims)}{space} {array}{init};"], replace(ctx, locals=(*ctx.locals, array), ready=ready)


# Assignments -----------------------------------------------------------------------------------------------------------------------

UPDATES = {"f": ("+=", "-=", "*=", "/="), "i": ("+=", "-=", "*=", "&=", "|=", "^=", "<<=", ">>="), "b": ("&=", "|=", "^=")}
UPDATES["u"] = UPDATES["i"]


def assigned(s: State, ctx: Context, dtype: DType, update: bool) -> tuple[str, str]:
    """(operator, value) for a place that holds a `dtype`, updated or set."""
    sign = s.pick(UPDATES[dtype.kind]) if update else "="
    if dtype.is_float and not update and s.chance(0.1):
        return sign, expr(s, ctx, F64, 2)  # a store narrows
    if dtype is not BOOL and s.chance(0.05):
        return sign, bare_literal(s, dtype)
    return sign, expr(s, ctx, dtype.compute, DEPTH)


def set_var(s: State, ctx: Context) -> Made | None:
    known = [n for n in ctx.names if n.kind == "var" and n.level is ctx.level]
    if not known:
        return None
    name = s.pick(known)
    sign = s.pick(UPDATES[name.dtype.kind]) if s.chance(0.5) else "="
    return [f"{name.name} {sign} {expr(s, ctx, name.dtype, DEPTH)};"], ctx


def known(ctx: Context, array: Array) -> bool:
    """Whether the array's elements here have been written."""
    return array.mode == "inout" or array in ctx.ready


def store(s: State, ctx: Context) -> Made:
    array, indices, whole = own(s, ctx)
    sign, value = assigned(s, ctx, array.dtype, known(ctx, array) and s.chance(0.3))
    ready = ctx.ready | {array} if whole else ctx.ready
    return [f"{place(array, indices)} {sign} {value};"], replace(ctx, ready=ready)


def _row_place(s: State, ctx: Context, kinds: str = "fiub", most: int = 3) -> tuple[Array, str, tuple[Dim, ...], bool]:
    """A row of one's own: array, text, extents, and whether that is all of it. Now and then a slice of a longer row."""
    tiles = [a for a in ctx.locals if a.mode in ("shared", "fragment") and a.dtype.kind in kinds and all(d.size for d in a.dims)]
    if ctx.in_block and tiles and s.chance(0.3):
        tile = s.pick(tiles)
        dims = part_of(s, tile.dims)[:most]
        text, whole = section(s, replace(ctx, target=(tile, "")), tile, free(tile.dims), dims, inside=True)
        return tile, text, dims, whole
    dims = row_dims(s, ctx)[:most]
    if len(dims) == 1 and dims[0].fixed and dims[0].text.isdigit() and dims[0].size and s.chance(0.3):
        start, step = s.random.randrange(3), s.pick((1, 2))
        stop = start + (dims[0].size - 1) * step + 1
        array, indices, _ = own(s, ctx, (Dim(str(stop + 1), stop + 1, True),), kinds)
        return array, place(array, (*indices, f"{start}:{stop}" + (f":{step}" if step > 1 else ""))), dims, False
    array, indices, whole = own(s, ctx, dims, kinds)
    return array, place(array, indices), dims, whole


def _along(ctx: Context, dims: tuple[Dim, ...]) -> Context:
    """The context of a row statement."""
    return replace(ctx, row=Row(dims), volume=ctx.volume * volume_of(dims), steps=trips(ctx, volume_of(dims)))


def row_store(s: State, ctx: Context) -> Made:
    array, target, dims, whole = _row_place(s, ctx)
    inner = replace(_along(ctx, dims), target=(array, target), scans=True)
    sign, value = assigned(s, inner, array.dtype, known(ctx, array) and s.chance(0.3))
    ready = ctx.ready | {array} if whole else ctx.ready
    return [f"{target} {sign} {value};"], replace(ctx, ready=ready)


def scan_store(s: State, ctx: Context) -> Made | None:
    array, target, dims, whole = _row_place(s, ctx, "f")
    if trips(ctx, volume_of(dims)) > STEPS:
        return None
    axis = s.random.randrange(len(dims))
    inner = replace(ctx, target=(array, target), scans=True)
    named = f", axis = {axis}" if len(dims) > 1 else ""
    how, row = order_attributes(s, ctx, scan=True), row_expr(s, inner, dims, array.dtype.compute, 2, axis)
    value = f"{how} cum{s.pick(SCANS)}({row}{named})".strip()
    ready = ctx.ready | {array} if whole else ctx.ready
    return [f"{target} = {value};"], replace(ctx, ready=ready)


_ATOMIC = [DTYPES[name] for name in ("i32", "i64", "u32", "u64")]


def atomic(s: State, ctx: Context) -> Made | None:
    """An update of any element. Sums of floats depend on their order, so floats are only compared, or small integers added."""
    kind = s.pick(("add", "max", "min"))
    types = [*_ATOMIC, F32, F64]
    found = [a for a in (*s.arrays, *ctx.locals) if a.dtype in types and _shared(ctx, a) and all(d.size for d in a.dims)]
    found = [a for a in found if a.dtype.is_int or (kind == "add") == (a.fill == COUNTED)]
    array = s.pick(found) if found and s.chance(0.7) else _counters(s, s.pick(types), kind)
    leading = ctx.level.atomic(array, kind)
    if leading is None:
        return None
    inner = replace(ctx, target=(array, ""))
    target = place(array, leading + tuple(index(s, inner, d) for d in array.dims[len(leading) :]))
    value = expr(s, inner, array.dtype, 2)
    if array.dtype.is_float and kind == "add":
        value = f"(({expr(s, inner, I64, 2)} % 8) as {array.dtype})"
    call = f"atomic_{kind}({target}, {value});"
    if array in ctx.level.atomics or s.chance(0.5):  # the value before depends on the order, unless the element is one's own
        return [call], ctx
    old = s.fresh("o")
    return [f"let {old} = {call}"], replace(ctx, names=(*ctx.names, Name(old, array.dtype, "let", ctx.level)))


def _counters(s: State, dtype: DType, kind: str) -> Array:
    return s.array(dtype, (Dim(str(n := s.pick((1, 3, 16))), n, True),), "inout", COUNTED if dtype.is_float and kind == "add" else None)


def _shared(ctx: Context, array: Array) -> bool:
    """Whether several may update the array, and it holds something."""
    return array.mode == "inout" or (array.mode == "shared" and array in ctx.ready and array.dtype.is_int)


# Checks ----------------------------------------------------------------------------------------------------------------------------


def assert_(s: State, ctx: Context) -> Made | None:
    near = [n.name for n in ctx.names if n.kind == "index" and n.limit is not None]
    return ([f'assert({s.pick(near)} > -1, "indices count from 0");'], ctx) if near else None


def print_(s: State, ctx: Context) -> Made | None:
    """Compiled, never run, which no pass knows: what is printed is no result."""
    near = [n.name for n in ctx.names if n.kind == "index" and n.limit is not None]
    if not near:
        return None
    name = s.pick(near)
    return [f'if {name} * {name} % 4 == 2 {{ print("{name}", {name}, {expr(s, ctx, s.compute(), 1)}); }}'], ctx
