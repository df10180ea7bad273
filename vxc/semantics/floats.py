"""Exact floating-point operations on NumPy arrays of f32 or f64: what IEEE 754 rounds correctly, max and min, fma."""

from __future__ import annotations

import numpy as np

_F32, _F64, _I64 = np.float32, np.float64, np.int64


def _order_zeros(pick, on_tie):
    """NumPy's maximum and minimum order zeros by argument: where both operands are zero, `on_tie` decides the sign."""

    def f(a, b):
        r = pick(a, b)
        zero = r == 0
        if not zero.any():
            return r
        return np.where(zero & (a == b), on_tie(a, b), r)

    return f


def _greater_zero(a, b):
    return a + b


def _lesser_zero(a, b):
    return -(-a - b)


_max, _min = _order_zeros(np.maximum, _greater_zero), _order_zeros(np.minimum, _lesser_zero)


def _drop_nan(pick):
    """The other operand where one is NaN. (NumPy's fmin and fmax give NaN for a signalling one, in some lanes.)"""

    def f(a, b):
        r = pick(a, b)
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, r)) if np.isnan(r).any() else r

    return f


def two_sum(a, b):
    """s, e with s = a + b rounded and s + e = a + b exactly (Knuth), overflow aside."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def two_product(a, b):
    """p, e with p = a * b rounded and p + e = a * b exactly (f64; Dekker, Veltkamp), for exponents away from the limits."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a):
    t = a * 134217729.0  # 2^27 + 1
    high = t - (t - a)
    return high, a - high


def _to_odd(s, error):
    """The f64 sum s + error rounded to odd: rounding it once more to a shorter format cannot round twice."""
    bits = s.view(_I64)
    away = np.where((error > 0) == (s > 0), 1, -1)
    inexact = (error > 0) | (error < 0)
    return np.where(inexact & (bits & 1 == 0), bits + away, bits).view(_F64)


def _fma32(a, b, c):
    product, c = a.astype(_F64) * b.astype(_F64), c.astype(_F64)  # the product is exact
    s = product + c
    r = s.astype(_F32)
    # s can be rounded twice wrongly only if it lies midway between two f32 values, or if the result is subnormal
    risky = ((s.view(_I64) & 0x1FFFFFFF) == 0x10000000) | (np.abs(r) <= _F32(2.0**-126))
    i = np.nonzero(risky)
    if i[0].size:
        r[i] = _to_odd(*two_sum(product[i], c[i])).astype(_F32)
    return r


def _exact_fma(a: float, b: float, c: float) -> float:
    from fractions import Fraction  # of very large and very small numbers alone

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _fma64(a, b, c):
    """Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008)."""
    product, low = two_product(a, b)
    t, t_low = two_sum(c, low)
    v, v_low = two_sum(product, t)
    r = v + _to_odd(*two_sum(t_low, v_low))
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    size = np.abs(product)
    # error terms must neither overflow nor underflow: outside these exponents go through rationals
    extreme = (size < 2.0**-900) | (size > 2.0**990) | (np.abs(c) > 2.0**990) | (np.maximum(np.abs(a), np.abs(b)) > 2.0**990)
    r = np.where(special, product + c, r)
    for i in np.nonzero(extreme & ~special)[0]:
        r[i] = _exact_fma(float(a[i]), float(b[i]), float(c[i]))
    return r


def fma(a, b, c):
    """a * b + c rounded once, f32 or f64, broadcasting."""
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    a, b, c = (np.broadcast_to(x, shape).reshape(-1) for x in (a, b, c))
    return (_fma32 if a.dtype == _F32 else _fma64)(a, b, c).reshape(shape)


def order_key(x, nan_high: bool):
    """Floats as ints in the language's total order: -0 below +0, every NaN above all (or below all)."""
    ints = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(ints)
    ends = np.iinfo(ints)
    key = bits ^ ((bits >> ints.type(ends.bits - 1)) & ints.type(ends.max))
    nan = np.isnan(x)
    if nan.any():
        key = np.where(nan, ints.type(ends.max if nan_high else ends.min), key)
    return key


def from_key(key, dtype):
    """The floats of NumPy type `dtype` behind such keys."""
    ints = key.dtype
    ends = np.iinfo(ints)
    bits = np.asarray(key ^ ((key >> ints.type(ends.bits - 1)) & ints.type(ends.max)))
    return bits.view(dtype)


FLOAT = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": _min,
    "max": _max,
    "minnum": _drop_nan(_min),
    "maxnum": _drop_nan(_max),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "neg": np.negative,
    "abs": np.abs,
    "copysign": np.copysign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sqrt": np.sqrt,
    "fma": fma,
    "clamp": lambda x, low, high: _min(_max(x, low), high),
    "select": np.where,
}
