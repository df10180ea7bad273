"""Kernels of one line against NumPy: arrays of any shapes that broadcast, lying in any way, and reductions along any axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vxc
from vxc.api.broadcasting import broadcast

SIZES = st.sampled_from([0, 1, 1, 2, 3, 5])
MOST = 8  # dimensions
ELEMENTWISE = {
    "one": (vxc.elementwise("x: i32 -> i32", "x * 3"), lambda x: x * 3),
    "two": (vxc.elementwise("x: i32, y: i32 -> i32", "x - 2 * y"), lambda x, y: x - 2 * y),
    "three": (vxc.elementwise("x: i32, y: i32, z: i32 -> i32", "x + y * z"), lambda x, y, z: x + y * z),
}
REDUCTIONS = {
    "sum": (vxc.reduction("x: i32, y: i32 -> i32", "x * y"), lambda x, y: (x * y, np.sum)),
    "max": (vxc.reduction("x: f32, y: f32 -> f32", "x - y", "max"), lambda x, y: (x - y, np.max)),
    "any": (vxc.reduction("x: i32, y: i32 -> bool", "x > y", "any"), lambda x, y: (x > y, np.any)),
}


@st.composite
def arrays(draw, count: int, dtype: str) -> list[np.ndarray]:
    """Arrays that broadcast, with sizes of 1 and dimensions left out, of which some are turned, sliced, reversed or repeat themselves."""
    whole = draw(st.lists(SIZES, max_size=draw(st.sampled_from([2, 4, MOST]))))
    whole = whole if np.prod(whole, dtype=int) < 2000 else whole[:4]
    left = [whole[draw(st.integers(0, len(whole))) :] for _ in range(count)]
    return [_lying(draw, [draw(st.sampled_from([n, n, n, 1])) for n in shape], dtype) for shape in left]


def _lying(draw, shape: list[int], dtype: str) -> np.ndarray:
    order = draw(st.permutations(range(len(shape))))
    way = draw(st.sampled_from(["whole", "whole", "turned", "sliced", "repeated"]))
    count = int(np.prod(shape, dtype=int))
    if way == "turned":
        return _filled([shape[at] for at in order], dtype).transpose(np.argsort(order).tolist())
    if way == "sliced":
        return np.asarray(_filled([2 * n for n in shape], dtype)[tuple(slice(None, None, draw(st.sampled_from([2, -2]))) for _ in shape)])
    if way == "repeated" and count:
        return np.broadcast_to(_filled([draw(st.sampled_from([n, 1])) for n in shape], dtype), shape)
    return _filled(shape, dtype)


def _filled(shape: list[int], dtype: str) -> np.ndarray:
    count = int(np.prod(shape, dtype=int))
    return (np.arange(count) * 7919 % 101 - 50).astype(dtype).reshape(shape)


@pytest.mark.parametrize("case", ELEMENTWISE)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_elementwise_is_what_numpy_finds(case, data):
    k, of = ELEMENTWISE[case]
    given = data.draw(arrays(int(len(k._signature.params) - 1), "int32"))
    wanted = np.asarray(of(*given))
    found = k(*given, device="cpu")
    assert found.shape == wanted.shape and np.array_equal(found, wanted)
    out = _lying(data.draw, list(wanted.shape), "int32")
    out = out if out.flags.writeable else out.copy()
    assert k(*given, out=out, device="cpu") is out and np.array_equal(out, wanted)


@pytest.mark.parametrize("case", REDUCTIONS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_reduction_is_what_numpy_finds(case, data):
    k, of = REDUCTIONS[case]
    x, y = data.draw(arrays(2, "float32" if case == "max" else "int32"))
    whole, reduce = of(x, y)
    rank = np.ndim(whole)
    axis = data.draw(st.one_of(st.none(), st.lists(st.integers(0, max(rank - 1, 0)), max_size=rank, unique=True).map(tuple)))
    if axis is not None:
        axis = tuple(at - rank * data.draw(st.booleans()) for at in axis)
    keepdims = data.draw(st.booleans())
    options = {"initial": -np.inf} if case == "max" else {}
    wanted = np.asarray(reduce(whole, axis=axis, keepdims=keepdims, **options))
    found = k(x, y, axis=axis, keepdims=keepdims, device="cpu")
    assert found.shape == wanted.shape and np.array_equal(found, wanted)
    out = np.empty(wanted.shape[::-1], found.dtype).T
    assert k(x, y, axis=axis, keepdims=keepdims, out=out, device="cpu") is out and np.array_equal(out, wanted)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (0, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_of_floats_are_within_their_bound(axis, turned):
    x = np.random.default_rng(1).standard_normal((7, 50, 130), np.float32)
    x = x.transpose(2, 0, 1) if turned else x
    found = vxc.reduction("x: f32 -> f32", "x * x", axis=axis)(x, device="cpu")
    wanted = np.sum(np.float64(x) ** 2, axis=axis)
    count = x.size // max(wanted.size, 1)
    assert found.shape == wanted.shape and (abs(found - wanted) <= (np.log2(count) + 2) * 2.0**-24 * count**0.5 * wanted).all()


def test_the_order_of_a_sum_is_that_of_the_kernel_that_one_would_write():
    x = np.random.default_rng(2).standard_normal((5, 1000, 3), np.float32)
    rows = vxc.kernel("kernel rows(x: f32[M, K], out y: f32[M]) { parallel i in M { y[i] = sum(x[i]); } }")
    column = "y[i, j] = @chunk(32) sum(x[i, :, j]);"
    columns = vxc.kernel(f"kernel columns(x: f32[A, K, B], out y: f32[A, B]) {{ parallel i in A, j in B {{ {column} }} }}")
    k = vxc.reduction("x: f32 -> f32", "x")
    assert np.array_equal(k(x.transpose(0, 2, 1).copy(), device="cpu").ravel(), rows(x.transpose(0, 2, 1).reshape(15, 1000), device="cpu"))
    assert np.array_equal(k(x, axis=1, device="cpu"), columns(x, device="cpu"))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.lists(SIZES, max_size=4), min_size=1, max_size=4))
def test_shapes_broadcast_where_those_of_numpy_do(shapes):
    named = {f"a{at}": tuple(shape) for at, shape in enumerate(shapes)}
    try:
        wanted = np.broadcast_shapes(*named.values())
    except ValueError:
        with pytest.raises(vxc.VxcError, match="do not broadcast"):
            broadcast(named)
    else:
        assert broadcast(named) == wanted


@pytest.mark.parametrize("axis", [None, 0, 2, (0, 1), (0, 2), (1, 2)])
def test_a_view_gives_the_bits_that_its_copy_gives(axis):
    k, base = vxc.reduction("x: f32, y: f32 -> f32", "x * y", axis=axis), np.random.default_rng(3).standard_normal((22, 26, 34), np.float32)
    for x in (base[::2], base[:, ::2], base[:, :, ::2], base.T, base.transpose(1, 0, 2), base[::-1, :, ::-1]):
        for y in (x, x[:1, :, :1], x[0, 0]):
            wanted = k(np.ascontiguousarray(x), np.ascontiguousarray(y), device="cpu")
            assert np.array_equal(k(x, y, device="cpu"), wanted)
