"""Which of the verifier's rules an instruction has to be asked, by opcode and stage, and which answers are known from its dtypes."""

from __future__ import annotations

from functools import cache

from vxc.dtypes import DType
from vxc.ir.kernel import Buffer, Const, Inst, Value
from vxc.ir.ops import OPS
from vxc.ir.rules import RULES, RuleDef, is_literal


@cache
def rules_at(stage: str, again: bool = False) -> dict[str, tuple[RuleDef, ...]]:
    """By opcode: the rules that concern it at a stage, in order; for an instruction seen before (`again`) none of it alone."""
    rules = [rule for rule in RULES if not (again and rule.alone)]
    return {op: tuple(rule for rule in rules if rule.concerns(row, stage)) for op, row in OPS.items()}


def plainly_sound(stage: str, inst: Inst) -> bool:
    """Whether all rules of an instruction alone hold for one without attributes that declares nothing, which is asked once for what these
    rules see of its operands. False, too, where they have to be asked.
    """
    result = inst.result
    if inst.attrs or type(result) is Buffer:
        return False
    return _sound(stage, inst.op, result and result.dtype, *[x.dtype if type(x) is Value else _kind(x) for x in inst.operands])


_Kind = DType | tuple[DType, str, str, int] | None  # of a scalar; of a buffer with its space, mode and rank; of no literal


def _kind(x: Const | Buffer) -> _Kind:
    if type(x) is Buffer:
        return x.dtype, x.space, x.mode, len(x.shape)
    return x.dtype if is_literal(x.value, x.dtype) else None


@cache
def _sound(stage: str, op: str, result: DType | None, *operands: _Kind) -> bool:
    """As `plainly_sound`, of operands of these kinds."""
    if None in operands:
        return False
    inst = Inst(op, tuple(map(_operand, operands)), result and Value("1", result))
    return not any(rule(stage, inst) for _, rule, _, alone in rules_at(stage)[op] if alone)


def _operand(kind: _Kind) -> Value | Buffer:
    if type(kind) is DType:
        return Value("0", kind)
    dtype, space, mode, rank = kind
    return Buffer("0", dtype, (Const(1),) * rank, space, mode)
