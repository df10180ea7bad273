"""Windows: which part of a global array a block owns, and how a tile of given extents is written in the parts of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from vxc.dtypes import I64, DType
from vxc.fuzz.access import index, numbers
from vxc.fuzz.levels import Window
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import COUNTED, Context, State

Parts = tuple[Window, ...]


def free(dims: Sequence[Dim]) -> Parts:
    """Dimensions that are accessible from end to end."""
    return tuple(Window("", d, d) for d in dims)


# Windows that a block owns ---------------------------------------------------------------------------------------------------------


def own_window(s: State, ctx: Context, kinds: str = "fiub", dtype: DType | None = None) -> tuple[Array, Parts]:
    """An array and the part of it that belongs to the block: one that the grid has windows of, one that fits, or a new one (a `dtype`)."""
    level = ctx.grid.level
    if level.windows and s.chance(0.5):
        found = [item for item in level.windows.items() if item[0].dtype.kind in kinds]
        if found:
            return s.pick(found)
    for array in s.arrays if s.chance(0.3) else ():
        unused = array not in level.owned and array not in level.reads and array not in level.atomics
        if array.mode != "in" and array.dtype.kind in kinds and array.fill != COUNTED and unused:
            parts = _fitting(ctx.grid.parts, array)
            if parts is not None:
                return array, level.windows.setdefault(array, parts)
    parts = [*ctx.grid.parts, *free([s.pick(ctx.grid.dims)] if s.chance(0.3) else ())]
    s.random.shuffle(parts)
    array = s.array(dtype or s.storage(kinds), [p.whole for p in parts], s.weighted(["out", "inout"], [3, 2]))
    if not all(b.full for b in level.binders):
        level.partial.add(array)
    level.windows[array] = tuple(parts)
    return array, level.windows[array]


def _fitting(parts: Parts, array: Array) -> Parts | None:
    """The array's dimensions as windows, each axis of the grid taking one that it divides."""
    found: list[Window] = list(free(array.dims))
    for part in parts:
        at = next((k for k, w in enumerate(found) if w.whole == part.whole and not w.start), None)
        if at is None:
            return None
        found[at] = part
    return tuple(found)


def part_of(s: State, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Extents of a part of a tile, of its rank or less."""
    chosen = [d for d in dims if not d.size or s.chance(0.7)] or [dims[0]]
    sizes = [d.size if s.chance(0.4) else s.random.randint(min(d.size, 1), d.size) for d in chosen]
    return tuple(d if d.size == n else Dim(str(n), n, True) for d, n in zip(chosen, sizes))


# Tiles in the parts of an array ----------------------------------------------------------------------------------------------------


def section(
    s: State, ctx: Context, array: Array, parts: Parts, extents: Sequence[Dim], inside: bool = False, start: bool = False
) -> tuple[str, bool] | None:
    """A tile of these extents in the parts of an array, and whether it is all of them; None where it does not fit.

    `inside`: it may not reach beyond the array. `start`: it may be written as the place where it starts.
    """
    carrying = [k for k, p in enumerate(parts) if p.extent is not None]
    ways = [c for c in combinations(carrying, len(extents)) if all(_fits(parts[k], e, inside) for k, e in zip(c, extents))]
    ways = [c for c in ways if all(k in c or parts[k].extent.size for k in carrying)]
    if not ways:
        return None
    chosen = dict(zip(s.pick(ways), extents))
    some = all(p.extent.size or not p.extent.fixed for p in (parts[k] for k in chosen))  # an index of no elements is refused
    as_start = start and some and list(chosen) == list(range(len(parts) - len(extents), len(parts))) and s.chance(0.5)
    texts, whole = [], True
    for k, part in enumerate(parts):
        if k not in chosen:
            whole &= part.extent is None
            texts.append(part.start if part.extent is None else _within(s, replace(ctx, target=(array, "")), part))
            continue
        text, all_ = _window(s, ctx, part, chosen[k], inside, as_start)
        whole &= all_
        texts.append(text)
    if all(t == ":" for t in texts) and s.chance(0.8):
        return array.name, whole
    while texts and texts[-1] == ":" and s.chance(0.3) and len(texts) > 1:
        texts.pop()
    return f"{array.name}[{', '.join(texts)}]", whole


def _within(s: State, ctx: Context, part: Window) -> str:
    """An index in a part; in a block's own window, one that is seen to be in it."""
    if not part.start:
        return index(s, ctx, part.extent)
    return f"{part.start} + {s.random.randrange(part.extent.size)}"


def _fits(part: Window, extent: Dim, inside: bool) -> bool:
    """Whether a tile may lie along a part: in a block's own window only what stays in it."""
    if part.start or (inside and part.extent.fixed):
        return extent.fixed and extent.size <= part.extent.size
    return not inside or part.extent == extent


def _window(s: State, ctx: Context, part: Window, extent: Dim, inside: bool, as_start: bool) -> tuple[str, bool]:
    """A window of an extent in one part, and whether that is all of it."""
    if part.start or inside:
        room = part.extent.size - extent.size
        steps = extent.size and not as_start and (extent.size - 1) * 3 < part.extent.size
        step = s.pick((1, 2, 3)) if steps and s.chance(0.4) else 1
        by = s.random.randint(0, max(0, part.extent.size - 1 - (extent.size - 1) * step)) if extent.size else 0
        whole = room == 0 and step == 1
        if whole and not part.start and not as_start and s.chance(0.6):
            return ":", True
        if room > 0 and not part.start and step == 1 and s.chance(0.4):
            by = f"clamp({s.expr(s, replace(ctx, row=None, scans=False), I64, 1)}, 0, {room})"
        room = part.extent.size - by if isinstance(by, int) else 0
        return _written(s, _plus(part.start, str(by)) if by else part.start or "0", extent, step, as_start, room), whole
    if extent == part.whole and not as_start and s.chance(0.4):
        return ":", True
    begin = _begin(s, ctx, part.whole, extent)
    steps = extent.fixed and extent.size and not as_start and (begin.isidentifier() or begin.isdigit())
    step = s.pick((2, 3)) if steps and s.chance(0.2) else 1
    return _written(s, begin, extent, step, as_start, 1 << 30), begin == "0" and step == 1 and extent.size >= part.whole.size


def _begin(s: State, ctx: Context, whole: Dim, extent: Dim) -> str:
    """Where a tile starts that may lie anywhere, outside of the array too."""
    names = [n.name for n in ctx.names if n.kind in ("index", "scalar") and n.dtype is I64]
    tiles = [t.start for t in ctx.grid.tiles if t.extent == extent]
    ways = [("0", 4.0), (str(s.random.randint(0, whole.size + 1)), 1.5), (f"-{s.pick((1, 2, 5))}", 0.7)]
    ways += [(t, 6.0 / len(tiles)) for t in tiles] + [(f"{t} - 1", 0.5) for t in tiles]
    ways += [(s.pick(names), 1.0), (f"{s.pick(names)} * {extent.text}", 2.0)] if names else []
    if extent.fixed:
        pages = numbers(s, (Dim("4", 4, True),), 3, -1) if s.chance(0.2) else None
        ways += [(f"{pages.name}[{index(s, replace(ctx, row=None), pages.dims[0])}] * {extent.text}", 20.0)] if pages else []
    if s.chance(0.1):
        ways.append((f"({s.expr(s, replace(ctx, row=None, scans=False), I64, 1)}) % {whole.size + 2} - 1", 10.0))
    texts, weights = zip(*ways)
    return s.weighted(texts, weights)


def _written(s: State, begin: str, extent: Dim, step: int, as_start: bool, room: int) -> str:
    """The text of a window; a slice by steps may end `room` elements after its begin."""
    if as_start:
        return begin
    plain = begin.isidentifier() or begin.isdigit()
    if step > 1:
        reach = str((extent.size - 1) * step + 1)
        if room >= extent.size * step and s.chance(0.5):
            reach = f"{extent.text} * {step}"
        return f"{begin} : {_plus(begin, reach)} : {step}"
    return f"{begin} : {_plus(begin, extent.text)}" if plain and s.chance(0.3) else f"{begin} :+ {extent.text}"


def _plus(a: str, b: str) -> str:
    return b if a in ("", "0") else f"{a} + {b}"
