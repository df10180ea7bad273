"""Nests whose iterations go round their arrays from somewhere, by scalars of any size: sums of indices that may wrap, and their digits."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vxc.dtypes import I32, I64
from vxc.fuzz.access import as_type, place
from vxc.fuzz.block import Made, indent
from vxc.fuzz.levels import Binder, Level
from vxc.fuzz.program import Dim
from vxc.fuzz.state import VOLUME, Context, State

SIDES = (4, 7, 32, 33, 64)
WORK = 60  # what one counts for: interpreters take the elements of a nest together


def rotated(s: State, ctx: Context) -> Made | None:
    """Where no block is around it: elements from anywhere, and numbers made of where that is, to arrays that are its own."""
    sides = [d for d in (*s.dims, *(Dim(str(n), n, True) for n in SIDES)) if d.size]
    dims = tuple(s.pick(sides) for _ in range(s.pick((1, 1, 2))))
    volume = prod(d.size for d in dims)
    if ctx.grid or ctx.loose or ctx.volume * volume > VOLUME:
        return None
    s.spend(WORK)
    binders = [Binder(s.fresh("i"), d) for d in dims]
    level = Level(ctx.level, tuple(binders))
    source, target, number = s.array(s.storage("iuf"), dims), s.array(s.storage("iuf"), dims, "out"), s.array(I64, dims, "out")
    far = [_scalar(s) for _ in dims]
    read = place(source, [_anywhere(s, b, n) for b, n in zip(binders, far)])
    own = [_own(s, b, n) for b, n in zip(binders, far)]
    level.owned.update({target: tuple(own), number: tuple(b.name for b in binders)})
    b, n = s.pick(list(zip(binders, far)))
    value = s.pick((_anywhere(s, b, n), f"({b.name} * {s.pick((1, 3, 8))} + {n}) // {s.pick((2, 3, 8))}"))
    lines = [
        f"{place(target, own)} = {as_type(s, read, source.dtype.compute, target.dtype.compute)};",
        f"{place(number, level.owned[number])} = {value};",
    ]
    s.random.shuffle(lines)
    ranges = ", ".join(f"{b.name} in {b.dim.text}" for b in binders)
    return [f"parallel {ranges} {{", *indent(lines), "}"], replace(ctx, ready=ctx.ready | {target, number})


def _scalar(s: State) -> str:
    """A parameter of its own, near one end of its type or small."""
    dtype, name = s.pick((I64, I64, I32)), s.fresh("s")
    s.scalars.append((name, dtype, s.pick((0, 1, -1, 5, dtype.max, dtype.max - 3, dtype.min, dtype.min + 2, dtype.max // 2))))
    return name


def _anywhere(s: State, b: Binder, n: str) -> str:
    """An index in range, whatever the sum is."""
    ways = ("({i} + {n}) % {d}", "({i} - {n}) % {d}", "({n} - {i} * 3) % {d}", "({i} * 5 + {n}) // 3 % {d}", "({i} + {n} + 4) // 4 % {d}")
    return s.pick(ways).format(i=b.name, n=n, d=_bracketed(b.dim))


def _own(s: State, b: Binder, n: str) -> str:
    """An index that no other iteration has."""
    ways = ["{i}", "({i} + 3) % {d}", "({i} + {n} % {d}) % {d}", "({i} - {n} % {d}) % {d}", "{d} - 1 - ({i} + {n} % {d}) % {d}"]
    if b.dim.fixed and b.dim.size & (b.dim.size - 1) == 0:
        ways += ["({i} + {n}) % {d}", "({n} - {i}) % {d}"]
    return s.pick(ways).format(i=b.name, n=n, d=_bracketed(b.dim))


def _bracketed(dim: Dim) -> str:
    return dim.text if dim.text.isalnum() else f"({dim.text})"
