"""Elementary functions in f64 (f32 arguments are widened, the result rounded once), accurate into the tails.

NumPy has no erf: it is summed as a Taylor series around the nearest multiple of 1/64, where `math` gives its value.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from vxc.semantics.floats import two_product, two_sum

_STEPS = 64  # nodes per unit: |d| <= 1/128
_LAST = 27.25  # erfc is below half the least f64 from here on
_BLOCK = 1 << 15  # elements at a time, so that the series stays in cache
_ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # sqrt(1/2) = high + low
_GELU_A = (1.5957691216057308, -9.96930880911092e-17)  # 2 sqrt(2/pi)
_GELU_B = (0.07135481627260025, -6.175149918155315e-19)  # 0.044715 * 2 sqrt(2/pi)


@cache
def _nodes():
    """erf, erfc and 2/sqrt(pi) exp(-x^2) at k/64."""
    x = [k / _STEPS for k in range(int(_LAST * _STEPS) + 1)]
    slope = [2 / math.sqrt(math.pi) * math.exp(-v * v) for v in x]
    return np.array([math.erf(v) for v in x]), np.array([math.erfc(v) for v in x]), np.array(slope)


def _integral(x0, d):
    """The integral of exp(x0^2 - t^2) over t from x0 to x0 + d: the terms b_n = a_n d^n of the integrand obey a short recurrence."""
    before, term, total = np.zeros_like(d), np.ones_like(d), np.ones_like(d)
    x0d, dd = x0 * d, d * d
    for n in range(1, 14):
        before, term = term, (x0d * term + dd * before) * (-2.0 / n)
        total = total + term * (1.0 / (n + 1))
    return d * total


def _from_nodes(x, low, last, value):
    """value(k, integral) at x + low (x >= 0), x cut at `last`."""
    out = np.empty_like(x)
    for i in range(0, x.size, _BLOCK):
        part = np.minimum(x[i : i + _BLOCK], last)
        k = np.rint(np.where(np.isnan(part), 0.0, part) * _STEPS).astype(np.int64)
        out[i : i + _BLOCK] = value(k, _integral(k / _STEPS, (part - k / _STEPS) + low[i : i + _BLOCK]))
    return out


def _erf(x):
    values, _, slope = _nodes()
    flat = np.abs(x).reshape(-1)
    y = _from_nodes(flat, np.zeros_like(flat), 6.0, lambda k, integral: values[k] + slope[k] * integral)
    return np.copysign(y.reshape(x.shape), x)


def _erfc(x, low):
    """erfc(x + low) for x >= 0."""
    _, values, slope = _nodes()
    y = _from_nodes(x.reshape(-1), low.reshape(-1), _LAST, lambda k, integral: values[k] - slope[k] * integral)
    return y.reshape(x.shape)


def _logistic_times(w, x, low):
    """w / (1 + exp(-x - low)); the half exponent joins w first, so that a tiny factor is not rounded as a subnormal."""
    half = np.exp(-0.5 * np.abs(x))
    half = half - half * np.copysign(0.5, x) * low
    e = half * half
    return np.where(x < 0, (w * half / (1.0 + e)) * half, w / (1.0 + e))


def _sigmoid(x):
    return _logistic_times(1.0, x, 0.0)


def _silu(x):
    x = np.maximum(x, -2e3)  # so that -inf gives the limit
    return _logistic_times(x, x, 0.0)


def _gelu(x):
    x = np.maximum(x, -1e3)
    size = np.minimum(np.abs(x), 1e3)
    high, low = two_product(size, np.float64(_ROOT_HALF[0]))
    tail = 0.5 * _erfc(high, low + size * _ROOT_HALF[1])
    return x * np.where(x < 0, tail, 1.0 - tail)


def _gelu_tanh(x):
    x = np.maximum(x, -1e3)
    z = np.minimum(x, 1e3)
    square, square_low = two_product(z, z)
    cubic, cubic_low = two_product(square, np.float64(_GELU_B[0]))
    factor, factor_low = two_sum(np.float64(_GELU_A[0]), cubic)
    factor_low = factor_low + cubic_low + square_low * _GELU_B[0] + square * _GELU_B[1] + _GELU_A[1]
    high, low = two_product(z, factor)
    return _logistic_times(x, high, low + z * factor_low)


_F64 = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "pow": np.power,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}


def _rounded_once(f):
    return lambda *args: np.asarray(f(*(a.astype(np.float64) for a in args))).astype(args[0].dtype)


ELEMENTARY = {name: _rounded_once(f) for name, f in _F64.items()}
