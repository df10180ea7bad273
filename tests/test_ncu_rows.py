"""Nsight Compute on cases of the benchmark: which cases, what is read from its output, and what becomes of it."""

from __future__ import annotations

import ncu_rows
import pytest
from bench_rows import SOFTMAX, SUM, rows_of
from benching.ending import Stopped
from ncu_rows import MARK, METRICS, STALLS, TIME, behind, line, markdown, measured, together

HEADER = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'


def output(launches: list[tuple[str, str, float]]) -> str:
    """What `ncu --csv` prints for kernels that took so long, in a unit; every other counter is 1,234.56, but of the stall "wait"."""
    lines = ["RUN", HEADER]
    for number, (kernel, unit, time) in enumerate(launches):
        lines.append(f'"{number}","1","{kernel}(const float *, long)","{TIME}","{unit}","{time}"')
        for counter in (*METRICS.values(), *STALLS):
            value = "7.25" if "wait" in counter else "1,234.56"
            lines.append(f'"{number}","1","{kernel}(const float *, long)","{counter}","%","{value}"')
    return "\n".join(lines)


def test_what_ncu_prints_is_read_by_implementation():
    """What runs before the first mark is nobody's."""
    ours, theirs = [(MARK, "ns", 900), ("softmax", "ns", 65_500)], [(MARK, "us", 1), ("parts", "us", 60), ("fold", "us", 3)]
    text = output([("warm", "us", 1.0), *ours, *theirs])
    first, second = measured(text)
    assert [(name, seen[TIME]) for name, seen in first] == [("softmax", pytest.approx(65.5))]
    assert [(name, seen[TIME]) for name, seen in second] == [("parts", 60), ("fold", 3)]
    assert first[0][1][METRICS["dram"]] == 1234.56
    assert measured("==ERROR== no GPU") == []


def test_a_row_is_of_the_longest_kernel(monkeypatch):
    monkeypatch.setattr(ncu_rows, "key_now", lambda case, row: f"{case.name} {row['impl']} {row['arch']}")
    ((_, quick), (_, slow)) = measured(output([(MARK, "us", 1), ("fold", "us", 3), ("parts", "us", 60)]))[0]
    slow |= dict.fromkeys(STALLS, 2.0) | {next(at for at, name in STALLS.items() if name == "barrier"): 30.04, METRICS["l2"]: 90.64}
    row = line(SUM, "triton", [("fold", quick), ("parts", slow)], "sm_90a")
    assert (row["kernels"], row["us"], row["l2"], row["stall"], row["cycles"]) == (["fold", "parts"], 63.0, 90.6, "barrier", 30.0)
    assert row["key"] == f"{SUM.name} triton sm_90a"
    shown = f"| {SUM.name} | triton | 63.0 | 1235 | 91 | 1235 | 1235 | 1235 | 1235 | barrier 30.0 |"
    assert markdown({"device": "H", "rows": [row]}).splitlines()[4:] == [shown]


def test_behind_is_what_is_slower_than_expected_beside_its_best_peer():
    """Of the sum 0.98 is expected, of the softmax 2.1, in two decimals."""
    near = [*rows_of(SUM, vxc=0.1, triton=0.0976, torch=0.2), *rows_of(SOFTMAX, vxc=0.1, triton=0.2096)]
    assert behind(near) == []
    far = [*rows_of(SUM, vxc=0.1, triton=0.0974, torch=0.2), *rows_of(SOFTMAX, vxc=0.1, triton=0.2094)]
    assert behind(far) == [SUM, SOFTMAX]
    assert behind([]) == []


def test_rows_of_cases_that_did_not_run_stay():
    old = [{"suite": case.suite, "case": case.name, "impl": "vxc"} for case in (SOFTMAX, SUM)]
    old.append({"suite": "rows", "case": "gone", "impl": "vxc"})
    new = [old[0] | {"impl": "triton"}]
    assert together(old, new) == [old[1], *new] and together([], new) == new


def test_without_ncu_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(ncu_rows, "RECORD", tmp_path / "ncu_rows.json")
    monkeypatch.setattr(ncu_rows, "gpu", lambda: "sm_90a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Stopped, match="ncu is not installed"):
        ncu_rows.record([SUM])
    assert not ncu_rows.RECORD.exists()
