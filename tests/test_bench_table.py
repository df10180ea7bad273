"""What is made of the benchmark's record: the table of the README, the chart; and that pages show what their records say.

`pytest tests/test_bench_table.py --bless` puts the tables into the pages.
"""

from __future__ import annotations

import json

import gpu_check
import ncu_rows
import pytest
import reduce_sweep
from bench_rows import RUNTIME, SOFTMAX, SUM, rows_of
from benching import charts, launches, record, splitk, starts, table, tunings
from benching.cases import CASES, FIRST_CALLS, LAUNCH, TUNINGS
from benching.record import recorded
from flash_splitk_sweep import RECORD as SWEEP
from reduce_sweep import ratios_of

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


def test_first_calls_are_in_their_own_table():
    cold, warm = FIRST_CALLS
    lines = [starts.line(cold, "vxc", 0.5, "H"), starts.line(warm, "vxc", 0.07, "H"), starts.line(cold, "cupy", 0.2, "H")]
    assert starts.markdown(ROWS) == "" and table.markdown([*ROWS, *lines]) == table.markdown(ROWS)
    assert starts.markdown([*ROWS, *lines]).splitlines() == [
        "| | empty cache, s | full cache, s |",
        "|---|---|---|",
        "| vxc | 0.500 | 0.070 |",
        "| CuPy, a kernel written in CUDA | 0.200 |  |",
    ]


def test_what_was_expected_is_of_cases_that_there_are():
    assert set(table.EXPECTED) <= {case.name for case in CASES if case.suite != "runtime"}


def test_the_chart_has_a_field_for_each_suite_and_in_it_a_group_for_each_case_that_was_copied():
    assert table.bars([*ROWS, *rows_of(RUNTIME, vxc=1.0, copy=1.0)]) == {
        "rows": [
            (SUM.name, {"vxc": 0.09 / 0.1, "reference": 0.09 / 0.0975, "torch": 0.09 / 0.2, "triton": 0.09 / 0.1}),
            (SOFTMAX.name, {"vxc": 0.1 / 0.4, "torch": 0.1 / 0.3}),
        ],
        "runtime": [(RUNTIME.name, {"vxc": 1.0, "torch": 1.0})],
    }
    assert {*table.BARS, "copy"} == {impl for case in CASES for impl in case.impls}


@pytest.mark.parametrize(
    "path, shown",
    [(table.PLOT, lambda: table.bars(recorded())), (reduce_sweep.RECORD.with_suffix(".png"), lambda: ratios_of(reduce_sweep.RECORD))],
    ids=["bench", "reduce_sweep"],
)
def test_the_charts_are_of_the_records(path, shown):
    """Else: `--plot` of the tool draws them."""
    assert charts.drawn_from(path) == charts.digest(shown())
    assert charts.digest({**shown(), "another": 1.0}) != charts.drawn_from(path)


@pytest.mark.parametrize(
    "sizes, columns",
    [({"a": 4}, [["a"]]), ({"a": 4, "b": 1, "c": 3}, [["a"], ["b", "c"]]), ({"a": 1, "b": 1, "c": 2}, [["a", "b"], ["c"]])],
)
def test_the_fields_of_the_chart_stand_in_two_columns_of_about_as_many_cases(sizes, columns):
    assert table._columns(sizes) == columns


FOUND = {
    "seconds": 6.64265, "cached_s": 0.03229, "plain_ms": 0.135328, "tuned_ms": 0.134464, "relerr": 9.99e-8,
    "entry": {
        "chosen": {"T": 256, "L": 16},
        "rows": [
            {"milliseconds": 0.13459, "said": "chosen"}, {"milliseconds": 0.14, "said": "slower"},
            {"milliseconds": None, "said": "dropped after the first timing, 1 ms"},
            {"milliseconds": None, "said": "left out, E0220: no"}, {"milliseconds": None, "said": "not tried, 60 s were over"},
        ],
    },
}  # fmt: skip


def test_what_tuning_found_is_a_line_and_a_row(monkeypatch):
    case = TUNINGS[0]
    row = tunings.line(case, FOUND, "H", "sm_90a")
    counts = {"tried": 5, "timed": 2, "dropped": 1, "refused": 2}
    assert {name: row[name] for name in counts} == counts and row["flags"] == "-D T=256 -D L=16"
    assert record.stale([row], [case]) == [] and record.stale([row | {"key": "k"}], [case]) == [("stale", case, "vxc")]
    assert table.markdown([*ROWS, row]) == table.markdown(ROWS) and tunings.markdown(ROWS) == ""
    assert tunings.markdown([row]).splitlines()[2:] == [
        f"| {case.name} | 0.1353 | 0.1345 | `T=256 L=16` | 5 | 2 | 1 | 2 | 6.6 | 0.032 |"
    ]


def test_tuning_is_measured_once_in_a_process_of_its_own(monkeypatch, tmp_path):
    """The script stands in for the one that needs a GPU; what it is asked and what it may print are the same."""
    printed = {"found": {TUNINGS[0].name: FOUND}, "problems": [f"{TUNINGS[1].name}: no"], "device": "H"}
    log, script = tmp_path / "log", tmp_path / "tuned.py"
    script.write_text(f"import sys\nopen({str(log)!r}, 'a').write(sys.argv[1])\nprint({json.dumps(json.dumps(printed))})\n")
    monkeypatch.setattr(tunings, "SCRIPT", script)
    monkeypatch.setattr(tunings, "gpu", lambda: "sm_90a")
    tunings._found.cache_clear()
    assert [tunings.measured(case) for case in TUNINGS] == [
        ([tunings.line(TUNINGS[0], FOUND, "H", "sm_90a")], []), ([], [f"{TUNINGS[1].name}: no"]),
    ]  # fmt: skip
    assert log.read_text() == "sm_90a"
    script.write_text("raise SystemExit('no torch')")
    tunings._found.cache_clear()
    assert tunings.measured(TUNINGS[0]) == ([], ["tuning: no torch"])
    tunings._found.cache_clear()


@pytest.mark.parametrize(
    "page, made_by, made",
    [
        ("README.md", "benching/table.py", lambda: table.markdown(recorded())),
        ("README.md", "benching/launches.py", lambda: launches.markdown(recorded())),
        ("README.md", "benching/starts.py", lambda: starts.markdown(recorded())),
        ("README.md", "gpu_check.py", lambda: gpu_check.markdown(json.loads(gpu_check.RECORD.read_text("utf-8")))),
        ("README.md", "gpu_check.py --several", lambda: gpu_check.markdown_of_several(json.loads(gpu_check.SEVERAL.read_text("utf-8")))),
        ("README.md", "benching/tunings.py", lambda: tunings.markdown(recorded())),
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
