"""Grids: blocks of threads, their axes and tiles, and the windows of global arrays that each block owns."""

from __future__ import annotations

from dataclasses import replace

from vxc.fuzz.access import trips
from vxc.fuzz.block import Made, affordable, block, indent
from vxc.fuzz.copies import copy_in, copy_out
from vxc.fuzz.levels import Binder, Level, Window
from vxc.fuzz.loops import HUGE, ITERATIONS, written
from vxc.fuzz.own import index_name
from vxc.fuzz.program import Dim
from vxc.fuzz.rows import volume_of
from vxc.fuzz.state import Context, Grid, State
from vxc.fuzz.stmt import assigned, known
from vxc.fuzz.windows import own_window

BLOCKS = 48  # of one grid
THREADS = {32: 8, 64: 5, 96: 3, 128: 3, 160: 1, 192: 1, 224: 0.5, 256: 1}
TILES = {
    0: 0.2, 1: 2, 2: 2, 3: 3, 4: 4, 5: 3, 7: 3, 8: 4, 9: 2, 12: 1, 13: 1, 16: 2, 17: 1, 31: 1, 32: 2, 33: 1, 48: 0.5, 64: 1, 65: 1,
    100: 0.5, 129: 0.5,
}  # fmt: skip


def grid(s: State, ctx: Context) -> Made | None:
    """A grid of one to three axes, and what its blocks do; at its end something is stored."""
    if ctx.level.depth or ctx.loop:
        return None
    pool = tuple(_tile_dim(s) for _ in range(s.random.randint(2, 4)))
    threads = s.weighted(list(THREADS), list(THREADS.values()))
    axes = _axes(s, pool)
    blocks = volume_of(tuple(binder.dim for binder, *_ in axes))
    if ctx.loose and not affordable(ctx, blocks):  # under a condition one block does all the work
        return None
    lets = [let for _, _, let, _ in axes if let]
    workers = s.pick((1, 2, 3, 7)) if len(axes) == 1 and not lets and axes[0][0].full and s.chance(0.15) else 0
    level = Level(ctx.level, tuple(binder for binder, *_ in axes), promised=bool(lets))  # the compiler does not see through them
    parts = tuple(part for *_, part in axes)
    inner = replace(
        ctx,
        level=level,
        names=(*ctx.names, *(index_name(b, level) for b in level.binders)),
        grid=Grid(level, threads, parts, pool),
        loop="grid",
        volume=ctx.volume * blocks,
        steps=ctx.steps * blocks if ctx.loose else -(-threads // 32) * (-(-blocks // workers) if workers else 1),
    )
    first, inner = copy_in(s, inner)
    lines, inner = block(s, inner, min(s.random.randint(1, 6), max(s.fuel, 1)))
    last, inner = (window_store(s, inner) if s.chance(0.4) else None) or copy_out(s, inner)
    body = [*lets, *first, *lines, *last]
    head = ['@independent("every place has one iteration of its own")'] if level.promised else []
    head += [f"@threads({threads})"] if s.chance(0.5 if threads == 128 else 0.9) else []  # else 128, or what layouts count
    ranges = ", ".join(text for _, text, _, _ in axes)
    after = replace(ctx, ready=ctx.ready | written(s, ctx, inner, level))
    if workers:
        return _taken_in_turn(s, level.binders[0], body, threads, workers), after
    kind = "persistent" if not level.promised and s.chance(0.1) else "grid"  # only a grid takes the author's word
    return [f"{' '.join([*head, kind])} {ranges} {{", *indent(body), "}"], after


def _tile_dim(s: State) -> Dim:
    size = s.weighted(list(TILES), list(TILES.values()))
    if not s.chance(0.2):
        return Dim(str(size), size, True)
    name = s.fresh("B")
    s.generics[name] = f" = {size}"
    return Dim(name, size, True)


def _axes(s: State, pool: tuple[Dim, ...]) -> list[tuple[Binder, str, str, Window]]:
    """For each axis its binder, its range, a `let` at the start of the body, and what it divides or numbers."""
    found: list[tuple[Binder, str, str, Window]] = []
    left = BLOCKS
    for _ in range(s.weighted([1, 2, 3], [5, 4, 2])):
        name, whole, tile = s.fresh("b"), s.pick(s.dims), s.pick([d for d in pool if d.size] or [Dim("2", 2, True)])
        count = -(-whole.size // tile.size)
        few = [d for d in (*s.dims, *(Dim(str(n), n, True) for n in (1, 2, 3, 5))) if d.size <= left]
        if count <= left and s.chance(0.6):
            dim = Dim(f"ceildiv({whole.text}, {tile.text})", count, whole.fixed)
            start = f"{name} * {tile.text}"
            found.append((Binder(name, dim), f"{name} in {dim.text}", "", Window(start, whole, tile)))
        elif s.chance(0.1):
            dim, far = s.pick([d for d in few if d.fixed]), s.fresh("g")
            text = f"{far} in 0..{HUGE} * {dim.text} step {HUGE}"
            found.append((Binder(name, dim), text, f"let {name} = {far} // {HUGE};", Window(name, dim)))
        else:
            dim = s.pick(few)
            text, full = s.weighted([(dim.text, True), (f"1..{dim.text}", False), (f"0..{dim.text} step 2", False)], [8, 1, 1])
            found.append((Binder(name, dim, full), f"{name} in {text}", "", Window(name, dim)))
        left //= max(found[-1][0].dim.size, 1)
    return found


def _taken_in_turn(s: State, binder: Binder, body: list[str], threads: int, count: int) -> list[str]:
    """A few blocks that take the iterations in turn."""
    worker = s.fresh("w")
    head = f'@independent("each iteration has one worker") @threads({threads}) grid {worker} in {count} {{'
    return [head, f"    persistent {binder.name} in {worker}..{binder.dim.text} step {count} {{", *indent(indent(body)), "    }", "}"]


def window_store(s: State, ctx: Context) -> Made | None:
    """A parallel nest over the block's window of an array, element by element, as far as the array goes."""
    if not ctx.grid.tiles:
        return None
    array, parts = own_window(s, ctx)
    loops = [(Binder(s.fresh("i"), p.extent), p) for p in parts if p.extent is not None]
    volume = volume_of(tuple(b.dim for b, _ in loops))
    if volume > ITERATIONS or not affordable(ctx, -(-volume // ctx.grid.threads)):
        return None
    level = Level(ctx.level, tuple(b for b, _ in loops))
    names = (*ctx.names, *(index_name(b, level) for b in level.binders))
    inner = replace(ctx, level=level, names=names, loop="parallel", volume=ctx.volume * volume, steps=trips(ctx, volume), crowd=volume)
    lines, inner = block(s, inner, 1) if s.chance(0.3) else ([], inner)
    binders = iter(loops)
    texts, guards = [], []
    for p in parts:
        if p.extent is None:
            texts.append(p.start)
            continue
        b, _ = next(binders)
        texts.append(f"{p.start} + {b.name}" if p.start else b.name)
        guards += [f"{texts[-1]} < {p.whole.text}"] if p.start else []
    sign, value = assigned(s, inner, array.dtype, known(ctx, array) and s.chance(0.4))
    stored = f"{array.name}[{', '.join(texts)}] {sign} {value};"
    stored = f"if {' && '.join(guards)} {{ {stored} }}" if guards else stored
    ranges = ", ".join(f"{b.name} in {b.dim.text}" for b in level.binders)
    attrs = '@independent("an order names each place once") ' if level.promised else ""
    return [f"{attrs}parallel {ranges} {{", *indent([*lines, stored]), "}"], replace(ctx, ready=ctx.ready | {array})
