"""Memory that nothing has been stored to: how much an array takes, and what it holds until then."""

from __future__ import annotations

import numpy as np

from vxc.dtypes import I8, DType
from vxc.semantics import cast

_POISON = 0x5A


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last of an array, with those between that are not its own."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0


def poisoned(size: int, dtype: DType) -> np.ndarray:
    """Fresh memory that no one should read: NaN, or bytes 0x5A."""
    if dtype.is_float:
        return np.full(size, np.nan, dtype.numpy)
    raw = np.full(size * dtype.bytes, _POISON, np.int8)
    return raw.view(dtype.numpy) if dtype.bytes > 1 else cast(raw, I8, dtype)
