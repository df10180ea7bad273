"""Kernels of one line, and outputs of no dimensions, on the driver in memory (`fake_cuda`): which calls take the fast path, and what they
cost it.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fake_cuda import EMPTY, Device, DeviceNDArray, GPUArray, Tensor, floats
from test_torch_ops import Library, Made

import vxc
from vxc.api.ahead import ShapeDtype
from vxc.api.torch_ops import Shapes, schema
from vxc.dtypes import DTYPES

FMA = "x: f32, y: f32, a: scalar f32 -> f32", "a * x + y"
TOTAL = "kernel total(x: f32[N], out s: f32[1]) { s[0] = sum(x); }"
SHAPES = [((24,), (24,)), ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (5,)), ((), ()), ((1, 1), (1,))]


@pytest.fixture(params=["2.11", "2.0"], ids=["guards", "keys"])
def torch(torch, request):
    """Versions with and without the check of `torch.compile`."""
    torch.__version__ = request.param
    return torch


def tensor(*shape: int) -> Tensor:
    return Tensor(floats(*shape))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_calls_of_any_form_take_the_fast_path(torch, full, shapes):
    k, (x, y) = vxc.elementwise(*FMA), (tensor(*shape) for shape in shapes)
    wanted = 2 * x.array + y.array
    for _ in range(4):
        assert np.array_equal(k(x, y, 2.0).array, wanted) and k(x, y, 2.0).shape == wanted.shape
    assert len(full) == 1
    out = Tensor(np.empty_like(wanted))
    for way in (lambda: k(x, y, 2.0, out), lambda: k(x, y, 2.0, result=out), lambda: k(x, y, a=2.0, out=out)):
        out.array[...] = -1
        assert way() is out and np.array_equal(out.array, wanted)
    assert len(full) == 2


def test_arrays_of_several_forms_in_turns(torch, full):
    k = vxc.elementwise(*FMA)
    calls = [tuple(map(lambda shape: tensor(*shape), shapes)) for shapes in SHAPES]
    for _ in range(3):
        for x, y in calls:
            assert np.array_equal(k(x, y, 3.0).array, 3 * x.array + y.array)
    assert len(full) == len(SHAPES)


def test_the_fast_path_is_that_of_any_kernel_but_for_out(torch):
    line = vxc.elementwise("x: f32, y: f32 -> f32", "x + y")
    plain = vxc.kernel("kernel k(x: f32[N], y: f32[N], out result: f32[N]) { parallel i in N { result[i] = x[i] + y[i]; } }")
    texts = []
    for k in (line, plain):
        k(tensor(4), tensor(4), tensor(4))
        texts.append(k._installed.text)
    assert texts[0].replace("_renamed(others)", "others") == texts[1] != texts[0]


def test_numbers_and_axes_of_a_call_have_a_fast_path_of_their_own(torch, full):
    k, r, x = vxc.elementwise("x: T, y: T -> T", "x * y"), vxc.reduction("x: f32 -> f32", "x"), tensor(3, 4)
    half = Tensor(floats(3, 4).astype(np.float16))
    for _ in range(3):
        assert np.array_equal(k(x, 2.0).array, 2 * x.array) and np.array_equal(k(2, half).array, 2 * half.array)
        assert np.array_equal(r(x, axis=0).array, x.array.sum(0)) and r(x, axis=None, keepdims=True).shape == (1, 1)
    assert len(full) == 4


def test_views_have_the_fast_path_too_and_are_read_where_they_lie(torch, full):
    k, base = vxc.elementwise(*FMA), floats(4, 6, 8)
    for view in (base[::2], base[:, :, ::-1], base.transpose(2, 0, 1), np.broadcast_to(base[:1], base.shape)):
        x, out = Tensor(view), Tensor(np.empty(view.shape[::-1], np.float32).T)
        for _ in range(3):
            out.array[:] = 0
            assert k(x, x, 2.0, out) is out and np.array_equal(out.array, 3 * view)
    assert len(full) == 4


def test_a_bound_call_and_one_that_is_captured(torch, cuda):
    k, x, y = vxc.elementwise(*FMA), tensor(2, 3), tensor(3)
    bound, _ = k.bind(x, y, 2.0, out=tensor(2, 3)), k(x, y, 2.0)
    cuda.captured.add(0)
    x.array[...] = 5
    assert np.array_equal(bound().array, 10 + np.broadcast_to(y.array, (2, 3))) and np.array_equal(k(x, y, 1.0).array, x.array + y.array)
    with pytest.raises(vxc.LaunchError, match="E0718: this is the first call of `elementwise` with such arguments"):
        k(x, x, 1.0)


def test_what_belongs_to_contexts_is_dropped_in_a_forked_process(torch):
    k = vxc.elementwise(*FMA)
    k(tensor(4), tensor(4), 1.0)
    (member,) = k._calls._members.values()
    assert member._prepared
    k._forget()
    assert not member._prepared and k._installed is None


def test_arrays_without_elements_launch_nothing(torch, cuda):
    k = vxc.elementwise(*FMA)
    assert k(tensor(0, 3), tensor(1, 1), 1.0).shape == (0, 3) and not [line for line in cuda.log if line.startswith("elementwise")]


@pytest.mark.parametrize("array", [GPUArray, DeviceNDArray, Device])
def test_other_libraries(cuda, full, monkeypatch, array):
    for name, module in EMPTY.items():
        monkeypatch.setitem(sys.modules, name, module)
    k, x, y, out = vxc.elementwise(*FMA), array(floats(2, 3)), array(floats(3)), array(floats(2, 3))
    for _ in range(3):
        assert k(x, y, 2.0, out=out) is out and np.array_equal(out.array, 2 * x.array + y.array)
    assert len(full) == (3 if array is Device else 1)


# ---- arrays of no dimensions, of any kernel ---------------------------------------------------------------------------------


def test_an_array_of_no_dimensions_stands_where_one_element_is_declared(torch, full):
    k, x, s = vxc.kernel(TOTAL), tensor(7), Tensor(np.zeros((), np.float32))
    for _ in range(3):
        s.array[...] = 0
        assert k(x, s) is s and s.array == 21
    assert len(full) == 1 and k(Tensor(np.array(3, np.float32)), s) is s and s.array == 3
    corner = vxc.kernel("kernel corner(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }")
    assert corner(Tensor(np.array(5, np.float32)), s) is s and s.array == 5
    with pytest.raises(vxc.LaunchError, match="E0705: dimension 0 of `y` is 1, but dimension 0 of `x` makes M = 2"):
        corner(tensor(2, 3), s)
    bound = k.bind(x, s)
    assert bound() is s and s.array == 21


def test_an_array_of_no_dimensions_of_numpy():
    k, s = vxc.kernel(TOTAL), np.zeros((), np.float32)
    assert k(floats(7), s, device="cpu") is s and s == 21 and k.bind(floats(3), s, device="cpu")() is s and s == 3
    assert k.compile(ShapeDtype((), "f32"), s=(), target="sm_90a").made.plan.buffers[1].name == "s"
    assert Shapes(k._calls.recipe, k._signature)({"x": (DTYPES["f32"], ())}, {}) == {"s": (DTYPES["f32"], (1,))}


# ---- operators of torch ---------------------------------------------------------------------------------------------------


def test_an_operator_has_the_shapes_of_the_line():
    k = vxc.reduction("x: T, y: T, a: scalar f32 -> T, i64", ("x * y", "x"), "argmax", axis=(0, -1), keepdims=True)
    assert schema(k._signature, True) == "(Tensor x, Tensor y, float a) -> (Tensor, Tensor)"
    half = DTYPES["f16"]
    assert k._out_shapes()({"x": (half, (4, 1, 6)), "y": (half, (5, 1))}, {"a": 1.0}) == {
        "result0": (half, (1, 5, 1)),
        "result1": (DTYPES["i64"], (1, 5, 1)),
    }
    with pytest.raises(vxc.VxcError, match="do not broadcast"):
        k._out_shapes()({"x": (half, (4,)), "y": (half, (5,))}, {})
    with pytest.raises(vxc.VxcError, match="the dtype of `result` does not follow"):
        vxc.elementwise("x: f32 -> U", "x as U")._out_shapes()({"x": (half, (4,))}, {})


def test_an_operator_runs_the_line(torch):
    torch.library = Library()
    op, x, y = vxc.elementwise(*FMA).as_torch_op("mine::fma"), Made(floats(2, 3)), Made(floats(3))
    assert np.array_equal(op.run(x, y, 2.0).array, 2 * x.array + y.array) and op.fake(x, y, 2.0).shape == (2, 3)
