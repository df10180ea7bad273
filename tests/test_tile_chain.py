"""Small tile kernels and programs after every pass: the bits of the tree's interpreter, whatever the order of threads."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.diff import first_difference
from vxc.driver import compile_typed
from vxc.frontend.check import check, kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.pipeline import PIPELINE
from vxc.source import Source

RANDOM = np.random.default_rng(0)


def small(*shape: int) -> np.ndarray:
    """Integers small enough that sums and products are exact."""
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def agree(text: str, arrays: dict[str, np.ndarray], **scalars) -> None:
    source = Source("k.vx", text)
    module = parse(source)
    typed = check(module, source, (program_names(module) or kernel_names(module))[0])
    made = compile_typed(typed)
    expected = run_ast(typed, arrays, scalars)
    runs = [("lowering", made.tile, 0), *((p.name, made.after(p.name), 0) for p in PIPELINE.passes), ("the end", made.plan, 1)]
    for after, plan, seed in runs:
        difference = first_difference(expected, run_flat(plan, arrays, scalars, seed=seed))
        assert not difference, f"after {after}: {difference}"


X = small(5, 70)
TILES = {
    "run-time extent": (
        "(x: f32[M, N], out y: f32[M, N], w: i64) { grid b in M { copy(x[b, 3 :+ w], y[b, 0 :+ w], pad = 9.0); } }",
        {"x": X},
        {"w": 69},
    ),
    "halo": (
        """(x: f32[N], out y: f32[N]) { grid b in ceildiv(N, 8) { shared t: f32[10]; copy(x[b*8 - 1 :+ 10], t, pad = -9.0);
        parallel i in 8 { if b*8 + i < N { y[b*8 + i] = t[i] + t[i + 1] + t[i + 2]; } } } }""",
        {"x": small(21)},
        {},
    ),
    "transpose by a fragment": (
        """(x: f32[M, N], out y: f32[N, M]) { grid i in ceildiv(M, 8), j in ceildiv(N, 16) { shared t: f32[8, 16]; fragment u: f32[16, 8];
        copy(x[i*8, j*16], t); parallel a in 16, b in 8 { u[a, b] = t[b, a]; } copy(u, y[j*16, i*8]); } }""",
        {"x": X},
        {},
    ),
    "reductions along both axes": (
        """(x: f32[5, 70], out y: f32[5], out z: f32[70]) { @threads(96) grid b in 1 { fragment t: f32[5, 70]; copy(x, t);
        let s = sum(t, axis = 1); let m = max(t, axis = 0); copy(s, y); copy(m, z); } }""",
        {"x": X},
        {},
    ),
    "scan along an axis": (
        """(x: f32[5, 70], out y: f32[5, 70]) { grid b in 1 { shared t: f32[5, 70]; copy(x, t);
        t[:, :] = cumsum(t, axis = 1); copy(t, y); } }""",
        {"x": X},
        {},
    ),
    "a tile read, then overwritten": (
        """(x: f32[K, 32], inout y: f32[32]) { @threads(32) grid b in 1 { shared s: f32[32]; fragment a: f32[32] = 0.0; copy(y, s);
        @stages(2) pipelined k in K { parallel i in 32 { a[i] += s[i]; } copy(x[k], s); } copy(a, y); } }""",
        {"x": small(8, 32), "y": small(32)},
        {},
    ),
    "two writes of one tile": (
        "(x: f32[64], out y: f32[64]) { @threads(64) grid b in 1 { shared s: f32[64]; copy(x, s); s[10:16] = 7.0; copy(s, y); } }",
        {"x": small(64)},
        {},
    ),
    "an element of another thread": (
        """(x: f32[128], out y: f32[128]) { grid b in 1 { fragment s: f32[128]; copy(x, s);
        parallel i in 128 { y[i] = s[i] + s[(i + 1) % 128]; } } }""",
        {"x": small(128)},
        {},
    ),
    "a uniform branch": (
        """(x: f32[N], out y: f32[N]) { grid b in ceildiv(N, 32) { shared s: f32[32];
        if b % 2 == 0 { copy(x[b*32], s); parallel i in 32 { if b*32 + i < N { y[b*32 + i] = s[31 - i]; } } }
        else { copy(x[b*32 :+ 32], y[b*32 :+ 32]); } } }""",
        {"x": small(90)},
        {},
    ),
    "nested persistent": (
        """(x: f32[N], out y: f32[2]) { @threads(64) grid b in 2 { fragment s: f32[32] = 0.0; shared t: f32[32];
        persistent j in b .. ceildiv(N, 32) step 2 { copy(x[j*32], t); parallel i in 32 { s[i] += t[31 - i]; } } y[b] = sum(s); } }""",
        {"x": small(300)},
        {},
    ),
    "a tile declared in a loop": (
        """(x: f32[K, 32], out y: f32[32]) { grid b in 1 { fragment o: f32[32] = 0.0; pipelined k in K { shared s: f32[32] = 1.0;
        parallel i in 32 { s[i] += x[k, 31 - i]; } parallel i in 32 { o[i] += s[(i * 5 + 1) % 32]; } } copy(o, y); } }""",
        {"x": small(6, 32)},
        {},
    ),
    "no block": (
        "(x: f32[N], out y: f32[N]) { grid b in ceildiv(N, 64) { shared s: f32[64]; copy(x[b*64 :+ 64], s); copy(s, y[b*64 :+ 64]); } }",
        {"x": small(0)},
        {},
    ),
    "two grids": (
        """(x: f32[N], out y: f32[N], out z: f32[N]) { grid b in ceildiv(N, 64) { shared s: f32[64]; copy(x[b*64], s); copy(s, y[b*64]); }
        @threads(32) persistent b in ceildiv(N, 16) { copy(y[b*16 :+ 16], z[b*16 :+ 16]); } }""",
        {"x": small(100)},
        {},
    ),
    "a local array of the block": (
        """(x: f32[N], out y: f32[N]) { grid b in ceildiv(N, 32) { local m: f32[4] = 2.0; m[1] = 3.0;
        parallel i in 32 { if b*32 + i < N { y[b*32 + i] = x[b*32 + i] * m[i % 4]; } } } }""",
        {"x": small(50)},
        {},
    ),
    "gemm of transposed bytes": (
        """(a: i8[16, 16], b: i8[16, 16], out c: i32[16, 16]) { @threads(32) grid g in 1 { shared s: i8[16, 16]; shared t: i8[16, 16];
        fragment o: i32[16, 16] = 0; copy(a, s); copy(b, t);
        gemm(s, t, o, trans_a = true); gemm(s, t, o, trans_b = true); copy(o, c); } }""",
        {name: RANDOM.integers(-128, 128, (16, 16)).astype(np.int8) for name in "ab"},
        {},
    ),
}


@pytest.mark.parametrize("name", TILES)
def test_tiles(name):
    text, arrays, scalars = TILES[name]
    agree(f"kernel k{text}", arrays, **scalars)


DOUBLE = "kernel k(x: f32[R, C], out y: f32[R, C]) { parallel i in R { y[i] = x[i] * 2.0; } }\n"
TWO_NESTS = """kernel k(x: f32[R], out y: f32[R], inout z: f32[R]) {
    parallel i in R { y[i] = x[i]; }
    parallel i in R { z[i] += y[R - 1 - i]; } }
"""
GEMM = """kernel gemm<BM = 16, BN = 8, BK = 8>(a: f32[M, K], b: f32[K, N], out c: f32[M, N]) {
    @threads(64) grid j in ceildiv(N, BN), i in ceildiv(M, BM) {
        shared s: f32[BM, BK]; shared t: f32[BK, BN]; fragment acc: f32[BM, BN] = 0.0;
        pipelined k in ceildiv(K, BK) { copy(a[i*BM, k*BK], s); copy(b[k*BK, j*BN], t); gemm(s, t, acc); }
        copy(acc, c[i*BM, j*BN]); } }
"""
PROGRAMS = {
    "a kernel twice": (DOUBLE, "(x: f32[M, N], out y: f32[M, N]) { local w: f32[M, N]; k(x, w); k(w, y); }", {"x": X}, {}),
    "nothing to do": (DOUBLE, "(x: f32[M, N], out y: f32[M, N]) { local w: f32[M, N]; k(x, w); k(w, y); }", {"x": small(0, 7)}, {}),
    "kernels of several launches": (
        TWO_NESTS,
        "(x: f32[M], out y: f32[M], inout z: f32[M]) { local w: f32[M]; k(x, w, z); k(w, y, z); }",
        {"x": small(9), "z": small(9)},
        {},
    ),
    "a name that a split would take": (
        TWO_NESTS + "kernel k_1(x: f32[R], out y: f32[R]) { parallel i in R { y[i] = x[i] * 3.0; } }\n",
        "(x: f32[M], out y: f32[M], inout z: f32[M]) { local w: f32[M]; k(x, w, z); k_1(w, y); }",
        {"x": small(9), "z": small(9)},
        {},
    ),
    "a name that parts of a reduction would take": (
        """kernel s(x: f32[R, C], out y: f32[R]) { parallel i in R { y[i] = @parts(4) sum(x[i]); } }
        kernel s_parts1(x: f32[R], out y: f32[R]) { parallel i in R { y[i] = -x[i]; } }\n""",
        "(x: f32[M, N], out y: f32[M], out z: f32[M]) { s(x, y); s_parts1(y, z); }",
        {"x": small(3, 1000)},
        {},
    ),
    "derived sizes": (
        """kernel h(x: f32[R, C], out y: f32[R // 2, C * 2]) { parallel i in R // 2, j in C {
            y[i, 2*j] = x[2*i, j]; y[i, 2*j + 1] = x[2*i + 1, j]; } }\n""" + DOUBLE,
        "(x: f32[M, N], out y: f32[M // 2, 2 * N]) { let a = M // 2; local w: f32[a, N * 2]; h(x, w); k(w, y); }",
        {"x": small(8, 3)},
        {},
    ),
    "scalars and conditions": (
        "kernel s(n: i64, b: bool, x: f32[R], out y: f32[R]) { parallel i in R { y[i] = if b { x[i] } else { n as f32 }; } }\n",
        """(x: f32[M], m: i64, out y: f32[M]) { let n = if M > 4 && m > 2 { M * m } else { 7 }; local w: f32[M];
        s(n, m > 1, x, w); s(n + 1, m < 1, w, y); }""",
        {"x": small(5)},
        {"m": 3},
    ),
    "a chain of products": (
        GEMM,
        "(a: f32[M, K], b: f32[K, N], d: f32[N, L], out c: f32[M, L]) { local w: f32[M, N]; gemm(a, b, w); gemm(w, d, c, BK = 16); }",
        {"a": small(17, 9), "b": small(9, 13), "d": small(13, 5)},
        {},
    ),
}


def test_a_negative_size_is_refused_by_both():
    text = DOUBLE + "program p(x: f32[M, N], n: i64, out y: f32[M, N]) { local w: f32[M - n, N]; k(x, y); }"
    source = Source("k.vx", text)
    typed = check(parse(source), source, "p")
    for run, code in ((run_ast, typed), (run_flat, compile_typed(typed).plan)):
        with pytest.raises(VxcError) as error:
            run(code, {"x": X}, {"n": 6})
        assert [d.code for d in error.value.diagnostics] == ["E0705"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    kernels, text, arrays, scalars = PROGRAMS[name]
    agree(f"{kernels}program p{text}", arrays, **scalars)
