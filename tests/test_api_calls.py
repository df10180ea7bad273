"""Calls of kernels from Python on the driver in memory (`fake_cuda`): what runs, where, and how often the full way is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT, Device, Tensor, floats

import vxc
from vxc.dtypes import DTYPES
from vxc.ir.printer import print_kernel

ROWS = "kernel rows<T: dtype>(x: T[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"


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


def test_a_subclass_of_a_librarys_arrays_is_of_the_library(torch, cuda):
    """Also where it is called first, in full."""

    class Mine(Tensor):
        __module__ = "__main__"

    torch.stream = 5
    for _ in range(3):
        made = vxc.kernel(SHIFT)(Mine(floats(4)), 1)
        assert isinstance(made, Tensor) and made.array.tolist() == [1, 2, 3, 4] and cuda.log[-1].endswith("on 5")


def test_specialisations_compiled_before_one_is_loaded_run_each_its_own_code(cuda):
    k = vxc.kernel("kernel k<F: int>(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] * (F as f32); } }")
    made = [k.define(F=factor).compile((4,), (4,), target="sm_90a").made for factor in (2, 3)]
    cubins = [each.binary.cubin for each in made]
    two, three = (cuda.function(cuda.load(cubin), "k") for cubin in cubins)
    assert "2.0" in print_kernel(two) and "3.0" in print_kernel(three) and "3.0" not in print_kernel(two)


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


def test_a_bound_program_repeats_without_the_full_way(torch, cuda, monkeypatch):
    """Its workspace is that of the stream, in a capture one of the graph."""
    chain, x, y = vxc.kernel(CHAIN), Tensor(floats(100)), Tensor(floats(100))
    b = chain.bind(x, 2.0, y)
    monkeypatch.setattr(chain._calls, "run", None)
    for stream in (0, 7, 0, 7):
        torch.stream = stream
        y.array[:] = 0
        assert b() is y and np.array_equal(y.array, x.array * 2 + 1)
    assert [line for line in cuda.log if line.startswith("allocate")] == ["allocate 512 on 0", "allocate 512 on 7"]
    cuda.captured.add(7)
    b()
    assert cuda.log[-4:] == ["allocate 512 on 7", "scale x1 on 7", "shift x1 on 7", "free on 7"]


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

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
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


def test_another_device_is_current_than_that_of_the_arrays(torch, cuda, monkeypatch, full):
    """Its context is made current for the call, which then is as any other."""
    entered = []

    @contextmanager
    def active(device):
        before, torch.device_now = torch.device_now, device
        entered.append(device)
        try:
            yield
        finally:
            torch.device_now = before

    cuda.devices, torch.device_now = 2, 1
    monkeypatch.setattr(cuda, "device_of", lambda address: 0)
    monkeypatch.setattr(cuda, "active", active)
    k, x, y = vxc.kernel(SHIFT), Tensor(floats(10)[::2]), Tensor(floats(5))
    k(x, 1), k(x, y, 1)
    assert len(full) == 2
    entered.clear()
    for n in (1, 1, 1, 2):
        assert np.array_equal(k(x, n).array, x.array + n) and k(x, n=n, y=y) is y and np.array_equal(y.array, x.array + n)
    assert len(full) == 2 and set(entered) == {0} and torch.device_now == 1
    with pytest.raises(vxc.LaunchError, match="arguments `x` and `y` overlap in memory"):
        k(x, x, 1)
    with pytest.raises(vxc.LaunchError, match="lies in CPU memory"):
        k(Tensor(floats(5), -1), 1)
    assert torch.device_now == 1 and k(x, y, 1) is y
