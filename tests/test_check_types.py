"""What the checker makes of statements: types of literals, widening, rows as loops, reductions and their order."""

from __future__ import annotations

import pytest
from typed_text import body

HEAD = """kernel k(x: f32[M, N], w: f32[N], n: i32[M], u: u32[M], q: i64[M], d: f64[N], h: f16[N], g: f16[M, N], f: bool[M],
         inout y: f32[M, N], inout z: i32[8], out o16: f16[M, N], out o64: f64[N], a: f32, c: i32, b: bool) { parallel i in M {
"""
TAIL = "\n} }\n"

SCALARS = [
    ("y[i, 0] = h[0] + d[0] as f32;", ["y[i, 0] = add(cast<f32>(h[0]), cast<f32>(d[0]))"]),
    ("o64[0] = h[0] + d[0];", ["o64[0] = add(cast<f64>(cast<f32>(h[0])), d[0])"]),
    ("o64[i] = 0.2;", ["o64[i] = 0.2:f64"]),
    ("o64[i] = a;", ["o64[i] = cast<f64>(a)"]),
    ("o16[i, 0] = d[0];", ["o16[i, 0] = cast<f16>(d[0])"]),
    ("o16[i, 0] = a + 0.1;", ["o16[i, 0] = cast<f16>(add(a, 0.10000000149011612:f32))"]),
    ("o16[i, 0] = 0.1;", ["o16[i, 0] = 0.0999755859375:f16"]),
    ("let v = h[0];", ["let v: f32 = cast<f32>(h[0])"]),
    ("let v = h[0] as f16; y[i, 0] = v * v;", ["let v: f16 = h[0]", "y[i, 0] = mul(cast<f32>(v), cast<f32>(v))"]),
    ("let t = a + 1;", ["let t: f32 = add(a, 1.0:f32)"]),
    ("let t = 1 + 2 * 3;", ["let t: i64 = 7"]),
    ("let t = 1 + a * 2.5;", ["let t: f32 = add(1.0:f32, mul(a, 2.5:f32))"]),
    ("let t = (u[i] as u8) + n[i];", ["let t: i32 = add(cast<i32>(cast<u8>(u[i])), n[i])"]),
    ("let t = (u[i] as u16) - (u[i] as u8);", ["let t: u16 = sub(cast<u16>(u[i]), cast<u16>(cast<u8>(u[i])))"]),
    ("let t = u[i] + q[i];", ["let t: i64 = add(cast<i64>(u[i]), q[i])"]),
    ("let t = (u[i] as u16) + (u[i] as u64);", ["let t: u64 = add(cast<u64>(cast<u16>(u[i])), cast<u64>(u[i]))"]),
    ("let t = f[i] & b | !f[i];", ["let t: bool = or(and(f[i], b), not(f[i]))"]),
    ("let t = b && f[i] || a > 0;", ["let t: bool = if(if(b, f[i], False:bool), True:bool, gt(a, 0.0:f32))"]),
    ("z[0] = if b { 1 } else if f[i] { 2 } else { 3 };", ["z[0] = if(b, 1:i32, if(f[i], 2:i32, 3:i32))"]),
    ("o64[0] = select(b, 0.1, 1);", ["o64[0] = select(b, 0.1:f64, 1.0:f64)"]),
    ("let t = 300 as u8;", ["let t: u8 = cast<u8>(300)"]),
    ("let t = 0.1 as f16;", ["let t: f16 = 0.0999755859375:f16"]),
    ("let t = 65520.0 as f16;", ["let t: f16 = inf:f16"]),
    ("let t = 3.7 as i32;", ["let t: i32 = cast<i32>(3.7:f64)"]),
    ("let t = a as bool;", ["let t: bool = cast<bool>(a)"]),
    ("let t = reinterpret(h[0], u16);", ["let t: u16 = reinterpret<u16>(h[0])"]),
    ("let t = sat(a, f8e4m3);", ["let t: f8e4m3 = sat<f8e4m3>(a)"]),
    ("z[i] = n[i] << 3 >> c;", ["z[i] = shr(shl(n[i], 3:i32), c)"]),
    ("let old = atomic_max(z[n[i]], 3); z[0] = old;", ["let old = atomic_max z[cast<i64>(n[i])], 3:i32", "z[0] = old"]),
    ("y[i, 0] = rand(1, i);", ["y[i, 0] = rand(1, i)"]),
    ("var t = 0; t += n[i];", ["var t: i64 = 0", "t = add(t, cast<i64>(n[i]))"]),
    (
        "serial j in 8..0 step -2 { if j == 2 { continue; } z[j] = 1; }",
        ["serial j in 8..0 step -2", "  if eq(j, 2)", "    continue", "  z[j] = 1:i32"],
    ),
    ("let t = y[i][0] + x[i][0];", ["let t: f32 = add(y[i, 0], x[i, 0])"]),
]  # fmt: skip

ROWS = [
    ("o16[i] = g[i];", ["parallel j in 0..N step 1 row", "  o16[i, j] = g[i, j]"]),
    (
        "y[i, 1:] = x[i, :N - 1] + w[1:];",
        ["parallel j in 0..sub(max(N, 1), 1) step 1 row", "  y[i, add(1, j)] = add(x[i, j], w[add(1, j)])"],
    ),
    ("y[i, 0:10:3] = x[i, 2 :+ 4];", ["parallel j in 0..4 step 1 row", "  y[i, mul(j, 3)] = x[i, add(2, j)]"]),
    ("y[i, 0:3] = x[n[0:3], 0];", ["parallel j in 0..3 step 1 row", "  y[i, j] = x[cast<i64>(n[j]), 0]"]),
    ("y[2:4] = 0;", ["parallel j0 in 0..2 step 1, j1 in 0..N step 1 row", "  y[add(2, j0), j1] = 0.0:f32"]),
    (
        "y[i] = if x[i] > 0 { x[i] } else { 0 };",
        ["parallel j in 0..N step 1 row", "  y[i, j] = if(gt(x[i, j], 0.0:f32), x[i, j], 0.0:f32)"],
    ),
    (
        "let e = exp(x[i] - a); y[i] = e / sum(e);",
        [
            "let sum: f32 = sum[4, 4, 32, 0][j in N]((e = exp(sub(x[i, j], a)); e)):f32",
            "parallel j in 0..N step 1 row",
            "  y[i, j] = (e = exp(sub(x[i, j], a)); div(e, sum))",
        ],
    ),
    (
        "let e = x[i] * 2; let g = e + e; y[i] = g * g;",
        ["parallel j in 0..N step 1 row", "  y[i, j] = (e = mul(x[i, j], 2.0:f32); g = add(e, e); mul(g, g))"],
    ),
    ("y[i] += x[i] * a;", ["parallel j in 0..N step 1 row", "  y[i, j] = add(y[i, j], mul(x[i, j], a))"]),
    (
        "y[i] = cumsum(x[i] * a) + cummax(w);",
        ["parallel j in 0..N step 1 row scan [4, 4, 32, 1]", "  y[i, j] = add(scan_sum[j](mul(x[i, j], a)):f32, scan_max[j](w[j]):f32)"],
    ),
    (
        "local l: f32[4] = 0.0; l = l + 1; l[1:3] = w[0:2];",
        [
            "local l: f32[4] = 0.0:f32",
            "parallel j in 0..4 step 1 row",
            "  l[j] = add(l[j], 1.0:f32)",
            "parallel j in 0..2 step 1 row",
            "  l[add(1, j)] = w[j]",
        ],
    ),
    ("local l: f32[4] = w[0:4];", ["local l: f32[4] = None", "parallel j in 0..4 step 1 row", "  l[j] = w[j]"]),
    ("atomic_add(y[i], w);", ["parallel j in 0..N step 1 row", "  atomic_add y[i, j], w[j]"]),
    ("let m = max(x[i]); y[i, 0] = m;", ["let m: f32 = max[4, 4, 32, 0][j in N](x[i, j]):f32", "y[i, 0] = m"]),
    ("let t = @chunk(4) sum(g[i] * h);", ["let t: f32 = sum[8, 4, 32, 0][j in N](mul(cast<f32>(g[i, j]), cast<f32>(h[j]))):f32"]),
    ("y[i, 0] = sum(x[:, 0]);", ["y[i, 0] = sum[1, 32, 1, 1][j in M](x[j, 0]):f32"]),
    ("y[i, 0] = sum(x);", ["y[i, 0] = sum[4, 4, 32, 0][j0 in M, j1 in N](x[j0, j1]):f32"]),
    ("y[i, 0] = sum(w[n]);", ["y[i, 0] = sum[1, 32, 1, 1][j in M](w[cast<i64>(n[j])]):f32"]),
    ("y[i, 0] = dot(x[i], h);", ["y[i, 0] = dot[8, 8, 32, 0][j in N](x[i, j], cast<f32>(h[j])):f32"]),
    (
        "let t = sum(z); let s = sum((x[i] > 0) as i8); let r = argmax(w);",
        [
            "let t: i32 = sum[4, 4, 2, 1][j in 8](z[j]):i32",
            "let s: i32 = sum[4, 4, 32, 0][j in N](cast<i8>(gt(x[i, j], 0.0:f32))):i32",
            "let r: i64 = argmax[4, 4, 32, 0][j in N](w[j]):i64",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize("text, expected", SCALARS + ROWS, ids=[row[0] for row in SCALARS + ROWS])
def test_statement(text, expected):
    first, *lines = body(HEAD + text + TAIL)
    assert first == "parallel i in 0..M step 1"
    assert [line[2:] for line in lines] == expected
