"""The table of planted faults fits the sources, and its record says that each was noticed. `tools/mutate.py` makes the record."""

from __future__ import annotations

import json
import re
from pathlib import Path
from queue import SimpleQueue

import pytest
from mutants import MUTANTS
from mutate import RECORD, Row, Unusable, copied, failing_test, in_turn, record_of, try_mutant

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"


def test_every_fault_has_a_name_of_its_own():
    names = [m.name for m in MUTANTS]
    assert len(set(names)) == len(names) >= 24


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_text_of_a_fault_occurs_once(mutant):
    assert (ROOT / "vxc" / mutant.file).read_text("utf-8").count(mutant.old) == 1 and mutant.old != mutant.new


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_tests_of_a_fault_exist(mutant):
    assert mutant.tests
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert re.search(rf"^def {function.partition('[')[0]}\(" if function else "", (TESTS / file).read_text("utf-8"), re.MULTILINE), test


def test_every_fault_of_the_record_was_noticed():
    record = json.loads(RECORD.read_text("utf-8"))
    found = [(row["name"], row["file"], row["breaks"]) for row in record["rows"]]
    assert found == [(m.name, f"vxc/{m.file}", m.breaks) for m in MUTANTS]
    assert record["total"] == record["caught"] == len(MUTANTS)
    for row, mutant in zip(record["rows"], MUTANTS):
        assert row["by"].startswith((*mutant.tests, "program ")), row


def test_a_record_has_the_last_row_of_each_fault_in_the_order_of_the_table():
    one, two = MUTANTS[:2]
    rows = [Row(two.name, "", "", "a test", 1.0), Row("gone", "", "", "a test", 1.0), Row(one.name, "", "", "", 1.0)]
    record = record_of([Row(two.name, "", "", "", 9.0), *rows])
    assert (record["total"], record["caught"]) == (2, 1)
    assert [(row["name"], row["seconds"]) for row in record["rows"]] == [(one.name, 1.0), (two.name, 1.0)]


def test_a_fault_is_planted_in_a_copy_noticed_there_and_taken_out_again(tmp_path):
    mutant = next(m for m in MUTANTS if m.name == "swizzle-or-for-xor")
    copy, path = copied(tmp_path / "copy"), Path("vxc") / mutant.file
    row, why = try_mutant(mutant, copy, dict.fromkeys(mutant.tests, 1.0))
    assert row.by.startswith("test_layout.py::") and why
    assert (copy / path).read_bytes() == (ROOT / path).read_bytes()
    assert failing_test(mutant.tests, copy, 600) is None
    with pytest.raises(Unusable, match="is a crash"):
        crash = mutant._replace(old="thread, slot = self.evaluate(extents)", new="thread, slot = nothing(extents)")
        try_mutant(crash, copy, dict.fromkeys(mutant.tests, 1.0))
    (copy / path).write_text("import nothing_of_this_name\n")
    with pytest.raises(Unusable):  # a compiler that does not load fails every test
        failing_test(mutant.tests, copy, 600)


def test_no_two_faults_share_a_copy(tmp_path):
    copies: SimpleQueue[Path] = SimpleQueue()
    for name in "ab":
        copies.put(tmp_path / name)

    def work(item: int, copy: Path) -> int:
        copy.mkdir()  # fails where it is taken
        copy.rmdir()
        return item

    assert sorted(in_turn(work, range(50), copies, 2)) == list(range(50))
