"""The sweep of orders of a row's dot product: what it tries, and when its record is of this code."""

from __future__ import annotations

import json

import pytest
import reduce_sweep
from benching.orders import VARIANTS, Variant, compiled, key_of
from reduce_sweep import deciding, fresh

TWO = [Variant(4, 16, 64, 0, 256), Variant(0, 4, 64, 132, 32)]


def test_every_combination_is_a_variant_that_compiles():
    assert len(set(VARIANTS)) == len(VARIANTS) == 6 * 4 * 4 * 5
    for variant in TWO:
        plan = compiled(variant).plan
        (kernel,) = plan.kernels
        assert kernel.attr("threads") == variant.block
        (launch,) = (entry for entry in plan.entries if entry.op == "launch")
        assert not variant.grid or launch.operands[0].value == variant.grid


@pytest.mark.parametrize("rows, status", [(2, 0), (1, 1), (0, 1)])
def test_a_record_is_current_if_all_its_keys_are(tmp_path, monkeypatch, rows, status):
    monkeypatch.setattr(reduce_sweep, "VARIANTS", TWO)
    now = [{**variant._asdict(), "key": key_of(compiled(variant))} for variant in TWO]
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"rows": now[:rows]}))
    assert fresh(path) == status
    path.write_text(json.dumps({"rows": [now[0], {**now[1], "key": "another"}]}))
    assert fresh(path) == 1


def test_what_decides_is_said_of_any_figures():
    rows = {variant: {"ms": 1.0 + (variant.lanes == 1), "ratio": 1.0 + (variant.lanes == 1), "registers": 40} for variant in VARIANTS}
    rows[Variant(32, 8, 64, 0, 256)]["ms"] = 1.25  # a chunk on the full device
    rows[Variant(0, 16, 1000, 132, 32)]["ms"] = 0.5  # single-shot on few warps
    rows[Variant(1, 8, 32, 132, 64)]["ms"] = 0.75  # one partial for a vector
    said = list(deciding(rows))
    assert said[:2] == [
        "full device, rows up to 128, 8 lanes or more, none idle: chunks differ by 25.0% at most",
        "full device, rows up to 128, one lane a row: 2.00 to 2.00 times the least",
    ]
    assert said[4] == "132 blocks of 32, rows of 1000, 16 lanes, 4 partials: 2.00 times single-shot, which takes 40 registers"
    assert said[6:] == [
        "132 blocks, a vector a lane, 1 partials: 0.75 to 1.00 times 4 partials",
        "132 blocks, a vector a lane, 8, 16, 32 partials: 1.00 to 1.00 times 4 partials",
    ]
