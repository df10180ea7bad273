"""Programs of several kernels: which arrays each call is given, workspaces between calls, sizes and scalars by `let`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from vxc.dtypes import BOOL, I64, U8, DType
from vxc.fuzz.copies import WHOLE_NUMBERS
from vxc.fuzz.expr import expr
from vxc.fuzz.levels import Level
from vxc.fuzz.program import Array, Dim, Number, Program
from vxc.fuzz.state import COUNTED, Context, Name, State

NAMES = ({"M": "M", "N": "N", "K": "K"}, {"M": "R", "N": "S", "K": "U"})  # of dimensions in the program


@dataclass
class Kernel:
    """A kernel: the state that made it, its name, and the arrays that it writes whole."""

    state: State
    name: str
    whole: frozenset[Array]


class Sequence:
    """The program that is being made: its parameters, its body, and which arrays hold something."""

    def __init__(self, dice: random.Random, names: dict[str, str]) -> None:
        self.dice = dice
        self.names = names
        self.arrays: list[Array] = []
        self.scalars: list[tuple[str, DType, Number]] = []
        self.written: list[Array] = []
        self.values: list[Name] = []
        self.lines: list[str] = []
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def call(self, kernel: Kernel) -> None:
        """A call of a kernel: its arguments are written arrays that fit, or new ones."""
        used: list[Array] = []
        texts = []
        for array in kernel.state.arrays:
            found = self._argument(kernel, array, used)
            used.append(found)
            texts.append(found.name)
        texts += [self._scalar(dtype, value) for _, dtype, value in kernel.state.scalars]
        values = {name: how.split("= ")[1] for name, how in kernel.state.generics.items()}
        texts += [f"{name} = {value}" for name, value in values.items() if self.chance(0.4)]
        self.lines.append(f"{kernel.name}({', '.join(texts)});")
        for array, passed in zip(kernel.state.arrays, used):
            if array in kernel.whole and passed not in self.written:
                self.written.append(passed)

    def bind(self, dims: list[Dim]) -> None:
        """Give each dimension that is used but stands nowhere alone an array of that length."""
        alone = {d.text for a in self.arrays for d in a.dims}
        used = set(re.findall(r"\b[A-Z]\b", " ".join([*self.lines, *map(str, self.arrays)])))
        for d in self.dims(dims):
            if d.text in used - alone:
                self.arrays.append(Array(self.fresh("p"), U8, (d,), "in"))

    def dims(self, dims: list[Dim]) -> list[Dim]:
        """The symbolic ones of a kernel's dimensions, as the program names them."""
        return [replace(d, text=self.names[d.text]) for d in dims if d.text in self.names]

    def _argument(self, kernel: Kernel, array: Array, used: list[Array]) -> Array:
        dims = tuple(self._dim(d, kernel.state) for d in array.dims)
        plain = array.fill[0] in ("rand", "special") and not array.pitches
        known = [a for a in self.written if plain and not a.pitches and a not in used and a.dtype is array.dtype and a.dims == dims]
        if known and self.chance(0.7 if array.mode == "in" else 0.4):
            return self.dice.choice(known)
        if array.mode == "out" and not array.pitches and self.chance(0.6):
            found = Array(self.fresh("w"), array.dtype, dims, "local")
            self.lines.append(f"local {found};")
            return found
        pitches = tuple(p and replace(p, text=self.fresh("ld") if p.symbolic else p.text) for p in array.pitches)
        found = Array(self.fresh("p"), array.dtype, dims, array.mode, array.fill, pitches=pitches)
        self.arrays.append(found)
        if array.mode == "inout" and array.fill not in (COUNTED, WHOLE_NUMBERS):
            self.written.append(found)
        return found

    def _dim(self, dim: Dim, state: State) -> Dim:
        """A dimension of a kernel as the program writes it: its own names, and numbers for the kernel's generics."""

        def word(match: re.Match) -> str:
            name = match[0]
            return self.names.get(name) or (state.generics[name].split("= ")[1] if name in state.generics else name)

        return replace(dim, text=re.sub(r"\b[A-Z]\d*\b", word, dim.text))

    def let(self, dtype: DType) -> str:
        """The name of a value that the program computes of its scalars and dimensions."""
        names = [*self.values, *(Name(n, d, "scalar") for n, d, _ in self.scalars)]
        name, s = self.fresh("t"), State(self.dice, 1, expr, ())
        self.lines.append(f"let {name} = {expr(s, Context(Level(), tuple(names), pure=True), dtype, 5)};")
        self.values.append(Name(name, dtype, "let"))
        return name

    def _scalar(self, dtype: DType, value: Number) -> str:
        if self.chance(0.5):
            return self.let(dtype)
        self.scalars.append((self.fresh("q"), dtype, value))
        return self.scalars[-1][0]


def sequence(dice: random.Random, seed: int, size: int, make: Callable[[int, list[Dim] | None], Kernel]) -> Program:
    """A program `p` of a few kernels, each made by `make(number, dimensions of the first)`."""
    kernels: list[Kernel] = []
    for number in range(dice.randint(1, 3)):
        kernels.append(make(number, kernels[0].state.dims if kernels else None))
    made = Sequence(dice, dice.choice(NAMES))
    for dim in made.dims(kernels[0].state.dims):
        made.values.append(Name(dim.text, I64, "dim"))
    for _ in range(dice.randint(1, 3)):
        s = State(dice, 1, expr, ())
        made.scalars.append((made.fresh("q"), dtype := s.compute(), True if dtype is BOOL else dice.choice((0, 1, 3))))
        made.let(s.compute())
    for kernel in [*kernels, *([dice.choice(kernels)] if dice.random() < 0.4 else [])]:
        made.call(kernel)
    made.bind(kernels[0].state.dims)
    items = [line for kernel in kernels for line in kernel.state.items]
    items = [re.sub(r"^@fp\(\w+\) ", "", line) for line in items] if len(kernels) > 1 else items  # all of a program have the same
    params = ", ".join([*map(str, made.arrays), *(f"{name}: {dtype}" for name, dtype, _ in made.scalars)])
    text = "\n".join([*items, f"program p({params}) {{", *(f"    {line}" for line in made.lines), "}", ""])
    return Program(seed, size, text, tuple(made.arrays), tuple((name, value) for name, _, value in made.scalars))
