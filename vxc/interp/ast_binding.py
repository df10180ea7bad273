"""The signature of a typed kernel or program for `vxc.binding`: sizes and strides written as plain names bind, others are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from vxc.binding import ArrayParam, Binding, Described, Number, ScalarParam, Size, bind, row_major
from vxc.diag import Diagnostic, VxcError
from vxc.frontend.typed import Array, Const, Expr, Var
from vxc.interp.ast_machine import Code

Known = Mapping[str, Number]
Evaluate = Callable[[Known, Expr], int]  # the value of a size, given dimensions and scalars by name


def bind_code(
    code: Code,
    arrays: Mapping[str, Described],
    scalars: Mapping[str, object],
    dims: Mapping[str, int] | None,
    evaluate: Evaluate,
    every_stride: bool = False,
) -> Binding:
    """As `bind`, with every size and written pitch compared with what is given, and the shapes of missing `out` arrays complete.

    With `every_stride` arrays without written pitches must be contiguous; else they are copied to be.
    """
    params = tuple(_param(p) for p in code.params)
    binding = bind(params, arrays, scalars, dims, source=code.source)
    known: dict[str, Number] = {**binding.dims, **binding.scalars}
    known |= _hidden(code, arrays, known, evaluate)
    shapes = {array.name: _shape(code, array, binding.shapes[array.name], known, evaluate) for array in code.arrays}
    for array in code.arrays:
        if array.name in arrays and (every_stride or any(array.pitches[1:])):
            _check_strides(code, array, arrays[array.name], known, evaluate)
    return replace(binding, dims={dim.name: int(known[dim.name]) for dim in code.dims}, shapes=shapes)


def _param(param) -> ArrayParam | ScalarParam:
    if not isinstance(param, Array):
        return ScalarParam(param.name, param.dtype, param.span)
    strides = None
    if any(param.pitches[1:]):
        strides = tuple(_size(factors[0]) if len(factors) == 1 else None if factors else 1 for factors in strides_of(param))
    return ArrayParam(param.name, param.dtype, tuple(map(_size, param.shape)), param.mode, strides, param.span)


def _size(expr: Expr) -> Size:
    if isinstance(expr, Const):
        return int(expr.value)
    return expr.symbol.name if isinstance(expr, Var) and expr.symbol.kind == "dim" else None


def strides_of(array: Array) -> list[Sequence[Expr]]:
    """For each dimension the factors of its stride: the elements allotted to each dimension inside it."""
    allotted = [pitch or size for pitch, size in zip(array.pitches, array.shape)]
    return [allotted[axis + 1 :] for axis in range(len(allotted))]


def _hidden(code: Code, arrays: Mapping[str, Described], known: Known, evaluate: Evaluate) -> dict[str, int]:
    """Pitches that no stride shows alone: `f32[B, M : lm, N]` has the stride lm * N. Closest packing where nothing shows them.

    A dimension of one element shows no stride; the nearest one outside of it then does.
    """
    found: dict[str, int] = {}
    for array in code.arrays:
        for axis, (pitch, size) in enumerate(zip(array.pitches, array.shape)):
            name = _size(pitch) if pitch else None
            if not isinstance(name, str) or name in known or name in found:
                continue
            found[name] = evaluate({**known, **found}, size)
            given = arrays.get(array.name)
            shown = [d for d in range(axis) if given and given.strides and given.shape[d] > 1 and 0 not in given.shape]
            if shown:
                factors = strides_of(array)[shown[-1]]
                others = [evaluate({**known, **found}, e) for d, e in enumerate(factors, shown[-1] + 1) if d != axis]
                found[name] = given.strides[shown[-1]] // max(prod(others), 1)
    return found


def _shape(code: Code, array: Array, shape: Sequence[int | None], known: Known, evaluate: Evaluate) -> tuple[int, ...]:
    complete = []
    for axis, (size, expr) in enumerate(zip(shape, array.shape)):
        wanted = evaluate(known, expr)
        size = wanted if size is None else size
        if wanted < 0:
            text = f"dimension {axis} of `{array.name}` would be {wanted}"
            raise VxcError(Diagnostic("E0705", text, code.source, array.span, help="a size is 0 or more"))
        if size != wanted:
            text = f"dimension {axis} of `{array.name}` is {size}, but its declared size `{code.source.slice(expr.span)}` is {wanted}"
            raise VxcError(Diagnostic("E0705", text, code.source, array.span))
        complete.append(size)
    return tuple(complete)


def _check_strides(code: Code, array: Array, given: Described, known: Known, evaluate: Evaluate) -> None:
    if 0 in given.shape:
        return
    strides = given.strides or row_major(given.shape)
    for axis, factors in enumerate(strides_of(array)):
        wanted = prod(evaluate(known, e) for e in factors)
        if given.shape[axis] > 1 and strides[axis] != wanted:
            text = f"stride {axis} of `{array.name}` (in elements) is {strides[axis]}, but {wanted} is declared"
            raise VxcError(Diagnostic("E0706", text, code.source, array.span))
