"""The comparison of counts with Nsight Compute's: what is read from its output, and what the record says."""

from __future__ import annotations

import json
from collections import Counter

import ncu_check
import pytest
from benching.ending import Stopped
from ncu_check import CASES, METRICS, RECORD, different, measured, rows

from vxc.dtypes import DTYPES

HEADER = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",' \
         '"Section Name","Metric Name","Metric Unit","Metric Value"'  # fmt: skip


def output(kernels: list[str], value: str = "1,024") -> str:
    """What `ncu --csv` prints for launches of these kernels, each counter with one value."""
    lines = ["==PROF== Connected to process 1 (python3)", HEADER]
    for number, kernel in enumerate(kernels):
        for counter, _ in METRICS.values():
            where = f'"{number}","1","python3","h","{kernel}(const float *)","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0"'
            lines.append(f'{where},"m","{counter}","","{value}"')
    return "\n".join([*lines, "==PROF== Disconnected"])


def test_what_ncu_prints_is_read_by_launch():
    seen = measured(output([case.sample for case in CASES]))
    assert seen == [Counter(dict.fromkeys(METRICS, 1024))] * len(CASES)


@pytest.mark.parametrize("kernels", [[], ["rowsum"], [case.sample for case in CASES][::-1]], ids=["none", "one", "another order"])
def test_launches_that_are_not_the_cases_are_refused(kernels):
    with pytest.raises(Stopped, match="ncu saw"):
        measured(output(kernels))


def test_a_count_that_differs_is_noticed(monkeypatch):
    monkeypatch.setattr(ncu_check, "counted", lambda case, arch: ("key", Counter({"global load sectors": 8, "shared load turns": 4})))
    seen = [Counter({"global load sectors": 8, "shared load turns": 5, "global store sectors": 1})] * len(CASES)
    found = rows("sm_90a", seen)[:3]
    assert [(row["metric"], row["ratio"]) for row in found] == [
        ("global load sectors", 1.0), ("global store sectors", None), ("shared load turns", 1.25)
    ]  # fmt: skip
    assert different(found) == found[1:]


def test_the_record_says_of_every_case_that_the_hardware_counts_the_same():
    """Sectors, requests and turns of the banks, conflicts among them."""
    record = json.loads(RECORD.read_text("utf-8"))
    found = {(row["kernel"], row["metric"]): row for row in record["rows"]}
    assert {kernel for kernel, _ in found} == {case.name for case in CASES} and len({case.sample for case in CASES}) >= 3
    assert not different(record["rows"]) and all(row["ratio"] == 1 for row in found.values())
    for case in CASES:
        assert {(case.name, f"global {kind} {what}") for kind in ("load", "store") for what in ("requests", "sectors")} <= found.keys()
        if case.sample in ("transpose", "transpose_tile"):
            least = 2 * case.m * case.n * DTYPES[case.dtype].bytes / 32
            assert sum(found[case.name, f"global {kind} sectors"]["measured"] for kind in ("load", "store")) >= least
    conflicts = found["lookup_f32_4x1024", "shared load turns"]["measured"] / found["lookup_f32_4x1024", "shared load requests"]["measured"]
    assert conflicts > 3
