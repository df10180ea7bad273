"""The inputs of one call of a kernel: what the user gives, and for the rest the kernel's `example` line.

Given arrays decide dtypes and sizes: a generic dtype or extent is what they have, and the example's other arrays are made
in the sizes that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vxc.binding import Described, describe
from vxc.diag import Diagnostic, VxcError, listed, suggestion
from vxc.dtypes import BOOL, DTYPES, DType, from_numpy
from vxc.frontend import syntax
from vxc.frontend.examples import Given, generic_values
from vxc.frontend.typed import Array, Example, TypedKernel, Var
from vxc.interp.ast_interp import bind_shapes
from vxc.record import record
from vxc.runtime.arrays import is_number, read_argument, unread
from vxc.runtime.generate import generate

Number = int | float | bool
_SIZE = 64  # of a dimension in a line that is suggested
_MOST = 1 << 28  # elements of an array that nobody asked for


@record
class Call:
    """Arguments of a kernel by name, and the sizes of dimensions that no given array has."""

    arrays: Mapping[str, np.ndarray]
    scalars: Mapping[str, Number]
    dims: Mapping[str, int]


def read_arguments(
    texts: Mapping[str, str], kernel: syntax.Kernel, defines: Mapping[str, int | bool | DType], seed: int
) -> dict[str, np.ndarray | Number]:
    """The values of `-a NAME=TEXT` (see `runtime.arrays`); an array of no dimensions has as many as are declared, each of size 1. Raises
    VxcError E0704, E0708, E0709, E0710.
    """
    declared = {param.name: param.type for param in kernel.params}
    values: dict[str, np.ndarray | Number] = {}
    for name, text in texts.items():
        if name not in declared:
            hint = suggestion(name, declared, f"its parameters are {listed(declared)}")
            raise VxcError(Diagnostic("E0708", f"`{kernel.name}` has no parameter `{name}`", help=hint))
        element = declared[name].name
        dtype = DTYPES.get(element) or defines.get(element)
        if is_number(text) == bool(declared[name].dims):
            what = "an array" if declared[name].dims else "one number"
            hint = f"pass {name}=FILE.npy or {name}=rand:f32[8]" if declared[name].dims else f"pass {name}=2"
            raise VxcError(Diagnostic("E0709", f"argument `{name}`: the parameter is {what}, and `{text}` is not", help=hint))
        value = read_argument(text, name, dtype if isinstance(dtype, DType) else None, seed=seed)
        if isinstance(value, np.ndarray) and dtype is None and from_numpy(value.dtype) is None:  # it is to say what the generic is
            raw = f"numpy.save keeps no names of bf16 and f8 types: say which it is, as with -D {element}=bf16"
            raise unread(name, value.dtype.name, raw if value.dtype.kind == "V" else "")
        if isinstance(value, np.ndarray) and not value.shape:
            value = value.reshape((1,) * len(declared[name].dims))  # as a call from Python takes it
        values[name] = value
    return values


def generics_of(kernel: syntax.Kernel, values: Mapping[str, np.ndarray | Number]) -> dict[str, int | DType]:
    """What given arrays say about generic dtypes and extents."""
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    return generic_values(kernel, {name: Given(name, kernel.span, "array", from_numpy(a.dtype), a.shape) for name, a in arrays.items()})


def complete(
    kernel: TypedKernel, values: Mapping[str, np.ndarray | Number] = {}, *, seed: int = 0, special: bool = False,
    sized: Mapping[str, tuple[int, ...]] = {},
) -> Call:  # fmt: skip
    """The call with the given values, and for the rest the example's in fitting sizes; `sized` are shapes of arrays of the example.

    With `special`, made-up floats are half NaN, infinities, denormals and extremes; `randint` keeps its bounds, for such
    values are indices. Raises VxcError as `binding.bind` does, for what neither gives.
    """
    example = kernel.example or Example((), (), kernel.span)
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    scalars = {**dict(example.scalars), **{name: value for name, value in values.items() if name not in arrays}}
    made = {name: row for name, *row in example.arrays if name not in arrays}
    dims = _dims(kernel, {name: row[2] for name, row in made.items()}) | _dims(kernel, {name: a.shape for name, a in arrays.items()})
    dims |= _dims(kernel, sized)
    sizes = shapes(kernel, arrays, scalars, dims, set(made))
    modes = {array.name: array.mode for array in kernel.arrays}
    for name, (generator, dtype, _, bounds) in made.items():
        if modes[name] != "out":  # an example may give an output for its size
            kind = "special" if special and generator == "rand" else generator
            arrays[name] = generate(kind, dtype, sizes[name], bounds, name=name, seed=seed)
    bound = _dims(kernel, {name: a.shape for name, a in arrays.items()})
    return Call(arrays, scalars, {name: size for name, size in dims.items() if name not in bound})


def _dims(kernel: TypedKernel, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The sizes of dimensions that stand alone in the shapes of these arrays; the first occurrence counts."""
    sizes: dict[str, int] = {}
    for array in kernel.arrays:
        for extent, size in zip(array.shape, shapes.get(array.name, ())):
            if isinstance(extent, Var) and extent.symbol.kind == "dim":
                sizes.setdefault(extent.symbol.name, size)
    return sizes


def shapes(
    kernel: TypedKernel, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Number], dims: Mapping[str, int], made: set[str]
) -> Mapping[str, tuple[int, ...]]:
    """The shape of every array; those in `made` are allocated like outputs."""

    def allocated(param):
        return replace(param, mode="out") if isinstance(param, Array) and param.name in made else param

    given: dict[str, Described] = {name: describe(array) for name, array in arrays.items()}
    own = _dims(kernel, {name: array.shape for name, array in arrays.items()})
    rest = {name: size for name, size in dims.items() if name not in own}
    return bind_shapes(replace(kernel, params=tuple(map(allocated, kernel.params))), given, scalars, rest).shapes


def made_up(kernel: TypedKernel) -> Example | None:
    """An example of random numbers where all sizes are known, and none that decides where or how long it works: it takes floats alone."""
    taken = [p for p in kernel.params if not isinstance(p, Array) or p.mode != "out"]
    if kernel.dims or not all(isinstance(p, Array) and p.dtype.is_float for p in taken):
        return None
    sizes = shapes(kernel, {}, {}, {}, {array.name for array in taken})
    fits = all(prod(sizes[array.name]) <= _MOST for array in kernel.arrays)
    return Example(tuple((array.name, "rand", array.dtype, sizes[array.name], ()) for array in taken), (), kernel.span) if fits else None


def example_line(kernel: TypedKernel) -> str:
    """An `example` line that the kernel could have: dimensions of 64, small numbers, and of outputs those whose size only they have."""
    scalars: dict[str, Number] = {p.name: p.dtype is BOOL or 2 for p in kernel.params if not isinstance(p, Array)}
    try:
        sizes = shapes(kernel, {}, scalars, {dim.name: _SIZE for dim in kernel.dims}, {array.name for array in kernel.arrays})
    except VxcError:  # no such sizes fit together
        sizes = {array.name: ("..",) for array in kernel.arrays}
    known = _dims(kernel, {array.name: sizes[array.name] for array in kernel.arrays if array.mode != "out"})
    own = {a.name for a in kernel.arrays if a.mode == "out" and _dims(kernel, {a.name: sizes[a.name]}).keys() <= known.keys()}
    given = [p for p in kernel.params if p.name not in own]
    parts = [f"{p.name} = {_made(p, sizes[p.name]) if isinstance(p, Array) else str(scalars[p.name]).lower()}" for p in given]
    return f"example {kernel.name}({', '.join(parts)});"


def _made(array: Array, shape: tuple[int | str, ...]) -> str:
    bounds = () if array.dtype.is_float or array.dtype is BOOL else (0, min(10, array.dtype.max + 1))
    return f"{'randint' if bounds else 'rand'}({', '.join(map(str, (array.dtype, *bounds, *shape)))})"
