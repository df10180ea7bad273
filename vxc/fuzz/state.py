"""Where the generator stands: what is in scope, and which elements an iteration may touch so that no two collide.

Parallel loops nest in `Level`s; the root level, with no binders, is the kernel's body. In one iteration of a level an array
is used in one of three ways, and the first use decides:

  owned   written: every access, reads too, goes through one injective map of the level's indices (`own`)
  read    never written in the level: any element (`read`)
  atomic  updated by one kind of atomic only: any element (`atomic`)

Each asks the parent level first, which fixes the leading indices. So programs are free of races by construction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from vxc.dtypes import DTYPES, DType
from vxc.fuzz.program import Array, Dim, Number

Indices = tuple[str, ...]


@dataclass(frozen=True)
class Binder:
    """An index of a parallel loop over `dim`; `full` where it takes every value, `low` the least."""

    name: str
    dim: Dim
    full: bool = True
    low: int = 0


@dataclass(eq=False)
class Level:
    """One nest of parallel loops: see the module's docstring. `partial` are owned arrays of which iterations leave elements out."""

    parent: Level | None = None
    binders: tuple[Binder, ...] = ()
    owned: dict[Array, Indices] = field(default_factory=dict)
    reads: set[Array] = field(default_factory=set)
    atomics: dict[Array, tuple[str, Indices]] = field(default_factory=dict)
    partial: set[Array] = field(default_factory=set)
    promised: bool = False  # a map counts on what only the author knows

    def read(self, array: Array) -> Indices | None:
        """The leading indices through which the array may be read at any place, or None."""
        if array.mode == "in" or array in self.owned or self.parent is None:
            return self.owned.get(array, ())
        if array in self.atomics:
            return None
        leading = self.parent.read(array)
        if leading is not None:
            self.reads.add(array)
        return leading

    def own(self, array: Array, match: Callable[[Level, Array, Sequence[Dim]], Indices | None]) -> Indices | None:
        """The leading indices of the elements that belong to the iteration, by `match` on the dimensions that are left, or None."""
        if array in self.owned or self.parent is None:
            return self.owned.get(array, ())
        if array in self.reads or array in self.atomics:
            return None
        leading = self.parent.own(array, match)
        mapped = None if leading is None else match(self, array, array.dims[len(leading) :])
        if mapped is None:
            return None
        self.owned[array] = leading + mapped
        return self.owned[array]

    def atomic(self, array: Array, kind: str) -> Indices | None:
        """The leading indices of elements that may be updated by this kind of atomic, or None."""
        if array in self.owned or self.parent is None:
            return self.owned.get(array, ())
        if array in self.atomics:
            return self.atomics[array][1] if self.atomics[array][0] == kind else None
        if array in self.reads:
            return None
        leading = self.parent.atomic(array, kind)
        if leading is not None:
            self.atomics[array] = (kind, leading)
        return leading


@dataclass(frozen=True)
class Name:
    """A scalar in scope. `kind` is let, var, counter (a var that must not be assigned), index, scalar or dim; an index is in [0, limit)."""

    name: str
    dtype: DType
    kind: str
    level: Level | None = None
    limit: int | None = None


@dataclass(eq=False)
class Row:
    """The row that an expression runs over; `used` once something in it varies along the row."""

    dims: tuple[Dim, ...]
    used: bool = False


@dataclass(frozen=True)
class RowName:
    """A row-valued let."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Context:
    """What an expression or statement may use. `ready` are arrays whose elements here are written; `volume` counts executions.

    In a row statement `row` is set, `target` is the assigned array with the text of its element, and `scans` says whether
    a scan may stand here (an empty text: it may not be read). `stable` allows only what nothing writes, `pure` no arrays.
    `loop` is the innermost loop's kind; `steps` counts trips that may have to follow one another; `loose` says that the
    statement stands in control flow outside of all parallel loops.
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
    loose: bool = False


VOLUME = 40_000  # executions of one expression
STEPS, LOOSE_STEPS = 64, 24  # trips that may have to follow one another; where one block does all the work
ARRAYS = 10  # parameters, before existing ones are preferred

# How often each type is that of an array.
STORAGE = {
    "f32": 8, "f16": 3, "bf16": 2, "f64": 3, "f8e4m3": 1, "f8e5m2": 1, "i32": 5, "i64": 3, "i8": 2, "i16": 1, "u8": 2, "u16": 1,
    "u32": 2, "u64": 1, "bool": 1,
}  # fmt: skip


class State:
    """The dice and what the kernel has so far: parameters, functions, fresh names, statements still to spend."""

    def __init__(self, seed: int, size: int, expr: Callable[[State, Context, DType, int], str]) -> None:
        self.random = random.Random(seed)
        self.fuel = size
        self.expr = expr
        self.dims: list[Dim] = []
        self.arrays: list[Array] = []
        self.scalars: list[tuple[str, DType, Number]] = []
        self.generics: dict[str, str] = {}
        self.functions: list[tuple[str, tuple[DType, ...], DType]] = []
        self.items: list[str] = []
        self._count: dict[str, int] = {}

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

    def array(self, dtype: DType, dims: Sequence[Dim], mode: str = "in", fill: tuple | None = None) -> Array:
        """A new parameter."""
        made = Array(self.fresh({"in": "x", "out": "y", "inout": "z"}[mode]), dtype, tuple(dims), mode, fill or self._fill(dtype))
        self.arrays.append(made)
        return made

    def _fill(self, dtype: DType) -> tuple:
        small = ("randint", 0 if dtype.kind in "ub" else -3, 2 if dtype.kind == "b" else 4)
        return self.weighted([("rand",), ("special",), small], [5, 3, 2])
