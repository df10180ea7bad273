"""Control flow: nests of parallel loops, `serial`, `unroll`, `pipelined`, `while`, leaving them, `if`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from vxc.dtypes import BOOL, I32, I64
from vxc.fuzz.access import trips
from vxc.fuzz.block import Made, affordable, block, indent, nested, repeated
from vxc.fuzz.expr import expr
from vxc.fuzz.layouts import loop_layout
from vxc.fuzz.levels import Binder, Level
from vxc.fuzz.own import index_name
from vxc.fuzz.program import Dim
from vxc.fuzz.rows import order_attributes, orders
from vxc.fuzz.state import Context, Name, State
from vxc.fuzz.stmt import row_store, store

NESTED = 3  # parallel loops within each other
ITERATIONS = 300  # of one nest
HUGE = 1 << 33  # the step of an index that needs more than 32 bits

# Parallel loops --------------------------------------------------------------------------------------------------------------------


def parallel(s: State, ctx: Context) -> Made | None:
    """A nest of parallel loops; at its end something is stored."""
    depth = ctx.level.depth
    if depth >= NESTED:
        return None
    binders, ranges, lets, promised = _binders(s, ctx, depth)
    volume = prod(max(b.dim.size, 1) for b in binders)
    spread = not depth and not ctx.loose  # over blocks, of which each takes up to eight warps
    rounds = min(8, -(-volume // 32)) if spread else trips(ctx, volume) // ctx.steps
    if _triangle(ranges):
        rounds *= binders[-1].dim.size
    if volume > ITERATIONS or ctx.volume * volume > 12 * ITERATIONS or not (spread or affordable(ctx, rounds)):
        return None
    level = Level(ctx.level, tuple(binders), promised=promised)
    names = (*ctx.names, *(index_name(b, level) for b in binders))
    inner = replace(ctx, level=level, names=names, loop="parallel", crowd=ctx.crowd * volume)
    inner = replace(inner, volume=ctx.volume * volume, steps=ctx.steps * rounds)
    lines, inner = block(s, inner, s.random.randint(0, max(0, 4 - 2 * depth)))
    last, inner = (store if s.chance(0.7) else row_store)(s, inner)
    given = _layout(s, ctx, binders, [*lines, *last]) if ctx.in_block and not _triangle(ranges) else []
    head = " ".join([*_attributes(s, inner, level, [*lets, *lines, *last]), *given, "parallel"])
    lines = [f"{head} {', '.join(ranges)} {{", *indent([*lets, *lines, *last]), "}"]
    return lines, replace(ctx, ready=ctx.ready | written(s, ctx, inner, level))


def _triangle(ranges: list[str]) -> bool:
    """Whether one range depends on another, so that the nest stays a loop in a loop."""
    return any(text.endswith(" + 1") for text in ranges)


def _layout(s: State, ctx: Context, binders: list[Binder], body: list[str]) -> list[str]:
    """`@layout` of a nest right in a block, or nothing: of a range that is not full, digits of the extent are not those of iterations, and
    scans take threads together.
    """
    if any("cum" in line for line in body) or len(binders) > 1 and not all(b.full for b in binders):
        return []
    return [text for text in (loop_layout(s, ctx, tuple(b.dim for b in binders)),) if text]


def _attributes(s: State, inner: Context, level: Level, body: list[str]) -> list[str]:
    found = ['@independent("an order names each place once")'] if level.promised else []
    order = order_attributes(s, inner).split() if s.chance(0.3) else []
    found += order if orders(body) else [word for word in order if word.startswith("@lanes")]
    found += ["@vector(4)"] if s.chance(0.04) else []
    return [text for text in found if text]


def written(s: State, ctx: Context, inner: Context, level: Level) -> set:
    """The arrays that a nest wrote whole: `inner` holds at its end."""
    if not all(b.full for b in level.binders):
        return set()
    return {a for a in inner.ready - ctx.ready if a in s.arrays or a in ctx.locals} - level.partial


def _binders(s: State, ctx: Context, depth: int) -> tuple[list[Binder], list[str], list[str], bool]:
    """Binders, how they are written, what is written before the body, and whether that is more than the compiler sees through."""
    binders: list[Binder] = []
    ranges: list[str] = []
    lets: list[str] = []
    few = [Dim(str(n), n, True) for n in (1, 2, 3, 4, 6)]
    tiles = [a.dims for a in ctx.locals if a.dims[0].size] if ctx.in_block else []
    shape: Sequence[Dim] = s.pick(tiles) if tiles and s.chance(0.7) else ()
    count = len(shape) or s.weighted([1, 2, 3, 4], [6, 4, 1, 1] if not depth else [6, 1, 0, 0])
    for n in range(count):
        known = ctx.grid.dims if ctx.grid and s.chance(0.8) else s.dims
        dim = shape[n] if shape else s.pick(known if s.chance(0.85) and len(binders) < 2 else few)
        name = s.fresh("i")
        around = [b for b in (*ctx.level.binders, *binders) if b.dim.size and not any(f" {b.name} =" in let for let in lets)]
        text, full = _range(s, dim)
        if not shape and around and s.chance(0.08):  # a triangle
            outer = s.pick(around)
            dim, text, full = outer.dim, f"{outer.name} + 1", False
        elif full and dim.fixed and not shape and s.chance(0.04):
            far, text = s.fresh("g"), f"0..{HUGE} * {dim.text} step {HUGE}"
            ranges.append(f"{far} in {text}")
            lets.append(f"let {name} = {far} // {HUGE};")
            binders.append(Binder(name, dim, full))
            continue
        binders.append(Binder(name, dim, full))
        ranges.append(f"{name} in {text}")
    return binders, ranges, lets, bool(lets)


def _range(s: State, dim: Dim) -> tuple[str, bool]:
    """A range of indices of a dimension, and whether it has them all."""
    ways = [(f"{dim.text}", True), (f"1..{dim.text}", False), (f"0..{dim.text} step 2", False)]
    if dim.size > 2:
        ways.append((f"1..{dim.text} - 1", False))
    return s.weighted(ways, [14, 1, 1, 1][: len(ways)])


# Loops whose trips follow one another ----------------------------------------------------------------------------------------------


def serial(s: State, ctx: Context) -> Made | None:
    short = [d for d in s.dims if d.size <= 5]
    ranges = [("3", 3, 3), ("1", 1, 1), ("1..4", 3, 4), ("0..9 step 4", 3, 9), ("5..0 step -2", 3, 6), ("2..2", 1, 3)]
    ranges += [(d.text, d.size, d.size) for d in short]
    if s.chance(0.3):
        ranges = [(f"({expr(s, ctx, I32, 2)} as i64) % 4", 3, 4)]
    text, count, limit = s.pick(ranges)
    if not affordable(ctx, count):
        return None
    kind = s.weighted(["serial", "pipelined", "persistent"], [2, 4, 1]) if ctx.in_block else "serial"
    name = s.fresh("k")
    names = (*ctx.names, Name(name, I64, "index", ctx.level, limit))
    inner = repeated(replace(ctx, names=names, loop=kind), count)
    body = nested(s, inner, 4 if ctx.in_block else 3)
    attr = s.pick(("", "", *(text for text in _ATTRIBUTES[kind] if "chunk" not in text or orders(body))))
    return [f"{attr}{kind} {name} in {text} {{", *body, "}"], ctx


_ATTRIBUTES = {
    "serial": ("@unroll(2) ", "@vector(2) ", "@chunk(2) "),
    "pipelined": ("@stages(1) ", "@stages(2) ", "@stages(3) ", "@stages(4) "),
    "persistent": ("@unroll(4) ",),
}


def unroll(s: State, ctx: Context) -> Made | None:
    if not affordable(ctx, 3):
        return None
    name = s.fresh("u")
    inner = repeated(replace(ctx, names=(*ctx.names, Name(name, I64, "index", ctx.level, 4)), loop="unroll"), 3)
    return [f"unroll {name} in {s.pick(('3', '1..4', '0..4 step 2'))} {{", *nested(s, inner), "}"], ctx


def while_(s: State, ctx: Context) -> Made | None:
    if not affordable(ctx, 3):
        return None
    name = s.fresh("c")
    ctx = replace(ctx, names=(*ctx.names, Name(name, I32, "counter", ctx.level)))
    body = nested(s, repeated(ctx, 3), loop="while")
    cond = f"{name} < {s.pick((1, 2, 3))}" + (f" && {expr(s, ctx, BOOL, 2)}" if s.chance(0.5) else "")
    return [f"var {name}: i32 = 0;", f"while {cond} {{", f"    {name} += 1;", *body, "}"], ctx


def leave(s: State, ctx: Context) -> Made | None:
    if ctx.loop not in ("serial", "while"):
        return None
    return [f"if {expr(s, ctx, BOOL, 2)} {{ {s.pick(('break', 'continue'))}; }}"], ctx


# Branches --------------------------------------------------------------------------------------------------------------------------


def if_(s: State, ctx: Context) -> Made:
    cond = s.pick(s.flags) if s.flags and s.chance(0.2) else expr(s, ctx, BOOL, 2)
    lines = [f"if {cond} {{", *nested(s, ctx)]
    if s.chance(0.2):
        lines += [f"}} else if {expr(s, ctx, BOOL, 1)} {{", *nested(s, ctx)]
    if s.chance(0.4):
        lines += ["} else {", *nested(s, ctx)]
    return [*lines, "}"], ctx


def braces(s: State, ctx: Context) -> Made:
    """A block for the sake of its scope."""
    return ["{", *nested(s, ctx, 2), "}"], ctx
