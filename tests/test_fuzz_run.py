"""`vxc fuzz`: planted faults are found, named, shrunk and replayed; workers that hang or die; reports; what stands on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cli_tool import vxc

from tests import filetest
from vxc import diff
from vxc.fuzz import examine as examining
from vxc.fuzz.case import Case
from vxc.fuzz.examine import Executors, Outcome, examine
from vxc.fuzz.gen import generate
from vxc.fuzz.reduce import cost
from vxc.fuzz.run import FEWEST, outcomes, shrunk
from vxc.pass_manager import Pipeline
from vxc.pipeline import PASSES, PIPELINE

ROOT = Path(__file__).parent.parent


def plant(monkeypatch, name, change):
    """Have a pass give change(plan) of what it gives."""

    def wrong(p):
        return replace(p, run=lambda plan, context: change(p.run(plan, context)))

    passes = tuple(wrong(p) if p.name == name else p for p in PIPELINE.passes)
    monkeypatch.setattr(examining, "PIPELINE", Pipeline(passes))
    monkeypatch.setitem(PASSES, name, wrong(PASSES[name]))


def stores(plan):
    return [i for kernel in plan.kernels for i in kernel.insts if i.op == "store" and i.operands[0].space == "param"]


def no_stores(plan):
    """Nothing reaches an output: almost every program notices."""
    return plan.with_kernels(replace(k, insts=tuple(i for i in k.insts if i not in stores(plan))) for k in plan.kernels)


def when_stored(act):
    def change(plan):
        if stores(plan):
            act()
        return plan

    return change


def fail():
    raise KeyError("a table")


def hang():
    while True:
        time.sleep(0.01)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


# ---- faults ------------------------------------------------------------------------------------------------------------


def test_a_wrong_pass_is_found_named_shrunk_and_replayed(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        plant(patch, "fuse-loops", no_stores)
        got = vxc("fuzz", "-n", 2, "--seed", 5, "-j", 2, "-o", tmp_path, "--on", "flat")
        assert got.status == 3 and " fail, in " in got.out and "\nfuse-loops: ast and fuse-loops differ on its arguments: " in got.out
        path = min((tmp_path / "fuse-loops").iterdir())
        text = path.read_text()
        assert "To run it again: vxc fuzz --replay fuse-loops/seed-" in text and f"vxc fuzz --replay {path}" in got.out
        assert text.endswith("----\n") and len([line for line in text.splitlines() if line[0] not in "#-"]) <= 5
        again = vxc("fuzz", "--replay", path, "--on", "flat")
        assert (again.status, again.out) == (3, f"{path}: {text.splitlines()[0][2:]}\n")
        patch.setattr(filetest, "FOLDER", tmp_path)
        with pytest.raises(AssertionError, match="expected|E0721"):  # other values, or reads of what is not stored
            filetest.FileTest.read(path).actual()
    again = vxc("fuzz", "--replay", path, "--json", "--on", "flat")
    assert again.status == 0 and json.loads(again.out) == [{"file": str(path), "failure": None}]
    monkeypatch.setattr(filetest, "FOLDER", tmp_path)
    assert "done=" not in filetest.FileTest.read(path).actual()  # the plan to bless


@pytest.mark.parametrize(
    "act, kind, cause, why",
    [
        (fail, "exception", "KeyError", "KeyError: 'a table' (test_fuzz_run.py:"),
        (hang, "does not end", "", "does not end within 4 s"),
        (die, "ends the process", "", "the process ended, by SIGKILL"),
    ],
)
def test_what_is_no_wrong_answer_is_a_failure_too(monkeypatch, act, kind, cause, why):
    plant(monkeypatch, "map-loops", when_stored(act))
    found = dict(outcomes([2, 3], jobs=2, limit=4.0))
    assert sorted(found) == [2, 3]
    failures = [outcome.failure for outcome in found.values() if outcome.failure]
    assert failures and {f.signature for f in failures} == {(kind, "map-loops", cause)} and failures[0].why.startswith(why)


def test_a_hang_is_shrunk_in_bounded_time(monkeypatch):
    monkeypatch.setattr("vxc.fuzz.run.SHRINK_LIMIT", 1.0)
    plant(monkeypatch, "map-loops", when_stored(hang))
    ((_, outcome),) = outcomes([11], limit=4.0)  # so small that slow machines too are in the pass within a second
    started = time.monotonic()
    less = shrunk(outcome, Executors(), seconds=5.0)
    assert time.monotonic() - started < 12
    assert less.failure.signature == outcome.failure.signature and cost(less.case) < cost(outcome.case)


def test_a_failure_that_does_not_come_again_is_left_as_it_is():
    outcome = Outcome(Case.of(generate(1)), examining.Failure("difference", "simplify", "", "once"))
    assert shrunk(outcome, Executors()) is outcome


def test_a_fault_of_the_parser_is_a_failure_that_is_not_shrunk(monkeypatch, tmp_path):
    def broken(source):
        raise RecursionError("deep")

    monkeypatch.setattr("vxc.fuzz.case.parse", broken)
    monkeypatch.setattr("vxc.fuzz.edits._tree", broken)  # which keeps what it parsed before
    got = vxc("fuzz", "-n", 1, "-o", tmp_path, "--on", "flat")
    assert got.status == 3 and "\ncheck: RecursionError: deep (test_fuzz_run.py:" in got.out
    assert (tmp_path / "check" / "seed-0.vxt").read_text().endswith("\n----\n")


def test_a_difference_that_takes_another_order_of_warps_names_the_first_step_that_has_it(monkeypatch):
    """Here only a later step happens to run in the order that shows it."""
    text = "kernel k(x: f32[N, 64], out y: f32[N]) { parallel i in N { y[i] = @lanes(64) sum(x[i]); } }"
    case = Case(text, {"N": "5", "x": "rand:f32[5,64]"})
    assert examine(case).failure is None
    right = diff.run_flat

    def wrong(plan, *arguments, seed, **options):
        results = right(plan, *arguments, seed=seed, **options)
        if seed == diff.ORDERS[-1] and "lower-to-threads" in plan.kernels[0].done:
            results["y"][3] = 7.0
        return results

    monkeypatch.setattr(diff, "run_flat", wrong)
    failure = examine(case).failure
    assert failure.where == "lower-to-threads" and "y[3] is 7.0" in failure.why


def test_refusals_of_later_steps_are_failures_and_E0313_is_none():
    assert examine(Case("kernel k(x: f32[N], out y: f32[N]) { y[0] = nothing; }")).failure.signature == ("refused", "check", "E0201")
    unproven = Case("kernel k(p: i32[N], out y: f32[N]) { parallel i in N { y[p[i]] = 1.0; } }", {"N": "2", "p": "zeros:i32[2]"})
    outcome = examine(unproven)
    assert (outcome.failure, outcome.code) == (None, "E0313")


@pytest.mark.parametrize("value, where", [("x[i]", "gpu"), ("exp(x[i])", "gpu"), ("exp(x[i]) - exp(x[i])", None)])
def test_what_elementary_functions_give_and_is_computed_with_is_not_compared_with_a_gpu(monkeypatch, value, where):
    def other(compiled, arrays, scalars, dims):
        return {name: a + 1 for name, a in diff.run_flat(compiled.plan, arrays, scalars, dims=dims).items()}

    monkeypatch.setattr("vxc.runtime.launch.run_numpy", other)
    case = Case(f"kernel k(x: f32[N], out y: f32[N]) {{ parallel i in N {{ y[i] = {value}; }} }}", {"N": "5", "x": "rand:f32[5]"})
    failure = examine(case, Executors(gpu=True)).failure
    assert (failure and failure.where) == where


def test_what_faults_in_the_interpreters_is_not_run_on_a_gpu(monkeypatch):
    monkeypatch.setattr("vxc.runtime.launch.run_numpy", lambda *_, **__: die())
    case = Case("kernel k(p: i64[N], out y: f32[N]) { parallel i in N { y[i] = p[p[i]] as f32; } }", {"N": "2", "p": "full:i64[2]:9"})
    outcome = examine(case, Executors(gpu=True))
    assert (outcome.failure, outcome.code) == (None, "E0720")


# ---- the command -------------------------------------------------------------------------------------------------------


def test_report_and_json(tmp_path):
    got = vxc("fuzz", "-n", 3, "--seed", 7, "-j", 1, "-o", tmp_path, "--on", "flat")
    assert got.status == 0 and got.out.startswith("3 programs in ")
    assert " a minute: syntax tree, every pass, warps in any order agree\n" in got.out
    assert got.err == "" and not list(tmp_path.iterdir())
    assert len(got.out.splitlines()) == 2 and got.out.splitlines()[1].endswith(" never came up: --json counts and names them")
    report = json.loads(vxc("fuzz", "-n", 3, "--seed", 7, "--json", "--on", "flat").out)
    assert list(report) == [
        "programs", "seconds", "programs_per_minute", "interrupted", "gpu", "rejected", "rejects_too_many", "faults", "unfinished",
        "failures", "counts", "never",
    ]  # fmt: skip
    assert (report["programs"], report["failures"], report["interrupted"], report["gpu"]) == (3, [], False, False)
    assert report["programs_per_minute"] > 0
    assert report["counts"]["opcode store@thread"] > 0 and not set(report["counts"]) & set(report["never"])


def test_json_of_failures(monkeypatch, tmp_path):
    plant(monkeypatch, "simplify", when_stored(fail))
    got = vxc("fuzz", "-n", 2, "--json", "-o", tmp_path, "--on", "flat")
    (failure,) = json.loads(got.out)["failures"]
    assert got.status == 3 and [failure[k] for k in ("kind", "where", "cause")] == ["exception", "simplify", "KeyError"]
    assert set(failure["seeds"]) <= {0, 1} and Path(failure["file"]).parent == tmp_path / "simplify" and failure["lines"] <= 5


def test_no_programs():
    got = vxc("fuzz", "-n", 0, "--on", "flat")
    assert got.status == 0 and got.out == "0 programs in 0.0 s, 0 a minute: nothing was compared\n"


def test_the_time_bounds_a_run():
    got = vxc("fuzz", "--time", 1, "-j", 1, "--on", "flat")
    assert got.status == 0 and float(got.out.split(" in ")[1].split(" s,")[0]) < 20
    got = vxc("fuzz", "--time", "nan", "--on", "flat")
    assert got.status == 2 and got.err.endswith("Error: Invalid value for '--time': 'nan' is not a valid integer range.\n")


def test_the_time_bounds_shrinking_too(monkeypatch, tmp_path):
    plant(monkeypatch, "simplify", when_stored(fail))
    start = time.monotonic()
    got = vxc("fuzz", "--time", 4, "-j", 2, "--on", "flat", "-o", tmp_path)
    assert got.status == 3 and time.monotonic() - start < 30 and list(tmp_path.rglob("*.vxt"))


def test_too_many_rejected_programs_fail(monkeypatch):
    text = "kernel k(p: i32[N], out y: f32[N]) { parallel i in N { y[p[i]] = 1.0; } }"
    monkeypatch.setattr("vxc.fuzz.case.Case.of", lambda program: Case(text, {"N": "2", "p": "zeros:i32[2]"}))
    got = vxc("fuzz", "-n", FEWEST, "--on", "flat")
    assert got.status == 3 and f"rejected with E0313: {FEWEST} (100.0 %, which is too many: 5 % or more): seeds 0, 1, " in got.out
    assert vxc("fuzz", "-n", FEWEST - 1, "--on", "flat").status == 0


def test_programs_that_fault_alike_are_told(monkeypatch):
    text = "kernel k(out y: f32[1]) { assert(false); y[0] = 1.0; }"
    monkeypatch.setattr("vxc.fuzz.case.Case.of", lambda program: Case(text))
    got = vxc("fuzz", "-n", 2, "--on", "flat")
    assert got.status == 0 and "all executors fault with E0723: seeds 0, 1\n" in got.out


def test_an_interrupt_reports_what_was_done(tmp_path):
    command = [sys.executable, "-m", "vxc", "fuzz", "-n", "100000", "-j", "2", "--on", "flat"]
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    time.sleep(6)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert out.startswith("interrupted after ") and " programs in " in out
    with pytest.raises(ProcessLookupError):  # no worker is left
        os.killpg(process.pid, 0)


def test_a_bar_is_for_terminals_and_a_line_now_and_then_for_others(monkeypatch):
    assert "programs" in vxc("fuzz", "-n", 2, "--on", "flat", terminal=True).err
    assert vxc("fuzz", "-n", 2, "--on", "flat").err == ""
    monkeypatch.setattr("vxc.progress._FIRST_LINE", 0.0)
    assert vxc("fuzz", "-n", 2, "--on", "flat").err.startswith("note: programs: 0 of 2 after 0 s\n")


GOOD = "# seed: 1\n# run: N=3 x=rand:f32[3]\nkernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }\n----\n"


@pytest.mark.parametrize(
    "text, status, words",
    [
        (GOOD, 0, ""),
        (GOOD.replace("seed: 1", "seed: one"), 1, "error[E0709]: the seed `one` is no integer\n  --> case.vxt:1:8"),
        (GOOD.replace("N=3", "N"), 1, "error[E0709]: `N` is not NAME=VALUE\n  --> case.vxt:2:7"),
        (GOOD.replace("N=3", "N=3 Q=3"), 1, "error[E0708]: there is no parameter or dimension `Q`\n   = help: there are `N`, `x`, `y`"),
        (GOOD.replace("x=rand:f32[3]", "x=rand:f33[3]"), 1, "error[E0709]: argument `x`: `rand:f33[3]` names no dtype"),
        (GOOD.replace(" x=rand:f32[3]", ""), 1, "error[E0708]: no `run` line gives `x`"),
        (GOOD.replace("# run", "# ran"), 1, "error[E0708]: no `run` line gives `x`"),
        (GOOD.replace("f32[3]", "f32[4]"), 1, "error[E0705]: dimension 0 of `x` is 4, but the given size makes N = 3"),
        (GOOD.replace("y[i] = x[i];", "y[i] = ;"), 1, "error[E0107]: expected an expression, found `;`"),
        (GOOD.replace("y[i] =", "y[0] ="), 3, "error[E0312]: `parallel` iterations collide"),
        ("", 1, "error[E0234]: case.vxt is empty"),
        ("kernel @k(@y: f32[4] out) stage=thread {threads=32} {\n}\n", 2, "is IR, and --replay takes a case with a .vx kernel"),
        (None, 1, "error[E0101]: cannot read case.vxt: No such file or directory"),
    ],
)
def test_files_to_replay(monkeypatch, tmp_path, text, status, words):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("case.vxt").write_text(text)
    got = vxc("fuzz", "--replay", "case.vxt", "--on", "flat")
    assert got.status == status and words in got.err and (status != 0) == bool(got.err)


def test_a_replay_is_of_one_file():
    got = vxc("fuzz", "--replay", "case.vxt", "-n", 3)
    assert got.status == 2 and "--replay runs one file; -n and --time do not go with it" in got.err


def test_workers_that_start_afresh_do_the_same(monkeypatch):
    """As they do for a GPU, whose context no copy of a process can use."""
    monkeypatch.setattr("vxc.fuzz.pool.get_all_start_methods", lambda: ["spawn"])
    ((seed, outcome),) = outcomes([4])
    assert (seed, outcome.failure, outcome.code) == (4, None, "") and outcome.counts == examine(Case.of(generate(4))).counts


def test_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    plant(monkeypatch, "simplify", when_stored(fail))
    (tmp_path / "file").write_text("")
    got = vxc("fuzz", "-n", 1, "--seed", 2, "-o", tmp_path / "file", "--on", "flat")
    assert got.status == 1 and got.err.count("error[E0711]: cannot write ") == 1


def test_without_a_gpu_one_cannot_be_asked_for(monkeypatch):
    monkeypatch.setattr("vxc.cli.fuzz.unavailable", lambda: "no driver")
    got = vxc("fuzz", "-n", 1, "--on", "gpu")
    assert got.status == 4 and got.err.startswith("error[E0603]: no GPU: no driver\n")
    assert vxc("fuzz", "-n", 1).err == "note: no GPU (no driver): comparing the interpreters only\n"
