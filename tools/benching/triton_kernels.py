"""Kernels as one writes them in Triton: a row or a tile to a program, masks at the edges, nothing tuned but the number of warps."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

LONGEST = 16384  # elements of a row that one program holds
PARTS = 128  # programs that share a longer row


@triton.jit
def _copy(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count), mask=at < count)


@triton.jit
def _softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def _rowsum(x, s, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (at[None, :] < columns)
    values = tl.load(x + row[:, None] * columns + at[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(s + row, tl.sum(values, axis=1), mask=row < rows)


@triton.jit
def _bias_gelu(x, b, y, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    u = tl.load(x + at, mask=inside).to(tl.float32) + tl.load(b + at % columns, mask=inside).to(tl.float32)
    tl.store(y + at, 0.5 * u * (1.0 + libdevice.tanh(0.7978845608028654 * (u + 0.044715 * u * u * u))), mask=inside)


@triton.jit
def _transpose(x, y, rows, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=(row[:, None] < rows) & (column[None, :] < columns))
    tl.store(y + column[:, None] * rows + row[None, :], tl.trans(tile), mask=(column[:, None] < columns) & (row[None, :] < rows))


def copy(x: torch.Tensor) -> torch.Tensor:
    """16 bytes of f32 to a thread."""
    y = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024, num_warps=8)
    return y


def softmax(x: torch.Tensor) -> torch.Tensor:
    y, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=block, num_warps=_warps(block))
    return y


def rowsum(x: torch.Tensor) -> torch.Tensor:
    """Rows longer than LONGEST are cut into PARTS, whose sums are added by a second launch."""
    if x.shape[1] > LONGEST:
        return rowsum(rowsum(x.view(x.shape[0] * PARTS, -1)).view(x.shape[0], PARTS))
    s, block = torch.empty(x.shape[0], device=x.device), triton.next_power_of_2(x.shape[1])
    rows = max(1, 4096 // block)
    _rowsum[(triton.cdiv(x.shape[0], rows),)](x, s, *x.shape, ROWS=rows, BLOCK=block, num_warps=_warps(rows * block))
    return s


def bias_gelu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _bias_gelu[(triton.cdiv(x.numel(), 1024),)](x, b, y, x.numel(), x.shape[1], BLOCK=1024)
    return y


def transpose(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape[::-1], dtype=x.dtype, device=x.device)
    _transpose[(triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))](x, y, *x.shape, TILE=64)
    return y


def _warps(elements: int) -> int:
    """16 elements to a thread, in 4 to 16 warps."""
    return min(16, max(4, elements // 512))


KERNELS: dict[str, Any] = {"softmax": softmax, "rowsum": rowsum, "bias_gelu": bias_gelu, "transpose": transpose}
