"""Scans: inclusive prefix sums, products, maxima and minima along the last axis, bit for bit as lanes, warps and tiles give them."""

from __future__ import annotations

import numpy as np

from vxc.dtypes import DType
from vxc.semantics.floats import from_key, order_key
from vxc.semantics.order import Order
from vxc.semantics.reduce import UFUNCS, padded
from vxc.semantics.reductions import SCANS, accumulator, identity


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
        op = UFUNCS[SCANS[name].combine]
        if not dtype.is_float:
            return op.accumulate(x, axis=-1, dtype=wide.numpy)
        if not SCANS[name].ordered:
            return from_key(op.accumulate(order_key(x, nan_high=name == "max"), axis=-1), dtype.numpy)
        return _scan_in_order(op, identity(name, dtype), x, order)


def _scan_in_order(op: np.ufunc, pad, x, order: Order):
    n, warp = x.shape[-1], order.warp
    tile = order.v * order.lanes
    tiles = -(-n // tile)
    own = padded(x, tiles * tile, pad).reshape(*x.shape[:-1], tiles, order.lanes // warp, warp, order.v)
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
