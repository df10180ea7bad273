"""The same plan for arrays that do not lie as they are declared: transposed, sliced and reversed views, without a copy.

    kernel @f(%N: i64, @x: f32[%N] in, ..)     ->     kernel @f(%x_stride0: i64, %N: i64, @x: f32[%N : %x_stride0] in, ..)

The strides become parameters of the plan and of every kernel that is passed the array, but for those that are 1, so that what lies
together is still read together. Along a dimension that runs backwards the kernel is passed the array from its other end, and takes
element N - 1 - i for element i. The order of reductions is an attribute of theirs and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vxc.api.specialise import Units
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import names

Strides = tuple[Value | Const, ...]
Backwards = dict[str, tuple[int, ...]]  # by buffer, the dimensions that run backwards
INDEXED = ("load", "store", "atomic")


def with_strides(plan: Plan, strided: dict[str, Units]) -> Plan:
    """The plan for these arrays of its signature, with run-time strides for those that are declared contiguous. Raises `VxcError` E0706
    for an array that runs backwards where the plan copies tiles of it.
    """
    fresh = Builder(names(plan.params, plan.entries)).fresh
    changed: dict[str, Buffer] = {}
    for buffer in plan.buffers:
        if buffer.name in strided and buffer.strides is None:
            changed[buffer.name] = replace(buffer, strides=_strides(buffer.name, strided[buffer.name], fresh))
    backwards = {name: tuple(d for d, unit in enumerate(given) if unit < 0) for name, given in strided.items()}
    added = [s for buffer in changed.values() for s in buffer.strides or () if isinstance(s, Value)]
    entries, kernels = [], {kernel.name: kernel for kernel in plan.kernels}
    for inst in plan.entries:
        if inst.op == "launch":
            inst, kernel = _launch(inst, _turned(inst, kernels[str(inst.attr("kernel"))], backwards), changed)
            kernels[kernel.name] = kernel
        entries.append(inst)
    params = (*added, *(changed.get(p.name, p) for p in plan.params))
    return Plan(plan.name, params, tuple(entries), tuple(kernels.values()))


def _strides(name: str, unit: Units, fresh) -> Strides:
    return tuple(Const(1) if abs(one) == 1 else Value(fresh(f"{name}_stride{d}"), I64) for d, one in enumerate(unit))


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
        own = _strides(param.name, tuple(1 if isinstance(s, Const) else 2 for s in passed), fresh)
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


def _turned(launch: Inst, kernel: Kernel, backwards: Backwards) -> Kernel:
    """The kernel of a launch, with every access to an array that runs backwards counted from the other end."""
    passed = zip(kernel.params, launch.operands[1:])
    turned = {param.name: dims for param, argument in passed if isinstance(argument, Buffer) and (dims := backwards.get(argument.name))}
    if not turned:
        return kernel
    b = Builder(names(kernel.params, kernel.insts))
    for inst in kernel.insts:
        touched = [access.buffer.name for access in accesses(inst) if access.buffer.name in turned]
        if touched and inst.op not in INDEXED:
            message = f"array argument `{touched[0]}` has a negative stride, and `{kernel.name}` copies tiles of it"
            raise VxcError(Diagnostic("E0706", message, help="pass a copy of the array"))
        b.at(inst.loc).add(inst.over(tuple(_operands(b, inst, turned)), inst.result) if touched else inst)
    return replace(kernel, insts=tuple(b.insts))


def _operands(b: Builder, inst: Inst, turned: Backwards) -> Iterator[Operand]:
    """Those of an access, which begin with the array and an index for each dimension."""
    buffer = inst.operands[0]
    yield buffer
    for at, operand in enumerate(inst.operands[1:]):
        last = b.emit("sub", buffer.shape[at], 1) if at in turned[buffer.name] and at < len(buffer.shape) else None
        yield operand if last is None else b.emit("sub", last, operand)
