"""place-barriers: a barrier wherever lanes of one group meet through memory (stage=team).

Before: stage=team, shared arrays have their offsets; no barriers.
After:  between two accesses of one element by different lanes, one of them a write, stands a `barrier`: of the lanes that run
        an iteration where they are a warp or less (scope="group"), else of the block; in a `map="teams"` loop, of the team. None
        where no two lanes meet. A kernel of several roles has those that its author wrote.

    store @s, %i, %v                               store @s, %i, %v
    %j = loop 0, %N {.., map="lanes"}      ->      barrier {scope="group", width=32}
      %0: f32 = load @s, %i                        %j = loop 0, %N {.., map="lanes"}

One walk in program order keeps, for each buffer that the kernel writes, who has accessed it since the last barrier. An
access is made by lane 0 (a store in row scope), by every lane (a load in row scope), atomically, or by the lane that its
`map="lanes"` loop gives an index tuple to. Two accesses with one token (same kind, and for the last the same tuple) are
made by the same lane or need no order, because the iterations of the loop are independent. A loop may follow itself, so
all its accesses are pending where it begins; tuples that vary with it count as others there, unless it is shown that no two
trips of the loop touch one element of the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field, replace
from typing import NamedTuple

from vxc.analysis.trips import Trips
from vxc.ir.kernel import Const, Inst, Kernel, Value, shared_bytes
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import OPENERS, Regions
from vxc.pass_manager import Context, Pass
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record, state
from vxc.target import WARP


class _Earlier(NamedTuple):
    """The token of an access in an earlier trip of the loop at a position, the tuple of which varies with that loop."""

    key: Hashable
    loop: int


@state
class _Pending:
    """Tokens of the readers and writers of each buffer since the last barrier, each with its first access."""

    readers: dict[str, dict[Hashable, Inst]] = field(default_factory=dict)
    writers: dict[str, dict[Hashable, Inst]] = field(default_factory=dict)

    def conflict(self, buffer: str, token: Hashable, writes: bool, apart: Callable[[Hashable], bool]) -> Inst | None:
        """A pending access to the buffer that may be of the same element by another lane, one of the two a write.

        `apart` tells of the token of another access whether that is of other elements.
        """
        found = {**(self.readers.get(buffer, {}) if writes else {}), **self.writers.get(buffer, {})}
        return next((inst for other, inst in found.items() if other != token and not apart(other)), None)

    def touched(self, buffer: str, writes: bool) -> Inst | None:
        """A pending access to other data in the same bytes that this one must wait for."""
        found = [*self.writers.get(buffer, {}).values(), *(self.readers.get(buffer, {}).values() if writes else ())]
        return found[0] if found else None

    def add(self, buffer: str, token: Hashable, writes: bool, inst: Inst) -> None:
        (self.writers if writes else self.readers).setdefault(buffer, {}).setdefault(token, inst)

    def copy(self) -> _Pending:
        return _Pending({k: dict(v) for k, v in self.readers.items()}, {k: dict(v) for k, v in self.writers.items()})

    def join(self, other: _Pending) -> None:
        for mine, theirs in ((self.readers, other.readers), (self.writers, other.writers)):
            for buffer, tokens in theirs.items():
                mine[buffer] = {**tokens, **mine.get(buffer, {})}

    def clear(self) -> None:
        self.readers.clear()
        self.writers.clear()


@record
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
        lanes = _spread(inst)
        if OPS[inst.op].pure or lanes:
            parts = [self.of(x) for x in inst.operands if not lanes or isinstance(x, (Const, Value))]
            # elements that may as well be dealt out several in a row are so in each loop for itself, and several threads that run one
            # iteration are several
            alone = inst.attr("vector") or " in " in inst.attr("layout", "")
            how = (inst.attr("layout"), inst.result.name if alone else "") if lanes else inst.attrs
            key = (inst.op if not lanes else "lanes", how, inst.result.dtype.name, *(k for k, _ in parts))
            number = self.ids.setdefault(key, len(self.ids))
            self.keys[inst.result.name] = number, max((s for _, s in parts), default=-1)
        else:
            self.keys[inst.result.name] = (inst.result.name, at)


class _Met(NamedTuple):
    """Why a barrier stands before an instruction: the access in it, one before it, and the lanes that wait."""

    before: Inst
    access: Inst
    earlier: Inst
    group: int

    def __str__(self) -> str:
        lanes = f"each group of {self.group} lanes" if self.group <= WARP else "the block"
        now, then = (f"`{source_name(x.operands[0].name)}`" for x in (self.access, self.earlier))
        place = f"line {self.earlier.loc[0]}" if self.earlier.loc else "an instruction before"
        if now != then:
            return f"barrier of {lanes}: {now}, {_DONE[self.access.op]} here, lies in bytes of {then}, {_DONE[self.earlier.op]} by {place}"
        return f"barrier of {lanes}: {now} is {_DONE[self.access.op]} here and {_DONE[self.earlier.op]} by {place}, by other lanes"


class _Spared(NamedTuple):
    """Why no barrier stands before an instruction that accesses a buffer, as the trips of a loop before did."""

    before: Inst
    buffer: str
    loop: Inst

    def __str__(self) -> str:
        name, index = source_name(self.buffer), source_name(self.loop.result.name)
        return f"no barrier between two trips over `{index}` for `{name}`: they touch different elements of it"


_Loops = dict[tuple[str, int], None]  # the buffer, and the position of the loop

_DONE = {"load": "read", "store": "written", "atomic": "updated"}


def place(kernel: Kernel) -> tuple[list[Inst], list[_Met | _Spared]]:
    """The kernel's instructions with barriers, and what each barrier is for, or why there is none."""
    walk = _Walk(kernel)
    walk.range(range(len(kernel.insts)), kernel.attr("group"))
    return walk.out, walk.met


def _spread(inst: Inst) -> bool:
    """Whether lanes, or teams of them, share the iterations."""
    return inst.op in ("reduce", "scan") or inst.attr("map") in ("lanes", "teams")


def _repeats(inst: Inst) -> bool:
    """Whether lanes together run the body several times."""
    return inst.op == "while" or (inst.op == "loop" and inst.attr("map") != "blocks")


class _Walk:
    """The walk in program order. `shared` names the buffers that matter, `overlaps` those that share bytes with another."""

    def __init__(self, kernel: Kernel):
        self.insts = kernel.insts
        self.regions = Regions.of(kernel.insts)
        self.tokens = _tokens(kernel.insts, self.regions)
        self.trips = Trips(kernel, self.regions)
        self.overlaps = _overlaps(kernel.insts)
        modes = _modes(self.tokens)
        self.shared = {b for b, m in modes.items() if ("w" in m and len(m) > 1) or self.overlaps.get(b)}
        self.shared |= {b for at, found in self.tokens.items() for b, token, writes in found if writes and self.follows_itself(at, token)}
        self.out: list[Inst] = []
        self.met: list[_Met | _Spared] = []

    def follows_itself(self, at: int, token: _Token) -> bool:
        """Whether a write by lanes comes again in a later trip of a loop around them, its elements being others or the same ones."""
        around = list(self.regions.parents(at))
        teams = [n for n, p in enumerate(around) if self.insts[p].attr("map") == "teams"]
        lanes = [n for n, p in enumerate(around) if _spread(self.insts[p]) and n not in teams] or teams
        outside = around[lanes[-1] + 1 :] if lanes else []
        trips = [p for p in outside if _repeats(self.insts[p]) and self.insts[p].attr("kind") != "parallel"]
        return any(token.since >= p for p in trips)

    def range(self, positions: range, group: int) -> None:
        """Place barriers in a body that `group` lanes run together."""
        pending, stack = _Pending(), []
        at = positions.start
        while at < positions.stop:
            inst = self.insts[at]
            spread = _spread(inst)
            if spread or at in self.tokens:
                last = self.regions.end[at] if spread else at
                self.meet(at, self.found(range(at, last + 1)), pending, group)
                if inst.attr("map") == "teams":
                    self.out.append(inst)
                    self.range(self.regions.body(at), inst.attr("lanes"))
                    self.out.append(self.insts[last])
                else:
                    self.out += self.insts[at : last + 1]
                at = last + 1
                continue
            if OPS[inst.op].opens:
                self.enter(inst, at, pending, stack)
            elif inst.op == "else":
                stack[-1][1], pending = pending, stack[-1][0].copy()
            elif inst.op == "end":
                for branch in stack.pop():
                    if branch is not None:
                        pending.join(branch)
            self.out.append(inst)
            at += 1

    def found(self, positions: range) -> list[tuple[str, Hashable, bool, Inst]]:
        return [(b, t.key, w, self.insts[i]) for i in positions for b, t, w in self.tokens.get(i, ()) if b in self.shared]

    def meet(self, at: int, found: list[tuple[str, Hashable, bool, Inst]], pending: _Pending, group: int) -> None:
        """Put a barrier before what would meet pending accesses, then count its own among them."""
        inst = self.insts[at]
        spared: _Loops = {}
        pairs = ((x, self.earlier(at, pending, b, t, w, spared)) for b, t, w, x in found)
        access, earlier = next((pair for pair in pairs if pair[1] is not None), (inst, None))
        if earlier is not None:
            scope = (("scope", "group"), ("width", group)) if group <= WARP else (("scope", "block"),)
            self.out.append(Inst("barrier", (), None, scope, inst.loc))
            self.met.append(_Met(inst, access, earlier, group))
            pending.clear()
        else:
            self.met += [_Spared(inst, buffer, self.insts[loop]) for buffer, loop in spared]
        for b, t, w, x in found:
            pending.add(b, t, w, x)

    def earlier(self, at: int, pending: _Pending, buffer: str, token: Hashable, writes: bool, spared: _Loops) -> Inst | None:
        """The pending access, if any, that one to a buffer in the instruction at a position must wait for.

        `spared` gets the loops, of earlier trips of which it need not.
        """

        def apart(other: Hashable) -> bool:
            # behind the loop its trips are pending as well, and nothing is known of what follows it
            if not isinstance(other, _Earlier) or at > self.regions.end[other.loop] or not self.trips.apart(other.loop, buffer):
                return False
            spared[buffer, other.loop] = None
            return True

        over = (pending.touched(other, writes) for other in self.overlaps.get(buffer, ()))
        return pending.conflict(buffer, token, writes, apart) or next((x for x in over if x), None)

    def enter(self, inst: Inst, at: int, pending: _Pending, stack: list) -> None:
        """Note what holds where a region begins; a loop in row scope may follow itself."""
        loops = _repeats(inst)
        inside = _Pending()
        if loops:
            for i in self.regions.body(at):
                for buffer, token, writes in self.tokens.get(i, ()):
                    if buffer in self.shared:
                        inside.add(buffer, _Earlier(token.key, at) if token.since >= at else token.key, writes, self.insts[i])
        stack.append([pending.copy(), inside if loops else None])
        if loops:
            pending.join(inside)


def _tokens(insts, regions: Regions) -> dict[int, list[tuple[str, _Token, bool]]]:
    """Position -> (buffer, token, writes) of each access to memory that lanes share."""
    numbers = _Numbering()
    tokens: dict[int, list[tuple[str, _Token, bool]]] = {}
    element_until = teams_until = -1
    for at, inst in enumerate(insts):
        numbers.define(at, inst)
        if inst.op in OPENERS:
            if at > teams_until and inst.attr("map") == "teams":
                teams_until = regions.end[at]
            if at > element_until and (inst.op in ("reduce", "scan") or inst.attr("map") == "lanes"):
                element_until = regions.end[at]
        for access in accesses(inst):
            if access.buffer.space in ("cell", "local", "fragment"):  # a fragment's elements are each one lane's own
                continue
            writes = "w" in access.mode
            parts = [numbers.of(x) for x in access.box]
            place, since = tuple(k for k, _ in parts), max((s for _, s in parts), default=-1)
            if access.mode == "rw":
                token = _Token(("atomic", inst.attr("op")))
            elif at <= element_until:
                token = _Token(("lanes", *place), since)
            else:
                token = _Token("lane 0" if writes else "every lane")
            if at <= teams_until:  # who of the block it is depends on the team: it meets every other access
                token = _Token((token.key, "team", teams_until), at)
            tokens.setdefault(at, []).append((access.buffer.name, token, writes))
    return tokens


def _modes(tokens) -> dict[str, str]:
    modes: dict[str, str] = {}
    for found in tokens.values():
        for buffer, _, writes in found:
            modes[buffer] = modes.get(buffer, "") + ("w" if writes else "r")
    return modes


def _overlaps(insts) -> dict[str, tuple[str, ...]]:
    """For each shared array, the others that lie over some of its bytes."""
    spans = {}
    for inst in insts:
        if inst.op == "shared" and inst.attr("offset") is not None:
            spans[inst.result.name] = (inst.attr("offset"), inst.attr("offset") + shared_bytes(inst))
    return {a: tuple(b for b in spans if b != a and spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1]) for a in spans}


def _one_lane(inst: Inst) -> bool:
    """Whether this is a loop whose iterations each have their effects by one lane: rows in flight, columns."""
    return inst.op == "loop" and bool(inst.attr("flight") or inst.attr("columns"))


def run(plan: Plan, context: Context) -> Plan:
    kernels = []
    for kernel in plan.kernels:
        if kernel.attr("group") > 1 and sum(inst.op == "role" for inst in kernel.insts) == 1 and not any(map(_one_lane, kernel.insts)):
            insts, met = place(kernel)
            kernel = replace(kernel, insts=tuple(insts))
            for one in met:
                context.applied(str(one), kernel.name, one.before.loc)
        kernels.append(kernel)
    return plan.with_kernels(kernels)


PLACE_BARRIERS = Pass("place-barriers", run, "put barriers where lanes meet through memory", needs=("team", "arena"), gives=("barriers",))
