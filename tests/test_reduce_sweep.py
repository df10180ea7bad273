"""The sweep of orders of a row's dot product: what it tries, and when its record is of this code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import reduce_sweep
from gpu_case import key
from reduce_sweep import VARIANTS, Variant, compiled, fresh

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
    now = [{**variant._asdict(), "key": key(compiled(variant), Path(reduce_sweep.__file__))} for variant in TWO]
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"rows": now[:rows]}))
    assert fresh(path) == status
    path.write_text(json.dumps({"rows": [now[0], {**now[1], "key": "another"}]}))
    assert fresh(path) == 1
