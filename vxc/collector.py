"""Python's cycle collector, off while anything compiles, which makes many values that all live: passes over them grow quadratically.

What is there when the first thing has compiled, modules and tables of grammars for the most part, lives as long as the process. It counts
as old from then on, so that no pass over young objects goes through it, which takes as long as the compiler's own for a small kernel.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Collector:
    """It is the process's, so threads that compile at the same time count: the first turns it off, the last one on again if it was on."""

    def __init__(self) -> None:
        self.lock, self.compiling, self.was_on, self.first = Lock(), 0, False, True

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self.lock:
            if not self.compiling:
                self.was_on = gc.isenabled()
                gc.disable()
            self.compiling += 1
        try:
            yield
        finally:
            with self.lock:
                self.compiling -= 1
                if not self.compiling and self.was_on:
                    if self.first:
                        _age()
                    self.first = False
                    gc.enable()


def _age() -> None:
    """Makes all objects old, which takes no time. Not where somebody has frozen some, for these would thaw."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


COLLECTOR = _Collector()
