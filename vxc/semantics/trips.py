"""The number of iterations of a range, whatever its ends."""

from __future__ import annotations

import numpy as np


def trip_counts(start, stop, step) -> np.ndarray:
    """Iterations of start, start + step .. before stop, whatever the sign of the step; none where stop is not ahead or the step is 0.

    Up to 2^63 - 1; what lies apart more than an i64 holds is told apart as a u64.
    """
    start, stop, step = (np.asarray(x, np.int64) for x in (start, stop, step))
    ahead = np.where(step > 0, start < stop, (step < 0) & (start > stop))
    low, high = (np.where(step > 0, *ends).view(np.uint64) for ends in ((start, stop), (stop, start)))
    stride = np.maximum(np.where(step > 0, step.view(np.uint64), np.uint64(0) - step.view(np.uint64)), np.uint64(1))
    apart = high - low
    trips = apart // stride + (apart % stride != 0).astype(np.uint64)
    return np.where(ahead, np.minimum(trips, np.uint64(2**63 - 1)), np.uint64(0)).astype(np.int64)
