"""Rows that are gone over several times, as norms do: reductions that use what earlier ones gave, then elements that use them all. Columns
alike, more often only reduced.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from vxc.fuzz.access import place
from vxc.fuzz.block import Made, indent
from vxc.fuzz.levels import Binder, Level
from vxc.fuzz.program import Array, Dim
from vxc.fuzz.rows import order_attributes
from vxc.fuzz.state import VOLUME, Context, State

LENGTHS = (31, 64, 96, 100, 128, 257, 520)
ROWS = (1, 2, 3, 5, 9)
COLUMNS = (1, 3, 8, 31, 32, 33, 65)
WORK = 150  # what one counts for: interpreters take the elements of a nest together
_REDUCED = {"max": 4, "sum": 6, "min": 1, "absmax": 1, "prod": 0.3}
_OF_ONE = ("exp", "exp", "tanh", "abs", "rsqrt", "sigmoid")


@dataclass
class _Sweeps:
    """What elements are made of: rows as text, numbers of the row, and elements that were summed before, each with its sum."""

    state: State
    rows: list[str]
    numbers: list[str] = field(default_factory=list)
    summed: list[tuple[str, str]] = field(default_factory=list)

    def element(self, depth: int) -> str:
        """One that varies along the row."""
        s = self.state
        if self.summed and s.chance(0.3):
            return "({} / {})".format(*s.pick(self.summed))
        if depth == 0 or s.chance(0.15):
            return s.pick(self.rows)
        left = self.element(depth - 1)
        if s.chance(0.3):
            return f"{s.pick(_OF_ONE)}({left})"
        numbers = self.numbers if s.chance(0.7) else ["0.5", "3.0"] if s.chance(0.3) else []
        right = s.pick(numbers) if numbers else self.element(depth - 1)
        return f"({left} {s.weighted('+-*/', (3, 4, 4, 2))} {right})"


def swept(s: State, ctx: Context) -> Made | None:
    """Where no block is around it. Its arrays are its own: rows, maybe a row that all share, what each row gives, maybe in place."""
    return _swept(s, ctx, False)


def columns(s: State, ctx: Context) -> Made | None:
    """The same with columns."""
    return _swept(s, ctx, True)


def _swept(s: State, ctx: Context, across: bool) -> Made | None:
    named = [d for d in s.dims if d.size]
    row = s.pick(named if named and s.chance(0.5) else [Dim(str(n), n, True) for n in LENGTHS])
    outer = [s.pick([*named, *(Dim(str(n), n, True) for n in (COLUMNS if across else ROWS))]) for _ in range(s.pick((1, 1, 1, 2)))]
    volume = prod(d.size for d in (*outer, row))
    if ctx.grid or ctx.loose or ctx.volume * volume > VOLUME:
        return None
    s.spend(WORK)
    binders = [Binder(s.fresh("i"), d) for d in outer]
    indices, level = tuple(b.name for b in binders), Level(ctx.level, tuple(binders))
    shape, parts = ((row, *outer), (":", *indices)) if across else ((*outer, row), indices)
    arrays = [s.array(s.storage("f"), shape, s.pick(("in", "in", "in", "inout"))) for _ in range(s.pick((1, 1, 2)))]
    rows = [place(array, parts) for array in arrays] + [s.array(s.storage("f"), (row,)).name for _ in range(s.pick((0, 0, 1)))]
    made, lines = _Sweeps(s, rows), []
    plain = s.chance(0.7 if across else 0.15)  # one reduction, and nothing else
    for _ in range(1 if plain else s.weighted((1, 2, 3), (1, 4, 2))):
        op, element, name = s.weighted([*_REDUCED], [*_REDUCED.values()]), made.element(2), s.fresh("m")
        order = order_attributes(s, replace(ctx, level=level)) if s.chance(0.2) else ""
        lines.append(f"let {name} = {f'({order} {op}({element}))' if order else f'{op}({element})'};")
        made.numbers.append(name)
        made.summed += [(element, name)] if op == "sum" else []
    targets: list[Array] = []
    for _ in range(0 if plain else s.pick((0, 1, 1, 1, 2))):
        target = next((a for a in arrays if a.mode == "inout" and a not in targets), None) or s.array(s.storage("f"), shape, "out")
        lines.append(f"{place(target, parts)} = {made.element(3)};")
        targets.append(target)
    if not targets or s.chance(0.2):
        targets.append(s.array(s.storage("f"), outer, "out"))
        lines.append(f"{place(targets[-1], indices)} = {' - '.join(made.numbers)};")
    level.owned.update(dict.fromkeys(targets, indices))
    ranges = ", ".join(f"{b.name} in {b.dim.text}" for b in binders)
    lanes = s.weighted(("", "@lanes(8) ", "@lanes(64) "), (20, 1, 1))
    return [f"{lanes}parallel {ranges} {{", *indent(lines), "}"], replace(ctx, ready=ctx.ready | {*targets})
