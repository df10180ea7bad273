"""The part of the driver that times and repeats work: streams of its own, events, graphs. `driver.Driver` is built on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Queues:
    """`_cu` are the bindings, `_call` calls one of their functions or raises `VxcError` E0604. Streams are raw handles."""

    _cu: Any

    def _call(self, name: str, *arguments: Any) -> Any:
        raise AssertionError("a driver has its own")

    # streams

    def new_stream(self) -> int:
        """A stream that does not wait for the default one."""
        return int(self._call("cuStreamCreate", int(self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))

    def drop_stream(self, stream: int) -> None:
        self._call("cuStreamDestroy", stream)

    # events

    def event(self) -> Any:
        return self._call("cuEventCreate", 0)

    def drop_event(self, event: Any) -> None:
        self._call("cuEventDestroy", event)

    def record(self, event: Any, stream: int) -> None:
        self._call("cuEventRecord", event, stream)

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds from one recorded event to another, once both have happened."""
        self._call("cuEventSynchronize", end)
        return self._call("cuEventElapsedTime", start, end)

    def wait(self, stream: int, producer: int) -> None:
        """Work put on `stream` from now on runs after what is on `producer` now."""
        event = self.event()
        self.record(event, producer)
        self._call("cuStreamWaitEvent", stream, event, 0)
        self.drop_event(event)

    # graphs

    def capture(self, stream: int, enqueue: Callable[[], object]) -> Any:
        """What `enqueue()` puts on a stream, which must not be the default one, as a graph; nothing of it runs."""
        self._call("cuStreamBeginCapture", stream, self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            enqueue()
        except BaseException:
            self._cu.cuStreamEndCapture(stream)  # so that the stream is as it was; what happened is said by the exception
            raise
        graph = self._call("cuStreamEndCapture", stream)
        try:
            return self._call("cuGraphInstantiate", graph, 0)
        finally:
            self._call("cuGraphDestroy", graph)

    def replay(self, graph: Any, stream: int) -> None:
        self._call("cuGraphLaunch", graph, stream)

    def drop_graph(self, graph: Any) -> None:
        self._call("cuGraphExecDestroy", graph)
