"""Elements of an iteration's own: an injective map of the indices of the loops around into an array, a known one or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vxc.dtypes import DTYPES, I64, DType
from vxc.fuzz.access import indices_of, levels
from vxc.fuzz.levels import Binder, Indices, Level
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import COUNTED, Context, Name, State


def own(s: State, ctx: Context, rest: tuple[Dim, ...] = (), kinds: str = "fiub") -> tuple[Array, Indices, bool]:
    """An array and the indices of what is this iteration's own, `rest` dimensions being left to the caller; whether that is all of it."""
    known = [a for a in (*ctx.locals, *s.arrays) if a.mode != "in" and a.dtype.kind in kinds and a.fill != COUNTED]
    if ctx.grid and ctx.crowd > 32:  # every thread would run all iterations to fill an array of its own
        known = [a for a in known if a.mode != "local" or a not in ctx.grid.level.owned]
    s.random.shuffle(known)
    for array in known if s.chance(0.8 if ctx.grid else 0.6) else ():
        if len(array.dims) < len(rest) or array.dims[len(array.dims) - len(rest) :] != rest:
            continue
        leading = leading_of(s, ctx, array)
        if leading is not None and len(leading) <= len(array.dims) - len(rest):
            middle = indices_of(s, replace(ctx, target=(array, "")), array.dims[len(leading) : len(array.dims) - len(rest)])
            if middle is not None:
                return array, leading + middle, not middle
    return new_own(s, ctx, rest, s.storage(kinds))


def leading_of(s: State, ctx: Context, array: Array) -> Indices | None:
    """The indices that lead to this iteration's own part of the array, or None where it has none."""

    def match(level: Level, array: Array, dims: Sequence[Dim]) -> Indices | None:
        return _match(s, level, dims)

    return ctx.level.own(array, match)


def new_own(s: State, ctx: Context, rest: tuple[Dim, ...], dtype: DType) -> tuple[Array, Indices, bool]:
    """A new parameter, its leading dimensions made for the loops around."""
    maps: list[tuple[Level, list[Dim], list[str], bool]] = []
    for level in reversed(list(levels(ctx.level))):
        maps.append((level, *_placement(s, level)))
    dims = [d for _, part, _, _ in maps for d in part]
    if not dims and not rest:
        dims, at_root = [Dim("3", 3, True)], ("1",)
    else:
        at_root = ()
    array = s.array(dtype, (*dims, *rest), s.weighted(["out", "inout"], [3, 2]))
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
    if len(binders) == 2 and all(b.dim.simple for b in binders) and s.chance(0.15):  # mixed radix
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
    ways = [b.name, f"{b.dim.text} - 1 - {b.name}", f"({b.name} + {s.pick((1, 2, 5))}) % ({b.dim.text})"]
    ways += [f"({b.name} ^ {s.pick((1, 3))})", ""]
    power = b.dim.fixed and b.dim.size >= 4 and not b.dim.size & b.dim.size - 1
    way = s.weighted(ways, [8, 1, 1 if b.dim.size and b.dim.simple else 0, 1 if power else 0, 0.4 if b.dim.size < 128 else 0])
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
