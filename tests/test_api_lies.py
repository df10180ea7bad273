"""Arrays, streams and descriptions whose own word is wrong: refused in one paragraph before anything runs, on the driver in memory
(`fake_cuda`), and the next call works.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from fake_cuda import SHIFT, Device, Tensor, floats

import vxc
from vxc.api.dlpack import _ManagedVersioned, from_dlpack

BASE = floats(64)
PLACE = BASE.ctypes.data


class Raises:
    def __getattr__(self, name):
        raise RuntimeError("one line\nand another")


class Stream:
    def __init__(self, said):
        self.said = said

    def __cuda_stream__(self):
        return self.said


INTERFACES = [
    ("negative size", {"shape": (-4,)}, r"its shape is \(-4,\)"),
    ("fewer strides than dimensions", {"strides": ()}, r"its strides are \(\)"),
    ("more strides than dimensions", {"strides": (4, 4)}, r"its strides are \(4, 4\)"),
    ("strides that are no ints", {"strides": (4.0,)}, "'float' object"),
    ("no typestr", {"typestr": None}, "its typestr is None"),
    ("an address below 0", {"data": (-4, False)}, "-0x4 is no address"),
    ("an address of 65 bits", {"data": (1 << 64, False)}, "0x10000000000000000 is no address"),
    ("a stream below 0", {"stream": -1}, "-0x1 is no address and no handle"),
    ("a stream of 71 bits", {"stream": 1 << 70}, "no handle"),
    ("a mask", {"mask": Device(BASE[:4])}, "`x` is a masked array"),
    ("objects", {"typestr": "|O"}, "`x` holds elements of object"),
    ("times", {"typestr": "<M8[s]"}, r"`x` holds elements of datetime64\[s\]"),
]


def refused(call, words: str) -> None:
    with pytest.raises(vxc.LaunchError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value) and caught.value.diagnostics[0].help


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "fast path"])
@pytest.mark.parametrize(("interface", "words"), [row[1:] for row in INTERFACES], ids=[row[0] for row in INTERFACES])
def test_an_interface_that_lies(torch, cuda, interface, words, warm):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    if warm:
        k(x, Tensor(floats(4)), 1)
    cuda.log.clear()
    refused(lambda: k(Device(BASE[:4], **interface), x, 1), words)
    assert not [line for line in cuda.log if line.startswith("shift")]
    assert np.array_equal(k(x, 1).array, x.array + 1)


@pytest.mark.parametrize("version", [0, 2, 3])
def test_interfaces_of_other_versions_are_read(torch, version):
    k, y = vxc.kernel(SHIFT), Tensor(floats(4))
    k(Device(BASE[:4], version=version, strides=None), y, 1)
    assert np.array_equal(y.array, BASE[:4] + 1)


STREAMS = [-1, 1 << 64, True, 1.5, object(), Raises(), Stream(7), Stream((0, -1)), Stream(None)]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: type(stream).__name__)
def test_what_is_no_stream(torch, cuda, stream):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    refused(lambda: k(x, 1, stream=stream), "`stream` is .*, which is no CUDA stream")
    refused(lambda: k.bind(x, 1, stream=stream), "`stream` is .*, which is no CUDA stream")
    assert not [line for line in cuda.log if line.startswith("shift")]
    assert np.array_equal(k(x, 1, stream=Stream((0, 7))).array, x.array + 1) and cuda.log[-1].endswith("on 7")


def test_an_object_whose_code_raises(torch):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    refused(lambda: k(Raises(), x, 1), "one line and another")
    refused(lambda: k(x, Tensor(floats(4)), Raises()), "`n` is declared `n: i32`, one number")


# ---- DLPack ----------------------------------------------------------------------------------------------------------


class Packed:
    """Gives one capsule each time, of memory that it says is on a device."""

    def __init__(self, capsule, place=(2, 0)):
        self.capsule, self.place = capsule, place

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **_):
        return self.capsule


def test_a_capsule_may_be_read_twice(torch):
    k, packed = vxc.kernel(SHIFT), Packed(BASE[:4].__dlpack__())
    for _ in range(2):
        y = Tensor(floats(4))
        k(packed, y, 1)
        assert np.array_equal(y.array, BASE[:4] + 1)


@pytest.mark.parametrize("name", [b"used_dltensor", b"used_dltensor_versioned", b"other"])
def test_a_capsule_that_another_consumed(torch, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    refused(lambda: vxc.kernel(SHIFT)(Packed(new(PLACE, name, None)), Tensor(floats(4)), 1), "does not say where it lies")


def versioned(**fields) -> tuple[object, _ManagedVersioned]:
    """A capsule of DLPack 1.0, and what it points at, which is to be held."""
    shape = (ctypes.c_int64 * 1)(fields.pop("size", 4))
    managed = _ManagedVersioned(major=fields.pop("major", 1))
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.code, tensor.bits, tensor.lanes, tensor.shape = PLACE, 1, 2, 32, 1, shape
    managed.held = shape
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(managed), b"dltensor_versioned", None), managed


def test_a_capsule_of_another_version(torch):
    k, y = vxc.kernel(SHIFT), Tensor(floats(4))
    capsule, held = versioned()
    assert from_dlpack(Packed(capsule), "x").shape == (4,) and held.major == 1
    capsule, held = versioned(major=2)
    refused(lambda: k(Packed(capsule), y, 1), "it is of DLPack 2, and asked for is 1")
    capsule, held = versioned(size=-4)
    refused(lambda: k(Packed(capsule), y, 1), r"its shape is \(-4,\)")


# ---- what is said before there are arrays ------------------------------------------------------------------------------


def test_sizes_are_given_before_the_call(torch):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    refused(lambda: k(x, 1, N=4), r"no parameter `N`; fix sizes and generics before: k.define\(N=..\)")
    generic = vxc.kernel("kernel copy<T: dtype>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } }")
    refused(lambda: generic(x, T="f32"), r"k.define\(T=..\)")
    refused(lambda: k(x, 1, f32=4), "its parameters are")
    with pytest.raises(vxc.CompileError, match=r"dimension `N` of `shift` is given -1\n.*sizes are 0 or more"):
        k.define(N=-1)


@pytest.mark.parametrize("shape", [{4}, frozenset([4]), {4: 1}])
def test_a_shape_has_an_order(shape):
    refused(lambda: vxc.kernel(SHIFT).compile(shape), "`x` is described by .*, which is no shape")


def test_whether_an_array_is_aligned_is_true_or_false():
    with pytest.raises(vxc.LaunchError, match="`aligned` of a ShapeDtype is True or False, not str"):
        vxc.ShapeDtype((4,), "f32", aligned="no")


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((-1, 3), "f32", "E0705: the shape of a ShapeDtype has a size of -1; sizes are 0 or more"),
        ((4, 1 << 62), "f32", "E0705: the shape of a ShapeDtype has a size of 4611686018427387904; sizes are at most"),
        *((shape, "f32", "E0709: a ShapeDtype is described by .*, which is no shape; give sizes that are ints, as in")
          for shape in ((4, 2.5), (4, None), (True, 4), (np.True_,), "ab", {4}, None, 4.0)),
        ((4,), "f31", "E0704: `f31` is no dtype of kernels"),
    ],
)  # fmt: skip
def test_a_shape_is_refused_when_it_is_made(shape, dtype, words):
    with pytest.raises(vxc.LaunchError, match=words) as caught:
        vxc.ShapeDtype(shape, dtype)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(4, 8), [4, 8], np.array([4, 8]), (np.int64(4), np.uint8(8))])
def test_a_shape_has_sizes_of_any_integer_type(shape):
    made = vxc.ShapeDtype(shape, np.float32)
    assert made.shape == (4, 8) and {type(size) for size in made.shape} == {int}


@pytest.mark.parametrize("name", [None, 90, 9.0, (9, 0), ["sm_90a"]])
def test_a_target_has_a_name(name):
    with pytest.raises(vxc.VxcError, match='pass a str such as "sm_90a"'):
        vxc.target(name)


@pytest.mark.parametrize("name", ["", "a b", "a(q: f32[2]) { } kernel b", "1", "a\n"])
def test_a_line_has_a_name_that_is_one(name):
    with pytest.raises(vxc.CompileError, match="the `name` of vxc.elementwise is .*, and kernels are called as variables are"):
        vxc.elementwise("x: f32 -> f32", "x", name=name)
