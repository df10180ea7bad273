"""Kernels of one line: the text that they become, what they accept, and what is said of what they do not."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
from fake_cuda import floats
from numpy.lib.stride_tricks import as_strided

import vxc

CPU = {"device": "cpu"}
FMA = "x: f32, y: f32, a: scalar f32 -> f32", "a * x + y"


def text(kernel: vxc.Kernel, *shapes: tuple[int, ...]) -> str:
    """The kernel that arrays of these shapes become, its body on one line."""
    return " ".join(kernel.compile(*shapes).made.source.text.split())


# ---- the kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes, wanted",
    [
        ((), "(x: f32[N], y: f32[N], a: f32, out result: f32[N]) { parallel i in N { result[i] = a * x[i] + y[i]; } }"),
        (((6, 5), (6, 5)), "(x: f32[N], y: f32[N], a: f32, out result: f32[N]) { parallel i in N { result[i] = a * x[i] + y[i]; } }"),
        (((1, 1), ()), "(x: f32[N], y: f32[N], a: f32, out result: f32[N]) { parallel i in N { result[i] = a * x[i] + y[i]; } }"),
        (((6, 5), ()), "(x: f32[N], y: f32[1], a: f32, out result: f32[N]) { parallel i in N { result[i] = a * x[i] + y[0]; } }"),
        (((2, 3, 4), (4,)), "(x: f32[N0, N1], y: f32[N1], a: f32, out result: f32[N0, N1]) "
         "{ parallel i0 in N0, i1 in N1 { result[i0, i1] = a * x[i0, i1] + y[i1]; } }"),
        (((5, 1), (6, 1, 3)), "(x: f32[N1], y: f32[N0, N2], a: f32, out result: f32[N0, N1, N2]) "
         "{ parallel i0 in N0, i1 in N1, i2 in N2 { result[i0, i1, i2] = a * x[i1] + y[i0, i2]; } }"),
    ],
)  # fmt: skip
def test_arrays_that_broadcast_become_a_kernel_of_as_few_loops_as_they_need(shapes, wanted):
    assert text(vxc.elementwise(*FMA), *shapes) == f"kernel elementwise{wanted}"


@pytest.mark.parametrize(
    "axis, shapes, wanted",
    [
        (-1, (), "(x: f32[N, K], y: f32[N, K], out result: f32[N]) { parallel i in N { result[i] = sum(x[i, :] * y[i, :]); } }"),
        (None, (), "(x: f32[K], y: f32[K], out result: f32[1]) { result[0] = sum(x[:] * y[:]); }"),
        (0, ((3, 4, 5),) * 2, "(x: f32[K, N], y: f32[K, N], out result: f32[N]) "
         "{ parallel i in N { result[i] = @chunk(32) sum(x[:, i] * y[:, i]); } }"),
        (-1, ((3, 4), (3, 1)), "(x: f32[N, K], y: f32[N], out result: f32[N]) { parallel i in N { result[i] = sum(x[i, :] * y[i]); } }"),
        (-1, ((3, 4), (4,)), "(x: f32[N, K], y: f32[K], out result: f32[N]) { parallel i in N { result[i] = sum(x[i, :] * y[:]); } }"),
        ((0, 1), ((3, 4), (4,)), "(x: f32[K0, K1], y: f32[K0, K1], out result: f32[1]) { result[0] = sum(x[:, :] * y[:, :]); }"),
        ((), ((3, 4), (4,)), "(x: f32[N0, N1, K], y: f32[N1, K], out result: f32[N0, N1]) "
         "{ parallel i0 in N0, i1 in N1 { result[i0, i1] = sum(x[i0, i1, :] * y[i1, :]); } }"),
    ],
)  # fmt: skip
def test_axes_become_rows(axis, shapes, wanted):
    assert text(vxc.reduction("x: f32, y: f32 -> f32", "x * y", axis=axis), *shapes) == f"kernel reduction{wanted}"


def test_one_kernel_serves_all_arrays_of_a_form():
    k = vxc.elementwise("x: f32, y: f32 -> f32", "x + y")
    for shape in ((24,), (2, 3, 4), (4, 6), (0, 3), (), (1, 1)):
        assert np.array_equal(k(floats(*shape), floats(*shape), **CPU), 2 * floats(*shape))
    assert len(k._calls._members) == 1


def test_names_of_the_text_are_no_names_of_the_user():
    k = vxc.elementwise("i: f32, N: f32 -> K: f32", "i - N", name="i0")
    assert np.array_equal(k(floats(2, 3), floats(3), **CPU), floats(2, 3) - floats(3))
    r = vxc.reduction("i: f32, K: f32 -> N: f32", "abs(i) * K")
    assert np.array_equal(r(-floats(2, 3), floats(3), **CPU), (floats(2, 3) * floats(3)).sum(1))


def test_a_function_is_no_array_of_its_name():
    assert np.array_equal(vxc.elementwise("abs: f32, e: f32 -> f32", "abs(abs) + 1e0 * e")(-floats(3), floats(3), **CPU), 2 * floats(3))


def test_an_expression_is_read_as_the_language_reads_it():
    """Comments are none of it, a type and the name of an argument no arrays, and a comma makes no argument of the reduction."""
    x = floats(2, 3)
    for text in ("x * 2.0 # twice x", "# x\n x # once\n * 2.0"):
        assert np.array_equal(vxc.elementwise("x: f32 -> f32", text)(x, **CPU), 2 * x)
        assert np.array_equal(vxc.reduction("x: f32 -> f32", text, "max")(x, **CPU), 2 * x.max(-1))
    assert np.array_equal(vxc.elementwise("f32: i32 -> f32", "f32 as f32")(x.astype(np.int32), **CPU), x.astype(np.int32))
    with pytest.raises(vxc.CompileError, match="E0107.*expected the end of the expression, found `,`"):
        vxc.reduction("x: f32 -> f32", "x, x", "max")


# ---- numbers, dtypes, outputs ---------------------------------------------------------------------------------------------


def test_numbers_are_declared_or_given_for_arrays():
    k, x = vxc.elementwise(*FMA), floats(2, 3)
    assert np.array_equal(k(x, x[0], 2.0, **CPU), 2 * x + x[0]) and np.array_equal(k(x, a=2.0, y=1, **CPU), 2 * x + 1)
    assert np.array_equal(k(np.float32(3), x, 2.0, **CPU), 6 + x) and len(k._others) == 2
    assert np.array_equal(vxc.elementwise("x: T, y: T -> T", "x - y")(x.astype(np.int8), 1, **CPU), x.astype(np.int8) - np.int8(1))
    with pytest.raises(vxc.LaunchError, match="E0707: .*`y` is i8"):
        vxc.elementwise("x: i8, y: i8 -> i8", "x - y")(x.astype(np.int8), 1000, **CPU)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int16", "uint8", "bool"])
def test_a_capital_letter_is_any_dtype(dtype):
    k = vxc.elementwise("x: T, y: T, c: U -> T", "select(c != 0, x, y)")
    x, y, c = floats(4).astype(dtype), floats(3, 1).astype(dtype), np.array([1, 0, 0, 1], np.int32)
    found = k(x, y, c, **CPU)
    assert found.dtype == dtype and np.array_equal(found, np.where(c != 0, x, y))


def test_a_dtype_that_does_not_follow_is_fixed():
    k = vxc.elementwise("x: T -> U", "x as U").define(U="i32")
    assert k(floats(2, 2) + 0.5, **CPU).dtype == np.int32
    with pytest.raises(vxc.CompileError, match="generic `U` has no value"):
        vxc.elementwise("x: T -> U", "x as U")(floats(2), **CPU)
    with pytest.raises(vxc.CompileError, match="nothing in the file is a generic or dimension of that name"):
        k.define(N=4)


def test_several_outputs():
    k, x = vxc.elementwise("x: f32, y: f32 -> s: f32, d: f32", ("x + y", "x - y")), floats(2, 3)
    s, d = k(x, x[0], **CPU)
    assert np.array_equal(s, x + x[0]) and np.array_equal(d, x - x[0])
    into = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    assert k(x, x[0], out=into, **CPU)[1] is into[1] and np.array_equal(into, (s, d))
    assert k(x, x[0], d=into[0], **CPU)[1] is into[0] and np.array_equal(into[0], d)
    low, high = vxc.reduction("x: f32 -> f32, f32", ("x", "x * x"), "max", axis=0)(x, **CPU)
    assert np.array_equal(low, x.max(0)) and np.array_equal(high, (x * x).max(0))


def test_an_output_is_given_in_every_way():
    k, x = vxc.elementwise(*FMA), floats(2, 3)
    wanted = 2 * x + x
    for way in (lambda out: k(x, x, 2.0, out, **CPU), lambda out: k(x, x, 2.0, result=out, **CPU), lambda out: k(x, x, 2.0, out=out, **CPU),
                lambda out: k.bind(x, x, 2.0, out=out, **CPU)()):  # fmt: skip
        for out in (np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32).T, np.zeros((4, 6), np.float32)[::2, ::-2]):
            assert way(out) is out and np.array_equal(out, wanted)
    assert np.array_equal(k(x, x, 2.0, out=None, **CPU), wanted)


def test_a_call_may_say_along_which_axes():
    k, x = vxc.reduction("x: i32 -> i32", "x"), floats(2, 3, 4).astype(np.int32)
    assert np.array_equal(k(x, **CPU), x.sum(-1))
    assert np.array_equal(k(x, axis=(0, -1), keepdims=True, **CPU), x.sum((0, -1), keepdims=True))
    assert np.array_equal(k.bind(x, axis=[1], **CPU)(), x.sum(1)) and k(x, axis=None, **CPU).shape == ()
    assert k._meant((x,), {"axis": -1}) == (k, {}) and len(k._others) == 3
    named = vxc.reduction("axis: i32, keepdims: i32 -> i32", "axis + keepdims")
    assert np.array_equal(named(axis=x, keepdims=x, **CPU), 2 * x.sum(-1))


def test_what_has_no_elements_reduces_to_what_the_language_says():
    nothing = np.zeros((2, 0, 3), np.float32)
    for op, wanted in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        found = vxc.reduction("x: f32 -> f32", "x", op, axis=1)(nothing, **CPU)
        assert found.shape == (2, 3) and (found == wanted).all()
    assert vxc.reduction("x: f32 -> f32", "x")(nothing, **CPU).shape == (2, 0)
    assert vxc.reduction("x: f32 -> f32", "x", axis=None)(nothing, **CPU) == 0


def test_what_the_expression_leaves_out_still_broadcasts():
    x, y = floats(3, 1), floats(3, 4)
    assert np.array_equal(vxc.reduction("x: f32, y: f32 -> f32", "x")(x, y, **CPU), 4 * x[:, 0])
    assert vxc.elementwise("x: f32, y: f32 -> f32", "y")(floats(2, 1, 1), y, **CPU).shape == (2, 3, 4)


def test_argmax_counts_in_what_is_reduced():
    k, x = vxc.reduction("x: f32 -> i64", "x", "argmax"), np.random.default_rng(0).permutation(60).astype(np.float32).reshape(3, 4, 5)
    assert k(x, axis=None, **CPU) == x.argmax() and np.array_equal(k(x, axis=1, **CPU), x.argmax(1))
    assert np.array_equal(k(x, axis=(0, 2), **CPU), x.transpose(1, 0, 2).reshape(4, 15).argmax(1))


# ---- objects ---------------------------------------------------------------------------------------------------------------


def test_a_line_is_copied_and_pickled_as_it_is():
    k = vxc.reduction("x: T, y: T -> T", "x * y", axis=0, keepdims=True, name="inner").define(T="f32")
    for again in (copy.deepcopy(k), pickle.loads(pickle.dumps(k))):
        assert repr(again) == repr(k) == "<vxc kernel inner(x: T[..], y: T[..], out result: T[..])>"
        assert np.array_equal(again(floats(3, 2), floats(2), **CPU), k(floats(3, 2), floats(2), **CPU))
        assert again._calls.line == k._calls.line and again._calls.recipe.defines == k._calls.recipe.defines


def test_what_is_compiled_ahead_is_copied_and_pickled():
    made = vxc.elementwise("x: f32 -> f32", "x + x").compile(vxc.ShapeDtype((4,), "f32"), target="sm_90a")
    assert pickle.loads(pickle.dumps(made)).cuda == copy.deepcopy(made).cuda == made.cuda


def test_compiling_ahead():
    made = vxc.elementwise(*FMA).compile((8, 16, 32), y=vxc.ShapeDtype((), "f32"), target="sm_90a")
    assert "__global__" in made.cuda and "sm_90a" in repr(made)
    with pytest.raises(vxc.LaunchError, match="do not broadcast"):
        vxc.elementwise(*FMA).compile((8, 16), (3,))


# ---- what is wrong -----------------------------------------------------------------------------------------------------------

X = floats(2, 3)
ADD = vxc.elementwise("x: f32, y: f32 -> f32", "x + y")
SUM = vxc.reduction("x: f32 -> f32", "x")
TWO = vxc.elementwise("x: f32 -> f32, f32", ("x", "x"))
WRONG = {
    "shapes": (lambda: ADD(X, floats(4), **CPU), "E0705: arguments `x` of shape [2, 3] and `y` of shape [4] do not broadcast; their "
               "dimensions -1 are 3 and 4: from the last on, sizes are the same or 1"),
    "none and several": (lambda: ADD(X[:0], X, **CPU), "`x` of shape [0, 3] and `y` of shape [2, 3] do not broadcast; their dimensions -2"),
    "an output": (lambda: ADD(X, X, out=np.zeros(3, np.float32), **CPU), "E0705: argument `result` has shape [3], and the result of `x` of "
                  "shape [2, 3], `y` of shape [2, 3] has shape [2, 3]; pass one of shape [2, 3], or leave `result` out"),
    "an output that would broadcast": (lambda: ADD(X[0], X[0], out=X.copy(), **CPU), "has shape [2, 3], and the result of"),
    "a reduced output": (lambda: SUM(X, out=np.zeros((2, 1), np.float32), **CPU), "`result` has shape [2, 1], and the result of `x` of "
                         "shape [2, 3] has shape [2]"),
    "an output that is an input": (lambda: ADD(X, X[0], out=X, **CPU), "E0713: arguments `x` and `result` overlap in memory, and "
                                   "the kernel writes to one of them; pass an output of its own, or leave it out; a vxc.kernel with an"),
    "an output that repeats itself": (lambda: ADD(X, X, out=as_strided(X.copy(), (2, 3), (0, 4)), **CPU), "E0713"),
    "two outputs for one": (lambda: ADD(X, X, out=(X, X), **CPU), "E0709: `elementwise` has 1 output, and `out` is a tuple of 2; pass the"),
    "one output for two": (lambda: TWO(X, out=X, **CPU), "E0709: `elementwise` has 2 outputs, and `out` is a ndarray; pass a tuple"),
    "out twice": (lambda: ADD(X, X, out=X, result=X, **CPU), "E0708: argument `result` of `elementwise` is given twice, by name and as"),
    "a dtype": (lambda: ADD(X, X.astype(np.float64), **CPU), "E0704: array argument `y` holds float64, but f32 is declared"),
    "two dtypes": (lambda: vxc.elementwise("x: T, y: T -> T", "x + y")(X, X.astype(np.int32), **CPU), "holds int32, but `x` makes T = f32"),
    "numbers alone": (lambda: ADD(1.0, 2.0, **CPU), "E0709: argument `x` is declared `x: f32[..]`, and a float is no array"),
    "an array for a number": (lambda: vxc.elementwise(*FMA)(X, X, X, **CPU), "E0709: argument `a` is declared `a: f32`, one number"),
    "no such parameter": (lambda: ADD(X, z=X, **CPU), "E0708: `elementwise` has no parameter `z`"),
    "an axis of no reduction": (lambda: ADD(X, X, axis=1, **CPU), "E0708: `elementwise` has no parameter `axis`"),
    "an axis beyond": (lambda: SUM(X, axis=2, **CPU), "E0705: `axis` of `reduction` is 2, and its arguments have 2 dimensions together; "
                       "they are counted from -2 to 1"),
    "an axis of no array": (lambda: vxc.reduction("x: f32 -> f32", "x", axis=10**9), "E0705: `axis` is 1000000000, and arrays have 64 dim"),
    "an axis of no array in a call": (lambda: SUM(X, axis=(0, -65), **CPU), "E0705: `axis` is (0, -65), and arrays have 64 dimensions at"),
    "an axis twice": (lambda: SUM(X, axis=(1, -1), **CPU), "E0705: `axis` of `reduction` is (1, -1), which of 2 dimensions names one"),
    "an axis that is none": (lambda: vxc.reduction("x: f32 -> f32", "x", axis=True), "E0709: `axis` is True; give an int, a tuple of ints"),
    "a text for an axis": (lambda: SUM(X, axis="rows", **CPU), "E0709: `axis` is 'rows'"),
    "keepdims": (lambda: SUM(X, keepdims=1, **CPU), "E0709: `keepdims` is True or False, not int"),
    "an op": (lambda: vxc.reduction("x: f32 -> f32", "x", None), "E0709: the `op` of vxc.reduction is a str such as 'sum'"),
    "a name": (lambda: vxc.elementwise("x: f32 -> f32", "x", name=5), "E0709: the `name` of vxc.elementwise is a str such as 'fma'"),
    "tuning": (lambda: vxc.autotune(SUM, maxrregcount=[32]), "E0719: `reduction` is of one line"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_call_that_is_wrong_is_refused_in_one_paragraph(case):
    wrong, said = WRONG[case]
    with pytest.raises(vxc.LaunchError) as caught:
        wrong()
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "signature, expression, said",
    [
        ("x: f32", "x", "E0107.*`x: f32` is no signature"),
        ("x: f32 -> f32", ("x", "x"), "E0107.*has 1 output, and there are 2 expressions$"),
        ("x: f32 -> f32, f32", "x", "E0107.*has 2 outputs, and there is 1 expression$"),
        ("x: f32 -> f32", (), "E0107.*has 1 output, and there are no expressions$"),
        ("x: f32, x: f32 -> f32", "x * x", "E0107.*has two parameters of the name `x`\n.*give each its own"),
        ("x: f32 -> s: f32, s: f32", ("x", "x"), "E0107.*has two parameters of the name `s`\n.*give each its own"),
        ("x: f32 -> x: f32", "x * x", "E0107.*has two parameters of the name `x`\n.*`x` is an input"),
        ("x: f32, result: f32 -> f32", "x * result", "E0107.*has two parameters of the name `result`\n.*as in `-> y: f32`"),
        ("x: f32 -> f32", "x;", r"E0107.*expected the end of the expression, found `;`\n.*<elementwise>:1:2\n(.|\n)*help: remove `;`"),
        ("x: f32 -> f32", "x, x", r"E0107.*the end of the expression, found `,`\n.*:1:2\n(.|\n)*several expressions are texts of"),
        ("x: f32 -> f32", " ", r"E0107.*expected an expression, found the end of the expression\n.*:1:1\n"),
        ("x: f32 -> f32", "# x", r"E0107.*expected an expression, found the end of the expression\n"),
        ("x: f32 -> f32", "(x", r"E0109.*this `\(` is never closed\n(.|\n)*add a `\)` before the end of the expression$"),
        ("a: scalar f32 -> f32", "a", "E0107.*has no array among its inputs"),
        ("x: float32 -> f32", "x", "E0210.*`float32` is no type(.|\n)*write `f32`"),
        ("x: f23 -> f32", "x", "E0210.*`f23` is no type(.|\n)*did you mean `f32`"),
        ("x: f32 -> f32", "x +", "E0107.*expected an expression, found the end of the expression\n.*:1:4\n(.|\n)*help: write an expr"),
        ("x: f32 -> f32", "let y = x", "E0107.*expected the end of the expression, found `y`\n.*:1:5\n(.|\n)*help: remove `y`$"),
        ("x: f32 -> f32", "x } y {", "E0109.*this `}` closes nothing\n.*:1:3\n"),
        ("in: f32 -> f32", "in", "E01"),
    ],
)
def test_a_line_that_is_wrong_is_refused_where_it_is_written(signature, expression, said):
    with pytest.raises(vxc.CompileError, match=f"(?m){said}"):
        vxc.elementwise(signature, expression)


@pytest.mark.parametrize(
    "op, way_out",
    [(op, "reductions are sum, prod, ") for op in ("", " ", "-")] + [("mean", "take 'sum', and divide"), ("summ", "did you mean `sum`")],
)
def test_what_is_no_reduction_is_refused_where_it_is_written(op, way_out):
    with pytest.raises(vxc.CompileError, match=f"E0207.*there is no reduction `{op}`\n.*help: {way_out}"):
        vxc.reduction("x: f32 -> f32", "x", op)


@pytest.mark.parametrize(
    "made, arrays, said",
    [
        (lambda: vxc.elementwise("x: f32, n: i32 -> f32", "1.0 + x * n"), "fi", "E0203.*<elementwise>:1:7\n.*x \\* n\n.*`result`"),
        (lambda: vxc.elementwise("x: f32 -> f32", "x + rellu(x)", name="f"), "f", "E0207.*<f>:1:5\n.*x \\+ rellu.x.\n.*`result`\n.*`gelu`"),
        (lambda: vxc.elementwise("x: f32, y: f32 -> s: f32, d: f32", ("x + y", "x & y")), "ff", "E0203.*<elementwise>:1:1\n.*x & y\n.*`d`"),
        (lambda: vxc.reduction("x: f32 -> f32", "abs(x) + zz", "max"), "f", "E0201.*<reduction>:1:10\n.*zz\n.*`result`\n.*declare it"),
        (lambda: vxc.reduction("x: f32 -> f32", "abs(x) +\n  zz", axis=0), "f", "E0201.*<reduction>:2:3\n.*  zz\n.*`result`\n"),
        (lambda: vxc.reduction("x: bool -> f32", "x", "sum"), "b", "E02.*<reduction>:1:1\n.*x\n.*`result`\n"),
        (lambda: vxc.elementwise("x: f32 -> i32", "x"), "f", "E02.*<elementwise>:1:1\n.*x\n.*`result`\n"),
    ],
    ids=["types", "function", "second", "name", "lines", "reduced", "stored"],
)
def test_what_is_wrong_with_a_kernel_of_a_line_is_told_of_the_line(made, arrays, said):
    kinds = {"f": np.float32, "i": np.int32, "b": np.bool_}
    with pytest.raises(vxc.CompileError) as caught:
        made()(*(np.ones((2, 3), kinds[a]) for a in arrays), device="cpu")
    text = re.sub(r"\n +\|[^\n]*|\n +(?=-->)", "", str(caught.value))
    assert re.search(said, text), text
    (found,) = caught.value.diagnostics
    assert found.source.text in ("1.0 + x * n", "x + rellu(x)", "x & y", "abs(x) + zz", "abs(x) +\n  zz", "x")
