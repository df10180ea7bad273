"""Shrinking: delta debugging over the syntax tree. A case that fails becomes the least one found that fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic

from vxc.fuzz.case import Case
from vxc.fuzz.edits import RULES
from vxc.fuzz.examine import Outcome

Still = Callable[[Case], Outcome | None]

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")
_NAME_WEIGHT = 4  # of a name, where a number or a sign is 1: a literal is plainer


def reduce(outcome: Outcome, still: Still, seconds: float) -> Outcome:
    """The least outcome found in so many seconds. `still` runs a case and gives what became of it if it fails as `outcome` does.

    Rules are tried again until none gives anything; each case taken costs less than the one before, so this ends.
    """
    end = monotonic() + seconds
    tried: set[tuple[str, str]] = set()
    changed = True
    while changed:
        changed = False
        for rule in RULES:
            position = 0
            while found := _next(outcome.case, rule, position, still, tried, end):
                position, outcome = found
                changed = True
            if monotonic() >= end:
                return outcome
    return outcome


def _next(
    case: Case, rule: Callable[[Case], Iterator[Case]], position: int, still: Still, tried: set[tuple[str, str]], end: float
) -> tuple[int, Outcome] | None:
    """The first smaller case of a rule, from a position on, that still fails; and the position to go on from."""
    for at, option in enumerate(islice(rule(case), position, None), position):
        key = (option.text, str(option.arguments))
        if key in tried or cost(option) >= cost(case):
            continue
        if monotonic() >= end:
            return None
        tried.add(key)
        found = still(option)
        if found is not None:
            return at, found
    return None


def cost(case: Case) -> tuple[int, int, int]:
    """What shrinking makes less: the weight of the words, then the size of the numbers, then the length."""
    text = f"{case.text} {' '.join(case.arguments.values())}"
    words = _TOKEN.findall(text)
    return (
        sum(_NAME_WEIGHT if w[0].isalpha() or w[0] == "_" else 1 for w in words),
        sum(int(w) for w in words if w.isdigit()),
        len(text),
    )
