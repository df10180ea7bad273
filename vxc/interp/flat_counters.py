"""What stage=thread kernels would cost: issued warp instructions, 32-byte sectors of global memory, shared bank conflicts.

A request is one memory instruction of one warp in which a lane runs. Global memory moves whole sectors of 32 bytes; every array
begins at the beginning of one, as allocations do (CUDA C++ Programming Guide, "Device Memory Accesses"). What a bank conflict costs
is said in `layout/banks.py`.

The least that a launch could move is the sectors that hold what it reads and has not written before, those that it writes, and those that
it updates by atomics: each counts once, however many requests touch it.

Counting is by (kernel, position of the instruction), of accesses also by the array (`move.async` has two of them) and by the bytes of one
(a `move` may be several), and only where a `Counters` is passed to the interpreter. Where only some blocks run, each counts for as many as
it stands for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from vxc.interp.flat_lanes import both, minus
from vxc.interp.flat_machine import Machine, Step, condition
from vxc.interp.flat_memory import Memory
from vxc.layout.banks import FAR, NOWHERE, cycles, different

SECTOR = 32  # bytes
GOLDEN = (5**0.5 - 1) / 2

Place = tuple[str, int]  # kernel, position of the instruction


@dataclass
class Accesses:
    """Totals of one instruction; `bytes` is what one thread accesses at a time.

    `requests` by warps, `threads` in them. Of global memory, `sectors` and the least that so many different bytes could lie in,
    `ideal_sectors`; of shared memory, `cycles` and those that no conflict would take, `ideal_cycles`. Of an atomic, `turns` by the
    lanes of a request that meet at one element, the most of each.
    """

    space: str
    bytes: int
    requests: float = 0
    threads: float = 0
    sectors: float = 0
    ideal_sectors: float = 0
    cycles: float = 0
    ideal_cycles: float = 0
    turns: float = 0


class Touched:
    """Which sectors of a global array one launch has to move. It has so many `elements` of `bits`, from `base` bytes into a sector on."""

    def __init__(self, elements: int, bits: int, base: int):
        self.bits, self.base = bits, base
        self.written = np.zeros(elements, bool)
        self.seen = {mode: np.zeros((base + elements * bits // 8) // SECTOR + 1, bool) for mode in ("r", "w", "rw")}
        self.weighted: Counter[str] = Counter()

    def touch(self, elements: np.ndarray, mode: str, weight: float) -> None:
        if mode == "r":
            elements = elements[~self.written[elements]]
        else:
            self.written[elements] = True
        sectors = np.unique((self.base + elements * self.bits // 8) // SECTOR)
        seen = self.seen[mode]
        self.weighted[mode] += weight * int(np.count_nonzero(~seen[sectors]))
        seen[sectors] = True

    @property
    def sectors(self) -> float:
        """No more than there are, where blocks stand for others that touch the same."""
        return sum(min(n, len(self.seen[mode])) for mode, n in self.weighted.items())


@dataclass
class Counters:
    """Totals by place. Of a launch of more than `most_blocks` blocks, only so many are run: the first, the last, and some spread over those
    in between, which count for all of these.

    Then what it leaves is not what the kernel computes: `blocks` has (blocks run, blocks of the grid) by kernel.
    """

    most_blocks: int | None = None
    issued: Counter[Place] = field(default_factory=Counter)  # warps
    threads: Counter[Place] = field(default_factory=Counter)
    divergent: Counter[Place] = field(default_factory=Counter)  # warps whose lanes part at this `if`
    accesses: dict[tuple[str, int, str, int], Accesses] = field(default_factory=dict)
    touched: dict[tuple[str, str], Touched] = field(default_factory=dict)  # by kernel and array
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    weight: float = 1  # blocks that each one that is being run stands for

    def chunks(self, kernel: str, grid: int, size: int) -> Iterator[np.ndarray]:
        """The numbers of the blocks to run together, at most `size`."""
        if self.most_blocks is None or grid <= self.most_blocks:
            self.blocks[kernel] = grid, grid
            yield from (np.arange(at, min(at + size, grid)) for at in range(0, grid, size))
            return
        runs = _sample(grid, self.most_blocks)
        self.blocks[kernel] = sum(len(blocks) for blocks, _ in runs), grid
        for blocks, weight in runs:
            self.weight = int(weight) if weight == int(weight) else weight
            yield from (blocks[at : at + size] for at in range(0, len(blocks), size))
        self.weight = 1

    def issue(self, m: Machine, step: Step) -> None:
        """Count an instruction that is about to run."""
        if len(m.shape) != 2:
            return
        place = m.program.name, step.at
        warps, threads = _running(m)
        self.issued[place] += self.weight * warps
        self.threads[place] += self.weight * threads
        if step.inst.op == "if":
            taken = condition(m, step)
            arms = (np.broadcast_to(lanes, m.shape).any(axis=1) for lanes in (both(m.mask, taken), minus(m.mask, taken)))
            self.divergent[place] += self.weight * int(np.logical_and(*arms).sum())

    def access(self, m: Machine, step: Step, memory: Memory, flat: np.ndarray, width: int = 1) -> None:
        """Count an access of `width` elements, not across a sector, from the offsets `flat` on, in elements."""
        if len(m.shape) != 2 or memory.space == "local":
            return
        size = max(1, memory.dtype.bits * width // 8)
        warps, threads = (self.weight * n for n in _running(m))
        byte = np.broadcast_to(memory.base + flat * memory.dtype.bits // 8, m.shape)
        byte = byte if m.mask is True else np.where(m.mask, byte, NOWHERE)
        count = self.accesses.setdefault((m.program.name, step.at, memory.name, size), Accesses(memory.space, size))
        count.requests += warps
        count.threads += threads
        if step.inst.op == "atomic":
            count.turns += self.weight * int(_most_alike(byte).sum())
        if memory.space != "shared":
            count.sectors += self.weight * int(_count_different(byte // SECTOR).sum())
            count.ideal_sectors += self.weight * int((-(-_count_different(byte // size) * size // SECTOR)).sum())
            return
        taken = cycles(byte, size)
        count.cycles += self.weight * int(taken.sum())
        count.ideal_cycles += self.weight * int((taken > 0).sum())

    def touch(self, m: Machine, memory: Memory, flat: np.ndarray, mode: str, width: int = 1) -> None:
        """Note which elements of a global array an access is of: `width` from each of the offsets `flat` on."""
        if len(m.shape) != 2 or memory.space in ("local", "shared"):
            return
        key = m.program.name, memory.name
        if key not in self.touched:
            self.touched[key] = Touched(memory.data.size, memory.dtype.bits, memory.base % SECTOR)
        at = np.broadcast_to(flat, m.shape)[np.broadcast_to(m.mask, m.shape)]
        self.touched[key].touch((at[:, None] + np.arange(width)).reshape(-1), mode, self.weight)


def _sample(grid: int, most: int) -> list[tuple[np.ndarray, float]]:
    """Blocks of a grid, and how many each stands for: a sixth of `most` from its start and its end, which stand for themselves, the rest
    spread over what is between, at distances without a period, so that they meet every column of tiles about as often as it is there.
    """
    edge = max(1, most // 6)
    between, count = grid - 2 * edge, max(1, most - 2 * edge)
    k = np.arange(count)
    inner = edge + np.unique(((k + k * GOLDEN % 1) * between / count).astype(np.int64))
    inner = inner[inner < grid - edge]
    return [(np.arange(edge), 1), (inner, between / len(inner)), (np.arange(grid - edge, grid), 1)]


def _running(m: Machine) -> tuple[int, int]:
    """How many warps, one a row of the machine, have a lane that runs, and how many lanes do."""
    if m.mask is True:
        return m.shape[0], m.shape[0] * m.shape[1]
    active = np.broadcast_to(m.mask, m.shape)
    return int(np.count_nonzero(active.any(axis=1))), int(np.count_nonzero(active))


def _count_different(rows: np.ndarray) -> np.ndarray:
    """How many different values each row holds."""
    return np.count_nonzero(different(np.sort(rows, axis=1)), axis=1)


def _most_alike(rows: np.ndarray) -> np.ndarray:
    """The most lanes of each row that have one value."""
    rows = np.sort(rows, axis=1)
    here = rows < FAR
    most = here.any(axis=1).astype(np.int64)
    for apart in range(1, rows.shape[1]):
        alike = ((rows[:, apart:] == rows[:, :-apart]) & here[:, apart:]).any(axis=1)
        if not alike.any():
            break
        most[alike] = apart + 1
    return most
