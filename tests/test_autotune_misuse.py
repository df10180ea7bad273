"""Arguments of `vxc.autotune` that make no sense, and functions of the user that fail: each is said at once, in one paragraph."""

from __future__ import annotations

import os
from itertools import repeat

import numpy as np
import pytest
from fake_cuda import floats
from tuning_kernels import SCALE, arguments, tuned

import vxc


def given(**options) -> vxc.Tuned:
    return vxc.autotune(vxc.kernel(SCALE), **{"B": [32, 64], **options})


def refused(said: str, code: str = "E0719"):
    return pytest.raises(vxc.LaunchError, match=rf"^{code}: [^\n]*({said})[^\n]*(\nin the call of `\w+`)?$")


class Endless:
    def __iter__(self):
        raise ValueError("no end")


def placed(B, /):
    return B > 32


def limited(B, limit=64, /, more=0):
    return B >= limit + more


# ---- constraints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where, said, cause",
    [
        ("B/0", "the constraint `B/0`, for B=32, fails with ZeroDivisionError: division by zero; give a text such as", ZeroDivisionError),
        ("B + 'a'", "fails with TypeError: 'a' is no number", TypeError),
        ("'%9999999999d' % B", "fails with TypeError: '%9999999999d' is no number", TypeError),
        ("'a' * 10000000000", "fails with TypeError: 'a' is no number", TypeError),
        ("9**9**9**9", "fails with OverflowError: a number is of more than 4,096 bits", OverflowError),
        ("B << 99999999999", "fails with OverflowError: a number is of more than 4,096 bits", OverflowError),
        ("*".join(["2**4000"] * 2), "fails with OverflowError: a number is of more than 4,096 bits", OverflowError),
        (lambda B: np.array([1, 2]), "a constraint, for B=32, fails with ValueError: The truth value", ValueError),
        (lambda B: {}[B], "a constraint, for B=32, fails with KeyError: 32", KeyError),
        (lambda B: vxc.kernel("no kernel"), "a constraint, for B=32, fails with vxc.api.errors.CompileError", vxc.CompileError),
        (max, "asking a constraint for its parameters fails with ValueError", ValueError),
        (Endless(), "`where` fails with ValueError: no end", ValueError),
    ],
)
def test_what_a_constraint_raises_is_the_cause(where, said, cause):
    with refused(said) as caught:
        given(where=where)
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize(
    "where, said",
    [
        (None, "a constraint is None; give a text such as"),
        (1, "a constraint is 1; give"), ({"B": 64}, "a constraint is {'B': 64}; give"), (b"B", "a constraint is b'B'; give"),
        (lambda *B: True, "does not say what it looks at; write it as `lambda BM, BN: ..`"),
        ("B\0", "is no expression: source code"),
        ("+".join(["B"] * 20_000), "is no expression: maximum recursion depth"),
        ("-" * 100_000 + "B", "the constraint `'-----.*-B'` is no expression: "),
        ("\ud800", "is no expression: 'utf-8' codec"),
    ],
)
def test_what_is_no_constraint_is_refused(where, said):
    with refused(said):
        given(where=where)


@pytest.mark.parametrize(
    "where, has",
    [
        ("B(1)", "a call"), ("min(B, 3)", "a call"), ("B[0]", "an index"), ("B.real", "an attribute"), ("f'{B:>10000000}'", "an f-string"),
        ("[B2 for q in [1]]", "a comprehension"), ("[x.append(1) for x in [[1]] for y in x]", "a comprehension"), ("B @ 2", "an `@`"),
        ("(lambda f: f(f))(lambda f: f(f))", "a call"), ("(C := B)", "a NamedExpr"), ("(*(1, B),)", "a Starred"),
    ],
)  # fmt: skip
def test_constraints_are_arithmetic_which_ends(where, has):
    with refused(f"the constraint `.*` has {has}, and is to be arithmetic over the axes; write numbers, axes, operators, "):
        given(where=where)


def test_what_has_no_end_is_cut_off():
    with refused("`where` gives more than 1,000 constraints; write them as one"):
        given(where=repeat("B > 0"))
    with refused("axis `B` is given more than 100,000 values; give fewer"):
        given(B=range(1, 10**30))
    with refused("the axes of `scale` have more than 100,000 combinations; give fewer values"):
        given(B=range(1, 1001), F=range(1, 1001))


@pytest.mark.parametrize(
    "where",
    [
        placed, limited, " B > 32", [placed, limited], iter([placed]), "B == 64 if B > 0 else False", "32 < B <= 64 != 65", "B in (64, 65)",
        "B not in [32] and not B in {1, 32}", "B % 3 == 1 or False", "-B < +-32", "B // 2 ** 5 == 2", "B >> 6 & 1",
        "~B | B ^ 32 <= -1 and B > 32", "B / 2 > 16.5", "B - 1 << 2 > 200", "B is not None and B * B >= 4096", "0 or B - 32",
    ],
)  # fmt: skip
def test_forms_of_constraints(where):
    assert list(map(str, given(where=where)._configs)) == ["B=64"]
    if isinstance(where, str):
        assert [bool(eval(where.strip(), {"B": value})) for value in (32, 64)] == [False, True]  # as Python has it


# ---- other arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [{1: [1]}, ["B"], None, "B"])
def test_axes_are_values_by_name(axes):
    with refused("the axes are .*; give values by names of generics"):
        vxc.autotune(vxc.kernel(SCALE), axes)


def test_an_axis_is_given_once_and_so_is_each_value():
    with refused("axis `B` is given twice"):
        vxc.autotune(vxc.kernel(SCALE), {"B": [32]}, B=[64])
    found = given(B=[32, np.int64(64), 32, 64], F=range(2, 4))._configs
    assert [config.values for config in found] == [(("B", b), ("F", f)) for b in (32, 64) for f in (2, 3)]
    assert {type(value) for config in found for _, value in config.values} == {int}
    with pytest.raises(vxc.CompileError, match="E0218.*`F` of `scale` is given True"):
        given(F=[1, True, 2])


@pytest.mark.parametrize(
    "options, said",
    [
        ({"B": b"ab"}, "axis `B` is given b'ab'"),
        *[({"rounds": value}, f"`rounds` is {value!r}; give an int from 1 to 10,000") for value in (0, -1, 10_001, 1.5, "a", True, None)],
        *[({"seconds": value}, f"`seconds` is {value!r}; give a number") for value in ("a", -1, float("nan"), True, None)],
        ({"seconds": 10**400}, "`seconds` is 1000"),
        ({"reference": 3}, "`reference` is 3; give a function"),
        *[({"sample": value}, "`sample` is .*; give the arguments of a small call") for value in (1, "ab", np.ones(3, np.float32), {1: 1})],
        ({"sample": (np.ones(0, np.float32), np.ones(3, np.int32))}, "`x` of the sample has no elements"),
    ],
)
def test_options_are_checked_at_once(options, said):
    with refused(said):
        given(**options)


def test_a_sample_is_a_call_of_the_kernel():
    with refused("argument `x` of `scale` is missing", "E0708"):
        given(sample=())
    with refused("is no array", "E0709"):
        given(sample=(1.0, np.ones(3, np.int32)))


@pytest.mark.parametrize("path", [1, None, [], b"x", True])
def test_a_record_is_named_by_a_path(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("a record of tuned kernels is named by .*; give a str or pathlib.Path", "E0711"):
        given().export(path)
    with refused("a record of tuned kernels is named by", "E0710"):
        given().load(path)
    if path is not None:
        with refused("a record of tuned kernels is named by", "E0710"):
            given(record=path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5000, "/"])
def test_names_that_no_file_can_have(path):
    with refused("cannot write .*: ", "E0711"):
        given().export(path)
    for taken in (given().load, lambda path: given(record=path)):
        with refused("cannot read .*: ", "E0710"):
            taken(path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_a_record_is_a_file(make, tmp_path):
    make(path := tmp_path / "record.json")
    for taken in (given().load, lambda path: given(record=path)):
        with refused("cannot read .*record.json: it is no file; give a file that `export` of a tuned kernel wrote", "E0710"):
            taken(path)


def test_a_constraint_without_axes():
    with refused("the constraint `1 // 0` fails with ZeroDivisionError"):
        vxc.autotune(given()._kernel, where="1 // 0")


# ---- the reference ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result, said",
    [
        (lambda x: 1j * x, r"what the reference gives for `y` is array\(.*, of complex64; give an array of ints, floats or bools"),
        (lambda x: np.complex64(2 + 1j), "of complex64"),
        (lambda x: "a", "what the reference gives for `y` is 'a', of <U1"),
        (lambda x: [object()], "of object"),
        (lambda x: [[1], [1, 2]], "what the reference gives for `y` fails with ValueError: "),
        (lambda x: x.astype("M8[s]"), "of datetime64"),
        (lambda x: None, "is None, of object"),
    ],
)
def test_a_reference_gives_numbers(gpu, result, said):
    scale = tuned(reference=lambda x, n: (n + 1, result(x)))
    with refused(said):
        scale(*arguments())
    assert not gpu.live


def test_a_complex_number_of_a_sample_is_refused(gpu):
    text = "kernel by<B: int = 32>(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
    for number in (np.complex64(1 + 2j), 1j):
        with refused("scalar argument `a` is f32, but .* is not a number", "E0707"):
            vxc.autotune(vxc.kernel(text), B=[32], sample=(floats(3), number))(floats(5), 1.0)


def test_ints_of_a_reference_are_not_cut_off(gpu):
    with refused("what the reference gives for `n` is no array of int32; round it, as with .astype\\('int32'\\)"):
        tuned(reference=lambda x, n: (n + 1.5, 2 * x))(*arguments())
    exact = tuned(reference=lambda x, n: (n + 1.0, [float(2 * v) for v in x]))
    exact(*arguments())
    assert "equal to the reference" in exact.report()


def test_what_a_reference_raises_is_the_cause(gpu):
    scale = tuned(reference=lambda x, n: x[100])
    with refused("the reference fails with IndexError: .*; it is called with the inputs of the sample") as caught:
        scale(*arguments())
    assert isinstance(caught.value.__cause__, IndexError) and not gpu.live
    with refused("the reference fails with TypeError: "):
        tuned(reference=lambda: 1)(*arguments())


def test_what_is_checked_on_has_elements(gpu):
    empty = "kernel none<B: int = 32>(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }\nexample none(x = rand(f32, 0));"
    with refused("`y` has no elements on the sample, so nothing of it is checked; give a larger sample"):
        vxc.autotune(vxc.kernel(empty), B=[32, 64])(floats(5))
