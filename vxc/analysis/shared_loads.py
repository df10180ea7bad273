"""Which instructions load one element of shared memory, and what such loads stay before or behind (stage=thread)."""

from __future__ import annotations

from vxc.ir.kernel import Inst
from vxc.ir.ops import TOGETHER, accesses


def is_shared_load(inst: Inst) -> bool:
    return inst.op == "load" and inst.operands[0].space == "shared"


def holds_loads(inst: Inst) -> bool:
    """Whether loads of shared memory may not move past an instruction: it waits, may do anything, or writes there."""
    writes = any("w" in a.mode and a.buffer.space == "shared" for a in accesses(inst))
    return writes or inst.op in TOGETHER or inst.op in ("extern", "await")
