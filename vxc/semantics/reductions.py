"""The table of reductions, one row each, with the facts derived from it: accumulator, identity, result over nothing."""

from __future__ import annotations


import numpy as np

from vxc.dtypes import BOOL, I64, DType, signed, unsigned
from vxc.record import record


@record
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
    ("argmax",  "fiu",  "max",    "least",   -1.0,      "i64",  False,   "index of the first NaN, else first greatest, -0 equal to +0"),
    ("argmin",  "fiu",  "min",    "greatest", -1.0,     "i64",  False,   "index of the first NaN, else first least, -0 equal to +0"),
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
