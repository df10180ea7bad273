"""Race detection: for each element of a buffer, who read it, wrote it and updated it last, and when.

An accessor is a (block, thread) pair; *block* and *thread* stand for iteration of the outermost parallel loop and lane (or
inner iteration) where there are no threads yet. Two accesses of one element, at least one a write and not both atomic, race
 - always, from different blocks;
 - from different threads of a block, unless it passed a barrier between them;
 - but threads of one group of a warp are also ordered by a barrier of their group, or of a wider one;
 - and threads of several roles by what each role knows of the others (see `flat_roles`) instead of by barriers.
How far apart two accessors are is a level: THREAD the same; 1 .. 5 in one aligned group of 2 .. 32 threads; BLOCK; GRID in different
blocks. `spread` widens an accessor that stands for several to all that are as near.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

THREAD, BLOCK, GRID = 0, 6, 7
INNER = 32  # bits of the thread in an owner, and of the warp's clock in an epoch
_LOW = (1 << INNER) - 1
_LEVELS = np.array([*(x.bit_length() for x in range(32)), BLOCK], np.int8)  # by the bits in which two threads differ

_CLAIM = "a loop that says `@independent` is not, which `--on ast` shows; in IR, "
UNORDERED = f"{_CLAIM}place a barrier between the two"  # the ways out of races, of one block and of several
APART = f"{_CLAIM}use an atomic, or two launches"

_CONFLICTS = {"r": ("w", "rw"), "w": ("w", "r", "rw"), "rw": ("w", "r")}


class Who(NamedTuple):
    """Accessors of one instruction, lane by lane: owner = block << 32 | thread, epoch = block barriers << 32 | clock of the warp.

    The clock ticks at every barrier of a group; `groups` [level, lane] is its time at the last one that ordered the lane with those at
    that level, None where there was none. Where a block has several roles, `known` says how
    many epochs of each of them are ordered before this access by `role`.
    """

    owner: np.ndarray
    epoch: np.ndarray
    spread: int = THREAD
    groups: np.ndarray | None = None
    role: int = 0
    known: tuple[int, ...] = ()

    def since(self, role: int) -> np.ndarray:
        """The epoch of a role from which on its accesses are not ordered before this one."""
        return np.asarray(self.known[role] << INNER) if self.known else self.epoch


class Race(NamedTuple):
    """Element `at` (an offset into the buffer) was accessed in mode `mode` by `before` and now by `now` (owners)."""

    at: int
    mode: str
    before: int
    now: int


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far apart two owners are: THREAD (the same) .. GRID."""
    differ = a ^ b
    return np.where(differ >> INNER != 0, np.int8(GRID), _LEVELS.take(np.minimum(differ & _LOW, len(_LEVELS) - 1)))


@dataclass
class _Trace:
    """The accesses of one mode by one role: the latest set of unordered accessors of each element, owner -1 where there is none."""

    owner: np.ndarray
    epoch: np.ndarray
    spread: np.ndarray

    @classmethod
    def empty(cls, size: int) -> _Trace:
        return cls(np.full(size, -1, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int8))

    def unordered(self, at: np.ndarray, who: Who, role: int) -> np.ndarray:
        """For each access, THREAD where it comes after everything in the trace, which is of `role`, else how far apart the two are."""
        seen, epoch, since = self.owner[at], self.epoch[at], who.since(role)
        level = np.maximum(_apart(seen, who.owner), np.maximum(self.spread[at], who.spread))
        passed = epoch >> INNER < since >> INNER
        if who.groups is not None:
            near = np.minimum(level, BLOCK - 1)
            passed = passed | (level < BLOCK) & (epoch & _LOW < who.groups[near, np.arange(at.size)])
        return np.where((seen < 0) | (level < GRID) & passed, THREAD, level).astype(np.int8)

    def add(self, at: np.ndarray, who: Who, level: np.ndarray) -> None:
        """Record accesses: those ordered after the trace replace it, the others join its set, as do two lanes at one element."""
        new = level == THREAD
        self.owner[at[new]], self.epoch[at[new]], self.spread[at[new]] = who.owner[new], who.epoch[new], who.spread
        level = np.maximum(level, _apart(self.owner[at], who.owner))
        joined = level > THREAD
        np.maximum.at(self.spread, at[joined], level[joined])
        np.maximum.at(self.epoch, at[joined], who.epoch[joined])


@dataclass
class Shadow:
    """The accesses of one buffer of `size` elements in one launch."""

    size: int
    traces: dict[tuple[int, str], _Trace] = field(default_factory=dict)

    def access(self, mode: str, at: np.ndarray, who: Who) -> Race | None:
        """Record accesses of the elements `at` (one dimension, as are `who`'s arrays), or give the first race among them."""
        for (role, other), trace in self.traces.items():
            if other in _CONFLICTS[mode]:
                race = _race(trace, other, at, who, trace.unordered(at, who, role) > THREAD)
                if race is not None:
                    return race
        if (who.role, mode) not in self.traces:
            self.traces[who.role, mode] = _Trace.empty(self.size)
        own = self.traces[who.role, mode]
        own.add(at, who, np.zeros(at.shape, np.int8) if mode == "w" else own.unordered(at, who, who.role))
        return _race(own, mode, at, who, own.spread[at] > THREAD) if mode == "w" else None  # two lanes of one instruction

    def clear(self) -> None:
        """Forget everything: a launch has ended."""
        self.traces.clear()


def _race(trace: _Trace, mode: str, at: np.ndarray, who: Who, clash: np.ndarray) -> Race | None:
    """The first clash with a trace, if there is one."""
    if not clash.any():
        return None
    first = int(np.argmax(clash))
    return Race(int(at[first]), mode, int(trace.owner[at[first]]), int(who.owner[first]))
