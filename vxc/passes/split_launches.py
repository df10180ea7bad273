"""split-launches: one launch for each top-level parallel nest, and one for the statements between.

Before: stage=tile; a kernel is any list of statements.
After:  each kernel is a prologue (pure instructions, and loads of what it never writes) and one top-level parallel loop.
        Statements outside any parallel loop run in a loop of one iteration. A value that a later launch needs is computed again
        there if it is pure or read from memory that the kernel never writes; otherwise it passes through a workspace, as do
        variables and local arrays that two launches touch.

    %z: f32 = load @s                                  %z: f32 = load @s
    %i = loop 0, %N {kind="parallel"}        ->        store @wz, 0, %z
      store @y, %i, %z                                 ..
    end %i                                             %z: f32 = load @wz, 0
                                                       %i = loop 0, %N {kind="parallel"}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from vxc.dtypes import I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import names
from vxc.pass_manager import Context, Pass
from vxc.passes.launches import ONCE, Launched, Site, each_launch
from vxc.passes.nest import is_nest, top_level
from vxc.record import record

ONE_ITERATION = (("independent", "one iteration"), ("kind", "parallel"))


@record
class _Group:
    """What becomes one launch."""

    insts: tuple[Inst, ...]
    nest: bool

    def uses(self) -> set[str]:
        return {x.name for inst in self.insts for x in inst.operands if isinstance(x, Value)}

    def defines(self) -> dict[str, Value]:
        return {inst.result.name: inst.result for inst in self.insts if isinstance(inst.result, Value)}

    def declares(self) -> dict[str, Buffer]:
        return {inst.result.name: inst.result for inst in self.insts if isinstance(inst.result, Buffer)}

    def touches(self) -> set[str]:
        return {x.name for inst in self.insts for x in inst.operands if isinstance(x, Buffer)}


def run(plan: Plan, context: Context) -> Plan:
    taken = set().union(names(plan.params, plan.entries), *(names(k.params, k.insts) for k in plan.kernels))
    fresh = Builder(taken).fresh

    def of(site: Site) -> Iterator[Launched]:
        pieces, workspaces = split(site, fresh)
        if len(pieces) > 1:
            places = [next(i.loc for i in piece.insts if i.op == "loop") for piece in pieces]
            lines = f" (from lines {', '.join(str(loc[0]) for loc in places)})" if all(places) else ""
            text = f"{len(pieces)} launches{lines}, since what one parallel loop writes the next may read"
            context.applied(text, site.kernel.name, places[0])
        for buffer in workspaces:
            site.workspace(buffer)
        yield from ((piece, ONCE) for piece in pieces)

    return each_launch(plan, of)


def split(site: Site, fresh: Callable[[str], str]) -> tuple[list[Kernel], list[Buffer]]:
    """The kernels that a kernel becomes, in order, and the workspaces, under fresh names, that they share."""
    kernel = site.kernel
    prologue, groups = _grouped(kernel)
    values = _crossing_values(groups)
    buffers = _crossing_buffers(groups)
    spaces = {name: Buffer(fresh(f"w{name}"), v.dtype, (Const(1),), "workspace") for name, v in values.items()}
    moved = {name: replace(b, name=fresh(f"w{name}"), shape=b.shape or (Const(1),), space="workspace") for name, b in buffers.items()}
    pieces = []
    for group in groups:
        group = replace(group, insts=tuple(_moved(inst, moved) for inst in group.insts if not _is_declared(inst, moved)))
        name = kernel.name if len(groups) == 1 else site.name("_", first=1)
        pieces.append(_piece(kernel, name, prologue, group, spaces))
    return pieces, [*spaces.values(), *moved.values()]


def _grouped(kernel: Kernel) -> tuple[list[Inst], list[_Group]]:
    written = {a.buffer.name for inst in kernel.insts for a in accesses(inst) if "w" in a.mode}
    prologue: list[Inst] = []
    replicable = {p.name for p in kernel.params if isinstance(p, Value)}
    groups: list[_Group] = []
    for item in top_level(kernel.insts):
        if len(item) == 1 and _replicable(item[0], replicable, written):
            prologue.append(item[0])
            replicable.add(item[0].result.name)
        elif is_nest(item):
            groups.append(_Group(item, nest=True))
        elif groups and not groups[-1].nest:
            groups[-1] = replace(groups[-1], insts=groups[-1].insts + item)
        else:
            groups.append(_Group(item, nest=False))
    return prologue, groups


def _replicable(inst: Inst, values: set[str], written: set[str]) -> bool:
    """True where every launch may compute the instruction again and get the same."""
    unwritten_param = inst.op == "load" and inst.operands[0].space == "param" and inst.operands[0].name not in written
    return (OPS[inst.op].pure or unwritten_param) and all(x.name in values for x in inst.operands if isinstance(x, Value))


def _crossing_values(groups: list[_Group]) -> dict[str, Value]:
    made: dict[str, Value] = {}
    crossing: dict[str, Value] = {}
    for group in groups:
        crossing.update({name: made[name] for name in sorted(group.uses() & made.keys())})
        made.update(group.defines())
    return crossing


def _crossing_buffers(groups: list[_Group]) -> dict[str, Buffer]:
    declared: dict[str, Buffer] = {}
    crossing: dict[str, Buffer] = {}
    for group in groups:
        crossing.update({name: declared[name] for name in sorted(group.touches() & declared.keys())})
        declared.update(group.declares())
    return crossing


def _is_declared(inst: Inst, moved: dict[str, Buffer]) -> bool:
    return isinstance(inst.result, Buffer) and inst.result.name in moved


def _moved(inst: Inst, moved: dict[str, Buffer]) -> Inst:
    """The instruction on workspaces instead of the variables that became them; a variable is element 0."""
    if not inst.operands or not isinstance(inst.operands[0], Buffer) or inst.operands[0].name not in moved:
        return inst
    old, *rest = inst.operands
    return inst.over((moved[old.name], *([] if old.shape else [Const(0)]), *rest), inst.result)


def _piece(kernel: Kernel, name: str, prologue: list[Inst], group: _Group, spaces: dict[str, Buffer]) -> Kernel:
    made = group.defines()
    arrive = [Inst("load", (spaces[v], Const(0)), Value(v, spaces[v].dtype)) for v in sorted(group.uses() & spaces.keys() - made.keys())]
    leave = [Inst("store", (spaces[v], Const(0), made[v])) for v in sorted(made.keys() & spaces.keys())]
    body = list(group.insts)
    if not group.nest:
        once = Value(f"once.{name}", I64)
        body = [Inst("loop", (Const(0), Const(1)), once, ONE_ITERATION, body[0].loc), *body, *leave, Inst("end", (once,))]
    insts = (*prologue, *arrive, *body)
    used = {x.name: x for inst in insts for x in inst.operands if isinstance(x, Buffer) and x.space == "workspace"}
    own = {p.name for p in kernel.params}
    params = (*kernel.params, *(used[n] for n in sorted(used.keys() - own)))
    return replace(kernel, name=name, params=params, insts=insts)


SPLIT_LAUNCHES = Pass(
    "split-launches", run, "one launch for each top-level parallel nest", needs=("tile", "independent"), gives=("one-nest",)
)
