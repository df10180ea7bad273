"""Spoiled samples compile or are refused with a code and a place, within seconds; `python tests/spoiled.py 20000` runs many."""

from __future__ import annotations

import pytest
from spoiled import FILES, outcome, spoiled, tokens

from vxc.driver import compile
from vxc.frontend.check import kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.source import Source

SEEDS = 240


@pytest.mark.parametrize("first", range(0, SEEDS, 60))
def test_spoiled_texts_have_findings_and_no_faults(first):
    outcomes = {seed: outcome(spoiled(seed)) for seed in range(first, first + 60)}
    assert {seed: found for seed, found in outcomes.items() if found.startswith("fault")} == {}
    assert len(set(outcomes.values())) > 5, "the texts are spoiled in too few ways"


def test_what_is_spoiled_is_sound_at_first():
    for path in set(FILES):
        source = Source(str(path), path.read_text("utf-8"))
        assert "".join(tokens(path)) == source.text
        for name in (*kernel_names(parse(source)), *program_names(parse(source))):
            assert compile(source, name).cuda


def test_a_seed_is_one_text():
    assert spoiled(7).text == spoiled(7).text != spoiled(8).text
