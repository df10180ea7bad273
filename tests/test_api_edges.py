"""Calls from Python at the edges of what is taken: columns of one array, numbers on a device, times, masks, options, shapes ahead."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import SHIFT, Device, GPUArray, Tensor, floats
from numpy.lib.stride_tricks import as_strided

import vxc

SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
COPY = "kernel put(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }"


# ---- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [Tensor, Device], ids=["torch", "interface"])
def test_columns_of_one_array_do_not_overlap(torch, wrap):
    a = floats(10, 2)
    x, y = a[:, 0], a[:, 1]
    for n in (1, 2):
        vxc.kernel(SHIFT)(wrap(x), wrap(y), n)
        assert np.array_equal(y, x + n)


@pytest.mark.parametrize("device", ["cpu", None], ids=["interpreted", "copied"])
def test_interleaved_arrays_are_told_from_those_that_meet(cuda, device):
    k, a = vxc.kernel(COPY), floats(12, 12)
    for x, y in ((a[::2, :6], a[1::2, :6]), (a[:6, ::2], a[:6, 1::2]), (a[:6, :6], a[6:, 6:]), (a[:6, 6:], a[:6, :6])):
        assert np.array_equal(k(x, y, device=device), x)
    for x, y in ((a[::2, :6], a[::2, 5:11]), (a[:6, ::2], a[:6, ::2]), (a[:6], a[5:11]), (a[:5, :5], a[4:9, 4:9])):
        with pytest.raises(vxc.LaunchError, match="arguments `x` and `y` overlap"):
            k(x, y, device=device)


@pytest.mark.parametrize("device", ["cpu", None], ids=["interpreted", "copied"])
@pytest.mark.parametrize("pitch", [8, 9, 12])
def test_a_pitch_of_numpys_arrays(cuda, device, pitch):
    params = "x: f32[M, N : ld], inout y: f32[M, N : ly], out z: f32[M]"
    k = vxc.kernel(f"kernel p({params}) {{ parallel i in M {{ y[i] = x[i] * 2.0; z[i] = sum(x[i]); }} }}")
    x, y = np.arange(4.0 * pitch, dtype=np.float32).reshape(4, pitch), np.ones((4, pitch), np.float32)
    assert np.array_equal(k(x[:, :8], y[:, :8], device=device), x[:, :8].sum(axis=1))
    assert np.array_equal(y[:, :8], 2 * x[:, :8]) and (y[:, 8:] == 1).all()
    assert np.array_equal(k.bind(x[:, :8], y[:, :8], device=device)(), x[:, :8].sum(axis=1))


def test_what_takes_too_long_to_tell_apart_counts_as_overlapping(torch):
    """Seven dimensions with strides that have no common measure: NumPy gives up within the work that it is allowed."""
    base = np.zeros(1 << 20, np.float32)
    strides = [4 * s for s in (12345, 1237, 127, 7411, 3571, 9973, 541)]
    views = [as_strided(base[at:], (6,) * 7, strides) for at in (0, 1)]
    names = ", ".join(f"N{d}" for d in range(7))
    loop = ", ".join(f"i{d} in N{d}" for d in range(7))
    at = ", ".join(f"i{d}" for d in range(7))
    k = vxc.kernel(f"kernel far(x: f32[{names}], inout y: f32[{names}]) {{ parallel {loop} {{ y[{at}] = x[{at}]; }} }}")
    with pytest.raises(vxc.LaunchError, match="overlap in memory|several elements may be one place"):
        k(*map(Tensor, views))


def test_an_array_that_speaks_dlpack_alone_is_interpreted():
    """As those of JAX on the CPU; they cannot be written."""

    class Only:
        def __init__(self, array):
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    x = floats(4)
    assert np.array_equal(vxc.kernel(SCALE)(Only(x), 2.0, device="cpu"), 2 * x)
    x.flags.writeable = False
    with pytest.raises(vxc.LaunchError, match="`y` is `out`, but the array is read-only"):
        vxc.kernel(SCALE)(floats(4), 2.0, Only(x), device="cpu")


def test_a_masked_array_is_refused(cuda):
    x = np.ma.masked_array(floats(4), mask=[0, 1, 0, 0])
    for device in ("cpu", None):
        with pytest.raises(vxc.LaunchError, match="`x` is a masked array.*x.filled"):
            vxc.kernel(SCALE)(x, 2.0, device=device)


def test_what_does_not_fit_into_memory_is_told():
    k = vxc.kernel("kernel huge(x: f32[M, N], out y: f32[M, N, M, N]) { parallel i in M { y[i, 0, 0, 0] = x[i, 0]; } }")
    with pytest.raises(vxc.LaunchError, match="does not fit into memory"):
        k(np.broadcast_to(np.float32(1), (1 << 12, 1 << 12)), device="cpu")


# ---- numbers -----------------------------------------------------------------------------------------------------------


def test_a_number_on_a_device_is_refused(torch):
    k, x, y = vxc.kernel(SHIFT), Tensor(floats(4)), Tensor(floats(4))
    k(x, y, 1), k(x, y, 1), k(x, y, 1)
    for number in (Tensor(np.array(2, np.int32)), GPUArray(np.array(2, np.int32))):
        with pytest.raises(vxc.LaunchError, match=r"`n` is declared `n: i32`, one number, and is given as an array on a device; .*item"):
            k(x, y, number)
    assert np.array_equal(k(x, y, np.array(2)).array, x.array + 2)


@pytest.mark.parametrize("time", [np.array(3, "M8[ns]"), np.datetime64(3, "s"), np.timedelta64(3, "s"), np.array(3, "m8[D]")], ids=repr)
def test_times_are_no_numbers(time):
    with pytest.raises(vxc.LaunchError, match="`a` is f32, but .* is not a number"):
        vxc.kernel(SCALE)(floats(4), time, device="cpu")
    with pytest.raises(vxc.LaunchError, match="`n` is i32, but .* is not an integer"):
        vxc.kernel(SHIFT)(floats(4), time, device="cpu")


def test_a_scalar_of_a_type_of_elements_is_refused_where_it_is_declared():
    with pytest.raises(vxc.CompileError, match=r"error\[E0231\]: `a` is a scalar and cannot be f16(.|\n)*write `a: f32`"):
        vxc.kernel(SCALE.replace("a: f32", "a: f16"))(floats(4), 2.0, device="cpu")


# ---- options and names -------------------------------------------------------------------------------------------------


def test_the_device_of_a_call(cuda):
    cuda.devices = 2
    k, x = vxc.kernel(SCALE), floats(4)
    for device in ("cpu", 0, 1, "cuda", "cuda:1"):
        assert np.array_equal(k(x, 2.0, device=device), 2 * x)
    for device, words in (
        ("tpu", "`device` is 'tpu', and runs are on \"cpu\" or on the GPU of a number"), (True, "`device` is True"), (1.0, "is 1.0"),
        (2, "there is no device 2; there are 2"), (-1, "there is no device -1"), ("cuda:7", "there is no device 7"),
    ):  # fmt: skip
        with pytest.raises(vxc.LaunchError, match=words):
            k(x, 2.0, device=device)
    with pytest.raises(vxc.LaunchError, match="`x` is a .*Device, and `device=` says where NumPy arrays are copied"):
        k(Device(x), 2.0, device=0)
    with pytest.raises(vxc.LaunchError, match="`stream` is for arrays on a device"):
        k(x, 2.0, stream=3)


@pytest.mark.parametrize("device", ["cpu", None], ids=["interpreted", "copied"])
def test_calls_on_arrays_in_cpu_memory_can_be_bound(cuda, device):
    x, y = floats(4), np.zeros(4, np.float32)
    b = vxc.kernel(SCALE).bind(x, 2.0, y, device=device)
    for value in (1.0, 3.0):
        x[:] = value
        assert b() is y and (y == 2 * value).all()


def test_a_parameter_may_be_called_as_an_option(torch):
    text = "kernel f(stream: f32[N], device: f32, out y: f32[N]) { parallel i in N { y[i] = device * stream[i]; } }"
    k, x = vxc.kernel(text), Tensor(floats(4))
    for _ in range(3):
        assert np.array_equal(k(stream=x, device=2.0).array, 2 * x.array) and np.array_equal(k(x, 3.0).array, 3 * x.array)
    assert np.array_equal(k.bind(stream=x, device=2.0)().array, 2 * x.array)


def test_names_that_the_file_does_not_have_are_told_at_once():
    k = vxc.kernel("kernel fill<B = 1>(x: f32[N], out y: i32[N]) { parallel i in N { y[i] = B as i32; } }")
    with pytest.raises(vxc.CompileError, match="`BM` is defined, and nothing in the file is a generic or dimension of that name"):
        k.define(BM=7)


def test_one_liners_want_texts():
    for call, words in (
        (lambda: vxc.elementwise(None, "x"), "the `signature` of vxc.elementwise is a str such as"),
        (lambda: vxc.elementwise("x: f32 -> f32", 5), "the `expression` of vxc.elementwise is a str such as 'x \\* y', not int"),
        (lambda: vxc.reduction("x: f32 -> f32", None), "the `expression` of vxc.reduction is a str"),
    ):
        with pytest.raises(TypeError, match=words):
            call()


def test_shapes_ahead_are_those_of_the_declaration():
    softmax = vxc.load("samples/softmax.vx").softmax
    for shape, words in (
        ((4,), "`x` is described with 1 dimensions, and is declared with 2; give a shape of 2 sizes"), ((4, 2.5), "is no shape"),
        ((4, -1), "the shape of a ShapeDtype has a size of -1"), ((4, None), "is no shape"), ("ab", "is no shape"),
    ):  # fmt: skip
        with pytest.raises(vxc.LaunchError, match=words):
            softmax.compile(vxc.ShapeDtype(shape, "f32"), target="sm_90a")
    assert softmax.compile(vxc.ShapeDtype((np.int64(4), 8), "f32"), target="sm_90a")
