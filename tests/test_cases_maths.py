"""Faults that compilers of this kind have had, each as a small kernel with its right values (integers, casts, floats).

Every kernel runs on the syntax tree, on the IR as lowered and as threads, with the same bits, and compiles to machine code.
`test_cases_rows.py` and `test_cases_indices.py` go on with reductions, indices, memory and control. Elsewhere is what needs
 - tiles (fragments, shared memory, `copy`, `gemm`, pipelined and persistent loops, scans per tile): `test_cases_tiles.py`;
 - arrays of other libraries, CPU arrays, overlap, packing of scalars, limits of a launch: `test_launch.py`, `test_arrays.py`;
 - archs, missing NVRTC and its messages: `test_nvrtc.py`; the text of literals: `test_semantics_cuda.py`; `-D`: `test_cli_*.py`.
Chosen vector widths are in test_vector_widths.py, calls that compile by themselves in test_api*.py. Nowhere are faults of caches on disk,
and of limits on the time that compiling takes (`VXC_COMPILE_TIMEOUT`), for neither is there.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.everywhere import bits, compiled, constant, each, output, outputs, refused
from vxc.diag import VxcError
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat

BF16 = ml_dtypes.bfloat16
INF, NAN = np.inf, np.nan
I32_MIN, I32_MAX = -(2**31), 2**31 - 1


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# ---- integer division ------------------------------------------------------------------------------------------------

DIVISION = {  # operation: quotients or rests of PAIRS
    "{} // {}": [3, -4, -4, 3, -1, -3],
    "{} % {}": [1, 1, -1, -1, 511, -2],
    "tdiv({}, {})": [3, -3, -3, 3, 0, -2],
    "trem({}, {})": [1, -1, 1, -1, -1, 1],
    "ceildiv({}, {})": [4, -3, -3, 4, 0, -2],
}
PAIRS = ((7, 2), (-7, 2), (7, -2), (-7, -2), (-1, 512), (7, -3))


@pytest.mark.parametrize("operation", DIVISION)
def test_division_with_negative_operands_at_run_time(operation):
    a, b = np.array(PAIRS, np.int32).T.copy()
    assert each("i32", operation.format("a", "b"), a=a, b=b).tolist() == DIVISION[operation]


@pytest.mark.parametrize("operation", DIVISION)
def test_division_with_negative_operands_at_compile_time(operation):
    lines = " ".join(f"o[{at}] = {operation.format(f'({a} as i32)', f'({b})')};" for at, (a, b) in enumerate(PAIRS))
    assert output(f"kernel k(out o: i32[6]) {{ parallel i in 1 {{ {lines} }} }}").tolist() == DIVISION[operation]


def test_division_by_a_negative_constant():
    expected = [0, -1, -1, -2, -2, -3, -3, -4, -4, -5, -5, -6, -6, -7, -7, -8]
    assert each("i32", "a // -2", a=np.arange(16, dtype=np.int32)).tolist() == expected
    assert output("kernel k(out o: i64[8]) { parallel i in 8 { o[i] = i // -2; } }").tolist() == expected[:8]


def test_ceiling_division_of_negatives():
    assert each("i32", "ceildiv(a, b)", a=i32(-36, 36, -35, 0), b=i32(5, 5, 5, 5)).tolist() == [-7, 8, -7, 0]


def test_a_negative_factor_survives_range_analysis():
    assert output("kernel k(out o: i64[10]) { parallel i in 10 { o[i] = (i * -10) // 11; } }").tolist() == list(range(0, -10, -1))


def test_quotients_and_rests_by_negative_divisors_are_not_recombined():
    a = np.arange(-100, 101, dtype=np.int64)
    assert each("i64", "((a // -3) % -2) + (a // 6) * -2", a=a).tolist() == [((v // -3) % -2) + (v // 6) * -2 for v in a.tolist()]


def test_division_by_zero_is_zero():
    text = """kernel k(a: i32[N], b: i32, out o: i32[N, 3]) {
        parallel i in N { o[i, 0] = a[i] // b; o[i, 1] = a[i] % b; o[i, 2] = (a[i] // b) // (a[i] // b); } }"""
    assert output(text, a=i32(5, -5, 0), b=0).tolist() == [[0, 0, 0]] * 3


def test_division_by_zero_traps_in_debug():
    text = "kernel k(a: i32[N], b: i32, out o: i32[N]) { parallel i in N { o[i] = a[i] // b; } }"
    made = compiled(text)
    call = ({"a": i32(5)}, {"b": 0})
    for run in (lambda: run_ast(made.typed, *call, trap_div=True), lambda: run_flat(made.plan, *call, trap_div=True, source=made.source)):
        with pytest.raises(VxcError) as caught:
            run()
        assert [d.code for d in caught.value.diagnostics] == ["E0724"] and "case.vx:1:" in str(caught.value)


@pytest.mark.parametrize("operator", ["//", "%"])
def test_division_by_the_constant_zero_is_refused(operator):
    assert refused(f"kernel k(a: i32[N], out o: i32[N]) {{ parallel i in N {{ o[i] = a[i] {operator} 0; }} }}") == ["E0217"]


def test_the_least_integer_over_minus_one_wraps():
    assert each("i32", "a // b", a=i32(I32_MIN, I32_MIN), b=i32(-1, 1)).tolist() == [I32_MIN, I32_MIN]


# ---- shifts, widths, signs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9])
def test_shift_counts_beyond_the_width(n):
    s = np.resize(i32(31, 32, 33, 63, 64, -1, 0), n)
    left = [I32_MIN, 0, 0, 0, 0, 0, 1]
    right = [-1, -1, -1, -1, -1, -1, -8]
    ones, eights = np.full(n, 1, np.int32), np.full(n, -8, np.int32)
    assert each("i32", "x << s", x=ones, s=s, binary=n == 1).tolist() == np.resize(left, n).tolist()
    assert each("i32", "y >> s", y=eights, s=s, binary=n == 1).tolist() == np.resize(right, n).tolist()


def test_right_shift_of_unsigned_beyond_the_width_is_zero():
    x, s = np.array([2**32 - 1] * 3, np.uint32), np.array([31, 32, 64], np.uint32)
    assert each("u32", "x >> s", x=x, s=s).tolist() == [1, 0, 0]


@pytest.mark.parametrize("dtype, x, expected", [("u8", 48, 0), ("i8", 8, -8)])
def test_narrow_shifts_wrap_in_their_width(dtype, x, expected):
    assert each(dtype, "(x << 4) >> 4", x=np.array([x], dtype.replace("i", "int").replace("u", "uint"))).tolist() == [expected]


def test_narrow_left_shift_drops_bits():
    assert each("u8", "x << 1", x=np.array([255], np.uint8)).tolist() == [254]


def test_sums_of_constants_wrap():
    assert each("i32", "(x + 2000000000) + 2000000000", x=i32(0, 5)).tolist() == [4000000000 - 2**32, 4000000005 - 2**32]


@pytest.mark.parametrize("params, condition", [("x: i8, y: u8", "x > y"), ("x: i32, y: u32", "y < x")])
def test_comparing_signed_and_unsigned_is_refused(params, condition):
    assert refused(f"kernel k({params}, out o: bool[1]) {{ parallel i in 1 {{ o[i] = {condition}; }} }}") == ["E0203"]


def test_unsigned_operands_stay_unsigned():
    assert each("u16", "v - a", v=np.array([1000], np.uint16), a=np.array([255], np.uint8)).tolist() == [745]
    h = (660 * 1) ^ (241 * 2654435761) ^ (838 * 805459861)
    assert each("u32", "h % m", h=np.array([h % 2**32], np.uint32), m=np.array([524288], np.uint32)).tolist() == [212107]
    assert each("u64", "x % 16", x=np.array([2**64 - 1], np.uint64)).tolist() == [15]
    a, x, b = (np.array([v], np.uint64) for v in (2744776747, 3897592450, 3698061793))
    assert each("u64", "(a * x + b) % 515024571323837", a=a, x=x, b=b).tolist() == [445758773403616]


def test_the_wider_unsigned_type_is_the_common_one():
    small, wide = np.array([65535], np.uint16), np.array([2**64 - 65536], np.uint64)
    assert each("u64", "small + wide", small=small, wide=wide).tolist() == [2**64 - 1]


def test_bools_are_no_numbers():
    assert refused("kernel k(a: bool, b: bool, out o: i32[1]) { parallel i in 1 { o[i] = a + b; } }") == ["E0203"]
    assert refused("kernel k(a: bool, b: bool, out o: bool[1]) { parallel i in 1 { o[i] = a < b; } }") == ["E0203"]
    assert refused("kernel k(a: bool, out o: bool[1]) { parallel i in 1 { o[i] = ~a; } }") == ["E0203"]


def test_bools_are_stored_as_one():
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert bits(each("bool", "a == b || a", a=a, b=b)) == [1, 1, 1]
    assert each("i32", "(a as i32) + (b as i32)", a=a, b=b).tolist() == [2, 1, 0]
    assert bits(each("bool", "x as bool", x=i32(255, 256, 0))) == [1, 1, 0]


# ---- casts -----------------------------------------------------------------------------------------------------------


def test_float_to_int_saturates_and_nan_is_zero():
    assert each("i32", "x as i32", x=f32(INF, -INF, NAN, 3e9, -3e9)).tolist() == [I32_MAX, I32_MIN, 0, I32_MAX, I32_MIN]
    assert each("i8", "h as i8", h=np.array([INF, 510, -200], np.float16)).tolist() == [127, 127, -128]


def test_casts_between_signs():
    assert each("u32", "(f as i32) as u32", f=f32(-3)).tolist() == [4294967293]
    assert each("u8", "f as u8", f=f32(-3)).tolist() == [0]
    assert each("u16", "v as u16", v=np.array([-1, -2], np.int8)).tolist() == [65535, 65534]
    assert each("i8", "v as i8", v=np.array([65535, 65534], np.uint16)).tolist() == [-1, -2]


def test_bits_of_what_is_computed_in_narrow_integers():
    assert each("u16", "reinterpret(x & y, u16)", x=np.array([-1, 3], np.int16), y=np.array([-2, 2], np.int16)).tolist() == [65534, 2]


def test_int_to_bf16_rounds_to_nearest_even():
    assert each("bf16", "x as bf16", x=i32(259, 33000, -259)).astype(np.float32).tolist() == [260, 33024, -260]


def test_f64_to_f16_rounds_once():
    assert bits(each("f16", "x as f16", x=np.array([1 + 2**-11 + 2**-40]))) == [0x3C01]


def test_nan_and_infinity_survive_rounding_to_bf16():
    x = np.array([0x7FFF8C22, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000], np.uint32).view(np.float32)
    got = each("bf16", "x as bf16", x=x).astype(np.float32)
    assert np.isnan(got).tolist() == [True] * 5 + [False] and got[5] == INF
    largest = float(ml_dtypes.finfo(BF16).max)
    assert each("bf16", "(x * 2.0) as bf16", x=f32(largest)).astype(np.float32).tolist() == [INF]


@pytest.mark.parametrize("source, target", [("f16", BF16), ("bf16", np.float16)])
def test_sixteen_bit_floats_convert_into_each_other(source, target):
    x = np.linspace(-300, 300, 256).astype(np.float16 if source == "f16" else BF16)
    name = "bf16" if source == "f16" else "f16"
    assert bits(each(name, f"x as {name}", x=x)) == bits(x.astype(np.float32).astype(target))


@pytest.mark.parametrize("dtype", ["u8", "u64", "i8", "i64", "f8e4m3", "f8e5m2"])
def test_a_cast_index_is_stored_in_every_type(dtype):
    got = output(f"kernel k(out a: {dtype}[8]) {{ parallel i in 8 {{ a[i] = (i + 1) as {dtype}; }} }}")
    assert got.astype(np.float64).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


# ---- literals and floats ---------------------------------------------------------------------------------------------


def test_literals_take_the_width_of_the_other_operand():
    x = np.zeros(1)
    assert bits(each("f64", "x + 0.2", x=x)) == [0x3FC999999999999A]
    assert each("f64", "x + 3.1415926", x=x).tolist() == [3.1415926] and each("f64", "x + 2e50", x=x).tolist() == [2e50]
    assert bits(each("f32", "x + 0.2", x=f32(0))) == [0x3E4CCCCD]


@pytest.mark.parametrize(
    "dtype, literal, expected",
    [
        ("f32", "1e-40", 0x000116C2), ("bf16", "1e-40", 0x0001), ("f32", "3.402823466385289e38", 0x7F7FFFFF), ("f32", "1e-46", 0),
        ("f16", "65510.0 as f16", 0x7BFF), ("f16", "65520.0 as f16", 0x7C00), ("f32", "ceil(8388608.5 as f32)", 0x4B000000),
        ("f32", "inf", 0x7F800000), ("f32", "-inf", 0xFF800000), ("f32", "-0.0", 0x80000000), ("f64", "1e-320", 2024),
    ],
)  # fmt: skip
def test_literals_at_the_edges(dtype, literal, expected):
    assert bits(constant(dtype, literal)) == [expected]


def test_division_is_exact_by_default():
    assert each("i32", "(abs(f) / f) as i32", f=np.arange(1, 1025, dtype=np.float32)).tolist() == [1] * 1024


def test_fma_rounds_once_and_products_do_not_contract():
    x, y = f32(1.4142135), f32(1.7320508)
    assert bits(each("f32", "fma(x, y, z)", x=x, y=y, z=-(x * y))) == [0x3388222A]
    assert bits(each("f32", "x * y + z", x=x, y=y, z=-(x * y))) == [0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signed_zeros(dtype):
    name = f"f{dtype(0).itemsize * 8}"
    p, n = np.array([0.0], dtype), np.array([-0.0], dtype)
    for expression, negative in {
        "max(n, p)": False, "max(p, n)": False, "min(p, n)": True, "min(n, p)": True, "abs(n)": False, "-p": True, "0.0 - p": False,
        "n + 0.0": False, "n + n": True, "n * 0.0": True, "0.0 - n": False, "p - p": False,
    }.items():  # fmt: skip
        assert np.signbit(each(name, expression, binary=False, p=p, n=n)).tolist() == [negative], expression


def test_comparisons_of_nan():
    text = """kernel k(x: f32[N], out o: bool[N, 5]) { parallel i in N { let v = x[i];
        o[i, 0] = v != v; o[i, 1] = v == v; o[i, 2] = v < 1.0; o[i, 3] = !(v < 1.0); o[i, 4] = v >= 1.0; } }"""
    assert output(text, x=f32(NAN)).astype(int).tolist() == [[1, 0, 0, 1, 0]]


def test_nan_through_max_min_and_clamp():
    x = f32(NAN)
    for expression, expected in {
        "max(x, 1.0)": NAN, "max(1.0, x)": NAN, "min(x, 1.0)": NAN, "clamp(x, -1.0, 1.0)": NAN, "maxnum(x, 1.0)": 1, "minnum(1.0, x)": 1,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(each("f32", expression, binary=False, x=x), f32(expected), expression)
    assert np.isnan(constant("f32", "max(1.0 as f32, nan)"))[0] and np.isnan(constant("f32", "max(nan, 1.0 as f32)"))[0]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_infinity_is_stored_in_every_float_type(dtype):
    assert output(f"kernel k(out o: {dtype}[4]) {{ parallel i in 4 {{ o[i] = inf; }} }}").astype(np.float64).tolist() == [INF] * 4


def test_outputs_of_one_kernel_do_not_disturb_each_other():
    text = """kernel k(a: i32[N], b: i32[N], out q: i32[N], out r: i32[N]) {
        parallel i in N { q[i] = a[i] // b[i]; r[i] = a[i] % b[i]; } }"""
    got = outputs(text, a=i32(7, -7, 7), b=i32(2, 2, 0))
    assert got["q"].tolist() == [3, -4, 0] and got["r"].tolist() == [1, 1, 0]
