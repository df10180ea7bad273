"""Faults that compilers of this kind have had, continued from `test_cases_maths.py`: reductions and scans of rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.everywhere import bits, output, outputs

NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INF, NAN = np.inf, np.nan


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def extremes(dtype: str) -> str:
    return f"""kernel k(x: {dtype}[M, N], out hi: f64[M], out lo: f64[M], out at: i64[M], out drop: f64[M], out acc: f64[M]) {{
        parallel i in M {{
            hi[i] = max(x[i]) as f64; lo[i] = min(x[i]) as f64; at[i] = argmax(x[i]);
            var a = -1.0 as {dtype if dtype == "f64" else "f32"}; var d = -inf as {dtype if dtype == "f64" else "f32"};
            serial j in N {{ a = max(a, x[i, j]); d = maxnum(d, x[i, j]); }}
            acc[i] = a as f64; drop[i] = d as f64;
        }} }}"""


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000])
@pytest.mark.parametrize("dtype", NUMPY)
def test_nan_in_reductions(dtype, n):
    x = np.full((3, n), 2.0)
    x[0, 0], x[1, n // 2], x[2, -1] = NAN, NAN, NAN
    got = outputs(extremes(dtype), binary=n == 33, x=x.astype(NUMPY[dtype]))
    assert np.isnan(got["hi"]).all() and np.isnan(got["lo"]).all() and np.isnan(got["acc"]).all()
    assert got["at"].tolist() == [0, n // 2, n - 1] and got["drop"].tolist() == [2.0 if n > 1 else -INF] * 3


def test_nan_beside_infinity_and_nothing_but_nan():
    got = outputs(extremes("f32"), x=np.array([[NAN, INF], [INF, NAN], [NAN, NAN]], np.float32))
    assert np.isnan(got["hi"]).all() and got["at"].tolist() == [0, 1, 0] and got["drop"].tolist() == [INF, INF, -INF]
    got = outputs(extremes("f32"), binary=False, x=np.array([[1, NAN, 3, -INF]], np.float32))
    assert np.isnan(got["hi"]).all() and got["at"].tolist() == [1] and got["drop"].tolist() == [3]


@pytest.mark.parametrize("n", [1, 2, 5, 7, 31, 32, 33, 64, 70])
def test_identities_of_reductions(n):
    text = """kernel k(x: f32[N], y: f32[N], z: i32[N], u: u32[N], out a: f32[1], out i: i64[3], out b: i32[1]) {
        parallel r in 1 { a[0] = max(x); i[0] = argmax(x); i[1] = argmin(y); i[2] = argmax(u); b[0] = max(z); } }"""
    low, high = np.full(n, -INF, np.float32), np.full(n, INF, np.float32)
    got = outputs(text, binary=n == 5, x=low, y=high, z=np.full(n, -(2**31), np.int32), u=np.zeros(n, np.uint32))
    assert got["a"].tolist() == [-INF] and got["i"].tolist() == [0, 0, 0] and got["b"].tolist() == [-(2**31)]


def test_order_of_additions_is_what_is_written():
    x = np.array([1e8, 1, -1e8, 1], np.float32)
    text = "kernel k(x: f32[N], out s: f32[1]) {{ @lanes(1) @chunk({}) parallel i in 1 {{ s[0] = sum(x); }} }}"
    assert [output(text.format(chunk), x=x).tolist() for chunk in (1, 2, 4)] == [[1.0], [2.0], [2.0]]


@pytest.mark.parametrize("chunk", [3, 4, 8, 16])
def test_long_dot_products_have_one_value(chunk):
    a, b = rng().standard_normal((2, 65537), np.float32)
    text = f"kernel k(a: f32[N], b: f32[N], out s: f32[2]) {{ @chunk({chunk}) parallel i in 1 {{ s[0] = dot(a, b); }} s[1] = dot(a, b); }}"
    got = output(text, binary=chunk == 4, a=a, b=b)
    np.testing.assert_allclose(got, [np.dot(a.astype(np.float64), b)] * 2, atol=1e-2)


def test_sums_of_f16_are_wide():
    text = "kernel k(x: f16[N], out s: f32[2]) { parallel i in 1 { s[0] = sum(x); s[1] = dot(x, x); } }"
    assert output(text, x=np.ones(4096, np.float16)).tolist() == [4096, 4096]
    assert output(text, x=np.full(64, 64, np.float16)).tolist() == [4096, 262144]


def test_a_running_sum_over_chunks_is_one_pass():
    text = """kernel k(x: f16[M, 4, N], out s: f32[M]) {
        parallel i in M { var t = 0.0; serial c in 4 { t += sum(x[i, c]); } s[i] = t; } }"""
    assert output(text, x=np.full((3, 4, 100), 0.5, np.float16)).tolist() == [200.0] * 3


@pytest.mark.parametrize("dtype", ["f16", "f32", "i32"])
@pytest.mark.parametrize("n", [1, 7, 48, 96, 100, 120, 127, 768, 1280])
def test_row_reductions_of_any_width(n, dtype):
    x = rng().integers(-9, 9, (4, n)).astype(dtype.replace("f", "float").replace("i", "int"))
    result = "i32" if dtype == "i32" else "f32"
    text = f"""kernel k(x: {dtype}[M, N], out s: {result}[M], out hi: {result}[M], out lo: {result}[M], out m: {result}[M]) {{
        parallel i in M {{ s[i] = sum(x[i]); hi[i] = max(x[i]); lo[i] = min(x[i]); m[i] = absmax(x[i]); }} }}"""
    got = outputs(text, binary=n == 100, x=x)
    wide = x.astype(np.int64)
    expected = {"s": wide.sum(1), "hi": wide.max(1), "lo": wide.min(1), "m": abs(wide).max(1)}
    assert {name: value.tolist() for name, value in got.items()} == {name: value.tolist() for name, value in expected.items()}


def test_widths_that_are_no_power_of_two():
    text = "kernel k(x: f32[N], out s: f32[1]) { @lanes(1) parallel i in 1 { s[0] = sum(x); } }"
    assert output(text, x=np.arange(1, 49, dtype=np.float32)).tolist() == [1176]
    text = "kernel k(x: i32[M, N], out s: i32[N]) { parallel j in N { s[j] = max(x[:, j]); } }"
    assert output(text, x=np.arange(96, dtype=np.int32).reshape(32, 3)).tolist() == [93, 94, 95]


def test_middle_axis_and_kept_axis():
    x = rng().integers(0, 99, (16, 8, 16)).astype(np.float32)
    text = """kernel k(x: f32[A, B, C], out s: f32[A, C], out m: f32[A, 1]) {
        parallel a in A { parallel c in C { s[a, c] = sum(x[a, :, c]); } m[a, 0] = max(x[a, :, 0]); } }"""
    got = outputs(text, x=x)
    assert (got["s"] == x.sum(1)).all() and (got["m"][:, 0] == x[:, :, 0].max(1)).all()


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 7, 2), (1, 4, 33)])
def test_a_sum_over_two_dimensions(shape):
    x = rng().integers(-9, 9, shape).astype(np.float32)
    text = "kernel k(x: f32[M, A, B], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"
    assert output(text, x=x).tolist() == x.sum((1, 2)).tolist()


def test_small_ints_are_summed_in_32_bits():
    x = np.full(202, 1, np.int8)
    text = """kernel k(x: i8[N], out wide: i32[1], out narrow: i8[1], out p: i32[1], out d: i32[1], out c: i32[N]) {
        parallel i in 1 { wide[0] = sum(x); narrow[0] = sum(x) as i8; p[0] = prod(x); d[0] = dot(x, x); c = cumsum(x); } }"""
    expected = {"wide": [202], "narrow": [-54], "p": [1], "d": [202], "c": list(range(1, 203))}
    assert {name: value.tolist() for name, value in outputs(text, x=x).items()} == expected


def test_sum_into_a_variable_and_an_element():
    text = """kernel k(a: f32[M, 4], inout b: f32[M], out v: f32[M]) {
        parallel r in M { serial k in 4 { b[r] += a[r, k]; } var t = 0.0; serial k in 4 { t += a[r, k]; } v[r] = t; } }"""
    got = outputs(text, a=np.ones((5, 4), np.float32), b=np.zeros(5, np.float32))
    assert got["b"].tolist() == got["v"].tolist() == [4.0] * 5


def test_running_maximum_in_a_serial_loop():
    a = rng().integers(-(2**31), 2**31, (32, 64)).astype(np.int32)
    text = "kernel k(a: i32[M, N], inout s: i32[M]) { parallel t in M { serial j in N { s[t] = max(s[t], a[t, j]); } } }"
    assert (output(text, a=a, s=np.full(32, -(2**31), np.int32)) == a.max(1)).all()


@pytest.mark.parametrize("n", [1, 64, 250, 512])
def test_prefix_sums(n):
    x = rng().integers(-5, 5, (3, n)).astype(np.int32)
    text = "kernel k(x: i32[M, N], out y: i32[M, N]) { parallel i in M { y[i] = cumsum(x[i]); } }"
    assert (output(text, binary=n == 64, x=x) == x.cumsum(1)).all()


def test_empty_parts_leave_the_sign_of_zero():
    text = "kernel k(x: f32[N], out y: f32[1]) { y[0] = @parts(4) @lanes(4) @chunk(1) sum(x); }"
    assert bits(output(text, x=np.array([-0.0], np.float32))) == [0x80000000]


@pytest.mark.parametrize("few", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("many", [32, 64])
def test_totals_of_few_lanes_are_known_to_all(few, many):
    text = f"""kernel k(x: f32[M, N], out y: f32[M], out z: f32[M]) {{ parallel i in M {{
        let s = @lanes({few}) sum(x[i]);
        y[i] = @lanes({many}) sum(x[i] * s);
        z[i] = s; }} }}"""
    x = np.random.default_rng(few).integers(-9, 10, (3, 37)).astype(np.float32)
    got = outputs(text, binary=False, x=x)
    assert got["z"].tolist() == x.sum(1).tolist() and got["y"].tolist() == (x.sum(1) ** 2).tolist()


@pytest.mark.parametrize("lanes", [64, 96, 256])
def test_reductions_over_several_warps_one_after_another(lanes):
    text = f"""kernel k(x: f32[M, N], out y: f32[M, 3]) {{ @lanes({lanes}) parallel i in M {{
        y[i, 0] = sum(x[i]); y[i, 1] = max(x[i]); y[i, 2] = sum(x[i] * 2.0); }} }}"""
    x = np.random.default_rng(lanes).integers(-9, 10, (3, 300)).astype(np.float32)
    assert output(text, binary=False, x=x).tolist() == np.stack([x.sum(1), x.max(1), 2 * x.sum(1)], axis=1).tolist()
