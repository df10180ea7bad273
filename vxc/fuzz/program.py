"""What the generator makes: the text of one kernel and a description of its arguments, from which `call` makes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vxc.dtypes import DType
from vxc.inputs import Call
from vxc.runtime.generate import generate

Number = int | float | bool


@dataclass(frozen=True)
class Dim:
    """An extent: how it is written, what it is in this program, and whether it is known when compiling."""

    text: str
    size: int
    fixed: bool = False


@dataclass(frozen=True)
class Array:
    """An array of the kernel. `mode` is in, out, inout or local; `fill` a kind of `runtime.generate` and its arguments, or
    'permutation'.
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    mode: str
    fill: tuple = ("rand",)

    def __str__(self) -> str:
        direction = f"{self.mode} " if "out" in self.mode else ""
        return f"{direction}{self.name}: {self.dtype}[{', '.join(d.text for d in self.dims)}]"


@dataclass(frozen=True)
class Program:
    """A kernel named `k`, well typed and free of races, and what to call it with."""

    seed: int
    size: int
    text: str
    arrays: tuple[Array, ...]
    scalars: tuple[tuple[str, Number], ...]

    def call(self) -> Call:
        """The arguments; the same ones each time."""
        made = {a.name: _fill(a, self.seed) for a in self.arrays if a.mode != "out"}
        missing = {d.text: d.size for a in self.arrays if a.mode == "out" for d in a.dims if d.text.isidentifier() and not d.fixed}
        bound = {d.text for a in self.arrays if a.mode != "out" for d in a.dims}
        return Call(made, dict(self.scalars), {name: size for name, size in missing.items() if name not in bound})

    def __str__(self) -> str:
        shapes = [f"#   {a} = {' '.join(map(str, a.fill))}, {'x'.join(str(d.size) for d in a.dims)}" for a in self.arrays]
        scalars = [f"#   {name} = {value}" for name, value in self.scalars]
        return "\n".join([f"# python -m vxc.fuzz.gen {self.seed} --size {self.size}", *shapes, *scalars, self.text])


def _fill(array: Array, seed: int) -> np.ndarray:
    shape = tuple(d.size for d in array.dims)
    kind, *arguments = array.fill
    if kind == "permutation":
        return np.random.default_rng(seed).permutation(shape[0]).astype(array.dtype.numpy)
    return generate(kind, array.dtype, shape, arguments, name=array.name, seed=seed)
