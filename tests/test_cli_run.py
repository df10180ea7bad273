"""`vxc run`: arguments, where it runs, outputs, --check."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from cli_tool import SAMPLES, SCALE, TWO, vxc

from vxc.cli import run as run_command
from vxc.diag import Diagnostic, VxcError
from vxc.driver import compile
from vxc.interp.flat_interp import run_flat
from vxc.runtime import launch
from vxc.runtime.driver import unavailable
from vxc.source import Source


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """A folder, made the current one, with scale.vx in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.vx").write_text(SCALE)
    return tmp_path


def run(*arguments, **more):
    return vxc("run", "--on", "flat", *arguments, **more)


def test_the_first_command_of_the_readme():
    got = vxc("run", SAMPLES / "softmax.vx", "-a", "x=rand:f32[8192,1000]", "--check")
    assert got.status == 0, got.err
    used, output, check = got.out.splitlines()
    assert used.startswith("softmax: sm_9") and " registers, no spills, " in used
    assert output.startswith("y: f32[8192, 1000]  min ") and "  mean 0.001  " in output
    assert check.startswith("check: equal to ast")
    assert unavailable() is None or (got.err.startswith("note: no GPU (") and got.err.endswith("): running on the flat interpreter\n"))


@pytest.mark.parametrize("place", ["flat", "flat:thread", "ast"])
def test_a_file_in_and_a_file_out(scale, place):
    x, w = np.arange(24, dtype=np.float32).reshape(4, 6), np.linspace(0, 1, 6, dtype=np.float32)
    np.save("x.npy", x)
    np.savez("w.npz", w=w, other=x)
    got = vxc("run", "scale.vx", "--on", place, "-a", "x=x.npy", "-a", "w=w.npz:w", "-a", "a=0.5", "-o", "y=y.npy")
    assert (got.status, got.err) == (0, "")
    assert np.array_equal(np.load("y.npy"), np.float32(0.5) * x * w)
    assert sorted(p.name for p in scale.iterdir()) == ["scale.vx", "w.npz", "x.npy", "y.npy"]  # no temporary file stays


def test_given_arrays_fix_the_sizes_and_dtypes_of_the_rest():
    assert "y: f32[5, 9]" in run("-", "-a", "x=rand:f32[5,9]", stdin=SCALE).out
    assert "y: f32[3, 9]" in run("-", "-D", "N=9", stdin=SCALE).out
    assert "y: bf16[2, 5]" in run(SAMPLES / "softmax.vx", "-a", "x=rand:bf16[2,5]").out
    assert "o: f32[3, 64]" in run(SAMPLES / "attention_naive.vx", "-a", "q=rand:f32[3,64]").out


def test_seeds_give_other_arrays_and_the_same_again():
    first, again, other = (run("-", "--seed", seed, stdin=SCALE).out for seed in (1, 1, 2))
    assert first == again != other


def test_no_elements_are_no_problem():
    assert "y: f32[0, 7]  []\n" in run("-", "-a", "x=rand:f32[0,7]", "--check", stdin=SCALE).out


def test_statistics_count_what_is_not_finite():
    assert "  nan 21  [nan nan nan nan ..]" in run("-", "-a", "a=nan", stdin=SCALE).out


def test_the_only_kernel_is_run_or_the_named_one():
    got = run("-", stdin=TWO)
    assert got.status == 1
    assert "error[E0234]: <stdin> defines 2 kernels: `dbl`, `inc`\n   = help: name one, with -k on the command line" in got.err
    assert "inc: sm_90a" in run("-", "-k", "inc", "--arch", "sm_90a", stdin=TWO).out


def test_an_output_on_standard_output_leaves_the_summary_to_standard_error(scale):
    command = [sys.executable, "-m", "vxc", "run", "--on", "flat", "scale.vx", "-a", "a=0", "-o", "y=-"]
    got = subprocess.run(command, capture_output=True, check=True)
    assert np.array_equal(np.load(io.BytesIO(got.stdout)), np.zeros((3, 7)))
    assert b"y: f32[3, 7]" in got.stderr
    assert "binary data does not go to a terminal" in run("scale.vx", "-o", "y=-", terminal=True).err


def test_json():
    report = json.loads(run("-", "--json", "--check", stdin=SCALE).out)
    assert (report["kernel"], report["on"], report["check"]) == ("scale", "flat", "equal")
    assert (report["outputs"]["y"]["dtype"], report["outputs"]["y"]["shape"]) == ("f32", [3, 7])


def test_check_names_the_first_element_that_differs_and_exits_3(monkeypatch):
    def wrong(kernel, debug):
        right = real(kernel, debug)

        def run(call, seed):
            results = right.run(call, seed)
            results["y"][1, 2] += 1
            return results

        return replace(right, run=run)

    real = run_command.ast_executor
    monkeypatch.setattr(run_command, "ast_executor", wrong)
    got = run("-", "-a", "x=ones:f32[3,7]", "-a", "w=ones:f32[7]", "--check", stdin=SCALE)
    assert got.status == 3
    assert got.out.endswith("check: y[1, 2] is 2.0, expected 3.0 (1 of 21 elements differ)\n")


def test_debug_stops_at_a_division_by_zero():
    text = "kernel f(k: i32[N], d: i32, out y: i32[N]) { parallel i in N { y[i] = k[i] // d; } }\nexample f(k = rand(i32, 4), d = 0);\n"
    assert run("-", stdin=text).status == 0
    got = run("-", "--debug", stdin=text)
    assert got.status == 1 and "error[E0724]" in got.err and "--> <stdin>:1:71" in got.err


BAD = [
    # arguments                            code     words
    (["-a", "x=f64.npy"],                  "E0704", "`x` holds float64, but f32 is declared"),
    (["-a", "x=flat.npy"],                 "E0705", "`x` has 1 dimension, but 2 declared"),
    (["-a", "x=x.npy", "-a", "w=flat.npy"], "E0705", "dimension 0 of `w` is 8, but dimension 1 of `x` makes N = 6"),
    (["-a", "x=cut.npy"],                  "E0710", "cannot read cut.npy: "),
    (["-a", "x=none.npy"],                 "E0710", "cannot read none.npy: No such file"),
    (["-a", "x=scale.vx"],                 "E0710", "it is neither a .npy nor a .npz file"),
    (["-a", "x=rand:f33[2]"],              "E0709", "`rand:f33[2]` names no dtype"),
    (["-a", "x=2.5"],                      "E0709", "the parameter is an array, and `2.5` is not"),
    (["-a", "a=x.npy"],                    "E0709", "the parameter is one number, and `x.npy` is not"),
    (["-a", "a=abc"],                      "E0709", "the parameter is one number, and `abc` is not"),
    (["-a", "q=1"],                        "E0708", "`scale` has no parameter `q`"),
    (["-o", "q=q.npy"],                    "E0708", "`scale` has no output `q`"),
    (["-o", "y=none/y.npy"],               "E0711", "cannot write none/y.npy: No such file"),
    (["-o", "y=."],                        "E0711", "cannot write .: Is a directory"),
    (["-D", "M=7", "-a", "x=x.npy"],       "E0705", "dimension 0 of `x` is 4, but 7 is declared"),
    (["-D", "Q=7"],                        "E0229", "`-D Q`"),
    (["-k", "scal"],                       "E0234", "has no kernel `scal`"),
    (["--arch", "sm_99"],                  "E0701", "vxc does not compile for `sm_99`"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, code, words", BAD, ids=[" ".join(row[0]) for row in BAD])
def test_bad_arguments(scale, arguments, code, words):
    np.save("x.npy", np.zeros((4, 6), np.float32))
    np.save("f64.npy", np.zeros((4, 6)))
    np.save("flat.npy", np.zeros(8, np.float32))
    (scale / "cut.npy").write_bytes((scale / "x.npy").read_bytes()[:150])
    got = run("scale.vx", *arguments)
    assert (got.status, got.out.count("\n") <= 1) == (1, True)
    assert got.err.startswith(f"error[{code}]: ") and words in got.err and "= help: " in got.err
    assert not list(scale.glob("*.tmp"))


def test_an_argument_that_neither_is_given_nor_has_an_example():
    text = SCALE.partition("example")[0]
    got = run("-", "-a", "x=rand:f32[2,3]", stdin=text)
    assert got.status == 1
    assert "array argument `w` is missing" in got.err and "scalar argument `a` is missing" in got.err
    got = run("-", stdin=text)
    assert got.status == 1 and got.err.startswith("error[E0708]: `scale` has no `example` line, from which its inputs are made\n")
    hint = "add `example scale(x = rand(f32, 64, 64), w = rand(f32, 64), a = 2);`, or give its arguments, as with -a NAME="
    assert hint in got.err
    alone = "kernel f(out y: f32[N]) { parallel i in N { y[i] = 1.0; } }"
    assert run("-", "-D", "N=8", stdin=alone).status == 0 and "error[E0714]: " in run("-", stdin=alone).err


def test_a_gpu_that_is_not_there_is_status_4(monkeypatch):
    def absent():
        raise VxcError(Diagnostic("E0603", "no CUDA driver", help="install one"))

    monkeypatch.setattr(launch, "driver", absent)
    got = vxc("run", "--on", "gpu", "-", stdin=SCALE)
    assert (got.status, got.err) == (4, "error[E0603]: no CUDA driver\n   = help: install one\n")


def test_without_a_gpu_it_says_so_and_runs_on_the_flat_interpreter(monkeypatch):
    monkeypatch.setattr(run_command, "unavailable", lambda: "none fitted")
    got = vxc("run", "-", stdin=SCALE)
    assert (got.status, got.err) == (0, "note: no GPU (none fitted): running on the flat interpreter\n")


def test_ir_is_no_kernel_source():
    got = run("-", stdin=vxc("compile", "-", "--emit", "ir", stdin=SCALE).out)
    assert got.status == 2 and "<stdin> is IR" in got.err


def test_a_reader_of_an_output_that_stops_early_is_no_failure(scale):
    command = f"{sys.executable} -m vxc run --on flat scale.vx -a x=rand:f32[300,999] -a w=rand:f32[999] -o y=-"
    environment = {**os.environ, "PYTHONPATH": str(SAMPLES.parent)}
    got = subprocess.run(["bash", "-c", f"{command} | head -c 6; echo ${{PIPESTATUS[0]}}"], capture_output=True, env=environment)
    assert got.stdout == b"\x93NUMPY0\n" and b"error" not in got.stderr


OUT_OF_RANGE = """kernel f(x: f32[N], p: i32[N], out y: f32[N]) {
    @vector(1) parallel i in N { y[i] = x[p[i] + 7] * 2.0; }
}
example f(x = rand(f32, 8), p = randint(i32, 0, 8, 8));
"""
ENDLESS = """kernel f(x: f32[N], out y: f32[N]) {
    parallel i in N { var v = x[i]; while v == v { v = x[i]; } y[i] = v; }
}
example f(x = rand(f32, 8));
"""


@pytest.mark.parametrize("text, code, mark", [(OUT_OF_RANGE, "E0720", "x[p[i] + 7]"), (ENDLESS, "E0734", "while")])
def test_interpreters_report_a_fault_in_the_same_words(monkeypatch, text, code, mark):
    monkeypatch.setattr("vxc.diff.MAX_STEPS", 100)
    ast, flat, thread = (run("-", "--on", place, stdin=text) for place in ("ast", "flat", "flat:thread"))
    assert ast.status == flat.status == thread.status == 1 and ast.err.startswith(f"error[{code}]: ")
    assert flat.err == ast.err == re.sub(r"thread (\d) of block 0", r"at i=\1", thread.err)
    assert f"   | {' ' * text.splitlines()[1].index(mark)}{'^' * len(mark)}\n" in ast.err


@pytest.mark.parametrize("code, arguments", [("E0705", ["-a", "x=rand:f32[3,5,2]"]), ("E0708", ["-a", "w=rand:f32[5]"])])
def test_the_parameter_of_a_wrong_or_missing_argument_is_marked_whole(code, arguments):
    errors = run("-", *arguments, stdin=SCALE.partition("example")[0]).err.split("\n\n")
    (told,) = (error for error in errors if error.startswith(f"error[{code}]: array argument `x`"))
    assert f"   | {' ' * len('kernel scale(')}{'^' * len('x: f32[M, N]')}\n" in told


def test_a_size_that_does_not_agree_is_marked_whole():
    text = "kernel f(x: f32[N], w: f32[2 * N + 1], out y: f32[N]) { parallel i in N { y[i] = x[i] * w[2 * i]; } }"
    source, arrays = Source("f.vx", text), {"x": np.ones(3, np.float32), "w": np.ones(5, np.float32)}
    with pytest.raises(VxcError) as caught:
        run_flat(compile(source).plan, arrays, {}, source=source)
    assert source.slice(caught.value.diagnostics[0].span) == "2 * N + 1"


def test_what_is_made_up_beside_given_arguments_is_said(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 8), np.float32))
    got = vxc("run", SAMPLES / "rmsnorm.vx", "-a", f"x={tmp_path / 'x.npy'}", "--on", "flat")
    assert (got.status, got.err) == (0, "note: made up as the example says: w, eps\n")
    assert vxc("run", SAMPLES / "rmsnorm.vx", "--on", "flat").err == ""
