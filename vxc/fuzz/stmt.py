"""Statements: a table of productions, each of which writes some lines and gives the context that holds after them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from vxc.dtypes import BOOL, DTYPES, F64, I32, I64, DType
from vxc.fuzz.access import index, index_name, own, row_dims
from vxc.fuzz.expr import bare_literal, expr, order_attributes, row_expr
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import LOOSE_STEPS, STEPS, VOLUME, Binder, Context, Indices, Level, Name, Row, RowName, State
from vxc.semantics import REDUCTIONS, SCALAR_OPS, SCANS

Made = tuple[list[str], Context]
DEPTH = 3  # of expressions
NESTED = 3  # parallel loops within each other
ITERATIONS = 3_000  # of one nest


@dataclass(frozen=True)
class Production:
    """`inside` and `outside` are weights in and out of parallel loops. `make` gives None where it does not apply."""

    make: Callable[[State, Context], Made | None]
    inside: float
    outside: float


def block(s: State, ctx: Context, count: int) -> Made:
    """About `count` statements, fewer when fuel is short; at least one."""
    lines: list[str] = []
    while not lines or (count > 0 and s.fuel > 0):
        made, ctx = statement(s, ctx)
        lines += made
        count -= 1
    return lines, ctx


def statement(s: State, ctx: Context) -> Made:
    s.fuel -= 1
    inside = ctx.level.parent is not None
    weights = [p.inside if inside else p.outside for p in PRODUCTIONS]
    while True:
        made = s.weighted(PRODUCTIONS, weights).make(s, ctx)
        if made is not None:
            return made


def _nested(s: State, ctx: Context, **changes) -> list[str]:
    """A block in braces, of which nothing is known afterwards."""
    loose = ctx.loose or ctx.level.parent is None
    lines, _ = block(s, replace(ctx, loose=loose, **changes), s.random.randint(1, 3))
    return _indent(lines)


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


# Names -----------------------------------------------------------------------------------------------------------------------------


def _bind(s: State, ctx: Context, kind: str) -> Made:
    dtype, name = s.compute(), s.fresh("v" if kind == "var" else "a")
    type_ = f": {dtype}" if s.chance(0.4) else ""
    line = f"{kind} {name}{type_} = {expr(s, ctx, dtype, DEPTH)};"
    return [line], replace(ctx, names=(*ctx.names, Name(name, dtype, kind, ctx.level)))


def _let(s: State, ctx: Context) -> Made:
    return _bind(s, ctx, "let")


def _var(s: State, ctx: Context) -> Made:
    return _bind(s, ctx, "var")


def _row_let(s: State, ctx: Context) -> Made:
    dims, dtype, name = row_dims(s, ctx), s.compute(), s.fresh("r")
    line = f"let {name} = {row_expr(s, replace(ctx, stable=True), dims, dtype, 2)};"
    return [line], replace(ctx, rows=(*ctx.rows, RowName(name, dtype, dims)))


def _local(s: State, ctx: Context) -> Made:
    sizes = s.pick(((1,), (2,), (5,), (8,), (2, 3)))
    array = Array(s.fresh("m"), s.storage(), tuple(Dim(str(n), n, True) for n in sizes), "local")
    init = ""
    if s.chance(0.7):
        init = f" = {expr(s, replace(ctx, row=Row(array.dims)), array.dtype.compute, 2)}"
    ctx.level.owned[array] = ()
    ready = ctx.ready | {array} if init else ctx.ready
    return [f"local {array}{init};"], replace(ctx, locals=(*ctx.locals, array), ready=ready)


# Assignments -----------------------------------------------------------------------------------------------------------------------

_UPDATES = {"f": ("+=", "-=", "*=", "/="), "i": ("+=", "-=", "*=", "&=", "|=", "^=", "<<=", ">>="), "b": ("&=", "|=", "^=")}
_UPDATES["u"] = _UPDATES["i"]


def _assigned(s: State, ctx: Context, dtype: DType, update: bool) -> tuple[str, str]:
    """(operator, value) for a place that holds a `dtype`, updated or set."""
    sign = s.pick(_UPDATES[dtype.kind]) if update else "="
    if dtype.is_float and not update and s.chance(0.1):
        return sign, expr(s, ctx, F64, 2)  # a store narrows
    if dtype is not BOOL and s.chance(0.05):
        return sign, bare_literal(s, dtype)
    return sign, expr(s, ctx, dtype.compute, DEPTH)


def _set(s: State, ctx: Context) -> Made | None:
    known = [n for n in ctx.names if n.kind == "var" and n.level is ctx.level]
    if not known:
        return None
    var = s.pick(known)
    update = s.chance(0.5)
    sign = s.pick(_UPDATES[var.dtype.kind]) if update else "="
    return [f"{var.name} {sign} {expr(s, ctx, var.dtype, DEPTH)};"], ctx


def _known(ctx: Context, array: Array) -> bool:
    return array.mode == "inout" or array in ctx.ready


def _place(array: Array, indices: Indices) -> str:
    return f"{array.name}[{', '.join(indices)}]" if indices else array.name


def _store(s: State, ctx: Context) -> Made:
    array, indices, whole = own(s, ctx)
    sign, value = _assigned(s, ctx, array.dtype, _known(ctx, array) and s.chance(0.3))
    ready = ctx.ready | {array} if whole else ctx.ready
    return [f"{_place(array, indices)} {sign} {value};"], replace(ctx, ready=ready)


def _row_place(s: State, ctx: Context, kinds: str = "fiub", most: int = 2) -> tuple[Array, str, tuple[Dim, ...], bool]:
    """A row of one's own: array, text, extents, and whether that is all of it. Now and then a slice of a longer row."""
    dims = row_dims(s, ctx)[:most]
    if len(dims) == 1 and dims[0].fixed and dims[0].text.isdigit() and dims[0].size and s.chance(0.3):
        start, step = s.random.randrange(3), s.pick((1, 2))
        stop = start + (dims[0].size - 1) * step + 1
        array, indices, _ = own(s, ctx, (Dim(str(stop + 1), stop + 1, True),), kinds)
        return array, _place(array, (*indices, f"{start}:{stop}" + (f":{step}" if step > 1 else ""))), dims, False
    array, indices, whole = own(s, ctx, dims, kinds)
    return array, _place(array, indices), dims, whole


def _row_store(s: State, ctx: Context) -> Made:
    array, place, dims, whole = _row_place(s, ctx)
    inner = replace(ctx, row=Row(dims), target=(array, place), scans=len(dims) == 1, volume=ctx.volume * max(prod(d.size for d in dims), 1))
    sign, value = _assigned(s, inner, array.dtype, _known(ctx, array) and s.chance(0.3))
    ready = ctx.ready | {array} if whole else ctx.ready
    return [f"{place} {sign} {value};"], replace(ctx, ready=ready)


def _scan_store(s: State, ctx: Context) -> Made:
    array, place, dims, whole = _row_place(s, ctx, "f", 1)
    dtype = array.dtype.compute
    inner = replace(ctx, target=(array, place), scans=True)
    value = f"{order_attributes(s, ctx)} cum{s.pick(SCANS)}({row_expr(s, inner, dims, dtype, 2)})".strip()
    ready = ctx.ready | {array} if whole else ctx.ready
    return [f"{place} = {value};"], replace(ctx, ready=ready)


_ATOMIC = [DTYPES[name] for name in ("i32", "i64", "u32", "u64")]


def _atomic(s: State, ctx: Context) -> Made:
    """An update of any element. Sums of floats depend on their order, so floats are only compared."""
    kind = s.pick(("add", "max", "min"))
    types = _ATOMIC if kind == "add" else [*_ATOMIC, DTYPES["f32"], F64]
    known = [a for a in s.arrays if a.mode == "inout" and a.dtype in types and all(d.size for d in a.dims)]
    array = s.pick(known) if known and s.chance(0.7) else s.array(s.pick(types), (Dim(str(n := s.pick((1, 3, 16))), n, True),), "inout")
    leading = ctx.level.atomic(array, kind)
    if leading is None:
        return None
    inner = replace(ctx, target=(array, ""))
    place = _place(array, leading + tuple(index(s, inner, d) for d in array.dims[len(leading) :]))
    call = f"atomic_{kind}({place}, {expr(s, inner, array.dtype, 2)});"
    if array in ctx.level.atomics or s.chance(0.5):  # the value before depends on the order, unless the element is one's own
        return [call], ctx
    old = s.fresh("o")
    return [f"let {old} = {call}"], replace(ctx, names=(*ctx.names, Name(old, array.dtype, "let", ctx.level)))


# Control ---------------------------------------------------------------------------------------------------------------------------


def _if(s: State, ctx: Context) -> Made:
    lines = [f"if {expr(s, ctx, BOOL, 2)} {{", *_nested(s, ctx)]
    if s.chance(0.2):
        lines += [f"}} else if {expr(s, ctx, BOOL, 1)} {{", *_nested(s, ctx)]
    if s.chance(0.4):
        lines += ["} else {", *_nested(s, ctx)]
    return [*lines, "}"], ctx


def _serial(s: State, ctx: Context) -> Made | None:
    short = [d for d in s.dims if d.size <= 5]
    ranges = [("3", 3, 3), ("1..4", 3, 4), ("0..9 step 4", 3, 9), ("5..0 step -2", 3, 6), ("2..2", 1, 3)]
    ranges += [(d.text, d.size, d.size) for d in short]
    if s.chance(0.3):
        ranges = [(f"({expr(s, ctx, I32, 2)} as i64) % 4", 3, 4)]
    text, trips, limit = s.pick(ranges)
    if not _affordable(ctx, trips):
        return None
    name = s.fresh("k")
    inner = _repeated(replace(ctx, names=(*ctx.names, Name(name, I64, "index", ctx.level, limit)), loop="serial"), trips)
    attr = s.weighted(["", "@unroll(2) "], [6, 1])
    return [f"{attr}serial {name} in {text} {{", *_nested(s, inner), "}"], ctx


def _affordable(ctx: Context, trips: int) -> bool:
    return ctx.volume * trips <= VOLUME and ctx.steps * trips <= (LOOSE_STEPS if ctx.loose else STEPS)


def _repeated(ctx: Context, trips: int) -> Context:
    return replace(ctx, volume=ctx.volume * max(trips, 1), steps=ctx.steps * max(trips, 1))


def _unroll(s: State, ctx: Context) -> Made | None:
    if not _affordable(ctx, 3):
        return None
    name = s.fresh("u")
    inner = _repeated(replace(ctx, names=(*ctx.names, Name(name, I64, "index", ctx.level, 4)), loop="unroll"), 3)
    return [f"unroll {name} in {s.pick(('3', '1..4', '0..4 step 2'))} {{", *_nested(s, inner), "}"], ctx


def _while(s: State, ctx: Context) -> Made | None:
    if not _affordable(ctx, 3):
        return None
    name = s.fresh("c")
    ctx = replace(ctx, names=(*ctx.names, Name(name, I32, "counter", ctx.level)))
    body = _nested(s, _repeated(ctx, 3), loop="while")
    cond = f"{name} < {s.pick((1, 2, 3))}" + (f" && {expr(s, ctx, BOOL, 2)}" if s.chance(0.5) else "")
    return [f"var {name}: i32 = 0;", f"while {cond} {{", f"    {name} += 1;", *body, "}"], ctx


def _leave(s: State, ctx: Context) -> Made | None:
    if ctx.loop not in ("serial", "while"):
        return None
    return [f"if {expr(s, ctx, BOOL, 2)} {{ {s.pick(('break', 'continue'))}; }}"], ctx


def _assert(s: State, ctx: Context) -> Made | None:
    near = [n.name for n in ctx.names if n.kind == "index"]
    return ([f'assert({s.pick(near)} > -1, "indices count from 0");'], ctx) if near else None


# Parallel loops --------------------------------------------------------------------------------------------------------------------


def parallel(s: State, ctx: Context) -> Made | None:
    """A nest of parallel loops; at its end something is stored."""
    nested, level = 0, ctx.level
    while level.parent is not None:
        nested, level = nested + 1, level.parent
    if nested >= NESTED:
        return None
    binders, ranges = _binders(s, ctx, nested)
    volume = prod(max(b.dim.size, 1) for b in binders)
    spread = not nested and not ctx.loose  # over blocks
    if volume > ITERATIONS or not (spread or _affordable(ctx, volume)):
        return None
    level = Level(ctx.level, tuple(binders))
    names = (*ctx.names, *(index_name(b, level) for b in binders))
    inner = _repeated(ctx, volume)
    inner = replace(inner, level=level, names=names, loop="parallel", steps=ctx.steps if spread else inner.steps)
    lines, inner = block(s, inner, s.random.randint(0, 5 - 2 * nested))
    last, inner = (_store if s.chance(0.7) else _row_store)(s, inner)
    attrs = ['@independent("an order names each place once")'] if level.promised else []
    attrs += [_ordering(order_attributes(s, inner), [*lines, *last])] if s.chance(0.3) else []
    head = " ".join(a for a in [*attrs, "parallel"] if a)
    lines = [f"{head} {', '.join(ranges)} {{", *_indent([*lines, *last]), "}"]
    complete = all(b.full for b in binders)
    written = {a for a in inner.ready - ctx.ready if a in s.arrays or a in ctx.locals} - level.partial
    return lines, replace(ctx, ready=ctx.ready | written if complete else ctx.ready)


_REDUCES = re.compile(rf"\b(?:{'|'.join(sorted({*REDUCTIONS} - {*SCALAR_OPS}))}|cum\w+)\(")


def _ordering(attrs: str, body: list[str]) -> str:
    """Of the attributes, those that mean something: without a reduction or scan inside, lanes only."""
    return attrs if _REDUCES.search("\n".join(body)) else " ".join(word for word in attrs.split() if word.startswith("@lanes"))


def _binders(s: State, ctx: Context, nested: int) -> tuple[list[Binder], list[str]]:
    binders: list[Binder] = []
    ranges: list[str] = []
    few = [Dim(str(n), n, True) for n in (1, 2, 3, 4, 6)]
    for _ in range(s.weighted([1, 2, 3, 4], [6, 4, 1, 1] if not nested else [6, 1, 0, 0])):
        dim = s.pick(s.dims if s.chance(0.85) and len(binders) < 2 else few)
        name = s.fresh("i")
        around = [b for b in (*ctx.level.binders, *binders) if b.dim.size]
        ways = [(f"{dim.text}", True), (f"1..{dim.text}", False), (f"0..{dim.text} step 2", False)]
        if dim.size > 2:
            ways.append((f"1..{dim.text} - 1", False))
        text, full = s.weighted(ways, [12, 1, 1, 1][: len(ways)])
        if around and s.chance(0.08):  # a triangle
            outer = s.pick(around)
            dim, text, full = outer.dim, f"{outer.name} + 1", False
        binders.append(Binder(name, dim, full))
        ranges.append(f"{name} in {text}")
    return binders, ranges


PRODUCTIONS = [
    #          make         inside outside
    Production(_let,          5.0, 1.5),
    Production(_var,          2.5, 1.0),
    Production(_set,          4.0, 0.5),
    Production(_row_let,      2.0, 0.5),
    Production(_local,        1.5, 0.0),
    Production(_store,        5.0, 0.7),
    Production(_row_store,    4.0, 1.0),
    Production(_scan_store,   1.5, 0.3),
    Production(_atomic,       2.0, 0.3),
    Production(_if,           2.5, 0.5),
    Production(_serial,       2.0, 0.5),
    Production(_unroll,       0.7, 0.0),
    Production(_while,        1.0, 0.2),
    Production(_leave,        2.5, 0.0),
    Production(_assert,       0.3, 0.0),
    Production(parallel,      2.0, 6.0),
]  # fmt: skip
