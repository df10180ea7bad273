"""Arguments of `vxc.autotune` that make no sense, and functions of the user that fail: each is said at once, in one paragraph."""

from __future__ import annotations

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
        ("B(1)", "fails with TypeError: 'int' object is not callable", TypeError),
        ("B[0]", "fails with TypeError", TypeError),
        ("B + 'a'", "fails with TypeError", TypeError),
        ("[B2 for q in [1]]", "fails with NameError: name 'B2' is not defined", NameError),
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
        (1, "a constraint is 1; give"),
        (lambda *B: True, "does not say what it looks at; write it as `lambda BM, BN: ..`"),
        ("B\0", "is no expression: source code"),
        ("-" * 100_000 + "B", "the constraint `'-----.*-B'` is no expression: "),
        ("\ud800", "is no expression: 'utf-8' codec"),
    ],
)
def test_what_is_no_constraint_is_refused(where, said):
    with refused(said):
        given(where=where)


@pytest.mark.parametrize("where", [placed, limited, " B > 32", "[q for q in [B] if q > 32]", [placed, limited], iter([placed])])
def test_forms_of_constraints(where):
    assert list(map(str, given(where=where)._configs)) == ["B=64"]


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
        *[({"rounds": value}, f"`rounds` is {value!r}; give an int of 1 or more") for value in (0, -1, 1.5, "a", True, None)],
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
