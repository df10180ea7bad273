"""The cases as one writes them in CuPy: `sum`, `max` and `+` as they are, and where it has no such operation, kernels by
`ElementwiseKernel` and `ReductionKernel`, one after another where a row is needed more than once.

CuPy has no softmax, norm, gelu or unpacking of its own, and its copy is the driver's, which takes longer in a graph (`timing.py`).
Numbers are f32 inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
from cupy import ElementwiseKernel, ReductionKernel

Call = Callable[..., Any]

_copy = ElementwiseKernel("T x", "T y", "y = x", "copied")
_bias_gelu = ElementwiseKernel(
    "T x, T b", "T y", "float u = (float)x + (float)b; y = u / (1.0f + expf(-1.5957691f * (u + 0.044715f * u * u * u)))", "bias_gelu"
)
_dot = ReductionKernel("T x, T y", "float32 z", "(float)x * (float)y", "a + b", "z = a", "0", "dotted", reduce_type="float")
_exponentials = ReductionKernel(
    "T x, T m", "float32 z", "expf((float)x - (float)m)", "a + b", "z = a", "0", "exponentials", reduce_type="float"
)
_share = ElementwiseKernel("T x, T m, float32 z", "T y", "y = expf((float)x - (float)m) / z", "share")
_squares = ReductionKernel(
    "T x, float32 m", "float32 z", "((float)x - m) * ((float)x - m)", "a + b", "z = a", "0", "squares", reduce_type="float"
)
_scaled = ElementwiseKernel(
    "T x, float32 z, T w, float32 length, float32 eps", "T y", "y = (float)x * rsqrtf(z / length + eps) * (float)w", "scaled"
)
_normal = ElementwiseKernel(
    "T x, float32 m, float32 z, T w, T b, float32 length, float32 eps",
    "T y",
    "y = ((float)x - m) * rsqrtf(z / length + eps) * (float)w + (float)b",
    "normal",
)
_unpacked = ElementwiseKernel(
    "raw uint8 b, int32 columns, int32 my, int32 part",
    "float16 w",
    """
    int row = i / columns, column = i % columns, tile = row / my * (columns / (2 * part)) + column / (2 * part);
    w = (float)(b[(tile * my + row % my) * part + column % (2 * part) / 2] >> (column % 2 * 4) & 15);
    """,
    "unpacked",
)


def softmax(x: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    return _share(x, m, _exponentials(x, m, axis=1, keepdims=True))


def dequant_u4(b: Any) -> Any:
    """u8[N//my, K//mk, my, mk//2] to f16[N, K]."""
    n, k, my, half = b.shape
    w = cupy.empty((n * my, k * 2 * half), cupy.float16)
    return _unpacked(b, w.shape[1], my, half, w)


def kernels(eps: float) -> dict[str, Call]:
    """By sample."""

    def rmsnorm(x: Any, w: Any) -> Any:
        return _scaled(x, _dot(x, x, axis=1, keepdims=True), w, x.shape[1], eps)

    def layernorm(x: Any, w: Any, b: Any) -> Any:
        m = x.mean(axis=1, dtype=cupy.float32, keepdims=True)
        return _normal(x, m, _squares(x, m, axis=1, keepdims=True), w, b, x.shape[1], eps)

    return {
        "rowdot": lambda q, k: _dot(q, k, axis=1), "rowsum": lambda x: x.sum(axis=1), "rowmax": lambda x: x.max(axis=1),
        "colsum": lambda x: x.sum(axis=0),
        "softmax": softmax, "rmsnorm": rmsnorm, "layernorm": layernorm, "sum": lambda x: x.sum().reshape(1), "copy": _copy,
        "add": lambda x, y: x + y, "bias_gelu": _bias_gelu, "transpose": lambda x: cupy.ascontiguousarray(x.T),
        "dequant_u4_manual": dequant_u4, "dequant_u4_parallel": dequant_u4, "dequant_u4_copy": dequant_u4,
    }  # fmt: skip
