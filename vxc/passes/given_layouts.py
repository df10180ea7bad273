"""Layouts that the author gave (part of infer-layouts).

Those of fragments are checked for the threads that there are. A shared array whose layout is no gap behind rows and no swizzle, as a
ladder, becomes one of other dimensions, in which its elements lie in memory order; `avoid-bank-conflicts` sees to the rest.

    shared @s: f16[32, 64] {layout="[i, j] -> [i // 16, j // 16, i % 16, j % 16]"}      shared @s: f16[2, 4, 16, 16] {layout=..}
    %0: f16 = load @s, %i, %j                                                      ->    %0: f16 = load @s, %1, %2, %3, %4
"""

from __future__ import annotations

from dataclasses import replace

from vxc.diag import Diagnostic, VxcError
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Inst, Kernel, constant
from vxc.ir.ops import accesses
from vxc.ir.walk import names
from vxc.layout.arrangement import Arrangement, arrangement
from vxc.layout.layout import parse
from vxc.layout.places import Places, places, problem
from vxc.pass_manager import Context
from vxc.passes.own_elements import of_layout


def given_layouts(kernel: Kernel) -> dict[str, Places]:
    """By the fragment's name. Raises VxcError (E0235) where a layout is none of its array in the kernel's threads."""
    found: dict[str, Places] = {}
    for inst in kernel.insts:
        if inst.op == "fragment" and inst.attr("layout"):
            layout, shape = parse(inst.attr("layout")), tuple(n.value for n in inst.result.shape)
            wrong = problem(layout, shape, kernel.attr("group"))
            if wrong:
                message = f"`@layout` does not fit `{inst.result.name}`: {wrong[0]}"
                raise VxcError(Diagnostic("E0235", message, kernel.source, kernel.span(inst), help=wrong[1]))
            found[inst.result.name] = places(layout, shape)
    return found


def arranged(kernel: Kernel, context: Context) -> Kernel:
    """Shared arrays lie as the author says."""
    found: dict[str, tuple[Arrangement, Buffer]] = {}
    b = Builder(names(kernel.params, kernel.insts))
    for inst in kernel.insts:
        if inst.op == "shared" and inst.attr("layout"):
            wanted, shape = arrangement(inst.attr("layout")), tuple(n.value for n in inst.result.shape)
            wrong = wanted.problem(shape)
            if wrong:
                message = f"`@layout` does not fit `{inst.result.name}`: {wrong[0]}"
                raise VxcError(Diagnostic("E0235", message, kernel.source, kernel.span(inst), help=wrong[1]))
            if wanted.placement(shape) is None:
                extents = wanted.extents(shape)
                found[inst.result.name] = wanted, replace(inst.result, shape=tuple(map(constant, extents)))
                sizes = " x ".join(map(str, extents))
                context.applied(f"`{inst.result.name}` is an array of {sizes}, as @layout says", kernel.name, inst.loc)
                order = [f"i{k}" for k in range(len(extents))]
                order = str(Arrangement(tuple(order), tuple((name,) for name in order)))
                inst = replace(inst, result=found[inst.result.name][1]).with_attrs(layout=order)
        b.at(inst.loc).add(_arranged(inst, found, b) if found else inst)
    return replace(kernel, insts=tuple(b.insts)) if found else kernel


def _arranged(inst: Inst, found: dict[str, tuple[Arrangement, Buffer]], b: Builder) -> Inst:
    """An access by the indices of the array that elements lie in."""
    for access in accesses(inst):
        if access.buffer.name in found:
            wanted, buffer = found[access.buffer.name]
            known = dict(zip(wanted.dims, access.box))
            box = [of_layout(b, result, known) for result in wanted.results]
            return inst.over((buffer, *box, *inst.operands[1 + len(access.box) :]), inst.result)
    return inst
