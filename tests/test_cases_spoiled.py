"""What spoiled texts (tests/spoiled.py) and texts written by hand brought to light: each computes the same everywhere, or is refused."""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import output, outputs, refused

X = np.arange(64, dtype=np.float32).reshape(8, 8)


def test_a_row_of_indices_in_several_dimensions_of_an_atomic():
    text = "kernel k(p: i64[8], inout y: f32[16, 8]) { atomic_add(y[p[0:4], p[4:8]], 1.0); }"
    y = output(text, p=np.array([3, 0, 3, 9, 1, 7, 1, 2]), y=np.zeros((16, 8), np.float32))
    assert np.argwhere(y).tolist() == [[0, 7], [3, 1], [9, 2]] and y[3, 1] == 2.0


def test_a_row_let_as_an_index_of_a_target():
    text = """kernel k(p: i64[8], x: f32[8], inout y: f32[16]) {
        parallel i in 1 { let r = p + 1; local l: f32[16] = 0.0; serial j in 1 { atomic_add(y[r], x[r - 1]); } } }"""
    p = np.array([7, 0, 3, 3, 1, 6, 2, 5])
    y = np.zeros(16, np.float32)
    np.add.at(y, p + 1, X[0][p])
    assert output(text, p=p, x=X[0], y=np.zeros(16, np.float32)).tolist() == y.tolist()


def test_a_row_let_in_two_indices_of_a_target():
    text = "kernel k(p: i64[4], inout y: i32[9, 9]) { parallel i in 1 { let r = p * 2; atomic_add(y[r, r + 1], 1); } }"
    y = output(text, p=np.array([0, 3, 1, 3]), y=np.zeros((9, 9), np.int32))
    assert np.argwhere(y).tolist() == [[0, 1], [2, 3], [6, 7]] and y[6, 7] == 2


@pytest.mark.parametrize("start", [-3, -100, 7, 100, 2**63 - 1])
def test_a_constant_window_outside_of_its_array(start):
    text = f"""kernel k(x: f32[M, 8], out y: f32[16, 8]) {{
        grid b in 1 {{ shared s: f32[16, 8]; copy(x[{start} :+ 16, 0:8], s); copy(s, y); }} }}"""
    want = np.zeros((16, 8), np.float32)
    for i in range(16):
        if 0 <= start + i < 8:
            want[i] = X[start + i]
    assert np.array_equal(output(text, x=X), want)


def test_a_constant_start_outside_of_its_array():
    text = "kernel k(x: f32[8, 8], out y: f32[4]) { grid b in 1 { shared s: f32[4]; copy(x[9, 2 :+ 4], s, pad = 5.0); copy(s, y); } }"
    assert output(text, x=X).tolist() == [5.0] * 4


def test_parallel_loops_within_parallel_loops_of_a_block():
    text = """kernel k(x: f32[8, 8], out y: f32[8, 8]) {
        grid b in 1 { parallel i in 8 { let v = x[i, 0]; parallel j in 8 { y[i, j] = v + x[i, j]; } } } }"""
    assert np.array_equal(output(text, x=X), X + X[:, :1])


def test_indices_of_a_grid_have_ranges_known_before_it_runs():
    """Else some of its iterations would share a block, and its shared arrays."""
    for bound in ("b + 1", "p[0]", "p[b]", "0..8 step b + 1"):
        text = f"kernel k(p: i64[8], out y: f32[8, 8]) {{ grid b in 8, c in {bound} {{ shared s: f32[4]; s = 1.0; y[b, c] = s[0]; }} }}"
        assert refused(text) == ["E0401"]
    text = "kernel k(n: i64, out y: f32[M, 8]) { grid b in n, c in ceildiv(n * 2, 2) - 1..n + 7 - n % 1 { y[b, c] = 1.0; } }"
    assert outputs(text, n=1, dims={"M": 1})["y"].tolist() == [[1.0] * 8]


def test_a_fragment_beyond_all_memory_is_refused():
    text = "kernel k(out y: f32[1]) { grid b in 1 { fragment f: f32[2147483648, 1000]; f = 1.0; copy(f[0, 0:1], y); } }"
    assert refused(text) == ["E0716"]


@pytest.mark.parametrize("lanes", [1, 2, 8, 32])
@pytest.mark.parametrize("around", ["grid b in 1 {{ {} }}", "{}", "serial s in 1 {{ {} }}"])
def test_any_number_of_lanes_computes_the_same(lanes, around):
    body = f"@lanes({lanes}) parallel i in 8 {{ let v = x[i, 0]; parallel j in 8 {{ y[i, j] = v + x[i, j]; }} z[i] = max(x[i]) + v; }}"
    text = f"kernel k(x: f32[8, 8], out y: f32[8, 8], out z: f32[8]) {{ {around.format(body)} }}"
    got = outputs(text, x=X)
    assert np.array_equal(got["y"], X + X[:, :1]) and np.array_equal(got["z"], X.max(1) + X[:, 0])
