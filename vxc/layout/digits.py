"""Numbers as sums of digits: value[n] = value[0] + the sum over digits of (n // divisor % radix) * stride."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Digit(NamedTuple):
    """The digit n // divisor % radix of a number n, and what one of it counts for."""

    divisor: int
    radix: int
    stride: int

    def of(self, n: np.ndarray, last: bool = False) -> np.ndarray:
        """Its share in the value of n. The `last` digit is not cut off."""
        return (n // self.divisor if last else n // self.divisor % self.radix) * self.stride


def fit(values: np.ndarray) -> tuple[Digit, ...] | None:
    """The digits whose sum the values are, from `values[0]` on, lowest first; None where they are none. A digit that counts for nothing
    is there only where it is the highest.
    """
    rest, divisor, found = values - values[0], 1, []
    while len(rest) > 1:
        stride = int(rest[1])
        other = np.flatnonzero(rest != np.arange(len(rest)) * stride)
        radix = int(other[0]) if other.size else len(rest)
        missing = -len(rest) % radix
        filled = np.arange(radix - missing, radix) * stride + rest[len(rest) - radix + missing]
        block = np.concatenate([rest, filled]).reshape(-1, radix)
        if (block != block[:, :1] + np.arange(radix) * stride).any():
            return None
        rest = block[:, 0]
        if stride or len(rest) == 1 and found:
            found.append(Digit(divisor, radix, stride))
        divisor *= radix
    return tuple(found)


def total(digits: tuple[Digit, ...], n: np.ndarray) -> np.ndarray:
    """The sum of the digits of numbers, without the base; the highest digit is not cut off."""
    shares = [digit.of(n, last=digit is digits[-1]) for digit in digits]
    return sum(shares, np.zeros_like(n))
