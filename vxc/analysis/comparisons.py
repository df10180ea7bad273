"""What is known where conditions hold, or do not: comparisons of integer forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from vxc.analysis.forms import ZERO, Atom, Call, Form, form

Choices = Mapping[str, tuple[Form, Form, Form]]  # as `KernelFacts.chosen`
NO_CHOICES: Choices = MappingProxyType({})

AT_LEAST_0 = {"lt": lambda a, b: b - a - 1, "le": lambda a, b: b - a, "gt": lambda a, b: a - b - 1, "ge": lambda a, b: a - b}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def comparisons(tests: Iterable[tuple[Form, bool]], chosen: Choices = NO_CHOICES) -> Iterator[tuple[str, Form, Form]]:
    """(operation, a, b) that hold where each condition is as said, from the last one on; `chosen` are conditions made of two others."""
    todo = [*tests]
    while todo:
        test, holds = todo.pop()
        u = next(iter(test.unknowns), None)
        if u is None or test != form(u):
            continue
        if isinstance(u, Atom) and u.name in chosen:
            first, a, b = chosen[u.name]
            if holds and b == ZERO or not holds and a == form(1):  # `first && a`, or not `first || b`
                todo += [(a if holds else b, holds), (first, holds)]
        elif isinstance(u, Call) and u.op == "not":
            todo.append((u.args[0], not holds))
        elif isinstance(u, Call) and u.op == ("and" if holds else "or"):
            todo += [(part, holds) for part in u.args]
        elif isinstance(u, Call) and u.op in _OPPOSITE and u.dtype.is_int:
            yield (u.op if holds else _OPPOSITE[u.op]), *u.args
