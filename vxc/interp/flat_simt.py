"""Stage=thread: warps as agents that run in a seeded order and wait for each other at block barriers.

An agent stands for warp w of *all* blocks of a chunk; its values have the axes [blocks, 32]. Between two barriers each agent
runs alone, so what depends on their order is a race, and races are found whatever the order. Where nothing but races could
depend on it (no block barrier, shared memory, atomic or print), one agent stands for all warps, with axes [blocks * warps, 32].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from vxc.diag import VxcError
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_lanes import lanes, minus
from vxc.interp.flat_machine import WAIT, Machine, Program, Step
from vxc.interp.flat_memory import Memory, per_lane
from vxc.interp.flat_races import APART, BLOCK, INNER, UNORDERED, Race, Shadow, Who
from vxc.ir.kernel import Inst, placement_of
from vxc.target import WARP

_LIVE = 1 << 24  # elements alive at once, over all values of all warps of a chunk
_CHUNK = 4096  # blocks


@dataclass
class Blocks:
    """What the warps of a chunk of blocks share: `barriers` [blocks, 1] counts the block barriers each block has passed."""

    numbers: np.ndarray
    barriers: np.ndarray
    shared: dict[str, Memory] = field(default_factory=dict)
    arena: np.ndarray | None = None  # the bytes that planned shared arrays lie in, block after block

    @property
    def count(self) -> int:
        return len(self.numbers)


@dataclass
class WarpMachine(Machine):
    """Warps `warps` of every block, a row for each: those of a block one after another.

    `clock` counts the barriers of groups in them, `groups` has its times (see `flat_races.Who`).

    """

    warps: range = range(0)
    blocks: Blocks | None = None
    clock: int = 0
    pending: list = field(default_factory=list)  # what `move.async` has started (see `flat_move`)
    groups: np.ndarray | None = None

    def __post_init__(self):
        block, warp = np.divmod(np.arange(self.blocks.count * len(self.warps)).reshape(-1, 1), len(self.warps))
        self.shape = (block.size, WARP)
        self.block_ids = self.blocks.numbers[block]  # [rows, 1]
        self.threads = (self.warps.start + warp) * WARP + np.arange(WARP)  # [rows, 32]
        self.owner = self.block_ids << INNER | self.threads
        self.alive = self.mask = lanes(self.threads < self.program.attrs["threads"])  # a block's last warp may be incomplete

    def who(self, mode: str) -> Who:
        passed = self.blocks.barriers << INNER if len(self.warps) == 1 else 0
        return Who(self.owner, np.broadcast_to(passed + self.clock, self.shape), groups=self.groups)

    def meet(self, lanes: np.ndarray, width: int) -> None:
        """Groups of `width` threads have met: order what they did before with what they do after."""
        self.clock += 1
        if self.groups is None:
            self.groups = np.zeros((BLOCK, *self.shape), np.int64)
        self.groups[: width.bit_length(), lanes] = self.clock

    def describe(self, lane: tuple[int, ...]) -> str:
        return f"thread {self.threads[lane]} of block {self.block_ids[lane[0], 0]}"

    def raced(self, inst: Inst, element: str, race: Race, mode: str) -> VxcError:
        (a, s), (b, t) = (divmod(owner, 1 << INNER) for owner in sorted((race.before, race.now)))
        what = "both write" if {race.mode, mode} == {"w"} else "access, and one writes,"
        if a == b:
            pair = f"threads {s} and {t} of block {a}" if s != t else f"several threads of block {a}"
            return self.fault("E0725", f"{pair} {what} `{element}` with no barrier between", inst, help=UNORDERED)
        return self.fault("E0725", f"blocks {a} and {b} {what} `{element}`", inst, help=APART)


def block_index(m: WarpMachine, step: Step) -> None:
    m.env[step.inst.result.name] = np.broadcast_to(m.block_ids, m.shape).astype(step.inst.result.dtype.numpy)


def thread_index(m: WarpMachine, step: Step) -> None:
    m.env[step.inst.result.name] = np.broadcast_to(m.threads, m.shape).astype(step.inst.result.dtype.numpy)


def shared(m: WarpMachine, step: Step) -> None:
    """One copy for each block, made by the warp that comes first."""
    name = step.inst.result.name
    if name not in m.blocks.shared:
        memory = per_lane(step.inst.result, (m.blocks.count, 1), m.debug, placement_of(step.inst))
        if step.inst.attr("offset") is not None:
            _into_arena(m, memory, step.inst.attr("offset"))
        memory.races = Shadow(memory.data.size) if m.debug else None
        m.blocks.shared[name] = memory
    m.storage[name] = m.blocks.shared[name]


def _into_arena(m: WarpMachine, memory: Memory, offset: int) -> None:
    """Put an array where it lies in its block's arena, over whatever else lies there."""
    size = m.program.attrs["shared_bytes"]
    if m.blocks.arena is None:
        m.blocks.arena = np.full(m.blocks.count * size, 0x5A, np.uint8)
    memory.data = m.blocks.arena.view(memory.data.dtype)
    memory.base = offset % 16
    memory.lead = (np.arange(m.blocks.count) * size + offset)[:, None] // memory.data.itemsize
    memory.written = np.zeros(memory.data.size, bool) if m.debug else None


# Shuffles ------------------------------------------------------------------------------------------------------------------------

_LANE = np.arange(WARP)


def shuffle(m: WarpMachine, step: Step) -> None:
    """All shuffles: they differ only in the lane that they read. Raises E0728 where that lane does not run."""
    inst, width = step.inst, step.inst.attr("width")
    value = np.broadcast_to(m.get(step.args[0]), m.shape)
    lane = np.broadcast_to(_SOURCES[inst.op](_LANE % width, inst.attr("distance"), width, *map(m.get, step.args[1:])), m.shape)
    lane = _LANE // width * width + np.where((lane >= 0) & (lane < width), lane, _LANE % width)
    asleep = minus(m.mask, lanes(np.take_along_axis(np.broadcast_to(m.mask, m.shape), lane, axis=1)))
    if asleep is not False:
        at = m.first(asleep)
        text = f"the shuffle reads lane {lane[at]}, which does not run it"
        raise m.fault("E0728", text, inst, at, "shuffle where all lanes of the group run")
    m.env[inst.result.name] = np.take_along_axis(value, lane, axis=1)


_SOURCES = {
    "shfl_xor": lambda lane, distance, width: lane ^ distance,
    "shfl_up": lambda lane, distance, width: lane - distance,
    "shfl_idx": lambda lane, distance, width, index: index % width,
}


# Barriers ------------------------------------------------------------------------------------------------------------------------


def barrier(m: WarpMachine, step: Step) -> int | None:
    """Raises E0726 where some lanes of a block (or of a group) have not come along."""
    block = step.inst.attr("scope") == "block"
    width = WARP if block else step.inst.attr("width")
    here = np.broadcast_to(m.mask, m.shape).reshape(m.shape[0], -1, width)
    alive = np.broadcast_to(m.alive, m.shape).reshape(here.shape)
    absent = here.any(axis=2, keepdims=True) & alive & ~here
    if absent.any():
        at = m.first(absent.reshape(m.shape))
        text = f"barrier in divergent code: not all threads of the {'block' if block else 'group'} reach it, one does not"
        raise m.fault("E0726", text, step.inst, at, "move the barrier out of the branch or loop")
    if block:
        return WAIT
    m.meet(here.reshape(m.shape), width)
    return None


def run_grid(program: Program, env: dict, storage: dict, grid: int, options: dict) -> None:
    """Run all blocks of a launch, a chunk at a time. `options` are further fields of the machine."""
    warps = -(-program.attrs["threads"] // WARP)
    at_once = _blocks_at_once(program, warps)
    rows = [range(w, w + 1) for w in range(warps)] if may_meet(s.inst for s in program.steps) else [range(warps)]
    counters = options["counters"] or Counters()
    for numbers in counters.chunks(program.name, grid, at_once):
        blocks = Blocks(numbers, np.zeros((len(numbers), 1), np.int64))
        options = options | {"blocks": blocks}
        _run([WarpMachine(program, dict(env), dict(storage), warps=w, **options) for w in rows], blocks, options["rng"])


def may_meet(insts: Iterable[Inst]) -> bool:
    """Whether the order of the warps may matter to a kernel without races."""
    return any(i.op in ("shared", "atomic", "print") or i.attr("scope") == "block" for i in insts)


def _blocks_at_once(program: Program, warps: int) -> int:
    """How many blocks to run together, memory staying bounded."""
    declared = sum(prod(int(n.value) for n in s.inst.result.shape) for s in program.steps if s.inst.op in ("local", "shared"))
    return min(max(1, _LIVE // (WARP * warps * (len(program.steps) + declared))), _CHUNK)


def _run(agents: list[WarpMachine], blocks: Blocks, rng: np.random.Generator) -> None:
    """Run the warps of a chunk to their end. Raises E0727 where all that is left waits."""
    running = {agent.warps.start: agent.run() for agent in agents}
    while running:
        waiting: dict[int, Step] = {}
        for warp in rng.permutation(sorted(running)).tolist():
            step = next(running[warp], None)
            if step is None:
                del running[warp]
            else:
                waiting[warp] = step
        if waiting:
            _meet(agents, waiting)
            blocks.barriers = blocks.barriers + _arrived(agents[next(iter(waiting))])[:, None]


def _arrived(m: WarpMachine) -> np.ndarray:
    """Which blocks' warps run now."""
    return np.broadcast_to(m.mask, m.shape).any(axis=1)


def _meet(agents: list[WarpMachine], waiting: dict[int, Step]) -> None:
    """Check that the warps of every block have come to the same barrier. Raises E0727, as they would wait for ever."""
    first = min(waiting)
    step, blocks = waiting[first], _arrived(agents[first])
    for w, agent in enumerate(agents):
        block = int(np.argmax(blocks))
        if w not in waiting:
            text = f"warp {first} waits at a barrier, but warp {w} has ended"
        elif waiting[w].at != step.at:
            text = f"warps {first} and {w} wait at different barriers"
        elif (differ := _arrived(agent) != blocks).any():
            block = int(np.argmax(differ))
            here, absent = (first, w) if blocks[block] else (w, first)
            text = f"warp {here} waits at a barrier that warp {absent} does not reach"
        else:
            continue
        help = "let all threads of the block reach the same barriers"
        raise agents[first].fault("E0727", f"deadlock: {text} (block {agent.blocks.numbers[block]})", step.inst, help=help)
