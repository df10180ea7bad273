"""What `tools/reduce_sweep.py` times: variants of a row's dot product, how each is made, checked and timed.

The key of a variant's record hashes this file, and not the one that keeps the record and reads it.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benching.ending import WRONG, Stopped
from gpu_case import key

from vxc.cuda.nvrtc import Binary
from vxc.driver import Compiled, compile
from vxc.ir.plan import Plan
from vxc.source import Source

CHUNKS = (0, 1, 4, 8, 16, 32)  # 0: single-shot, a partial for each element of a lane
LANES = (1, 4, 8, 16)
LENGTHS = (32, 64, 128, 1000)
MULTIPROCESSORS = 132
SHAPES = ((MULTIPROCESSORS, 32), (MULTIPROCESSORS, 64), (MULTIPROCESSORS, 128), (MULTIPROCESSORS, 256), (0, 256))  # (grid, block)
VECTOR = 4  # elements of an f32 vector, and the default of partials
BYTES = 1 << 27  # of each operand, both together more than the L2 cache
BOUND = 1e-5  # of the error, relative to the sum of magnitudes


class Variant(NamedTuple):
    chunk: int
    lanes: int
    hd: int
    grid: int
    block: int

    @property
    def rows(self) -> int:
        """Of the arrays: as many for each block of 132."""
        return BYTES // 4 // self.hd // MULTIPROCESSORS * MULTIPROCESSORS

    @property
    def text(self) -> str:
        row, each = f"@chunk({self.chunk}) @lanes({self.lanes}) dot", self.rows // MULTIPROCESSORS
        head = f"kernel rowdot(q: f32[N, {self.hd}], k: f32[N, {self.hd}], out s: f32[N])"
        if not self.grid:
            return f"{head} {{ parallel i in N {{ s[i] = {row}(q[i], k[i]); }} }}"
        one = f"s[b * {each} + i] = {row}(q[b * {each} + i], k[b * {each} + i]);"
        return f"{head} {{ @threads({self.block}) grid b in {self.grid} {{ parallel i in {each} {{ {one} }} }} }}"


VARIANTS = [Variant(*rest, *shape) for *rest, shape in product(CHUNKS, LANES, LENGTHS, SHAPES)]


class Made(NamedTuple):
    """What launching needs, and the key of the variant."""

    source: Source
    plan: Plan
    binary: Binary
    key: str


def compiled(variant: Variant) -> Compiled:
    return compile(Source("rowdot.vx", variant.text), defines={"N": variant.rows}, target="sm_90a")


def key_of(found: Compiled) -> str:
    return key(found, Path(__file__))


def made(variant: Variant) -> Made:
    found = compiled(variant)
    return Made(found.source, found.plan, found.binary, key_of(found))


def measured(variant: Variant, kernel: Made, operands: dict[int, tuple[Any, ...]]) -> dict[str, Any]:
    """A row of the record. Raises `Stopped` for a wrong sum."""
    import torch
    from triton.testing import do_bench

    from vxc.runtime.launch import launch

    q, k, wanted, scale, s = operands[variant.hd]
    s.fill_(float("nan"))
    launch(kernel, {"q": q, "k": k, "s": s})
    error = float(((s.double() - wanted).abs() / scale).max())
    if not error < BOUND:
        raise Stopped(f"the sum of {variant} is wrong: its error is {error:.3g} of the magnitudes, {BOUND:g} would do", WRONG)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(kernel, {"q": q, "k": k, "s": s})
    ms = do_bench(graph.replay, warmup=1, rep=5, return_mode="median")
    (used,) = kernel.binary.kernels.values()
    found = {"registers": used.registers, "spills": used.spill_stores + used.spill_loads, "stack": used.stack, "ms": round(ms, 5)}
    return {**variant._asdict(), **found, "key": kernel.key}


def drawn() -> dict[int, tuple[Any, ...]]:
    """By length of a row: the operands, the sums and sums of magnitudes in float64, and the output."""
    import torch

    torch.manual_seed(1)
    operands = {}
    for hd in LENGTHS:
        q, k = (torch.randn(Variant(0, 1, hd, 0, 256).rows, hd, device="cuda") for _ in range(2))
        product_ = q.double() * k.double()
        operands[hd] = (q, k, product_.sum(1), product_.abs().sum(1), torch.empty(len(q), device="cuda"))
    return operands
