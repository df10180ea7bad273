"""Worker processes: a task that hangs or kills its worker costs that task, not the run.

Workers tell which step they are in, so that a lost task can be blamed on one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

_STEP, _DONE, _ERROR = "step", "done", "error"
_WATCH = 1.0  # seconds between two looks of an idle worker at whether its parent still lives

Work = Callable[[Any, Callable[[str], None]], Any]


@dataclass(frozen=True)
class Lost:
    """A task without a result: it was stopped or its worker ended, in the step `step`."""

    step: str
    expired: bool
    why: str


class _Worker:
    """A process, the pipe to it and what it does now."""

    def __init__(self, work: Work, method: str) -> None:
        context = get_context(method)
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, other, os.getpid()), daemon=True)
        self.process.start()
        other.close()
        self.task: Any = None
        self.step = ""
        self.deadline = 0.0

    def give(self, task: Any, limit: float) -> None:
        self.task, self.step, self.deadline = task, "", monotonic() + limit
        with contextlib.suppress(OSError):  # the process has ended meanwhile, which the pipe will tell
            self.pipe.send(task)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Pool:
    """`jobs` workers that run `work(task, report)`, each task for at most `limit` seconds. Leaving the context ends them.

    With `fork`, workers start as a copy of this process, at no cost; else each imports what it needs, and may use CUDA.
    """

    def __init__(self, work: Work, jobs: int, limit: float, *, fork: bool = True) -> None:
        self._work, self._limit = work, limit
        self._method = "fork" if fork and "fork" in get_all_start_methods() else "spawn"
        self._jobs = jobs
        self._workers: list[_Worker] = []

    def _start(self) -> _Worker:
        self._workers.append(_Worker(self._work, self._method))
        return self._workers[-1]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def results(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any | Lost]]:
        """Each task with its result, in the order in which they end; a task is taken when a worker is free."""
        tasks = iter(tasks)
        idle, busy = list(self._workers), []
        while True:
            for task in islice(tasks, self._jobs - len(busy)):
                worker = idle.pop() if idle else self._start()
                worker.give(task, self._limit)
                busy.append(worker)
            if not busy:
                return
            wait([w.pipe for w in busy], max(0.0, min(w.deadline for w in busy) - monotonic()))
            for worker in list(busy):
                found = self._look(worker)
                if found is not None:
                    busy.remove(worker)
                    if isinstance(found[0], Lost):
                        worker.end()
                        self._workers.remove(worker)
                    else:
                        idle.append(worker)
                    yield worker.task, found[0]

    def one(self, task: Any) -> Any | Lost:
        """The result of one task."""
        ((_, found),) = self.results([task])
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
                worker.step = value
        except (EOFError, OSError):
            worker.process.join()
            code = worker.process.exitcode
            return (Lost(worker.step, False, f"the process ended, by {_signal(-code)}" if code < 0 else f"the process exited with {code}"),)
        if monotonic() >= worker.deadline:
            return (Lost(worker.step, True, f"does not end within {self._limit:g} s"),)
        return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve(work: Work, pipe: Connection, parent: int) -> None:
    """A worker's life. What programs print goes nowhere; interrupts are for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr = nowhere = open(os.devnull, "w")
    for output in (1, 2):  # what kernels on a GPU print
        os.dup2(nowhere.fileno(), output)
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
