"""Device times: how long a run takes from a flushed L2, the median of many, all rivals taking turns.

A *run* is a function that puts work on the stopwatch's stream: the replay of a CUDA graph (`graphs.graphed`, or one that a library
captured). Before each run the stream is given `FLUSH` bytes to fill, several times the L2 of any device, and an event is recorded on
either side of it. The fill also takes longer than the host takes to enqueue a replay, so that the device never waits for the host
between the two events. Rivals take turns for some rounds, and a figure is the median of its rounds: so figures of one
call of `in_turns` compare, and those of two do not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from vxc.runtime.driver import Driver

FLUSH = 1 << 28
ROUNDS = 7
WARMUP, REP = 5.0, 20.0  # milliseconds
_FIRST = 5  # runs that say about how long one takes
Run = Callable[[], object]


class Stopwatch:
    """Times runs on one stream of the device whose context is current."""

    def __init__(self, cuda: Driver, flushed: int, stream: int) -> None:
        self._cuda, self._flushed, self._stream = cuda, flushed, stream
        self._events: list[Any] = []

    def milliseconds(self, run: Run, warmup: float = WARMUP, rep: float = REP) -> float:
        """The median of as many runs as take `rep` milliseconds, flushes included, after `warmup` milliseconds of them."""
        return self.ends((run,), warmup, rep)[0]

    def ends(self, runs: Sequence[Run], warmup: float = WARMUP, rep: float = REP) -> list[float]:
        """When each of some runs that follow one another ends, in milliseconds from the begin of the first: medians as above, over turns
        that each give all of them, so that none is less than the one before it.
        """

        def turn() -> None:
            for run in runs:
                run()

        each = self._one(turn, _FIRST) / _FIRST
        for _ in range(max(1, int(warmup / each))):
            self._flush()
            turn()
        return [statistics.median(times) for times in zip(*self._times(runs, max(1, int(rep / each))))]

    def _one(self, run: Run, count: int) -> float:
        """Milliseconds that so many runs take, flushes included; more than 0."""
        start, end = self._marks(2)
        run()
        self._cuda.record(start, self._stream)
        for _ in range(count):
            self._flush()
            run()
        self._cuda.record(end, self._stream)
        return max(self._cuda.elapsed(start, end), 1e-3)

    def _times(self, runs: Sequence[Run], count: int) -> list[list[float]]:
        size = len(runs) + 1
        marks = self._marks(count * size)
        turns = [marks[at : at + size] for at in range(0, count * size, size)]
        for start, *ends in turns:
            self._flush()
            self._cuda.record(start, self._stream)
            for run, end in zip(runs, ends, strict=True):
                run()
                self._cuda.record(end, self._stream)
        return [[self._cuda.elapsed(start, end) for end in ends] for start, *ends in turns]

    def _flush(self) -> None:
        self._cuda.fill_async(self._flushed, 0, FLUSH, self._stream)

    def _marks(self, count: int) -> list[Any]:
        while len(self._events) < count:
            self._events.append(self._cuda.event())
        return self._events[:count]

    def close(self) -> None:
        for event in self._events:
            self._cuda.drop_event(event)


@contextmanager
def stopwatch(cuda: Driver, stream: int = 0) -> Iterator[Stopwatch]:
    """A stopwatch for the time of the block. Raises `VxcError` E0604."""
    memory = cuda.allocate(FLUSH)
    watch = Stopwatch(cuda, int(memory), stream)
    try:
        yield watch
    finally:
        watch.close()
        cuda.free(memory)


def in_turns(runs: Mapping[Hashable, Run], timer: Callable[[Run], float], rounds: int = ROUNDS) -> dict[Hashable, float]:
    """The median of each run's times, all running once in each round."""
    times: dict[Hashable, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(timer(run))
    return {name: statistics.median(found) for name, found in times.items()}


def race(cuda: Driver, device: int, runs: Mapping[Hashable, Run], rounds: int = ROUNDS) -> dict[Hashable, float]:
    """Milliseconds of each run, which puts its work on the default stream of the device. Raises `VxcError` E0604."""
    with cuda.active(device), stopwatch(cuda) as watch:
        return in_turns(runs, watch.milliseconds, rounds)
