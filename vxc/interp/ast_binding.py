"""A typed kernel's signature for `vxc.binding`: dimensions written as plain names bind, all other sizes are checked after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vxc.binding import ArrayParam, Binding, Described, ScalarParam, Size, bind
from vxc.diag import Diagnostic, VxcError
from vxc.frontend.typed import Array, Const, Expr, TypedKernel, Var

Evaluate = Callable[[Binding, Expr], int]


def kernel_signature(kernel: TypedKernel) -> tuple[ArrayParam | ScalarParam, ...]:
    """The parameters of a typed kernel as `bind` takes them."""
    return tuple(_array_param(p) if isinstance(p, Array) else ScalarParam(p.name, p.dtype, p.span) for p in kernel.params)


def bind_kernel(
    kernel: TypedKernel, arrays: Mapping[str, Described], scalars: Mapping[str, object], dims: Mapping[str, int] | None, evaluate: Evaluate
) -> Binding:
    """As `bind`; `evaluate` gives the value of a shape expression once the dimensions are bound. All shapes come out complete."""
    params = kernel_signature(kernel)
    binding = bind(params, arrays, scalars, dims, source=kernel.source)
    shapes = dict(binding.shapes)
    for array, param in zip(kernel.arrays, (p for p in params if isinstance(p, ArrayParam)), strict=True):
        shape = list(shapes[array.name])
        for axis, (size, expr) in enumerate(zip(param.shape, array.shape)):
            if size is not None:
                continue
            wanted = evaluate(binding, expr)
            if shape[axis] is None:
                shape[axis] = wanted
            if shape[axis] != wanted or wanted < 0:
                text = f"dimension {axis} of `{array.name}` is {shape[axis]}, but its declared size `{_text(kernel, expr)}` is {wanted}"
                raise VxcError(Diagnostic("E0705", text, kernel.source, array.span))
        shapes[array.name] = tuple(shape)
    return replace(binding, shapes=shapes)


def _array_param(array: Array) -> ArrayParam:
    shape = tuple(_size(e) for e in array.shape)
    return ArrayParam(array.name, array.dtype, shape, array.mode, _strides(array), array.span)


def _size(expr: Expr) -> Size:
    if isinstance(expr, Const):
        return int(expr.value)
    return expr.symbol.name if isinstance(expr, Var) and expr.symbol.kind == "dim" else None


def _strides(array: Array) -> tuple[Size, ...] | None:
    """Row-major over the allotted sizes; None for a stride that is a product of several."""
    if not any(array.pitches):
        return None
    allotted = [pitch or size for pitch, size in zip(array.pitches, array.shape, strict=True)]
    strides: list[Size] = [1]
    for size in reversed(allotted[1:]):
        strides.append(_times(_size(size), strides[-1]))
    return tuple(reversed(strides))


def _times(size: Size, stride: Size) -> Size:
    if isinstance(size, int) and isinstance(stride, int):
        return size * stride
    return size if stride == 1 else stride if size == 1 else None


def _text(kernel: TypedKernel, expr: Expr) -> str:
    return kernel.source.slice(expr.span)
