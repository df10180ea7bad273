"""async-copies: what a loop copies from global to shared memory does not pass through registers.

Before: stage=thread, after infer-vector-widths. A loop marked `async` lets its copies go on until its end.
After:  in such a loop, elements that are moved from an array that the kernel never writes to an array of the thread, from there as they
        are to another, and from that to shared memory, in accesses of 4, 8 or 16 bytes, are moved by `move.async`; behind the loop
        stands an `await`. No `async` is left.

    move @x.1, 0, @x, %f {width=4}
    %v = loop 0, 4 {kind="unroll"}
      %0: f32 = load @x.1, %v                ->        move.async @s, %f, @x, %f {width=4}
      store @s.1, %v, %0
    end %v
    move @s, %f, @s.1, 0 {width=4}

A thread has then as many copies under way as it starts, not as many as it has registers for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, definitions, uses
from vxc.layout.arrangement import arrangement
from vxc.pass_manager import Context, Pass
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record

SIZES = (4, 8, 16)  # bytes of a `move.async`


@record
class _Chain:
    """Moves to an array of the thread, and those to shared memory from the array that its elements go to, in pairs. `gone` is all else."""

    moves: tuple[tuple[int, int], ...]
    gone: tuple[int, ...]


class _Copies:
    """Finds the chains of one kernel."""

    def __init__(self, insts: Sequence[Inst]):
        self.insts, self.regions = insts, Regions.of(insts)
        self.made, self.used = definitions(insts), uses(insts)
        self.written = {a.buffer.name for inst in insts for a in accesses(inst) if "w" in a.mode}

    def chain(self, local: int) -> _Chain | None:
        """That begins with the array of the thread declared at a position."""
        load, fills = self._ends(local, "load")
        if load is None or any(not self._is_source(self.insts[i].operands[2]) for i in fills):
            return None
        store = self._only(self.insts[load].result.name)
        if store is None or self.insts[store].op != "store" or self.insts[store].operands[0].space != "local":
            return None
        second = self.made[self.insts[store].operands[0].name]
        again, drains = self._ends(second, "store")
        if again != store or any(not self._is_target(self.insts[i]) for i in drains) or not self._each(load, store, local, second):
            return None
        one, two = ({self.insts[i].operands[at]: i for i in moves} for at, moves in ((1, fills), (3, drains)))
        widths = [{k: self.insts[i].attr("width") for k, i in moves.items()} for moves in (one, two)]
        whole = len(one) == len(fills) and len(two) == len(drains) and widths[0] == widths[1]
        size = self.insts[local].result.dtype.bytes
        if not whole or any(width * size not in SIZES for width in widths[0].values()) or not self._beside(load, fills, drains):
            return None
        return _Chain(tuple((one[k], two[k]) for k in one), (local, second, load, store))

    def _ends(self, local: int, op: str) -> tuple[int | None, list[int]]:
        """The one access by `op` to an array of the thread, where all its other uses are moves, and those."""
        found = self.used.get(self.insts[local].result.name, [])
        moves = [i for i in found if self.insts[i].op == "move" and not self.insts[i].attr("anywhere")]
        others = [i for i in found if i not in moves]
        return (others[0] if len(others) == 1 and moves and self.insts[others[0]].op == op else None), moves

    def _only(self, name: str) -> int | None:
        found = self.used.get(name, [])
        return found[0] if len(found) == 1 else None

    def _is_source(self, buffer: Buffer) -> bool:
        return buffer.space in GLOBAL and buffer.name not in self.written

    def _is_target(self, move: Inst) -> bool:
        """Whether a move is to shared memory, where its elements lie together, as far as the author has a say in it."""
        if move.operands[0].space != "shared":
            return False
        declared = self.insts[self.made[move.operands[0].name]]
        given = declared.attr("layout") and arrangement(declared.attr("layout")).placement(tuple(n.value for n in declared.result.shape))
        return not given or not given.run or given.run >= move.attr("width")

    def _each(self, load: int, store: int, local: int, second: int) -> bool:
        """Whether a loop loads and stores all elements of the two arrays, one for one."""
        loop = self.regions.parent[load]
        if loop < 0 or self.insts[loop].op != "loop" or self.regions.parent[store] != loop:
            return False
        index, shape = self.insts[loop].result, self.insts[local].result.shape
        alike = self.insts[load].operands[1] == index == self.insts[store].operands[1] and self.insts[second].result.shape == shape
        return alike and self.insts[loop].operands in ((Const(0), *shape), (Const(0), *shape, Const(1)))

    def _beside(self, load: int, fills: list[int], drains: list[int]) -> bool:
        """Whether the moves stand in front of that loop and behind it."""
        loop = self.regions.parent[load]
        level = {self.regions.parent[i] for i in (*fills, *drains, loop)}
        return len(level) == 1 and max(fills) < loop and min(drains) > self.regions.end[loop]


def direct(kernel: Kernel, context: Context) -> Kernel:
    insts = kernel.insts
    loops = [i for i, inst in enumerate(insts) if inst.attr("async")]
    if not loops:
        return kernel
    copies = _Copies(insts)
    regions = copies.regions
    changed: dict[int, Inst | None] = {}
    awaited: set[int] = set()
    for loop in loops:
        changed[loop] = insts[loop].with_attrs(**{"async": None})
        inside = [i for i in regions.body(loop) if insts[i].op == "local"]
        for chain in filter(None, map(copies.chain, inside)):
            changed |= dict.fromkeys(chain.gone)
            for first, second in chain.moves:
                source, target = insts[first], insts[second]
                operands = (*target.operands[:2], *source.operands[2:])
                changed |= {first: None, second: replace(target, op="move.async", operands=operands)}
            awaited.add(regions.end[loop])
            names = (source_name(insts[i].operands[k].name) for i, k in zip(chain.moves[0], (2, 0)))
            context.applied("`{}` goes to `{}` without passing through registers".format(*names), kernel.name, insts[chain.moves[0][1]].loc)
    out: list[Inst] = []
    for at, inst in enumerate(insts):
        out += [new] if (new := changed.get(at, inst)) is not None else []
        out += [Inst("await", (), None, (), inst.loc)] if at in awaited else []
    return replace(kernel, insts=tuple(out))


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels(direct(kernel, context) for kernel in plan.kernels)


ASYNC_COPIES = Pass("async-copies", run, "copy from global to shared memory past the registers", needs=("thread",))
