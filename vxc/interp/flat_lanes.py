"""Sets of lanes: True (every lane), False (none), or a bool array that broadcasts over the open axes and is neither.

Keeping the two constants apart from arrays is what makes unmasked code cheap: nothing is allocated for it.
"""

from __future__ import annotations

import numpy as np

Lanes = bool | np.ndarray


def lanes(mask: np.ndarray) -> Lanes:
    """The set that a bool array names, in normal form."""
    if mask.ndim == 0:
        return bool(mask)
    count = np.count_nonzero(mask)
    if count == mask.size:
        return True
    return mask if count else False


def both(a: Lanes, b: Lanes) -> Lanes:
    if a is True or b is False:
        return b
    if b is True or a is False:
        return a
    return lanes(a & b)


def either(a: Lanes, b: Lanes) -> Lanes:
    if a is False or b is True:
        return b
    if b is False or a is True:
        return a
    return lanes(a | b)


def minus(a: Lanes, b: Lanes) -> Lanes:
    """Lanes of `a` that are not in `b`."""
    if b is False or a is False:
        return a
    if b is True:
        return False
    return both(a, ~b)


def lift(array: np.ndarray, depth: int) -> np.ndarray:
    """`array`, made when fewer axes were open, against `depth` axes: inner axes come last."""
    missing = depth - array.ndim
    return array.reshape(array.shape + (1,) * missing) if missing and array.ndim else array


def lift_lanes(set_: Lanes, depth: int) -> Lanes:
    return set_ if isinstance(set_, bool) else lift(set_, depth)
