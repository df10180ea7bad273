"""What a kernel is compiled for: what stands for its generics, which dimensions are constants, which arrays have strides of their own.

A dimension that is the length of a row (a reduction, a scan, a row statement) or that stands in the shape of a `shared`, `fragment` or
`local` array becomes a constant, since how the work is laid out depends on it; every other stays a parameter of the kernel. What
alignment and divisibility allow is tested by the emitted kernel itself, so they are no part of it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DTYPES, DType
from vxc.frontend import syntax
from vxc.frontend.check import Typed
from vxc.frontend.examples import Given, generic_values
from vxc.frontend.node import walk
from vxc.frontend.typed import Declare, Expr, Loop, Reduce, TypedKernel, Var
from vxc.interp.ast_machine import walk as walk_typed
from vxc.runtime.arrays import ArrayView

Define = int | bool | DType
Units = tuple[bool, ...]  # for each dimension, whether its stride is 1


@dataclass(frozen=True)
class Specialisation:
    """`defines` gives generics and constant dimensions, by name in alphabetical order; `strided` the arrays that are declared
    contiguous and are not, each with the dimensions along which its elements are neighbours.
    """

    defines: tuple[tuple[str, Define], ...] = ()
    strided: tuple[tuple[str, Units], ...] = ()


def fixed(kernel: syntax.Kernel, name: str, value: Any) -> Define:
    """What a user gives for a generic or dimension, dtypes by their names. Raises `VxcError` E0218 for what is no such value."""
    generic = next((g for g in kernel.generics if g.name == name), None)
    dims = {n.name for p in kernel.params for d in p.type.dims for n in walk(d) if isinstance(n, syntax.Name)}
    what, wanted = "generic", generic.kind if generic else None
    if not generic and name in dims:
        what, wanted = "dimension", "int"
    found, kind = _define(value)
    if found is None or kind != (wanted or kind):
        expected = _SAMPLES.get(wanted or "", " or ".join(_SAMPLES.values()))
        raise VxcError(Diagnostic("E0218", f"{what} `{name}` of `{kernel.name}` is given {value!r}", help=f"give it {expected}"))
    return found


_SAMPLES = {"int": "an int such as 64", "bool": "a bool", "dtype": 'the name of a dtype such as "f32"'}


def _define(value: Any) -> tuple[Define | None, str]:
    """A value as an int, bool or dtype, and which of them; None for none of them."""
    if isinstance(value, (str, DType)):
        return DTYPES.get(value) if isinstance(value, str) else value, "dtype"
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value), "bool"
    try:
        return operator.index(value), "int"
    except TypeError:
        return None, ""


def generics_of(kernel: syntax.Kernel, views: Mapping[str, ArrayView]) -> dict[str, Define]:
    """What arrays say about generic dtypes and extents."""
    return generic_values(kernel, {name: Given(name, kernel.span, "array", v.dtype, v.shape) for name, v in views.items() if v.dtype})


def declared_dims(kernel: syntax.Kernel) -> set[str]:
    """Names in the shapes of arrays that the kernel declares."""
    shapes = (dim for node in walk(kernel) if isinstance(node, syntax.Decl) for dim in node.type.dims)
    return {name.name for dim in shapes for name in walk(dim) if isinstance(name, syntax.Name)}


def row_dims(code: Typed) -> set[str]:
    """Dimensions that are, or are part of, the length of a row or the shape of an array of a block or thread."""
    if isinstance(code, TypedKernel):
        return {v.symbol.name for extent in _extents(code) for v in _dims(extent)}
    found = set()
    for call in code.calls:
        rows = row_dims(call.kernel)
        found |= {v.symbol.name for dim, size in zip(call.kernel.dims, call.dims) if dim.name in rows for v in _dims(size)}
    return found


def _extents(kernel: TypedKernel) -> Iterator[Expr]:
    for node in walk_typed(kernel.body):
        if isinstance(node, Reduce):
            yield from (extent for _, extent in node.binders)
        elif isinstance(node, Loop) and node.row:
            yield from (stop for _, _, stop, _ in node.binders)
        elif isinstance(node, Declare):
            yield from node.array.shape


def _dims(extent: Expr) -> Iterator[Var]:
    return (node for node in walk_typed(extent) if isinstance(node, Var) and node.symbol.kind == "dim")


def sizes(kernel: syntax.Kernel, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The size of each name that stands alone in the shape of one of these arrays; the first occurrence counts."""
    found: dict[str, int] = {}
    for param in kernel.params:
        for dim, size in zip(param.type.dims, shapes.get(param.name, ())):
            if isinstance(dim.size, syntax.Name):
                found.setdefault(dim.size.name, size)
    return found


def units(view: ArrayView) -> Units:
    return tuple(stride == 1 and extent > 1 for extent, stride in zip(view.shape, view.strides))


