"""Where the generator stands: what is in scope there, and what the program has so far."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vxc.dtypes import DTYPES, DType
from vxc.fuzz.levels import Level, Window
from vxc.fuzz.program import Array, Dim, Number
from vxc.record import record

@record
class Name:
    """A scalar in scope. `kind` is let, var, counter (a var that must not be assigned), index, scalar, dim or generic.

    An index is in [0, limit).
    """

    name: str
    dtype: DType
    kind: str
    level: Level | None = None
    limit: int | None = None


@dataclass(eq=False)
class Row:
    """The row that an expression runs over; `used` once something in it varies along the row; `axis` is that of its scans."""

    dims: tuple[Dim, ...]
    used: bool = False
    axis: int | None = None


@record
class RowName:
    """A row-valued let."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]


@dataclass(frozen=True, eq=False)
class Grid:
    """The block that statements belong to: its level, its threads, what each axis of the grid says of the dimension that it divides or
    numbers, and the extents that tiles are made of."""

    level: Level
    threads: int
    parts: tuple[Window, ...]
    dims: tuple[Dim, ...]

    @property
    def tiles(self) -> tuple[Window, ...]:
        """The axes that divide a dimension into tiles."""
        return tuple(p for p in self.parts if p.extent is not None)


@record
class Context:
    """What an expression or statement may use. `ready` are arrays whose elements here are written; `volume` counts executions.

    In a row statement `row` is set, `target` is the assigned array with the text of its element, and `scans` says whether
    a scan may stand here (an empty text: it may not be read). `stable` allows only what nothing writes, `pure` no arrays.
    `loop` is the innermost loop's kind; `steps` counts how often warps run it, one after the other; `crowd`
    counts the iterations of the nest that the threads of a block share; `loose` says that the
    statement stands in control flow outside of all parallel loops. `locals` are the arrays declared around, `grid` is the block.
    """

    level: Level
    names: tuple[Name, ...] = ()
    rows: tuple[RowName, ...] = ()
    locals: tuple[Array, ...] = ()
    ready: frozenset[Array] = frozenset()
    row: Row | None = None
    target: tuple[Array, str] | None = None
    scans: bool = False
    stable: bool = False
    pure: bool = False
    loop: str = ""
    volume: int = 1
    steps: int = 1
    crowd: int = 1
    loose: bool = False
    grid: Grid | None = None

    @property
    def in_block(self) -> bool:
        """Whether statements happen once per block."""
        return self.grid is not None and self.level is self.grid.level

    @property
    def place(self) -> str:
        """In which column of the table of statements this is."""
        return "block" if self.in_block else "outside" if self.level.parent is None else "inside"


VOLUME = 6_000  # executions of one expression
STEPS, LOOSE_STEPS = 32, 12  # how often warps may run a statement, one after the other; where one block does all the work
WORK = 4_000  # of a program: nodes of expressions, times how often they are run
ARRAYS = 8  # parameters, before existing ones are preferred
COUNTED = ("randint", 0, 9)  # the fill of floats that only whole numbers are added to, so that their order does not matter

# How often each type is that of an array.
STORAGE = {
    "f32": 8, "f16": 3, "bf16": 2, "f64": 3, "f8e4m3": 1, "f8e5m2": 1, "i32": 5, "i64": 3, "i8": 2, "i16": 1, "u8": 2, "u16": 1,
    "u32": 2, "u64": 1, "bool": 1,
}  # fmt: skip


class State:
    """The dice and what the kernel has so far: parameters, functions, fresh names, statements still to spend.

    `expr` and `statements` are the tables that expressions and statements are made from; names of functions have the `tag`.
    """

    def __init__(
        self, dice: random.Random, fuel: int, expr: Callable[[State, Context, DType, int], str], statements: Sequence[Any], tag: str = ""
    ) -> None:
        self.random = dice
        self.fuel = fuel
        self.work = 0
        self.tag = tag
        self.expr = expr
        self.statements = statements
        self.dims: list[Dim] = []
        self.arrays: list[Array] = []
        self.scalars: list[tuple[str, DType, Number]] = []
        self.generics: dict[str, str] = {}  # each with its type and value: "C": "= 4"
        self.flags: list[str] = []
        self.alias: DType | None = None  # what the generic `T` stands for
        self.functions: list[tuple[str, tuple[DType, ...], DType, str]] = []
        self.items: list[str] = []
        self._count: dict[str, int] = {}

    def spend(self, steps: int) -> None:
        """Count what an interpreter has to do. Beyond the bound no more statements are made."""
        self.work += steps
        if self.work > WORK:
            self.fuel = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: Iterable):
        return self.random.choice(list(options))

    def weighted(self, options: Sequence, weights: Sequence[float]):
        return self.random.choices(options, weights)[0]

    def fresh(self, stem: str) -> str:
        self._count[stem] = self._count.get(stem, -1) + 1
        return f"{stem}{self._count[stem]}"

    def storage(self, kinds: str = "fiub") -> DType:
        found = [name for name in STORAGE if DTYPES[name].kind in kinds]
        return DTYPES[self.weighted(found, [STORAGE[name] for name in found])]

    def compute(self, kinds: str = "fiub") -> DType:
        return self.storage(kinds).compute

    def spelled(self, dtype: DType) -> str:
        """The dtype as written in the kernel."""
        return "T" if dtype is self.alias and self.chance(0.6) else dtype.name

    def array(self, dtype: DType, dims: Sequence[Dim], mode: str = "in", fill: tuple | None = None) -> Array:
        """A new parameter."""
        if mode == "in" and fill is None and dtype.bits == 8 and dtype.is_int and self.chance(0.1):
            dtype = DTYPES[f"{dtype.kind}4"]
        name = self.fresh({"in": "x", "out": "y", "inout": "z"}[mode])
        made = Array(name, dtype, tuple(dims), mode, fill or self._fill(dtype), self.spelled(dtype), self._pitches(dims, fill))
        self.arrays.append(made)
        return made

    def _fill(self, dtype: DType) -> tuple:
        small = ("randint", 0 if dtype.kind in "ub" else -3, 2 if dtype.kind == "b" else 4)
        return self.weighted([("rand",), ("special",), small], [5, 3, 2])

    def _pitches(self, dims: Sequence[Dim], fill: tuple | None) -> tuple[Dim | None, ...]:
        """Seldom: rows further apart than they are long, by a number or a name."""
        if fill is not None or not self.chance(0.08):
            return ()
        found: list[Dim | None] = [None] * len(dims)
        at = self.random.randrange(len(dims))
        room = dims[at].size + self.pick((0, 1, 3))
        if at and self.chance(0.5):
            found[at] = Dim(self.fresh("ld"), room)
        elif dims[at].fixed:
            found[at] = Dim(str(room), room, True)
        return tuple(found) if any(found) else ()
