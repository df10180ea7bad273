"""doubt-indices: which accesses of arrays may leave them, for all that is known.

Before: stage=tile. Tile instructions access nothing that lies outside.
After:  a load or store is `doubted` where some index is not shown to be in range whatever the sizes. Where infer-vector-widths makes it
        an access of elements in memory order, it is checked before that the first and the last of them have indices inside: past the
        end of a row, such an access would find the next one. Of an array of one dimension it finds that itself, but where it takes
        elements that nobody asked for with others.

    %1: i64 = add %s, %j                       %1: i64 = add %s, %j
    %2: f32 = load @x, %i, %1         ->       %2: f32 = load @x, %i, %1 {doubted=true}
"""

from __future__ import annotations

from dataclasses import replace

from vxc.analysis.access import collect, known_dimensions
from vxc.analysis.in_range import doubted
from vxc.ir.kernel import Const, Inst, Kernel, Operand
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels([_marked(plan, kernel) for kernel in plan.kernels])


def _marked(plan: Plan, kernel: Kernel) -> Kernel:
    ends = {inst.result.name: inst.operands[-1] for inst in kernel.insts if _counts_from_0(inst)}
    asked = {at for at, inst in enumerate(kernel.insts) if inst.op in ("load", "store") and not _plain(inst, ends)}
    if not asked:
        return kernel
    facts = collect(kernel, known_dimensions(plan, kernel))
    found = doubted(facts, [access for access in facts.accesses if not asked.isdisjoint(facts.places[access])]) & asked
    insts = (inst.with_attrs(doubted=True) if at in found else inst for at, inst in enumerate(kernel.insts))
    return replace(kernel, insts=tuple(insts)) if found else kernel


def _counts_from_0(inst: Inst) -> bool:
    if inst.op == "loop":
        return inst.operands[0] == Const(0) and inst.operands[2:] in ((), (Const(1),))
    return inst.op in ("reduce", "scan")


def _plain(inst: Inst, ends: dict[str, Operand]) -> bool:
    """Whether there is nothing to ask: each index counts up to its extent."""
    return all(_inside(index, extent, ends) for index, extent in zip(inst.operands[1:], inst.operands[0].shape))


def _inside(index: Operand, extent: Operand, ends: dict[str, Operand]) -> bool:
    if type(index) is Const:
        return type(extent) is Const and 0 <= index.value < extent.value
    return ends.get(index.name) == extent


DOUBT_INDICES = Pass("doubt-indices", run, "note which indices are not shown to be in range", needs=("tile",))
