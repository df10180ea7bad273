"""Stage=team with several roles: one agent for each, run in a seeded order, that wait for each other at rings and barriers.

An agent stands for its role in all blocks of a chunk; blocks whose use of rings may differ make chunks of their own (`alike`).
It pauses where it may have to wait, and goes on some time after it has to no more. What comes after what is known exactly, by
vector clocks: `known[q]` counts the *epochs* of role q whose accesses are ordered before what this role does now. A role ends
an epoch wherever it says that it is done (commit, release, barrier), and leaves what it knows there for those that wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from vxc.diag import VxcError
from vxc.interp.flat_control import plain
from vxc.interp.flat_machine import WAIT, Step
from vxc.interp.flat_races import INNER, Race, Who
from vxc.interp.flat_tile import TileMachine
from vxc.ir.kernel import Buffer, Inst
from vxc.ir.ops import RING_OPS
from vxc.ir.role_rules import EMPTIES, FILLS
from vxc.ir.walk import LOOPS, Regions
from vxc.target import WARP

_BEFORE = {"commit": "acquire", "release": "wait"}  # what a role has done with a use before this
_AFTER = {"acquire": "release", "wait": "commit"}  # what other roles have done before a role gets past this

Clock = list[int]  # epochs of each role


@dataclass
class Ring:
    """`users[op]` may do that; `done[op][role]` counts the uses with which a role has, `left[op][slot]` is what was known then."""

    inst: Inst
    users: dict[str, list[int]]
    done: dict[str, list[int]]
    left: dict[str, list[Clock]]

    @classmethod
    def of(cls, inst: Inst, bodies: Sequence[Sequence[Inst]]) -> Ring:
        """The ring that an instruction declares, not used yet; `bodies` are those of the roles."""
        roles = range(len(bodies))
        does = [{i.op for i in body if i.op in RING_OPS and i.operands[0] == inst.result} for body in bodies]
        users = {op: [q for q in roles if does[q] & set(ops)] for ops in (FILLS, EMPTIES) for op in ops}
        left = {op: [[0 for _ in roles] for _ in range(inst.attr("stages"))] for op in _BEFORE}
        return cls(inst, users, {op: [0 for _ in roles] for op in RING_OPS}, left)

    def slot(self, op: str, use: int) -> Clock:
        return self.left[op][use % self.inst.attr("stages")]

    def need(self, op: str, use: int) -> int:
        """The use that must be released (for an acquire) or committed (for a wait)."""
        return use - self.inst.attr("stages") if op == "acquire" else use

    def holding_up(self, op: str, use: int) -> list[int]:
        """The roles that an acquire of (or a wait for) a use has to wait for."""
        return [q for q in self.users[_AFTER[op]] if self.done[_AFTER[op]][q] <= self.need(op, use)]


@dataclass
class Team:
    """The agents of a chunk of blocks, their rings, and what was left at even and odd barriers of the block."""

    agents: list[Agent] = field(default_factory=list)
    rings: dict[str, Ring] = field(default_factory=dict)
    meetings: tuple[Clock, Clock] = ((), ())

    def at_thread(self, thread: int) -> Agent:
        return next(a for a in self.agents if thread < a.offset + a.width)


@dataclass
class Agent(TileMachine):
    """The machine of role `number` of a team, whose `width` threads begin at `offset`; `met` counts barriers of the block."""

    number: int = 0
    name: str = ""
    offset: int = 0
    width: int = 0
    team: Team = field(default_factory=Team)
    known: Clock = field(default_factory=list)
    met: int = 0

    def who(self, mode: str) -> Who:
        who = super().who(mode)
        return who._replace(owner=who.owner + self.offset, role=self.number, known=tuple(self.known))

    def describe(self, lane: tuple[int, ...]) -> str:
        return ", ".join(filter(None, (super().describe(lane), f"role {self.name}")))

    def raced(self, inst: Inst, element: str, race: Race, mode: str):
        (block, s), (other, t) = divmod(race.before, 1 << INNER), divmod(race.now, 1 << INNER)
        before, now = self.team.at_thread(s), self.team.at_thread(t)
        if block != other or before is now:
            return super().raced(inst, element, race, mode)
        text = f"roles {before.name} and {now.name} of iteration {block} access, and one writes, `{element}` with nothing to order the two"
        help = "fill a slot between `acquire` and `commit` of its use, read it between `wait` and `release`"
        return self.fault("E0725", text, inst, help=help)

    def tell(self, left: Clock) -> None:
        """End an epoch, leaving what is known then, of this role everything so far."""
        self.epoch += 1
        left[:] = map(max, left, self.known)
        left[self.number] = self.epoch

    def learn(self, left: Clock) -> None:
        self.known = list(map(max, self.known, left))

    def meet(self, step: Step) -> int | None:
        """A barrier: of the role, or of the block, for which it waits."""
        if step.inst.attr("scope") == "role":
            self.epoch += 1
            self.known[self.number] = self.epoch
            return None
        self.met += 1
        self.tell(self.team.meetings[self.met % 2])
        return WAIT

    def use(self, step: Step) -> tuple[Ring, int]:
        """The ring and the number of the use. Raises E0732 where it is not the one that comes next."""
        if self.depth > 1:
            raise self.fault("E0726", f"`{step.inst.op}` in a loop over lanes, which not all lanes run alike", step.inst)
        ring, use = self.team.rings[step.args[0].name], int(self.get(step.args[1]).flat[0])
        following = ring.done[step.inst.op][self.number]
        if use != following:
            text = f"`{step.inst.op}` of use {use} of {ring.inst.result} where use {following} is next"
            help = "each role takes the uses 0, 1, 2 .. of a ring in order, each once"
            raise self.fault("E0732", text, step.inst, self.first(self.mask), help)
        return ring, use

    def late(self, step: Step) -> list[str]:
        """What a paused agent waits for, in words; empty when it may go on."""
        if step.inst.op == "barrier":
            return [f"role {a.name} to come to a barrier" for a in self.team.agents if a.met < self.met]
        ring, use = self.use(step)
        what = f"{_AFTER[step.inst.op]} use {ring.need(step.inst.op, use)} of {ring.inst.result}"
        return [f"role {self.team.agents[q].name} to {what}" for q in ring.holding_up(step.inst.op, use)]

    def go_on(self, step: Step) -> None:
        if step.inst.op == "barrier":
            self.learn(self.team.meetings[self.met % 2])
            return
        ring, use = self.use(step)
        ring.done[step.inst.op][self.number] += 1
        self.learn(ring.slot(_AFTER[step.inst.op], use))


# Instructions --------------------------------------------------------------------------------------------------------------------


def ring(m: TileMachine, step: Step) -> None:
    """Its state begins with the roles."""


def pause(m: Agent, step: Step) -> int:
    """acquire and wait."""
    m.use(step)
    return WAIT


def done(m: Agent, step: Step) -> None:
    """commit and release."""
    op, before = step.inst.op, _BEFORE[step.inst.op]
    ring, use = m.use(step)
    if use >= ring.done[before][m.number]:
        text = f"`{op}` of use {use} of {ring.inst.result} without `{before}`"
        raise m.fault("E0732", text, step.inst, m.first(m.mask), f"`{before}` the use first")
    ring.done[op][m.number] += 1
    m.tell(ring.slot(op, use))


def role(m: TileMachine, step: Step) -> int | None:
    """The only role is run as it stands; the first of several runs them all, side by side."""
    regions = m.program.regions
    starts = [s.at for s in m.program.steps if s.inst.op == "role"]
    if len(starts) == 1:
        return plain(m, step)
    team = _team(m, starts)
    _run({a.number: (a, a.run(at + 1, regions.end[at])) for a, at in zip(team.agents, starts)}, m.rng)
    for ring in team.rings.values():
        _finished(m, team, ring)
    return regions.end[starts[-1]] + 1


def _team(m: TileMachine, starts: Sequence[int]) -> Team:
    regions, insts = m.program.regions, m.program.regions.insts
    bodies = [[insts[k] for k in regions.body(at)] for at in starts]
    clock = [0 for _ in starts]
    team = Team([], {i.result.name: Ring.of(i, bodies) for i in insts if i.op == "ring"}, (clock[:], clock[:]))
    state = {f.name: getattr(m, f.name) for f in fields(TileMachine)} | {"epoch": 0, "team": team}
    offset = 0
    for number, inst in enumerate(insts[at] for at in starts):
        own = {"env": dict(m.env), "storage": dict(m.storage), "frames": list(m.frames), "known": clock[:]}
        team.agents.append(Agent(**state | own, number=number, name=inst.attr("name"), offset=offset, width=WARP * inst.attr("warps")))
        offset += team.agents[-1].width
    return team


def _run(running: dict[int, tuple[Agent, Iterator[Step]]], rng: np.random.Generator) -> None:
    """Run agents to their end. Raises E0727 where all that are left wait."""
    paused: dict[int, Step] = {}
    while running:
        able = [q for q in running if q not in paused or not running[q][0].late(paused[q])]
        if not able:
            raise _deadlock([(running[q][0], paused[q]) for q in running])
        chosen = able[int(rng.integers(len(able)))]
        agent, instructions = running[chosen]
        if chosen in paused:
            agent.go_on(paused.pop(chosen))
        step = next(instructions, None)
        if step is None:
            del running[chosen]
        else:
            paused[chosen] = step


def _deadlock(waiting: list[tuple[Agent, Step]]) -> VxcError:
    texts = [f"role {a.name} waits for {' and '.join(a.late(step))}" for a, step in waiting]
    agent, step = waiting[0]
    help = "every use is acquired, committed, waited for and released; every role comes to the same barriers"
    return agent.fault("E0727", f"deadlock: {'; '.join(texts)}", step.inst, agent.first(agent.mask), help)


def _finished(m: TileMachine, team: Team, ring: Ring) -> None:
    """Raises E0733 where some use is not done with."""
    counts = {(op, team.agents[q].name): ring.done[op][q] for op, users in ring.users.items() for q in users}
    if len(set(counts.values())) > 1:
        (op, name), least = min(counts.items(), key=lambda item: item[1])
        text = f"{ring.inst.result} has had {max(counts.values())} uses, but role {name} did `{op}` of {least} of them"
        raise m.fault("E0733", text, ring.inst, m.first(m.mask), "each role runs through all uses of a ring")


def alike(regions: Regions) -> bool:
    """Whether all blocks do the same with rings and barriers: which uses, and whether at all, follows from what they share."""
    insts = regions.insts
    own: set[str | int] = set()  # values and variables that may differ between blocks, and instructions run in some only
    size = -1
    while len(own) != size:
        size = len(own)
        for i, inst in enumerate(insts):
            if inst.attr("map") == "blocks":
                own.add(inst.result.name)
                continue
            memory = any(isinstance(o, Buffer) and o.space not in ("cell", "ring") for o in inst.operands)
            if memory or regions.parent[i] in own or any(getattr(o, "name", None) in own for o in inst.operands):
                own |= {i, *_made(inst)}
                if inst.op in ("break", "continue"):
                    own.add(regions.innermost(i, LOOPS))
                if inst.op == "contribute":
                    own.add(insts[regions.parent[i]].operands[0].name)
    return not any(i in own for i, inst in enumerate(insts) if inst.op in (*RING_OPS, "barrier"))


def _made(inst: Inst) -> set[str]:
    """Names that hold something else after an instruction: its result, and the variables it names."""
    cells = {o.name for o in inst.operands if isinstance(o, Buffer) and o.space == "cell"}
    return cells | ({inst.result.name} if inst.result is not None else set())
