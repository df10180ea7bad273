"""Worker processes: a task that hangs or kills its worker costs that task, not the run.

Workers tell which step they are in, so that a lost task can be blamed on one. No wait for a process is without end: what a driver
holds may not die when it is killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from math import inf
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

from vxc.record import record

_READY, _UNREADY, _STEP, _DONE, _ERROR = "ready", "unready", "step", "done", "error"
_WATCH = 1.0  # seconds between two looks of an idle worker at whether its parent still lives, and of `results` at the clock
_START = 60.0  # for a worker to get ready
_END = 3.0  # for killed workers to end

Work = Callable[[Any, Callable[[str], None]], Any]


def _nothing() -> None:
    pass


def _never(result: Any) -> bool:
    return False


@record
class Lost:
    """A task without a result: it was stopped or its worker ended, in the step `step`."""

    step: str
    expired: bool
    why: str


@record
class Unfinished:
    """A task that was in the step `step`, after so many seconds, when the time was over."""

    step: str
    seconds: float


class _Worker:
    """A process, the pipe to it and what it does now; `limit` is for one task, and counts from when the worker is ready."""

    def __init__(self, work: Work, prepare: Callable[[], None], limit: float, method: str) -> None:
        context = get_context(method)
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, prepare, other, os.getpid()), daemon=True)
        self.process.start()
        other.close()
        self.task: Any = None
        self.step = ""
        self.limit = limit
        self.ready = False
        self.began = self.deadline = 0.0

    def give(self, task: Any) -> None:
        self.task, self.step = task, ""
        self._begin()
        with contextlib.suppress(OSError):  # the process has ended meanwhile, which the pipe will tell
            self.pipe.send(task)

    def is_ready(self) -> None:
        self.ready = True
        self._begin()

    def _begin(self) -> None:
        self.began = monotonic()
        self.deadline = self.began + (self.limit if self.ready else _START)

    def kill(self) -> None:
        self.process.kill()
        self.pipe.close()


class Pool:
    """`jobs` workers that run `work(task, report)`, each task for at most `limit` seconds. Leaving the context ends them.

    With `fork`, workers start as a copy of this process, at no cost; else each imports what it needs, and may use CUDA. Each calls
    `prepare` first; what that raises is raised here. A worker ends after a result that it `spoils` by.
    """

    def __init__(
        self,
        work: Work,
        jobs: int,
        limit: float,
        *,
        fork: bool = True,
        prepare: Callable[[], None] = _nothing,
        spoils: Callable[[Any], bool] = _never,
    ) -> None:
        method = "fork" if fork and "fork" in get_all_start_methods() else "spawn"
        self._start = partial(_Worker, work, prepare, limit, method)
        self._jobs, self._spoils = jobs, spoils
        self._workers: list[_Worker] = []
        self._killed: list[_Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._workers):
            self._kill(worker)
        end = monotonic() + _END
        for worker in self._killed:
            worker.process.join(max(0.0, end - monotonic()))

    def _kill(self, worker: _Worker) -> None:
        """End a worker without waiting for it."""
        worker.kill()
        self._workers.remove(worker)
        self._killed.append(worker)

    def results(
        self, tasks: Iterable[Any], until: Callable[[], float] = lambda: inf, tick: Callable[[], None] = _nothing
    ) -> Iterator[tuple[Any, Any | Lost | Unfinished]]:
        """Each task with its result, in the order in which they end; a task is taken when a worker is free.

        When the clock is at `until()`, the tasks under way are given up. `tick` is called every now and then.
        """
        tasks = iter(tasks)
        idle, busy = list(self._workers), []
        while True:
            for task in islice(tasks, self._jobs - len(busy) if monotonic() < until() else 0):
                if not idle:
                    self._workers.append(self._start())
                    idle.append(self._workers[-1])
                busy.append(idle.pop())
                busy[-1].give(task)
            if not busy:
                return
            pause = min([_WATCH, until() - monotonic(), *(w.deadline - monotonic() for w in busy)])
            wait([w.pipe for w in busy], max(0.0, pause))
            tick()
            for worker in list(busy):
                found = self._look(worker)
                if found is None and monotonic() >= until():
                    found = (Unfinished(worker.step, monotonic() - worker.began),)
                if found is not None:
                    busy.remove(worker)
                    if isinstance(found[0], (Lost, Unfinished)) or self._spoils(found[0]):
                        self._kill(worker)
                    else:
                        idle.append(worker)
                    yield worker.task, found[0]

    def one(self, task: Any, until: float = inf) -> Any | Lost | Unfinished:
        """The result of one task."""
        ((_, found),) = self.results([task], lambda: until)
        return found

    def _look(self, worker: _Worker) -> tuple[Any] | None:
        """The result of a worker's task, if it is there by now."""
        try:
            while worker.pipe.poll():
                kind, value = worker.pipe.recv()
                if kind == _DONE:
                    return (value,)
                if kind == _ERROR:
                    raise RuntimeError(value)
                if kind == _UNREADY:
                    raise value
                if kind == _READY:
                    worker.is_ready()
                else:
                    worker.step = value
        except (EOFError, ConnectionError):
            return (Lost(worker.step, False, _ended(worker)),)
        if monotonic() >= worker.deadline:
            why = f"does not end within {worker.limit:g} s" if worker.ready else f"a worker does not start within {_START:g} s"
            return (Lost(worker.step, True, why),)
        return None


def _ended(worker: _Worker) -> str:
    """How a process ended whose pipe is closed."""
    worker.process.join(_END)
    code = worker.process.exitcode
    if code is None:
        return "the process closed its pipe"
    return f"the process ended, by {_signal(-code)}" if code < 0 else f"the process exited with {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve(work: Work, prepare: Callable[[], None], pipe: Connection, parent: int) -> None:
    """A worker's life. What programs print goes nowhere; interrupts are for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr = nowhere = open(os.devnull, "w")
    for output in (1, 2):  # what kernels on a GPU print
        os.dup2(nowhere.fileno(), output)
    try:
        prepare()
    except Exception as error:
        pipe.send((_UNREADY, error))
        return
    pipe.send((_READY, None))
    gc.freeze()
    gc.disable()  # a task makes many values that all live: one collection after each is less work
    while True:
        while not pipe.poll(_WATCH):
            if os.getppid() != parent:
                return
        task = pipe.recv()
        try:
            done = (_DONE, work(task, lambda step: pipe.send((_STEP, step))))
        except Exception:
            done = (_ERROR, traceback.format_exc())
        pipe.send(done)
        gc.collect()
