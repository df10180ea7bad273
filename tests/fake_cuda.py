"""A CUDA driver in memory, for tests of calls without a GPU, and a library of device arrays.

`FakeCuda` stands where `vxc.runtime.driver.Driver` does, and nothing else is replaced but NVRTC: device memory is host memory, and a
launch reads its parameters where the real one would and interprets the kernel. `FakeTorch` is as much of torch as calls look at.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from vxc.cuda.nvrtc import Binary
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DTYPES, DType, from_numpy
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.runtime.parameters import _C_TYPES

SHIFT = "kernel shift(x: f32[N], out y: f32[N], n: i32) { parallel i in N { y[i] = x[i] + (n as f32); } }"
CHAIN = """
kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = x[i] * a; } }
kernel shift(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 1.0; } }
program chain(x: f32[N], a: f32, out y: f32[N]) { local w: f32[N]; scale(x, a, w); shift(w, y); }
"""
FOREIGN = range(1 << 59, 1 << 60)  # addresses of a context that is not the primary one
SECOND = range(1 << 60, 1 << 61)  # addresses that the fake takes for those of device 1


class FakeCuda:
    """`log` says in which order things happened."""

    def __init__(self, devices: int = 1):
        self.devices, self.log, self.memory = devices, [], {}
        self.pid, self.captured, self.fails, self.current = os.getpid(), set(), [], 0

    def check_process(self):
        if os.getpid() != self.pid:
            raise VxcError(Diagnostic("E0603", "CUDA was initialised before this process was forked", help="spawn it"))

    def device_count(self):
        return self.devices

    def capability(self, device):
        return (9, 0)

    def device_of(self, address):
        if address == 64:
            raise VxcError(Diagnostic("E0604", "cuPointerGetAttribute failed: CUDA_ERROR_INVALID_VALUE (invalid argument)", help="look"))
        return int(address in SECOND)

    def is_foreign(self, address):
        return address in FOREIGN

    def current_device(self):
        return self.current

    def adopt(self, device):
        self.log.append(f"adopt {device}")

    @contextlib.contextmanager
    def active(self, device):
        yield

    def capturing(self, stream):
        return stream in self.captured

    def stream_id(self, stream):
        return stream + 1000

    def allocate_async(self, nbytes, stream):
        self.log.append(f"allocate {nbytes} on {stream}")
        return self.allocate(nbytes)

    def free_async(self, address, stream):
        self.log.append(f"free on {stream}")
        self.free(address)

    def allocate(self, nbytes):
        buffer = (ctypes.c_char * max(nbytes, 1))()
        self.memory[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def free(self, address):
        del self.memory[address]

    def upload(self, address, array):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def synchronize(self, stream):
        self.log.append(f"synchronize {stream}")

    def wait(self, stream, producer):
        self.log.append(f"{stream} waits for {producer}")

    def load(self, cubin):
        self.log.append("load")
        return cubin

    def function(self, module, name):
        return pickle.loads(module)[name]

    def set_max_dynamic_shared(self, function, nbytes):
        pass

    def launch_config(self, grid, block, shared, stream, cluster=(1, 1, 1), early=False):
        return grid, block, shared, stream

    def raw_config(self, grid, block, shared, stream, early):
        return self.launch_config(grid, block, shared, stream, early=early)

    def raw_function(self, function):
        return function

    def launch(self, function, grid, block, shared, stream, parameters, early=False):
        self._run(self.launch_config(grid, block, shared, stream), function, parameters.address)

    def raw_launch(self):
        return lambda config, function, parameters, _: self._run(config, function, ctypes.cast(parameters, ctypes.c_void_p).value)

    def refused(self, status):
        return self.failed("cuLaunchKernelEx", status)

    def failed(self, name, status):
        return VxcError(Diagnostic("E0604", f"{name} failed: {status}", help="look"))

    def _run(self, config, kernel: Kernel, address: int) -> int | str:
        """Interprets a kernel on what its parameters point at."""
        if self.fails:
            return self.fails.pop(0)
        (blocks, _, _), _, _, stream = config
        self.log.append(f"{kernel.name} x{blocks} on {stream}")
        table = (ctypes.c_void_p * max(len(kernel.params), 1)).from_address(address)
        places = {p.name: table[at] for at, p in enumerate(kernel.params)}
        numbers = {p.name: _C_TYPES[p.dtype.name].from_address(places[p.name]).value for p in kernel.params if isinstance(p, Value)}
        params = tuple(replace(p, space="param", mode=p.mode or "inout") if isinstance(p, Buffer) else p for p in kernel.params)
        plan = Plan("f", params, (Inst("launch", (Const(blocks), *params), None, (("kernel", kernel.name),)),), (kernel,))
        addresses = {b.name: ctypes.c_uint64.from_address(places[b.name]).value for b in plan.buffers}
        arrays = {b.name: _array(b, addresses[b.name], numbers) for b in plan.buffers}
        bases = {name: address % 16 for name, address in addresses.items()}
        dims = {d.name for d in plan.dims}
        scalars = {name: number for name, number in numbers.items() if name not in dims}
        free = {name: number for name, number in numbers.items() if name in dims}
        for name, result in run_flat(plan, arrays, scalars, dims=free, debug=False, bases=bases).items():
            arrays[name][...] = result
        return 0


class PythonCuda(FakeCuda):
    """The kernels are those of test_launch.py, in Python; the log has threads, too."""

    def function(self, module, name):
        return name

    def launch(self, function, grid, block, shared, stream, parameters, early=False):
        self.log.append(f"{function} {grid[0]}x{block[0]} on {stream}{' early' * early}")
        _, *values = (getattr(value, "value", value) for value in parameters.values)
        if function == "scale":
            n, x, a, w = values
            floats_at(w, n)[:] = floats_at(x, n) * np.float32(a)
        else:
            k, w, y = values
            floats_at(y, k)[:] = floats_at(w, k + 1)[1:]


def floats_at(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)


def _array(buffer: Buffer, address: int, numbers) -> np.ndarray:
    def known(parts):
        return tuple(p.value if isinstance(p, Const) else numbers[p.name] for p in parts)

    shape = known(buffer.shape)
    strides = known(buffer.strides) if buffer.strides is not None else tuple(int(np.prod(shape[d + 1 :])) for d in range(len(shape)))
    size = buffer.dtype.bytes
    reach = (1 + sum((n - 1) * s for n, s in zip(shape, strides))) * size if 0 not in shape else 0
    memory = (ctypes.c_char * max(reach, 1)).from_address(address or ctypes.addressof(_NOTHING))
    return np.ndarray(shape, buffer.dtype.numpy, memory, 0, [s * size for s in strides])


_NOTHING = ctypes.c_char()


def without_nvrtc():
    """A stand-in for `Compiled.binary`, whose cubin is the kernels' IR by symbol, pickled: each launch runs what was compiled for it, in
    another process too.
    """

    def binary(made):
        return Binary(made.target.name, pickle.dumps({made.symbol(k.name): k for k in made.plan.kernels}), "", "", {})

    found = cached_property(binary)
    found.__set_name__(None, "binary")
    return found


class Device:
    """A device array with the CUDA array interface; `array` owns the memory."""

    def __init__(self, array, **interface):
        self.array = array
        self.__cuda_array_interface__ = {
            "version": 3, "shape": array.shape, "strides": array.strides, "typestr": array.dtype.str, "data": (array.ctypes.data, False),
            **interface,
        }  # fmt: skip


class Tensor:
    """A tensor over a NumPy array."""

    def __init__(self, array, device=0):
        self.array, self.ordinal, self.negated, self.freed = array, device, False, False
        self.dtype = _DTYPES[from_numpy(array.dtype)]
        self.layout, self.is_cuda, self.device = "strided", device >= 0, SimpleNamespace(type="cuda" if device >= 0 else "cpu")

    shape = property(lambda self: self.array.shape)

    def get_device(self):
        return self.ordinal

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def data_ptr(self):
        return 0 if self.freed else self.array.ctypes.data

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def element_size(self):
        return self.array.itemsize

    def numel(self):
        return self.array.size

    def is_neg(self):
        return self.negated

    def is_conj(self):
        return False


class GPUArray(Device):
    """As PyCUDA's."""

    shape, dtype, strides = (property(lambda self, name=name: getattr(self.array, name)) for name in ("shape", "dtype", "strides"))
    gpudata = property(lambda self: self.array.ctypes.data)


class DeviceNDArray(Device):
    """As Numba's."""

    shape, dtype, strides = (property(lambda self, name=name: getattr(self.array, name)) for name in ("shape", "dtype", "strides"))
    device_ctypes_pointer = property(lambda self: SimpleNamespace(value=self.array.ctypes.data))
    stream = 0


GPUArray.__module__, DeviceNDArray.__module__ = "pycuda.gpuarray", "numba.cuda.cudadrv.devicearray"
EMPTY = {
    "pycuda": SimpleNamespace(gpuarray=SimpleNamespace(empty=lambda shape, dtype: GPUArray(np.empty(shape, dtype)))),
    "numba": SimpleNamespace(cuda=SimpleNamespace(device_array=lambda shape, dtype: DeviceNDArray(np.empty(shape, dtype)))),
}
"""The modules of the two, as far as calls look at them."""


class TorchDType:
    def __init__(self, dtype: DType):
        self.vxc = dtype

    def __str__(self):
        return f"torch.{self.vxc.numpy_name}"


Tensor.__module__ = "torch"
_DTYPES = {dtype: TorchDType(dtype) for dtype in DTYPES.values()}


class TensorGuards:
    """As torch's: tells tensors from those that it was made of."""

    def __init__(self, *tensors, dynamic_dims_sizes, dynamic_dims_strides):
        self.known = [self.seen(t) for t in tensors]

    def seen(self, t):
        return isinstance(t, Tensor) and (t.shape, t.stride(), t.dtype, t.ordinal, t.negated, t.layout)

    def check(self, *tensors):
        return [self.seen(t) for t in tensors] == self.known


class FakeTorch(SimpleNamespace):
    """`stream` is the current stream, on every device."""

    def __init__(self):
        super().__init__(stream=0, device_now=0, strided="strided", __version__="2.11", Tensor=Tensor)
        for dtype, native in _DTYPES.items():
            setattr(self, dtype.numpy_name, native)
        guards = SimpleNamespace(guards=SimpleNamespace(TensorGuards=TensorGuards))
        current = {"_cuda_getCurrentRawStream": lambda device: self.stream, "_cuda_getDevice": lambda: self.device_now}
        self._C = SimpleNamespace(_dynamo=guards, **current)
        self.device = lambda kind, at: at

    def empty_strided(self, shape, strides, dtype, device):
        return Tensor(np.empty(shape, dtype.vxc.numpy), device)


def floats(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def content(array) -> np.ndarray:
    """What an array of the host, of this library or of vxc holds."""
    if isinstance(array, np.ndarray) or hasattr(array, "array"):
        return getattr(array, "array", array)
    shape, (address, _) = (array.__cuda_array_interface__[part] for part in ("shape", "data"))
    data = (ctypes.c_char * (int(np.prod(shape)) * array.dtype.itemsize)).from_address(address or ctypes.addressof(_NOTHING))
    return np.frombuffer(bytes(data), array.dtype).reshape(shape)
