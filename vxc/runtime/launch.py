"""Running a compiled plan on a GPU: `launch` on the caller's device arrays and stream, `run_numpy` by copies.

Every call is checked before anything reaches the device: names, dtypes, shapes, strides (`vxc.binding`), memory that the
device cannot reach or that outputs share, and the limits of a launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.exceptions import TooHardError

from vxc.binding import ArrayParam, Binding, Described, row_major, signature
from vxc.cuda.names import kernel_symbol
from vxc.cuda.nvrtc import Binary, Resources
from vxc.diag import Diagnostic, VxcError
from vxc.interp.fresh import poisoned, span
from vxc.ir.alignment import elsewhere, lies
from vxc.ir.kernel import Buffer, Value
from vxc.ir.plan import Plan
from vxc.record import record, value
from vxc.runtime.arrays import ArrayView, describe, describe_device
from vxc.runtime.driver import Driver, driver
from vxc.runtime.parameters import pack, pointer, scalar
from vxc.runtime.streams import current_stream, stream_handle
from vxc.schedule import Launch, Schedule, bind_plan, schedule
from vxc.source import Source
from vxc.target import MAX_GRID, REGISTERS_PER_BLOCK, STATIC_SHARED_BYTES, Target, max_block_threads, target


class Compiled(Protocol):
    """What launching needs of a compiled kernel."""

    source: Source | None
    plan: Plan
    binary: Binary


def launch(compiled: Compiled, arguments: Mapping[str, Any], *, stream: Any = None) -> None:
    """Enqueues the plan on device arrays and scalars, by parameter name; returns at once.

    Arrays are anything with `__cuda_array_interface__`, or torch tensors, all on one device. `stream` is a torch, CuPy or
    PyCUDA stream, anything with `__cuda_stream__`, or a raw handle; left out, it is the current stream of the library
    that the arrays come from. Raises `VxcError`: E0603, E0604 (CUDA), E0703 to E0708 (arguments), E0709 (stream), E0712 (beyond
    the device's limits), E0713 (outputs that overlap), and what making the machine code raises.
    """
    declared = _arrays(compiled.plan.params)
    views = {name: describe_device(array, name) for name, array in arguments.items() if name in declared}
    for name in sorted(declared.keys() - views.keys()):
        raise VxcError(Diagnostic("E0708", f"array argument `{name}` is missing", help="launch() fills arrays of the caller: pass one"))
    scalars = {k: v for k, v in arguments.items() if k not in views}
    plan = _steps(_Call.of(compiled, described(views, declared), scalars))
    for name, param in declared.items():
        check_view(param, views[name])
    check_addresses(compiled.plan.buffers, views)
    check_overlap(views, declared)
    cuda = driver()
    device = device_of_all(cuda, views)
    queue = current_stream(arguments.values(), device) if stream is None else stream_handle(stream)
    with cuda.active(device):
        for producer in {v.stream for v in views.values()} - {None, queue}:
            cuda.wait(queue, producer)
        Placed(cuda, compiled.binary, plan, {name: view.ptr for name, view in views.items()}, device).enqueue(queue)


def run_numpy(
    compiled: Compiled,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    device: int = 0,
) -> dict[str, np.ndarray]:
    """Runs the plan on copies of NumPy arrays; gives every `out` and `inout` array, like the interpreters.

    The inputs are not modified. An `out` array that is not given is sized by the others or by `dims`, and holds NaN or 0x5A bytes
    where nothing is written. Errors as for `launch`, and E0714 for a size that nothing gives.
    """
    with uploaded(compiled, arrays, scalars, dims=dims, device=device) as call:
        call.enqueue(0)
        return call.results()


@record
class Placed:
    """A call whose arrays are at these addresses of a device, to be enqueued as often as wished while its context is current."""

    cuda: Driver
    binary: Binary
    plan: Schedule
    addresses: Mapping[str, int]
    device: int

    def enqueue(self, stream: int) -> None:
        """Launches in order; a launch over no blocks is none. Workspaces live from before the first to after the last."""
        held: dict[str, int] = {}
        cuda = self.cuda
        try:
            for space in self.plan.workspaces:
                held[space.name] = cuda.allocate_async(space.nbytes, stream)
            for step in self.plan.launches:
                if step.grid:
                    values = zip(step.kernel.params, step.arguments, strict=True)
                    packed = [pointer((self.addresses | held)[v]) if isinstance(p, Buffer) else scalar(p.dtype, v) for p, v in values]
                    shared = step.kernel.attr("shared_bytes", 0)
                    function = loaded(cuda, self.binary.cubin, kernel_symbol(step.kernel.name), self.device, shared)
                    threads = step.kernel.attr("threads")
                    cuda.launch(function, (step.grid, 1, 1), (threads, 1, 1), shared, stream, pack(packed), early=step.early)
        finally:
            for address in held.values():
                cuda.free_async(address, stream)


@record
class Uploaded(Placed):
    """A call on copies of NumPy arrays; `host` has for each array its memory and a view of that, `outputs` which are written."""

    host: Mapping[str, tuple[np.ndarray, np.ndarray]]
    outputs: tuple[str, ...]

    def results(self) -> dict[str, np.ndarray]:
        """The outputs, once all that was put on the default stream has run."""
        for name in self.outputs:
            self.cuda.download(self.host[name][0], self.addresses[name])
        self.cuda.synchronize(0)
        return {name: self.host[name][1].copy() for name in self.outputs}


@contextmanager
def uploaded(
    compiled: Compiled,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    device: int = 0,
) -> Iterator[Uploaded]:
    """The call on copies of NumPy arrays, whose device is active meanwhile. Arguments and errors as for `run_numpy`."""
    params = signature(compiled.plan.params)
    declared = {p.name: p for p in params if isinstance(p, ArrayParam)}
    views = {name: describe(array, name) for name, array in arrays.items()}
    binding = bind_plan(compiled.plan, described(views, declared), scalars or {}, dims, compiled.source)
    plan = scheduled(compiled, binding)
    host = {name: _staged(param, arrays.get(name), binding) for name, param in declared.items()}
    cuda = driver()
    with cuda.active(device):
        memory: dict[str, Any] = {}
        try:
            for name, (raw, _) in host.items():
                sent = two_to_a_byte(raw) if declared[name].dtype.bits == 4 else raw
                memory[name] = cuda.allocate(sent.nbytes)
                cuda.upload(memory[name], sent)
            addresses = {name: int(m) for name, m in memory.items()}
            outputs = tuple(name for name, param in declared.items() if param.mode != "in")
            yield Uploaded(cuda, compiled.binary, plan, addresses, device, host, outputs)
        finally:
            for held in memory.values():
                cuda.free(held)


# ---- checking the call ------------------------------------------------------------------------------------------------


def described(views: Mapping[str, ArrayView], declared: Mapping[str, ArrayParam]) -> dict[str, Described]:
    """Views as `bind` reads them; raw elements of the right size count as the declared dtype."""

    def dtype(name: str, view: ArrayView) -> str:
        wanted = declared[name].dtype if name in declared else None
        found = wanted if view.dtype is None and wanted and wanted.bytes == view.itemsize else view.dtype
        return found.numpy_name if found else f"raw {view.itemsize}-byte elements"

    return {name: Described(view.shape, dtype(name, view), view.strides) for name, view in views.items()}


def check_writable(param: ArrayParam, view: ArrayView) -> None:
    """Raises `VxcError` E0703 for an output in an array that is read-only."""
    if view.readonly and param.mode != "in":
        message = f"argument `{param.name}` is `{param.mode}`, but the array is read-only"
        raise VxcError(Diagnostic("E0703", message, help="pass a writable array"))


def check_view(param: ArrayParam, view: ArrayView) -> None:
    """What `bind` leaves: that the array may be written, lies as declared, and is aligned."""
    name = param.name
    if param.dtype.bits == 4:
        message = f"argument `{name}` is of {param.dtype}, two elements to a byte, and no device array describes such"
        raise VxcError(Diagnostic("E0703", message, help="declare it u8[..., N // 2] and take the halves apart, or call run_numpy()"))
    check_writable(param, view)
    dense = row_major(view.shape)
    if param.strides is None and view.size and any(n > 1 and s != d for n, s, d in zip(view.shape, view.strides, dense)):
        message = f"argument `{name}` has strides {list(view.strides)}, but the kernel declares it contiguous (strides {list(dense)})"
        hint = f"pass a contiguous copy, or declare a pitch, as in {param.dtype}[M, N : ld]"
        raise VxcError(Diagnostic("E0706", message, help=hint))
    if view.ptr % param.dtype.bytes:
        message = f"argument `{name}` starts at address {view.ptr:#x}, which is no multiple of its {param.dtype.bytes}-byte elements"
        raise VxcError(Diagnostic("E0706", message, help="pass a copy of the array"))


def check_addresses(arrays: Iterable[Buffer], views: Mapping[str, ArrayView]) -> None:
    """Refuses arrays of a plan that begin elsewhere than it says (E0706)."""
    for buffer in arrays:
        if not lies(buffer, views[buffer.name].ptr):
            raise elsewhere(buffer)


APART = "pass separate arrays, or declare one `inout` parameter for both"


def check_overlap(views: Mapping[str, ArrayView], declared: Mapping[str, ArrayParam], way_out: str = APART) -> None:
    """Kernels are proven race-free on the ground that parameters are distinct memory: refuses an output with an element in the memory of
    another argument (E0713)."""
    for (name, view), (other, against) in combinations(views.items(), 2):
        writes = {declared[name].mode, declared[other].mode} != {"in"}
        if writes and view.size and against.size and _share(view, against):
            message = f"arguments `{name}` and `{other}` overlap in memory, and the kernel writes to one of them"
            raise VxcError(Diagnostic("E0713", message, help=way_out))


_WORK = 1 << 16  # solutions that are tried, at most a few milliseconds


def _share(view: ArrayView, other: ArrayView) -> bool:
    """Whether two arrays have a byte in common; also where that takes too long to find out."""
    (low, high), (other_low, other_high) = view.span, other.span
    if high <= other_low or other_high <= low:
        return False
    try:
        return np.shares_memory(*(np.asarray(_Described(v)) for v in (view, other)), max_work=_WORK)
    except (TooHardError, OverflowError):
        return True


class _Described:
    """An array of NumPy's over any memory, to be asked where its elements lie, and never for them."""

    def __init__(self, view: ArrayView) -> None:
        strides = tuple(stride * view.itemsize for stride in view.strides)
        described = {"version": 3, "shape": view.shape, "strides": strides, "typestr": f"|V{view.itemsize}", "data": (view.ptr, True)}
        self.__array_interface__ = described


def check_limits(step: Launch, resources: Resources | None, target: Target) -> None:
    """Raises `VxcError` E0712 for a launch that the device would refuse: too many blocks, registers or shared bytes."""
    name, threads = step.kernel.name, step.kernel.attr("threads")
    used = resources or Resources(0, 0, 0, 0, 0, 0, 0)
    shared = used.shared + step.kernel.attr("shared_bytes", 0)
    cap = REGISTERS_PER_BLOCK // threads // 8 * 8
    most = max_block_threads(max(used.registers, 1))
    for over, message, hint in (
        (step.grid > MAX_GRID[0], f"{step.grid:,} blocks, a launch has at most {MAX_GRID[0]:,}", "split the call into several"),
        (threads > most, f"{threads * used.registers:,} registers, a block may use {REGISTERS_PER_BLOCK:,}",
         f"use at most {most} threads or --maxrregcount={cap}"),
        (shared > target.shared_per_block, f"{shared:,} bytes of shared memory, a block of {target.name} has at most "
         f"{target.shared_per_block:,}", "use smaller tiles"),
    ):  # fmt: skip
        if over:
            raise VxcError(Diagnostic("E0712", f"`{name}` needs {message}", help=hint))


@value
class _Call:
    """What the schedule of a call depends on. Scalars are equal if they print alike: -0.0 is not 0.0, and 1 is neither 1.0 nor True."""

    identity: int  # of `compiled`, which lives as long as this
    arrays: tuple[tuple[str, Described], ...]
    names: tuple[str, ...]
    texts: tuple[str, ...]
    compiled: Compiled = field(compare=False)
    values: tuple[Any, ...] = field(compare=False)

    @classmethod
    def of(cls, compiled: Compiled, arrays: Mapping[str, Described], scalars: Mapping[str, Any]) -> _Call:
        values = tuple(scalars.values())
        return cls(id(compiled), tuple(arrays.items()), tuple(scalars), tuple(map(repr, values)), compiled, values)


@lru_cache(maxsize=256)
def _steps(call: _Call) -> Schedule:
    """The launches of a call, worked out once for calls alike: a small kernel is over in less time than this takes."""
    compiled = call.compiled
    binding = bind_plan(compiled.plan, dict(call.arrays), dict(zip(call.names, call.values)), source=compiled.source)
    return scheduled(compiled, binding)


@lru_cache(maxsize=256)
def _arrays(params: tuple[Value | Buffer, ...]) -> Mapping[str, ArrayParam]:
    return {p.name: p for p in signature(params) if isinstance(p, ArrayParam)}


# ---- running ----------------------------------------------------------------------------------------------------------


def scheduled(compiled: Compiled, binding: Binding) -> Schedule:
    """The launches of a call, all within the limits of the device. Raises `VxcError` E0705, E0712."""
    plan = schedule(compiled.plan, binding, compiled.source)
    for step in plan.launches:
        check_limits(step, compiled.binary.kernels.get(kernel_symbol(step.kernel.name)), target(compiled.binary.arch))
    return plan


def device_of_all(cuda: Driver, views: Mapping[str, ArrayView]) -> int:
    devices = {cuda.device_of(view.ptr): name for name, view in views.items() if view.size}
    if len(devices) > 1:
        places = ", ".join(f"`{name}` on device {device}" for device, name in devices.items())
        raise VxcError(Diagnostic("E0703", f"the arguments lie on several devices: {places}", help="move them to one device"))
    return next(iter(devices)) if devices else cuda.current_device()


@lru_cache(maxsize=4096)
def loaded(cuda: Driver, cubin: bytes, name: str, device: int, shared: int) -> Any:
    """A kernel of a module, loaded once for each device, whose context must be current, ready for so much dynamic shared memory."""
    function = cuda.function(_module(cuda, cubin, device), name)
    if shared > STATIC_SHARED_BYTES:
        cuda.set_max_dynamic_shared(function, shared)
    return function


@lru_cache(maxsize=4096)
def _module(cuda: Driver, cubin: bytes, device: int) -> Any:
    return cuda.load(cubin)


def two_to_a_byte(elements: np.ndarray) -> np.ndarray:
    """4-bit elements as kernels read them, the even ones in the low halves; NumPy arrays have a byte for each."""
    nibbles = np.zeros(len(elements) + len(elements) % 2, np.uint8)
    nibbles[: len(elements)] = elements.view(np.uint8) & 15
    return nibbles[::2] | nibbles[1::2] << 4


def _staged(param: ArrayParam, given: np.ndarray | None, binding: Binding) -> tuple[np.ndarray, np.ndarray]:
    """What goes to the device for a parameter, as (memory, view of it): laid out as declared, filled from `given` or poisoned."""
    shape = binding.shapes[param.name]
    strides = row_major(shape)
    if param.strides is not None:
        strides = tuple(binding.dims[s] if isinstance(s, str) else s for s in param.strides)
    raw = poisoned(span(shape, strides), param.dtype)
    view = np.ndarray(shape, raw.dtype, raw, strides=[s * raw.itemsize for s in strides])
    if given is not None:
        view[...] = given.view(param.dtype.numpy)
    return raw, view
