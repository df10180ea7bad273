"""Reductions over the last axis of NumPy arrays, bit for bit in the order of their `Order`."""

from __future__ import annotations

import math

import numpy as np

from vxc.dtypes import DType
from vxc.semantics.floats import fma, from_key, order_key
from vxc.semantics.order import Order
from vxc.semantics.reductions import REDUCTIONS, accumulator, empty

# What joins two partial results, by the scalar operation of that name; floats are compared by `order_key`
UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "maxnum": np.maximum,
    "minnum": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}
assert set(UFUNCS) == {row.combine for row in REDUCTIONS.values()}


def reduce(name: str, x, dtype: DType, order: Order) -> np.ndarray:
    """Reduce `x` (any leading shape, last axis n, elements of the compute dtype) to its leading shape, dtype `accumulator`."""
    x = np.asarray(x, dtype.numpy)
    if x.shape[-1] == 0:
        return np.full(x.shape[:-1], empty(name, dtype))
    with np.errstate(all="ignore"):
        if name in ("argmax", "argmin"):
            return np.asarray(getattr(np, name)(x, axis=-1), np.int64)  # NumPy's takes the first NaN, then the first best
        if name == "absmax":
            x = np.maximum(np.abs(x), 0) if dtype.is_int else np.abs(x)
        if dtype.is_float and REDUCTIONS[name].ordered:
            return _fold_in_order(name, order, x)
        op = UFUNCS[REDUCTIONS[name].combine]
        if dtype.is_float:
            drops_nan = name in ("maxnum", "minnum")
            return from_key(op.reduce(order_key(x, nan_high=(op is np.maximum) != drops_nan), axis=-1), dtype.numpy)
        return np.asarray(op.reduce(x, axis=-1, dtype=accumulator(name, dtype).numpy))


def dot(a, b, dtype: DType, order: Order) -> np.ndarray:
    """Sum of a * b over the last axis in `order`, each product joined by fma; operands broadcast."""
    a, b = np.asarray(a, dtype.numpy), np.asarray(b, dtype.numpy)
    if dtype.is_float and a.shape[-1] and b.shape[-1]:
        with np.errstate(all="ignore"):
            return _fold_in_order("dot", order, *np.broadcast_arrays(a, b))
    wide = accumulator("dot", dtype).numpy
    return reduce("sum", a.astype(wide) * b.astype(wide), accumulator("dot", dtype), order)


def _fold_in_order(name: str, order: Order, *operands) -> np.ndarray:
    """`operands` of shape [..., n] to [...]: one for sum and prod, two for dot."""
    op, start = UFUNCS[REDUCTIONS[name].combine], REDUCTIONS[name].identity
    # absent elements change nothing: x + -0.0, x * 1.0 and fma(-0.0, 1.0, x) are x, whatever x
    columns = [_columns(x, order, pad) for x, pad in zip(operands, (start, 1.0), strict=False)]
    acc = np.full(columns[0].shape[1:], start, operands[0].dtype)  # [rows, parts, lanes, chunk]
    for at in zip(*columns, strict=True):
        acc = fma(*at, acc) if name == "dot" else op(acc, *at)
    acc = _lanes(op, _halves(op, acc), order)
    return _halves(op, acc).reshape(operands[0].shape[:-1])


def _columns(x, order: Order, pad: float) -> np.ndarray:
    """[step, rows, parts, lanes, chunk]: what joins each partial at each step, absent elements as the identity `pad`."""
    rows, span, parts = math.prod(x.shape[:-1]), order.span(x.shape[-1]), order.parts_of(x.shape[-1])
    per_lane = span // order.lanes
    chunk = order.chunk or per_lane
    steps = -(-per_lane // chunk)
    x = padded(x.reshape(rows, x.shape[-1]), parts * span, pad)
    x = x.reshape(rows, parts, per_lane // order.v, order.lanes, order.v)
    x = x.transpose(0, 1, 3, 2, 4).reshape(rows, parts, order.lanes, per_lane)
    x = padded(x, steps * chunk, pad)
    return x.reshape(rows, parts, order.lanes, steps, chunk).transpose(3, 0, 1, 2, 4)


def padded(x, length: int, pad: float):
    """`x` with its last axis filled up to `length`."""
    if x.shape[-1] == length:
        return x
    out = np.full((*x.shape[:-1], length), pad, x.dtype)
    out[..., : x.shape[-1]] = x
    return out


def _halves(op: np.ufunc, a):
    """Fold the last axis by h = (k+1)//2: a[i] op a[i+h] where i+h < k."""
    while (k := a.shape[-1]) > 1:
        h = (k + 1) // 2
        a = np.concatenate([op(a[..., : k - h], a[..., h:]), a[..., k - h : h]], axis=-1)
    return a[..., 0]


def _lanes(op: np.ufunc, a, order: Order):
    """Fold the last axis, lanes: halving inside each warp (lane 0 of the xor butterfly), then warps in order."""
    a = a.reshape(*a.shape[:-1], order.lanes // order.warp, order.warp)
    while (w := a.shape[-1]) > 1:
        a = op(a[..., : w // 2], a[..., w // 2 :])
    total = a[..., 0, 0]
    for warp in range(1, a.shape[-2]):
        total = op(total, a[..., warp, 0])
    return total
