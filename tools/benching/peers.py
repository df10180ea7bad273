"""What a case is compared with, by name: a plain copy, torch as it comes, `torch.compile`, Triton, CuPy.

Each gives a call without arguments that enqueues its work on torch's current stream and gives the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benching.cases import EPSILON, Case

F = torch.nn.functional
Call = Callable[[], Any]


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[1],), w, eps=EPSILON)


def layernorm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[1],), w, b, eps=EPSILON)


def dequant_u4(b: torch.Tensor) -> torch.Tensor:
    """u8[N//my, K//mk, my, mk//2] to f16[N, K]."""
    n, k, my, half = b.shape
    return torch.stack((b & 15, b >> 4), -1).view(n, k, my, 2 * half).transpose(1, 2).reshape(n * my, k * 2 * half).half()


TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "rowdot": lambda q, k: (q * k).sum(1),
    "rowsum": lambda x: x.sum(1),
    "rowmax": lambda x: x.amax(1),
    "colsum": lambda x: x.sum(0),
    "softmax": lambda x: x.softmax(1),
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "sum": lambda x: x.sum().view(1),
    "copy": lambda x: x.clone(),
    "add": lambda x, y: x + y,
    "bias_gelu": lambda x, b: F.gelu(x + b, approximate="tanh"),
    "transpose": lambda x: x.t().contiguous(),
    "dequant_u4_manual": dequant_u4,
    "dequant_u4_parallel": dequant_u4,
    "dequant_u4_copy": dequant_u4,
    "gemm": lambda a, b: a @ b,
}


def with_torch(case: Case, inputs: list[torch.Tensor]) -> Call:
    return lambda: TORCH[case.sample](*inputs)


def torch_copy(case: Case, inputs: list[torch.Tensor]) -> Call:
    (source,) = inputs
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def with_copy(case: Case, inputs: list[torch.Tensor]) -> Call:
    """Of the one input: a kernel, since what torch leaves to the driver is not always as fast."""
    from benching.triton_kernels import copy

    return lambda: copy(*inputs)


def with_inductor(case: Case, inputs: list[torch.Tensor]) -> Call:
    """Compiled for the shapes at hand, or for any where the case is compiled so."""
    torch._dynamo.reset()
    compiled = torch.compile(TORCH[case.sample], dynamic=not case.static)
    return lambda: compiled(*inputs)


def with_triton(case: Case, inputs: list[torch.Tensor]) -> Call:
    """In the configurations that are fastest for this case."""
    from benching.triton_kernels import kernels, untuned

    untuned()
    kernel = kernels(case.static, EPSILON)[case.sample]
    return lambda: kernel(*inputs)


def with_cupy(case: Case, inputs: list[torch.Tensor]) -> Call:
    import cupy
    from benching.cupy_kernels import kernels

    arrays, kernel = [cupy.asarray(x) for x in inputs], kernels(EPSILON)[case.sample]

    def call() -> Any:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return kernel(*arrays)

    return call


PEERS: dict[str, Callable[[Case, list[torch.Tensor]], Call]] = {
    "copy": with_copy, "torch": with_torch, "inductor": with_inductor, "triton": with_triton, "cupy": with_cupy,
}  # fmt: skip
UNCAPTURED = {("torch", "copy"): torch_copy}  # by peer and sample: what is slower in a graph than called
