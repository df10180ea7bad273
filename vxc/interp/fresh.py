"""Memory that nothing has been stored to: how much an array takes, what it holds until then, and how much of it stays so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vxc.dtypes import I8, DType
from vxc.semantics import cast

_POISON = 0x5A


class Outputs(dict[str, np.ndarray]):
    """What a run gives: the `out` and `inout` arrays by name. `unwritten` counts the elements that it stored nothing to, of the `out`
    arrays that have some and were watched.
    """

    unwritten: Mapping[str, int]

    def __init__(self, arrays: Mapping[str, np.ndarray], written: Mapping[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self.unwritten = {name: left for name, stored in written.items() if (left := stored.size - int(np.count_nonzero(stored)))}


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last of an array, with those between that are not its own."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0


def poisoned(size: int, dtype: DType) -> np.ndarray:
    """Fresh memory that no one should read: NaN, or bytes 0x5A."""
    if dtype.is_float:
        return np.full(size, np.nan, dtype.numpy)
    raw = np.full(size * dtype.bytes, _POISON, np.int8)
    return raw.view(dtype.numpy) if dtype.bytes > 1 else cast(raw, I8, dtype)
