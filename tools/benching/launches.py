"""What a call costs the host: `launch_overhead_us`, every way to launch beside the driver alone.

A kernel of one block adds an int to 128 floats. Each way launches it CALLS times between two drains of the queue; all take turns for
ROUNDS rounds, each of which begins with another, and a figure is the lower decile of its rounds, in microseconds of host time a call.
`driver` is `cuLaunchKernelEx` through cuda-bindings with parameters packed once: the floor. Results are checked.

Why the lower decile of short turns, for all alike: what disturbs the host only ever adds. On shared hosts a core runs at little more than
half its speed for a tenth of a second to some seconds on end, with no other thread on it (no switches, no moves to other cores, and the
thread's own time is all of the time). The median is then of whichever speed had more of the rounds, for one way this and for another
that: in such a run of 12 rounds of 1,000 calls, six kernels that are called alike came out .57 to 1.29 us over the driver, and three bound
calls .21 to .50; in the same run the lower deciles of 60 rounds of 200 were .83 to .89 and .08 to .12. The least of all is as low as
rounds are many, and of turns of 50 calls a part is what begins anew after a drain. Python's collector is off, as in `timeit`. The queue
does not fill: 2,000 launches without a drain take no longer from the 1,024th on.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from benching.cases import Calls
from benching.record import calls_facts
from benching.timing import Problem

import vxc

CALLS, ROUNDS, WARM = 200, 200, 50
KERNEL = "kernel shifted(x: f32[N], out y: f32[N], n: i32) { parallel i in N { y[i] = x[i] + (n as f32); } }"
CUDA = """
extern "C" __global__ void shifted(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x] + (float)n; }
"""
UNWRITTEN = ("vxc_changing", "vxc_shapes", "vxc_out", "torch_empty")  # leave `y` as it was

Way = tuple[str, Callable, tuple]  # implementation, function, arguments


def of_vxc(x: Any, y: Any, n: int) -> Iterator[Way]:
    """A call with torch tensors, with other ones each time, with others of another size each time, with views, one that allocates its
    output, one bound to its arguments; the driver alone.
    """
    kernel, changing, sized, viewing, allocating = (vxc.kernel(KERNEL) for _ in range(5))
    bound = kernel.bind(x, y, n)
    yield "vxc", kernel, (x, y, n)
    pairs = itertools.cycle([(x.clone(), y.clone(), n) for _ in range(3)])
    yield "vxc_changing", lambda: changing(*next(pairs)), ()
    sizes = itertools.cycle([(x[:size].clone(), y[:size].clone(), n) for size in (128, 64)])
    yield "vxc_shapes", lambda: sized(*next(sizes)), ()
    yield "vxc_views", viewing, (x.repeat_interleave(2)[::2], y, n)
    yield "vxc_out", allocating, (x, n)
    yield "vxc_bound", bound, ()
    call = kernel._calls.checked({"x": x, "y": y, "n": n})
    step, (memory, table) = call.prepared.single, call.prepared.slot()
    call.prepared.pack(memory, 0, *call.values)
    HELD.append(table)
    config, function = (argument._obj.owner for argument in (step.configs[call.stream], step.function))  # as the bindings have them
    yield "driver", import_module("cuda.bindings.driver").cuLaunchKernelEx, (config, function, ctypes.cast(table, ctypes.c_void_p).value, 0)


HELD: list = []  # parameters that a launch points at


def of_cupy(x: Any, y: Any, n: int) -> Iterator[Way]:
    cupy = import_module("cupy")
    raw, a, b = cupy.RawKernel(CUDA, "shifted"), cupy.asarray(x), cupy.asarray(y)
    yield "cupy", raw, ((1,), (128,), (a, b, n))
    yield "vxc_cupy", vxc.kernel(KERNEL), (a, b, n)


def of_pycuda(x: Any, y: Any, n: int) -> Iterator[Way]:
    compiler, gpuarray = import_module("pycuda.compiler"), import_module("pycuda.gpuarray")
    context = import_module("pycuda.driver").Device(0).retain_primary_context()
    context.push()
    prepared = compiler.SourceModule(CUDA, no_extern_c=True).get_function("shifted").prepare("PPi")
    yield "pycuda", lambda: prepared.prepared_call((1, 1), (128, 1, 1), x.data_ptr(), y.data_ptr(), n), ()
    a, b = (gpuarray.GPUArray((128,), "f4", gpudata=t.data_ptr()) for t in (x, y))
    yield "vxc_pycuda", vxc.kernel(KERNEL), (a, b, n)
    context.pop()  # PyCUDA aborts a process that ends with one on its stack


def of_numba(x: Any, y: Any, n: int) -> Iterator[Way]:
    as_array = import_module("numba.cuda").as_cuda_array
    yield "vxc_numba", vxc.kernel(KERNEL), (as_array(x), as_array(y), n)


def of_torch(x: Any, y: Any, n: int) -> Iterator[Way]:
    torch = import_module("torch")
    yield "torch", lambda: torch.add(x, n, out=y), ()
    yield "torch_empty", lambda: torch.empty((128,), dtype=torch.float32, device=x.device), ()


def of_graphs(x: Any, y: Any, n: int) -> Iterator[Way]:
    """CUDA graphs of one call each: what replaying costs the host does not depend on who was captured."""
    torch, kernel = import_module("torch"), vxc.kernel(KERNEL)
    calls: dict[str, Callable] = {"vxc_graph": lambda: kernel(x, y, n), "torch_graph": lambda: torch.add(x, n, out=y)}
    for impl, call in calls.items():
        graph = torch.cuda.CUDAGraph()
        call()
        with torch.cuda.graph(graph):
            call()
        yield impl, graph.replay, ()


def of_triton(x: Any, y: Any, n: int) -> Iterator[Way]:
    import triton
    import triton.language as tl

    @triton.jit
    def shifted(x, y, n, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        tl.store(y + at, tl.load(x + at) + n)

    grid = (1,)
    yield "triton", lambda: shifted[grid](x, y, n, SIZE=128), ()


def measured(case: Calls) -> tuple[list[dict], list[str]]:
    """(a line for each way that could be gone, what is wrong with the others)."""
    torch = import_module("torch")
    x, y, n = torch.randn(128, device="cuda"), torch.empty(128, device="cuda"), 3
    ways, problems = {}, []
    for make in (of_vxc, of_cupy, of_pycuda, of_numba, of_torch, of_graphs, of_triton):
        try:
            for impl, call, arguments in make(x, y, n):
                y.fill_(0)
                for _ in range(WARM):
                    call(*arguments)
                if impl not in UNWRITTEN and not torch.equal(y, x + n):
                    raise Problem(f"{impl}: the result is wrong")
                ways[impl] = call, arguments
        except Exception as found:  # of whatever library: the others still run, and the caller fails at the end
            problems.append(f"{case.suite} {case.name} {make.__name__[3:]}: {type(found).__name__}: {found}")
    with uncollected():
        times = undisturbed(ways, lambda way: microseconds(*way, torch.cuda.synchronize))
    device = torch.cuda.get_device_name()
    return [line(case, impl, us, times["driver"], device) for impl, us in times.items()], problems


def undisturbed(ways: Mapping[str, Any], timer: Callable[[Any], float], rounds: int = ROUNDS) -> dict[str, float]:
    """The lower decile of what the timer says of each way, once a round."""
    times: dict[str, list[float]] = {impl: [] for impl in ways}
    order = [*ways]
    for _ in range(rounds):
        for impl in order:
            times[impl].append(timer(ways[impl]))
        order.append(order.pop(0))
    return {impl: statistics.quantiles(found, n=10, method="inclusive")[0] for impl, found in times.items()}


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's collector, as long as it lasts."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def microseconds(call: Callable, arguments: tuple, drain: Callable[[], None]) -> float:
    """Of host time a call; the queue is empty before and after."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call(*arguments)
    took = time.perf_counter_ns() - start
    drain()
    return took / CALLS / 1000


def line(case: Calls, impl: str, us: float, floor: float, device: str) -> dict:
    """`over` is what the call costs more than the floor."""
    known = {"suite": case.suite, "case": case.name, "impl": impl, "us": round(us, 3), "over": round(us - floor, 3)}
    return {**known, "device": device, **calls_facts(case.suite, impl)}


SAID = {
    "driver": "`cuLaunchKernelEx` through cuda-bindings, parameters packed once",
    "vxc_bound": "`b()`, a bound call",
    "vxc": "`k(x, y, n)` on torch tensors",
    "vxc_changing": "the same with other tensors each time",
    "vxc_shapes": "the same with tensors of two sizes in turns",
    "vxc_views": "`k(x, y, n)` with a view of every other element",
    "vxc_out": "`k(x, n)`, which allocates `y`",
    "torch_empty": "`torch.empty` alone",
    "vxc_cupy": "`k(x, y, n)` on CuPy arrays",
    "vxc_pycuda": "`k(x, y, n)` on PyCUDA arrays",
    "vxc_numba": "`k(x, y, n)` on Numba arrays",
    "cupy": "CuPy `RawKernel`",
    "pycuda": "PyCUDA, a prepared call",
    "torch": "`torch.add(x, n, out=y)`",
    "triton": "Triton",
    "vxc_graph": "`g.replay()` of a CUDA graph that captured `k(x, y, n)`",
    "torch_graph": "the same with `torch.add(x, n, out=y)`",
}


def markdown(rows: list[dict]) -> str:
    """The table of the README."""
    times = {row["impl"]: row for row in rows if row["suite"] == "launch"}
    head = ["| | call | us | over the driver |", "|---|---|---|---|"]
    cells = [f"| {impl} | {said} | {times[impl]['us']:.2f} | {times[impl]['over']:.2f} |" for impl, said in SAID.items() if impl in times]
    return "\n".join([*head, *cells]) + "\n"
