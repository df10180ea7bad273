"""Sequences of statements, made from the table that the state holds: rows of `Production`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vxc.fuzz.state import LOOSE_STEPS, STEPS, VOLUME, Context, State
from vxc.record import record

Made = tuple[list[str], Context]
Make = Callable[[State, Context], Made | None]


@record
class Production:
    """`make` writes some lines and gives the context that holds after them, or None where it does not apply.

    The weights are those in a parallel loop, in no loop over threads or blocks, and in a grid outside of parallel loops.
    """

    make: Make
    inside: float
    outside: float
    block: float


def block(s: State, ctx: Context, count: int) -> Made:
    """About `count` statements, fewer when fuel is short; at least one."""
    lines: list[str] = []
    while not lines or (count > 0 and s.fuel > 0):
        made, ctx = statement(s, ctx)
        lines += made
        count -= 1
    return lines, ctx


def statement(s: State, ctx: Context) -> Made:
    s.fuel -= min(s.fuel, 1)
    s.spend(2 * ctx.steps)
    weights = [getattr(p, ctx.place) for p in s.statements]
    while True:
        made = s.weighted(s.statements, weights).make(s, ctx)
        if made is not None:
            return made


def nested(s: State, ctx: Context, most: int = 3, **changes) -> list[str]:
    """A block in braces, of which nothing is known afterwards."""
    loose = ctx.loose or ctx.level.parent is None
    lines, _ = block(s, replace(ctx, loose=loose, **changes), s.random.randint(1, most))
    return indent(lines)


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def affordable(ctx: Context, trips: int) -> bool:
    """Whether a loop of so many trips is short enough where `ctx` stands."""
    return ctx.volume * trips <= VOLUME and ctx.steps * trips <= (LOOSE_STEPS if ctx.loose else STEPS)


def repeated(ctx: Context, trips: int) -> Context:
    """The context in such a loop."""
    return replace(ctx, volume=ctx.volume * max(trips, 1), steps=ctx.steps * max(trips, 1))
