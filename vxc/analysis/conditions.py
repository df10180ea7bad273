"""Conditions in a loop of a few iterations: whether they hold for all of it where they hold at both ends, or are the same throughout.

A condition is a conjunction of comparisons. Those whose sides do not change are the same throughout; so is one of the element, which goes
up by one, with a limit, where elements and limits come in whole runs. Any other comparison of the element holds from somewhere on, or up
to somewhere: it holds in between where it holds at both ends. So does a conjunction of such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vxc.analysis.forms import Form
from vxc.ir.kernel import Inst, Operand

SAME, ENDS = "same", "ends"
_ORDERS = ("lt", "ge")  # whether an element is below a limit: the same for a whole run of elements where the limit ends one
_COMPARISONS = (*_ORDERS, "le", "gt")

Kind = Callable[[Form], "str | None"]


def kind_of(
    test: Operand, made: Mapping[str, Inst], form: Callable[[Operand], Form], kind: Kind, whole: Callable[[Form], bool]
) -> str | None:
    """SAME, ENDS or None (neither is known) of the condition `test`; `made` are the instructions of the loop by result.

    `kind` says of an index whether it is SAME or goes up by one (ENDS); `whole` whether what it is at first is a multiple of the
    iterations.
    """
    found, work = SAME, [test]
    while work:
        x = work.pop()
        inst = made.get(getattr(x, "name", ""))
        if inst is None:
            continue
        if inst.op == "and":
            work += inst.operands
            continue
        if inst.op not in _COMPARISONS:
            return None
        forms = [form(y) for y in inst.operands]
        kinds = [kind(f) for f in forms]
        if None in kinds or kinds == [ENDS, ENDS]:
            return None
        if ENDS in kinds and not (inst.op in _ORDERS and kinds[0] is ENDS and all(map(whole, forms))):
            found = ENDS
    return found
