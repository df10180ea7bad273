"""Layouts that the author gave (part of infer-layouts; those of loops, of fuse-loops and map-loops).

Those of fragments and loops are checked for the threads that there are. A shared array whose layout is no gap behind rows and no swizzle,
as a ladder, becomes one of other dimensions, in which its elements lie in memory order; `avoid-bank-conflicts` sees to the rest.

    shared @s: f16[32, 64] {layout="[i, j] -> [i // 16, j // 16, i % 16, j % 16]"}      shared @s: f16[2, 4, 16, 16] {layout=..}
    %0: f16 = load @s, %i, %j                                                      ->    %0: f16 = load @s, %1, %2, %3, %4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vxc.diag import Diagnostic, VxcError
from vxc.ir.builder import Builder
from vxc.ir.facts import trip_count
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, constant
from vxc.ir.ops import accesses
from vxc.ir.walk import names
from vxc.layout.arrangement import Arrangement, arrangement
from vxc.layout.layout import flattened, parse
from vxc.layout.places import Places, places, problem
from vxc.pass_manager import Context
from vxc.passes.own_elements import of_layout
from vxc.passes.prove_parallel_text import source_name


def over_numbers(kernel: Kernel, loop: Inst, counts: Sequence[Operand]) -> str:
    """The layout of a nest, of which `loop` is the outermost, over the number of an iteration in all of it. Raises VxcError (E0235)."""
    layout, shape = parse(loop.attr("layout")), [n.value for n in counts if type(n) is Const]
    if sum(not dim.replicas for dim in layout.dims) != len(counts) or len(shape) < len(counts):
        refuse(kernel, loop, ("it is over a nest of other ranges", "give it one index for each range, all known when compiling"))
    return str(flattened(layout, shape))


def run_as_given(kernel: Kernel, loop: Inst, inside: Sequence[Inst], how: str, threads: int, context: Context) -> None:
    """Says that a loop, which is mapped as `how`, runs as its layout, over numbers of iterations, says. Raises VxcError (E0235) where it
    does not fit.
    """
    bounds, layout, name = (*loop.operands, Const(1))[:3], parse(loop.attr("layout")), source_name(loop.result.name)
    scan = next((inst for inst in inside if inst.op == "scan"), None)
    if scan is not None:
        line = f" on line {scan.loc[0]}" if scan.loc else ""
        refuse(kernel, loop, (f"threads run the scan{line} together", "leave out the layout, or put the scan in a loop of its own"))
    if how != "lanes":
        refuse(kernel, loop, ("each thread runs all of it, for what it stores to is each thread's own", "leave out the layout"))
    if not all(type(x) is Const for x in bounds):
        refuse(kernel, loop, ("how many iterations there are is not known when compiling", "let the loop run over literals and generics"))
    if any(dim.replicas for dim in layout.dims):
        refuse(kernel, loop, ("it has replicas", "an iteration is run by one thread"))
    wrong = problem(layout, (trip_count(*(x.value for x in bounds)),), threads, "iteration")
    if wrong:
        refuse(kernel, loop, wrong)
    context.applied(f"parallel {name}: threads run the iterations that @layout gives them", kernel.name, loop.loc)
    if loop.attr("vector"):
        text = f"@vector({loop.attr('vector')}) of {name}: @layout says what a thread runs one after another"
        context.missed(text, kernel.name, loop.loc)


def refuse(kernel: Kernel, inst: Inst, wrong: tuple[str, str]) -> None:
    message = f"`@layout` does not fit `{source_name(inst.result.name)}`: {wrong[0]}"
    raise VxcError(Diagnostic("E0235", message, kernel.source, kernel.span(inst), help=wrong[1]))


def loops_of_the_author(kernel: Kernel) -> dict[int, Places]:
    """The places of the iterations of loops with a layout of the author's, by position."""
    given = ((at, inst) for at, inst in enumerate(kernel.insts) if inst.op == "loop" and inst.attr("given"))
    return {at: places(parse(inst.attr("layout")), (inst.operands[1].value,)) for at, inst in given}


def given_layouts(kernel: Kernel) -> dict[str, Places]:
    """By the fragment's name. Raises VxcError (E0235) where a layout is none of its array in the kernel's threads."""
    found: dict[str, Places] = {}
    for inst in kernel.insts:
        if inst.op == "fragment" and inst.attr("layout"):
            layout, shape = parse(inst.attr("layout")), tuple(n.value for n in inst.result.shape)
            wrong = problem(layout, shape, kernel.attr("group"))
            if wrong:
                refuse(kernel, inst, wrong)
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
                refuse(kernel, inst, wrong)
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
