"""What calls from Python refuse before anything runs, the same on the CPU and by copies to a device, and what they take instead."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from fake_cuda import Tensor, floats
from numpy.lib.stride_tricks import as_strided

import vxc

SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
BOTH = "kernel both(inout x: f32[N], inout y: f32[N]) { parallel i in N { x[i] = x[i] + 1.0; y[i] = y[i] + 1.0; } }"
FILL = """kernel fill<B = 1, C: bool = false, T: dtype = f32>(x: T[N], out y: i32[N]) {
    parallel i in N { y[i] = B as i32; if (C) { y[i] = 0; } }
}"""


@pytest.fixture(params=["cpu", "copied"])
def device(request):
    """What `device=` is: the interpreter, or the device of the driver in memory."""
    if request.param == "cpu":
        return "cpu"
    request.getfixturevalue("cuda")
    return 0


def frozen(array):
    array.flags.writeable = False
    return array


# ---- outputs -----------------------------------------------------------------------------------------------------------


def test_arrays_that_overlap_are_refused(device):
    b = floats(8)
    before = b.copy()
    k, both = vxc.kernel(SCALE), vxc.kernel(BOTH)
    for call in (
        lambda: both(b, b, device=device),
        lambda: both(b[:5], b[3:], device=device),
        lambda: k(b[1:], 2.0, b[:-1], device=device),
        lambda: k(b[::-1], 2.0, b, device=device),
        lambda: k(b, 2.0, b, device=device),
    ):
        with pytest.raises(vxc.LaunchError, match="E0713: arguments `.` and `.` overlap in memory"):
            call()
    with pytest.raises(vxc.LaunchError, match="E0713: argument `y` is `out`, .* several elements may be one place"):
        k(b, 2.0, as_strided(np.zeros(1, np.float32), (8,), (0,)), device=device)
    assert np.array_equal(b, before)


def test_arrays_that_do_not_overlap_or_are_only_read_are_taken(device):
    b = floats(8)
    k = vxc.kernel(SCALE)
    assert np.array_equal(k(b[:4], 2.0, b[4:], device=device), 2 * b[:4]) and np.array_equal(b[4:], 2 * b[:4])
    backwards = np.zeros(8, np.float32)
    k(b, 3.0, backwards[::-1], device=device)
    assert np.array_equal(backwards[::-1], 3 * b)
    add = vxc.kernel("kernel add(x: f32[N], y: f32[N], out z: f32[N]) { parallel i in N { z[i] = x[i] + y[i]; } }")
    assert np.array_equal(add(b, b, device=device), 2 * b)
    assert np.array_equal(add(b[:0], b[:0], b[:0], device=device), b[:0])


def test_outputs_that_are_read_only_are_refused_before_anything_runs(device):
    k, both = vxc.kernel(SCALE), vxc.kernel(BOTH)
    for y in (frozen(np.zeros(4, np.float32)), np.broadcast_to(np.zeros(1, np.float32), 4)):
        with pytest.raises(vxc.LaunchError, match="E0703: argument `y` is `out`, but the array is read-only"):
            k(floats(4), 2.0, y, device=device)
    x = floats(4)
    before = x.copy()
    with pytest.raises(vxc.LaunchError, match="`y` is `inout`, but the array is read-only"):
        both(x, frozen(np.zeros(4, np.float32)), device=device)
    assert np.array_equal(x, before)
    assert np.array_equal(k(frozen(floats(4)), 2.0, device=device), 2 * floats(4))


# ---- numbers and elements ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [np.array(2.0), np.array(2), np.array(2, np.float16), np.float64(2)], ids=repr)
def test_an_array_without_dimensions_is_its_number(device, number):
    assert np.array_equal(vxc.kernel(SCALE)(floats(4), number, device=device), 2 * floats(4))


def test_an_array_without_dimensions_is_its_number_beside_tensors(torch):
    k, x = vxc.kernel(SCALE), Tensor(floats(4))
    for number in (np.array(2.0), 2.0, np.array(3.0)):  # in full, then by the fast path
        assert np.array_equal(k(x, number).array, float(number) * x.array)
    assert np.array_equal(k(floats(4), np.array(4.0)), 4 * floats(4))
    assert np.array_equal(k.bind(x, np.array(5.0), Tensor(floats(4)))().array, 5 * x.array)


@pytest.mark.parametrize("number", [np.array(2j), np.array("2"), np.array(None), "2", b"2", np.str_("2"), "nan"], ids=repr)
def test_what_is_no_number_is_refused(device, number):
    with pytest.raises(vxc.LaunchError, match="E0707: scalar argument `a` is f32, but .* is not a number"):
        vxc.kernel(SCALE)(floats(4), number, device=device)


@pytest.mark.parametrize("dtype", [object, np.longdouble, np.complex128, np.complex64, "U3", "S2", "M8[s]", "f4,f4", "S0"])
def test_elements_that_no_kernel_reads_are_refused(device, dtype):
    wanted = "E0704: argument `x` holds elements of .*, which no kernel reads; it is declared `x: f32.N.`; convert"
    with pytest.raises(vxc.LaunchError, match=wanted):
        vxc.kernel(SCALE)(np.zeros(4, dtype), 2.0, device=device)


# ---- kernels as objects ------------------------------------------------------------------------------------------------


def test_generics_and_dimensions_are_given_values_of_their_kind():
    k = vxc.kernel(FILL)
    for given, words in (
        ({"B": 1.5}, "generic `B` of `fill` is given 1.5"),
        ({"B": "x"}, "generic `B` of `fill` is given 'x'"),
        ({"B": None}, "generic `B` of `fill` is given None"),
        ({"C": 3}, "generic `C` of `fill` is given 3"),
        ({"T": "f31"}, "generic `T` of `fill` is given 'f31'"),
        ({"T": 8}, "generic `T` of `fill` is given 8"),
        ({"N": "f32"}, "dimension `N` of `fill` is given 'f32'"),
    ):
        with pytest.raises(vxc.CompileError, match=f"E0218(.|\n)*{words}(.|\n)*give it "):
            k.define(**given)
    assert k.define(B=np.int64(7), C=False, T="f32")(floats(3), device="cpu").tolist() == [7, 7, 7]
    assert k.define(B=7, C=np.True_, N=3)(floats(3), device="cpu").tolist() == [0, 0, 0]


def test_kernels_have_a_name_and_are_copied_and_pickled_as_their_source(tmp_path):
    (tmp_path / "k.vx").write_text(SCALE + "\n" + FILL)
    module = vxc.load(tmp_path / "k.vx", target="sm_90a")
    for k in (module.scale, vxc.kernel(SCALE, debug=True)):
        assert k.__name__ == "scale" and type(k).__name__ == "Kernel"
        for again in (pickle.loads(pickle.dumps(k)), copy.deepcopy(k), copy.copy(k)):
            assert repr(again) == repr(k) and np.array_equal(again(floats(3), 2.0, device="cpu"), 2 * floats(3))
            assert again.compile().target == k.compile().target and again.compile().made.debug == k.compile().made.debug
    fixed = module.fill.define(B=5, T="f16")
    again = pickle.loads(pickle.dumps(fixed))
    assert again.compile(target="sm_90a").cuda == fixed.compile(target="sm_90a").cuda
    assert again._calls.recipe.defines == fixed._calls.recipe.defines  # a dtype is equal to itself alone
    assert again(np.zeros(2, np.float16), device="cpu").tolist() == [5, 5]


def test_wrong_types_are_told_with_what_was_expected():
    for call, words in (
        (lambda: vxc.kernel(None), "the `text` of vxc.kernel is the source of a kernel, a str, not NoneType"),
        (lambda: vxc.load(None), "the `path` of vxc.load is a str or pathlib.Path, not NoneType"),
        (lambda: vxc.jit(5), "what vxc.jit decorates is a function with the kernel as its docstring, not int"),
        (lambda: vxc.kernel(SCALE, target=80), '`target` is an arch such as "sm_90a", not int'),
        (lambda: vxc.kernel(SCALE).compile(target=80), '`target` is an arch such as "sm_90a", not int'),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == f"E0709: {words}" and isinstance(caught.value, vxc.LaunchError)
    with pytest.raises(vxc.LaunchError, match="no pass `nope` ran; give None, 'final' or one of .*expand-tiles"):
        vxc.kernel(SCALE).compile(target="sm_90a").ir("nope")
