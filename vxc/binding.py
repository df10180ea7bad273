"""Binding a call: arrays and scalars against a signature, giving every symbolic dimension a size.

A name in a parameter's shape or strides is a dimension: its first occurrence binds it, every other is compared. Nothing
here needs NumPy: an array is what `Described` says of it. Both interpreters and the runtime bind through `bind`, so a
wrong call is refused with the same words everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import inf, isfinite, isinf
from typing import NamedTuple

import numpy as np

from vxc.diag import Diagnostics, suggestion
from vxc.dtypes import F64, DType
from vxc.ir.kernel import Buffer, Const, Value
from vxc.ir.ranges import MAX_DIM
from vxc.record import record, state
from vxc.semantics import FLOAT_MAX, cast
from vxc.source import Source, Span

Number = int | float | bool
Size = int | str | None  # a constant, the name of a dimension, or None: computed from others and checked by the caller


class Described(NamedTuple):
    """What binding looks at: shape, the NumPy name of the dtype, strides in elements (None: contiguous)."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None


@record
class ArrayParam:
    name: str
    dtype: DType
    shape: tuple[Size, ...]
    mode: str
    strides: tuple[Size, ...] | None = None
    span: Span | None = None


@record
class ScalarParam:
    name: str
    dtype: DType
    span: Span | None = None


@record
class Binding:
    """`dims` by name, `scalars` as Python numbers of their declared type, `shapes` of all array parameters (given or not)."""

    dims: dict[str, int]
    scalars: dict[str, Number]
    shapes: dict[str, tuple[int | None, ...]]


def describe(array) -> Described:
    """An array with NumPy's `shape`, `dtype` and `strides` (bytes)."""
    size = array.dtype.itemsize
    return Described(tuple(array.shape), array.dtype.name, tuple(s // size for s in array.strides))


def signature(params: Iterable[Value | Buffer]) -> tuple[ArrayParam | ScalarParam, ...]:
    """The signature of a plan or flat kernel; its dimensions are no parameters of the call."""
    params = tuple(params)

    def sizes(parts):
        return None if parts is None else tuple(p.value if isinstance(p, Const) else p.name for p in parts)

    arrays = {p.name: ArrayParam(p.name, p.dtype, sizes(p.shape), p.mode, sizes(p.strides)) for p in params if isinstance(p, Buffer)}
    dims = {s for a in arrays.values() for s in (*a.shape, *(a.strides or ()))}
    return tuple(arrays[p.name] if isinstance(p, Buffer) else ScalarParam(p.name, p.dtype) for p in params if p.name not in dims)


def bind(
    params: Iterable[ArrayParam | ScalarParam],
    arrays: Mapping[str, Described],
    scalars: Mapping[str, object],
    dims: Mapping[str, int] | None = None,
    *,
    source: Source | None = None,
) -> Binding:
    """Check a call and size every dimension; `dims` gives sizes beforehand. An `out` array may be missing.

    Raises VxcError with everything found: E0704 dtype, E0705 shape (or a dimension beyond `MAX_DIM`), E0706 strides, E0707
    scalar, E0708 missing or unknown argument, E0714 a dimension that nothing sizes.
    """
    params = tuple(params)
    call = _Call(source, {name: (size, "the given size") for name, size in (dims or {}).items()})
    call.names(params, {**arrays, **scalars})
    values: dict[str, Number] = {}
    given = [p for p in params if isinstance(p, ArrayParam) and p.name in arrays]
    for param in params:
        if isinstance(param, ScalarParam) and param.name in scalars:
            values[param.name] = call.scalar(param, scalars[param.name])
    for param in given:
        call.array(param, arrays[param.name])
    for param in given:
        call.strides(param, arrays[param.name])
    shapes = {p.name: call.shape(p, arrays.get(p.name)) for p in params if isinstance(p, ArrayParam)}
    for param in params:
        if isinstance(param, ArrayParam) and None not in shapes[param.name]:
            call.pack(param, shapes[param.name], arrays.get(param.name))
    call.limits()
    call.found.raise_if_errors()
    return Binding({name: size for name, (size, _) in call.sizes.items()}, values, shapes)


def bind_scalars(
    params: Iterable[ArrayParam | ScalarParam], scalars: Mapping[str, object], source: Source | None = None
) -> dict[str, Number]:
    """The scalars of a call whose arrays are known to fit, as Python numbers of their declared types. Raises VxcError E0707."""
    call = _Call(source, {})
    values = {p.name: call.scalar(p, scalars[p.name]) for p in params if isinstance(p, ScalarParam)}
    call.found.raise_if_errors()
    return values


@state
class _Call:
    """One call being checked: `sizes` maps each bound dimension to its size and to what bound it."""

    source: Source | None
    sizes: dict[str, tuple[int, str]]
    found: Diagnostics = field(default_factory=Diagnostics)

    def error(self, code: str, param: ArrayParam | ScalarParam | None, message: str, help: str = "") -> None:
        span = param.span if param else None
        self.found.add(code, message, self.source if span else None, span, help=help)

    def names(self, params, arguments: Mapping[str, object]) -> None:
        known = {p.name: p for p in params}
        for name in arguments:
            if name not in known:
                hint = suggestion(name, known, f"the parameters are {_listing(known)}")
                self.error("E0708", None, f"there is no parameter `{name}`", hint)
        for name, param in known.items():
            if name not in arguments and getattr(param, "mode", "in") != "out":
                what = "array" if isinstance(param, ArrayParam) else "scalar"
                self.error("E0708", param, f"{what} argument `{name}` is missing", f"pass {name}={_wanted(param)}")

    def scalar(self, param: ScalarParam, value: object) -> Number:
        fitted, problem = fit_scalar(value, param.dtype)
        if problem:
            text = f"scalar argument `{param.name}` is {param.dtype}, but {brief(value)} {problem}"
            self.error("E0707", param, text, f"pass a number that {param.dtype} holds")
        return fitted

    def array(self, param: ArrayParam, array: Described) -> None:
        if array.dtype != param.dtype.numpy_name:
            hint = f"convert it, as with x.astype({param.dtype.numpy_name!r})"
            self.error("E0704", param, f"array argument `{param.name}` holds {array.dtype}, but {param.dtype} is declared", hint)
        if len(array.shape) != len(param.shape):
            text = f"array argument `{param.name}` has {_plural(len(array.shape), 'dimension')}, but {len(param.shape)} declared"
            self.error("E0705", param, text, f"pass shape {_wanted(param)}, not {list(array.shape)}")
            return
        for axis, (want, got) in enumerate(zip(param.shape, array.shape)):
            self.size(param, f"dimension {axis} of `{param.name}`", want, got, "E0705")

    def size(self, param: ArrayParam, place: str, want: Size, got: int, code: str) -> None:
        """One component of a shape or stride: a constant is compared, a name is bound or compared."""
        if isinstance(want, int) and got != want:
            self.error(code, param, f"{place} is {got}, but {want} is declared", f"`{param.name}` is declared {_wanted(param)}")
        if not isinstance(want, str):
            return
        size, by = self.sizes.setdefault(want, (got, place))
        if size != got:
            self.error(code, param, f"{place} is {got}, but {by} makes {want} = {size}", f"`{param.name}` is declared {_wanted(param)}")

    def strides(self, param: ArrayParam, array: Described) -> None:
        """Bind or compare declared strides, where there are two elements along the dimension: otherwise any stride will do."""
        if param.strides is None or len(array.shape) != len(param.shape) or 0 in array.shape:
            return
        for axis, stride in enumerate(row_major(array.shape) if array.strides is None else array.strides):
            if array.shape[axis] > 1:
                self.size(param, f"stride {axis} of `{param.name}` (in elements)", param.strides[axis], stride, "E0706")

    def pack(self, param: ArrayParam, shape: Sequence[int], array: Described | None) -> None:
        """Strides that are still unbound: that of the nearest dimension outside, over ones of a single element; else rows lie closely."""
        stride = 1
        shown = _nearest_outside(array) if array is not None else (None,) * len(shape)
        for extent, want, outside in reversed([*zip(shape, param.strides or (), shown)]):
            if isinstance(want, str):
                stride, _ = self.sizes.setdefault(want, (stride if outside is None else outside, f"`{param.name}`"))
            elif want is not None:
                stride = want
            stride *= extent

    def limits(self) -> None:
        """What compiling takes for granted of every dimension (`ir.ranges`)."""
        for name, (size, _) in self.sizes.items():
            if size > MAX_DIM:
                self.error("E0705", None, f"dimension {name} would be {size:,}, and at most {MAX_DIM:,} is possible", "use a smaller size")

    def shape(self, param: ArrayParam, array: Described | None) -> tuple[int | None, ...]:
        if array is not None:
            return array.shape
        unknown = list(dict.fromkeys(s for s in param.shape if isinstance(s, str) and s not in self.sizes))
        if unknown and not self.found.found:
            text = f"nothing gives the size of {', '.join(unknown)}, so `{param.name}` cannot be allocated"
            self.error("E0714", param, text, f"pass `{param.name}`, or give the size, as with -D {unknown[0]}=1024")
        sizes = tuple(self.sizes.get(s, (None,))[0] if isinstance(s, str) else s for s in param.shape)
        for axis, size in enumerate(sizes):
            if size is not None and size < 0:
                self.error("E0705", param, f"dimension {axis} of `{param.name}` would be {size}", "a size is 0 or more")
        return sizes


def _nearest_outside(array: Described) -> tuple[int | None, ...]:
    """For each dimension the stride of the nearest one around it that has several elements, if all between have one."""
    found: list[int | None] = []
    last = None
    for extent, stride in zip(array.shape, array.strides or row_major(array.shape)):
        found.append(last)
        last = stride if extent > 1 else last
    return tuple(found) if 0 not in array.shape else (None,) * len(array.shape)


_NO_NUMBERS = (str, bytes, bytearray, np.datetime64, np.timedelta64, np.complexfloating)
"""What Python reads as a number and a call does not: texts, times, and complex numbers, whose imaginary part would be lost."""


def fit_scalar(value: object, dtype: DType) -> tuple[Number, str]:
    """`value` as a Python number of `dtype`, and what is wrong with it ("" if nothing)."""
    try:
        if isinstance(value, _NO_NUMBERS):
            raise TypeError
        if dtype.is_float:
            number = float(value)  # type: ignore[arg-type]
            if isinf(number) and value != number:  # of a type that holds larger ones
                raise OverflowError
            fits = not isfinite(number) or isfinite(cast(number, F64, dtype))
            return number, "" if fits else f"is beyond its greatest value {FLOAT_MAX[dtype]:g}"
        number = operator.index(bool(value) if type(value).__name__ in ("bool", "bool_") else value)  # type: ignore[arg-type]
    except OverflowError:
        return inf, "is beyond its greatest value"
    except (TypeError, ValueError):
        return 0, "is not a number" if dtype.is_float else "is not an integer"
    except Exception as error:  # of the type's own code
        return 0, f"cannot be read as a number ({type(error).__name__}: {error})"
    if not dtype.min <= number <= dtype.max:
        return 0, f"is outside {dtype.min}..{dtype.max}"
    return (bool(number) if dtype.kind == "b" else number), ""


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides, packed = [], 1
    for size in reversed(shape):
        strides.append(packed)
        packed *= size
    return tuple(reversed(strides))


def _wanted(param: ArrayParam | ScalarParam) -> str:
    if isinstance(param, ScalarParam):
        return f"NUMBER (of type {param.dtype})"
    return f"{param.dtype}[{', '.join('?' if s is None else str(s) for s in param.shape)}]"


def brief(value: object) -> str:
    """As Python writes it, if that is short."""
    try:
        text = repr(value)
    except Exception:  # of the type's own code; also of an int of more digits than Python writes
        return f"this {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:30]}..{text[-10:]}"


def _listing(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
