"""The driver protocol: packing by declared type, contexts, errors (on a stand-in for CUDA), and launches on a GPU."""

from __future__ import annotations

import builtins
import ctypes
import enum
import gc
import os
import struct
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from vxc.cuda.nvrtc import compile_cuda
from vxc.diag import VxcError
from vxc.dtypes import DTYPES
from vxc.runtime import driver as driver_module
from vxc.runtime import library
from vxc.runtime.driver import Driver, PyCudaDriver, driver, unavailable
from vxc.runtime.library import reference
from vxc.runtime.parameters import pack, pointer, scalar
from vxc.target import for_capability


def refused(code, function, *arguments):
    with pytest.raises(VxcError) as caught:
        function(*arguments)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.help
    return diagnostic.message


# ---- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("f32", 5.0, struct.pack("<f", 5)), ("f32", 2, struct.pack("<f", 2)), ("f32", 0.125, struct.pack("<f", 0.125)),
        ("f32", 1e300, struct.pack("<f", np.inf)), ("f64", 0.1, struct.pack("<d", 0.1)), ("f16", 1 / 3, struct.pack("<e", 1 / 3)),
        ("bf16", 1 + 2**-8 + 2**-30, ml_dtypes.bfloat16(1 + 2**-7).tobytes()), ("f8e4m3", 448, b"\x7e"),
        ("i32", 5, struct.pack("<i", 5)), ("i64", -1, b"\xff" * 8), ("u8", 255, b"\xff"), ("i4", -8, b"\xf8"),
        ("bool", True, b"\1"), ("bool", False, b"\0"),
    ],
)  # fmt: skip
def test_scalars_are_packed_by_their_declared_type(dtype, value, expected):
    packed = scalar(DTYPES[dtype], value)
    assert bytes(packed) == expected and ctypes.sizeof(packed) == DTYPES[dtype].bytes


def test_pack_points_at_each_value():
    packed = pack([pointer(4096), scalar(DTYPES["f32"], 0.5), scalar(DTYPES["u8"], 7)])
    table = (ctypes.c_void_p * 3).from_address(packed.address)
    read = [kind.from_address(table[i]).value for i, kind in enumerate((ctypes.c_void_p, ctypes.c_float, ctypes.c_uint8))]
    assert read == [4096, 0.5, 7]


# ---- a stand-in for CUDA ----------------------------------------------------------------------------------------------


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


class CaptureMode(enum.IntEnum):
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class FakeCuda(SimpleNamespace):
    """Records calls; a name in `failing` gives that status, others succeed with a made-up result."""

    def __init__(self, **failing):
        super().__init__(calls=[], failing=failing, CUlaunchConfig=SimpleNamespace, CUstreamCaptureMode=CaptureMode)
        self.CUlaunchAttribute = lambda: SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))
        self.CUlaunchAttributeID = SimpleNamespace(
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6
        )

    def cuGetErrorString(self, status):
        return Status.CUDA_SUCCESS, f"meaning of {int(status)}".encode()

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.calls.append((name, *arguments))
            return self.failing.get(name, Status.CUDA_SUCCESS), 4096

        return call


def test_failed_calls_say_what_cuda_says():
    fake = Driver(FakeCuda(cuMemAlloc=Status.CUDA_ERROR_OUT_OF_MEMORY, cuStreamSynchronize=Status.CUDA_ERROR_LAUNCH_FAILED))
    assert refused("E0604", fake.allocate, 10) == "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (meaning of 2)"
    assert refused("E0604", fake.synchronize, 0) == "cuStreamSynchronize failed: CUDA_ERROR_LAUNCH_FAILED (meaning of 719)"


@pytest.mark.parametrize("nbytes, size", [(0, 16), (1, 16), (16, 16), (18, 32), (32, 32)])
def test_memory_is_whole_vectors_the_last_of_them_cleared(nbytes, size):
    cuda = FakeCuda()
    assert Driver(cuda).allocate(nbytes) == 4096
    clear = [("cuMemsetD8Async", 4096 + size - 16, 0, 16, 0)] if nbytes < size else []
    assert [call for call in cuda.calls if "CaptureMode" not in call[0]] == [("cuMemAlloc", size), *clear]


class Capturing(FakeCuda):
    """While another thread captures: what is about memory breaks that, but for a thread that says it has no part in it."""

    def __init__(self, **failing):
        super().__init__(**failing)
        self.mode, self.broken = CaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL, False

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before, self.mode = self.mode, mode
        return Status.CUDA_SUCCESS, before

    def _memory(self, *_):
        self.broken |= self.mode != CaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        return (Status.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if self.broken else self.failing.get("memory", Status.CUDA_SUCCESS)), 4096

    cuMemAlloc = cuMemFree = cuMemAllocAsync = cuMemFreeAsync = _memory


@pytest.mark.parametrize(
    "how", [lambda d: d.allocate(16), lambda d: d.free(1), lambda d: d.allocate_async(16, 7), lambda d: d.free_async(1, 7)]
)
def test_memory_breaks_no_capture(how):
    """Of whatever thread; and the mode of this one is what it was, also where there is no memory."""
    cuda = Capturing()
    how(Driver(cuda))
    assert not cuda.broken and cuda.mode == CaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    cuda = Capturing(memory=Status.CUDA_ERROR_OUT_OF_MEMORY)
    assert "OUT_OF_MEMORY" in refused("E0604", how, Driver(cuda))
    assert cuda.mode == CaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL


def test_memory_of_pycuda_breaks_no_capture():
    cuda = Capturing()

    def mem_alloc(nbytes):
        cuda._memory()
        return SimpleNamespace(free=cuda._memory)

    fake = PyCudaDriver(cuda, SimpleNamespace(init=lambda: None, Error=OSError, MemoryError=MemoryError, mem_alloc=mem_alloc))
    fake.free(fake.allocate(16))
    assert not cuda.broken and cuda.mode == CaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL


def test_the_context_is_retained_once_and_popped_also_after_an_error():
    cuda = FakeCuda()
    fake = Driver(cuda)
    with fake.active(0):
        pass
    with pytest.raises(KeyError), fake.active(0):
        raise KeyError
    assert [c[0] for c in cuda.calls] == ["cuDevicePrimaryCtxRetain", *["cuCtxPushCurrent", "cuCtxPopCurrent"] * 2]


def test_a_forked_process_is_told_so(monkeypatch):
    fake = Driver(FakeCuda())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert "initialised before this process was forked" in refused("E0603", fake.active(0).__enter__)


def test_launch_configuration():
    cuda = FakeCuda()
    Driver(cuda).launch("f", (7, 1, 1), (256, 1, 1), 1024, 99, pack([]), cluster=(2, 1, 1))
    ((name, config, function, _, extra),) = cuda.calls
    assert (name, function, extra) == ("cuLaunchKernelEx", "f", 0)
    assert (config.gridDimX, config.blockDimX, config.sharedMemBytes, config.hStream, config.numAttrs) == (7, 256, 1024, 99, 1)
    assert vars(config.attrs[0].value.clusterDim) == {"x": 2, "y": 1, "z": 1}


@pytest.mark.parametrize("cluster, count", [((1, 1, 1), 1), ((2, 1, 1), 2)])
def test_an_early_launch_says_so(cluster, count):
    config = Driver(FakeCuda()).launch_config((7, 1, 1), (256, 1, 1), 0, 99, cluster, early=True)
    assert config.numAttrs == len(config.attrs) == count
    assert config.attrs[-1].id == 6
    assert config.attrs[-1].value.programmaticStreamSerializationAllowed == 1


def test_arguments_of_raw_launches_lie_where_the_bindings_have_them():
    """And stay there: nothing else holds what the bindings made."""
    from cuda.bindings import driver as bindings

    config = Driver(bindings).raw_config((7, 1, 1), (256, 1, 1), 1024, 99, early=True)
    function = Driver(bindings).raw_function(bindings.CUfunction(1 << 40))
    gc.collect()
    words, longs = (ctypes.cast(config, ctypes.POINTER(kind)) for kind in (ctypes.c_uint, ctypes.c_uint64))  # as cuda.h lays them out
    assert words[:7] == [7, 1, 1, 256, 1, 1, 1024] and longs[4] == 99 and longs[5] != 0 and words[12] == 1
    assert ctypes.cast(function, ctypes.c_void_p).value == 1 << 40


def test_no_bindings_is_a_diagnostic(monkeypatch):
    def without_bindings(name, *rest, real=builtins.__import__):
        if name.startswith("cuda"):
            raise ImportError("No module named 'cuda'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_bindings)
    assert refused("E0603", driver_module._bindings) == "the package cuda-bindings cannot be imported"


def test_a_library_that_is_not_found_is_no_driver(monkeypatch):
    def no_library(_):
        raise RuntimeError("libcuda.so.1 not found")

    monkeypatch.setattr("cuda.bindings.driver.cuInit", no_library)
    assert refused("E0603", driver_module._bindings) == "no NVIDIA driver found"


def test_unavailable_is_a_reason_or_none(monkeypatch):
    for count, reason in ((0, "the CUDA driver finds no device"), (1, None)):
        monkeypatch.setattr(driver_module, "driver", lambda: SimpleNamespace(device_count=lambda: count))
        assert unavailable() == reason


# ---- on a GPU ---------------------------------------------------------------------------------------------------------

SCALE = """
extern "C" __global__ void scale(float* x, float a, unsigned char n) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x] * a;
    __syncthreads();
    if (threadIdx.x < n) x[threadIdx.x] = s[threadIdx.x];
}
"""


def drivers():
    yield driver()
    yield Driver(driver()._cu)


def test_the_device_of_an_address_is_what_the_library_says(monkeypatch):
    """And not what `cuda-bindings` make of it, of which some say 0 for every address."""

    def attribute(into, which, address):
        into._obj.value = 5
        return 0 if which == library.DEVICE_ORDINAL and address.value == 4096 else 1

    monkeypatch.setattr(library, "library", lambda: SimpleNamespace(cuPointerGetAttribute=attribute))
    wrong = SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE")
    bindings = SimpleNamespace(CUresult=lambda status: wrong, cuGetErrorString=lambda status: (0, b"no"))
    assert Driver(bindings).device_of(4096) == 5
    assert "cuPointerGetAttribute failed: CUDA_ERROR_INVALID_VALUE (no)" in refused("E0604", Driver(bindings).device_of, 64)


@pytest.mark.gpu
def test_a_kernel_runs_through_either_driver():
    for device in drivers():
        binary = compile_cuda(SCALE, "scale.cu", for_capability(device.capability(0)).name)
        array = np.arange(256, dtype=np.float32)
        with device.active(0):
            memory = device.allocate(array.nbytes)
            device.upload(memory, array)
            function = device.function(device.load(binary.cubin), "scale")
            device.set_max_dynamic_shared(function, 100_000)
            arguments = pack([pointer(int(memory)), scalar(DTYPES["f32"], 2), scalar(DTYPES["u8"], 200)])
            start, end = device.event(), device.event()
            device.record(start, 0)
            device.launch(function, (1, 1, 1), (256, 1, 1), 100_000, 0, arguments)
            device.record(end, 0)
            assert device.elapsed(start, end) > 0
            result = np.empty_like(array)
            device.download(result, memory)
            assert device.registers(function) == binary.kernels["scale"].registers
            assert device.device_of(int(memory)) == 0
            device.free(memory)
        assert np.array_equal(result, np.where(np.arange(256) < 200, array * 2, array))


@pytest.mark.gpu
def test_a_raw_launch_runs_or_says_why_not():
    device, result = driver(), np.zeros(256, np.float32)
    binary = compile_cuda(SCALE, "scale.cu", for_capability(device.capability(0)).name)
    with device.active(0):
        memory = device.allocate(result.nbytes)
        device.upload(memory, np.ones_like(result))
        function = device.raw_function(device.function(device.load(binary.cubin), "scale"))
        packed = pack([pointer(int(memory)), scalar(DTYPES["f32"], 3), scalar(DTYPES["u8"], 255)])
        table, enqueue = reference(packed.address, packed), device.raw_launch()
        assert enqueue(device.raw_config((1, 1, 1), (256, 1, 1), 1024, 0, early=False), function, table, None) == 0
        device.download(result, memory)
        status = enqueue(device.raw_config((1, 1, 1), (2048, 1, 1), 1024, 0, early=False), function, table, None)
        device.free(memory)
    assert result.tolist() == [3.0] * 255 + [1.0]
    assert "cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE" in device.refused(status).diagnostics[0].message


@pytest.mark.gpu
def test_stream_ordered_memory_and_16_bit_arrays():
    for device in drivers():
        array = np.arange(100).astype(ml_dtypes.bfloat16)
        with device.active(0):
            memory = device.allocate(array.nbytes)
            device.upload(memory, array)
            result = np.zeros_like(array)
            device.download(result, memory)
            device.free(memory)
            address = device.allocate_async(1000, 0)
            device.fill_async(address, 0x5A, 1000, 0)
            device.wait(0, 0)
            device.free_async(address, 0)
            device.synchronize(0)
        assert np.array_equal(result, array)


@pytest.mark.gpu
def test_a_cubin_for_another_gpu_is_refused_with_advice():
    other = "sm_80" if driver().capability(0)[0] != 8 else "sm_90a"
    cubin = compile_cuda(SCALE, "scale.cu", other).cubin
    with driver().active(0):
        assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in refused("E0604", driver().load, cubin)


@pytest.mark.gpu
def test_too_much_memory_is_a_diagnostic():
    for device in drivers():
        with device.active(0):
            assert "out of memory" in refused("E0604", device.allocate, 2**50)
