"""limit-unrolling: loops whose unrolled body would be too long stay loops.

Before: stage=thread; loops of kind `unroll`, from `unroll` in the text and from slots and partial sums that live in registers.
After:  no such loop becomes more than `LIMIT` machine instructions. The outer loops of a nest give way first; what they index is
        then kept in memory. So the code of a kernel stays within the instruction cache, and NVRTC, whose time grows without
        bound in the number of copies of a branch, comes to an end. Of a loop that each thread goes through once at most, NVRTC is told to
        make no copies: it cannot see that from the threads of the block.

The length is an estimate from `WEIGHTS`; it decides only speed.

    %u = loop 0, 48 {kind="unroll"}        %u = loop 0, 48 {kind="serial", unroll=1}
      %1: i64 = floordiv %0, %n       ->     %1: i64 = floordiv %0, %n
"""

from __future__ import annotations

from dataclasses import replace

from vxc.ir.facts import ranges
from vxc.ir.kernel import Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions
from vxc.pass_manager import Context, Pass
from vxc.semantics import DIVISIONS, SCALAR_OPS

LIMIT = 4096  # 64 KiB of machine code: half of what a multiprocessor of an A100 or H100 caches
WEIGHTS = {32: 25, 64: 100}  # bits -> machine instructions of a division by what is no constant, as ptxas makes them for sm_90a
ELEMENTARY = 20  # exp, log, pow ..: what is not one instruction
_INEXACT = frozenset(name for name, op in SCALAR_OPS.items() if not op.exact)


def weight(inst: Inst) -> int:
    """About how many machine instructions an instruction becomes."""
    if inst.op in DIVISIONS and type(inst.operands[1]) is not Const:
        return WEIGHTS[64 if inst.operands[0].dtype.bits == 64 else 32]
    return ELEMENTARY if inst.op in _INEXACT else 1


def trips(inst: Inst) -> int | None:
    """How often a loop with constant bounds runs, else None."""
    bounds = (*inst.operands, Const(1))[:3]
    if not all(isinstance(x, Const) for x in bounds):
        return None
    return len(range(*(x.value for x in bounds)))


def limited(kernel: Kernel, context: Context) -> Kernel:
    """The kernel with every loop that is too long to unroll as a serial one."""
    insts, regions = list(kernel.insts), Regions.of(kernel.insts)
    lengths: dict[int, int] = {}  # opener, or -1 -> instructions of its body; complete once the opener's own turn comes
    for at in reversed(range(len(insts))):
        inst, parent = insts[at], regions.parent[at]
        length = weight(inst)
        if inst.op == "loop":
            copies = trips(inst) if inst.attr("kind") == "unroll" else 1
            length = lengths.get(at, 0)
            if copies and copies > 1 and copies * length > LIMIT:
                text = f"{copies} iterations of about {length:,} instructions stay a loop: unrolled they would be more than {LIMIT:,}"
                context.missed(text, kernel.name, inst.loc)
                insts[at] = inst.with_attrs(kind="serial", unroll=1)
                copies = 1
            length *= copies or 1
        else:
            length += lengths.get(at, 0)
        lengths[parent] = lengths.get(parent, 0) + length
    return replace(kernel, insts=tuple(insts))


def once_at_most(kernel: Kernel) -> Kernel:
    """The kernel with `unroll=1` on the loops whose second trip would be past their end, wherever they start."""
    found = {i.result.name for i in kernel.insts if i.op == "loop" and i.attr("kind") == "serial" and _may_end_at_once(i)}
    if not found:
        return kernel
    known = ranges(kernel)
    names = {i.result.name for i in kernel.insts if i.result and i.result.name in found and known[i.operands[0].name][0] >= 0}
    insts = (i.with_attrs(unroll=1) if i.op == "loop" and i.result.name in names else i for i in kernel.insts)
    return replace(kernel, insts=tuple(insts))


def _may_end_at_once(loop: Inst) -> bool:
    start, stop, step = (*loop.operands, Const(1))[:3]
    constant = isinstance(stop, Const) and isinstance(step, Const)
    return constant and isinstance(start, Value) and step.value >= stop.value and loop.attr("unroll") is None


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels(once_at_most(limited(kernel, context)) for kernel in plan.kernels)


LIMIT_UNROLLING = Pass("limit-unrolling", run, "keep loops whose unrolled body would be too long", needs=("thread",))
