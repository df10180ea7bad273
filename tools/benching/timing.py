"""One case on the GPU: every implementation captured, checked, then timed in turns.

Method, the same for all implementations of a case:

- Inputs are random normal numbers (bytes: all values), shared by all. Outputs hold NaN before the run that is checked. The error is
  the greatest difference from torch's result in float64 over the greatest magnitude; beyond `TOLERANCE` a result is no result.
- A call is captured in a CUDA graph once it has run twice, and what is timed is the replay of the graph. Python, launch checks
  and allocation cost the host more than short kernels run, and events around a call would count the time in which the device
  waits for them. A replay costs the host less than the flush of L2 before it takes, and the device half a microsecond. One call
  is timed as it is, `torch.Tensor.copy_`: the driver, to which torch leaves it, took half as long again in a graph, and the call
  costs the host little.
- `vxc.runtime.timing` flushes L2 before each replay and has all implementations take turns for some rounds. A figure is the median of
  its rounds. So figures of one case compare; those of two runs do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benching.cases import SAMPLES, Case, Kernel
from benching.record import line, peer_key
from benching.reference import prepared

from vxc.binding import ArrayParam, signature
from vxc.runtime.driver import driver
from vxc.runtime.launch import launch
from vxc.runtime.timing import Run, race

CHUNK = 1 << 24  # elements that are checked at once
TOLERANCE = {"f16": 2e-3, "f32": 1e-5}
VERSIONS = {"copy": "triton", "torch": "torch", "inductor": "torch", "triton": "triton", "cupy": "cupy"}


class Problem(Exception):
    """An implementation that did not give its result."""


class Arrays(NamedTuple):
    """The arrays of a case on the device: inputs in the order of the sample's parameters, and its output, by name and in all."""

    inputs: dict[str, Any]
    out: dict[str, Any]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (*self.inputs.values(), *self.out.values()))


def arrays(case: Case, kernel: Kernel) -> Arrays:
    import torch

    torch.manual_seed(1)
    found = Arrays({}, {})
    for param in signature(kernel.plan.params):
        if isinstance(param, ArrayParam):
            shape = [case.dims[size] if isinstance(size, str) else size for size in param.shape]
            dtype = getattr(torch, param.dtype.numpy_name)
            if param.mode == "out":
                found.out[param.name] = torch.empty(shape, dtype=dtype, device="cuda")
            elif param.dtype.kind == "f":
                apart = case.offset // dtype.itemsize
                found.inputs[param.name] = torch.randn(apart + math.prod(shape), device="cuda").to(dtype)[apart:].view(shape)
            else:
                found.inputs[param.name] = torch.randint(0, 1 << param.dtype.bits, shape, dtype=dtype, device="cuda")
    return found


def ready(impl: str, case: Case, kernel: Kernel, data: Arrays, reference: Path | None) -> tuple[Run, Any, list[Any]]:
    """(what enqueues one run of an implementation, the tensor that it writes, its inputs)."""
    from benching.peers import UNCAPTURED

    if (impl, case.sample) in UNCAPTURED:
        inputs = list(data.inputs.values())
        call = UNCAPTURED[impl, case.sample](case, inputs)
        return call, call(), inputs
    call, inputs = caller(impl, case, kernel, data, reference)
    return *graphed(call), inputs


def caller(impl: str, case: Case, kernel: Kernel, data: Arrays, reference: Path | None) -> tuple[Callable[[], Any], list[Any]]:
    """(what enqueues one run of an implementation and gives its output, its inputs)."""
    import torch
    from benching.peers import PEERS

    inputs, (out,) = list(data.inputs.values()), data.out.values()
    if impl == "vxc":
        arguments = data.inputs | data.out | dict(SAMPLES[case.sample].scalars)

        def call() -> Any:
            launch(kernel, arguments)
            return out

        return call, inputs
    if impl == "reference":
        return prepared(reference, case.name, inputs, torch.empty_like(out)), inputs
    if impl == "copy":
        inputs = [torch.randn(data.nbytes // 8, device="cuda")]
    return PEERS[impl](case, inputs), inputs


def graphed(call: Callable[[], Any]) -> tuple[Run, Any]:
    """(the replay of a graph of the call, the tensor that it writes)."""
    import torch

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(2):  # compiles, loads modules, fills the pools of libraries
            call()
        torch.cuda.synchronize()
        graph.capture_begin(capture_error_mode="relaxed")
        try:
            out = call()
        finally:
            graph.capture_end()
    torch.cuda.synchronize()
    return graph.replay, torch.as_tensor(out, device="cuda")


def error(impl: str, case: Case, replay: Run, out: Any, inputs: list[Any]) -> float:
    """The relative error of one replay. Raises `Problem` where that is beyond the tolerance."""
    import torch
    from benching.peers import TORCH

    out.view(torch.uint8).fill_(255)
    replay()
    torch.cuda.synchronize()
    exact, along = (TORCH["copy"], 0) if impl == "copy" else (TORCH[case.sample], SAMPLES[case.sample].along)
    found = relative_error(out, lambda *xs: exact(*(x.double() if x.is_floating_point() else x for x in xs)), inputs, along)
    if not found <= TOLERANCE[case.dtype]:
        raise Problem(f"the result is wrong: relative error {found:.3g}, {TOLERANCE[case.dtype]:g} would do")
    return found


def relative_error(out: Any, exact: Callable[..., Any], inputs: list[Any], along: int | None, chunk: int = CHUNK) -> float:
    """The greatest difference of `out` from `exact(*inputs)` over the greatest magnitude of that; NaN where a difference is.

    `exact` is asked for a part of the first dimension at a time, about `chunk` elements of the first input. Dimension `along` of the
    output goes with it, and so do inputs of as many dimensions; None: all at once.
    """
    first = inputs[0]
    rows = first.shape[0]
    step = rows if along is None else max(1, chunk // math.prod(first.shape[1:]))
    ends, sizes = [], []
    for start in range(0, rows, step):
        want = exact(*(x[start : start + step] if x.ndim == first.ndim else x for x in inputs))
        got = out
        if along is not None:
            each = out.shape[along] // rows
            got = out.swapaxes(0, along)[start * each : (start + step) * each].swapaxes(0, along)
        ends.append(float(abs(got - want).max()))
        sizes.append(float(abs(want).max()))
    return math.nan if any(map(math.isnan, ends)) else max(ends) / max(max(sizes), 1e-300)


class Times(NamedTuple):
    """By implementation, milliseconds and errors; what is wrong with the others; bytes of all arrays."""

    ms: dict[Hashable, float]
    errors: dict[str, float]
    problems: list[str]
    nbytes: int


def timed(case: Case, kernel: Kernel, reference: Path | None) -> Times:
    import torch

    data, runs, errors, problems = arrays(case, kernel), {}, {}, []
    for impl in ("vxc", *case.peers):
        if impl != "reference" or reference:
            try:
                run, out, inputs = ready(impl, case, kernel, data, reference)
                errors[impl] = error(impl, case, run, out, inputs)
                runs[impl] = run
            except Exception as found:  # of whatever library: the others still run, and the caller fails at the end
                problems.append(f"{case.suite} {case.name} {impl}: {type(found).__name__}: {found}")
    return Times(race(driver(), torch.cuda.current_device(), runs), errors, problems, data.nbytes)


def measured(case: Case, kernel: Kernel, reference: Path | None) -> tuple[list[dict], list[str]]:
    """(a line for each implementation that ran, what is wrong with the others)."""
    import torch

    found, device, lines = timed(case, kernel, reference), torch.cuda.get_device_name(), []
    torch.cuda.empty_cache()
    for impl, ms in found.ms.items():
        facts = kernel.facts if impl == "vxc" else {"key": peer_key(case, impl)}
        if impl in VERSIONS:
            facts = {"version": import_module(VERSIONS[impl]).__version__} | facts
        lines.append(line(case, impl, ms, found.nbytes, found.errors[impl], device, facts))
    return lines, found.problems
