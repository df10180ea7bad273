"""Numbers that may have wrapped, so that consecutive iterations need not make consecutive ones of them."""

from __future__ import annotations

from vxc.dtypes import I64
from vxc.ir.facts import full, ranges
from vxc.ir.kernel import Buffer, Const, Kernel, Value


def far(kernel: Kernel) -> frozenset[str]:
    """The integers that may be anything that 64 bits hold, and follow from more than sizes and indices.

    Those are positions in arrays, which wrap nowhere, however large ranges take them to be; nor does a sum of one and of what is not far.
    """
    sizes = {x.name for p in kernel.params if isinstance(p, Buffer) for x in (*p.shape, *(p.strides or ())) if isinstance(x, Value)}
    known, positions, found = ranges(kernel), {*sizes}, set()
    for value in kernel.params:
        if isinstance(value, Value) and value.name not in sizes and value.dtype.bits == 64 and known.get(value.name) == full(value.dtype):
            found.add(value.name)
    for inst in kernel.insts:
        value, of = inst.result, {x.name for x in inst.operands if not isinstance(x, Const)}
        if not isinstance(value, Value) or value.name not in known:
            continue
        if of <= positions:
            positions.add(value.name)
        elif value.dtype.bits == 64 and known[value.name] == full(value.dtype):
            if of & found or not any(known[name] == full(I64) for name in of & positions):
                found.add(value.name)
    return frozenset(found)
