"""`gemm`: products of tiles, and loops that refill a tile after reading it."""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import DTYPES, F64, I32, I64, DType
from vxc.frontend.check_tiles import ACCUMULATORS
from vxc.fuzz.block import Made, affordable, indent, repeated
from vxc.fuzz.copies import source_of, tiles_of
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.state import Context, Name, State
from vxc.fuzz.stmt import declared

FACTORS = {"f16": 4, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "f32": 5, "f64": 1, "i8": 2, "u8": 1}


def refill(s: State, ctx: Context) -> Made | None:
    """A loop whose trips read what the trip before has copied to a tile, and fill it again."""
    known = [a for a in tiles_of(ctx) if a in ctx.ready and a.mode == "shared" and a.dtype.is_int and all(d.size for d in a.dims)]
    count = s.pick((0, 1, 2, 3))
    if not known or not affordable(ctx, 2 * count):
        return None
    tile, name = s.pick(known), s.fresh("k")
    acc = Array(s.fresh("f"), tile.dtype.compute, tile.dims, "fragment")
    ctx.level.owned[acc] = ()
    ctx = replace(ctx, locals=(*ctx.locals, acc), ready=ctx.ready | {acc})
    indices = [s.fresh("i") for _ in tile.dims]
    there = [s.pick((f"{d.text} - 1 - {i}", f"({i} + 1) % {d.text}", i)) for i, d in zip(indices, tile.dims)]
    ranges = ", ".join(f"{i} in {d.text}" for i, d in zip(indices, tile.dims))
    inner = replace(repeated(ctx, count), names=(*ctx.names, Name(name, I64, "index", ctx.level, max(count, 1))), target=(tile, ""))
    source = source_of(s, inner, tile.dims, tile.dtype)
    add = f"{acc.name}[{', '.join(indices)}] {s.pick(('+=', '^='))} {tile.name}[{', '.join(there)}];"
    body = [f"parallel {ranges} {{ {add} }}", f"copy({source}, {tile.name});"]
    loop = f"{s.pick(('@stages(2) ', '@stages(3) ', ''))}pipelined {name} in {count} {{"
    return [f"fragment {acc} = 0;", loop, *indent(body), "}"], ctx


def gemm(s: State, ctx: Context) -> Made | None:
    """A matrix product, often in a loop over parts of its depth. Factors narrower than f32 are whole numbers: their sums are exact."""
    m, n, k = (s.pick([d for d in ctx.grid.dims if d.size <= 17] or [Dim("3", 3, True)]) for _ in range(3))
    dtype = DTYPES[s.weighted(list(FACTORS), list(FACTORS.values()))]
    rounds = -(-m.size * n.size // ctx.grid.threads) * k.size
    count = s.pick((0, 1, 2, 3)) if s.chance(0.6) else -1  # trips of a loop, or none
    if not affordable(replace(ctx, steps=ctx.steps * max(count, 1)), rounds):
        return None
    s.spend(8 * ctx.steps * max(count, 1) * rounds)
    lines: list[str] = []
    wide = ACCUMULATORS[dtype]
    sums = [a for a in tiles_of(ctx) if a in ctx.ready and a.mode != "local" and a.dtype is wide and a.dims == (m, n)]
    if sums and s.chance(0.5):
        acc = s.pick(sums)
    else:
        acc = Array(s.fresh("acc"), wide, (m, n), s.pick(("fragment", "fragment", "shared")))
        lines.append(f"{acc.mode} {acc} = {s.pick(('0', '1', '-2')) if wide in (I32, F64) else s.pick(('0.0', '-0.0', '0.5'))};")
        ctx.level.owned[acc] = ()
        ctx = replace(ctx, locals=(*ctx.locals, acc), ready=ctx.ready | {acc})
    inner, head = ctx, ""
    if count >= 0:
        name = s.fresh("k")
        inner = replace(repeated(ctx, count), loop="pipelined", names=(*ctx.names, Name(name, I64, "index", ctx.level, max(count, 1))))
        kind = s.weighted(["pipelined", "serial"], [4, 1])
        stages = f"@stages({s.pick((1, 2, 3, 4))}) " if kind == "pipelined" and s.chance(0.8) else ""
        head = f"{stages}{kind} {name} in {count} {{"
    body, flags = [], []
    names = []
    for letter, dims in (("a", (m, k)), ("b", (k, n))):
        swapped = s.chance(0.3)
        made, inner, factor = _factor(s, inner, dtype, dims[::-1] if swapped else dims, acc)
        body += made
        names.append(factor.name)
        flags += [f", trans_{letter} = true"] if swapped else [f", trans_{letter} = false"] if s.chance(0.05) else []
    body.append(f"gemm({', '.join(names)}, {acc.name}{''.join(flags)});")
    lines += [head, *indent(body), "}"] if head else body
    return lines, replace(ctx if head else inner, ready=ctx.ready if head else inner.ready)


def _factor(s: State, ctx: Context, dtype: DType, dims: tuple[Dim, ...], acc: Array) -> tuple[list[str], Context, Array]:
    """A tile to multiply, filled: not the one that sums are added to."""
    narrow = dtype.is_float and dtype.bits < 32
    known = [a for a in tiles_of(ctx) if a in ctx.ready and a.mode != "local" and a is not acc and a.dtype is dtype and a.dims == dims]
    if known and not narrow and s.chance(0.4):
        return [], ctx, s.pick(known)
    lines, ctx = declared(s, ctx, s.pick(("shared", "shared", "fragment")), dtype, dims, False)
    made = ctx.locals[-1]
    source = source_of(s, replace(ctx, target=(made, "")), dims, dtype, whole_numbers=narrow)
    return [*lines, f"copy({source}, {made.name});"], replace(ctx, ready=ctx.ready | {made}), made
