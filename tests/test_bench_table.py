"""What is made of the benchmark's record: the table of the README, the chart; and that pages show what their records say.

`pytest tests/test_bench_table.py --bless` puts the tables into the pages.
"""

from __future__ import annotations

import json

import ncu_rows
import pytest
from bench_rows import RUNTIME, SOFTMAX, SUM, rows_of
from benching import launches, record, splitk, table
from benching.cases import CASES, LAUNCH
from benching.record import recorded
from flash_splitk_sweep import RECORD as SWEEP

ROWS = [
    *rows_of(SUM, vxc=0.1, reference=0.0975, copy=0.09, torch=0.2, triton=0.1), *rows_of(SOFTMAX, vxc=0.4, copy=0.1, torch=0.3),
    *rows_of(RUNTIME, torch=1.0),
]  # fmt: skip


def test_the_table():
    assert table.markdown([]) == ""
    assert table.markdown(ROWS).splitlines() == [
        f"H; torch 2.0, Triton 3.0. 2 of {len(CASES)} cases have run.",
        "",
        "| suite | case | ms | GB/s | best peer | peer / vxc | expected | hand-written / vxc | copy / vxc |",
        "|---|---|---|---|---|---|---|---|---|",
        "| rows | rowsum_f32_1048576x64 | 0.1000 | 10 | triton 0.1000 | 1.00 | 0.98 | 0.97 | 0.90 |",
        f"| rows | {SOFTMAX.name} | 0.4000 | 2 | torch 0.3000 | 0.75 | 2.10 |  | 0.25 |",
        "",
        "By the times as recorded, which the columns round, vxc takes no longer than the best peer in 1 of 2 cases, "
        "and at most 1.03 times as long as the hand-written kernel in 1 of 1.",
    ]


def test_the_verdict_does_not_round():
    """Of a hand-written kernel 1.031 and 1.029 times as fast, both shown as 0.97; of a peer a little faster and a little slower."""
    for ms, near in ((0.1 / 1.031, 0), (0.1 / 1.029, 1)):
        rows = [row | ({"ms": ms} if row["impl"] == "reference" else {}) for row in ROWS]
        assert "| 0.97 | 0.90 |" in table.markdown(rows)
        assert f"at most 1.03 times as long as the hand-written kernel in {near} of 1." in table.markdown(rows)
    for ms, ahead in ((0.0998, 0), (0.1002, 1)):
        rows = [row | ({"ms": ms} if row["impl"] == "triton" else {}) for row in ROWS]
        assert f"no longer than the best peer in {ahead} of 2 cases" in table.markdown(rows)


def test_lines_of_calls_are_in_their_own_table():
    calls = [launches.line(LAUNCH, impl, us, 5.0, "H") for impl, us in (("driver", 5.0), ("vxc", 6.1234))]
    assert table.markdown([*ROWS, *calls]) == table.markdown(ROWS) and table.bars([*ROWS, *calls]) == table.bars(ROWS)
    assert launches.markdown([*ROWS, *calls]).splitlines() == [
        "| | call | us | over the driver |",
        "|---|---|---|---|",
        "| driver | `cuLaunchKernelEx` through cuda-bindings, parameters packed once | 5.00 | 0.00 |",
        "| vxc | `k(x, y, n)` on torch tensors | 6.12 | 1.12 |",
    ]


def test_what_was_expected_is_of_cases_that_there_are():
    assert set(table.EXPECTED) <= {case.name for case in CASES if case.suite != "runtime"}


def test_the_chart_has_a_group_for_each_case_that_was_copied():
    assert table.bars(ROWS) == [
        (SUM.name, {"vxc": 0.09 / 0.1, "reference": 0.09 / 0.0975, "torch": 0.09 / 0.2, "triton": 0.09 / 0.1}),
        (SOFTMAX.name, {"vxc": 0.1 / 0.4, "torch": 0.1 / 0.3}),
    ]
    assert table.bars(rows_of(RUNTIME, vxc=1.0, copy=1.0))[0][0] == f"{RUNTIME.name} (runtime)"


@pytest.mark.parametrize(
    "page, made_by, made",
    [
        ("README.md", "benching/table.py", lambda: table.markdown(recorded())),
        ("README.md", "benching/launches.py", lambda: launches.markdown(recorded())),
        ("README.md", "ncu_rows.py", lambda: ncu_rows.markdown(ncu_rows.recorded_rows())),
        ("samples/README.md", "benching/splitk.py", lambda: splitk.markdown(json.loads(SWEEP.read_text("utf-8")))),
    ],
)
def test_tables_are_made_of_the_records(page, made_by, made, bless):
    path = record.ROOT / page
    before, start, rest = path.read_text("utf-8").partition(f"<!-- {made_by} -->\n")
    shown, end, after = rest.partition("<!-- end -->\n")
    assert start and end
    if bless:
        path.write_text(before + start + made() + end + after, "utf-8")
    else:
        assert shown == made()
