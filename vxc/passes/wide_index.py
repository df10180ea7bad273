"""Index arithmetic of wide accesses (part of infer-vector-widths): offsets in memory, and divisions that go on between elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Inst, Operand, Scalar, Value


class Digit(NamedTuple):
    """A division that goes on: its remainder at the first element, its divisor, and what it gives some elements after."""

    rest: Value
    divisor: Scalar
    after: Callable[[Value], Value]


def digit(b: Builder, inst: Inst, start: Rewriter, count: int) -> Digit:
    """What a division gives from the first element on: it wraps around once at most, the divisor being no less than the elements."""
    first, divisor = map(start, inst.operands)
    if type(divisor) is Value:
        divisor = b.emit("max", divisor, count)  # as it is here, which ranges see only so
    value = b.emit(inst.op, first, divisor, name=inst.result.name)
    rest = value if inst.op == "mod" else b.emit("mod", first, divisor)
    start.mapping[inst.result] = value

    def after(u: Value) -> Value:
        here = b.emit("add", rest, u)
        past = b.emit("ge", here, divisor)
        up = b.emit("sub", here, divisor) if inst.op == "mod" else b.emit("add", value, 1)
        return b.emit("select", past, up, here if inst.op == "mod" else value, name=inst.result.name)

    return Digit(rest, divisor, after)


def linear(b: Builder, buffer: Buffer, indices: list[Operand], lookup: Rewriter) -> Scalar:
    """The offset of an element in memory, in elements; `lookup` gives the buffer's sizes as they are here."""
    found: Scalar | None = None
    for at, index in enumerate(indices):
        if buffer.strides is not None:
            index = b.emit("mul", index, lookup(buffer.strides[at]))
        elif found is not None:
            found = b.emit("mul", found, lookup(buffer.shape[at]))
        found = index if found is None else b.emit("add", found, index)
    return found
