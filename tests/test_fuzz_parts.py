"""The parts of a fuzz run by themselves: cases, shrinking, the pool of workers."""

from __future__ import annotations

import os
import time
from itertools import count

import pytest

from vxc.fuzz.case import Case
from vxc.fuzz.edits import RULES
from vxc.fuzz.examine import Outcome
from vxc.fuzz.gen import generate
from vxc.fuzz.pool import Lost, Pool
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


def test_programs_come_as_they_are_asked_for():
    """What a hunt for one failure uses: it ends with the first."""
    seed, outcome = next(outcomes(count(1)))
    assert seed == 1 and outcome.failure is None and Run().per_minute == 0.0
