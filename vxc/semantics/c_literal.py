"""Literals in CUDA C++ text that give exactly the value meant, of any dtype."""

from __future__ import annotations

import math

import numpy as np

from vxc.dtypes import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I64, U64, DType
from vxc.semantics.casts import cast

_SUFFIX = {("i", 64): "ll", ("u", 32): "u", ("u", 64): "ull"}
_NORMAL = {F32: 2.0**-126, F64: 2.0**-1022}
_BITS = {
    F16: "__ushort_as_half(0x{:04x})",
    BF16: "__ushort_as_bfloat16(0x{:04x})",
    F32: "__int_as_float(0x{:08x})",
    F64: "__longlong_as_double(0x{:016x}ll)",
    F8E4M3: "vx_bits<__nv_fp8_e4m3>((unsigned char)0x{:02x})",
    F8E5M2: "vx_bits<__nv_fp8_e5m2>((unsigned char)0x{:02x})",
}  # fmt: skip


def c_literal(value, dtype: DType) -> str:
    """`value` (a Python or NumPy number, rounded once or wrapped to `dtype`) as a primary expression of `dtype`.

    Normal f32 and f64 are the shortest decimal that reads back (1.5f, 1e-30); what C has no literal for, and the 16- and
    8-bit floats, are bit patterns. NaN keeps its payload if `value` has the NumPy type of `dtype`.
    """
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.is_int:
        return _int(int(value), dtype)
    array = _rounded(value, dtype)
    number = float(array)
    if dtype in _NORMAL and (number == 0 or _NORMAL[dtype] <= abs(number) < math.inf):
        text = repr(number) if dtype == F64 else str(array[()])
        text += "f" if dtype == F32 else ""
        return f"({text})" if text.startswith("-") else text
    bits = int(array.view(f"u{array.dtype.itemsize}"))
    return _BITS[dtype].format(bits)


def _rounded(value, dtype: DType) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype == dtype.numpy:
        return array
    if array.dtype.kind in "iu":
        return cast(array, U64 if array.dtype.kind == "u" else I64, dtype)
    return cast(np.asarray(value, np.float64), F64, dtype)


def _int(value: int, dtype: DType) -> str:
    value = (value - dtype.min) % (1 << dtype.bits) + dtype.min
    suffix = _SUFFIX.get((dtype.kind, dtype.bits), "")
    if dtype.bits < 32:
        return f"({dtype.c}){value}"
    if value == dtype.min and value:
        return f"({value + 1}{suffix} - 1)"  # C has no negative literals, and the positive one does not fit
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"
