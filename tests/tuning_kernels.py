"""Kernels to be tuned, and arguments for them, with times that are made up."""

from __future__ import annotations

import numpy as np
from fake_cuda import Tensor, floats
from timed_cuda import TimedCuda

import vxc

SCALE = """
kernel scale<B: int = 32, F: int = 2>(x: f32[N], inout n: i32[N], out y: f32[N]) {
    @threads(B) grid b in ceildiv(N, B) {
        parallel t in B { let i = b * B + t; if i < N { y[i] = (F as f32) * x[i]; n[i] += 1; } }
    }
}
example scale(x = rand(f32, 50), n = randint(i32, 0, 9, 50));
"""
SHARED = """
kernel f<S: int = 16>(x: f32[N], out y: f32[N]) {
    @threads(32) grid b in ceildiv(N, S) {
        shared s: f32[S];
        copy(x[b*S :+ S], s);
        copy(s, y[b*S :+ S]);
    }
}
example f(x = rand(f32, 20));
"""
SUM = """
kernel total<L: int = 1>(x: f32[M, N], out y: f32[M]) { parallel i in M { y[i] = @lanes(L) sum(x[i]); } }
example total(x = rand(f32, 3, 200));
"""
FASTER = {32: 3.0, 64: 1.0, 128: 2.0}  # milliseconds by threads


def arguments(count: int = 50):
    return Tensor(floats(count)), Tensor(np.zeros(count, np.int32))


def timings(gpu: TimedCuda) -> int:
    """How many graphs were replayed since this was last asked."""
    count, gpu.replays = gpu.replays, 0
    return count


def tuned(**options) -> vxc.Tuned:
    return vxc.autotune(vxc.kernel(SCALE), **{"B": [32, 64, 128], **options})
