"""The driver in memory with a clock: graphs are replayed and events recorded in made-up time, so that timing is tested without a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from fake_cuda import FakeCuda

FILL = 0.0625  # milliseconds


class TimedCuda(FakeCuda):
    """`cost(kernel, blocks)` is what a launch takes, in milliseconds; `replays` counts those of all graphs, `live` what is not dropped."""

    def __init__(self, devices: int = 1):
        super().__init__(devices)
        self.clock, self.replays, self.live, self._graph, self._streams = 0.0, 0, set(), None, itertools.count(7)
        self.cost: Callable = lambda kernel, blocks: 1.0

    def device_name(self, device):
        return "Fake H200"

    def new_stream(self):
        stream = next(self._streams)
        self.live.add(("stream", stream))
        return stream

    def drop_stream(self, stream):
        self.live.remove(("stream", stream))

    def event(self):
        made = Event()
        self.live.add(made)
        return made

    def drop_event(self, event):
        self.live.remove(event)

    def record(self, event, stream):
        event.at = self.clock

    def elapsed(self, start, end):
        return end.at - start.at

    def fill_async(self, address, byte, nbytes, stream):
        self.clock += FILL

    def copy_async(self, target, source, nbytes, stream):
        self.clock += nbytes / 1e9

    def capture(self, stream, enqueue):
        self.captured.add(stream)
        self._graph = []
        try:
            enqueue()
            graph = Graph(self._graph)
        finally:
            self.captured.discard(stream)
            self._graph = None
        self.live.add(graph)
        return graph

    def replay(self, graph, stream):
        self.replays += 1
        self.clock += sum(graph.costs)

    def drop_graph(self, graph):
        self.live.remove(graph)

    def _run(self, config, kernel, address):
        cost = self.cost(kernel, config[0][0])
        if self._graph is not None:
            self._graph.append(cost)
            return 0
        self.clock += cost
        return super()._run(config, kernel, address)


class Event:
    """A moment."""


class Graph:
    def __init__(self, costs):
        self.costs = costs
