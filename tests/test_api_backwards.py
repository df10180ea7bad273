"""Arrays that run backwards, called from Python on the driver in memory (`fake_cuda`): read and written where they lie."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import CHAIN, Device, floats

import vxc

TRANSPOSE = "kernel t(x: f32[M, N], out y: f32[N, M]) { parallel i in N, j in M { y[i, j] = x[j, i]; } }"
ROWS = "kernel rows(x: f32[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"
PITCHED = "kernel p(x: f32[M, N : ld], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] * 2.0; } }"
COUNT = "kernel count(x: i32[N], inout h: i32[M]) { parallel i in N { atomic_add(h[x[i] as i64], 1); } }"
TILED = """kernel tiled(x: f32[M, 8], out y: f32[M, 8]) {
    grid i in M { shared s: f32[8]; copy(x[i], s); copy(s, y[i]); }
}"""
VIEWS = [
    lambda b: b[::-1], lambda b: b[:, ::-1], lambda b: b[::-1, ::-1], lambda b: b[::-2, 1::3], lambda b: b.T[::-1], lambda b: b[5:6, ::-1],
    lambda b: b[:0, ::-1], lambda b: b[8:2:-1, ::-2],
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_elements_are_read_and_written_where_they_lie(cuda, view):
    k, x = vxc.kernel(TRANSPOSE), view(floats(10, 12))
    for _ in range(2):
        y = np.zeros(x.shape[::-1], np.float32)
        assert k(Device(x), Device(y)) is not None and np.array_equal(y, x.T)
        frame = np.full((10, 12), 7, np.float32)
        target = view(frame)
        source = floats(*target.shape[::-1]) + 100
        k(Device(source), Device(target))
        assert np.array_equal(target, source.T) and (frame == 7).sum() == frame.size - target.size


@pytest.mark.parametrize("view", VIEWS)
def test_rows_are_summed_in_their_own_order(cuda, view):
    x, k = view(floats(10, 12) / 7), vxc.kernel(ROWS)
    backwards, plain = np.zeros(x.shape[0], np.float32), np.zeros(x.shape[0], np.float32)
    k(Device(x), Device(backwards)), k(Device(x.copy()), Device(plain))
    assert np.array_equal(backwards, plain)


def test_a_pitch_is_taken_without_its_sign(cuda):
    x, y = floats(6, 8)[::-1, ::-1], np.zeros((6, 8), np.float32)
    vxc.kernel(PITCHED)(Device(x), Device(y))
    assert np.array_equal(y, 2 * x)


def test_atomics_and_programs(cuda):
    x, h = np.array([0, 1, 1, 2, 2, 2], np.int32)[::-1], np.zeros(3, np.int32)[::-1]
    vxc.kernel(COUNT)(Device(x), Device(h))
    assert h.tolist() == [1, 2, 3]
    a, b = floats(20)[::-2], np.zeros(20, np.float32)[::-2]
    vxc.kernel(CHAIN)(Device(a), 2.0, Device(b))
    assert np.array_equal(b, 2 * a + 1)


def test_memory_is_compared_whatever_its_direction(cuda):
    k, b = vxc.kernel(TRANSPOSE), floats(6, 6)
    with pytest.raises(vxc.LaunchError, match="overlap"):
        k(Device(b[::-1]), Device(b[:, ::-1]))
    x, y = b[5::-2], b[4::-2]
    square = vxc.kernel("kernel c(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }")
    square(Device(x), Device(y))
    assert np.array_equal(x, y)


def test_tiles_cannot_be_copied_backwards(cuda):
    k, x = vxc.kernel(TILED), floats(4, 8)
    y = np.zeros((4, 8), np.float32)
    with pytest.raises(vxc.LaunchError, match="`x` has a negative stride, and `tiled` copies tiles of it; pass a copy"):
        k(Device(x[:, ::-1]), Device(y))
    k(Device(x), Device(y))
    assert np.array_equal(x, y)
