"""Repeated calls with views that are not dense, on the driver in memory (`fake_cuda`): they take the fast path, as those of dense arrays
do, and what is written may overlap nothing in any of them.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fake_cuda import CHAIN, EMPTY, SHIFT, DeviceNDArray, GPUArray, Tensor, floats
from numpy.lib.stride_tricks import as_strided

import vxc

COPY = "kernel put(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }"
SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
PITCHED = "kernel p(x: f32[M, N : ld], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] * 2.0; } }"
UPWARDS = [
    lambda b: b.T, lambda b: b[:, 2:7], lambda b: b[::2], lambda b: b[1::3, 1:], lambda b: b[:, :1], lambda b: b.T[3:4],
    lambda b: np.broadcast_to(b[0], b.shape),
]  # fmt: skip
BACKWARDS = [lambda b: b[::-1], lambda b: b[:, ::-1], lambda b: b[::-2, 1::3], lambda b: b.T[::-1], lambda b: b[8:2:-1, ::-2]]


@pytest.fixture(params=["2.11", "2.0", "pycuda", "numba"])
def wrap(cuda, monkeypatch, request):
    """What makes an array of NumPy's one on the device: tensors of versions with and without the check of `torch.compile`, and others."""
    if request.param in EMPTY:
        monkeypatch.setitem(sys.modules, request.param, EMPTY[request.param])
        return {"pycuda": GPUArray, "numba": DeviceNDArray}[request.param]
    request.getfixturevalue("torch").__version__ = request.param
    return Tensor


@pytest.fixture
def others(cuda, monkeypatch):
    """What makes arrays of a library whose arrays run backwards, too."""
    monkeypatch.setitem(sys.modules, "pycuda", EMPTY["pycuda"])
    return GPUArray


def repeated(k, wrap, view, times=3):
    """Calls with the same memory, then with other memory, with outputs that are given and that are allocated."""
    for turn in range(2):
        x = view(floats(10, 12) + turn)
        frame = np.full((10, 12), -1, np.float32)
        y = view(frame) if 0 not in view(frame).strides else np.zeros(x.shape, np.float32)
        given = wrap(x), wrap(y)
        for time in range(times):
            y[:] = -1
            assert k(*given) is given[1] and np.array_equal(y, x)
            assert 0 in x.strides or (frame == -1).sum() == frame.size - y.size
            assert np.array_equal(k(given[0]).array, x)
            if x.flags.writeable:
                x += 100 + time


@pytest.mark.parametrize("view", UPWARDS)
def test_a_view_goes_the_full_way_once(wrap, full, view):
    repeated(vxc.kernel(COPY), wrap, view)
    assert len(full) == 2


@pytest.mark.parametrize("view", BACKWARDS)
def test_so_does_one_that_runs_backwards(others, full, view):
    repeated(vxc.kernel(COPY), others, view)
    assert len(full) == 2


def test_a_call_made_twice_running_is_repeated_without_writing_its_parameters(wrap, full):
    k, x, y = vxc.kernel(COPY), wrap(floats(8, 6).T), wrap(np.zeros((6, 16), np.float32)[:, ::2])
    for _ in range(3):
        k(x, y)
    (prepared,) = k._calls._prepared.values()
    assert not prepared.slots and len(full) == 1  # the slot belongs to the record
    x.array[:] = 5
    assert (k(x, y).array == 5).all() and not prepared.slots and len(full) == 1


def test_views_of_other_strides_and_dense_arrays_take_turns(wrap, full):
    k, base = vxc.kernel(COPY), floats(12, 12)
    arrays = [base[:6, :6], base[::2, ::2], base[:6, :6].T, np.ascontiguousarray(base[:6, :6])]
    calls = [(wrap(x), wrap(np.zeros((6, 6), np.float32))) for x in arrays]
    for at in (0, 0, 1, 2, 3, 3, 3, 2, 1, 0, 0, 1, 1, 3, 0):
        x, y = calls[at]
        y.array[:] = 0
        assert np.array_equal(k(x, y).array, arrays[at])
    assert len(full) == 4


def test_an_array_that_becomes_a_view_in_place_is_seen(torch):
    k, x, y = vxc.kernel(COPY), Tensor(floats(6, 6)), Tensor(np.zeros((6, 6), np.float32))
    wide = floats(12, 12)
    for array in (floats(6, 6), wide[:6, :6], wide[::2, :6], wide[:6, :6].T, wide[6:, 6:], floats(6, 6)):
        for _ in range(3):
            x.array, y.array[:] = array, -1
            assert np.array_equal(k(x, y).array, array)
    x.array = wide[:5, :5]
    with pytest.raises(vxc.LaunchError, match="`y` is 6, but dimension 0 of `x` makes M = 5"):
        k(x, y)


def test_what_overlaps_is_refused_in_every_call(wrap, full):
    """Views of one key, as far apart as they were before and not."""
    k, a = vxc.kernel(COPY), floats(12, 24)
    apart = [(a[:6, ::2], a[:6, 1::2]), (a[:6, ::2], a[6:, ::2]), (a[6:, 1::2], a[6:, ::2]), (a[6:, ::2], a[:6, 1::2])]
    overlapping = [(a[:6, ::2], a[:6, ::2]), (a[:6, ::2], a[5:11, ::2]), (a[5:11, ::2], a[:6, ::2])]
    for _ in range(4):
        for x, y in apart:
            x += 1
            assert np.array_equal(k(wrap(x), wrap(y)).array, x) and np.array_equal(y, x)
        for x, y in overlapping:
            before = a.copy()
            with pytest.raises(vxc.LaunchError, match="E0713: arguments `x` and `y` overlap in memory"):
                k(wrap(x), wrap(y))
            assert np.array_equal(a, before)
    assert len(full) == 4 * len(overlapping) + 3  # of what is apart, the last lies as the second modulo 16 bytes, and not in between


def test_what_runs_backwards_overlaps_where_its_memory_is(others, full):
    k, b = vxc.kernel(SHIFT), floats(32)
    apart = [(b[7::-1], b[8:16]), (b[19:11:-1], b[4:12]), (b[15:7:-1], b[16:24]), (b[31:23:-1], b[:8])]
    overlapping = [(b[11:3:-1], b[8:16]), (b[15:7:-1], b[4:12]), (b[15:7:-1], b[8:16]), (b[19:11:-1], b[8:16])]
    for _ in range(3):
        for x, y in apart:
            assert np.array_equal(k(others(x), others(y), 1).array, x + 1) and np.array_equal(y, x + 1)
        for x, y in overlapping:
            with pytest.raises(vxc.LaunchError, match="E0713: arguments `x` and `y` overlap in memory"):
                k(others(x), others(y), 1)
    assert len(full) == 1 + 3 * len(overlapping)  # all lie alike modulo 16 bytes


def test_numbers_are_passed_on_as_they_are_beside_what_runs_backwards(others):
    k, x, y = vxc.kernel(SCALE), others(np.ones(4, np.float32)[::-1]), others(np.zeros(8, np.float32)[::-2])
    for a in (-0.0, -0.0, 0.0, -0.0, 2.5, 2.5, 2.5):
        y.array[:] = 7
        assert (k(x, a, y).array == a).all() and (np.signbit(y.array) == np.signbit(a)).all()


def test_a_program_of_several_launches(others, full):
    k = vxc.kernel(CHAIN)
    for turn in range(3):
        for base in (floats(20), floats(20) + turn):
            x, y = others(base[::-2]), others(np.zeros(20, np.float32)[::-2])
            for a in (2.0, 3.0):
                assert np.array_equal(k(x, a, y).array, a * x.array + 1)
    assert len(full) == 1


def test_a_pitch(wrap, full):
    k, wide = vxc.kernel(PITCHED), floats(6, 16)
    for x in (wide[:, :8], wide[:, 4:12], wide[:, 8:]) * 2:
        assert np.array_equal(k(wrap(x)).array, 2 * x)
    assert len(full) == 1


def test_views_without_elements_and_of_one(wrap):
    k, base = vxc.kernel(COPY), floats(6, 8)
    for view in (lambda b: b[:, :0], lambda b: b[::2, 3:3], lambda b: b[2:3, ::9], lambda b: b[:1, :1].T):
        for _ in range(3):
            x, y = view(base), view(np.zeros((6, 8), np.float32))
            assert np.array_equal(k(wrap(x), wrap(y)).array, x) and np.array_equal(k(wrap(x)).array, x)


def test_outputs_of_which_elements_share_a_place_are_refused_in_every_call(wrap):
    k, x = vxc.kernel(SHIFT), wrap(floats(8)[::2])
    for _ in range(3):
        assert np.array_equal(k(x, wrap(np.zeros(8, np.float32)[::2]), 1).array, x.array + 1)
        with pytest.raises(vxc.LaunchError, match="E0713: argument `y` is `out`, .* several elements may be one place"):
            k(x, wrap(as_strided(np.zeros(8, np.float32), (4,), (0,))), 1)


def test_memory_that_was_freed_and_lazy_negations_are_refused(torch):
    k, x, y = vxc.kernel(SHIFT), Tensor(floats(8)[::2]), Tensor(np.zeros(4, np.float32))
    for _ in range(3):
        k(x, y, 1)
    x.freed = True
    with pytest.raises(vxc.LaunchError, match="whose storage was freed"):
        k(x, y, 1)
    x.freed, x.negated = False, True
    with pytest.raises(vxc.LaunchError, match="a lazy negation or conjugate"):
        k(x, y, 1)
