"""The benchmark of compiling: what it says about its limits, and that it can be run."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "bench_compile.py"))
Row, best, report, ONCE, TWICE = (TOOL[name] for name in ("Row", "best", "report", "ONCE", "TWICE"))
FAST, SLOW = Row("a", 9.96, "ms", 10), Row("b", 10.04, "ms", 10)


def test_each_line_is_the_least_of_its_rounds_and_doubling_follows_from_them():
    rounds = [[Row("a", a, "ms", 5), Row(ONCE, once, "s", 10), Row(TWICE, twice, "s", 20)] for a, once, twice in ((3, 4, 6), (2, 1, 7))]
    *rows, doubling = best(rounds)
    assert [(row.what, row.figure) for row in rows] == [("a", 2), (ONCE, 1), (TWICE, 6)]
    assert (doubling.figure, doubling.holds) == (6.0, False)


def test_a_missed_limit_is_named_and_is_the_exit_status(capsys):
    assert report([FAST, SLOW], 5, as_json=False) == 3
    first, second, verdict = capsys.readouterr().out.splitlines()
    assert "MISSED" not in first and second.endswith("limit 10 ms  MISSED")
    assert verdict == "1 of 2 limits missed: b (the least of 5 rounds)"
    assert report([FAST], 1, as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "all 1 limits hold (the least of 1 round)"


@pytest.mark.parametrize("rows, holds", [([FAST], True), ([FAST, SLOW], False)])
def test_json_says_the_same(capsys, rows, holds):
    assert report(rows, 2, as_json=True) == (0 if holds else 3)
    document = json.loads(capsys.readouterr().out)
    assert document["holds"] is holds and document["rounds"] == 2
    assert document["rows"][-1] == {**rows[-1]._asdict(), "holds": holds}


def test_a_round_measures_every_sample_it_is_given(monkeypatch):
    world = TOOL["measured"].__globals__
    monkeypatch.setitem(world, "process", lambda *command: 1.0)
    monkeypatch.setitem(world, "straight_line", lambda count, real=world["straight_line"]: real(count // 1000))
    sample = Path(__file__).parent.parent / "samples" / "saxpy.vx"
    rows = list(TOOL["measured"]([sample]))
    assert [row.unit for row in rows] == ["ms", "ms", "ms", "s", "s"] and all(row.figure >= 0 for row in rows)
    assert rows[2].what == "samples/saxpy.vx, front end and passes"
