"""Numbers as sums of digits: value[n] = value[0] + the sum over digits of (n // divisor % radix) * stride. Or with `^` for each `+`: the
digits of what swizzles exchange, which count single bits or bits side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Join(NamedTuple):
    """How shares make a value: `into` puts one to the others, `out` takes it away again."""

    into: np.ufunc
    out: np.ufunc


SUM, EXCLUSIVE = Join(np.add, np.subtract), Join(np.bitwise_xor, np.bitwise_xor)


class Digit(NamedTuple):
    """The digit n // divisor % radix of a number n, and what one of it counts for."""

    divisor: int
    radix: int
    stride: int

    def of(self, n: np.ndarray, last: bool = False) -> np.ndarray:
        """Its share in the value of n. The `last` digit is not cut off."""
        return (n // self.divisor if last else n // self.divisor % self.radix) * self.stride


def fit(values: np.ndarray, join: Join = SUM) -> tuple[Digit, ...] | None:
    """The digits that make the values, from `values[0]` on, lowest first; None where they are none. A digit that counts for nothing is
    there only where it is the highest.
    """
    rest, divisor, found = join.out(values, values[0]), 1, []
    while len(rest) > 1:
        stride = int(rest[1])
        steps = np.arange(len(rest)) * stride
        radix = int((rest != steps).argmax()) or len(rest)
        if join is EXCLUSIVE and radix < len(rest):
            radix = 1 << radix.bit_length() - 1
        missing = -len(rest) % radix
        if missing:
            rest = np.concatenate([rest, join.into(steps[radix - missing : radix], rest[len(rest) - radix + missing])])
        block = rest.reshape(-1, radix)
        if len(block) > 1 and (block != join.into(block[:, :1], steps[:radix])).any():
            return None
        rest = block[:, 0]
        if stride or len(rest) == 1 and found:
            found.append(Digit(divisor, radix, stride))
        divisor *= radix
    return tuple(found)


def total(digits: tuple[Digit, ...], n: np.ndarray, join: Join = SUM) -> np.ndarray:
    """What the digits of numbers make, without the base; the highest digit is not cut off."""
    made = np.zeros_like(n)
    for digit in digits:
        made = join.into(made, digit.of(n, last=digit is digits[-1]))
    return made
