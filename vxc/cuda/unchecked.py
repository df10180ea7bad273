"""A kernel as builds that check nothing emit it: without assertions, and without what only they use."""

from __future__ import annotations

from dataclasses import replace

from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.ops import OPS


def unchecked(kernel: Kernel) -> Kernel:
    if not any(inst.op == "assert" for inst in kernel.insts):
        return kernel
    kept: list[Inst] = []
    used: set[str] = set()
    for inst in reversed(kernel.insts):
        idle = OPS[inst.op].pure and inst.result is not None and inst.result.name not in used
        if inst.op != "assert" and not idle:
            kept.append(inst)
            used |= {x.name for x in inst.operands if type(x) is Value}
    return replace(kernel, insts=tuple(reversed(kept)))
