"""place-barriers: a barrier wherever lanes of one group meet through memory (stage=team).

Before: stage=team, no barriers.
After:  between two accesses of one element by different lanes, one of them a write, stands a `barrier`: of the group while
        it shares a warp with others (scope="group"), else of the block. None where no two lanes meet.

    store @s, %i, %v                               store @s, %i, %v
    %j = loop 0, %N {.., map="lanes"}      ->      barrier {scope="group", width=32}
      %0: f32 = load @s, %i                        %j = loop 0, %N {.., map="lanes"}

One walk in program order keeps, for each buffer that the kernel writes, who has accessed it since the last barrier. An
access is made by lane 0 (a store in row scope), by every lane (a load in row scope), atomically, or by the lane that its
`map="lanes"` loop gives an index tuple to. Two accesses with one token (same kind, and for the last the same tuple) are
made by the same lane or need no order, because the iterations of the loop are independent. A loop may follow itself, so
all its accesses are pending where it begins; tuples that vary with it count as unknown there.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from vxc.ir.kernel import Const, Inst, Kernel, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions
from vxc.pass_manager import Context, Pass

WARP = 32


@dataclass
class _Pending:
    """Tokens of the readers and writers of each buffer since the last barrier."""

    readers: dict[str, set[Hashable]] = field(default_factory=dict)
    writers: dict[str, set[Hashable]] = field(default_factory=dict)

    def conflicts(self, buffer: str, token: Hashable, writes: bool) -> bool:
        writers = self.writers.get(buffer, set())
        readers = self.readers.get(buffer, set()) if writes else set()
        return len(writers) > (token in writers) or len(readers) > (token in readers)

    def add(self, buffer: str, token: Hashable, writes: bool) -> None:
        (self.writers if writes else self.readers).setdefault(buffer, set()).add(token)

    def copy(self) -> _Pending:
        return _Pending({k: set(v) for k, v in self.readers.items()}, {k: set(v) for k, v in self.writers.items()})

    def join(self, other: _Pending) -> None:
        for mine, theirs in ((self.readers, other.readers), (self.writers, other.writers)):
            for buffer, tokens in theirs.items():
                mine.setdefault(buffer, set()).update(tokens)

    def clear(self) -> None:
        self.readers.clear()
        self.writers.clear()


@dataclass(frozen=True)
class _Token:
    """Who makes an access; `since` is the last position whose result its index tuple depends on, other than the lane's own loop."""

    key: Hashable
    since: int = -1


class _Numbering:
    """Value numbers: equal pure expressions of equal inputs get equal keys; the index of a lanes loop depends on its bounds alone."""

    def __init__(self):
        self.keys: dict[str, tuple[Hashable, int]] = {}
        self.ids: dict[Hashable, int] = {}

    def of(self, x) -> tuple[Hashable, int]:
        if isinstance(x, Const):
            return x, -1
        return self.keys.get(x.name, (x.name, -1))

    def define(self, at: int, inst: Inst) -> None:
        if not isinstance(inst.result, Value):
            return
        lanes = inst.op in ("reduce", "scan") or inst.attr("map") == "lanes"
        if OPS[inst.op].pure or lanes:
            parts = [self.of(x) for x in inst.operands if not lanes or isinstance(x, (Const, Value))]
            how = inst.attr("layout") if lanes else inst.attrs
            key = (inst.op if not lanes else "lanes", how, inst.result.dtype.name, *(k for k, _ in parts))
            number = self.ids.setdefault(key, len(self.ids))
            self.keys[inst.result.name] = number, max((s for _, s in parts), default=-1)
        else:
            self.keys[inst.result.name] = (inst.result.name, at)


def place(kernel: Kernel) -> tuple[list[Inst], list[Inst]]:
    """The kernel's instructions with barriers, and the instructions that a barrier was put before."""
    insts = kernel.insts
    regions = Regions.of(insts)
    tokens = _tokens(insts, regions)
    shared = {b for b, modes in _modes(insts, tokens).items() if "w" in modes}
    group = kernel.attr("group")
    barrier = Inst("barrier", (), None, (("scope", "group"), ("width", group)) if group <= WARP else (("scope", "block"),))
    out: list[Inst] = []
    before: list[Inst] = []
    pending, stack = _Pending(), []
    own: _Pending | None = None  # accesses of the cooperative loop being walked, which are independent of one another
    depth = 0
    for at, inst in enumerate(insts):
        cooperative = inst.op in ("reduce", "scan") or inst.attr("map") == "lanes"
        if own is None and (cooperative or at in tokens):
            span = range(at, regions.end[at] + 1) if cooperative else range(at, at + 1)
            found = [(b, t, w) for i in span for b, t, w in tokens.get(i, ()) if b in shared]
            if any(pending.conflicts(b, t.key, w) for b, t, w in found):
                out.append(replace(barrier, loc=inst.loc))
                before.append(inst)
                pending.clear()
            for b, t, w in found:
                pending.add(b, t.key, w)
            if cooperative:
                own, depth = pending, regions.end[at]
        elif own is None and OPS[inst.op].opens:
            _enter(inst, at, regions, tokens, shared, pending, stack)
        elif own is None and inst.op == "else":
            stack[-1][1], pending = pending, stack[-1][0].copy()
        elif own is None and inst.op == "end":
            for branch in stack.pop():
                if branch is not None:
                    pending.join(branch)
        out.append(inst)
        if own is not None and at == depth:
            own = None
    return out, before


def _enter(inst, at, regions, tokens, shared, pending, stack) -> None:
    """Note what holds where a region begins; a loop in row scope may follow itself."""
    loops = inst.op == "while" or (inst.op == "loop" and inst.attr("map") != "blocks")
    inside = _Pending()
    if loops:
        for i in regions.body(at):
            for buffer, token, writes in tokens.get(i, ()):
                if buffer in shared:
                    carried = (token.key, at) if token.since >= at else token.key
                    inside.add(buffer, carried, writes)
    stack.append([pending.copy(), inside if loops else None])
    if loops:
        pending.join(inside)


def _tokens(insts, regions: Regions) -> dict[int, list[tuple[str, _Token, bool]]]:
    """Position -> (buffer, token, writes) of each access to memory that lanes share."""
    numbers = _Numbering()
    tokens: dict[int, list[tuple[str, _Token, bool]]] = {}
    element_until = -1
    for at, inst in enumerate(insts):
        numbers.define(at, inst)
        if at > element_until and (inst.op in ("reduce", "scan") or inst.attr("map") == "lanes"):
            element_until = regions.end[at]
        for access in accesses(inst):
            if access.buffer.space in ("cell", "local"):
                continue
            writes = "w" in access.mode
            parts = [numbers.of(x) for x in access.box]
            if access.mode == "rw":
                token = _Token(("atomic", inst.attr("op")))
            elif at <= element_until:
                token = _Token(("lanes", *(k for k, _ in parts)), max((s for _, s in parts), default=-1))
            else:
                token = _Token("lane 0" if writes else "every lane")
            tokens.setdefault(at, []).append((access.buffer.name, token, writes))
    return tokens


def _modes(insts, tokens) -> dict[str, str]:
    modes: dict[str, str] = {}
    for found in tokens.values():
        for buffer, _, writes in found:
            modes[buffer] = modes.get(buffer, "") + ("w" if writes else "r")
    return {b: m for b, m in modes.items() if len(m) > 1}


def run(plan: Plan, context: Context) -> Plan:
    kernels = []
    for kernel in plan.kernels:
        if kernel.attr("group") > 1:
            insts, before = place(kernel)
            kernel = replace(kernel, insts=tuple(insts))
            for inst in before:
                context.applied("barrier: lanes of a group meet through memory here", kernel.name, inst.loc)
        kernels.append(kernel)
    return plan.with_kernels(kernels)


PLACE_BARRIERS = Pass("place-barriers", run, "put barriers where lanes meet through memory", needs=("team",), gives=("barriers",))
