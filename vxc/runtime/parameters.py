"""Kernel arguments as the launch call wants them: an array of pointers to values, each of exactly its declared type."""

from __future__ import annotations

import ctypes
import math
import operator
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import BOOL, F64, DType
from vxc.semantics import cast

_C_TYPES = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "bool": ctypes.c_bool,
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
    "i4": ctypes.c_int8, "u4": ctypes.c_uint8,
}  # fmt: skip


@dataclass(frozen=True)
class Parameters:
    """`address` of a `void*[]`, valid while this object is held; `values` keeps what it points at."""

    address: int
    values: tuple[Any, ...]


def pack(values: Sequence[Any]) -> Parameters:
    """The argument array of one launch, from the ctypes objects that `scalar` and `pointer` give."""
    table = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
    return Parameters(ctypes.addressof(table), (table, *values))


def pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def scalar(name: str, dtype: DType, value: Any) -> Any:
    """The ctypes object holding `value` as `dtype`, never as what Python would make of it.

    Floats round once, ints must fit. Raises `VxcError` E0707, naming the parameter.
    """
    if dtype.is_float:
        number = _converted(lambda v: math.ldexp(v, 0), name, dtype, value)  # as float(v), but takes no text
        if dtype.name in _C_TYPES:
            return _C_TYPES[dtype.name](number)
        bits = cast(np.float64(number), F64, dtype).view(f"u{dtype.bytes}")
        return _C_TYPES[f"u{dtype.bits}"](int(bits))
    number = _converted(operator.index, name, dtype, value.item() if isinstance(value, np.bool_) else value)
    if not dtype.min <= number <= dtype.max:
        meant = f"{dtype} holds {dtype.min} to {dtype.max}" if dtype is not BOOL else "a bool is True or False"
        message = f"argument `{name}` = {reprlib.repr(number)} does not fit: {meant}"
        raise VxcError(Diagnostic("E0707", message, help="declare a wider type, or pass another value"))
    return _C_TYPES[dtype.name](number)


def _converted(convert: Any, name: str, dtype: DType, value: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError):
        message = f"argument `{name}` is {reprlib.repr(value)}, of type {type(value).__name__}, where the kernel takes {dtype}"
        raise VxcError(Diagnostic("E0707", message, help=f"pass {'a number' if dtype.is_float else 'an int'}")) from None
