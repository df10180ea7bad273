"""The sweep of samples/flash_splitk.vx: its variants, and what is said of its figures, with made-up ones."""

from __future__ import annotations

import json

import flash_splitk_sweep as sweep
import pytest
from benching.splitk import CLAIMS, clearing, low_occupancy, markdown, pressure, speed, third_chain
from flash_splitk_sweep import RECORD, SIZES, TOLERANCE, VARIANTS, Variant, fresh, kernel, key_of


def row(chains: int, chunk: int, cap: int | None, registers: int, spills: int, ms: float, blocks: int = 1) -> dict:
    return {
        "chains": chains, "chunk": chunk, "cap": cap, "registers": registers, "spills": spills, "blocks_per_sm": blocks,
        "partial_ms": ms - 0.01, "total_ms": ms, "tflops": 4.295 / ms, "relerr": 1e-7, "key": "k",
    }  # fmt: skip


AS_CLAIMED = [
    row(2, 0, None, 240, 0, 0.50), row(2, 0, 96, 96, 800, 0.30, 2), row(2, 8, None, 180, 0, 0.40), row(2, 8, 96, 96, 0, 0.30, 2),
    row(3, 0, None, 255, 900, 0.60), row(3, 0, 96, 96, 2000, 0.28, 2), row(3, 8, None, 250, 0, 0.25), row(3, 8, 96, 96, 0, 0.28, 2),
]  # fmt: skip


def changed(at: int, **values: float) -> list[dict]:
    return [{**found, **values} if n == at else found for n, found in enumerate(AS_CLAIMED)]


def everywhere(**values: float) -> list[dict]:
    return [{**found, **values} for found in AS_CLAIMED]


def test_figures_as_they_were_claimed():
    assert [judge(AS_CLAIMED).holds for _, judge in CLAIMS] == ["yes"] * 5
    assert pressure(AS_CLAIMED).measured.startswith(
        "2 chains: 240 registers against 180 registers in chunks of 8; 3 chains: 255 registers and 900 bytes"
    )
    assert clearing(AS_CLAIMED).measured.startswith("of 3 pairs of chains and cap that spill single-shot, a chunk clears 3 (2 with cap 96,")
    assert third_chain(AS_CLAIMED).measured== (
        "2 of 2 chunked forms of three chains do not spill, the fastest of them takes 0.250 ms; "
        "the fastest of fewer takes 0.300 ms (2 chains, single-shot, cap 96)"
    )
    assert low_occupancy(AS_CLAIMED).measured == "1 block: 1.25 to 2.40 times as fast; 2 blocks: 1.00 to 1.00 times as fast"
    assert speed(AS_CLAIMED).measured == (
        "0.250 ms, 17.2 TFLOP/s, 26.5% of the 64.8 TFLOP/s that fma reaches here (3 chains, chunks of 8, no cap)"
    )


@pytest.mark.parametrize(
    "judge, rows, holds",
    [
        (pressure, changed(2, registers=240), "in part"),
        (pressure, everywhere(registers=200, spills=0), "no"),
        (clearing, changed(7, spills=8), "in part"),
        (clearing, everywhere(spills=8), "no"),
        (third_chain, changed(1, total_ms=0.25), "in part"),
        (third_chain, everywhere(spills=8), "no"),
        (low_occupancy, changed(7, total_ms=0.25), "no"),
        (low_occupancy, everywhere(total_ms=0.25), "no"),
        (speed, everywhere(total_ms=1.2, tflops=17.2), "in part"),
        (speed, everywhere(tflops=12.6), "in part"),
        (speed, everywhere(total_ms=1.2, tflops=3.6), "no"),
    ],
)
def test_a_claim_that_does_not_hold_is_noticed(judge, rows, holds):
    assert judge(rows).holds == holds


def test_the_text():
    lines = markdown({"device": "H", "sizes": SIZES, "rows": AS_CLAIMED}).splitlines()
    assert lines[0] == "H, SQ = 8192, SK = 2048, HD = 64, C = 8; single-shot is W = 0. Times are of both launches."
    assert lines[4] == "| 2 | single-shot | 240 | 0 | 0.500 | 96 | 800 | 2 | 0.290 | 0.300 | 14.3 |"
    assert lines[7] == "| 3 | 8 | 250 | 0 | 0.250 | none | 0 | 1 | 0.240 | 0.250 | 17.2 |"
    assert lines[11].startswith("| a chunked dot needs fewer registers than a single-shot one | yes | 2 chains: 240 registers")


def test_a_variant_is_compiled_with_its_cap():
    made = kernel(Variant(1, 4, 96), "sm_90a")
    assert made.facts["registers"] <= 96 and made.facts["blocks_per_sm"] == 2 and made.facts["spills"] > 0
    assert [entry.op for entry in made.plan.entries].count("launch") == 2  # which are timed one by one
    assert made.facts["key"] == key_of(Variant(1, 4, None), "sm_90a")


def test_a_record_is_fresh_if_each_variant_has_a_row_of_this_code(tmp_path, monkeypatch, capsys):
    variants, path = [Variant(1, 4, None), Variant(1, 4, 96)], tmp_path / "flash_splitk.json"
    monkeypatch.setattr(sweep, "VARIANTS", variants)
    monkeypatch.setattr(sweep, "RECORD", path)
    rows = [{**variant._asdict(), "key": key_of(Variant(1, 4, None), "sm_90a")} for variant in variants]
    other = [rows[0], rows[1] | {"key": "another"}]
    for written, status, current in ((rows, 0, 2), (other, 1, 1), (rows[:1], 1, 1), ([*rows, rows[0]], 1, 2)):
        path.write_text(json.dumps({"device": "H", "arch": "sm_90a", "rows": written}))
        assert fresh() == status
        assert capsys.readouterr().out == f"{current} of 2 rows are current; recorded on H\n"


def test_the_record_has_a_right_result_of_each_variant():
    record = json.loads(RECORD.read_text("utf-8"))
    assert record["sizes"] == SIZES
    assert [Variant(r["chains"], r["chunk"], r["cap"]) for r in record["rows"]] == VARIANTS
    assert all(r["relerr"] <= TOLERANCE for r in record["rows"])
