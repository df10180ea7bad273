"""One command asks every record whether it is of this code, and continuous integration runs it."""

from __future__ import annotations

import fresh
import pytest
from benching.ending import Stopped
from benching.record import ROOT


def test_every_tool_that_keeps_a_record_with_keys_is_asked():
    tools = {path.stem for path in (ROOT / "tools").glob("*.py") if 'add_argument("--fresh"' in path.read_text("utf-8")}
    assert tools == set(fresh.CHECKS)
    assert "python tools/fresh.py\n" in (ROOT / ".ci" / "run").read_text("utf-8")


def absent() -> int:
    raise Stopped("there is no record")


@pytest.mark.parametrize(
    "statuses, status, last",
    [
        ((lambda: 0, lambda: 0), 0, "2 of 2 records are fresh"),
        ((lambda: 0, lambda: 1), 1, "1 of 2 records are fresh: not those of bench"),
        ((absent, lambda: 3), 1, "0 of 2 records are fresh: not those of gpu_check, bench"),
    ],
)
def test_one_that_is_stale_missing_or_fails_is_named_and_the_others_are_asked(statuses, status, last, monkeypatch, capsys):
    monkeypatch.setattr(fresh, "CHECKS", dict(zip(("gpu_check", "bench"), statuses)))
    assert fresh.fresh(["gpu_check", "bench"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_what_is_no_tool_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fresh.py", "mutate"])
    with pytest.raises(SystemExit) as stopped:
        fresh.main()
    assert stopped.value.code == 2 and "no tool `mutate` keeps a record" in capsys.readouterr().err
