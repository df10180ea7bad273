"""Loads of neighbouring elements of shared memory, one after another, as one access (part of infer-vector-widths).

    %0: f32 = load @s, 0                 local @s.1: f32[2]
    %1: f32 = load @s, 1                 move @s.1, 0, @s, 0 {width=2}
    %2: f32 = add %0, %1         ->      %0: f32 = load @s.1, 0
                                         %1: f32 = load @s.1, 1
                                         %2: f32 = add %0, %1

They are joined where the first of the elements is known to lie at a multiple of the access, and where nothing between the loads writes
to shared memory, waits, or begins or ends a loop or branch. NVRTC joins those at constant places by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vxc.analysis.forms import Form
from vxc.analysis.offsets import Offsets
from vxc.analysis.shared_loads import holds_loads, is_shared_load
from vxc.analysis.vector_width import BYTES
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel
from vxc.ir.walk import MARKS, definitions, names
from vxc.pass_manager import Context
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record

_Group = dict[int, list[int]]  # positions of loads, by how far behind something their element is


@record
class _Access:
    """Loads of `width` elements in a row: of each position in the kernel, which of them. `lowest` is the position of one of the first."""

    elements: dict[int, int]
    lowest: int
    width: int


def joined(kernel: Kernel, context: Context) -> Kernel:
    """The kernel with such loads joined."""
    if not _several(kernel.insts):
        return kernel
    found = {min(access.elements): access for access in _accesses(kernel)}
    if not found:
        return kernel
    b = Builder(names(kernel.params, kernel.insts))
    held: dict[int, tuple[Buffer, Const]] = {}
    for at, inst in enumerate(kernel.insts):
        b.at(inst.loc)
        if at in found:
            access = found[at]
            buffer, *indices = kernel.insts[access.lowest].operands
            local = b.declare("local", buffer.name, buffer.dtype, (access.width,))
            why = ("loaded", access.width) if access.width * buffer.dtype.bytes < BYTES else None
            b.emit("move", local, 0, buffer, b.linear(buffer, indices, Rewriter(b, {})), width=access.width, narrow=why)
            held |= {i: (local, Const(k)) for i, k in access.elements.items()}
            context.applied(f"{access.width * buffer.dtype.bytes}-byte loads of `{source_name(buffer.name)}`", kernel.name, inst.loc)
        b.add(replace(inst.with_attrs(narrow=None), operands=held[at]) if at in held else inst)
    return replace(kernel, insts=tuple(b.insts))


def _parts(inst: Inst) -> bool:
    """Whether loads before and behind an instruction are never joined."""
    return inst.op in MARKS or holds_loads(inst)


def _several(insts: Sequence[Inst]) -> bool:
    """Whether anywhere several loads of one array have nothing between them that parts them: of few kernels, so that few need forms."""
    seen: set[str] = set()
    for inst in insts:
        if is_shared_load(inst):
            if inst.operands[0].name in seen:
                return True
            seen.add(inst.operands[0].name)
        elif seen and _parts(inst):
            seen.clear()
    return False


def _accesses(kernel: Kernel) -> Iterator[_Access]:
    offsets, made = Offsets.of(kernel.params), definitions(kernel.insts)
    for base, group in _groups(kernel, offsets):
        buffer = kernel.insts[next(iter(group.values()))[0]].operands[0]
        width = BYTES // buffer.dtype.bytes
        while width > 1:
            for first in sorted(group):
                run = [group.get(first + k) for k in range(width)]
                if None in run or offsets.divisible(base + first, width, {}) != {}:
                    continue
                elements = {i: k for k, places in enumerate(run) for i in places}
                lowest = run[0][0]
                if all(type(x) is Const or made.get(x.name, -1) < min(elements) for x in kernel.insts[lowest].operands[1:]):
                    yield _Access(elements, lowest, width)
                    for k in range(width):
                        del group[first + k]
            width //= 2


def _groups(kernel: Kernel, offsets: Offsets) -> Iterator[tuple[Form, _Group]]:
    """Loads of one array with nothing between them that holds them, at known distances from the offset that comes with them."""
    open_: dict[tuple[str, Form], _Group] = {}
    for at, inst in enumerate(kernel.insts):
        offsets.define(inst)
        if _parts(inst):
            yield from ((base, group) for (_, base), group in open_.items() if len(group) > 1)
            open_ = {}
        elif is_shared_load(inst) and inst.operands[0].dtype.bits >= 8:
            buffer, *indices = inst.operands
            offset = offsets.linear(buffer, tuple(indices))
            key = (buffer.name, offset - offset.constant)
            open_.setdefault(key, {}).setdefault(offset.constant, []).append(at)
    yield from ((base, group) for (_, base), group in open_.items() if len(group) > 1)
