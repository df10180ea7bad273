"""`vxc diff`, the comparison behind it, and which outputs are exact."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from cli_tool import SAMPLES, SCALE, TWO, vxc

from vxc.analysis.exactness import ATOMICS, DISTORTED, ELEMENTARY, distorted, grains, inexact
from vxc.cli import diff as diff_command
from vxc.diag import Diagnostic, VxcError
from vxc.diff import ULPS, Executor, compare, disagreements, findings, first_difference
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.inputs import Call
from vxc.source import Source

SETS = [*(f"random inputs {k + 1}" for k in range(diff_command.RANDOM_SETS)), diff_command.SPECIAL]
NAN, INF = float("nan"), float("inf")
OF_INTEGERS = ("dequant_u4_copy", "dequant_u4_manual", "dequant_u4_parallel", "histogram")  # none of their values is special


def f32(*values):
    return np.array(values, np.float32)


def test_a_line_for_each_kernel():
    got = vxc("diff", "-", stdin=TWO)
    assert got.status == 0
    places = "ast, flat, flat:team, flat:thread" + (", gpu" if ", gpu" in got.out else "")
    assert got.out == "".join(f"<stdin>: {name}: {places} agree on 4 sets of inputs\n" for name in ("dbl", "inc"))


PROGRAM = """\
kernel dbl(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }
program quad(x: f32[N], out y: f32[N]) { local w: f32[N]; dbl(x, w); dbl(w, y); }
"""


def test_what_has_no_example_is_noted_where_others_have_one():
    got = vxc("diff", "-", stdin=PROGRAM + "example quad(x = rand(f32, 8));")
    assert got.status == 0 and got.out.startswith("<stdin>: quad: ast, flat") and got.out.count("\n") == 1
    assert "<stdin>: dbl has no `example` line and is not compared by itself: add `example dbl(x = rand(f32, 64));`" in got.err
    assert [r["kernel"] for r in json.loads(vxc("diff", "--json", "-", stdin=PROGRAM + "example quad(x = rand(f32, 8));").out)] == ["quad"]
    for arguments, text in (((), PROGRAM), (("-k", "dbl"), PROGRAM + "example quad(x = rand(f32, 8));")):
        got = vxc("diff", "-", *arguments, stdin=text)
        assert got.status == 1 and "error[E0708]: `dbl` has no `example` line" in got.err and not got.out


ROWS = "kernel k(x: f32[M, N], a: f32, out y: f32[M]) { parallel i in M { y[i] = a * sum(x[i]); } }"


def test_arguments_are_given_as_to_run():
    got = vxc("diff", "-", "-a", "x=rand:f32[4,33]", "-a", "a=2.5", "--json", stdin=ROWS)
    assert got.status == 0 and json.loads(got.out)[0]["inputs"] == SETS
    got = vxc("diff", "-", "-a", "x=range:f32[4,33]", "-a", "a=2.5", stdin=ROWS)
    assert got.status == 0 and got.out.endswith(" agree on 1 set of inputs\n")  # nothing is made up, so every set is the same
    got = vxc("diff", "-", "-a", "x=rand:f32[4,33]", stdin=ROWS)
    assert got.status == 1 and "error[E0708]: scalar argument `a` is missing" in got.err
    got = vxc("diff", "-", "-a", "z=1", stdin=ROWS)
    assert got.status == 1 and "error[E0708]: `k` has no parameter `z`" in got.err
    got = vxc("diff", "-", stdin=ROWS)
    assert got.status == 1 and "or give its arguments, as with -a NAME=rand:f32[8,64]" in got.err


def test_given_arrays_are_made_anew_for_each_set(monkeypatch):
    seen: list[np.ndarray] = []
    monkeypatch.setattr(diff_command, "findings", lambda executors, inputs, seed: seen.extend(c.arrays["x"] for c in inputs.values()) or ())
    assert vxc("diff", "-", "-a", "x=rand:f32[40,3]", "-a", "a=2", stdin=ROWS).status == 0
    assert len({x.tobytes() for x in seen}) == 4 and [bool(np.isnan(x).any()) for x in seen] == [False, False, False, True]


@pytest.mark.parametrize("name", ["softmax", "histogram", "scatter", "cross_entropy", "dropout"])
def test_samples_agree(name):
    assert vxc("diff", SAMPLES / f"{name}.vx", "--seed", "7").status == 0


@pytest.mark.gpu
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.vx")), ids=lambda path: path.stem)
def test_samples_agree_on_the_gpu(path):
    got = vxc("diff", path)
    assert got.status == 0, got.out
    assert f", gpu agree on {3 if path.stem in OF_INTEGERS else 4} sets of inputs" in got.out


def test_a_difference_names_the_element_the_pair_and_the_step(monkeypatch):
    def wrong_threads(name, kernel, plan, debug=False, order=0):
        executor = real(name, kernel, plan, debug, order)

        def run(call, seed):
            results = executor.run(call, seed)
            if "lower-to-threads" in plan.kernels[0].done:
                results["y"][1, 2] = 7
            return results

        return Executor(name, run)

    real = diff_command.flat_executor
    for module in ("vxc.cli.diff", "vxc.diff"):
        monkeypatch.setattr(f"{module}.flat_executor", wrong_threads)
    got = vxc("diff", "-", stdin=SCALE)
    assert got.status == 3
    assert got.out.startswith("<stdin>: scale: ast and flat:thread differ on random inputs 1: y[1, 2] is 7.0, expected ")
    assert got.out.endswith(" (1 of 21 elements differ); it comes with pass lower-to-threads\n")
    assert json.loads(vxc("diff", "-", "--json", stdin=SCALE).out)[0]["difference"].startswith("ast and flat:thread differ")


CLAIMS = {
    "iterations of one thread": "parallel i in N { y[i // 2] = x[i]; }",
    "threads": "parallel i in N { y[i % 300] = x[i]; }",
    "blocks": "parallel i in N { y[i % 2] = x[i]; }",
    "a read": "parallel i in N { y[i] = if i > 9 { y[i - 9] } else { x[i] }; }",
    "an inner loop": "parallel i in 1 { @independent(\"each\") parallel j in N { y[j // 40] = x[j]; } }",
    "blocks of a grid": "grid b in 4 { parallel j in 32 { y[j] = x[b * 32 + j]; } }",
}


@pytest.mark.parametrize("loop", CLAIMS.values(), ids=CLAIMS)
def test_what_is_not_independent_as_claimed_is_the_claims_fault_and_no_difference(loop):
    text = f"kernel k(x: f32[N], inout y: f32[N]) {{ @independent(\"each\") {loop} }}\n"
    text += "example k(x = rand(f32, 600), y = rand(f32, 600));\n"
    got = vxc("diff", "-", stdin=text)
    assert (got.status, got.out) == (1, "<stdin>: k: " + "; ".join(f"all fault alike with E0722 on {on}" for on in SETS) + "\n")
    assert "error[E0722]: `@independent` does not hold: " in got.err
    noticed = "= help: a loop that says `@independent` is not, which `--on ast` shows;"
    assert (noticed in vxc("run", "--on", "flat:thread", "-", stdin=text).err) == (loop != CLAIMS["iterations of one thread"])


def test_a_kernel_without_an_example_and_the_files_beside_it():
    got = vxc("diff", "-", SAMPLES / "saxpy.vx", stdin=SCALE.partition("example")[0])
    assert got.status == 1
    assert "error[E0708]: `scale` has no `example` line" in got.err and "saxpy: ast, flat" in got.out


WITHOUT_EXAMPLE = {
    "a matrix": "kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M { y[i] = x[i]; } }",
    "an index": "kernel k(t: f16[V, D], p: i32[N], out y: f16[N, D]) { parallel i in N { y[i] = t[p[i]]; } }",
    "scalars": "kernel k(a: f32, n: i64, on: bool, x: f32[N], out y: f32[N]) {"
               " parallel i in N { y[i] = if on { a * x[i] } else { n as f32 }; } }",
    "an extent that follows": "kernel k(x: f32[2 * N + 1], w: f32[N], h: f32[N // 2, 2], out y: f32[N]) {"
                              " parallel i in N { y[i] = x[2 * i] + w[i] + h[0, 1]; } }",
    "pitches": "kernel k(x: f32[M, N : ld], out y: f32[M, N]) { parallel i in M { y[i] = x[i]; } }",
    "a size of an output alone": "kernel k(a: f32, out y: f32[N]) { parallel i in N { y[i] = a; } }",
    "4 bits and a bool": "kernel k(x: u4[N], b: bool[N], out y: u8[N]) { parallel i in N { y[i] = if b[i] { x[i] as u8 } else { 0 }; } }",
    "inout and fixed extents": "kernel k(x: f64[3], inout y: i16[N, 3]) { parallel i in N { y[i, 0] = x[2] as i16; } }",
    "a program": "kernel h(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }"
                 " example h(x = rand(f32, 4)); program k(x: f32[N], out y: f32[N]) { h(x, y); }",
}  # fmt: skip


@pytest.mark.parametrize("text", WITHOUT_EXAMPLE.values(), ids=WITHOUT_EXAMPLE)
def test_the_example_line_that_is_suggested_is_one(text):
    refused = vxc("diff", "-", "-k", "k", stdin=text)
    assert refused.status == 1 and "error[E0708]: `k` has no `example` line" in refused.err
    (line,) = re.findall(r"help: add `(example k\(.*\);)`", refused.err)
    got = vxc("diff", "-", "-k", "k", stdin=f"{text}\n{line}\n")
    sets = "1 set" if text == WITHOUT_EXAMPLE["a size of an output alone"] else "4 sets"  # numbers alone are the same in each
    assert (got.status, got.out.count(f" agree on {sets} of inputs\n")) == (0, 1), got.err


@pytest.mark.parametrize(
    "expected, got, causes, same",
    [
        (f32(1, NAN), f32(1, -NAN), (), True),
        (f32(0.0), f32(-0.0), (), False),
        (f32(1), np.nextafter(f32(1), f32(2)), (), False),
        (f32(1), np.nextafter(f32(1), f32(2)), {ELEMENTARY}, True),
        (f32(1, 0), f32(1, 2 * ULPS * 2**-23), {ELEMENTARY}, False),
        (f32(INF), f32(3.4028235e38), {ELEMENTARY}, True),
        (f32(INF), f32(1), {ELEMENTARY}, False),
        (f32(1), f32(NAN), {ELEMENTARY}, False),
        (f32(1, INF), f32(NAN, NAN), {ATOMICS}, True),
        (f32(1, 2), f32(NAN, 2), {ATOMICS}, False),
        (np.array([3, 2**62]), np.array([4, 2**62]), {ELEMENTARY}, True),
        (np.array([3]), np.array([5]), {ELEMENTARY}, False),
    ],
)
def test_compare(expected, got, causes, same):
    assert (compare("y", expected, got, causes) is None) == same


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.bits != 4], ids=str)
def test_compare_works_on_every_dtype(dtype):
    zeros, ones = np.zeros((2, 3), dtype.numpy), np.ones((2, 3), dtype.numpy)
    assert compare("y", ones, ones.copy()) is None
    found = compare("y", zeros, ones)
    assert (found.index, found.count, found.size) == ((0, 0), 6, 6)
    assert compare("y", np.zeros((0, 3), dtype.numpy), np.zeros((0, 3), dtype.numpy)) is None


def test_two_faults_of_one_kind_agree_and_one_fault_alone_is_a_difference():
    def fault(call, seed):
        raise VxcError(Diagnostic("E0720", "index 9"))

    good, bad = Executor("good", lambda call, seed: {"y": f32(1)}), Executor("bad", fault)
    inputs = {"set": Call({}, {}, {})}
    (alike,) = findings([bad, bad], inputs)
    assert str(alike) == "all fault alike with E0720 on set" and not list(disagreements([bad, bad], inputs))
    (alone,) = findings([good, bad], inputs)
    assert str(alone) == "good and bad differ on set: one reports E0720, index 9"


FAULTY = """kernel f(x: f32[N], out y: f32[N]) { parallel i in N { assert(!isnan(x[i]), "a number"); y[i] = x[i]; } }
example f(x = rand(f32, 64));
"""


def test_a_fault_that_all_report_is_told_and_on_the_example_an_error():
    got = vxc("diff", "-", stdin=FAULTY)
    assert (got.status, "error" in got.err) == (0, False)
    assert got.out.endswith(" agree on 3 sets of inputs; all fault alike with E0723 on special values\n")
    assert json.loads(vxc("diff", "-", "--json", stdin=FAULTY).out)[0]["faults"] == {"special values": "E0723"}
    got = vxc("diff", "-", stdin=FAULTY.replace("!isnan(x[i])", "isnan(x[i])"))
    assert got.status == 1 and "error[E0723]: assertion failed: a number" in got.err and "  --> <stdin>:1:" in got.err
    sets = [*(f"random inputs {k}" for k in (1, 2, 3)), "special values"]
    assert got.out == f"<stdin>: f: {'; '.join(f'all fault alike with E0723 on {name}' for name in sets)}\n"


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize("unused, code", [("x[p[i]]", "E0720"), ("y[i]", "E0721")])
def test_a_fault_of_what_nothing_uses_is_the_kernels_and_no_difference(unused, code, debug):
    text = f"kernel f(x: f32[N], p: i32[N], out y: f32[N]) {{ parallel i in N {{ let a = {unused}; y[i] = x[i]; }} }}\n"
    got = vxc("diff", "-", *debug, stdin=text + "example f(x = rand(f32, 8), p = randint(i32, 8, 9, 8));\n")
    assert got.status == 1 and f"error[{code}]" in got.err and "differ" not in got.out
    assert got.out.count(f"all fault alike with {code}") == 4


EXACTNESS = [
    ("y[i] = x[i] * 2.0;", {}),
    ("y[i] = sqrt(x[i]) / 3.0 + max(x[i], 1.0);", {}),
    ("y[i] = exp(x[i]);", {"y": {ELEMENTARY}}),
    ("let e = exp(x[i]); y[i] = x[i]; z[i] = e as i32;", {"z": {ELEMENTARY}}),
    ("if tanh(x[i]) > 0.5 { y[i] = 1.0; }", {"y": {ELEMENTARY}}),
    ("var s: f32 = 0.0; serial j in 4 { s += log(x[i]); } y[i] = s;", {"y": {ELEMENTARY}}),
    ("serial j in 4 { if sin(x[i]) > 0.5 { break; } y[i] = j as f32; }", {"y": {ELEMENTARY}}),
    ("local l: f32[2] = 0.0; l[1] = erf(x[i]); y[i] = l[0];", {"y": {ELEMENTARY}}),
    ("y[i] = x[(cos(x[i]) as i64) % N];", {"y": {ELEMENTARY}}),
    ("atomic_add(y[0], x[i]);", {"y": {ATOMICS}}),
    ("atomic_max(y[0], x[i]); atomic_add(z[0], 1);", {}),
    ("atomic_add(y[0], exp(x[i]));", {"y": {ATOMICS, ELEMENTARY}}),
]


@pytest.mark.parametrize("statements, expected", EXACTNESS, ids=[row[0] for row in EXACTNESS])
def test_which_outputs_are_exact(statements, expected):
    text = f"kernel f(x: f32[N], inout y: f32[N], inout z: i32[N]) {{ parallel i in N {{ {statements} }} }}"
    compiled = compile(Source("f.vx", text))
    assert inexact(compiled.tile) == expected
    assert inexact(compiled.plan) == expected


@pytest.mark.parametrize("fp, far", [("contract", {"y"}), ("fast", {"y", "w"})])
def test_a_looser_mode_makes_all_float_arithmetic_inexact(fp, far):
    body = "y[i] = x[i] * 2.0 + 1.0; z[i] = x[i]; w[i] = x[i] * 2.0;"
    text = f"@fp({fp}) kernel f(x: f32[N], out y: f32[N], out z: f32[N], out w: f32[N]) {{ parallel i in N {{ {body} }} }}"
    plan = compile(Source("f.vx", text)).tile
    assert inexact(plan) == dict.fromkeys("yw", {ELEMENTARY}) and distorted(plan) == far


@pytest.mark.parametrize(
    "statements, passed",
    [
        ("y[i] = x[i];", None),
        ("y[i] = exp(x[i]);", "f64"),
        ("y[i] = exp(x[i] as f32) as f64;", "f32 f64"),
        ("let e = exp(x[i] as f32); y[i] = (e as f16) as f64;", "f16 f32 f64"),
        ("y[i] = (x[i] as f16) as f64;", None),
        ("y[i] = exp((x[i] as f16) as f64);", "f64"),
        ("local l: f32[1] = 0.0; l[0] = exp(x[i]) as f32; y[i] = l[0] as f64;", "f32 f64"),
    ],
)
def test_a_deviation_is_as_large_as_the_coarsest_type_that_it_passed(statements, passed):
    text = f"kernel f(x: f64[N], out y: f64[N]) {{ parallel i in N {{ {statements} }} }}"
    found = grains(compile(Source("f.vx", text)).tile)
    assert found == ({"y": frozenset(DTYPES[name] for name in passed.split())} if passed else {})


def test_the_types_that_a_deviation_passed_count_in_the_bound():
    one, other = np.array([1.0]), np.array([1.0 + 2**-23])
    assert compare("y", one, other, {ELEMENTARY}) is not None
    assert compare("y", one, other, {ELEMENTARY}, {DTYPES["f32"]}) is None
    assert first_difference({"y": one}, {"y": other}, {"y": {ELEMENTARY}}, {"y": {DTYPES["f32"]}}) is None


def test_a_device_does_not_run_what_faults_in_the_interpreter():
    def fault(call, seed):
        raise VxcError(Diagnostic("E0720", "index 9"))

    ran = []
    device = Executor("gpu", lambda call, seed: ran.append(call) or {"y": f32(1)}, faults=False)
    good = Executor("ast", lambda call, seed: {"y": f32(1)} if call.scalars else fault(call, seed))
    inputs = {"wrong": Call({}, {}, {}), "right": Call({}, {"n": 1}, {})}
    (alike,) = findings([good, device], inputs)
    assert str(alike) == "all fault alike with E0720 on wrong" and ran == [inputs["right"]]


@pytest.mark.parametrize(
    "statements, outputs",
    [
        ("y[i] = x[i] - x[0]; z[i] = x[i] as i32;", ""),
        ("let e = exp(x[i]); y[i] = if x[i] > 0.0 { -max(e, 1.0) } else { e };", ""),
        ("y[i] = (exp(x[i]) as f16) as f32;", ""),
        ("y[i] = exp(x[i]) - 1.0;", "y"),
        ("y[i] = exp(exp(x[i]));", "y"),
        ("y[i] = x[i]; z[i] = exp(x[i]) as i32;", "z"),
        ("z[i] = reinterpret(exp(x[i]), i32);", "z"),
        ("if exp(x[i]) > 1.0 { y[i] = 1.0; }", "y"),
        ("y[i] = max(sin(x));", "y"),
    ],
)
def test_where_small_deviations_grow(statements, outputs):
    text = f"kernel f(x: f32[N], inout y: f32[N], inout z: i32[N]) {{ parallel i in N {{ {statements} }} }}"
    assert distorted(compile(Source("f.vx", text)).tile) == set(outputs)
    assert compare("y", f32(1.0), f32(9.0), {ELEMENTARY, DISTORTED}) is None
