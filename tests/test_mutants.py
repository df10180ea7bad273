"""The table of planted faults fits the sources, and its record says that each was noticed. `tools/mutate.py` makes the record."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MUTANTS = runpy.run_path(str(ROOT / "tools" / "mutants.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_text_of_a_fault_occurs_once(mutant):
    assert (ROOT / "vxc" / mutant.file).read_text().count(mutant.old) == 1 and mutant.old != mutant.new


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_tests_of_a_fault_exist(mutant):
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert re.search(rf"^def {function}\(" if function else "", (ROOT / "tests" / file).read_text(), re.MULTILINE), test


def test_every_fault_of_the_record_was_noticed():
    record = json.loads((ROOT / "tools" / "results" / "mutants.json").read_text())
    assert [row["name"] for row in record["rows"]] == [m.name for m in MUTANTS] and len(set(m.name for m in MUTANTS)) >= 24
    assert record["total"] == record["caught"] == len(MUTANTS) and all(row["by"] for row in record["rows"])
