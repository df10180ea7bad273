"""Layouts that the author gave, checked for the arrays that they are of (part of infer-layouts)."""

from __future__ import annotations

from vxc.diag import Diagnostic, VxcError
from vxc.ir.kernel import Inst, Kernel
from vxc.layout.layout import parse
from vxc.layout.places import Places, extents_of, held, places


def given_layouts(kernel: Kernel) -> dict[str, Places]:
    """By the fragment's name. Raises VxcError (E0406) for one under which an element has no thread of the team, two share a slot, or threads
    could not count what they hold.
    """
    found: dict[str, Places] = {}
    for inst in kernel.insts:
        if inst.op == "fragment" and inst.attr("layout"):
            found[inst.result.name] = _checked(kernel, inst)
    return found


def _checked(kernel: Kernel, inst: Inst) -> Places:
    tile, layout, threads = inst.result, parse(inst.attr("layout")), kernel.attr("group")
    shape = tuple(n.value for n in tile.shape)
    given = sum(not dim.replicas for dim in layout.dims)
    if given not in (1, len(shape)):
        raise _wrong(kernel, inst, f"it has {given} indices, and the fragment {len(shape)} dimensions", "name one index for each dimension")
    wrong = layout.check(extents_of(layout, shape), threads)
    if wrong:
        raise _wrong(kernel, inst, wrong, "give each element a thread of the block, and a slot in it that no other has")
    where = places(layout, shape)
    if held(where, threads) is None:
        hint = "let thread and slot be sums of digits, as `i % 8 * 4 + j // 2`, of which threads from 0 on hold some"
        raise _wrong(kernel, inst, "which elements a thread holds is no sum of digits of its number and of the slot", hint)
    return where


def _wrong(kernel: Kernel, inst: Inst, why: str, hint: str) -> VxcError:
    message = f"`@layout` of `{inst.result.name}` does not fit: {why}"
    return VxcError(Diagnostic("E0406", message, kernel.source, kernel.span(inst), help=hint))
