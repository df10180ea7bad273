"""What a launch costs the host, beside other ways to launch, in one run on a GPU.

    python tools/bench_launch.py [-o FILE]     prints a line for each; writes results/bench_launch.jsonl, or FILE

A kernel of one block adds an int to 128 floats. Each way launches it CALLS times between two drains of the queue, the ways taking turns
for ROUNDS rounds; a figure is the median of the rounds, in microseconds of host time a call. `driver` is `cuLaunchKernelEx` through
cuda-bindings with parameters packed once: the floor. Results are checked.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import torch

import vxc
from vxc.runtime.driver import driver
from vxc.runtime.parameters import pack, pointer, scalar
from vxc.dtypes import I32, I64
from vxc.runtime.arrays import write_file

RECORD = Path(__file__).resolve().parent / "results" / "bench_launch.jsonl"
CALLS, ROUNDS, WARM = 1_000, 10, 50
KERNEL = "kernel shifted(x: f32[N], out y: f32[N], n: i32) { parallel i in N { y[i] = x[i] + (n as f32); } }"
CUDA = """
extern "C" __global__ void shifted(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x] + (float)n; }
"""
HELD: list = []  # parameters that a launch points at

Way = tuple[str, Callable, tuple]  # name, function, arguments


def of_vxc(x: torch.Tensor, y: torch.Tensor, n: int) -> Iterator[Way]:
    """A call with torch tensors, with other ones each time, one that allocates its output, one bound to its arguments; the driver alone."""
    kernel = vxc.kernel(KERNEL)
    yield "vxc", kernel, (x, y, n)
    other, pairs = vxc.kernel(KERNEL), itertools.cycle([(x, y), (x.clone(), y.clone()), (x.clone(), y.clone())])
    yield "vxc_changing", lambda: other(*next(pairs), n), ()
    yield "vxc_out", kernel, (x, n)
    yield "vxc_bound", kernel.bind(x, y, n), ()
    cuda = driver()
    made = kernel.compile(vxc.ShapeDtype((128,), "f32"))
    with cuda.active(0):
        function = cuda.function(cuda.load(made.cubin), "shifted")
    values = {"N": scalar(I64, 128), "x": pointer(x.data_ptr()), "y": pointer(y.data_ptr()), "n": scalar(I32, n)}
    packed = pack([values[p.name] for p in made.made.plan.kernels[0].params])
    threads = made.made.plan.kernels[0].attr("threads")
    config = cuda.launch_config((1, 1, 1), (threads, 1, 1), 0, torch.cuda.current_stream().cuda_stream)
    enqueue, address = cuda.raw_launch()[0], packed.address
    HELD.append(packed)
    yield "driver", enqueue, (config, function, address, 0)


def of_cupy(x: torch.Tensor, y: torch.Tensor, n: int) -> Iterator[Way]:
    cupy = import_module("cupy")
    raw, a, b = cupy.RawKernel(CUDA, "shifted"), cupy.asarray(x), cupy.asarray(y)
    yield "cupy", raw, ((1,), (128,), (a, b, n))
    yield "vxc_cupy", vxc.kernel(KERNEL), (a, b, n)


def of_pycuda(x: torch.Tensor, y: torch.Tensor, n: int) -> Iterator[Way]:
    compiler = import_module("pycuda.compiler")
    context = import_module("pycuda.driver").Device(0).retain_primary_context()
    context.push()
    prepared = compiler.SourceModule(CUDA, no_extern_c=True).get_function("shifted").prepare("PPi")
    yield "pycuda", lambda: prepared.prepared_call((1, 1), (128, 1, 1), x.data_ptr(), y.data_ptr(), n), ()
    context.pop()  # PyCUDA aborts a process that ends with one on its stack


def of_torch(x: torch.Tensor, y: torch.Tensor, n: int) -> Iterator[Way]:
    yield "torch", lambda: torch.add(x, n, out=y), ()
    yield "torch_empty", lambda: torch.empty((128,), dtype=torch.float32, device=x.device), ()


def of_triton(x: torch.Tensor, y: torch.Tensor, n: int) -> Iterator[Way]:
    import triton
    import triton.language as tl

    @triton.jit
    def shifted(x, y, n, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        tl.store(y + at, tl.load(x + at) + n)

    grid = (1,)
    yield "triton", lambda: shifted[grid](x, y, n, SIZE=128), ()


def ways(x: torch.Tensor, y: torch.Tensor, n: int) -> Iterator[Way]:
    """All that can be imported here."""
    for make in (of_vxc, of_cupy, of_pycuda, of_torch, of_triton):
        try:
            yield from make(x, y, n)
        except ImportError as error:
            print(f"{make.__name__[3:]} is left out: {error}")


def timed(call: Callable, arguments: tuple) -> float:
    """Microseconds of host time a call."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call(*arguments)
    took = time.perf_counter_ns() - start
    torch.cuda.synchronize()
    return took / CALLS / 1000


def measured() -> dict[str, float]:
    x, y = torch.randn(128, device="cuda"), torch.empty(128, device="cuda")
    found = []
    for name, call, arguments in ways(x, y, 3):
        y.fill_(0)
        for _ in range(WARM):
            call(*arguments)
        assert name in ("vxc_out", "torch_empty") or torch.equal(y, x + 3), name
        found.append((name, call, arguments))
    rounds: dict[str, list[float]] = {name: [] for name, _, _ in found}
    for _ in range(ROUNDS):
        for name, call, arguments in found:
            rounds[name].append(timed(call, arguments))
    return {name: statistics.median(figures) for name, figures in rounds.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", metavar="FILE", type=Path, default=RECORD)
    path = options.parse_args().o
    rows = []
    device = torch.cuda.get_device_name()
    for name, us in measured().items():
        rows.append({"suite": "launch", "case": "launch_overhead_us", "impl": name, "us": round(us, 3), "device": device})
        print(f"{name:12} {us:7.3f} us a call")
    write_file(str(path), lambda file: file.write("".join(json.dumps(row) + "\n" for row in rows).encode()))


if __name__ == "__main__":
    main()
