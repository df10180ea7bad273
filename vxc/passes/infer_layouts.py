"""infer-layouts: where the elements of each fragment live.

Before: stage=team; fragments are declared, loops are mapped.
After:  a fragment whose every access is to the element with the number of its own loop's index is spread over the group of
        lanes that runs an iteration, in a `grid` the whole block: element e (row-major) is in lane e % group, slot e // group, or,
        if reductions run over it, where their order deals it, V elements in a row to a lane; the loops over it have its layout.
        Any other fragment, and one that would take more than REGISTERS of a lane, lives in shared memory, through which lanes
        exchange what is not theirs. Shared arrays stay as they are.

    fragment @f: f32[8, 32]                       fragment @f: f32[8, 32] {layout="[e] -> [e % 128, e // 128]"}
    %i = loop 0, 256 {.., map="lanes"}     ->     %i = loop 0, 256 {.., map="lanes"}
      store @f, %1, %2, 0.0:f32                     store @f, %1, %2, 0.0:f32

Ownership is shown by enumeration: the indices of each access are evaluated for every iteration of its loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from vxc import semantics
from vxc.analysis.sweeps import Extent
from vxc.ir.kernel import Buffer, Const, Inst, Kernel
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, definitions
from vxc.layout.layout import spread
from vxc.pass_manager import Context, Pass
from vxc.semantics import Order

SHARED = ("reduce", "scan")  # run by all lanes of a group together
REGISTERS = 128  # of 4 bytes, that a lane gives one fragment at most


class _Owners:
    """Answers whether an access is to the element that its loop's index numbers."""

    def __init__(self, kernel: Kernel):
        self.insts = kernel.insts
        self.regions = Regions.of(kernel.insts)
        self.made = definitions(kernel.insts)
        self.values: dict[tuple[int, str], np.ndarray | None] = {}

    def foreign(self, at: int, buffer: Buffer, box) -> str | None:
        """Why the access is not to the own element, or None."""
        loops = self.around(at)
        if not loops:
            return "it is accessed outside of a loop spread over threads"
        loop = loops[-1]
        inner = [p for p in loops[:-1] if self.insts[p].op == "loop"]
        if inner or self.insts[loop].op == "scan" or self.insts[loop].attr("map") == "teams":
            return "it is accessed in a loop inside a loop spread over threads"
        count = prod(n.value for n in buffer.shape)
        if self.bounds(loop) != [0, count]:
            return "the loop does not run over its elements"
        places = [self.evaluate(x, loop, count) for x in box]
        if any(p is None for p in places):
            return "an index depends on more than the loop"
        flat = np.zeros(count, np.int64)
        for place, extent in zip(places, buffer.shape):
            flat = flat * extent.value + place
        return None if np.array_equal(flat, np.arange(count)) else "another thread's element is accessed"

    def around(self, at: int) -> list[int]:
        """The loops over lanes or teams, reductions and scans around a position, innermost first."""
        return [p for p in self.regions.parents(at) if self.insts[p].op in SHARED or self.insts[p].attr("map") in ("lanes", "teams")]

    def bounds(self, loop: int) -> list[int | None]:
        """Where a loop or reduction begins and ends (at the latest, where the launch knows that), None for what is no constant."""
        inst = self.insts[loop]
        start, stop, *step = (Const(0), inst.operands[1]) if inst.op == "reduce" else inst.operands
        start, *step = (x.value if isinstance(x, Const) else None for x in (start, *step))
        return [start, Extent.of(inst).most, *step]

    def evaluate(self, x, loop: int, count: int) -> np.ndarray | None:
        """A value in every iteration of a loop, or None where it depends on more than the loop's index."""
        if isinstance(x, Const):
            return np.asarray(x.value)
        if x == self.insts[loop].result:
            return np.arange(count)
        inst = self.insts[self.made[x.name]] if x.name in self.made else None
        if inst is None or not OPS[inst.op].pure or inst.result.dtype.is_float:
            return None
        key = (loop, x.name)
        if key not in self.values:
            operands = [self.evaluate(y, loop, count) for y in inst.operands]
            self.values[key] = None if any(y is None for y in operands) else _apply(inst, operands)
        return self.values[key]


def _apply(inst: Inst, operands) -> np.ndarray:
    if inst.op in ("cast", "sat", "reinterpret"):
        return getattr(semantics, inst.op)(operands[0], inst.operands[0].dtype, inst.result.dtype)
    return semantics.evaluate(inst.op, inst.operands[-1].dtype, *operands)


def infer(kernel: Kernel, context: Context) -> Kernel:
    declared = {i.result.name: i.loc for i in kernel.insts if i.op == "fragment"}
    fragments = {i.result.name: i.result for i in kernel.insts if i.op == "fragment"}
    if not fragments:
        return kernel
    threads = kernel.attr("group")
    slots = {name: -(-prod(n.value for n in buffer.shape) // threads) for name, buffer in fragments.items()}
    foreign = {name: reason for name, buffer in fragments.items() if (reason := _too_large(slots[name] * buffer.dtype.bytes))}
    owners = _Owners(kernel)
    deals = _Deals(threads)
    for at, inst in enumerate(kernel.insts):
        for access in accesses(inst):
            name = access.buffer.name
            if name in fragments and name not in foreign:
                reason = owners.foreign(at, access.buffer, access.box)
                if reason:
                    foreign[name] = (reason, inst.loc)
                else:
                    deals.access(name, owners.around(at)[-1], kernel.insts)
    foreign |= {name: (reason, None) for name, reason in deals.refused(foreign).items()}
    for name in fragments:
        if name in foreign:
            context.missed(f"fragment {name} lives in shared memory: {foreign[name][0]}", kernel.name, foreign[name][1] or declared[name])
        else:
            text = f"fragment {name} lives in registers: {slots[name]} elements in each of {threads} threads"
            context.applied(text, kernel.name, declared[name])
    moved = {name: replace(fragments[name], space="shared") for name in foreign}
    layouts = deals.layouts(set(fragments) - set(foreign))
    return replace(kernel, insts=tuple(_placed(inst, at, moved, layouts) for at, inst in enumerate(kernel.insts)))


def _too_large(size: int) -> tuple[str, None] | None:
    """The reason, with no place, for which a fragment of so many bytes a thread is not spread; ownership is not asked then."""
    return (f"it would take {size // 4} registers of each thread, more than {REGISTERS}", None) if size > 4 * REGISTERS else None


class _Deals:
    """How elements are dealt to threads: a reduction's order says it, and fragments with a loop in common are dealt alike."""

    def __init__(self, threads: int):
        self.threads = threads
        self.users: dict[str, set[int]] = {}  # fragment -> positions of the loops and reductions that access it
        self.strict: dict[int, Order] = {}  # reductions among them

    def access(self, fragment: str, loop: int, insts: Sequence[Inst]) -> None:
        self.users.setdefault(fragment, set()).add(loop)
        if insts[loop].op == "reduce":
            self.strict[loop] = Order(*insts[loop].attr("order"))

    def refused(self, foreign: Collection[str]) -> dict[str, str]:
        """Fragments that cannot be dealt as all that access them need, and why. Those in `foreign` have no say."""
        found = {}
        for group in self._alike(self.users.keys() - foreign):
            orders = {self.strict[loop] for name in group for loop in self.users[name] if loop in self.strict}
            for name in group:
                mine = [self.strict[loop] for loop in self.users[name] if loop in self.strict]
                if mine and any(order.parts > 1 or order.lanes != self.threads for order in mine):
                    found[name] = f"a reduction over it has the order {mine[0]}, which does not deal it to {self.threads} threads"
                elif mine and len({order.v for order in orders}) > 1:
                    found[name] = f"reductions deal it out in several ways: {', '.join(sorted(map(str, orders)))}"
        return found

    def layouts(self, fragments: set[str]) -> dict[str | int, str]:
        """The layout of each of these fragments, by name, and of the loops over them, by position."""
        found: dict[str | int, str] = {name: str(spread(1, self.threads)) for name in fragments}
        for group in self._alike(fragments & self.users.keys()):
            loops = set().union(*(self.users[name] for name in group))
            v = next((self.strict[loop].v for loop in loops if loop in self.strict), 1)
            found.update(dict.fromkeys((*group, *loops), str(spread(v, self.threads))))
        return found

    def _alike(self, fragments: Collection[str]) -> list[set[str]]:
        """The fragments in groups, those accessed in one loop together."""
        groups: list[set[str]] = []
        for name in sorted(fragments):
            near = [g for g in groups if any(self.users[name] & self.users[other] for other in g)]
            groups = [g for g in groups if g not in near] + [{name}.union(*near)]
        return groups


def _placed(inst: Inst, at: int, moved: dict[str, Buffer], layouts: dict[str | int, str]) -> Inst:
    if inst.op == "fragment":
        if inst.result.name in moved:
            return replace(inst, op="shared", result=moved[inst.result.name])
        return inst.with_attrs(layout=layouts[inst.result.name])
    if at in layouts:
        inst = inst.with_attrs(layout=layouts[at])
    if Buffer not in map(type, inst.operands):
        return inst
    return inst.over([moved.get(x.name, x) if type(x) is Buffer else x for x in inst.operands], inst.result)


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels([infer(kernel, context) for kernel in plan.kernels])


INFER_LAYOUTS = Pass(
    "infer-layouts", run, "spread fragments over threads, or put them in shared memory", needs=("team",), gives=("layouts",)
)
