"""Uniformity: over which threads of a block each value of a kernel is the same, and which threads reach an instruction together.

What depends on the thread index is followed through arithmetic, cells and control with a work list; linear in the number
of instructions. Who asks about a few of them has only those followed that these depend on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import gcd

from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import TERMINATES
from vxc.ir.walk import LOOPS, OPENERS, Regions
from vxc.record import record
from vxc.semantics import SCALAR_OPS

BLOCK = 0  # the span of what is the same in every thread of the block

_STORES = frozenset(("store", "atomic", "extern", "reduce", "move"))
_CHANGES = _STORES | {*TERMINATES}
_SHUFFLES = frozenset(("shfl_xor", "shfl_up", "shfl_idx"))
_QUOTIENTS = frozenset(("thread_index", "floordiv", "tdiv", "shr", "cast"))
_PLAIN = frozenset(SCALAR_OPS) - _QUOTIENTS  # the result follows from the operands and nothing else


@record
class Uniformity:
    """Spans: a value (or cell) of span w is the same in all threads of each aligned group of w threads; BLOCK: in all threads.

    `spans` is by name; what is not in it has span BLOCK. `control[i]` is the span of threads that reach instruction i together, for
    those that were asked about.
    """

    spans: dict[str, int]
    control: dict[int, int]

    def span(self, operand: Operand) -> int:
        return BLOCK if isinstance(operand, Const) else self.spans.get(operand.name, BLOCK)

    def level(self, operand: Operand, group: int) -> str:
        """'block', 'group' (of so many threads) or 'thread': the widest of them over which the operand is uniform."""
        span = self.span(operand)
        return "block" if span == BLOCK else "thread" if span % group else "group"


def uniformity(kernel: Kernel, regions: Regions | None = None, asked: Iterable[int] | None = None) -> Uniformity:
    """Spans of all values, by following what depends on the thread index; with `asked`, of what decides who reaches these positions.

    Global and shared memory hold one value for each address. Before stage=thread what stands in no loop over lanes happens once for all
    that run it, and atomics and reductions there have one result. The result of a shuffle is taken as uniform over its group,
    since lowering reads it only at the end of the whole exchange; this is assumed, not shown.
    """
    regions = regions or Regions.of(kernel.insts)
    alone = BLOCK if kernel.stage == "tile" else 1 if kernel.stage == "thread" else kernel.attr("group", 1)
    graph = _Flow(kernel.attr("threads", 0), kernel.attr("group", 1), alone)
    places = range(len(kernel.insts)) if asked is None else [*asked]
    for i in places if asked is None else _causes(kernel.insts, regions, places):
        graph.flow(kernel.insts[i], i, regions)
    spans = graph.solve()
    control = {i: spans.get(regions.parent[i], BLOCK) for i in places}
    return Uniformity({name: span for name, span in spans.items() if isinstance(name, str)}, control)


def _causes(insts: Sequence[Inst], regions: Regions, asked: Iterable[int]) -> list[int]:
    """The instructions, in order, on which depends who reaches some positions."""
    todo = [p for p in {regions.parent[i] for i in asked} if p >= 0]
    if not todo:
        return []
    made = {inst.result.name: i for i, inst in enumerate(insts) if type(inst.result) is Value}
    stored: dict[str, list[int]] = {}  # by the name of a cell or local array
    leave: dict[int, list[int]] = {}  # loop -> what leaves it
    for i, inst in [(i, inst) for i, inst in enumerate(insts) if inst.op in _CHANGES]:
        if inst.op in TERMINATES:
            leave.setdefault(regions.innermost(i, LOOPS), []).append(i)
        elif _is_private(inst.operands):
            stored.setdefault(inst.operands[0].name, []).append(i)
    found: set[int] = set()
    while todo:
        i = todo.pop()
        if i in found:
            continue
        found.add(i)
        if regions.parent[i] >= 0:
            todo.append(regions.parent[i])
        todo += leave.get(i, ())
        for x in insts[i].operands:
            if type(x) is Value:
                todo += [made[x.name]] if x.name in made else ()
            elif type(x) is Buffer:
                todo += stored.get(x.name, ())
    return sorted(found)


def _is_private(operands: Sequence[Operand]) -> bool:
    """Whether the first is storage of which each thread has its own."""
    return bool(operands) and type(operands[0]) is Buffer and operands[0].space in ("cell", "local")


class _Flow:
    """What each span is made from. Nodes are names, and positions of openers (who gets to run their body)."""

    def __init__(self, threads: int, group: int, alone: int):
        self.threads = threads
        self.group = self.narrowed(group)
        self.alone = self.narrowed(alone)  # the span of what happens once
        self.seeds: dict[str | int, int] = {}
        self.targets: defaultdict[str | int, list[str | int]] = defaultdict(list)
        self.quotients: dict[str, int] = {}  # value -> q where it is thread_index // q

    def narrowed(self, span: int) -> int:
        return BLOCK if self.threads and span >= self.threads else span

    def seed(self, node: str | int, span: int) -> None:
        self.seeds[node] = gcd(self.seeds.get(node, BLOCK), span)

    def edges(self, sources: Iterable[Operand], target: str | int) -> None:
        """From the values among the sources."""
        for x in sources:
            if type(x) is Value:
                self.targets[x.name].append(target)

    def flow(self, inst: Inst, i: int, regions: Regions) -> None:
        op, operands, parent = inst.op, inst.operands, regions.parent[i]
        if op in _PLAIN and type(inst.result) is Value:
            name, targets = inst.result.name, self.targets
            for x in operands:
                if type(x) is Value:
                    targets[x.name].append(name)
            return
        if op in OPENERS:
            self.opens(inst, i, parent)
        elif op in TERMINATES:
            left = regions.innermost(i, LOOPS)
            if left >= 0:
                self.targets[parent].append(left)
        private = None
        if _is_private(operands):
            private = operands[0].name
            if op in _STORES:
                self.targets[parent].append(private)
                if op == "reduce":
                    self.seed(private, self.once(i, regions))
                else:
                    self.edges(operands[1:], private)
        if type(inst.result) is Value:
            if private:
                self.targets[private].append(inst.result.name)
            self.result(inst, i, regions)

    def opens(self, inst: Inst, i: int, parent: int) -> None:
        self.targets[parent].append(i)
        uniform = inst.attr("uniform")
        if uniform:
            self.seed(i, self.narrowed(uniform))
        else:
            self.edges(inst.operands, i)
        if inst.op in ("reduce", "scan") or inst.attr("map") == "lanes":
            self.seed(i, 1)
        if inst.attr("map") == "teams":
            self.seed(i, self.narrowed(inst.attr("lanes")))

    def once(self, i: int, regions: Regions) -> int:
        """The span of the result of an instruction that happens once for those that reach it together."""
        for p in regions.parents(i):
            around = regions.insts[p]
            if around.op in ("reduce", "scan") or around.attr("map") == "lanes":
                return 1
            if around.attr("map") == "teams":
                return self.narrowed(around.attr("lanes"))
        return self.alone

    def result(self, inst: Inst, i: int, regions: Regions) -> None:
        op, name = inst.op, inst.result.name
        quotient = self.quotient(inst) if op in _QUOTIENTS else 0
        if quotient:
            self.quotients[name] = quotient
            self.seed(name, self.narrowed(quotient))
        elif op in _SHUFFLES:
            self.seed(name, self.narrowed(inst.attr("width", 1)))
        else:
            how = inst.attr("map") if inst.attrs else None
            if op in ("prefix", "reduce", "scan") or how == "lanes":
                self.seed(name, 1)
            if op == "atomic":
                self.seed(name, self.once(i, regions))
            if how == "blocks":
                self.seed(name, self.group)
            if how == "teams":
                self.seed(name, self.narrowed(inst.attr("lanes")))
            self.edges(inst.operands, name)

    def quotient(self, inst: Inst) -> int:
        """q > 0 where the result is thread_index // q."""
        if inst.op == "thread_index":
            return 1
        first, second = (*inst.operands, None, None)[:2]
        of = self.quotients.get(first.name, 0) if type(first) is Value else 0
        if inst.op == "cast":
            return of if inst.result.dtype.is_int and inst.result.dtype.bits >= 16 else 0
        by = second.value if type(second) is Const else 0
        if inst.op == "shr":
            return of << by if 0 <= by < 16 else 0
        return of * by if by > 0 else 0

    def solve(self) -> dict[str | int, int]:
        """Lower every target to the gcd of its sources until nothing changes; a span only ever falls to a divisor."""
        spans: dict[str | int, int] = dict(self.seeds)
        todo = list(spans)
        while todo:
            node = todo.pop()
            for target in self.targets.get(node, ()):
                old = spans.get(target, BLOCK)
                new = gcd(old, spans[node])
                if new != old:
                    spans[target] = new
                    todo.append(target)
        return spans

