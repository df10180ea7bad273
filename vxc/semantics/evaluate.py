"""`evaluate`: the meaning of every scalar operation as NumPy, total over the table (checked at import)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vxc.dtypes import BOOL, DType
from vxc.semantics.elementary import ELEMENTARY
from vxc.semantics.floats import FLOAT
from vxc.semantics.ints import BOOL as BOOL_OPS
from vxc.semantics.ints import INT
from vxc.semantics.philox import rand
from vxc.semantics.table import SCALAR_OPS

_UNSIGNED = {**INT, "abs": np.positive}
_IMPLEMENTATIONS = {"f": FLOAT | ELEMENTARY, "i": {**INT, "rand": rand}, "u": _UNSIGNED, "b": BOOL_OPS}
for _kind, _functions in _IMPLEMENTATIONS.items():
    assert set(_functions) == {op.name for op in SCALAR_OPS.values() if _kind in op.kinds}, _kind


def evaluate(name: str, dtype: DType, *args) -> np.ndarray:
    """Apply scalar operation `name` to arrays (or scalars) of the compute dtype, broadcasting; never warns.

    The result has dtype `result_dtype(name, dtype)`. For `select` the first argument is bool and `dtype` that of the others.
    """
    dtypes = [dtype] * len(args)
    if name == "select":
        dtypes[0] = BOOL
    arrays = [np.asarray(a, d.numpy) for a, d in zip(args, dtypes, strict=True)]
    with np.errstate(all="ignore"):
        return np.asarray(numpy_function(name, dtype)(*arrays))


def numpy_function(name: str, dtype: DType) -> Callable[..., np.ndarray]:
    """What `evaluate` applies to arrays of exactly the dtypes it says; may warn, and may give a NumPy scalar."""
    return _IMPLEMENTATIONS[dtype.kind][name]
