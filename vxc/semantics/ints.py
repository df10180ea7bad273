"""Integer and bool operations on NumPy arrays of one dtype: wrapping arithmetic, division and shifts defined everywhere."""

from __future__ import annotations

import numpy as np


def _floordiv(a, b):
    # NumPy leaves INT_MIN // -1 to the processor; the rest (floor, 0 for a zero divisor) is what the language says.
    minus_one = (b == -1) if a.dtype.kind == "i" else np.False_
    return np.where(minus_one, np.negative(a), np.floor_divide(a, np.where(minus_one, 1, b).astype(a.dtype)))


def _mod(a, b):
    return np.subtract(a, np.multiply(b, _floordiv(a, b))) * (b != 0).astype(a.dtype)


def _ceildiv(a, b):
    return np.add(_floordiv(a, b), (_mod(a, b) != 0).astype(a.dtype))


def _tdiv(a, b):
    opposite = (a < 0) != (b < 0)
    return np.where(opposite, _ceildiv(a, b), _floordiv(a, b))


def _trem(a, b):
    return np.subtract(a, np.multiply(b, _tdiv(a, b))) * (b != 0).astype(a.dtype)


def _inside(a, count):
    return (count >= 0) & (count < 8 * a.dtype.itemsize)


def _shl(a, count):
    inside = _inside(a, count)
    return np.where(inside, np.left_shift(a, np.where(inside, count, 0).astype(a.dtype)), 0).astype(a.dtype)


def _shr(a, count):
    last = np.asarray(8 * a.dtype.itemsize - 1, a.dtype)
    inside = _inside(a, count)
    shifted = np.right_shift(a, np.where(inside, count, last).astype(a.dtype))
    return shifted if a.dtype.kind == "i" else np.where(inside, shifted, 0).astype(a.dtype)


INT = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": _floordiv,
    "mod": _mod,
    "ceildiv": _ceildiv,
    "tdiv": _tdiv,
    "trem": _trem,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shl,
    "shr": _shr,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "neg": np.negative,
    "bitnot": np.invert,
    "abs": np.abs,
    "fma": lambda a, b, c: np.add(np.multiply(a, b), c),
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "select": np.where,
}

BOOL = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "eq": np.equal,
    "ne": np.not_equal,
    "select": np.where,
}
