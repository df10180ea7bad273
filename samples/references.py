"""What the samples compute, in float64 NumPy: `REFERENCES` by kernel name. Nothing of the compiler is used.

A reference takes the arrays and scalars of a call by parameter name, floats as float64, and gives the outputs by name.

How near an output must come (`mismatch`): integers are equal. A float may be off by half a unit in the last place of its own
dtype, for the one rounding at the store, and by 2^-18 of the greatest finite magnitude of the output, for what 32 f32 units
in the last place of sums and elementary functions leave. NaN meets NaN, and what is beyond the dtype's range meets infinity.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import references_tile

COMPUTED = 2.0**-18  # of the output's greatest magnitude: the error of a computation in f32
HALF_ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}


def saxpy(a, x, y):
    return {"y": a * x + y}


def copy(x):
    return {"y": x}


def add(x, y):
    return {"z": x + y}


def bias_gelu(x, b):
    u = x + b
    return {"y": 0.5 * u * (1.0 + np.tanh(sqrt(2.0 / np.pi) * (u + 0.044715 * u**3)))}


def transpose(x):
    return {"y": x.T}


def rowdot(q, k):
    return {"s": (q * k).sum(1)}


def rowsum(x):
    return {"s": x.sum(1)}


def sum_all(x):
    return {"s": x.sum(keepdims=True)}


def rowmax(x):
    return {"s": x.max(1, initial=-np.inf)}


def colsum(x):
    return {"s": x.sum(0)}


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return {"y": e / e.sum(1, keepdims=True)}


def rmsnorm(x, w, eps):
    return {"y": x / np.sqrt((x * x).sum(1, keepdims=True) / x.shape[1] + eps) * w}


def layernorm(x, w, b, eps):
    d = x - x.sum(1, keepdims=True) / x.shape[1]
    return {"y": d / np.sqrt((d * d).sum(1, keepdims=True) / x.shape[1] + eps) * w + b}


def logsumexp(x):
    m = x.max(1, keepdims=True, initial=-np.inf)
    s = np.exp(x - np.where(m == -np.inf, 0.0, m)).sum(1)
    return {"y": np.where(m[:, 0] == -np.inf, -np.inf, m[:, 0] + np.log(s))}


def cross_entropy(logits, label):
    chosen = logits[np.arange(len(label)), label]
    return {"loss": logsumexp(logits)["y"] - chosen}


def argmax_rows(x):
    at = x.argmax(1) if x.size else np.zeros(len(x), np.int64)
    return {"at": at, "best": x[np.arange(len(x)), at]}


def histogram(x, count):
    inside = x[(x >= 0) & (x < len(count))]
    return {"count": count + np.bincount(inside, minlength=len(count))}


def cumsum_rows(x):
    return {"y": x.cumsum(1)}


def gemv(alpha, a, x, beta, y):
    return {"y": alpha * (a @ x) + beta * y}


def gather(table, index):
    return {"y": table[index]}


def scatter(grad, index, table):
    table = table.copy()
    np.add.at(table, index, grad)
    return {"table": table}


def stencil2d(x, k):
    y = x.copy()
    inner = x[1:-1, 1:-1]
    y[1:-1, 1:-1] += k * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4.0 * inner)
    return {"y": y}


def conv1d(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, len(w), axis=1)
    return {"y": windows @ w}


def attention_naive(q, k, v, scale):
    s = scale * (q @ k.T)
    e = np.exp(s - s.max(1, keepdims=True, initial=-np.inf))
    return {"o": e @ v / e.sum(1, keepdims=True)}


def momentum(g, lr, decay, v, w):
    v = decay * v + g
    return {"v": v, "w": w - lr * v}


def swiglu(x, g):
    h = g / (1.0 + np.exp(-g))
    return {"h": h, "y": h * x}


def row_stats(x):
    mean = x.sum(1) / x.shape[1]
    return {"mean": mean, "variance": ((x - mean[:, None]) ** 2).sum(1) / x.shape[1]}


def dropout(x, p, seed):
    keep = philox(seed, np.arange(x.size, dtype=np.uint64).reshape(x.shape)) >= p
    return {"y": np.where(keep, x / (1.0 - p), 0.0)}


def philox(seed, offset):
    """Uniform in [0, 1) from Philox4x32-10 (Salmon and others, SC 2011) with key `seed` and counter `offset`: the top 24 bits of word 0."""
    low = np.uint64(0xFFFFFFFF)
    words = [offset & low, offset >> np.uint64(32), np.zeros_like(offset), np.zeros_like(offset)]
    key = [seed % 2**32, seed % 2**64 >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [b >> np.uint64(32) ^ words[1] ^ np.uint64(key[0]), b & low, a >> np.uint64(32) ^ words[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return (words[0] >> np.uint64(8)) * 2.0**-24


_ALL = (
    saxpy, copy, add, bias_gelu, transpose, rowdot, rowsum, sum_all, rowmax, colsum, softmax, rmsnorm, layernorm, logsumexp, cross_entropy,
    argmax_rows, histogram, cumsum_rows, gemv, gather, scatter, stencil2d, conv1d, attention_naive, dropout,
    momentum, swiglu, row_stats,
)  # fmt: skip
REFERENCES = {f.__name__: f for f in _ALL} | references_tile.REFERENCES


def reference(name, arguments):
    """The outputs of kernel `name` for these arguments."""
    with np.errstate(all="ignore"):
        return REFERENCES[name](**{key: _wide(value) for key, value in arguments.items()})


def _wide(value):
    """Floats as float64, of the value that an f32 scalar parameter takes; the rest as it is."""
    if isinstance(value, float):
        return float(np.float32(value))
    is_float = getattr(value, "dtype", None) is not None and value.dtype.name in HALF_ULP
    return value.astype(np.float64) if is_float else value


def mismatch(name, output, want, got):
    """What is wrong with an output, or "": see the module's docstring."""
    if got.shape != want.shape:
        return f"{name}: `{output}` has shape {got.shape}, expected {want.shape}"
    if got.dtype.name not in HALF_ULP:
        off = np.asarray(got != want)
    else:
        have, largest = got.astype(np.float64), LARGEST[got.dtype.name]
        want = np.where(np.abs(want) > largest * (1 + HALF_ULP[got.dtype.name]), np.copysign(np.inf, want), want)
        scale = np.abs(want, where=np.isfinite(want), out=np.zeros(want.shape)).max(initial=0.0)
        with np.errstate(invalid="ignore"):
            near = np.abs(have - want) <= HALF_ULP[got.dtype.name] * np.abs(want) + COMPUTED * scale
        off = ~(near | (have == want) | (np.isnan(have) & np.isnan(want)))
    if not off.any():
        return ""
    at = tuple(map(int, np.argwhere(off)[0]))
    return f"{name}: `{output}`{list(at)} is {got[at]}, expected {want[at]} ({int(off.sum())} of {off.size} differ)"
