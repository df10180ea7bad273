"""prove-parallel on tile kernels: blocks that write apart are proven for all sizes, blocks and threads that collide are shown."""

from __future__ import annotations

import pytest

from tests.test_lower_tiles import COPY, program
from tests.test_prove_parallel import COLLIDES, findings, prove
from vxc.analysis.access import known_dimensions
from vxc.diag import VxcError, render_all

ACCEPTED = {
    "tiles of a matrix": """kernel k(out c: f32[M, N]) { grid bx in ceildiv(N, 48), by in ceildiv(M, 16) {
        fragment t: f32[16, 48] = 0.0; copy(t, c[by*16 :+ 16, bx*48 :+ 48]); } }""",
    "batched tiles": """kernel k(out c: f32[B, M, N]) { grid b in B, i in ceildiv(M, 16), j in ceildiv(N, 32) {
        shared t: f32[16, 32] = 0.0; copy(t, c[b, i*16, j*32]); } }""",
    "bands of rows": "kernel k(x: f32[M, N], out c: f32[M, N]) { grid b in ceildiv(M, 16) { copy(x[b*16 :+ 16, :], c[b*16 :+ 16, :]); } }",
    "tiles narrower than their distance": "kernel k(out c: f32[N]) { grid b in N { fragment t: f32[24] = 0.0; copy(t, c[b*32 :+ 24]); } }",
    "two tiles of a block": """kernel k(out c: f32[N]) { grid b in ceildiv(N, 128) { fragment t: f32[64] = 0.0;
        copy(t, c[b*128 :+ 64]); copy(t, c[b*128 + 64 :+ 64]); } }""",
    "every second element": """kernel k(out c: f32[N]) { grid b in ceildiv(N, 32) { fragment t: f32[16] = 0.0;
        copy(t, c[b*32 : b*32 + 32 : 2]); copy(t, c[b*32 + 1 : b*32 + 33 : 2]); } }""",
    "interleaved blocks": "kernel k(out c: f32[N]) { grid b in 4 { fragment t: f32[16] = 0.0; copy(t, c[b : b + 64 : 4]); } }",
    "extents known at run time": "kernel k(x: f32[N], out c: f32[N], w: i64) { grid b in N { copy(x[b*w :+ w], c[b*w :+ w]); } }",
    "indirect reads": "kernel k(p: i64[B], v: f32[L], out c: f32[B, 16]) { grid b in B { copy(v[p[b]*16 :+ 16], c[b]); } }",
    "chunks by pipelined steps": """kernel k<C = 4>(x: f32[N], out c: f32[C, N]) { grid q in C, b in ceildiv(N, 64) {
        fragment t: f32[64] = 0.0; @stages(2) pipelined j in q .. ceildiv(N, 64) step C { copy(x[j*64], t); } copy(t, c[q, b*64]); } }""",
    "sibling loops over a tile": """kernel k(out c: f32[64]) { grid b in 1 { shared s: f32[64];
        parallel i in 64 { s[i] = 1.0; } parallel i in 64 { c[i] = s[63 - i]; } } }""",
    "digits of threads and vectors": """kernel k(x: u8[4096], out c: u8[8]) { grid b in 1 { shared s: u8[8, 4, 16, 8];
        serial i in 2 { parallel t in 128 { serial v in 16 {
            let e = (i*128 + t)*16 + v; s[e // 512, e // 128 % 4, e // 8 % 16, e % 8] = x[e]; } } }
        copy(s[0, 0, 0, :], c); } }""",
    "outermost persistent": """kernel k(out c: f32[N]) { persistent b in ceildiv(N, 64) {
        fragment t: f32[64] = 0.0; copy(t, c[b*64 :+ 64]); } }""",
    "gemm into the block's own tile": """kernel k(out c: f32[N]) { grid b in N { shared s: f32[8, 8] = 1.0; fragment t: f32[8, 8] = 0.0;
        gemm(s, s, t); copy(t[0, :], c[b*8 :+ 8]); } }""",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    plan, context = prove(ACCEPTED[name])
    loops = [i for i in plan.kernels[0].insts if i.op == "loop" and i.attr("kind") == "parallel"]
    assert {i.attr("independent") for i in loops} <= {"proved", "tile"}
    assert all(remark.message.endswith("are independent, proved") for remark in context.remarks)


REFUSED = {
    "tiles wider than their distance": (
        "kernel k(out c: f32[N]) { grid b in ceildiv(N, 16) { shared s: f32[17] = 0.0; copy(s, c[b*16 :+ 17]); } }",
        COLLIDES + "b=0 and b=1 both write `c[16]`",
    ),
    "one tile for all": (
        "kernel k(out c: f32[M, N]) { grid b in ceildiv(N, 16) { shared s: f32[8, 16] = 0.0; copy(s, c[0 :+ 8, 0 :+ 16]); } }",
        COLLIDES + "b=0 and b=1 both write `c[0, 0]`",
    ),
    "a dimension of the grid forgotten": (
        "kernel k(out c: f32[M, N]) { grid b in 3, i in ceildiv(M, 8) { shared s: f32[8, 16] = 0.0; copy(s, c[i*8 :+ 8, 0 :+ 16]); } }",
        COLLIDES + "b=0, i=0 and b=1, i=0 both write `c[0, 0]`",
    ),
    "a tile read past its end": (
        "kernel k(inout y: f32[N]) { grid b in ceildiv(N, 64) { shared s: f32[65]; copy(y[b*64 :+ 65], s); copy(s[0 :+ 64], y[b*64]); } }",
        COLLIDES + "b=0 reads `y[64]` which b=1 writes",
    ),
    "a step that leaves no room": (
        "kernel k(out c: f32[N]) { grid b in N { fragment t: f32[4] = 0.0; copy(t, c[b*4 : b*4 + 8 : 2]); } }",
        COLLIDES + "b=0 and b=1 both write `c[4]`",
    ),
    "an element of the neighbour in shared memory": (
        "kernel k(x: f32[N]) { grid b in N { shared s: f32[64]; copy(x[b*64 :+ 64], s); parallel i in 63 { s[i] = s[i + 1]; } } }",
        COLLIDES + "i=0 reads `s[1]` which i=1 writes",
    ),
    "one element of a fragment by two threads": (
        "kernel k() { grid b in 1 { fragment s: f32[64]; parallel i in 64 { s[i // 2] = 1.0; } } }",
        COLLIDES + "i=0 and i=1 both write `s[0]`",
    ),
    "a variable of the block": (
        "kernel k(out y: f32[1]) { grid b in 1 { var t = 0.0; parallel i in 4 { t += 1.0; } y[0] = t; } }",
        COLLIDES + "i=0 and i=1 both write `t`",
    ),
    "a scattered tile": (
        "kernel k(p: i64[B], v: f32[B, 16], out c: f32[L]) { grid b in B { copy(v[b], c[p[b]*16 :+ 16]); } }",
        "E0313 cannot prove that `parallel` iterations over `b` touch different elements of `c`",
    ),
    "past the end of shared memory": (
        "kernel k() { grid b in 1 { shared s: i32[8] = 0; parallel i in 9 { s[i] = 7; } } }",
        "E0310 index i of `s` reaches 8, past its extent 8",
    ),
    "past the end of a fragment": (
        "kernel k() { grid b in 1 { fragment s: i32[4, 8] = 0; parallel i in 4 { s[i, 2 * i + 2] = 7; } } }",
        "E0310 index 2 * i + 2 of `s` reaches 8, past its extent 8",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, expected = REFUSED[name]
    assert findings(text) == [expected]


def test_text_of_blocks_that_collide():
    text = "kernel k(x: f32[N], out y: f32[N]) {\n    grid b in ceildiv(N, 16) {\n        copy(x[b*16 :+ 17], y[b*16 :+ 17]);\n    }\n}\n"
    with pytest.raises(VxcError) as error:
        prove(text)
    assert render_all(error.value.diagnostics) == (
        "error[E0312]: `parallel` iterations collide: b=0 and b=1 both write `y[16]`\n"
        "  --> k.vx:3:9\n"
        "   |\n"
        " 3 |     copy(x[b*16 :+ 17], y[b*16 :+ 17]);\n"
        "   |     ^^^^ written here\n"
        "   = note: seen for N = 17\n"
        "   = help: give each iteration its own element, or use a reduction, an atomic or a `serial` loop"
    )


def test_what_a_launch_passes_is_known_in_its_kernel():
    plan = program(COPY + "program p(x: f32[M, M], out y: f32[L, M]) { k(x, y); }")
    known = known_dimensions(plan, plan.kernels[0])
    assert {name: str(form) for name, form in known.items()} == {"C": "R", "y_dim0": "R"}
