"""First calls in a process: their lines in the record, and the processes that measure them, with what needs a GPU left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from benching import first_call, record, starts
from benching.cases import FIRST_CALLS, ROOT
from benching.record import stale


def test_first_calls_are_measured_once_in_a_process_of_their_own(monkeypatch, tmp_path):
    """The script stands in for the one that needs a GPU; what it is asked and what it may print are the same."""
    seconds = {"vxc": {"cold": 0.51234, "warm": 0.1}, "cupy": {"cold": 0.3, "warm": 0.2}}
    printed = {"seconds": seconds, "problems": ["triton: no"], "device": "H"}
    log, script = tmp_path / "log", tmp_path / "first_call.py"
    script.write_text(f"open({str(log)!r}, 'a').write('.')\nprint({json.dumps(json.dumps(printed))})\n")
    monkeypatch.setattr(starts, "SCRIPT", script)
    starts._figures.cache_clear()
    (cold, problems), (warm, _) = map(starts.measured, FIRST_CALLS)
    assert [(row["case"], row["impl"], row["s"]) for row in (*cold, *warm)] == [
        ("first_call_cold_s", "vxc", 0.5123), ("first_call_cold_s", "cupy", 0.3),
        ("first_call_warm_s", "vxc", 0.1), ("first_call_warm_s", "cupy", 0.2),
    ]  # fmt: skip
    assert problems == ["triton: no"] and log.read_text() == "." and set(FIRST_CALLS[0].impls) == set(first_call.WAYS)
    assert stale([*cold, *warm], FIRST_CALLS) == [("missing", case, "triton") for case in FIRST_CALLS]
    assert record.calls_key("start", "vxc") != record.calls_key("start", "cupy")
    script.write_text("raise SystemExit('no torch')")
    starts._figures.cache_clear()
    assert starts.measured(FIRST_CALLS[0]) == ([], ["first calls: no torch"])
    starts._figures.cache_clear()


def test_a_first_call_is_of_a_process_that_has_imported_nothing_of_vxc():
    code = "import sys; sys.path[:0] = ['tools', '.']; import benching.first_call; print([m for m in sys.modules if m.startswith('vxc')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout == "[]\n"


def test_a_process_that_fails_or_dies_is_a_problem(tmp_path, monkeypatch):
    class Torch:
        float32, randn = None, staticmethod(lambda shape, device: 1 / 0)

    monkeypatch.setitem(sys.modules, "torch", Torch)
    assert first_call.forked(lambda x, y: None, str(tmp_path)) == "ZeroDivisionError: division by zero"
    Torch.randn = staticmethod(lambda shape, device: os._exit(3))
    assert first_call.forked(lambda x, y: None, str(tmp_path)) == "the process died"
