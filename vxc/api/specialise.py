"""What a kernel is compiled for: what stands for its generics, which dimensions are constants, which arrays have strides of their own.

A dimension that is the length of a row (a reduction, a scan, a row statement) or that stands in the shape of a `shared`, `fragment` or
`local` array becomes a constant, since how the work is laid out depends on it; every other stays a parameter of the kernel.

Of each array one thing is known besides: whether its rows all begin at multiples of 16 bytes, as they do where it does, and the strides
between them are multiples (`vxc.ir.alignment`). No access is wider, so one bit will do. It is part of what is compiled: a kernel that
tests it has two forms, of which each costs the other compile time and registers.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vxc.api.signatures import Signature
from vxc.binding import brief
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DTYPES, DType, from_numpy
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.source import Source

Define = int | bool | DType
Units = tuple[int, ...]
"""For each dimension 1 where its elements are neighbours, else 2; -1 and -2 where they lie in the other direction."""


@record
class Recipe:
    """A kernel or program of a file and how it is to be compiled: with the specialisation and the target all that decides the code.
    `alone` says that the file imports no other.
    """

    source: Source
    name: str
    defines: tuple[tuple[str, Define], ...] = ()
    debug: bool = False
    maxrregcount: int | None = None
    reduce_chunk: int | None = None
    alone: bool = False

    def defining(self, values: Mapping[str, Define]) -> Recipe:
        return replace(self, defines=tuple(sorted({**dict(self.defines), **values}.items())))


@record
class Specialisation:
    """`defines` gives generics and constant dimensions, by name in alphabetical order; `strided` the arrays that are declared
    contiguous and are not, and those of which a dimension runs backwards, each with how it lies; `aligned`, for each array of which it is
    known, whether its rows begin at multiples of 16 bytes.
    """

    defines: tuple[tuple[str, Define], ...] = ()
    strided: tuple[tuple[str, Units], ...] = ()
    aligned: tuple[tuple[str, bool], ...] = ()


def fixed(kernel: Signature, name: str, value: Any) -> Define:
    """What a user gives for a generic or dimension, dtypes by their names. Raises `VxcError` E0218 for what is no such value."""
    what, wanted = "generic", dict(kernel.generics).get(name)
    if not wanted and name in kernel.sizes:
        what, wanted = "dimension", "int"
    found, kind = _define(value)
    if found is None or kind != (wanted or kind):
        expected = _SAMPLES.get(wanted or "", " or ".join(_SAMPLES.values()))
        raise VxcError(Diagnostic("E0218", f"{what} `{name}` of `{kernel.name}` is given {brief(value)}", help=f"give it {expected}"))
    if what == "dimension" and found < 0:
        message = f"dimension `{name}` of `{kernel.name}` is given {brief(value)}"
        raise VxcError(Diagnostic("E0218", message, help="sizes are 0 or more"))
    return found


_SAMPLES = {"int": "an int such as 64", "bool": "a bool", "dtype": 'the name of a dtype such as "f32"'}


def dtype_of(given: Any) -> DType | None:
    """The dtype that a name ("f32"), a NumPy or torch dtype, or a scalar type of NumPy's (np.float32, also of ml_dtypes) stands for."""
    name = np.dtype(given).name if _scalar_type(given) else str(getattr(given, "name", given)).removeprefix("torch.")
    return DTYPES.get(name) or from_numpy(name)


def _scalar_type(given: Any) -> bool:
    """Whether it is a type of NumPy's scalars."""
    return isinstance(given, type) and issubclass(given, np.generic)


def _define(value: Any) -> tuple[Define | None, str]:
    """A value as an int, bool or dtype, and which of them; None for none of them."""
    if isinstance(value, (str, DType, np.dtype)) or _scalar_type(value) or type(value).__module__ == "torch":
        return dtype_of(value), "dtype"
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value), "bool"
    try:
        number = operator.index(value)
        return (number, "int") if number.bit_length() < 64 else (None, "")
    except Exception:  # TypeError, or what the type's own code raises
        return None, ""


def generics_of(kernel: Signature, views: Mapping[str, ArrayView]) -> dict[str, Define]:
    """What arrays say about generic dtypes and extents; the first occurrence counts."""
    names, found = {name for name, _ in kernel.generics}, {}
    for param in kernel.params:
        view = views.get(param.name)
        if view is not None and view.dtype:
            said = [(param.dtype, view.dtype), *zip(param.dims, view.shape)]
            found = {**{name: value for name, value in reversed(said) if name in names}, **found}
    return found


def sizes(kernel: Signature, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The size of each name that stands alone in the shape of one of these arrays; the first occurrence counts."""
    found: dict[str, int] = {}
    for param in kernel.params:
        for name, size in zip(param.dims, shapes.get(param.name, ())):
            if name is not None:
                found.setdefault(name, size)
    return found


def units(view: ArrayView) -> Units:
    steps = (stride if extent > 1 else 0 for extent, stride in zip(view.shape, view.strides))
    return tuple((-1 if step < 0 else 1) * (1 if abs(step) == 1 else 2) for step in steps)
