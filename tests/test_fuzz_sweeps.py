"""Programs that go over rows several times: the passes for them have something to do, and a fault in one is noticed."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count

import pytest

import vxc.passes.kept_rows
from vxc.driver import compile
from vxc.fuzz.block import Make
from vxc.fuzz.case import Case
from vxc.fuzz.examine import examine
from vxc.fuzz.gen import kernel
from vxc.fuzz.program import Program
from vxc.fuzz.sweeps import columns, swept
from vxc.source import Source

PROGRAMS = 60


def program(seed: int, first: Make = swept) -> Program:
    """One whose first nest goes over rows."""
    s = kernel(random.Random(seed), 0, "k", first=first).state
    return Program(seed, 0, "\n".join([*s.items, ""]), tuple(s.arrays), tuple((name, value) for name, _, value in s.scalars))


def test_passes_for_rows_have_something_to_do():
    applied = Counter()
    for seed in range(PROGRAMS):
        made = compile(Source("k.vx", program(seed).text))
        applied.update({remark.pass_name for remark in made.remarks if remark.kind == "applied"})
    few = {"keep-rows": 20, "bound-rows": 3, "bound-quotients": 1, "share-reciprocals": 8, "split-lengths": 1}
    assert {name: n for name, n in few.items() if applied[name] < n} == {}


def test_columns_are_taken_side_by_side():
    found = Counter()
    for seed in range(PROGRAMS):
        made = compile(Source("k.vx", program(seed, columns).text))
        found.update({i.attr("columns") for k in made.after("map-loops").kernels for i in k.insts if i.op == "loop"})
    assert found[32] > PROGRAMS // 4


FAULTS = {
    "rows are kept that are overwritten": (
        vxc.passes.kept_rows, "stable_loads", lambda real: lambda insts, params, distinct: {p.name: len(insts) for p in params},
    ),
    "lanes keep what others are dealt": (vxc.passes.kept_rows, "_same_deal", lambda real: lambda inst, order: True),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault, monkeypatch):
    module, name, wrong = FAULTS[fault]
    monkeypatch.setattr(module, name, wrong(getattr(module, name)))
    seed = next(seed for seed in count() if examine(Case.of(program(seed))).failure)
    assert seed < 10 * PROGRAMS
