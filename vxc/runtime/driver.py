"""The small part of the CUDA driver that launching needs, behind one class.

Modules, launches, streams and events go through `cuda.bindings.driver`: PyCUDA cannot use a stream that it did not make,
launch clusters, or pass packed parameters. Contexts and plain memory belong to PyCUDA where it is importable (`PyCudaDriver`),
else to the bindings too (`Driver`). Both use the primary context, so torch and CuPy arrays are reachable.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from vxc.diag import Diagnostic, VxcError
from vxc.runtime.launches import Launches
from vxc.runtime.library import device_ordinal
from vxc.runtime.queues import Queues
from vxc.target import VECTOR, whole_vectors


class Driver(Queues, Launches):
    """The CUDA driver through `cuda.bindings` alone. Handles are opaque, addresses are ints, `stream` is a raw stream handle.

    Every call but `active` and those on devices wants the context of the device current: use `with driver.active(device):`.
    A call that CUDA refuses raises `VxcError` E0604 with CUDA's name and meaning of the error.
    """

    name = "cuda-bindings"

    def __init__(self, bindings: Any) -> None:
        self._cu = bindings
        self._pid = os.getpid()
        self._contexts: dict[int, Any] = {}
        self._primaries: dict[int, Any] = {}

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *results = getattr(self._cu, name)(*arguments)
        if int(status):
            raise self.failed(name, status)
        return results[0] if len(results) == 1 else None

    def failed(self, name: str, status: Any) -> VxcError:
        meaning = self._cu.cuGetErrorString(status)[1]
        text = meaning.decode() if isinstance(meaning, bytes) else "no meaning is given"
        message = f"{name} failed: {status.name} ({text})"
        return VxcError(Diagnostic("E0604", message, help=_ADVICE.get(status.name, _DEFAULT_ADVICE)))

    # devices and contexts

    def device_count(self) -> int:
        return self._call("cuDeviceGetCount")

    def device_name(self, device: int) -> str:
        return self._call("cuDeviceGetName", 256, device).split(b"\0")[0].decode()

    def capability(self, device: int) -> tuple[int, int]:
        """Such as (9, 0)."""
        attribute = self._cu.CUdevice_attribute
        return (
            self._call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
            self._call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        )

    def driver_version(self) -> tuple[int, int]:
        """The newest CUDA that the display driver supports, such as (13, 0)."""
        version = self._call("cuDriverGetVersion")
        return version // 1000, version % 1000 // 10

    def current_device(self) -> int:
        """The device of this thread's current context; 0 where there is none."""
        status, device = self._cu.cuCtxGetDevice()
        return 0 if int(status) else int(device)

    def device_of(self, address: int) -> int:
        """The device whose memory holds an address."""
        status, device = device_ordinal(address)
        if status:
            raise self.failed("cuPointerGetAttribute", self._cu.CUresult(status))
        return device

    def is_foreign(self, address: int) -> bool:
        """Whether memory is of this thread's current context, and that is not the primary one of its device: out of reach of kernels."""
        current = int(self._cu.cuCtxGetCurrent()[1])  # 0 for none
        owner = self._call("cuPointerGetAttribute", self._cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT, address)
        return current == int(owner) != 0 and current != int(self._primary(self.current_device()))

    def _primary(self, device: int) -> Any:
        """The handle of the primary context of a device, which stays retained."""
        if device not in self._primaries:
            self._primaries[device] = self._call("cuDevicePrimaryCtxRetain", device)
        return self._primaries[device]

    def check_process(self) -> None:
        """Raises `VxcError` E0603 in a process that was forked after CUDA was initialised."""
        if os.getpid() != self._pid:
            hint = "start the process with multiprocessing.get_context('spawn')"
            raise VxcError(Diagnostic("E0603", "CUDA was initialised before this process was forked", help=hint))

    def adopt(self, device: int) -> None:
        """Gives a thread that has no context the primary one of a device, for good, as the CUDA runtime does."""
        status, context = self._cu.cuCtxGetCurrent()
        if not int(status) and not int(context):
            self._call("cuCtxSetCurrent", self._primary(device))

    @contextlib.contextmanager
    def active(self, device: int) -> Iterator[None]:
        """Makes the primary context of a device current, and what was current before again afterwards."""
        self.check_process()
        if device not in self._contexts:
            self._contexts[device] = self._retain(device)
        self._push(self._contexts[device])
        try:
            yield
        finally:
            self._pop(self._contexts[device])

    _retain = _primary  # the context as `_push` takes it

    def _push(self, context: Any) -> None:
        self._call("cuCtxPushCurrent", context)

    def _pop(self, context: Any) -> None:
        self._call("cuCtxPopCurrent")

    # memory, on the legacy default stream
    def allocate(self, nbytes: int) -> Any:
        """Device memory; `int()` of the result is its address, a multiple of 256. What `nbytes` leaves of the last vector is cleared, since
        kernels load the whole of it.
        """
        size = whole_vectors(nbytes)
        with self._beside_captures():
            memory = self._allocated(size)
        if size > nbytes:
            self.fill_async(int(memory) + size - VECTOR, 0, VECTOR, 0)
        return memory

    def _allocated(self, nbytes: int) -> Any:
        return self._call("cuMemAlloc", nbytes)

    def free(self, memory: Any) -> None:
        with self._beside_captures():
            self._freed(memory)

    def _freed(self, memory: Any) -> None:
        self._call("cuMemFree", memory)

    @contextlib.contextmanager
    def _beside_captures(self) -> Iterator[None]:
        """For memory, which is none of a graph's: while any thread captures, or this one, CUDA refuses to get or give back any, and breaks
        the capture for it. Threads do not know of each other's captures, and Python's collector gives back when it likes.
        """
        relaxed = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self._call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", before)

    def upload(self, memory: Any, array: np.ndarray) -> None:
        """Copies a contiguous array to the device."""
        self._call("cuMemcpyHtoD", memory, array.ctypes.data, array.nbytes)

    def download(self, array: np.ndarray, memory: Any) -> None:
        """Copies from the device into a contiguous array, after all work on the default stream."""
        self._call("cuMemcpyDtoH", array.ctypes.data, memory, array.nbytes)

    # memory, in stream order

    def allocate_async(self, nbytes: int, stream: int) -> int:
        """The address of device memory that exists from this point of the stream to `free_async`."""
        with self._beside_captures():
            return int(self._call("cuMemAllocAsync", whole_vectors(nbytes), stream))

    def free_async(self, address: int, stream: int) -> None:
        with self._beside_captures():
            self._call("cuMemFreeAsync", address, stream)

    def fill_async(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        if nbytes:
            self._call("cuMemsetD8Async", address, byte, nbytes, stream)

    def copy_async(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copies within the device."""
        self._call("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    # modules

    def load(self, cubin: bytes) -> Any:
        """A module, in the current context."""
        return self._call("cuModuleLoadData", cubin)

    def function(self, module: Any, name: str) -> Any:
        return self._call("cuModuleGetFunction", module, name.encode())

    def registers(self, function: Any) -> int:
        """Registers of a thread."""
        return self._call("cuFuncGetAttribute", self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)

    def set_max_dynamic_shared(self, function: Any, nbytes: int) -> None:
        """Must come before launches with more than 48 KiB of dynamic shared memory."""
        attribute = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, attribute, nbytes)

    # streams

    def synchronize(self, stream: int) -> None:
        """Waits for all work of a stream; errors of kernels that ran on it show here."""
        self._call("cuStreamSynchronize", stream)

    def capturing(self, stream: int) -> bool:
        """Whether what is put on the stream becomes part of a graph instead of running."""
        return int(self._call("cuStreamIsCapturing", stream)) != 0

    def stream_id(self, stream: int) -> int:
        """What tells a stream from every other of the process, also from one that had its handle before."""
        return int(self._call("cuStreamGetId", stream))


class PyCudaDriver(Driver):
    """Contexts and plain memory are PyCUDA's, so that its GPUArrays and pools live beside ours.

    The primary context is on PyCUDA's stack only within `active`: left there, it aborts the process at exit.
    """

    name = "PyCUDA"

    def __init__(self, bindings: Any, pycuda: Any) -> None:
        super().__init__(bindings)
        self._pycuda = pycuda
        pycuda.init()

    def _retain(self, device: int) -> Any:
        return self._pycuda.Device(device).retain_primary_context()

    def _push(self, context: Any) -> None:
        context.push()

    def _pop(self, context: Any) -> None:
        context.pop()

    def _allocated(self, nbytes: int) -> Any:
        with self._translated():
            return self._pycuda.mem_alloc(nbytes)

    def _freed(self, memory: Any) -> None:
        with self._translated():
            memory.free()

    def upload(self, memory: Any, array: np.ndarray) -> None:
        with self._translated():
            self._pycuda.memcpy_htod(memory, _bytes(array))

    def download(self, array: np.ndarray, memory: Any) -> None:
        with self._translated():
            self._pycuda.memcpy_dtoh(_bytes(array), memory)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """PyCUDA's errors as ours."""
        try:
            yield
        except self._pycuda.Error as error:
            hint = _ADVICE["CUDA_ERROR_OUT_OF_MEMORY"] if isinstance(error, self._pycuda.MemoryError) else _DEFAULT_ADVICE
            raise VxcError(Diagnostic("E0604", str(error), help=hint)) from None


def _bytes(array: np.ndarray) -> np.ndarray:
    """The same memory as bytes: arrays of bf16 and f8 do not export themselves."""
    return array.reshape(-1).view(np.uint8)


_DEFAULT_ADVICE = "run with --debug to find a bad access; `vxc doctor` shows the driver in use"
_ADVICE = {
    "CUDA_ERROR_OUT_OF_MEMORY": "use smaller arrays, or free what other programs hold (nvidia-smi lists them)",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the cubin is for another architecture: leave out --arch, or give the device's",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "run with --debug, which checks every index and names the .vx line",
}


def unavailable() -> str | None:
    """Why there is no CUDA here, or None where there is."""
    try:
        return None if driver().device_count() else "the CUDA driver finds no device"
    except VxcError as error:
        return error.diagnostics[0].message


@cache
def driver() -> Driver:
    """The driver of this process: through PyCUDA where that is importable. Raises `VxcError` E0603 where there is no CUDA."""
    bindings = _bindings()
    try:
        import pycuda.driver as pycuda
    except ImportError:
        return Driver(bindings)
    return PyCudaDriver(bindings, pycuda)


def _bindings() -> Any:
    """`cuda.bindings.driver`, initialised. Raises `VxcError` E0603 for what is not there: the package, or the driver behind it."""
    try:
        from cuda.bindings import driver as bindings
    except (ImportError, RuntimeError, OSError) as error:
        raise _absent("the package cuda-bindings cannot be imported", "pip install 'cuda-bindings>=13'", error) from None
    try:
        (status,) = bindings.cuInit(0)
    except (ImportError, RuntimeError, OSError) as error:  # the bindings look for libcuda when they are first used
        raise _absent("no NVIDIA driver found", "install the NVIDIA display driver", error) from None
    if int(status):
        raise VxcError(Diagnostic("E0603", f"the CUDA driver does not start: {status.name}", help="`nvidia-smi` should list the device"))
    return bindings


def _absent(what: str, way_out: str, error: Exception) -> VxcError:
    cause = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")  # behind which comes advice
    return VxcError(Diagnostic("E0603", what, notes=(cause,), help=way_out))
