"""The shape passes work on: a kernel as pure prologue, perfect nest of parallel loops, body."""

from __future__ import annotations

from dataclasses import dataclass

from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.ops import OPS


@dataclass(frozen=True)
class Nest:
    """`prologue` runs once per launch and depends on no loop; `loops` are the parallel loops, outermost first; `body` is what they enclose."""

    prologue: tuple[Inst, ...]
    loops: tuple[Inst, ...]
    body: tuple[Inst, ...]


def top_level(insts) -> list[tuple[Inst, ...]]:
    """The instructions cut into top-level items: single instructions and whole regions."""
    items, depth, start = [], 0, 0
    for i, inst in enumerate(insts):
        depth += OPS[inst.op].opens - (inst.op == "end")
        if depth == 0:
            items.append(tuple(insts[start : i + 1]))
            start = i + 1
    return items


def is_nest(item: tuple[Inst, ...]) -> bool:
    return item[0].op == "loop" and item[0].attr("kind") == "parallel"


def nest_of(kernel: Kernel) -> Nest:
    """The nest of a kernel that is a prologue and one top-level parallel loop, as split-launches leaves it."""
    items = top_level(kernel.insts)
    prologue = [item[0] for item in items[:-1]]
    loops, body = [], items[-1]
    while True:
        loops.append(body[0])
        body = body[1:-1]
        hoisted, inner = _perfect(body, {loop.result.name for loop in loops})
        if inner is None:
            return Nest(tuple(prologue), tuple(loops), body)
        prologue += hoisted
        body = inner


def _perfect(body, indices: set[str]):
    """(pure instructions that may move out, the one parallel loop) where the body is no more than that, else (.., None)."""
    items = top_level(body)
    if not items or not is_nest(items[-1]) or any(len(item) > 1 or not OPS[item[0].op].pure for item in items[:-1]):
        return [], None
    hoisted = [item[0] for item in items[:-1]]
    used = {x.name for inst in (*hoisted, items[-1][0]) for x in inst.operands if isinstance(x, Value)}
    return (hoisted, items[-1]) if not used & indices else ([], None)
