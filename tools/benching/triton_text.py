"""Kernels as one writes them in Triton: a row or a tile to a program, masks at the edges, and a few configurations, tried by
`triton.autotune` at the first call of each case, on its arrays.

Numbers are f32 inside. Sizes and strides are of the arrays: x[rows, columns] in row-major order. `triton_kernels.py` launches them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import triton
import triton.language as tl
from triton.testing import do_bench


def _tuned(configs: list[triton.Config], keep: Callable[..., bool] | None = None) -> Callable[[Any], Any]:
    """Tries the configurations that `keep` keeps, of what the kernel and the configuration are given by name, anew for other sizes."""

    def kept(all_configs: list[triton.Config], named: dict[str, Any], **given: Any) -> list[triton.Config]:
        return [c for c in all_configs if keep is None or keep(warps=c.num_warps, **given, **c.kwargs)]

    def decorate(kernel: Any) -> Any:
        sizes = [name for name in kernel.arg_names if name in ("count", "rows", "columns")]
        clock = partial(do_bench, warmup=2, rep=8)
        return triton.autotune(configs, sizes, prune_configs_by={"early_config_prune": kept}, do_bench=clock)(kernel)

    return decorate


def _configs(names: str, *rows: tuple[int, ...]) -> list[triton.Config]:
    """A configuration a row: the values of the names, and last the number of warps."""
    return [triton.Config(dict(zip(names.split(), values)), num_warps=warps) for *values, warps in rows]


# Elements in any order.
_flat = _tuned(_configs("BLOCK", (1024, 4), (1024, 8), (2048, 8), (4096, 8)))
# Whole rows: 4 to 64 elements to a thread.
_whole = _tuned(
    _configs("ROWS", (1, 2), (1, 4), (1, 8), (1, 16), (4, 4)), lambda warps, ROWS, BLOCK, **_: 4 <= ROWS * BLOCK // (32 * warps) <= 64
)
# Sums along rows: SIZE elements at a time, up to WIDTH of a row.
_along = _tuned(
    _configs("SIZE WIDTH", (2048, 2048, 4), (2048, 2048, 16), (4096, 1024, 4), (4096, 4096, 4), (4096, 4096, 8), (8192, 8192, 8))
)
# Sums along columns: a tile at a time.
_down = _tuned(_configs("ROWS COLUMNS", (32, 32, 4), (64, 32, 8), (128, 8, 4), (32, 64, 8), (16, 128, 4), (64, 64, 8)))
_tiles = _tuned(_configs("ROWS COLUMNS", (32, 64, 4), (64, 32, 4), (64, 64, 4), (64, 64, 8), (128, 64, 8)))
_packed = _tuned(_configs("BYTES", (128, 4), (256, 4), (256, 8), (512, 8)))


@triton.jit
def copy(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count), mask=at < count)


@_flat
@triton.jit
def add(x, y, z, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@_flat
@triton.jit
def bias_gelu(x, b, y, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    u = tl.load(x + at, mask=inside).to(tl.float32) + tl.load(b + at % columns, mask=inside).to(tl.float32)
    tl.store(y + at, u * tl.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u)), mask=inside)


@triton.jit
def softmax(x, y, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at, inside = _places(rows, columns, ROWS, BLOCK)
    values = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(values - tl.max(values, axis=1, keep_dims=True))
    tl.store(y + at, e / tl.sum(e, axis=1, keep_dims=True), mask=inside)


@_whole
@triton.jit
def rmsnorm(x, w, y, rows, columns, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at, inside = _places(rows, columns, ROWS, BLOCK)
    column = tl.arange(0, BLOCK)[None, :]
    values = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=1, keep_dims=True) / columns + eps)
    weights = tl.load(w + column, mask=column < columns).to(tl.float32)
    tl.store(y + at, values * scale * weights, mask=inside)


@_whole
@triton.jit
def layernorm(x, w, b, y, rows, columns, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at, inside = _places(rows, columns, ROWS, BLOCK)
    column = tl.arange(0, BLOCK)[None, :]
    values = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    apart = tl.where(column < columns, values - tl.sum(values, axis=1, keep_dims=True) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, axis=1, keep_dims=True) / columns + eps)
    weights, bias = tl.load(w + column, mask=column < columns), tl.load(b + column, mask=column < columns)
    tl.store(y + at, apart * scale * weights.to(tl.float32) + bias.to(tl.float32), mask=inside)


@triton.jit
def _places(rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Where the elements of the program's rows are, and which there are."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    return row * columns + column, (row < rows) & (column < columns)


@_along
@triton.jit
def rowsum(x, s, rows, columns, PADDED: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    BLOCK: tl.constexpr = WIDTH if WIDTH < PADDED else PADDED
    row = tl.program_id(0).to(tl.int64) * (SIZE // BLOCK) + tl.arange(0, SIZE // BLOCK)
    sums = tl.zeros((SIZE // BLOCK, BLOCK), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        sums += tl.load(x + row[:, None] * columns + column, mask=(row[:, None] < rows) & (column < columns), other=0.0).to(tl.float32)
    tl.store(s + row, tl.sum(sums, axis=1), mask=row < rows)


@_along
@triton.jit
def rowmax(x, s, rows, columns, PADDED: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    BLOCK: tl.constexpr = WIDTH if WIDTH < PADDED else PADDED
    row = tl.program_id(0).to(tl.int64) * (SIZE // BLOCK) + tl.arange(0, SIZE // BLOCK)
    most = tl.full((SIZE // BLOCK, BLOCK), -float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        inside = (row[:, None] < rows) & (column < columns)
        most = tl.maximum(most, tl.load(x + row[:, None] * columns + column, mask=inside, other=-float("inf")).to(tl.float32))
    tl.store(s + row, tl.max(most, axis=1), mask=row < rows)


@_along
@triton.jit
def rowdot(q, k, s, rows, columns, PADDED: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    BLOCK: tl.constexpr = WIDTH if WIDTH < PADDED else PADDED
    row = tl.program_id(0).to(tl.int64) * (SIZE // BLOCK) + tl.arange(0, SIZE // BLOCK)
    sums = tl.zeros((SIZE // BLOCK, BLOCK), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        at, inside = row[:, None] * columns + column, (row[:, None] < rows) & (column < columns)
        sums += tl.load(q + at, mask=inside, other=0.0).to(tl.float32) * tl.load(k + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(s + row, tl.sum(sums, axis=1), mask=row < rows)


@_down
@triton.jit
def colsum(x, s, rows, columns, part, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of `part` rows at a time: s[parts, columns]."""
    column, first = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :], tl.program_id(1) * part
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, part, ROWS):
        own = start + tl.arange(0, ROWS)[:, None]
        inside = (own < part) & (first + own < rows) & (column < columns)
        sums += tl.load(x + (first + own).to(tl.int64) * columns + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(s + tl.program_id(1) * columns + column, tl.sum(sums, axis=0, keep_dims=True), mask=column < columns)


@_tiles
@triton.jit
def transpose(x, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=(row[:, None] < rows) & (column[None, :] < columns))
    tl.store(y + column[:, None] * rows + row[None, :], tl.trans(tile), mask=(column[:, None] < columns) & (row[None, :] < rows))


@_packed
@triton.jit
def dequant_u4(b, w, columns, MY: tl.constexpr, HALF: tl.constexpr, BYTES: tl.constexpr):
    """MY rows of w and 2 * BYTES of its columns: the bytes of tiles side by side, HALF of each row of a tile."""
    row = tl.arange(0, MY)[:, None]
    byte = tl.program_id(1) * BYTES + tl.arange(0, BYTES)[None, :]
    tile = tl.program_id(0).to(tl.int64) * (columns // (2 * HALF)) + byte // HALF
    packed = tl.load(b + (tile * MY + row) * HALF + byte % HALF, mask=byte < columns // 2)
    values = tl.interleave((packed & 15).to(tl.float16), (packed >> 4).to(tl.float16))
    column = tl.program_id(1) * (2 * BYTES) + tl.arange(0, 2 * BYTES)[None, :]
    tl.store(w + (tl.program_id(0).to(tl.int64) * MY + row) * columns + column, values, mask=column < columns)


tuned_copy, tuned_softmax = _flat(copy), _whole(softmax)
TUNED = (tuned_copy, add, bias_gelu, tuned_softmax, rmsnorm, layernorm, rowsum, rowmax, rowdot, colsum, transpose, dequant_u4)
