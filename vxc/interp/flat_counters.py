"""What stage=thread kernels would cost: issued warp instructions, 32-byte sectors of global memory, shared bank conflicts.

A request is one memory instruction of one warp in which a lane runs. Global memory moves whole sectors of 32 bytes; every array
begins at the beginning of one, as allocations do (CUDA C++ Programming Guide, "Device Memory Accesses"). What a bank conflict costs
is said in `layout/banks.py`.

Counting is by (kernel, position of the instruction), of accesses also by the array (`move.async` has two of them) and by the bytes of one
(a `move` may be several), and only where a `Counters` is passed to the interpreter.
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
    requests: int = 0
    threads: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    cycles: int = 0
    ideal_cycles: int = 0
    turns: int = 0


@dataclass
class Counters:
    """Totals by place. Of a launch of more than `most_blocks` blocks, only some of the first, the middle and the last are run.

    Then what it leaves is not what the kernel computes: `blocks` has (blocks run, blocks of the grid) by kernel.
    """

    most_blocks: int | None = None
    issued: Counter[Place] = field(default_factory=Counter)  # warps
    threads: Counter[Place] = field(default_factory=Counter)
    divergent: Counter[Place] = field(default_factory=Counter)  # warps whose lanes part at this `if`
    accesses: dict[tuple[str, int, str, int], Accesses] = field(default_factory=dict)
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)

    def chunks(self, kernel: str, grid: int, size: int) -> Iterator[tuple[int, int]]:
        """The (first, number) of the blocks to run together, at most `size`."""
        runs = [range(grid)]
        if self.most_blocks is not None and grid > self.most_blocks:
            third = max(1, self.most_blocks // 3)
            runs = [range(third), range((grid - third) // 2, (grid - third) // 2 + third), range(grid - third, grid)]
        self.blocks[kernel] = sum(map(len, runs)), grid
        for blocks in runs:
            yield from ((first, min(size, blocks.stop - first)) for first in blocks[::size])

    def issue(self, m: Machine, step: Step) -> None:
        """Count an instruction that is about to run."""
        if len(m.shape) != 2:
            return
        place = m.program.name, step.at
        warps, threads = _running(m)
        self.issued[place] += warps
        self.threads[place] += threads
        if step.inst.op == "if":
            taken = condition(m, step)
            arms = (np.broadcast_to(lanes, m.shape).any(axis=1) for lanes in (both(m.mask, taken), minus(m.mask, taken)))
            self.divergent[place] += int(np.logical_and(*arms).sum())

    def access(self, m: Machine, step: Step, memory: Memory, flat: np.ndarray, width: int = 1) -> None:
        """Count an access of `width` elements, not across a sector, from the offsets `flat` on, in elements."""
        if len(m.shape) != 2 or memory.space == "local":
            return
        size = max(1, memory.dtype.bits * width // 8)
        warps, threads = _running(m)
        byte = np.broadcast_to(memory.base + flat * memory.dtype.bits // 8, m.shape)
        byte = byte if m.mask is True else np.where(m.mask, byte, NOWHERE)
        count = self.accesses.setdefault((m.program.name, step.at, memory.name, size), Accesses(memory.space, size))
        count.requests += warps
        count.threads += threads
        if step.inst.op == "atomic":
            count.turns += int(_most_alike(byte).sum())
        if memory.space != "shared":
            count.sectors += int(_count_different(byte // SECTOR).sum())
            count.ideal_sectors += int((-(-_count_different(byte // size) * size // SECTOR)).sum())
            return
        taken = cycles(byte, size)
        count.cycles += int(taken.sum())
        count.ideal_cycles += int((taken > 0).sum())


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
