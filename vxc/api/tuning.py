"""Choosing a configuration by timing: compile, leave out what cannot run, time all in turns, and pick the fastest that is right.

1. Each candidate is compiled for the arrays of the call. What does not compile, or needs more shared memory, registers or threads than
   the device has, is left out before it runs, and so is what comes after the time is up.
2. The others are captured into CUDA graphs over the inputs of the call and outputs of their own, and timed once, quickly. Those that take
   more than `CUTOFF` times as long as the best are dropped; the rest takes turns for some rounds (`vxc.runtime.timing`).
3. From the fastest on, each is checked on a sample until one is right (`vxc.api.tune_check`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from vxc.api.calls import Calls
from vxc.api.candidates import Config
from vxc.api.errors import of_arguments
from vxc.api.problems import Problem, on_device
from vxc.api.side_by_side import compiled_in_turn
from vxc.api.tune_arguments import Options
from vxc.api.tune_check import Question, answer
from vxc.api.tune_record import About, Entry, Row
from vxc.api.tune_refusals import untunable
from vxc.binding import ArrayParam, signature
from vxc.cache.places import code_digest
from vxc.cuda.nvrtc import toolchain
from vxc.diag import VxcError
from vxc.progress import progress
from vxc.runtime.graphs import graphed
from vxc.runtime.launch import Placed, described, scheduled
from vxc.runtime.timing import Run, Stopwatch, in_turns, stopwatch
from vxc.schedule import bind_plan

CUTOFF = 1.5  # times the best: what is as slow in the first, short timing is not timed again
QUICK = {"warmup": 1.0, "rep": 4.0}  # milliseconds of the first timing


class Outputs:
    """Device memory that candidates write to: as much as the outputs of the call, `inout` ones with what those hold at first."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._memory = problem, {}

    def address(self, param: ArrayParam, shape: Sequence[int | None]) -> int:
        """Where the parameter's array begins. Raises `VxcError` E0604 where the device has no more memory."""
        given = self._problem.views.get(param.name)
        low, high = given.span if given else (0, int(np.prod(shape)) * param.dtype.bytes)
        memory, size = self._memory.get(param.name, (None, -1))
        if size < high - low:
            cuda = self._problem.cuda
            self._free(param.name)
            memory = cuda.allocate(high - low)
            self._memory[param.name] = memory, high - low
            if param.mode == "inout":
                cuda.copy_async(int(memory), low, high - low, 0)
                cuda.synchronize(0)
        return int(memory) + (given.ptr - low if given else 0)

    def _free(self, name: str) -> None:
        if name in self._memory:
            self._problem.cuda.free(self._memory.pop(name)[0])

    def close(self) -> None:
        for name in list(self._memory):
            self._free(name)


def tuned_for(
    about: About, checked: str, base: Calls, variants: Mapping[Config, Calls], problem: Problem, options: Options, question: Question
) -> Entry:  # fmt: skip
    """Tries the variants of a kernel; `checked` is the question in brief. Raises `VxcError` E0719 where none is right, E0604, E0718."""
    said: dict[Config, str] = {}
    with on_device(problem) as placed:
        times = _timed(about, variants, placed, options, said)
    chosen = None
    for config in sorted(times, key=times.__getitem__):
        right, said[config] = answer(base, variants[config], question, problem.arch, problem.device)
        if right:
            chosen = config
            break
    rows = tuple(Row(config, _rounded(times.get(config)), said.get(config, "slower")) for config in variants)
    if chosen is None:
        notes = [f"{row.config}: {row.said}" for row in rows]
        raise untunable(f"no configuration of `{about.kernel}` can be chosen", "give others, or correct what each is refused for", notes)
    return Entry(about, checked, {"vxc": code_digest()[:12], "nvrtc": toolchain()}, chosen, rows)


def _timed(
    about: About, variants: Mapping[Config, Calls], problem: Problem, options: Options, said: dict[Config, str]
) -> dict[Config, float]:  # fmt: skip
    """Milliseconds of those that were timed to the end; says of others why they were not."""
    with ExitStack() as held:
        outputs = Outputs(problem)
        held.callback(outputs.close)
        watch = held.enter_context(stopwatch(problem.cuda))
        runs = _first_round(about, variants, problem, options, outputs, watch, held, said)
        least = min((ms for _, ms in runs.values()), default=0.0)
        rivals = {config: run for config, (run, ms) in runs.items() if ms <= CUTOFF * least}
        said |= {config: f"dropped after the first timing, {ms:.4f} ms" for config, (_, ms) in runs.items() if config not in rivals}
        return in_turns(rivals, watch.milliseconds, options.rounds)


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 5)


def _first_round(
    about: About,
    variants: Mapping[Config, Calls],
    problem: Problem,
    options: Options,
    outputs: Outputs,
    watch: Stopwatch,
    held: ExitStack,
    said: dict[Config, str],
) -> dict[Config, tuple[Run, float]]:
    """The replays of what can run, and what each takes at first; says of others why they cannot."""
    runs: dict[Config, tuple[Run, float]] = {}
    refused: list[VxcError] = []
    start = time.monotonic()
    with progress(f"tuning {about.kernel}", len(variants)) as advance:
        for config, calls in compiled_in_turn(variants, problem):
            try:
                placed = _placed(calls, problem, outputs)
                run = held.enter_context(graphed(problem.cuda, placed.enqueue))
                runs[config] = run, watch.milliseconds(run, **QUICK)
            except VxcError as error:
                if error.diagnostics[0].code in ("E0603", "E0604"):  # the device, and no property of the candidate
                    raise
                said[config] = f"left out, {error.diagnostics[0].code}: {error.diagnostics[0].message}"
                refused.append(error)
            advance(1, _best(runs))
            if runs and time.monotonic() - start > options.seconds:
                break
    if len(refused) == len(variants) and len(set(said.values())) == 1 and of_arguments(refused[0].diagnostics[0].code):
        raise refused[0]  # the call, and no property of candidates
    late = f"not tried, {options.seconds:g} s were over"
    said |= {config: late for config in variants if config not in runs and config not in said}
    return runs


def _best(runs: Mapping[Config, tuple[Run, float]]) -> str:
    if not runs:
        return ""
    ms, config = min(((ms, config) for config, (_, ms) in runs.items()), key=lambda pair: pair[0])
    return f"{ms:.4f} ms by {config}"


def _placed(calls: Calls, problem: Problem, outputs: Outputs) -> Placed:
    """The call with a candidate. Raises `VxcError` for what does not compile, or is beyond the device."""
    made = calls.built(calls.specialise(problem.views), problem.arch)
    declared = {p.name: p for p in signature(made.plan.params) if isinstance(p, ArrayParam)}
    binding = bind_plan(made.plan, described(problem.views, declared), problem.scalars, source=made.source)
    plan = scheduled(made, binding)
    addresses = {
        name: problem.views[name].ptr if param.mode == "in" else outputs.address(param, binding.shapes[name])
        for name, param in declared.items()
    }
    return Placed(problem.cuda, made.binary, plan, addresses, problem.device)
