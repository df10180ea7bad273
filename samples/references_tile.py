"""What the tile samples compute, in float64 NumPy: `REFERENCES` by kernel or program name.

A reference takes the arrays and scalars by parameter name, all floats as float64, and gives the outputs by name. Generics that
the arrays do not show are keywords; their defaults are those of the sample's `example` line.
"""

from __future__ import annotations

import numpy as np


def gemm(a, b):
    return {"c": a @ b}


def gemm_bias_gelu(a, b, bias):
    x = a @ b + bias
    return {"c": 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))}


def batched_gemm(a, b):
    return {"c": a @ b.swapaxes(1, 2)}


def transpose_tile(x):
    return {"y": x.T}


def layernorm_tile(x, w, b, eps):
    d = x - x.mean(1, keepdims=True)
    return {"y": d / np.sqrt((d * d).mean(1, keepdims=True) + eps) * w + b}


def conv2d_im2col(x, w, KH=3, KW=3, PAD=1):
    padded = np.pad(x, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (KH, KW), (1, 2))  # [B, OH, OW, C, KH, KW]
    return {"y": patches.transpose(0, 1, 2, 4, 5, 3).reshape(-1, w.shape[0]) @ w}


def topk(x, K=5):
    index = np.argsort(-x, axis=1, kind="stable")[:, :K]
    return {"value": np.take_along_axis(x, index, 1), "index": index}


def scores(q, k, scale, CAUSAL=False):
    """[.., SQ, SK]; where CAUSAL the last query sees all keys, and each one before it one key less."""
    s = scale * (q @ k.swapaxes(-1, -2))
    seen = np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2]) if CAUSAL else np.ones(s.shape[-2:])
    return np.where(seen, s, -np.inf)


def weights(s):
    """exp(s - max), and the max, along the last axis; all 0 where the max is -inf."""
    m = s.max(-1, keepdims=True, initial=-np.inf)
    return np.exp(s - np.where(m == -np.inf, 0.0, m)), m


def attend(s, v):
    """softmax(s) @ v; 0 where every score is -inf."""
    p, _ = weights(s)
    z = p.sum(-1, keepdims=True)
    return p @ v / np.where(z == 0, 1.0, z)


def attention_flash(q, k, v, scale, CAUSAL=False):
    return {"o": attend(scores(q, k, scale, CAUSAL), v)}


def flash_splitk(q, k, v, scale, CAUSAL=False):
    return {"o": attend(scores(q, k, scale, CAUSAL), v)}


def flash_decode(q, k, v, scale):
    return {"o": attend(scores(q[:, None], k, scale), v)[:, 0]}


def flash_partial(q, k, v, scale, C=3, CAUSAL=False):
    s = scores(q, k, scale, CAUSAL)
    parts = [(weights(s[:, c::C]), v[c::C]) for c in range(C)]
    return {"po": np.stack([p @ part for (p, _), part in parts]), "pml": np.stack([_statistics(p, m) for (p, m), _ in parts])}


def decode_partial(q, k, v, scale, C=7):
    s = scores(q[:, None], k, scale)
    parts = [(weights(s[:, :, c::C]), v[:, c::C]) for c in range(C)]
    pml = [_statistics(p[:, 0], m[:, 0]) for (p, m), _ in parts]
    return {"po": np.stack([(p @ part)[:, 0] for (p, _), part in parts]), "pml": np.stack(pml)}


def _statistics(p, m):
    """The maximum of each row and the sum of its weights."""
    return np.stack([m[:, 0], p.sum(-1)], -1)


def flash_combine(po, pml):
    w, _ = weights(pml[..., 0].T)  # [SQ, C]
    z = (w * pml[..., 1].T).sum(1, keepdims=True)
    return {"o": np.einsum("qc,cqd->qd", w, po) / np.where(w.any(1, keepdims=True), z, 1.0)}


def dequant_u4(b):
    n, k, my, half = b.shape
    nibbles = np.stack([b & 15, b >> 4], -1).reshape(n, k, my, 2 * half)
    return {"w": nibbles.transpose(0, 2, 1, 3).reshape(n * my, k * 2 * half)}


_DEQUANT = ("dequant_u4_manual", "dequant_u4_parallel", "dequant_u4_copy")
_NAMED = (
    gemm, gemm_bias_gelu, batched_gemm, transpose_tile, layernorm_tile, conv2d_im2col, topk, attention_flash, flash_splitk, flash_decode,
    flash_partial, decode_partial, flash_combine,
)  # fmt: skip
REFERENCES = {f.__name__: f for f in _NAMED} | dict.fromkeys(_DEQUANT, dequant_u4)
