"""What threads touch, and the widest accesses in which they could: found from addresses alone, by trying every width.

`Trace` notes which elements each thread of a run wants, and the accesses by which it gets them. It knows of no pass: not of loops, lanes,
attributes or proofs. A group is what one thread takes in a row, up to as many elements as are asked for. Its widest access is the most
bytes, a power of two up to 16, of which it could be filled with accesses that each begin at a multiple of themselves, and have no byte
that is not wanted; with accesses of several widths there may be fewer of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from vxc.interp.flat_counters import Counters

WIDTHS = (16, 8, 4, 2, 1)  # bytes of an access
WORD = 4  # of a register

Place = tuple[str, int]  # kernel, position of the instruction


class Group(NamedTuple):
    """`count` elements of `size` bytes from `address` on, which one thread takes by accesses of these (address, bytes), from `site` on."""

    array: str
    mode: str
    site: Place
    address: int
    count: int
    size: int
    got: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        return self.address + self.count * self.size

    @property
    def widest(self) -> int:
        """The bytes that each of its accesses might have."""
        return next(w for w in WIDTHS if self.got_by(w, self.address))

    @property
    def width(self) -> int:
        """The bytes of the narrowest access that it is got by."""
        return min(size for _, size in self.got)

    @property
    def filled(self) -> bool:
        """Whether the accesses are of one width and fill it, each byte once."""
        return self.got_by(self.width, self.address) == self.got

    @property
    def fewest(self) -> bool:
        """Whether the accesses fill it, each byte once, each at a multiple of itself, and no fewer such accesses could."""
        least = {self.end: 0}  # accesses that fill what is from an address on
        for at in reversed(range(self.address, self.end)):
            least[at] = 1 + min(least[at + w] for w in WIDTHS if at % w == 0 and at + w in least)
        return self.fits and len(self.got) == least[self.address]

    @property
    def fits(self) -> bool:
        """Whether the accesses fill it, each byte once, each at a multiple of itself."""
        ends = [self.address, *(at + size for at, size in self.got)]
        return [at for at, _ in self.got] == ends[:-1] and all(at % size == 0 for at, size in self.got) and ends[-1] == self.end

    @property
    def words(self) -> bool:
        """Whether all words in it go as words, if it has any, and it has parts of words at both ends."""
        first, last = -(-self.address // WORD) * WORD, self.end // WORD * WORD
        inside = {(at, WORD) for at in range(first, last, WORD)}
        return self.fits and self.address < first < last < self.end and inside <= {*self.got}

    @property
    def held(self) -> bool:
        """Whether it is loaded as vectors wider than it could be filled by: those that hold it, each at a multiple of itself, and no more
        of them than there would be of the narrower ones.
        """
        w = self.width
        vectors = {(at, w) for at in range(self.address // w * w, self.end, w)}
        return self.mode == "r" and w > self.widest and {*self.got} == vectors and len(self.got) * self.widest <= self.end - self.address

    def got_by(self, width: int, start: int) -> tuple[tuple[int, int], ...]:
        """Its accesses if they were of this width; none where one would begin at no multiple of it, or end behind the group."""
        whole = start % width == 0 and (self.end - start) % width == 0
        return tuple((at, width) for at in range(start, self.end, width)) if whole else ()


class Trace(Counters):
    """Of a run: the elements that each thread wants of each array, and the accesses that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.at = 0, 0
        self.wanted: dict[tuple[str, str], list] = defaultdict(list)  # by array and mode: time, site, threads, addresses, elements
        self.made: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)  # by array, time, thread: address, bytes
        self.size: dict[str, int] = {}

    def issue(self, m, step) -> None:
        self.time, self.at = self.time + 1, step.at

    def access(self, m, step, memory, flat, width=1) -> None:
        if memory.space == "param":
            for thread, address in zip(*_each(m, memory, flat)):
                self.made[memory.name, self.time, thread].append((address, width * memory.dtype.bytes))

    def touch(self, m, memory, flat, mode, width=1) -> None:
        if memory.space == "param":
            self.size[memory.name] = memory.dtype.bytes
            site = m.program.name, self.at
            self.wanted[memory.name, mode].append((self.time, site, *_each(m, memory, flat), width))

    def groups(self, most: int, rows: Mapping[str, range]) -> list[Group]:
        """All groups, of `most` elements or fewer, none in two of the `rows` (of those arrays, the addresses where one begins); one that
        several threads take alike, once.
        """
        found = []
        for (array, mode), touched in self.wanted.items():
            size, starts, open_ = self.size[array], rows.get(array, ()), {}
            for time, site, threads, addresses, width in touched:
                for thread, address in zip(threads, addresses):
                    got = self.made[array, time, thread]
                    last = open_.get(thread)
                    alike = width if width > 1 else site  # what is not unrolled has one place
                    if last and last[0] == (address, alike) and last[3] + width <= most and address not in starts:
                        last[0], last[3] = (address + width * size, alike), last[3] + width
                        last[4] += got
                        continue
                    if last:
                        found.append(_group(array, mode, size, last))
                    open_[thread] = [(address + width * size, alike), site, address, width, [*got]]
            found += [_group(array, mode, size, last) for last in open_.values()]
        return list(dict.fromkeys(found))


def _group(array: str, mode: str, size: int, run: list) -> Group:
    _, site, address, count, got = run
    return Group(array, mode, site, address, count, size, tuple(got))


def _each(m, memory, flat) -> tuple[list[int], list[int]]:
    """The threads that run, and the address of each."""
    mask = np.broadcast_to(m.mask, m.shape)
    addresses = np.broadcast_to(memory.base + flat * memory.dtype.bytes, m.shape)
    return m.owner[mask].tolist(), addresses[mask].tolist()
