"""Binding: dimensions from shapes and strides, scalars to their declared type, and every way to call wrongly."""

import numpy as np
import pytest

from vxc.binding import ArrayParam, Described, ScalarParam, bind, describe, fit_scalar, signature
from vxc.diag import VxcError
from vxc.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, U4, U64
from vxc.ir.facts import MAX_DIM
from vxc.ir.kernel import Buffer, Const, Value
from vxc.dtypes import I64

X = ArrayParam("x", F32, ("M", "N"), "in")
W = ArrayParam("w", F16, ("N", 64), "in")
Y = ArrayParam("y", F32, ("M", 64), "out")
ALPHA = ScalarParam("alpha", F32)


def f32(*shape, strides=None):
    return Described(shape, "float32", strides)


def f16(*shape):
    return Described(shape, "float16")


def refused(*args, **named):
    """(code, message, help) of each diagnostic."""
    with pytest.raises(VxcError) as caught:
        bind(*args, **named)
    return [(d.code, d.message, d.help) for d in caught.value.diagnostics]


def test_shapes_bind_dimensions_and_size_missing_outputs():
    got = bind([X, W, Y, ALPHA], {"x": f32(3, 5), "w": f16(5, 64)}, {"alpha": 2})
    assert got.dims == {"M": 3, "N": 5}
    assert got.scalars == {"alpha": 2.0}
    assert got.shapes == {"x": (3, 5), "w": (5, 64), "y": (3, 64)}


def test_zero_sizes_are_sizes():
    assert bind([X], {"x": f32(0, 7)}, {}).dims == {"M": 0, "N": 7}


def test_given_dimensions_size_an_output_and_are_compared():
    alone = ArrayParam("y", F32, ("K",), "out")
    assert bind([alone], {}, {}, {"K": 9}).shapes == {"y": (9,)}
    assert refused([X], {"x": f32(3, 5)}, {}, {"N": 6}) == [
        ("E0705", "dimension 1 of `x` is 5, but the given size makes N = 6", "`x` is declared f32[M, N]")
    ]
    assert refused([alone], {}, {}, {"K": -1}) == [("E0705", "dimension 0 of `y` would be -1", "a size is 0 or more")]


def test_a_dimension_larger_than_compiling_takes_for_granted():
    assert bind([X], {"x": f32(0, MAX_DIM)}, {}).dims["N"] == 1 << 47
    told = "dimension N would be 140,737,488,355,329, and at most 140,737,488,355,328 is possible"
    assert refused([X], {"x": f32(0, MAX_DIM + 1)}, {}) == [("E0705", told, "use a smaller size")]


def test_an_output_that_nothing_sizes():
    assert refused([ArrayParam("y", F32, ("K",), "out")], {}, {}) == [
        ("E0714", "nothing gives the size of K, so `y` cannot be allocated", "pass `y`, or give the size, as with -D K=1024")
    ]
    (told,) = refused([ArrayParam("y", F32, ("K", "K"), "out")], {}, {})
    assert told[1] == "nothing gives the size of K, so `y` cannot be allocated"


def test_two_arrays_disagree_and_both_are_named():
    assert refused([X, W], {"x": f32(3, 5), "w": f16(6, 64)}, {}) == [
        ("E0705", "dimension 0 of `w` is 6, but dimension 1 of `x` makes N = 5", "`w` is declared f16[N, 64]")
    ]


def test_constant_dimension_and_rank():
    assert refused([W], {"w": f16(5, 63)}, {}) == [("E0705", "dimension 1 of `w` is 63, but 64 is declared", "`w` is declared f16[N, 64]")]
    assert refused([W], {"w": f16(5)}, {}) == [
        ("E0705", "array argument `w` has 1 dimension, but 2 declared", "pass shape f16[N, 64], not [5]")
    ]


def test_dtype():
    assert refused([X], {"x": Described((3, 5), "float64")}, {}) == [
        ("E0704", "array argument `x` holds float64, but f32 is declared", "convert it, as with x.astype('float32')")
    ]
    assert bind([ArrayParam("q", U4, ("N",), "in")], {"q": Described((5,), "uint8")}, {}).dims == {"N": 5}


def test_missing_and_unknown_arguments_all_at_once():
    assert refused([X, ALPHA], {"xx": f32(1, 1)}, {"beta": 1}) == [
        ("E0708", "there is no parameter `xx`", "did you mean `x`?"),
        ("E0708", "there is no parameter `beta`", "the parameters are `x`, `alpha`"),
        ("E0708", "array argument `x` is missing", "pass x=f32[M, N]"),
        ("E0708", "scalar argument `alpha` is missing", "pass alpha=NUMBER (of type f32)"),
    ]


PITCHED = ArrayParam("x", F32, ("M", "N"), "in", ("ld", 1))


def test_strides_bind_a_pitch():
    base = np.zeros((4, 8), np.float32)
    assert bind([PITCHED], {"x": describe(base[:, :5])}, {}).dims == {"M": 4, "N": 5, "ld": 8}
    assert bind([PITCHED], {"x": f32(4, 5)}, {}).dims["ld"] == 5


@pytest.mark.parametrize("array", [np.zeros((4, 8), np.float32)[:1, :5], np.zeros((0, 5), np.float32)])
def test_the_stride_of_one_element_or_none_means_nothing(array):
    assert bind([PITCHED], {"x": describe(array)}, {}).dims["ld"] == 5


def test_wrong_strides():
    column = np.zeros((4, 8), np.float32).T
    assert refused([PITCHED], {"x": describe(column)}, {}) == [
        ("E0706", "stride 1 of `x` (in elements) is 8, but 1 is declared", "`x` is declared f32[M, N]")
    ]


@pytest.mark.parametrize(
    "value, dtype, fitted",
    [
        (5, F32, 5.0),
        (np.float32(0.125), F32, 0.125),
        (np.int64(5), I32, 5),
        (float("inf"), F16, float("inf")),
        (3.4028235e38, F32, 3.4028235e38),
        (65519.0, F16, 65519.0),
        (True, BOOL, True),
        (np.bool_(True), BOOL, True),
        (1, BOOL, True),
        (2**64 - 1, U64, 2**64 - 1),
    ],
)
def test_scalars_take_the_declared_type(value, dtype, fitted):
    got, problem = fit_scalar(value, dtype)
    assert (got, type(got), problem) == (fitted, type(fitted), "")


@pytest.mark.parametrize(
    "value, dtype, problem",
    [
        (2**31, I32, "is outside -2147483648..2147483647"),
        (-1, U64, "is outside 0..18446744073709551615"),
        (128, I8, "is outside -128..127"),
        (2, BOOL, "is outside 0..1"),
        (5.0, I32, "is not an integer"),
        ("five", F32, "is not a number"),
        (None, F64, "is not a number"),
        (65520.0, F16, "is beyond its greatest value 65504"),
        (1e39, BF16, "is beyond its greatest value 3.38953e+38"),
        (10**400, F64, "is beyond its greatest value"),
    ],
)
def test_scalars_that_do_not_fit(value, dtype, problem):
    assert fit_scalar(value, dtype)[1] == problem


def test_a_scalar_that_does_not_fit_is_named():
    assert refused([ScalarParam("n", I32)], {}, {"n": 2**31}) == [
        ("E0707", "scalar argument `n` is i32, but 2147483648 is outside -2147483648..2147483647", "pass a number that i32 holds")
    ]


def test_the_signature_of_a_plan_leaves_out_its_dimensions():
    m, n, ld, a = Value("M", I64), Value("N", I64), Value("ld", I64), Value("a", F32)
    x = Buffer("x", F32, (m, n), "param", "in", (ld, Const(1)))
    y = Buffer("y", F32, (m, Const(4)), "param", "out")
    assert signature((m, n, ld, a, x, y)) == (
        ScalarParam("a", F32),
        ArrayParam("x", F32, ("M", "N"), "in", ("ld", 1)),
        ArrayParam("y", F32, ("M", 4), "out"),
    )


def test_unbound_strides_are_packed_around_bound_ones():
    x = ArrayParam("x", F32, ("B", "M", "N"), "in", ("s", "ld", 1))
    base = np.zeros((2, 7, 9), np.float32)
    assert bind([x], {"x": describe(base[:1, :4, :5])}, {}).dims == {"B": 1, "M": 4, "N": 5, "ld": 9, "s": 36}
    pitched_out = ArrayParam("y", F32, ("M", "N"), "out", ("ld", 1))
    assert bind([PITCHED, pitched_out], {"x": describe(base[0, :4, :5])}, {}).dims["ld"] == 9
    assert bind([pitched_out], {}, {}, {"M": 3, "N": 4}).dims["ld"] == 4
