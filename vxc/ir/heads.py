"""Plans without the instructions of their kernels, which is all that launching looks at, as plain data: for JSON, and back."""

from __future__ import annotations

from typing import Any

from vxc.dtypes import DTYPES
from vxc.ir.kernel import Attr, Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.plan import Plan


def plain(plan: Plan) -> list[Any]:
    """Name, parameters, entries and the heads of the kernels."""
    entries = [[i.op, _all(i.operands), i.result and _operand(i.result), i.attrs, i.loc] for i in plan.entries]
    return [plan.name, _all(plan.params), entries, [[k.name, _all(k.params), k.stage, k.attrs] for k in plan.kernels]]


def of_plain(data: list[Any]) -> Plan:
    """What `plain` was given, the kernels without instructions."""
    name, params, entries, kernels = data
    insts = (Inst(op, _of_all(xs), result and _of(result), _attrs(attrs), loc and tuple(loc)) for op, xs, result, attrs, loc in entries)
    heads = (Kernel(kernel, _of_all(xs), (), stage, (), _attrs(attrs)) for kernel, xs, stage, attrs in kernels)
    return Plan(name, _of_all(params), tuple(insts), tuple(heads))


def _all(operands: tuple[Operand, ...]) -> list[Any]:
    return [_operand(x) for x in operands]


def _operand(x: Operand) -> list[Any]:
    if isinstance(x, Value):
        return ["%", x.name, x.dtype.name]
    if isinstance(x, Const):
        return ["#", x.value, x.dtype.name]
    return ["@", x.name, x.dtype.name, _all(x.shape), x.space, x.mode, None if x.strides is None else _all(x.strides), x.align]


def _of_all(data: list[Any]) -> tuple[Any, ...]:
    return tuple(map(_of, data))


def _of(data: list[Any]) -> Operand:
    sort, name, dtype, *rest = data
    if sort != "@":
        return (Value if sort == "%" else Const)(name, DTYPES[dtype])
    shape, space, mode, strides, align = rest
    return Buffer(name, DTYPES[dtype], _of_all(shape), space, mode, None if strides is None else _of_all(strides), align)


def _attrs(data: list[Any]) -> tuple[tuple[str, Attr], ...]:
    return tuple((name, _tuples(value)) for name, value in data)


def _tuples(value: Any) -> Attr:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
