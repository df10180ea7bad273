"""Python's cycle collector, off while anything compiles, which makes many values that all live: passes over them grow quadratically.

What is there when the first thing has compiled, modules and tables of grammars for the most part, lives as long as the process. It counts
as old from then on, so that no pass over young objects goes through it, which takes as long as the compiler's own for a small kernel.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident


class _Collector:
    """It is the process's, so threads that compile at the same time count: the first turns it off, the last one on again if it was on."""

    def __init__(self) -> None:
        self.lock, self.was_on, self.first = Lock(), False, True
        self.compiling: dict[int, int] = {}  # how often each thread is within `paused`

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self.lock:
            if not self.compiling:
                self.was_on = gc.isenabled()
                gc.disable()
            self.compiling[get_ident()] = self.compiling.get(get_ident(), 0) + 1
        try:
            yield
        finally:
            with self.lock:
                self._ended(get_ident())

    def _ended(self, thread: int) -> None:
        left = self.compiling.pop(thread) - 1
        if left:
            self.compiling[thread] = left
        if not self.compiling and self.was_on:
            if self.first:
                _age()
            self.first = False
            gc.enable()

    def forked(self) -> None:
        """In a forked process the other threads are gone, and never end what they were compiling."""
        self.lock, own = Lock(), get_ident()
        for thread in [thread for thread in self.compiling if thread != own]:
            self.compiling[thread] = 1
            self._ended(thread)


def _age() -> None:
    """Makes all objects old, which takes no time. Not where somebody has frozen some, for these would thaw."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


COLLECTOR = _Collector()
os.register_at_fork(after_in_child=COLLECTOR.forked)
