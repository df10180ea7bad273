"""CUDA graphs of what a function enqueues, to be replayed: the host's time of a launch is then in none of what is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vxc.runtime.driver import Driver

WARM = 2  # calls before the capture: modules are loaded, kernels have run


@contextmanager
def graphed(cuda: Driver, enqueue: Callable[[int], object]) -> Iterator[Callable[[], None]]:
    """What `enqueue(stream)` puts on a stream, captured once it has run; gives its replay on the default stream.

    The device's context must be current. Raises `VxcError` E0604, also for what only shows when the kernel runs.
    """
    stream = cuda.new_stream()
    graph = None
    try:
        for _ in range(WARM):
            enqueue(stream)
        cuda.synchronize(stream)
        graph = cuda.capture(stream, lambda: enqueue(stream))
        yield lambda: cuda.replay(graph, 0)
        cuda.synchronize(0)
    finally:
        if graph is not None:
            cuda.drop_graph(graph)
        cuda.drop_stream(stream)
