"""Calls of kernels from Python on the driver in memory (`fake_cuda`): what runs, where, how often the full way is gone, what is refused."""

from __future__ import annotations

import os
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import SECOND, Device, FakeCuda, FakeTorch, Tensor, without_nvrtc
from numpy.lib.stride_tricks import as_strided

import vxc
from vxc.api import devices, dispatch, workspaces
from vxc.driver import Compiled
from vxc.dtypes import DTYPES

SHIFT = "kernel shift(x: f32[N], out y: f32[N], n: i32) { parallel i in N { y[i] = x[i] + (n as f32); } }"
ROWS = "kernel rows<T: dtype>(x: T[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"
CHAIN = """
kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = x[i] * a; } }
kernel shift(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 1.0; } }
program chain(x: f32[N], a: f32, out y: f32[N]) { local w: f32[N]; scale(x, a, w); shift(w, y); }
"""


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(devices, "driver", lambda: fake)
    monkeypatch.setattr("vxc.runtime.launch.driver", lambda: fake)
    monkeypatch.setattr(workspaces, "_ALL", {})
    monkeypatch.setattr(Compiled, "binary", without_nvrtc(fake))
    return fake


@pytest.fixture
def torch(cuda, monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture
def full(monkeypatch):
    """The calls that went the full way."""
    seen, general = [], dispatch._general
    monkeypatch.setattr(dispatch, "_general", lambda *a: seen.append(a) or general(*a))
    return seen


def floats(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


# ---- what runs ---------------------------------------------------------------------------------------------------------


def test_every_way_to_pass_arguments(torch):
    k = vxc.kernel(SHIFT)
    x, y = Tensor(floats(100)), Tensor(np.zeros(100, np.float32))
    for _ in range(3):  # in full, then by the fast path
        for call in (lambda: k(x, y, 3), lambda: k(x, y, n=3), lambda: k(x, n=3, y=y), lambda: k(n=3, x=x, y=y)):
            y.array[:] = 0
            assert call() is y and np.array_equal(y.array, x.array + 3)
        for call in (lambda: k(x, 4), lambda: k(x, n=4), lambda: k(x=x, n=4), lambda: k(x, None, 4)):
            assert np.array_equal(call().array, x.array + 4)


def test_a_repeated_call_does_not_go_the_full_way(torch, full):
    k = vxc.kernel(SHIFT)
    for at, size in enumerate((100, 100, 200, 100, 200)):
        x = Tensor(floats(size))
        assert np.array_equal(k(x, Tensor(np.zeros(size, np.float32)), at).array, x.array + at)
        assert np.array_equal(k(x, at).array, x.array + at)
    assert len(full) == 4


def test_each_dtype_and_each_length_of_a_row_is_its_own_kernel_other_sizes_are_not(torch, cuda):
    k = vxc.kernel(ROWS)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        for shape in ((3, 8), (5, 8), (5, 16)):
            x = Tensor(floats(*shape).astype(dtype))
            assert np.allclose(k(x).array, x.array.astype(np.float32).sum(1))
    assert cuda.log.count("load") == 6
    cuda.log.clear()
    e = vxc.kernel("kernel e(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] * 2.0; } }")
    for shape in ((3, 8), (5, 8), (5, 16)):
        e(Tensor(floats(*shape)))
    assert cuda.log.count("load") == 1


VIEWS = [
    lambda b: b.T, lambda b: b[:, 2:6], lambda b: b[::2], lambda b: b[:, ::3], lambda b: np.broadcast_to(b[0], (7, 12)),
    lambda b: b[2:3], lambda b: b[:0],
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_read_and_written_where_they_lie(torch, view):
    k = vxc.kernel("kernel t<T: dtype>(x: T[M, N], out y: T[N, M]) { parallel i in N, j in M { y[i, j] = x[j, i]; } }")
    x = view(floats(10, 12))
    assert np.array_equal(k(Tensor(x)).array, x.T)
    if x.size and 0 not in x.strides:
        target = np.zeros(x.shape, np.float32).T
        assert np.array_equal(k(Tensor(x), Tensor(target)).array, x.T)
    rows = vxc.kernel(ROWS)
    assert np.array_equal(rows(Tensor(x)).array, rows(Tensor(x.copy())).array)


def test_a_program_keeps_its_workspace_for_each_stream(torch, cuda, full):
    chain = vxc.kernel(CHAIN)
    for stream, size in ((0, 100), (7, 100), (7, 50), (0, 100), (7, 300)):
        torch.stream = stream
        x = Tensor(floats(size))
        assert np.array_equal(chain(x, 2.0).array, x.array * 2 + 1)
    made = [line for line in cuda.log if "allocate" in line or "free" in line]
    assert made == ["allocate 512 on 0", "allocate 512 on 7", "free on 7", "allocate 1280 on 7"]
    assert len(full) == 3


def test_a_program_refuses_what_does_not_fit_also_on_the_fast_path(torch, cuda):
    chain, x = vxc.kernel(CHAIN), Tensor(floats(4))
    chain(x, 2.0), chain(x, 2.0)
    for value, words in (("a", "'a' is not a number"), (1e300, "beyond its greatest value")):
        with pytest.raises(vxc.LaunchError, match=words):
            chain(x, value)
    cuda.fails += [0, "CUDA_ERROR_LAUNCH_FAILED"]
    with pytest.raises(vxc.LaunchError, match="CUDA_ERROR_LAUNCH_FAILED"):
        chain(x, 2.0)
    assert np.array_equal(chain(x, 2.0).array, x.array * 2 + 1)


def test_a_captured_program_has_memory_of_the_graph(torch, cuda):
    chain = vxc.kernel(CHAIN)
    x, y = Tensor(floats(100)), Tensor(floats(100))
    chain(x, 2.0, y)
    cuda.captured.add(0)
    cuda.log.clear()
    chain(x, 2.0, y)
    assert cuda.log == ["allocate 512 on 0", "scale x1 on 0", "shift x1 on 0", "free on 0"]


def test_the_stream_is_the_librarys_current_one_or_the_given_one(torch, cuda):
    k = vxc.kernel(SHIFT)
    x = Tensor(floats(10))
    k(x, 1)
    torch.stream = 5
    k(x, 1)
    b = k.bind(x, Tensor(floats(10)), 1)
    torch.stream = 6
    b()
    k(x, 1, stream=9)
    assert [line.split()[-1] for line in cuda.log if line.startswith("shift")] == ["0", "5", "6", "9"]


def test_arrays_with_an_interface_wait_for_their_producers(cuda):
    k = vxc.kernel(SHIFT)
    x, y = Device(floats(10), stream=7), Device(floats(10), stream=1)
    k(x, y, 2)
    assert cuda.log[-2:] == ["0 waits for 7", "shift x1 on 0"] and np.array_equal(y.array, x.array + 2)


def test_scalars_of_every_type_go_as_they_are_declared(torch):
    for name, dtype in DTYPES.items():
        if dtype.is_storage:
            continue  # no scalar is of these
        k = vxc.kernel(f"kernel s(v: {name}, out y: {name}[N], x: f32[N]) {{ parallel i in N {{ y[i] = v; }} }}")
        for value in (True, False) if name == "bool" else (3, 1.5) if dtype.is_float else (3, dtype.min, dtype.max):
            for _ in range(2):
                assert k(value, Tensor(floats(3))).array.tolist() == [dtype.numpy.type(value)] * 3
        for value in ("1e", 1e300) if name == "f32" else ("1e",) if dtype.is_float else (dtype.max + 1, dtype.min - 1, 1.5, "1"):
            with pytest.raises(vxc.LaunchError, match=f"`v` is {name}"):
                k(value, Tensor(floats(3)))


def test_a_scalar_that_decides_the_grid_is_part_of_the_key(torch, cuda):
    k = vxc.kernel("kernel f(x: f32[N], out y: f32[N], n: i32) { parallel i in n { y[i] = x[i]; } }")
    x, y = Tensor(floats(2000)), Tensor(np.zeros(2000, np.float32))
    for n in (10, 2000, 10, 1500):
        y.array[:] = 0
        k(x, y, n)
        assert np.array_equal(y.array[:n], x.array[:n]) and not y.array[n:].any()


def test_bound_calls_repeat(torch, cuda):
    for text, scalar in ((SHIFT, {"n": 2}), (CHAIN, {"a": 2.0})):
        k = vxc.kernel(text)
        x, y = Tensor(floats(10)), Tensor(floats(10))
        b = k.bind(x=x, y=y, **scalar)
        for value in (1, 5):
            x.array[:] = value
            assert b() is y and (y.array == (value + 2 if text is SHIFT else value * 2 + 1)).all()


def test_numpy_arrays_are_copied_or_interpreted(cuda):
    k = vxc.kernel(SHIFT)
    x = floats(10)
    for options in ({}, {"device": "cpu"}):
        y = np.zeros(10, np.float32)
        assert k(x, y, 2, **options) is y and np.array_equal(y, x + 2) and np.array_equal(k(x, 3, **options), x + 3)


def test_dlpack_arrays(cuda):
    class Only:
        def __init__(self, array):
            self.array = array
            self.__dlpack__ = lambda stream=None, **more: array.__dlpack__(**more)
            self.__dlpack_device__ = lambda: (2, 0)

    x, y = floats(4, 6)[1:], np.zeros(3, np.float32)
    assert vxc.kernel(ROWS)(Only(x), Only(y)) is not None and np.array_equal(y, x.sum(1))


def test_threads_do_not_share_parameters(torch):
    k, wrong = vxc.kernel(SHIFT), []

    def work(at):
        x = Tensor(np.full(8, at, np.float32))
        for n in range(50):
            if not (k(x, n).array == at + n).all():
                wrong.append((at, n))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_calls_in_full_leave_nothing_behind(torch):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    for _ in range(50):
        k(x, 1, stream=3), k(x, None, 1)
    (prepared,) = k._calls._prepared.values()
    assert len(prepared.slots) == 1


def test_empty_arrays_stay_on_their_device(torch, cuda):
    cuda.devices = 2
    assert vxc.kernel(SHIFT)(Tensor(floats(0), 1), 1).ordinal == 1


def test_two_devices(torch, cuda, monkeypatch, full):
    cuda.devices = 2
    monkeypatch.setattr(cuda, "device_of", lambda address: int(address == other.data_ptr()))
    k, x, other = vxc.kernel(SHIFT), Tensor(floats(10)), Tensor(floats(10), 1)
    assert k(x, 1).ordinal == 0
    assert k(x, 1).ordinal == 0 and len(full) == 1
    torch.device_now = 1
    k(x, 1)
    assert len(full) == 2  # whose context is not current


# ---- what is refused ---------------------------------------------------------------------------------------------------

BASE = floats(64)
MISUSES = [
    ("dtype", lambda k, x: k(Tensor(np.zeros(4)), 1), "array argument `x` holds float64, but f32 is declared"),
    ("rank", lambda k, x: k(Tensor(floats(2, 2)), 1), "`x` has 2 dimensions, but 1 declared"),
    ("shape", lambda k, x: k(x, Tensor(floats(3)), 1), "dimension 0 of `y` is 3, but dimension 0 of `x` makes N = 4"),
    ("raw elements", lambda k, x: k(Device(np.zeros(4, "V4")), 1), "`x` "),
    ("complex", lambda k, x: k(Device(np.zeros(4, np.complex64)), 1), "`x` holds elements of"),
    ("byte order", lambda k, x: k(Device(np.zeros(4, ">f4")), 1), "`x` is in the other byte order"),
    ("too many", lambda k, x: k(x, x, 1, 2), "takes 3 arguments, and 4 are given"),
    ("missing", lambda k, x: k(x), "argument `n` of `shift` is missing"),
    ("unknown", lambda k, x: k(x, 1, z=2), "no parameter `z`"),
    ("nearly known", lambda k, x: k(x, m=1), "its parameters are"),
    ("twice", lambda k, x: k(x, 1, x=x), "given twice"),
    ("no array", lambda k, x: k([1.0, 2.0], 1), "`x` is declared `x: f32[N]`, and a list is no array"),
    ("array for a number", lambda k, x: k(x, Tensor(floats(4)), x), "`n` is declared `n: i32`, one number, and an array"),
    ("float for an int", lambda k, x: k(x, 1.5), "`n` is i32, but 1.5 is not an integer"),
    ("text for an int", lambda k, x: k(x, "1"), "`n` is i32, but '1' is not an integer"),
    ("too large", lambda k, x: k(x, 2**31), "`n` is i32, but 2147483648 is outside -2147483648..2147483647"),
    ("CPU tensor", lambda k, x: k(Tensor(floats(4), -1), 1), "`x` lies in CPU memory (torch.Tensor)"),
    ("NumPy beside others", lambda k, x: k(x, floats(4), 1), "`y` lies in CPU memory (numpy.ndarray)"),
    ("a device array for the CPU", lambda k, x: k(x, 1, device="cpu"), "`x` lies on a CUDA device"),
    ("overlap", lambda k, x: k(Tensor(BASE[:4]), Tensor(BASE[3:7]), 1), "arguments `x` and `y` overlap in memory"),
    ("in place", lambda k, x: k(x, x, 1), "overlap in memory"),
    ("expanded output", lambda k, x: k(x, Tensor(as_strided(BASE, (4,), (0,))), 1), "several elements may be one place"),
    ("backwards", lambda k, x: k(Tensor(BASE[8:4:-1]), 1), "`x` has strides [-1]"),
    ("read-only", lambda k, x: k(x, Device(BASE[:4], data=(BASE.ctypes.data, True)), 1), "`y` is `out`, but the array is read-only"),
    ("misaligned", lambda k, x: k(x, Device(BASE[:4], data=(BASE.ctypes.data + 2, False)), 1), "no multiple of its 4-byte elements"),
    ("freed", lambda k, x: k(Device(BASE[:4], data=(64, False)), 1), "`x` is at address 0x40, and CUDA knows of no memory there"),
    ("two devices", lambda k, x: k(x, Device(BASE[:4], data=(SECOND[0], False)), 1), "several devices: `x` on device 0, `y` on device 1"),
    ("no stream", lambda k, x: k(x, 1, stream="main"), "`stream` is a str"),
    ("no library to allocate in", lambda k, x: k(Device(BASE[:4]), 1), "`y` is missing, and it cannot be allocated"),
]  # fmt: skip


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "fast path"])
@pytest.mark.parametrize(("call", "words"), [row[1:] for row in MISUSES], ids=[row[0] for row in MISUSES])
def test_misuse_is_refused_in_one_paragraph(torch, cuda, call, words, warm):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    if warm:
        k(x, 1)
        k(x, Tensor(floats(4)), 1)
    cuda.log.clear()
    with pytest.raises(vxc.LaunchError) as caught:
        call(k, x)
    text = str(caught.value)
    assert words in text and "\n" not in text and caught.value.diagnostics[0].help
    assert not [line for line in cuda.log if line.startswith("shift")]
    assert np.array_equal(k(x, 1).array, x.array + 1)


def test_lazy_and_absent_memory_is_refused_also_on_the_fast_path(torch):
    k, one = vxc.kernel(SHIFT), Tensor(floats(1))
    k(one, 1), k(one, 1)
    one.negated = True
    with pytest.raises(vxc.LaunchError, match="lazy negation"):
        k(one, 1)
    x = Tensor(floats(4))
    k(x, 1)
    x.freed = True
    with pytest.raises(vxc.LaunchError, match="storage was freed"):
        k(x, 1)
    sparse = Tensor(floats(4))
    sparse.layout, sparse.is_contiguous = "sparse_coo", lambda: 1 / 0
    with pytest.raises(vxc.LaunchError, match="layout sparse_coo"):
        k(sparse, 1)


def test_a_first_call_is_refused_while_a_graph_is_captured(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    cuda.captured.add(0)
    with pytest.raises(vxc.LaunchError, match="first call of `shift` .* make one such call before the capture"):
        k(x, 1)
    assert not [line for line in cuda.log if line == "load"]
    cuda.captured.clear()
    k(x, 1)
    cuda.captured.add(0)
    assert np.array_equal(k(x, 1).array, x.array + 1)


def test_what_cuda_refuses_is_told(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    k(x, 1)
    cuda.fails += ["CUDA_ERROR_INVALID_CONTEXT"]  # the fast path's, which the full way mends
    assert np.array_equal(k(x, 1).array, x.array + 1)
    cuda.fails += ["CUDA_ERROR_CONTEXT_IS_DESTROYED"] * 2
    with pytest.raises(vxc.LaunchError, match="cuLaunchKernelEx failed: CUDA_ERROR_CONTEXT_IS_DESTROYED"):
        k(x, 1)
    b = k.bind(x, Tensor(floats(4)), 1)
    cuda.fails += ["CUDA_ERROR_CONTEXT_IS_DESTROYED"] * 2
    with pytest.raises(vxc.LaunchError, match="CONTEXT_IS_DESTROYED"):
        b()


def test_a_forked_process_says_so(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    k(x, 1), k(x, 1)
    child = os.fork()
    if not child:
        try:
            k(x, 1)
        except vxc.NoDeviceError as error:
            os._exit(7 if "before this process was forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert np.array_equal(k(x, 1).array, x.array + 1)


def test_no_device(cuda, monkeypatch):
    cuda.devices = 0
    with pytest.raises(vxc.NoDeviceError, match="finds no device"):
        vxc.kernel(SHIFT)(floats(4), 1)
