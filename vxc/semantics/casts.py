"""Conversions between any two dtypes: `cast` (`as`), `sat`, `reinterpret`, on NumPy arrays of `dtype.numpy`.

Every conversion rounds once, to nearest even, from the exact source value. A wide source reaches a 16- or 8-bit float
through f32 *rounded to odd*, which keeps just enough to make the second rounding the only one that counts. i4 and u4
are held one to a byte, sign- and zero-extended.
"""

from __future__ import annotations

import numpy as np

from vxc.dtypes import BF16, BOOL, DTYPES, F8E4M3, F8E5M2, F16, F32, F64, DType

# Greatest finite value of each float type
FLOAT_MAX: dict[DType, float] = {
    F16: 65504.0,
    BF16: float.fromhex("0x1.fep+127"),
    F32: float.fromhex("0x1.fffffep+127"),
    F64: float.fromhex("0x1.fffffffffffffp+1023"),
    F8E4M3: 448.0,
    F8E5M2: 57344.0,
}  # fmt: skip
assert set(FLOAT_MAX) == {d for d in DTYPES.values() if d.is_float}


def cast(x, src: DType, dst: DType) -> np.ndarray:
    """`x as dst` for an array (or scalar) of `src`; shape kept.

    Ints wrap into ints. Floats truncate and saturate into ints, NaN gives 0. Overflow into f16, bf16, f32, f8e5m2 gives
    inf, into f8e4m3 NaN. Into bool it is x != 0.
    """
    x = np.asarray(x, src.numpy)
    if src == dst:
        return x
    with np.errstate(all="ignore"):
        if dst == BOOL:
            return np.asarray(x != 0)
        if dst.is_float:
            return np.asarray(_to_float(x, src, dst))
        return np.asarray(_float_to_int(x, dst) if src.is_float else _wrap(x, dst))


def sat(x, src: DType, dst: DType) -> np.ndarray:
    """As `cast`, but what lies outside the finite range of `dst` (infinities too) becomes its nearest end; NaN stays NaN."""
    x = np.asarray(x, src.numpy)
    with np.errstate(all="ignore"):
        if dst.is_int:
            if src.is_int:
                x = np.clip(x, max(src.min, dst.min), min(src.max, dst.max))
            return cast(x, src, dst)
        if dst == BOOL:
            return cast(x, src, dst)
        wide = F64 if F64 in (src, dst) else F32
        top = wide.numpy.type(FLOAT_MAX[dst])
        near = _odd_f32(x, src) if wide == F32 and dst != F32 else _to_float(x, src, wide)
        return cast(np.clip(near, -top, top), wide, dst)


def reinterpret(x, src: DType, dst: DType) -> np.ndarray:
    """The bits of `x` read as `dst`, a type of the same width. ValueError for another width."""
    if src.bits != dst.bits:
        raise ValueError(f"reinterpret needs equal widths, not {src} ({src.bits} bits) and {dst} ({dst.bits} bits)")
    x = np.asarray(x, src.numpy)
    if dst == BOOL:
        return np.asarray(x.view(np.uint8) != 0)
    x = np.asarray(x.view(dst.numpy))
    return _wrap(x, dst) if dst.bits == 4 else x


def _wrap(x, dst: DType):
    """Low bits of an int or bool array as `dst`."""
    x = x.astype(dst.numpy)
    if dst.bits != 4:
        return x
    return x & 15 if dst.kind == "u" else ((x & 15) ^ 8) - 8


def _float_to_int(x, dst: DType):
    x = x.astype(np.float64)  # exact
    above, below = x >= 2.0 ** (dst.bits - (dst.kind == "i")), x <= dst.min
    inside = np.where(above | below | np.isnan(x), 0.0, x).astype(dst.numpy)
    ends = np.where(above, np.asarray(dst.max, dst.numpy), np.asarray(dst.min, dst.numpy))
    return np.where(above | below, ends, inside)


def _to_float(x, src: DType, dst: DType):
    if dst in (F32, F64):
        return x.astype(dst.numpy)
    return _odd_f32(x, src).astype(dst.numpy)


def _odd_f32(x, src: DType):
    """`x` as f32, rounded to odd where f32 cannot hold it: toward zero, then the last bit set if anything was lost."""
    near = x.astype(np.float32)
    if src.bits < 32 or src == F32:
        return near
    bits = near.view(np.uint32)
    if src == F64:
        lost, too_big = near != x, np.abs(near) > np.abs(x)
    else:
        # |near| may be 2^63 or 2^64, which the int type cannot hold: compare in f64 halves that are exact
        low = x & x.dtype.type(0x7FF)
        high = (x - low).astype(np.float64)
        error = (high - near) + low.astype(np.float64)
        lost, too_big = error != 0, (error < 0) == (near > 0)
    bits = np.where(lost & too_big, bits - np.uint32(1), bits)
    return np.where(lost & ~np.isnan(near), bits | np.uint32(1), bits).view(np.float32)
