"""How many floating-point operations a call asks for: those of its source, whatever the compiler makes of them.

They are counted in the plan as it was lowered, at the sizes of the call, without running it: an fma is two operations, every other
arithmetic or elementary function one, so a matrix product of tiles is 2 x M x N x K. A reduction is one for each element, `dot` two. Tiles
count whole where they reach over an edge, and both arms of an `if` count. Loops whose ends depend on other loops or on elements of
arrays have no count.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from vxc.ir.kernel import Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.tiles import expand
from vxc.schedule import Schedule
from vxc.semantics import SCALAR_OPS, cast, evaluate

Known = dict[str, int]


def operations(plan: Plan, calls: Schedule) -> int | None:
    """Of the launches of a plan at stage=tile; None where that depends on more than sizes."""
    found = [_of_kernel(launch.kernel, dict(zip((p.name for p in launch.kernel.params), launch.arguments))) for launch in calls.launches]
    return None if None in found else sum(n for n in found if n is not None)


def _of_kernel(kernel: Kernel, arguments: Mapping[str, int | float | str]) -> int | None:
    known: Known = {name: int(value) for name, value in arguments.items() if isinstance(value, int)}
    turns, total = [1], 0  # how often the open regions run, from the outermost
    for inst in expand(kernel.insts, kernel.params):
        if inst.op == "end":
            turns.pop()
        elif inst.op in ("loop", "reduce", "scan", "while", "if", "extern"):
            count = _count(inst, known)
            if count is None:
                return None
            turns.append(count)
        total += prod(turns) * _weight(inst)
        _learn(inst, known)
    return total


def _count(inst: Inst, known: Known) -> int | None:
    """How often a region runs each time that it is reached."""
    if inst.op in ("if", "extern"):
        return 1
    if inst.op == "while":
        return None
    ends = [_value(x, known) for x in (inst.operands if inst.op == "loop" else inst.operands[-1:])]
    return None if None in ends else len(range(*ends))


def _value(operand: Value | Const, known: Known) -> int | None:
    return int(operand.value) if isinstance(operand, Const) else known.get(operand.name)


def _learn(inst: Inst, known: Known) -> None:
    """Notes the result of integer arithmetic on what is known."""
    result = inst.result
    if not isinstance(result, Value) or not result.dtype.is_int or inst.op not in (*SCALAR_OPS, "cast"):
        return
    operands = [_value(x, known) for x in inst.operands]
    if None not in operands and all(x.dtype.is_int for x in inst.operands):
        dtype = inst.operands[-1].dtype
        known[result.name] = int(cast(operands[0], dtype, result.dtype) if inst.op == "cast" else evaluate(inst.op, dtype, *operands))


def _weight(inst: Inst) -> int:
    if inst.op == "contribute":
        return len(inst.operands) if inst.operands[0].dtype.is_float else 0
    if inst.op == "prefix":
        return int(inst.result.dtype.is_float)
    if inst.op not in SCALAR_OPS or inst.op == "select" or not inst.result.dtype.is_float:
        return 0
    return 2 if inst.op == "fma" else 1
