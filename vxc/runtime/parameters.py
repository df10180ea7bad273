"""Kernel arguments as the launch call wants them: an array of pointers to values, each of exactly its declared type."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from vxc.dtypes import F64, DType
from vxc.record import record
from vxc.semantics import cast

_C_TYPES = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "bool": ctypes.c_bool,
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
    "i4": ctypes.c_int8, "u4": ctypes.c_uint8,
}  # fmt: skip


@record
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


def scalar(dtype: DType, value: int | float | bool) -> Any:
    """The ctypes object holding `value` as `dtype`, never as what Python would make of it; floats round once.

    `vxc.binding` has made sure that the caller's numbers fit.
    """
    if dtype.name in _C_TYPES:
        return _C_TYPES[dtype.name](value)
    bits = cast(float(value), F64, dtype).view(f"u{dtype.bytes}")
    return _C_TYPES[f"u{dtype.bits}"](int(bits))
