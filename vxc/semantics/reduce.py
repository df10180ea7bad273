"""Reductions and scans over the last axis of NumPy arrays, bit for bit in the order of their `Order`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vxc.dtypes import BOOL, I64, DType, signed, unsigned
from vxc.semantics.floats import fma
from vxc.semantics.order import Order


@dataclass(frozen=True)
class Reduction:
    """One reduction.

    `combine` is the scalar operation that joins two partial results. `identity` is where accumulation starts and `empty`
    what a reduction over nothing gives ('least' and 'greatest': -inf and inf, or the ends of the int type). `ordered` is
    true where floating-point results depend on the order. `accumulator` is 'same', 'wide' (ints to at least 32 bits) or a
    dtype name. argmax and argmin combine (value, index) pairs: NaN first, then the better value, then the lesser index
    compared as u64, so that the identity (least or greatest, -1) loses to every element.
    """

    name: str
    kinds: str
    combine: str
    identity: float | bool | str
    empty: float | bool | str
    accumulator: str
    ordered: bool
    doc: str


_ROWS = [
    # name      kinds   combine   identity   empty      accum.  ordered  meaning
    ("sum",     "fiu",  "add",    -0.0,      0.0,       "wide", True,    "sum"),
    ("prod",    "fiu",  "mul",    1.0,       1.0,       "wide", True,    "product"),
    ("dot",     "fiu",  "add",    -0.0,      0.0,       "wide", True,    "sum of a[i]*b[i], each joined by fma"),
    ("max",     "fiu",  "max",    "least",   "least",   "same", False,   "greatest, NaN if any is"),
    ("min",     "fiu",  "min",    "greatest", "greatest", "same", False, "least, NaN if any is"),
    ("maxnum",  "f",    "maxnum", "nan",     "nan",     "same", False,   "greatest that is not NaN"),
    ("minnum",  "f",    "minnum", "nan",     "nan",     "same", False,   "least that is not NaN"),
    ("absmax",  "fiu",  "max",    0.0,       0.0,       "same", False,   "greatest of 0 and all abs(x[i]), NaN if any is"),
    ("any",     "b",    "or",     False,     False,     "bool", False,   "true if any is"),
    ("all",     "b",    "and",    True,      True,      "bool", False,   "true if all are"),
    ("argmax",  "fiu",  "max",    "least",   -1.0,      "i64",  False,   "index of the first NaN, else of the first greatest (-0 equals +0)"),
    ("argmin",  "fiu",  "min",    "greatest", -1.0,     "i64",  False,   "index of the first NaN, else of the first least (-0 equals +0)"),
]  # fmt: skip

REDUCTIONS: dict[str, Reduction] = {row[0]: Reduction(*row) for row in _ROWS}
SCANS: dict[str, Reduction] = {name: REDUCTIONS[name] for name in ("sum", "prod", "max", "min")}


def accumulator(name: str, dtype: DType) -> DType:
    """The dtype of the result of reduction (or scan) `name` over the compute dtype `dtype`."""
    rule = REDUCTIONS[name].accumulator
    if rule == "wide" and dtype.is_int and dtype.bits < 32:
        return signed(32) if dtype.kind == "i" else unsigned(32)
    return {"bool": BOOL, "i64": I64}.get(rule, dtype)


def identity(name: str, dtype: DType) -> np.generic:
    """Where accumulation of `name` starts, as a scalar of the accumulator (for argmax and argmin of the value, not the index)."""
    wide = dtype if REDUCTIONS[name].accumulator == "i64" else accumulator(name, dtype)
    return _constant(REDUCTIONS[name].identity, wide)


def empty(name: str, dtype: DType) -> np.generic:
    """The result of `name` over no elements, as a scalar of the accumulator."""
    return _constant(REDUCTIONS[name].empty, accumulator(name, dtype))


def _constant(value: float | bool | str, dtype: DType) -> np.generic:
    if isinstance(value, str):
        ends = {"least": -np.inf, "greatest": np.inf, "nan": np.nan} if dtype.is_float else {"least": dtype.min, "greatest": dtype.max}
        value = ends[value]
    return dtype.numpy.type(value)


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
        if dtype.is_float:
            nan_first = name not in ("maxnum", "minnum")
            best = _COMBINE[name].reduce(_key(x, nan_first == (_COMBINE[name] is np.maximum)), axis=-1)
            return np.asarray(_unkey(best, dtype))
        return np.asarray(_COMBINE[name].reduce(x, axis=-1, dtype=accumulator(name, dtype).numpy))


def dot(a, b, dtype: DType, order: Order) -> np.ndarray:
    """Sum of a * b over the last axis in `order`, each product joined by fma; operands broadcast."""
    a, b = np.asarray(a, dtype.numpy), np.asarray(b, dtype.numpy)
    if dtype.is_float and a.shape[-1] and b.shape[-1]:
        with np.errstate(all="ignore"):
            return _fold_in_order("dot", order, *np.broadcast_arrays(a, b))
    wide = accumulator("dot", dtype).numpy
    return reduce("sum", a.astype(wide) * b.astype(wide), accumulator("dot", dtype), order)


def scan(name: str, x, dtype: DType, order: Order) -> np.ndarray:
    """Inclusive scan of the last axis, same shape, dtype `accumulator`; `order.chunk` and `order.parts` play no role.

    The axis is cut into tiles of v*lanes elements, lane l of a tile holding elements [l*v, l*v + v). With `+` for the
    operation and every absent term skipped (never added as an identity):
      own(i)        = x[first of the lane] + .. + x[i], left to right
      total(l)      = own(last element of lane l)
      upto(l)       : Hillis-Steele over the lanes of a warp (min(lanes, 32)): start with total(l); for d = 1, 2, 4, ..
                      below the warp size, every lane l >= d at once: upto(l) = upto(l-d) + upto(l)
      lanes before  = upto(l-1), absent for the first lane of a warp
      warps before  = upto(last lane) of the warps before, left to right, absent for the first warp
      tile total    = (warps before the last warp) + upto(last lane of the last warp)
      tiles before  = tile totals of the tiles before, left to right, absent for the first tile
      result(i)     = ((tiles before + warps before) + lanes before) + own(i)
    In the last tile, elements past the end come after every result and change none.
    """
    x = np.asarray(x, dtype.numpy)
    wide = accumulator(name, dtype)
    if x.size == 0:
        return np.zeros(x.shape, wide.numpy)
    with np.errstate(all="ignore"):
        if not (dtype.is_float and SCANS[name].ordered):
            if not dtype.is_float:
                return np.asarray(_COMBINE[name].accumulate(x, axis=-1, dtype=wide.numpy))
            key = _key(x, nan_high=name == "max")
            return _unkey(_COMBINE[name].accumulate(key, axis=-1), dtype)
        return _scan_in_order(_COMBINE[name], identity(name, dtype), x, order)


# What joins two partial results; on floats max and min run on the keys below
_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "dot": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "maxnum": np.maximum,
    "minnum": np.minimum,
    "absmax": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def _key(x, nan_high: bool):
    """Floats as ints in the language's total order: -0 below +0, every NaN above all (or below all)."""
    ints = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(ints)
    ends = np.iinfo(ints)
    key = bits ^ ((bits >> ints.type(ends.bits - 1)) & ints.type(ends.max))
    nan = np.isnan(x)
    if nan.any():
        key = np.where(nan, ints.type(ends.max if nan_high else ends.min), key)
    return key


def _unkey(key, dtype: DType):
    ints = key.dtype
    ends = np.iinfo(ints)
    bits = np.asarray(key ^ ((key >> ints.type(ends.bits - 1)) & ints.type(ends.max)))
    return bits.view(dtype.numpy)


def _fold_in_order(name: str, order: Order, *operands) -> np.ndarray:
    op, absent = _COMBINE[name], _ABSENT[name]
    columns = [_columns(x, order, pad) for x, pad in zip(operands, absent, strict=True)]
    acc = np.full(columns[0].shape[1:], absent[0], operands[0].dtype)  # [rows, parts, lanes, chunk]
    for at in zip(*columns, strict=True):
        acc = fma(*at, acc) if name == "dot" else op(acc, *at)
    acc = _lanes(op, _halves(op, acc), order)
    return _halves(op, acc).reshape(operands[0].shape[:-1])


# What stands for absent elements, changing nothing: x + -0.0, x * 1.0 and fma(-0.0, 1.0, x) are x, whatever x. The
# first is also where accumulation starts.
_ABSENT = {"sum": (-0.0,), "prod": (1.0,), "dot": (-0.0, 1.0)}


def _columns(x, order: Order, pad: float) -> np.ndarray:
    """[step, rows, parts, lanes, chunk]: what joins each partial at each step, absent elements as the identity `pad`."""
    n, span = x.shape[-1], order.span(x.shape[-1])
    rows = x.reshape(-1, n)
    per_lane = span // order.lanes
    chunk = order.chunk or per_lane
    x = _padded(rows, order.parts * span, pad)
    x = x.reshape(len(rows), order.parts, per_lane // order.v, order.lanes, order.v)
    x = x.transpose(0, 1, 3, 2, 4).reshape(len(rows), order.parts, order.lanes, per_lane)
    x = _padded(x, -(-per_lane // chunk) * chunk, pad)
    return x.reshape(*x.shape[:-1], -1, chunk).transpose(3, 0, 1, 2, 4)


def _padded(x, length: int, pad: float):
    if x.shape[-1] == length:
        return x
    out = np.full((*x.shape[:-1], length), pad, x.dtype)
    out[..., : x.shape[-1]] = x
    return out


def _halves(op: Callable, a):
    """Fold the last axis by h = (k+1)//2: a[i] op a[i+h] where i+h < k."""
    while (k := a.shape[-1]) > 1:
        h = (k + 1) // 2
        a = np.concatenate([op(a[..., : k - h], a[..., h:]), a[..., k - h : h]], axis=-1)
    return a[..., 0]


def _lanes(op: Callable, a, order: Order):
    """Fold the last axis, lanes: halving inside each warp (lane 0 of the xor butterfly), then warps in order."""
    a = a.reshape(*a.shape[:-1], -1, order.warp)
    while (w := a.shape[-1]) > 1:
        a = op(a[..., : w // 2], a[..., w // 2 :])
    total = a[..., 0, 0]
    for warp in range(1, a.shape[-2]):
        total = op(total, a[..., warp, 0])
    return total


def _scan_in_order(op: np.ufunc, pad, x, order: Order):
    n, warp = x.shape[-1], order.warp
    tile = order.v * order.lanes
    tiles = -(-n // tile)
    own = _padded(x, tiles * tile, pad).reshape(*x.shape[:-1], tiles, order.lanes // warp, warp, order.v)
    own = op.accumulate(own, axis=-1)  # accumulate is sequential by definition
    upto = own[..., -1].copy()
    d = 1
    while d < warp:
        upto[..., d:] = op(upto[..., :-d], upto[..., d:])
        d *= 2
    warps = op.accumulate(upto[..., -1], axis=-1)
    totals = op.accumulate(warps[..., -1], axis=-1)
    before = warps.copy()  # tiles before + warps before, where either is present
    before[..., 1:] = warps[..., :-1]
    before[..., 1:, 1:] = op(totals[..., :-1, None], warps[..., 1:, :-1])
    before[..., 1:, 0] = totals[..., :-1]
    lead = np.empty_like(upto)  # all that comes before the lane
    lead[..., 1:] = op(before[..., None], upto[..., :-1])
    lead[..., 0] = before
    lead[..., 0, 0, 1:] = upto[..., 0, 0, :-1]
    out = op(lead[..., None], own)
    out[..., 0, 0, 0, :] = own[..., 0, 0, 0, :]
    return out.reshape(*x.shape[:-1], tiles * tile)[..., :n]
