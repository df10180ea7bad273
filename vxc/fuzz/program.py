"""What the generator makes: the text of a program and a description of its arguments, from which `call` makes them."""

from __future__ import annotations


import numpy as np

from vxc.dtypes import DType
from vxc.inputs import Call
from vxc.record import record
from vxc.runtime.generate import generate

Number = int | float | bool


@record
class Dim:
    """An extent: how it is written, what it is in this program, and whether it is known when compiling."""

    text: str
    size: int
    fixed: bool = False

    @property
    def simple(self) -> bool:
        """Whether this is a name or a number."""
        return self.text.isidentifier() or self.text.isdigit()

    @property
    def symbolic(self) -> bool:
        """Whether this is a name that a call binds."""
        return self.text.isidentifier() and not self.fixed


@record
class Array:
    """An array of a kernel. `mode` is in, out, inout, or the space it is declared in.

    `fill` is a kind of `runtime.generate` and its arguments. `spelled` is how the dtype is written where not by its name; `pitches`
    has the pitch of each dimension that is given one.
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    mode: str
    fill: tuple = ("rand",)
    spelled: str = ""
    pitches: tuple[Dim | None, ...] = ()

    @property
    def spaced(self) -> tuple[int | None, ...]:
        """The pitch of each dimension, None where none is given."""
        return tuple(p and p.size for p in self.pitches or (None,) * len(self.dims))

    @property
    def allotted(self) -> tuple[int, ...]:
        """Elements allotted to each dimension."""
        return tuple(d.size if p is None else p for p, d in zip(self.spaced, self.dims))

    def __str__(self) -> str:
        direction = f"{self.mode} " if "out" in self.mode else ""
        pitches = [f" : {p.text}" if p else "" for p in self.pitches or (None,) * len(self.dims)]
        return f"{direction}{self.name}: {self.spelled or self.dtype}[{', '.join(d.text + p for d, p in zip(self.dims, pitches))}]"


@record
class Program:
    """A text with one kernel `k`, or several and a program `p`; well typed and free of races; and what to call it with."""

    seed: int
    size: int
    text: str
    arrays: tuple[Array, ...]
    scalars: tuple[tuple[str, Number], ...]

    def call(self) -> Call:
        """The arguments; the same ones each time."""
        made = {a.name: _fill(a, self.seed) for a in self.arrays if a.mode != "out"}
        bound = {d.text for a in self.arrays if a.mode != "out" for d in a.dims}
        return Call(made, dict(self.scalars), {name: size for name, size in self.sizes.items() if name not in bound})

    @property
    def sizes(self) -> dict[str, int]:
        """Every dimension that a call binds, pitches too."""
        return {d.text: d.size for a in self.arrays for d in (*a.dims, *a.pitches) if d and d.symbolic}

    def __str__(self) -> str:
        shapes = [f"#   {a} = {' '.join(map(str, a.fill))}, {'x'.join(str(d.size) for d in a.dims)}" for a in self.arrays]
        scalars = [f"#   {name} = {value}" for name, value in self.scalars]
        return "\n".join([f"# python -m vxc.fuzz.gen {self.seed} --size {self.size}", *shapes, *scalars, self.text])


def _fill(array: Array, seed: int) -> np.ndarray:
    kind, *arguments = array.fill
    made = generate(kind, array.dtype, array.allotted, arguments, name=array.name, seed=seed)
    return made[tuple(slice(d.size) for d in array.dims)]
