"""Python's cycle collector, off while anything compiles, which makes many values that all live: passes over them grow quadratically."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Collector:
    """It is the process's, so threads that compile at the same time count: the first turns it off, the last one on again if it was on."""

    def __init__(self) -> None:
        self.lock, self.compiling, self.was_on = Lock(), 0, False

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
                    gc.enable()


COLLECTOR = _Collector()
