"""The same plan for arrays that do not lie as they are declared: transposed and sliced views, without a copy.

    kernel @f(%N: i64, @x: f32[%N] in, ..)     ->     kernel @f(%x_stride0: i64, %N: i64, @x: f32[%N : %x_stride0] in, ..)

The strides become parameters of the plan and of every kernel that is passed the array, but for those that are 1, so that what lies
together is still read together. The order of reductions is an attribute of theirs and stays.
"""

from __future__ import annotations

from dataclasses import replace

from vxc.api.specialise import Units
from vxc.dtypes import I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import names

Strides = tuple[Value | Const, ...]


def with_strides(plan: Plan, strided: dict[str, Units]) -> Plan:
    """The plan with run-time strides for these arrays of its signature, which are declared contiguous."""
    fresh = Builder(names(plan.params, plan.entries)).fresh
    changed: dict[str, Buffer] = {}
    for buffer in plan.buffers:
        if buffer.name in strided:
            changed[buffer.name] = replace(buffer, strides=_strides(buffer.name, strided[buffer.name], fresh))
    added = [s for buffer in changed.values() for s in buffer.strides or () if isinstance(s, Value)]
    entries, kernels = [], {kernel.name: kernel for kernel in plan.kernels}
    for inst in plan.entries:
        if inst.op == "launch":
            inst, kernel = _launch(inst, kernels[str(inst.attr("kernel"))], changed)
            kernels[kernel.name] = kernel
        entries.append(inst)
    params = (*added, *(changed.get(p.name, p) for p in plan.params))
    return Plan(plan.name, params, tuple(entries), tuple(kernels.values()))


def _strides(name: str, unit: Units, fresh) -> Strides:
    return tuple(Const(1) if one else Value(fresh(f"{name}_stride{d}"), I64) for d, one in enumerate(unit))


def _launch(inst: Inst, kernel: Kernel, changed: dict[str, Buffer]) -> tuple[Inst, Kernel]:
    """A launch and its kernel, given the strides of the arrays that are passed."""
    grid, *arguments = inst.operands
    fresh = Builder(names(kernel.params, kernel.insts)).fresh
    extra_params: list[Value] = []
    extra_arguments: list[Value] = []
    inside: dict[str, Buffer] = {}
    for param, argument in zip(kernel.params, arguments):
        buffer = changed.get(argument.name) if isinstance(argument, Buffer) else None
        if buffer is None or not isinstance(param, Buffer):
            continue
        passed = buffer.strides or ()
        own = _strides(param.name, tuple(isinstance(s, Const) for s in passed), fresh)
        extra_params += [s for s in own if isinstance(s, Value)]
        extra_arguments += [s for s in passed if isinstance(s, Value)]
        inside[param.name] = replace(param, strides=own)
    if not inside:
        return inst, kernel

    def swap(x):
        return inside.get(x.name, x) if isinstance(x, Buffer) else x

    insts = tuple(i.over(map(swap, i.operands), i.result) for i in kernel.insts)
    new = replace(kernel, params=(*extra_params, *map(swap, kernel.params)), insts=insts)
    passed_on = (changed.get(a.name, a) if isinstance(a, Buffer) else a for a in arguments)
    return Inst("launch", (grid, *extra_arguments, *passed_on), inst.result, inst.attrs, inst.loc), new
