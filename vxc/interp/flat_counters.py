"""What stage=thread kernels would cost: issued warp instructions, 32-byte sectors of global memory, shared bank conflicts.

A request is one memory instruction of one warp. Global memory moves whole sectors of 32 bytes. Shared memory has 32 banks
of 4 bytes: each phase (32 lanes of up to 4 bytes, 16 of 8, 8 of 16) takes as many cycles as the busiest bank has different words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from vxc.interp.flat_machine import Machine, Step
from vxc.interp.flat_memory import Memory

SECTOR, LINE = 32, 128  # bytes: a sector; all banks together
_NOWHERE = np.iinfo(np.int64).max


@dataclass
class Accesses:
    """Totals of one instruction: requests, sectors (global), cycles (shared) and the cycles that no conflict would take."""

    space: str
    requests: int = 0
    sectors: int = 0
    cycles: int = 0
    ideal: int = 0


@dataclass
class Counters:
    """Totals by (kernel, position of the instruction)."""

    issued: Counter[tuple[str, int]] = field(default_factory=Counter)
    accesses: dict[tuple[str, int], Accesses] = field(default_factory=dict)

    def issue(self, m: Machine, step: Step) -> None:
        """Count the warps (one a block) in which a lane runs this instruction."""
        if len(m.shape) == 2:
            self.issued[m.program.name, step.at] += int(np.broadcast_to(m.mask, m.shape).any(axis=1).sum())

    def access(self, m: Machine, step: Step, memory: Memory, flat: np.ndarray, width: int = 1) -> None:
        """Count an access of `width` elements, not across a sector, from the offsets `flat` on, in elements."""
        if len(m.shape) != 2 or memory.space == "local":
            return
        active = np.broadcast_to(m.mask, m.shape)
        byte = np.where(active, memory.base + np.broadcast_to(flat, m.shape) * memory.dtype.bits // 8, _NOWHERE)
        count = self.accesses.setdefault((m.program.name, step.at), Accesses(memory.space))
        count.requests += int(active.any(axis=1).sum())
        if memory.space != "shared":
            count.sectors += int(_distinct(np.where(active, byte // SECTOR, _NOWHERE)).sum())
            return
        unit = max(4, memory.dtype.bytes * width)
        phases = np.where(active, byte // unit, _NOWHERE).reshape(-1, LINE // unit)
        cycles = _busiest(phases, LINE // unit)
        count.cycles += int(cycles.sum())
        count.ideal += int((cycles > 0).sum())


def _distinct(rows: np.ndarray) -> np.ndarray:
    """How many different values each row holds, _NOWHERE apart."""
    rows = np.sort(rows, axis=1)
    new = np.ones(rows.shape, bool)
    new[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return (new & (rows != _NOWHERE)).sum(axis=1)


def _busiest(words: np.ndarray, banks: int) -> np.ndarray:
    """For each row of words, the most different words that fall into one bank (word % banks)."""
    return np.max([_distinct(np.where(words % banks == bank, words, _NOWHERE)) for bank in range(banks)], axis=0)
