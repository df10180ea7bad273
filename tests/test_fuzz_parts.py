"""The parts of a fuzz run by themselves: cases, shrinking, the pool of workers."""

from __future__ import annotations

import os
import time
from itertools import count
from math import inf

import pytest

from vxc.diag import Diagnostic, VxcError
from vxc.fuzz.case import Case
from vxc.fuzz.edits import RULES
from vxc.fuzz.examine import Failure, Outcome
from vxc.fuzz.gen import generate
from vxc.fuzz.pool import Lost, Pool, Unfinished
from vxc.fuzz.reduce import reduce
from vxc.fuzz.run import Run, outcomes
from vxc.source import Source


@pytest.mark.parametrize("seed", range(6))
def test_a_case_is_its_program_and_reads_back(seed):
    program = generate(seed)
    case = Case.of(program)
    (again,) = Case.read(Source("k.vx", case.file("a headline")))
    assert (dict(again.arguments), again.seed) == (dict(case.arguments), seed)
    kernel = again.typed()[1]
    wanted, got = program.call(), again.call(kernel)
    assert dict(got.scalars).keys() == dict(wanted.scalars).keys() and again.fitted(kernel).arguments == again.arguments
    assert {name: a.tobytes() for name, a in got.arrays.items()} == {name: a.tobytes() for name, a in wanted.arrays.items()}


def test_reducing_keeps_what_fails_and_nothing_else():
    text = """kernel f(a: f32, x: f32[N], out y: f32[N]) {
        let b = a * 2.0;
        parallel i in N {
            if a > 0.5 { y[i] = exp(x[i] + b); } else { y[i] = 0.0; }
        }
    }
    """
    case = Case(text, {"N": "33", "a": "1.5", "x": "special:f32[33]"})

    def still(candidate):
        try:
            return Outcome(candidate.fitted(candidate.typed()[1])) if "exp(" in candidate.text else None
        except Exception:
            return None

    less = reduce(Outcome(case), still, 30.0).case
    assert (less.text, dict(less.arguments)) == ("kernel f(out y: f32[1]) {\n    y[0] = exp(0);\n}\n", {})
    assert reduce(Outcome(case), still, 0.0).case is case


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_has_something_to_say(rule):
    cases = [Case.of(generate(seed)) for seed in range(8)]
    assert any(option != case for case in cases for option in rule(case))


def test_a_pool_gives_every_result_and_names_what_is_lost():
    def work(task, report):
        report(f"step {task}")
        if task == 3:
            time.sleep(60)
        if task == 5:
            os._exit(9)
        return task * task

    with Pool(work, 2, 0.5) as pool:
        found = dict(pool.results(range(8)))
        assert pool.one(9) == 81
    assert found.pop(3) == Lost("step 3", True, "does not end within 0.5 s")
    assert found.pop(5) == Lost("step 5", False, "the process exited with 9")
    assert found == {n: n * n for n in (0, 1, 2, 4, 6, 7)}


def test_a_fault_of_the_harness_itself_is_raised():
    with Pool(lambda task, report: task.nothing, 1, 5.0) as pool, pytest.raises(RuntimeError, match="AttributeError"):
        pool.one(1)


def test_a_pool_gives_up_what_is_under_way_when_the_time_is_over():
    def work(task, report):
        report("asleep")
        time.sleep(60 if task else 0)

    start, ticks = time.monotonic(), []
    with Pool(work, 2, 50.0) as pool:
        found = dict(pool.results(count(), lambda: start + 3, lambda: ticks.append(1)))
        assert time.monotonic() - start < 10 and len(ticks) >= 3
        assert list(found) == [0, 1, 2] and found[0] is None
        assert all(isinstance(found[n], Unfinished) and found[n].step == "asleep" and found[n].seconds < 10 for n in (1, 2))
        assert not list(pool.results([1], lambda: start))


def test_workers_prepare_before_their_time_counts():
    def slow():
        time.sleep(1.5)

    def failing():
        raise VxcError(Diagnostic("E0603", "no context"))

    with Pool(lambda task, report: task + 1, 1, 1.0, prepare=slow) as pool:
        assert pool.one(1) == 2
    with Pool(lambda task, report: task, 1, 5.0, prepare=failing) as pool, pytest.raises(VxcError, match="no context"):
        pool.one(1)


def test_a_worker_ends_after_a_result_that_spoils_it():
    with Pool(lambda task, report: os.getpid(), 1, 5.0, spoils=lambda found: True) as pool:
        assert pool.one(1) != pool.one(2)
    with Pool(lambda task, report: os.getpid(), 1, 5.0) as pool:
        assert pool.one(1) == pool.one(2)


def test_once_something_has_failed_a_part_of_the_time_is_left_for_shrinking():
    run = Run(40.0, start=100.0)
    run.add(1, Unfinished("simplify", 2.0))
    assert (run.last(), run.programs, list(run.unfinished)) == (140.0, 0, [1])
    run.add(2, Outcome(None, Failure("exception", "simplify", "KeyError", "")))
    assert (run.last(), run.programs) == (130.0, 1) and Run().last() == inf


def test_programs_come_as_they_are_asked_for():
    """What a hunt for one failure uses: it ends with the first."""
    seed, outcome = next(outcomes(count(1)))
    assert seed == 1 and outcome.failure is None and Run().per_minute == 0.0
