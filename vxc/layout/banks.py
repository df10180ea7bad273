"""Shared memory has 32 banks of 4 bytes: how many turns an access of a warp takes.

Each phase of an access takes as many cycles as the busiest bank has different words ("Shared Memory" of compute capability 5.x in the
CUDA C++ Programming Guide, which later ones keep). A phase is 32 lanes of up to 4 bytes, 16 of 8, 8 of 16: the 128 bytes that all
banks give at once.
"""

from __future__ import annotations

import numpy as np

BANK, LINE = 4, 128  # bytes: of a bank's word; of all banks together


def nowhere(dtype: np.dtype | type) -> int:
    """The byte that a lane which does not run accesses, in arrays of this dtype."""
    return (1 << 8 * np.dtype(dtype).itemsize - 1) - 1


def far(dtype: np.dtype | type) -> int:
    """No array reaches so far, in bytes."""
    return nowhere(dtype) // 64


NOWHERE, FAR = nowhere(np.int64), far(np.int64)


def cycles(byte: np.ndarray, size: int) -> np.ndarray:
    """Cycles of each phase of accesses of `size` bytes (at most 16), `byte` their first bytes, a warp a row; 0 where no lane runs."""
    unit = max(BANK, size)
    return _busiest((byte // unit).reshape(-1, LINE // unit), LINE // unit)


def different(rows: np.ndarray) -> np.ndarray:
    """Of each row, which is sorted: where a value stands for the first time; what comes from NOWHERE does not count."""
    new = rows < far(rows.dtype)
    new[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    return new


def _busiest(words: np.ndarray, banks: int) -> np.ndarray:
    """For each row of words, the most different words that fall into one bank (word % banks, a power of two)."""
    words = np.sort(words, axis=1)
    new = different(words)
    bank = (words & banks - 1) + np.arange(len(words), dtype=words.dtype)[:, None] * banks
    return np.bincount(bank[new], minlength=len(words) * banks).reshape(-1, banks).max(axis=1)
