"""elementary-precision: cheaper elementary functions where their value is only stored in 16 or 8 bits.

Before: stage=thread; an elementary function gives an f32 within 2 ulp.
After:  where every use of one is to be rounded and stored as f16 or f8, or as bf16, its `precision` says so, if it has a form that is
        cheaper and still within 1 ulp of what is stored (the table is `semantics/stored.py`). Interpreters give the right value,
        rounded, whatever the `precision`.

    %1: f32 = exp %0                       %1: f32 = exp %0 {precision="f16"}
    %2: f16 = cast %1               ->     %2: f16 = cast %1
    store @y, %i, %2                       store @y, %i, %2
"""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import F32
from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass
from vxc.semantics import PRECISIONS, STORED


FUNCTIONS = frozenset(op for forms in STORED.values() for op in forms)


def precise(kernel: Kernel, context: Context) -> Kernel:
    if FUNCTIONS.isdisjoint([inst.op for inst in kernel.insts]):
        return kernel
    uses = users(kernel)
    insts = []
    for inst in kernel.insts:
        if inst.op not in FUNCTIONS:
            insts.append(inst)
            continue
        stored = _stored(inst, uses)
        precision = next((p for p in STORED if stored == {p} and inst.op in STORED[p]), None)
        if precision:
            context.applied(f"{inst.op} is computed for {precision}, as which alone it is stored", kernel.name, inst.loc)
        insts.append(inst.with_attrs(precision=precision) if precision else inst)
    return replace(kernel, insts=tuple(insts))


def users(kernel: Kernel) -> dict[str, list[Inst]]:
    """For each name of a value the instructions that use it."""
    uses: dict[str, list[Inst]] = {}
    for inst in kernel.insts:
        for x in inst.operands:
            if type(x) is Value:
                uses.setdefault(x.name, []).append(inst)
    return uses


def _stored(inst: Inst, uses: dict[str, list[Inst]]) -> set[str | None]:
    """As `stored_as`; empty for what is no function of f32."""
    return stored_as(inst.result, uses) if type(inst.result) is Value and inst.result.dtype is F32 else set()


def stored_as(x: Value, uses: dict[str, list[Inst]]) -> set[str | None]:
    """The precisions in which an f32 is stored, among them None for any other use."""
    found: set[str | None] = set()
    for use in uses.get(x.name, ()):
        rounded = use.op == "cast" and all(x.op == "store" and x.operands[-1] == use.result for x in uses.get(use.result.name, ()))
        found.add(PRECISIONS.get(use.result.dtype) if rounded else None)
    return found


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels(precise(kernel, context) for kernel in plan.kernels)


ELEMENTARY_PRECISION = Pass(
    "elementary-precision", run, "cheaper elementary functions where 16 bits of them are stored", needs=("thread",)
)
