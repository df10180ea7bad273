"""Candidates one after the other, their machine code made ahead in other processes where that takes long."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from vxc.api.calls import Calls
from vxc.api.candidates import Config
from vxc.api.problems import Problem
from vxc.cuda.nvrtc import Binary
from vxc.cuda.worker import elsewhere
from vxc.diag import VxcError
from vxc.driver import Compiled

LONG = 0.5  # seconds for a candidate: a process of its own takes about as long to start
MOST = 16  # processes

Ahead = tuple[Config, Calls, Compiled | None, Future[Binary | None] | None]


def compiled_in_turn(variants: Mapping[Config, Calls], problem: Problem) -> Iterator[tuple[Config, Calls]]:
    """All, in order. What is wrong with one shows when its caller builds it."""
    todo, long = deque(variants.items()), False
    while todo and not long:
        config, calls = todo.popleft()
        start = time.perf_counter()
        _built(calls, problem)
        long = time.perf_counter() - start > LONG
        yield config, calls
    count = min(MOST, os.cpu_count() or 1, max(len(todo), 1))
    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Ahead] = deque()
        try:
            while todo or waiting:
                while todo and len(waiting) < 2 * count:
                    waiting.append(_submitted(pool, *todo.popleft(), problem))
                config, calls, made, future = waiting.popleft()
                found = future.result() if future else None
                if made and found:
                    vars(made)["binary"] = found  # where its cached property looks
                yield config, calls
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _built(calls: Calls, problem: Problem) -> None:
    try:
        calls.built(calls.specialise(problem.views), problem.arch)
    except VxcError:
        pass


def _submitted(pool: ThreadPoolExecutor, config: Config, calls: Calls, problem: Problem) -> Ahead:
    try:
        what = calls.specialise(problem.views), problem.arch
        if not calls.remembered(*what):
            made = calls.compiled(*what)
            return config, calls, made, pool.submit(elsewhere, made.job)
    except VxcError:
        pass
    return config, calls, None, None
