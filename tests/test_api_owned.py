"""Outputs of calls on arrays of libraries that allocate none: arrays of vxc, and what JAX makes of them; on the driver in memory."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import SECOND, SHIFT, Device, Tensor, content, floats
from tuning_kernels import SCALE

import vxc
from vxc.api.dlpack import capsule, from_dlpack
from vxc.api.owned import DeviceArray
from vxc.dtypes import DTYPES
from vxc.runtime.arrays import describe

SAME = "kernel same<T: dtype>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } }"
TWO = "kernel two(x: f32[N], out y: f32[N], out n: i32[1]) { parallel i in N { y[i] = x[i]; } n[0] = 7; }"


def test_an_output_is_allocated_where_no_library_does(cuda):
    k, x = vxc.kernel(SHIFT), Device(floats(5))
    for n in (1, 2, 2):
        y = k(x, n)
        assert isinstance(y, DeviceArray) and np.array_equal(content(y), floats(5) + n)
    assert repr(y) == "<vxc array y: f32[5] on device 0>" and (y.shape, y.dtype) == ((5,), np.float32)
    assert np.array_equal(content(k(y, 1)), floats(5) + 3)  # which is an argument like any other
    with pytest.raises(vxc.LaunchError, match="`x` and `y` overlap"):
        k(y, y, 1)
    y, n = vxc.kernel(TWO)(x)
    assert np.array_equal(content(y), floats(5)) and content(n).tolist() == [7]
    assert content(vxc.reduction("x: f32 -> f32", "x")(Device(floats(2, 3)))).tolist() == [3, 12]
    assert content(vxc.reduction("x: f32 -> f32", "x", axis=None)(Device(floats(2, 3)))) == 15


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "u16", "i64", "f8e4m3", "f8e5m2", "bool"])
def test_elements_of_every_type(cuda, dtype):
    kind = DTYPES[dtype]
    host = np.arange(6).astype(kind.numpy)
    typestr = host.dtype.str if host.dtype.isbuiltin == 1 else f"|V{kind.bytes}"
    device = SimpleNamespace(__cuda_array_interface__=Device(host.view(f"u{kind.bytes}"), typestr=typestr).__cuda_array_interface__)
    y = vxc.kernel(SAME).define(T=dtype)(device)
    assert np.array_equal(content(y).view(f"u{kind.bytes}"), host.view(f"u{kind.bytes}"))
    assert describe(y, "y").dtype in (kind, None) and from_dlpack(y, "y").dtype is kind


def test_arrays_without_elements_or_dimensions(cuda):
    k = vxc.kernel(SHIFT)
    y = k(Device(floats(0)), 1)
    assert y.shape == (0,) and y.__cuda_array_interface__["data"][0] == 0 and from_dlpack(y, "y").size == 0
    assert k(y, 1).shape == (0,)
    line = vxc.elementwise("x: f32 -> f32", "x + 1")(Device(np.array(3, np.float32)))
    assert line.shape == () and content(line) == 4


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_given_back_with_the_last_that_refers_to_it(cuda):
    k, x = vxc.kernel(SHIFT), Device(floats(5))
    k(x, 1), k(x, 1)
    gc.collect()
    assert not cuda.memory
    y = k(x, 1)
    taken = y.__dlpack__(max_version=(1, 0))
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert len(cuda.memory) == 1 and gone()
    del taken
    gc.collect()
    assert not cuda.memory


def test_what_fails_gives_its_memory_back(cuda):
    k, x = vxc.kernel(SHIFT), Device(floats(5))
    k(x, 1)
    cuda.fails += ["CUDA_ERROR_LAUNCH_FAILED"]
    with pytest.raises(vxc.LaunchError, match="LAUNCH_FAILED"):
        k(x, 1)
    gc.collect()
    assert not cuda.memory and np.array_equal(content(k(x, 1)), floats(5) + 1)


def test_a_context_that_is_gone_is_no_trouble(cuda, monkeypatch, capsys):
    y = vxc.kernel(SHIFT)(Device(floats(5)), 1)
    monkeypatch.setattr(cuda, "active", lambda device: (_ for _ in ()).throw(cuda.failed("cuCtxPushCurrent", "CUDA_ERROR_DEINITIALIZED")))
    del y
    gc.collect()
    assert capsys.readouterr().err == ""


def test_numpy_has_a_copy_and_there_are_no_others(cuda):
    y = vxc.kernel(SHIFT)(Device(floats(2)), 1, stream=7)
    cuda.log.clear()
    assert np.asarray(y).tolist() == [1, 2] and cuda.log == ["synchronize 7"]
    assert np.asarray(y, np.float64).dtype == np.float64 and np.array(y, copy=True).dtype == np.float32
    assert np.asarray(vxc.kernel(SHIFT)(Device(floats(0)), 1)).shape == (0,)
    with pytest.raises(ValueError, match="is copied to become one of NumPy's"):
        np.asarray(y, copy=False)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):  # which would not own its memory
        with pytest.raises(TypeError, match=r"not copied or pickled as it is: np.asarray\(x\) has its elements"):
            copied(y)


# ---- streams and devices ---------------------------------------------------------------------------------------------


def test_who_reads_it_waits_for_the_stream_that_writes_it(cuda):
    k, x = vxc.kernel(SHIFT), Device(floats(5))
    assert k(x, 1).__cuda_array_interface__["stream"] == 1  # as the interface writes the legacy default one
    y = k(x, 1, stream=7)
    assert cuda.log.index("7 waits for 0") < cuda.log.index("shift x1 on 7")
    assert y.__cuda_array_interface__["stream"] == 7
    cuda.log.clear()
    k(y, 1)
    assert cuda.log.index("0 waits for 7") < cuda.log.index("shift x1 on 0")
    for stream, said in ((None, ["0 waits for 7"]), (1, ["0 waits for 7"]), (9, ["9 waits for 7"]), (7, []), (-1, [])):
        cuda.log.clear()
        y.__dlpack__(stream=stream)
        assert cuda.log == said


def test_a_stream_is_kept_by_what_is_on_it(cuda):
    class Stream:
        def __cuda_stream__(self):
            return 0, 7

    k, x, stream = vxc.kernel(SHIFT), Device(floats(5)), Stream()
    gone = weakref.ref(stream)
    y = k(x, 1, stream=stream)
    del stream
    gc.collect()
    assert gone() and y.stream == 7
    del y
    gc.collect()
    assert gone() is None
    stream = Stream()
    gone, b = weakref.ref(stream), k.bind(x, Device(floats(5)), 1, stream=stream)
    del stream
    gc.collect()
    cuda.log.clear()
    b()
    assert gone() and cuda.log == ["shift x1 on 7"]


def test_what_went_wrong_on_its_stream_is_said_as_calls_say_it(cuda, monkeypatch):
    y = vxc.kernel(SHIFT)(Device(floats(5)), 1)
    for name in ("synchronize", "wait"):
        monkeypatch.setattr(cuda, name, lambda *_: (_ for _ in ()).throw(cuda.failed("cuStream", "CUDA_ERROR_ILLEGAL_ADDRESS")))
    for asked in (lambda: np.asarray(y), lambda: y.__dlpack__(stream=5)):
        with pytest.raises(vxc.LaunchError, match="E0604: cuStream failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
            asked()


def test_a_capture_has_its_outputs_given(cuda):
    k, x, y = vxc.kernel(SHIFT), Device(floats(5)), Device(floats(5))
    k(x, 1, stream=7), k(x, y, 1, stream=7)
    cuda.captured.add(7)
    wanted = r"E0708: argument `y` is missing, and no memory is allocated .* into a graph; pass `y`: an array of f32 of shape \[5\]"
    with pytest.raises(vxc.LaunchError, match=wanted):
        k(x, 1, stream=7)
    assert k(x, y, 2, stream=7) is y and np.array_equal(content(y), floats(5) + 2)


def test_it_lies_where_the_inputs_do(cuda):
    cuda.devices = 2
    y = vxc.kernel(SHIFT)(Device(floats(0), data=(SECOND[0], False)), 1)
    assert y.device == 0  # no elements are nowhere
    made = DeviceArray(cuda, "y", (4,), DTYPES["f32"], 1)
    assert made.__dlpack_device__() == (2, 1) and repr(made).endswith("on device 1>")


def test_dlpack_gives_no_copies_and_no_other_device(cuda):
    y = vxc.kernel(SHIFT)(Device(floats(5)), 1)
    for asked in ({"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 1)}):
        with pytest.raises(BufferError, match="is taken where it lies"):
            y.__dlpack__(**asked)
    assert y.__dlpack__(copy=False, dl_device=(2, 0))
    with pytest.raises(BufferError, match="DLPack has no u4"):
        capsule(y, 0, (4,), DTYPES["u4"], (1, 0), True)


class Host:
    """An array of the CPU that gives capsules as arrays of vxc do."""

    def __init__(self, versioned=True, dtype="f32", place=(1, 0)):
        self.array, self.said = floats(3, 4), (DTYPES[dtype], place, versioned)

    def __dlpack_device__(self):
        return self.said[1]

    def __dlpack__(self, **_):
        return capsule(self, self.array.ctypes.data, self.array.shape, *self.said)


@pytest.mark.parametrize("versioned", [False, True])
def test_another_library_takes_a_capsule(versioned):
    host = Host(versioned)
    gone, taken = weakref.ref(host), np.from_dlpack(host)
    assert taken.ctypes.data == host.array.ctypes.data and np.array_equal(taken, host.array) and taken.strides == (16, 4)
    part = taken[1:, ::2]
    del host, taken
    gc.collect()
    assert gone() and part.tolist() == [[4, 6], [8, 10]]
    del part
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_who_refuses_a_capsule_says_why_and_lets_go(versioned):
    place, dtype, used = Host(versioned, place=(2, 0)), Host(versioned, "bf16"), Host(versioned)
    gone = [weakref.ref(one) for one in (place, dtype, used)]
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):
        np.from_dlpack(place)
    with pytest.raises((RuntimeError, BufferError), match="Unsupported dtype"):
        np.from_dlpack(dtype)
    with pytest.raises(TypeError, match="PyCapsule"):
        len(used.__dlpack__())
    del place, dtype, used
    gc.collect()
    assert not any(one() for one in gone)


def test_a_capsule_outlives_the_interpreter():
    text = (
        "import sys, types\nsys.modules['late'] = late = types.ModuleType('late')\nimport numpy as np\nfrom test_api_owned import Host\n"
        "late.taken, late.given = np.from_dlpack(Host()), Host().__dlpack__()"
    )
    ran = subprocess.run([sys.executable, "-c", text], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


# ---- JAX -------------------------------------------------------------------------------------------------------------


class ArrayImpl(Device):
    """As JAX's: nobody else may write it."""

    shape = property(lambda self: self.array.shape)

    def __init__(self, array):
        super().__init__(array, data=(array.ctypes.data, True))


ArrayImpl.__module__ = "jaxlib._jax"


@pytest.fixture
def jax(cuda, monkeypatch):
    def taken_over(array):
        array.__dlpack__(stream=5)
        found = ArrayImpl(content(array))
        cuda.log.append("taken over")
        return found

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())  # which imports no more by itself
    monkeypatch.setitem(sys.modules, "jax.dlpack", SimpleNamespace(from_dlpack=taken_over))


def test_jax_in_jax_out(jax, cuda):
    k, x = vxc.kernel(SHIFT), ArrayImpl(floats(5))
    for n in (1, 2):
        y = k(x, n)
        assert type(y) is ArrayImpl and np.array_equal(y.array, floats(5) + n)
    assert cuda.log[-3:] == ["shift x1 on 0", "5 waits for 0", "taken over"]
    y, n = vxc.kernel(TWO)(x)
    assert type(y) is type(n) is ArrayImpl and n.array.tolist() == [7]
    assert vxc.elementwise("x: f32, a: f32 -> f32", "a * x")(x, 2.0).array.tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(vxc.LaunchError, match="`y` is `out`, but the array is read-only"):
        k(x, y, 1)


def test_arrays_of_torch_beside_those_of_jax_are_allocated_in_torch(jax, torch):
    text = SHIFT.replace("x: f32[N]", "x: f32[N], z: f32[N]").replace("x[i] +", "x[i] + z[i] +")
    y = vxc.kernel(text)(ArrayImpl(floats(5)), Tensor(floats(5)), 1)
    assert type(y) is Tensor and np.array_equal(y.array, 2 * floats(5) + 1)


def test_a_bound_call_writes_the_same_memory_and_so_gives_no_array_of_jax(jax, cuda):
    x = ArrayImpl(floats(5))
    b = vxc.kernel(SHIFT).bind(x, 1)
    assert b() is b() and isinstance(b(), DeviceArray) and np.array_equal(content(b()), floats(5) + 1)


def test_tuned_kernels_allocate_as_kernels_do(gpu, monkeypatch):
    text = SCALE.replace("inout n: i32[N], ", "").replace("n[i] += 1; ", "").replace(", n = randint(i32, 0, 9, 50)", "")
    scale = vxc.autotune(vxc.kernel(text), B=[32, 64])
    assert np.array_equal(content(scale(Device(floats(50)))), 2 * floats(50))
