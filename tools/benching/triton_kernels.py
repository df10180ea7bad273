"""What a case is in Triton: launches of the kernels of `triton_text.py`, compiled ahead where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.language as tl

from benching import triton_text as text

LONGEST = 16384  # elements of a row that one program goes through
PARTS = 128  # programs that share a longer row
PROGRAMS = 1024  # that sums along columns are cut into, of no less than PART rows
PART = 1024
Size = Callable[[int], Any]  # how the length of a row is given to a kernel: as a number, or as part of its text
Call = Callable[..., torch.Tensor]
Meta = dict[str, int]  # by name, what a kernel is compiled for
_compiles_only = False


def _start(kernel: Any, grid: Any, *arguments: Any, **meta: Any) -> None:
    """Launches a kernel, or compiles what launching it would need."""
    if _compiles_only:
        kernel.warmup(*arguments, grid=grid, **meta)
    else:
        kernel[grid](*arguments, **meta)


@contextmanager
def compiling_only() -> Iterator[None]:
    """Calls compile every configuration into Triton's cache on disk, and launch nothing."""
    global _compiles_only
    _compiles_only = True
    try:
        yield
    finally:
        _compiles_only = False


def untuned() -> None:
    """What was chosen is forgotten, so that the next call of each kernel tries its configurations on its own arrays."""
    for kernel in text.TUNED:
        kernel.cache.clear()


def copy(x: torch.Tensor) -> torch.Tensor:
    """16 bytes of f32 to a thread."""
    y = torch.empty_like(x)
    _start(text.copy, (triton.cdiv(x.numel(), 1024),), x, y, x.numel(), BLOCK=1024, num_warps=8)
    return y


def _blocks(count: int) -> Callable[[Meta], tuple[int]]:
    return lambda meta: (triton.cdiv(count, meta["BLOCK"]),)


def tuned_copy(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _start(text.tuned_copy, _blocks(x.numel()), x, y, x.numel())
    return y


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    _start(text.add, _blocks(x.numel()), x, y, z, x.numel())
    return z


def bias_gelu(size: Size) -> Call:
    def call(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        _start(text.bias_gelu, _blocks(x.numel()), x, b, y, x.numel(), size(x.shape[1]))
        return y

    return call


def softmax(x: torch.Tensor) -> torch.Tensor:
    """In one configuration, for a first call."""
    y = torch.empty_like(x)
    _start(text.softmax, (x.shape[0],), x, y, *x.shape, ROWS=1, BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=4)
    return y


def by_rows(kernel: Any, size: Size, *numbers: float) -> Call:
    """A kernel that gives rows of the shape of its first input, and whose programs hold whole rows."""

    def call(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)

        def grid(meta: Meta) -> tuple[int]:
            return (triton.cdiv(x.shape[0], meta["ROWS"]),)

        _start(kernel, grid, x, *others, y, x.shape[0], size(x.shape[1]), *numbers, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y

    return call


def folded(kernel: Any, size: Size) -> Call:
    """A kernel that gives a number for each row."""

    def call(*inputs: torch.Tensor) -> torch.Tensor:
        rows, columns = inputs[0].shape
        padded, s = triton.next_power_of_2(columns), torch.empty(rows, device=inputs[0].device)

        def grid(meta: Meta) -> tuple[int]:
            return (triton.cdiv(rows, meta["SIZE"] // min(meta["WIDTH"], padded)),)

        _start(kernel, grid, *inputs, s, rows, size(columns), PADDED=padded)
        return s

    return call


def rowsum(size: Size) -> Call:
    """Rows longer than LONGEST are cut into PARTS, whose sums are added by a second launch."""
    short = folded(text.rowsum, size)

    def call(x: torch.Tensor) -> torch.Tensor:
        return short(x) if x.shape[1] <= LONGEST else call(call(x.view(x.shape[0] * PARTS, -1)).view(x.shape[0], PARTS))

    return call


def colsum(size: Size) -> Call:
    """Columns that are too few to fill the device are cut into parts, whose sums are added by a second launch."""

    def call(x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        parts = max(1, min(PROGRAMS // triton.cdiv(columns, 32), rows // PART))
        s = torch.empty(parts, columns, device=x.device)
        grid = lambda meta: (triton.cdiv(columns, meta["COLUMNS"]), parts)  # noqa: E731
        _start(text.colsum, grid, x, s, rows, size(columns), triton.cdiv(rows, parts))
        return call(s) if parts > 1 else s.view(columns)

    return call


def transpose(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape[::-1], dtype=x.dtype, device=x.device)

    def grid(meta: Meta) -> tuple[int, int]:
        return triton.cdiv(x.shape[0], meta["ROWS"]), triton.cdiv(x.shape[1], meta["COLUMNS"])

    _start(text.transpose, grid, x, y, *x.shape)
    return y


def dequant_u4(b: torch.Tensor) -> torch.Tensor:
    """u8[N//my, K//mk, my, mk//2] to f16[N, K]."""
    n, k, my, half = b.shape
    w = torch.empty(n * my, k * 2 * half, dtype=torch.float16, device=b.device)

    def grid(meta: Meta) -> tuple[int, int]:
        return n, triton.cdiv(k * half, meta["BYTES"])

    _start(text.dequant_u4, grid, b, w, w.shape[1], MY=my, HALF=half)
    return w


def kernels(static: bool, eps: float) -> dict[str, Call]:
    """By sample. `static`: the length of a row is part of what is compiled."""
    size: Size = tl.constexpr if static else int
    total = rowsum(size)
    return {
        "rowdot": folded(text.rowdot, size), "rowsum": total, "rowmax": folded(text.rowmax, size), "colsum": colsum(size),
        "sum": lambda x: total(x.view(1, -1)),
        "softmax": by_rows(text.tuned_softmax, size), "rmsnorm": by_rows(text.rmsnorm, size, eps),
        "layernorm": by_rows(text.layernorm, size, eps), "copy": tuned_copy, "add": add, "bias_gelu": bias_gelu(size),
        "transpose": transpose, "dequant_u4_manual": dequant_u4, "dequant_u4_parallel": dequant_u4, "dequant_u4_copy": dequant_u4,
    }  # fmt: skip
