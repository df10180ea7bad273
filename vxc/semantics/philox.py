"""Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""

from __future__ import annotations

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: tuple, key: tuple) -> tuple:
    """Ten rounds on a counter of four and a key of two 32-bit words, each held in a uint64 array; four words back."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p, q = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (q >> _32) ^ c1 ^ k0, q & _LOW, (p >> _32) ^ c3 ^ k1, p & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def rand(seed, offset):
    """f32 in [0, 1) from two i64 arrays: key = seed (low, high), counter = (offset low, high, 0, 0), word 0, top 24 bits."""
    seed, offset = np.broadcast_arrays(seed.view(np.uint64), offset.view(np.uint64))
    zero = np.zeros_like(seed)
    word = philox((offset & _LOW, offset >> _32, zero, zero), (seed & _LOW, seed >> _32))[0]
    return (word >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
