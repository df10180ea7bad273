"""Device memory for the time of a call of several launches: one block for each stream, kept and used again, so that a call allocates
nothing. What is put on one stream runs in order, so calls on it may share; those of other threads on the same stream wait their turn.

While a graph is captured the memory is the graph's own: it may be replayed on any stream, beside other calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from vxc.runtime.driver import Driver

_ALIGNMENT = 256


class _Block:
    def __init__(self) -> None:
        self.lock, self.address, self.nbytes = Lock(), 0, 0


class Workspaces:
    """The blocks of one device, by stream."""

    def __init__(self, cuda: Driver) -> None:
        self._cuda = cuda
        self._blocks: dict[int, _Block] = {}
        self._lock = Lock()

    @contextmanager
    def held(self, nbytes: int, stream: int) -> Iterator[int]:
        """The address of so many bytes, for what is put on the stream within."""
        if self._cuda.capturing(stream):
            address = self._cuda.allocate_async(nbytes, stream)
            try:
                yield address
            finally:
                self._cuda.free_async(address, stream)
            return
        with self._lock:
            block = self._blocks.setdefault(self._cuda.stream_id(stream), _Block())
        with block.lock:
            if block.nbytes < nbytes:
                self._grow(block, nbytes, stream)
            yield block.address

    def _grow(self, block: _Block, nbytes: int, stream: int) -> None:
        if block.nbytes:
            block.nbytes = 0
            self._cuda.free_async(block.address, stream)
        block.address, block.nbytes = self._cuda.allocate_async(nbytes, stream), nbytes


def packed_together(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each begins, and how much all take."""
    offsets, at = [], 0
    for size in sizes:
        offsets.append(at)
        at += -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
    return offsets, at


_ALL: dict[tuple[int, Any], Workspaces] = {}


def workspaces(cuda: Driver, device: int) -> Workspaces:
    """Those of a device."""
    return _ALL.setdefault((device, cuda), Workspaces(cuda))
