"""Tiles: whole kernels, `copy`, `gemm`, layouts, reductions and scans along an axis, lets of a grid, where loops stand."""

from __future__ import annotations

import pytest
from typed_text import body, kernels, rejects

from vxc.semantics import FRAGMENT_ORDER, Order

GEMM = """
kernel gemm<BM = 128, BN = 256, BK = 64, STAGES = 4>(a: f16[M, K], b: f16[K, N], out c: f16[M, N]) {
    @threads(256) grid bx in ceildiv(N, BN), by in ceildiv(M, BM) {
        shared sa: f16[BM, BK];
        shared sb: f16[BK, BN];
        fragment acc: f32[BM, BN] = 0.0;
        @stages(STAGES) pipelined k in ceildiv(K, BK) {
            copy(a[by*BM :+ BM, k*BK :+ BK], sa);
            copy(b[k*BK :+ BK, bx*BN :+ BN], sb, pad = -1);
            gemm(sa, sb, acc);
        }
        copy(acc, c[by*BM :+ BM, bx*BN :+ BN]);
    }
}
"""

DEQUANT = """
kernel dequant<my = 16, mk = 16, epb = 2, BN = 128, BK = 64>(b: u8[N//my, K//mk, my, mk//2], out w: f16[N, K]) {
    @threads(128) grid bx in ceildiv(N, BN) {
        shared sb: u8[BN//my, BK//mk, my, mk//2];
        fragment f: f16[BN, BK];
        serial ko in ceildiv(K, BK) {
            STAGE
            parallel j in BN, k in BK { f[j, k] = (sb[j // my, k // mk, j % my, k % mk // epb] as i32 - 8) as f32; }
            copy(f, w[bx*BN, ko*BK]);
        }
    }
}
"""
BY_HAND = """serial i in BN * BK // 2 // (128 * 16) { parallel t in 128 { @vector(16) serial v in 16 {
    let idx = i * 128 * 16 + t * 16 + v;
    let vkk = idx % (mk//2); let vjj = idx // (mk//2) % my; let vk = idx // (mk//2 * my) % (BK//mk);
    let vj = idx // (mk//2 * my * (BK//mk));
    sb[vj, vk, vjj, vkk] = b[bx*(BN//my) + vj, ko*(BK//mk) + vk, vjj, vkk]; } } }"""
ONE_NEST = """parallel j in BN//my, k in BK//mk, jj in my, kk in mk//epb {
    sb[j, k, jj, kk] = b[bx*(BN//my) + j, ko*(BK//mk) + k, jj, kk]; }"""
ONE_COPY = "copy(b[bx*(BN//my), ko*(BK//mk), 0, 0], sb);"

HEAD = """kernel k(x: f32[M, N], t: f32[B, M, N], n: i32[M], page: i32[G], h: f16[M, N], c: i32, inout y: f32[M, N], out v: f32[M]) {
@threads(64) grid b in ceildiv(M, 16) {
shared s: f32[16, 8]; shared sh: f16[16, 8]; fragment f: f32[16, 8]; fragment g: f32[16, 16]; shared si: i8[16, 16]; shared w: f32[8];
"""
TAIL = "\n} }\n"


def stripped(text: str) -> list[str]:
    return [line.strip() for line in body(text)]


def inside(text: str) -> list[str]:
    """The statements of a grid's block, after the declarations."""
    return [line[2:] for line in body(HEAD + text + TAIL)[7:]]


def test_gemm():
    lines = stripped(GEMM)
    assert lines[:4] == [
        "grid bx in 0..ceildiv(N, 256) step 1, by in 0..ceildiv(M, 128) step 1 {'threads': 256}",
        "shared sa: f16[128, 64] = None",
        "shared sb: f16[64, 256] = None",
        "fragment acc: f32[128, 256] = 0.0:f32",
    ]
    assert lines[4:] == [
        "pipelined k in 0..ceildiv(K, 64) step 1 {'stages': 4}",
        "copy a[mul(by, 128) :+ 128 step 1, mul(k, 64) :+ 64 step 1] -> sa[0 :+ 128 step 1, 0 :+ 64 step 1]",
        "copy b[mul(k, 64) :+ 64 step 1, mul(bx, 256) :+ 256 step 1] -> sb[0 :+ 64 step 1, 0 :+ 256 step 1] pad -1.0:f16",
        "gemm sa, sb, acc",
        "copy acc[0 :+ 128 step 1, 0 :+ 256 step 1] -> c[mul(by, 128) :+ 128 step 1, mul(bx, 256) :+ 256 step 1]",
    ]


@pytest.mark.parametrize("stage, line", [
    (BY_HAND, "sb[vj, vk, vjj, vkk] = b[add(mul(bx, 8), vj), add(mul(ko, 4), vk), vjj, vkk]"),
    (ONE_NEST, "sb[j, k, jj, kk] = b[add(mul(bx, 8), j), add(mul(ko, 4), k), jj, kk]"),
    (ONE_COPY, "copy b[mul(bx, 8) :+ 8 step 1, mul(ko, 4) :+ 4 step 1, 0 :+ 16 step 1, 0 :+ 8 step 1] -> "
     "sb[0 :+ 8 step 1, 0 :+ 4 step 1, 0 :+ 16 step 1, 0 :+ 8 step 1]"),
])  # fmt: skip
def test_three_ways_to_stage_packed_weights(stage, line):
    lines = stripped(DEQUANT.replace("STAGE", stage))
    assert "shared sb: u8[8, 4, 16, 8] = None" in lines and line in lines
    assert lines[-1] == "copy f[0 :+ 128 step 1, 0 :+ 64 step 1] -> w[mul(bx, 128) :+ 128 step 1, mul(ko, 64) :+ 64 step 1]"


WHOLE = "[0 :+ 16 step 1, 0 :+ 8 step 1]"
COPIES = [
    ("copy(x[b * 16, 0], s);", f"copy x[mul(b, 16) :+ 16 step 1, 0 :+ 8 step 1] -> s{WHOLE}"),
    ("copy(t[b, 0, 0], s);", f"copy t[b, 0 :+ 16 step 1, 0 :+ 8 step 1] -> s{WHOLE}"),
    ("copy(t[0:16, b, :8], s);", f"copy t[0 :+ 16 step 1, b, 0 :+ 8 step 1] -> s{WHOLE}"),
    ("copy(x[-1 :+ 16, 3::2], y[:16, :ceildiv(N - 3, 2)]);", "copy x[-1 :+ 16 step 1, 3 :+ ceildiv(sub(N, 3), 2) step 2] -> "
     "y[0 :+ 16 step 1, 0 :+ ceildiv(sub(N, 3), 2) step 1]"),
    ("copy(x[page[b] * 16 :+ 16, :8], s);", f"copy x[cast<i64>(mul(page[b], 16:i32)) :+ 16 step 1, 0 :+ 8 step 1] -> s{WHOLE}"),
    ("copy(s, sh, pad = 0.1);", f"copy s{WHOLE} -> sh{WHOLE} pad 0.0999755859375:f16"),
    ("copy(h[b * 16, 0], s, pad = -inf);", f"copy h[mul(b, 16) :+ 16 step 1, 0 :+ 8 step 1] -> s{WHOLE} pad -inf:f32"),
    ("copy(s[3], y[b, 0:8]);", "copy s[3, 0 :+ 8 step 1] -> y[b, 0 :+ 8 step 1]"),
    ("copy(x, y);", "copy x[0 :+ M step 1, 0 :+ N step 1] -> y[0 :+ M step 1, 0 :+ N step 1]"),
]  # fmt: skip


@pytest.mark.parametrize("text, line", COPIES, ids=[row[0] for row in COPIES])
def test_copy(text, line):
    assert inside(text) == [line]


def test_gemm_of_transposed_factors():
    assert inside("gemm(s, s, g, trans_b = true);") == ["gemm s, s, g trans_b"]
    text = HEAD + "fragment q: f32[8, 8]; gemm(s, f, q, trans_a = true, trans_b = 1 > 2); gemm(si, si, gi, trans_a = true);" + TAIL
    lines = stripped(text.replace("fragment q", "shared gi: i32[16, 16]; fragment q"))
    assert lines[-2:] == ["gemm s, f, q trans_a", "gemm si, si, gi trans_a"]


FRAGMENT = str(FRAGMENT_ORDER)
ROWS = [
    (
        "let m = max(f, axis = 1); f[0, :] = m[0] + w;",
        [
            "fragment m: f32[16] = None",
            "parallel j in 0..16 step 1 row",
            f"  m[j] = max{FRAGMENT}[k in 8](f[j, k]):f32",
            "parallel j in 0..8 step 1 row",
            "  f[0, j] = add(m[0], w[j])",
        ],
    ),
    (
        "w = dot(s, f, axis = 0) - w;",
        ["parallel j in 0..8 step 1 row", f"  w[j] = sub(dot{FRAGMENT}[k in 16](s[k, j], f[k, j]):f32, w[j])"],
    ),
    (
        "f = cumsum(s * 2, axis = 0);",
        [
            "parallel j1 in 0..8 step 1 row",
            f"  parallel j0 in 0..16 step 1 row scan {FRAGMENT}",
            "    f[j0, j1] = scan_sum[j0](mul(s[j0, j1], 2.0:f32)):f32",
        ],
    ),
    (
        "let i = argmax(s + x[b*16 :+ 16, 0:8], axis = 1);",
        [
            "fragment i: i64[16] = None",
            "parallel j in 0..16 step 1 row",
            f"  i[j] = argmax{Order(4, 4, 2)}[k in 8](add(s[j, k], x[add(mul(b, 16), j), k])):i64",
        ],
    ),
    ("let z = max(sum(f, axis = 1));", [f"let z: f32 = max{Order(1, 4, 16)}[j in 16](sum{FRAGMENT}[k in 8](f[j, k]):f32):f32"]),
    ("let z = sum(g);", [f"let z: f32 = sum{Order(4, 4, 32)}[j0 in 16, j1 in 16](g[j0, j1]):f32"]),
    ("let z = sum(x[b]);", [f"let z: f32 = sum{Order(4, 4, 32)}[j in N](x[b, j]):f32"]),
    ("let z = @lanes(2) sum(f[b]);", [f"let z: f32 = sum{Order(2, 2, 2)}[j in 8](f[b, j]):f32"]),
    ("parallel i in 16 { let e = f[i] * 2; w[0] = sum(e); }", ["parallel i in 0..16 step 1",
     f"  w[0] = sum{FRAGMENT}[j in 8]((e = mul(f[i, j], 2.0:f32); e)):f32"]),
    ("s[3:11, :] = 7;", ["parallel j0 in 0..8 step 1, j1 in 0..8 step 1 row", "  s[add(3, j0), j1] = 7.0:f32"]),
    ("let e = s[0] as f16; local l: f32[8] = cumsum(w);", [
        "fragment e: f16[8] = None", "parallel j in 0..8 step 1 row", "  e[j] = cast<f16>(s[0, j])",
        "local l: f32[8] = None", f"parallel j in 0..8 step 1 row scan {FRAGMENT}", "  l[j] = scan_sum[j](w[j]):f32"]),
    ("let e = x[b] * 2; y[b] = e + 1;", ["parallel j in 0..N step 1 row", "  y[b, j] = (e = mul(x[b, j], 2.0:f32); add(e, 1.0:f32))"]),
]  # fmt: skip


@pytest.mark.parametrize("text, lines", ROWS, ids=[row[0] for row in ROWS])
def test_rows_of_tiles(text, lines):
    assert inside(text) == lines


def test_an_axis_outside_a_grid():
    text = "kernel k(x: f32[M, 64], out y: f32[M], out z: f32[M, 64]) { let m = max(x, axis = 1); y = m; z = cumsum(x, axis = 1); }"
    order = Order(4, 4, 16)
    assert body(text) == [
        "parallel j in 0..M step 1 row",
        f"  y[j] = (m = max{order}[k in 64](x[j, k]):f32; m)",
        "parallel j0 in 0..M step 1 row",
        f"  parallel j1 in 0..64 step 1 row scan {order}",
        "    z[j0, j1] = scan_sum[j1](x[j0, j1]):f32",
    ]


def test_a_let_of_a_grid_keeps_its_value():
    assert kernels(HEAD + "let m = f[0]; f = 1; w = m;" + TAIL)


def test_loops_of_a_block():
    lines = inside("persistent p in 4 { serial q in c as i64 { if q > 2 { break; } let z = f[0]; } } local l: f32[4] = 1;")
    assert lines[0] == "persistent p in 0..4 step 1" and "    fragment z: f32[8] = None" in lines
    text = "kernel k(out y: f32[N]) { @threads(32) persistent p in N { shared s: f32[4]; s = 1; copy(s[0:1], y[p :+ 1]); } }"
    assert body(text)[0] == "persistent p in 0..N step 1 {'threads': 32}"


REJECTED = [
    ("E0208", "§copy(x);", "`copy` takes 2 arguments, and 1 are given"),
    ("E0209", "copy(x[0, 0], s, §padd = 1);", "`copy` takes no argument named `padd`"),
    ("E0211", "copy(s, §x[0, 0]);", "`x` is an `in` parameter and cannot be written"),
    ("E0213", "§copy(x[0, 0], y[0, 0]);", "both operands of `copy` are places without an extent"),
    ("E0213", "§copy(x[:8, :8], s);", "`copy` between tiles of 8 x 8 and 16 x 8 elements"),
    ("E0213", "§copy(x[b], w);", "`copy` between tiles of N and 8 elements"),
    ("E0213", "§copy(n[0], s);", "a tile of rank 2 at a place of rank 1"),
    ("E0204", "copy(§n[0:8], w);", "an element of `w` is `f32`, and this value is `i32`"),
    ("E0204", "copy(w, s[0], pad = §true);", "the pad is `f32`, and this value is `bool`"),
    ("E0215", "copy(s[§16], w);", "index 16 is outside `s`, whose dimension 0 has 16 elements"),
    ("E0216", "copy(s[§10 :+ 8, :], y[0, 0]);", "the slice ends at 18, past the end of `s`, whose dimension 0 has 16 elements (10+8 > 16)"),
    ("E0214", "copy(x[§n, 0], w);", "a row stands where one element is needed"),
    ("E0212", "copy(§s + 1, y[0, 0]);", "`copy` needs a place in an array"),
    ("E0232", "§copy(s[0:4], s[4:8]);", "`copy` from `s` to itself"),
    ("E0232", "parallel i in 4 { §copy(s[i], w); }", "`copy` stands in `parallel`"),
    ("E0232", "parallel i in 4 { §gemm(s, s, g, trans_b = true); }", "`gemm` stands in `parallel`"),
    ("E0212", "gemm(§x, s, g);", "`gemm` takes whole tiles"),
    ("E0212", "gemm(§s[0:4], s, g);", "`gemm` takes whole tiles"),
    ("E0212", "gemm(§w, s, g);", "`gemm` takes tiles of two dimensions, and `w` has 1"),
    ("E0212", "gemm(g, s, §s);", "`gemm` accumulates into its own factor `s`"),
    ("E0213", "§gemm(s, s, g);", "the tiles of `gemm` do not fit together"),
    ("E0213", "§gemm(s, s, g, trans_a = true);", "the tiles of `gemm` do not fit together"),
    ("E0203", "§gemm(s, sh, g, trans_b = true);", "`gemm` of `f32` and `f16` into `f32`"),
    ("E0203", "§gemm(si, si, g);", "`gemm` of `i8` and `i8` into `f32`"),
    ("E0204", "gemm(s, s, g, trans_b = §c);", "`trans_b` is a bool known when compiling"),
    ("E0209", "gemm(s, s, g, §trans = true);", "`gemm` takes no argument named `trans`"),
    ("E0220", "y[0, 0] = @lanes(64) §sum(x[0]);", "a reduction inside a `grid` has at most 32 lanes, not 64"),
    ("E0214", "var z = max(§f, axis = 1);", "a reduction over one axis of 2 gives a row, and one element is needed here"),
    ("E0214", "w = max(§f, axis = 2);", "there is no axis 2 in a row of rank 2"),
    ("E0213", "w = max(§f, axis = 1);", "rows of different shapes: 8 and 16 elements"),
    ("E0214", "f = §cumsum(s);", "`cumsum` runs along one dimension, and this row has 2"),
    ("E0231", "parallel i in 4 { §shared z: f32[4]; }", "a `shared` array stands in `parallel`"),
    ("E0231", "parallel i in 4 { §fragment z: f32[4]; }", "a `fragment` array stands in `parallel`"),
    ("E0231", "shared z: f32[§N];", "`z` needs a constant size"),
    ("E0232", "parallel i in 4 { §pipelined q in 4 { } }", "a `pipelined` loop stands in `parallel`"),
    ("E0232", "parallel i in 4 { §persistent q in 4 { } }", "a `persistent` loop stands in `parallel`"),
    ("E0232", "§grid q in 4 { }", "a `grid` stands inside another loop"),
    ("E0221", "pipelined q in 4 { §break; }", "`break` directly in `pipelined`"),
    ("E0221", "serial q in 4 { parallel i in 4 { §continue; } }", "`continue` directly in `parallel`"),
]  # fmt: skip


@pytest.mark.parametrize("code, text, message", REJECTED, ids=[f"{row[0]}-{row[1]}" for row in REJECTED])
def test_a_statement_is_rejected(code, text, message):
    rejects(HEAD + text + TAIL, code, message)


OUTSIDE = [
    ("E0232", "kernel k(out y: f32[1]) { serial q in 4 { §persistent p in 4 { } } }", "a `persistent` loop stands in `serial`"),
    ("E0232", "kernel k(x: f32[1], out y: f32[1]) { §gemm(x, x, y); }", "`gemm` stands outside a `grid`"),
    ("E0232", "kernel k(x: f32[1], out y: f32[1]) { §copy(x, y); }", "`copy` stands outside a `grid`"),
]


@pytest.mark.parametrize("code, text, message", OUTSIDE, ids=[row[1] for row in OUTSIDE])
def test_a_kernel_is_rejected(code, text, message):
    rejects(text, code, message)
