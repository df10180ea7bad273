"""Programs with loops behind fragments of which several threads hold each element: a fault in who runs such a loop is noticed."""

from __future__ import annotations

import random
from itertools import count, islice

from vxc.fuzz import replicas
from vxc.fuzz.case import Case
from vxc.fuzz.copies import source_of
from vxc.fuzz.examine import examine
from vxc.fuzz.gen import kernel
from vxc.fuzz.grid import grid
from vxc.fuzz.program import Program
from vxc.passes.layout_choice import Chooser

PROGRAMS = 40  # of which a few are enough


def programs():
    """Those of some seeds whose first nest is a grid with such a loop."""
    for seed in count():
        s = kernel(random.Random(seed), 2, "k", first=grid).state
        text = "\n".join([*s.items, ""])
        if ", r in " in text and any(line.count("parallel") and "y" in line for line in text.splitlines()):
            yield Program(seed, 2, text, tuple(s.arrays), tuple((name, value) for name, _, value in s.scalars))


def test_a_fragment_is_not_read_by_the_copy_that_fills_it(monkeypatch):
    """As for an index of what is copied: nothing has written it yet."""
    filled = []

    def source(s, ctx, *shape):
        filled.append(ctx.target[0])
        assert filled[-1] not in ctx.ready
        return source_of(s, ctx, *shape)

    monkeypatch.setattr(replicas, "source_of", source)
    assert len(list(islice(programs(), PROGRAMS))) == PROGRAMS <= len(filled)


def test_a_fault_is_noticed(monkeypatch):
    """All threads that hold what a loop reads run it, although it stores to memory alone."""
    monkeypatch.setattr(Chooser, "_repeats", lambda self, loop, choice: True)
    assert any(examine(Case.of(program)).failure for program in islice(programs(), PROGRAMS))
