"""What tuning is checked with is wrong: samples, references and constraints of the wrong kind, records that were edited; interruptions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fake_cuda import Tensor, floats
from test_autotune_misuse import given, refused
from tuning_kernels import SCALE, arguments, tuned

import vxc

ONES = np.ones(5, np.int32)
AT = """
kernel at<K: int = 0>(x: f32[N], p: i32[N], out y: f32[N]) { parallel i in N { y[i] = x[p[i] + K]; } }
example at(x = rand(f32, 9), p = randint(i32, 0, 9, 9));
"""
PLACES = Tensor(np.arange(9, dtype=np.int32))

# ---- samples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample, code, said",
    [
        ((np.ones(5), ONES), "E0704", "array argument `x` holds float64, but f32 is declared; this is about the sample; convert"),
        ((floats(5), ONES[:3]), "E0705", "dimension 0 of `n` is 3, but dimension 0 of `x` makes N = 5; this is about the sample; "),
        ((floats(5, 1), ONES), "E0705", "`x` has 2 dimensions, but 1 declared; this is about the sample"),
        ((floats(5).astype(">f4"), ONES), "E0704", "`x` is in the other byte order .*; this is about the sample"),
        ((floats(5), ONES, floats(4)), "E0705", "dimension 0 of `y` is 4, .*; this is about the sample"),
    ],
)
def test_what_is_wrong_with_a_sample_is_not_said_of_the_call(gpu, sample, code, said):
    scale = given(sample=sample)
    with refused(said, code):
        scale(*arguments())
    assert not gpu.live
    assert np.array_equal(tuned()(*arguments()).array, 2 * floats(50))


@pytest.mark.parametrize("wrong", [(), (floats(5),), ([1.0], ONES), {"x": floats(5), "n": ONES, "z": 1}, {"x": floats(5), "device": "cpu"}])
def test_a_sample_that_is_no_call_is_said_to_be_the_sample(wrong):
    with refused("; this is about the sample; ", "E070[89]"):
        given(sample=wrong)


def unchecked(gpu, monkeypatch):
    """The device in memory looks at no index, as a real one does not, and gives what the interpreter does."""
    gpu.replay = lambda graph, stream: setattr(gpu, "clock", gpu.clock + 1.0)  # all take the same time
    monkeypatch.setattr(gpu, "_run", lambda *_: 0)
    monkeypatch.setattr("vxc.api.tune_check.run_numpy", lambda built, arrays, *_, **__: {"y": arrays["x"][arrays["p"]]})


def test_an_example_line_that_faults_is_said_to_be_the_example_line(gpu, monkeypatch):
    unchecked(gpu, monkeypatch)
    with refused("of `x`.*; this is about the example line", "E0720"):
        vxc.autotune(vxc.kernel(AT.replace("int = 0", "int = 9")), K=[0])(Tensor(floats(9)), PLACES)


def test_a_configuration_that_faults_is_left_for_one_that_does_not(gpu, monkeypatch):
    unchecked(gpu, monkeypatch)
    at = vxc.autotune(vxc.kernel(AT), K=[9, 0])
    at(Tensor(floats(9)), PLACES)
    assert "wrong: interpreted, E0720: " in at.report() and at.choose(Tensor(floats(9)), PLACES)._calls.recipe.defines == (("K", 0),)


@pytest.mark.parametrize("which", ["sample", "reference"])
def test_what_is_behind_a_mask_is_no_number(gpu, which):
    masked = np.ma.masked_array(floats(5), floats(5) > 2)
    if which == "sample":
        with refused("argument `x` is a masked array, .*; this is about the sample", "E0703"):
            given(sample=(masked, ONES))
    else:
        with refused("what the reference gives for `y` fails with vxc.*: .*`y` is a masked array"):
            given(reference=lambda x, n: (n + 1, np.ma.masked_array(2 * x, x > 0)))(*arguments())


@pytest.mark.parametrize(
    "call, code, said",
    [
        (lambda: (Tensor(np.zeros(50)), arguments()[1]), "E0704", "array argument `x` holds float64, but f32 is declared; convert it"),
        (lambda: (Tensor(floats(5, 10)), arguments()[1]), "E0705", "array argument `x` has 2 dimensions, but 1 declared; pass"),
        (lambda: (arguments()[0], Tensor(ONES)), "E0705", "dimension 0 of `n` is 5, but dimension 0 of `x` makes N = 50"),
    ],
)
def test_what_is_wrong_with_the_call_is_not_said_of_each_configuration(gpu, call, code, said):
    scale = tuned()
    with refused(said, code):
        scale(*call())
    assert not gpu.live and np.array_equal(scale(*arguments()).array, 2 * floats(50))


# ---- references ------------------------------------------------------------------------------------------------------


async def awaited(*_):
    return True


def yielded(*_):
    yield True


async def both(*_):
    yield True


@pytest.mark.parametrize("function, what", [(awaited, "an async function"), (yielded, "a generator, which yields"), (both, "a generator")])
def test_functions_return(function, what):
    with refused(f"`reference` is {what}.*; give a function of the kernel's inputs"):
        given(reference=function)
    with refused(f"a constraint is {what}.*; give a function that returns"):
        given(where=function)


@pytest.mark.parametrize(
    "result, said",
    [
        (lambda x, n: x, "a ndarray"), (lambda x, n: (x,), "a tuple of 1"), (lambda x, n: [n, x, x], "a list of 3"),
        (lambda x, n: {"n": n}, "a dict"), (lambda x, n: (v for v in (n, x)), "a generator"), (lambda x, n: None, "a NoneType"),
    ],
)  # fmt: skip
def test_as_many_results_as_outputs(gpu, result, said):
    with refused(f"the reference gives {said}, and `scale` has 2 outputs; give a tuple with an array for each: `n`, `y`"):
        tuned(reference=result)(*arguments())


def test_a_reference_may_call_other_kernels_and_not_the_one_it_judges(gpu):
    text = SCALE.replace("scale", "other")
    other = vxc.autotune(vxc.kernel(text), B=[32, 64])

    def judging(x, n):
        return n + 1, scale(x, n)

    def asking(x, n):
        return n, other(x, n)  # which counts n up

    scale = tuned(reference=judging)
    with refused("the reference fails with .* the reference of `scale` calls the tuned kernel itself"):
        scale(*arguments())
    scale = tuned(reference=asking)
    scale(*arguments())
    assert "equal to the reference" in scale.report() and "B=" in other.report()


def test_results_may_be_a_list(gpu):
    scale = tuned(reference=lambda x, n: [n + 1, 2 * x])
    scale(*arguments())
    assert "equal to the reference to the bit" in scale.report()


def test_a_reference_that_changes_its_inputs_changes_nothing_else(gpu):
    def changing(x, n):
        x *= 2
        n += 1
        return n, x

    sample = floats(5), ONES.copy()
    scale, (x, n) = tuned(sample=sample, reference=changing), arguments()
    assert np.array_equal(scale(x, n).array, 2 * floats(50)) and "equal to the reference" in scale.report()
    assert np.array_equal(x.array, floats(50)) and np.array_equal(sample[0], floats(5)) and np.array_equal(sample[1], ONES)


@pytest.mark.parametrize(
    "result, said",
    [
        (lambda x: 2 * x[:-1], r"`y` is of shape \(50,\), and of \(49,\) by the reference"),
        (lambda x: x * np.nan, r"y\[0\] is .*, expected nan \(50 of 50 elements differ\), by the reference"),
        (lambda x: (2 * x).astype(np.float16), r"y\[0\] is .* elements differ\), by the reference"),
        (lambda x: 2.0, r"`y` is of shape \(50,\), and of \(\) by the reference"),
    ],
)
def test_a_reference_that_gives_something_else_is_what_is_said_to_differ(gpu, result, said):
    with refused(said):
        tuned(reference=lambda x, n: (n + 1, result(x)))(*arguments())
    assert not gpu.live and np.array_equal(tuned()(*arguments()).array, 2 * floats(50))


# ---- records ---------------------------------------------------------------------------------------------------------


def test_a_record_that_writes_true_for_one_means_one(gpu, tmp_path):
    path, text = tmp_path / "scale.json", SCALE.replace("F: int = 2", "F: int = 1")
    first = vxc.autotune(vxc.kernel(text), F=[1])
    first(*arguments())
    first.export(path)
    data = json.loads(path.read_text())
    data["entries"][0]["chosen"]["F"] = data["entries"][0]["rows"][0]["config"]["F"] = True
    path.write_text(json.dumps(data))
    again = vxc.autotune(vxc.kernel(text), F=[1], record=path)
    assert np.array_equal(again(*arguments()).array, floats(50)) and str(path) in again.report()


@pytest.mark.parametrize("cut", [1, 10, 200, -2])
def test_a_record_that_was_cut_short_is_refused(gpu, tmp_path, cut):
    path, first = tmp_path / "scale.json", tuned()
    first(*arguments())
    first.export(path)
    path.write_bytes(path.read_bytes()[:cut])
    with refused("cannot read .*scale.json: it is no record of tuned kernels", "E0710"):
        tuned(record=path)


# ---- interruptions ---------------------------------------------------------------------------------------------------


class Stopped(KeyboardInterrupt):
    """As Ctrl-C in the middle of a call."""


@pytest.mark.parametrize(
    "method, at",
    [
        ("replay", 1), ("replay", 30), ("record", 200), ("fill_async", 9), ("new_stream", 1), ("new_stream", 2), ("event", 2),
        ("allocate", 2), ("load", 1), ("capturing", 1), ("synchronize", 2),
    ],
)  # fmt: skip
def test_an_interrupted_search_leaves_nothing_and_may_be_begun_again(gpu, monkeypatch, method, at):
    scale, left, original, before = tuned(B=[32, 64]), [at], getattr(gpu, method), set(gpu.memory)

    def stopping(*args):
        left[0] -= 1
        if not left[0]:
            raise Stopped
        return original(*args)

    monkeypatch.setattr(gpu, method, stopping)
    with pytest.raises(Stopped):
        scale(*arguments())
    assert not gpu.live and not gpu.captured and set(gpu.memory) == before
    assert np.array_equal(scale(*arguments()).array, 2 * floats(50)) and "B=64, 1.0000 ms" in scale.report()
