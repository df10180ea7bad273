"""`@layout` in a grid that an `if` is around: one block runs it, with the threads that the layout counts."""

from __future__ import annotations

import numpy as np
from everywhere import compiled, outputs


def test_a_grid_under_a_condition_has_the_threads_that_layouts_count():
    text = """kernel k(n: i64, x: f32[64], out y: f32[64]) {
        parallel i in 64 { y[i] = 0.0; }
        if n > 0 { @threads(96) grid b in 1 {
            @layout([i, r in 2] -> [i % 32 + 64 * r, i // 32]) fragment f: f32[64];
            copy(x, f);
            @layout([i] -> [i % 2 * 64 + i // 2 % 16, i // 32]) parallel i in 64 { f[i] = f[i] * 2.0; }
            copy(f, y);
        } }
    }"""
    x = np.arange(64, dtype=np.float32)
    for n, expected in ((1, x * 2), (0, x * 0)):
        np.testing.assert_array_equal(outputs(text, x=x, n=n)["y"], expected)
    assert [kernel.attr("threads") for kernel in compiled(text).plan.kernels] == [256, 128]
