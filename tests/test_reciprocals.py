"""A quotient from a reciprocal and two fma (share-reciprocals) is the rounded quotient, in the cases that bounds on errors leave open.

Let a = A / 2**23 and b = B / 2**23 in [1, 2), r = 1/b and q = a * r rounded, e = a - q * b rounded. |r - 1/b| <= 2**-25.
For a >= b, a/b is in [1, 2) and q within 2**-23 of it; e is exact, and q + e * r within b * 2**-48 of a/b. For a < b, a/b is in
[1/2, 1), q within 3 * 2**-25 of it, e off by at most 2**-47, and q + e * r within 3 * 2**-49 + 2**-47 / b of a/b, and a trifle.
The middle of two floats is M / 2**s, M odd, s = 24 or 25: it lies |k| / b * 2**(-23 - s) from a/b, where k = A * 2**s - M * B. So q + e * r
may lie on the other side of it only for |k| < 2, or 6. Those cases can be listed; scaling by powers of two changes nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import output
from vxc.dtypes import F32
from vxc.passes.share_reciprocals import DIVISORS, QUOTIENTS
from vxc.semantics import evaluate

EVERY = 61  # one significand of so many is tried as divisor
NEAR = 8
NUMPY = {"f16": np.float16, "f32": np.float32}
LOW, HIGH = 1 << 23, 1 << 24


def near(odd: np.ndarray, twos: int, k: int, s: int) -> tuple[np.ndarray, np.ndarray]:
    """All (A, B) with A * 2**s = M * B + k, M odd, B = odd * 2**twos: M is -k / B modulo 2**s, up to multiples of 2**(s - twos)."""
    inverse = odd.copy()
    for _ in range(5):
        inverse *= 2 - odd * inverse
    least = (-(k >> twos) * inverse) & ((1 << (s - twos)) - 1)
    M = np.concatenate([least + step for step in range(0, 1 << 25, 1 << (s - twos))])
    B = np.resize(odd << twos, M.size)
    A = (M * B + k) >> s
    fits = (M & 1 == 1) & (M >= 1 << 24) & (A >= LOW) & (A < HIGH) & ((A >= B) == (s == 24))
    return A[fits], B[fits]


def corrected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the instructions of the pass give."""
    r = evaluate("div", F32, np.ones_like(b), b)
    q = evaluate("mul", F32, a, r)
    return evaluate("fma", F32, evaluate("fma", F32, evaluate("neg", F32, q), b, a), r, q)


@pytest.mark.parametrize("s", [24, 25])
@pytest.mark.parametrize("twos", range(4))  # as many as k has, or M would be even
def test_quotients_next_to_the_middle_of_two_floats(s, twos):
    odd = np.arange((LOW >> twos) | 1, HIGH >> twos, 2 * EVERY, dtype=np.int64)
    tried = 0
    for k in range(-NEAR, NEAR + 1):
        if k and k % (2 << twos) == 1 << twos:
            A, B = near(odd, twos, k, s)
            assert (A << s == ((A << s) - k) // B * B + k).all()
            a, b = A.astype(np.float32), B.astype(np.float32)
            assert (corrected(a, b) == a / b).all()
            tried += len(A)
    assert tried > 1000


def test_at_the_ends_of_the_range():
    """Where the divisor and the first quotient are as small or large as they may be."""
    rng = np.random.default_rng(7)
    significands = (1 + rng.integers(0, 1 << 23, (4, 20000)) / (1 << 23)).astype(np.float32)
    for a, b, z in zip(significands, np.roll(significands, 1, 0), (DIVISORS[0], DIVISORS[0], DIVISORS[1] / 2, DIVISORS[1] / 2)):
        for q in (QUOTIENTS[0] * 2, QUOTIENTS[1] / 2):
            dividend, divisor = a * np.float32(q) * np.float32(z), b * np.float32(z)
            assert (corrected(dividend, divisor) == dividend / divisor).all()


def as_f16(x: np.ndarray) -> np.ndarray:
    """The bits of values rounded to f16."""
    return x.astype(np.float16).view(np.uint16)


@pytest.mark.parametrize("sign", [1, -1])
def test_quotients_below_the_range_round_to_the_same_zero_in_f16(sign):
    """For dividends of the sign of +0, which the pass may leave untested: from 0 over subnormals to the end of the range."""
    rng = np.random.default_rng(8)
    twos = np.array([2.0**k for k in range(-24, 24)], np.float32)
    divisors = np.float32(sign) * np.concatenate([twos, twos * rng.uniform(1, 2, twos.size).astype(np.float32), np.float32(DIVISORS[1:])])
    least = np.arange(300, dtype=np.uint32).view(np.float32)
    bits = rng.integers(0, np.float32(QUOTIENTS[0] * DIVISORS[1]).view(np.uint32), 20000, dtype=np.uint32)
    for z in divisors:
        for a in (least, bits.view(np.float32)):
            b = np.full_like(a, z)
            assert (as_f16(corrected(a, b)) == as_f16(a / b)).all()


@pytest.mark.parametrize("z", [3.0, -7e-5, 5e-8, -2e-8, 1e-39, 3e7, 1e38, 0.0, -0.0, np.inf, np.nan])
def test_any_divisor(z):
    """Dividends of all sizes, signs and kinds, eight beside one another."""
    rng = np.random.default_rng(11)
    x = (rng.standard_normal(4096) * 10.0 ** rng.uniform(-44, 38, 4096)).astype(np.float32)
    x[: 8 * 16] = rng.standard_normal(8 * 16)
    x[1000:1006] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45]
    x[8:12] = [0.0, -0.0, 1e-45, -1e-40]  # beside usual ones
    text = "kernel k(x: f32[4096], z: f32, out y: {}[4096]) {{ parallel i in 4096 {{ y[i] = {} / z; }} }}"
    with np.errstate(all="ignore"):
        for dividend, dtype, a in (("x[i]", "f32", x), ("x[i]", "f16", x), ("abs(x[i])", "f16", np.abs(x))):
            y, right = output(text.format(dtype, dividend), binary=False, x=x, z=z), (a / np.float32(z)).astype(NUMPY[dtype])
            assert np.array_equal(y, right, equal_nan=True)
            assert (np.signbit(y) == np.signbit(right))[~np.isnan(right)].all()


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("n", ["40", "N"])
def test_summands_over_their_sum(n, dtype):
    """Of which the sum alone is tested, where they become f16: in the range, on its ends, beyond both, 0, infinite, no number."""
    text = f"kernel k(x: f32[M, {n}], out y: {dtype}[M, {n}]) {{ parallel i in M {{ let z = sum(exp(x[i])); y[i] = exp(x[i]) / z; }} }}"
    spread = np.random.default_rng(1).standard_normal((1, 40))
    rows = [spread * scale + shift for scale in (0.0, 1.0, 30.0) for shift in (-300.0, -110.0, -95.0, -20.3, -3.0, 0.0, 13.0, 20.0, 80.0)]
    x = np.concatenate([*rows, np.resize([1.0, np.inf], (1, 40)), np.resize([np.nan, 1.0], (1, 40)), np.full((1, 40), -np.inf)])
    got = output(text, binary=False, x=x.astype(np.float32))
    assert np.isnan(got[-3:]).any(axis=1).all()
