"""sink-loads: what only one branch needs of shared memory is loaded there.

Before: stage=thread, every access is one element.
After:  loads of shared memory, and the pure instructions and accesses of cells that go on from them, stand at the beginning of the one
        arm of an `if` behind them in which all that follows from them is used, if between the two nothing writes to shared memory and
        no barrier stands.

    barrier {scope="block"}                      barrier {scope="block"}
    %0: f32 = load @s, 0                         if %first
    %1: f32 = load @s, 1                           %0: f32 = load @s, 0
    %2: f32 = add %0, %1                           %1: f32 = load @s, 1
    if %first                            ->        %2: f32 = add %0, %1
      store @y, %b, %2                             store @y, %b, %2
    end                                          end

A reduction gives its result to every lane, and often one of them stores it: the other warps then load nothing. NVRTC does the same, so
that without it `vxc explain` would count loads that never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from vxc.analysis.shared_loads import holds_loads, is_shared_load
from vxc.ir.kernel import Inst, Kernel
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, uses
from vxc.pass_manager import Context, Pass
from vxc.passes.prove_parallel_text import source_name


class _Sink:
    """Finds what goes where in one list of instructions. An arm is the position of its `if` or `else`."""

    def __init__(self, insts: Sequence[Inst]):
        self.insts, self.regions, self.used = insts, Regions.of(insts), uses(insts)
        self.made = {inst.result.name: i for i, inst in enumerate(insts) if inst.op == "cell"}
        self.stops = [0, *accumulate(map(holds_loads, insts))]  # how many there are before a position
        self.goes: dict[int, int] = {}

    def run(self) -> dict[int, int]:
        """The arms that instructions go to, by their positions."""
        for at in reversed(range(len(self.insts))):  # the later first: what follows from an earlier load may go on from both
            if is_shared_load(self.insts[at]):
                self._follow(at)
        return self.goes

    def _follow(self, load: int) -> None:
        """Note a load and all that follows from it, if one arm needs it."""
        members, work, arms = {load}, [load], set[int]()
        while work:
            for user in self._after(work.pop()):
                arm = self.goes.get(user) or self._arm(user, load)
                if arm:
                    arms.add(arm)
                elif not self._beside(user, load) or not self._may_go(user):
                    return
                elif user not in members:
                    members.add(user)
                    work.append(user)
            if len(arms) > 1:
                return
        for arm in arms:
            start = arm if self.insts[arm].op == "if" else self.regions.parent[arm + 1]
            if max(members) < start and self.stops[load] == self.stops[start]:
                self.goes |= dict.fromkeys(members, arm)

    def _after(self, at: int) -> list[int]:
        """The instructions that must not come before that at a position."""
        inst = self.insts[at]
        if inst.result is not None:
            found = self.used.get(inst.result.name, [])
            return found if is_shared_load(inst) else found + self._accesses(at, "w")
        return self._accesses(at, "rw")

    def _accesses(self, at: int, modes: str) -> list[int]:
        """The accesses to the cell of one at a position that come after it, and read or write."""
        cells = {a.buffer.name for a in accesses(self.insts[at])}
        found = (i for name in cells for i in self.used[name] if i > at)
        return [i for i in found if any(a.mode in modes for a in accesses(self.insts[i]))]

    def _arm(self, at: int, load: int) -> int | None:
        """The arm that a position is in, of an `if` beside the load."""
        home, child = self.regions.parent[load], at
        for parent in self.regions.parents(at):
            if parent == home:
                break
            child = parent
        if child == at or self.regions.parent[child] != home or self.insts[child].op != "if" or child < load:
            return None
        other = self.regions.other[child]
        return other if 0 <= other < at else child

    def _beside(self, at: int, load: int) -> bool:
        """Whether two positions are in the same arm of the same region."""
        home = self.regions.parent[load]
        other = self.regions.other[home] if home >= 0 else -1
        return self.regions.parent[at] == home and (at < other) == (load < other)

    def _may_go(self, at: int) -> bool:
        """Pure instructions may, and accesses of cells that are declared beside them."""
        inst = self.insts[at]
        if inst.op not in ("load", "store"):
            return OPS[inst.op].pure
        declared = self.made.get(inst.operands[0].name)
        return declared is not None and self._beside(declared, at)


def sink(kernel: Kernel, context: Context) -> Kernel:
    insts = kernel.insts
    while True:  # an arm may have an `if` that needs what came into it
        if not any(map(is_shared_load, insts)) or not (goes := _Sink(insts).run()):
            return kernel if insts is kernel.insts else replace(kernel, insts=insts)
        for buffer, loc in dict.fromkeys((insts[at].operands[0], insts[at].loc) for at in sorted(goes) if is_shared_load(insts[at])):
            context.applied(f"`{source_name(buffer.name)}` is loaded where it is used, in one branch", kernel.name, loc)
        into: dict[int, list[Inst]] = {}
        for at, arm in sorted(goes.items()):
            into.setdefault(arm, []).append(insts[at])
        insts = tuple(x for at, inst in enumerate(insts) if at not in goes for x in (inst, *into.get(at, ())))


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels([sink(kernel, context) for kernel in plan.kernels])


SINK_LOADS = Pass("sink-loads", run, "load what one branch needs of shared memory there", needs=("thread",))
