"""Choosing a configuration by timing: compile, leave out what cannot run, time all in turns, and pick the fastest that is right.

1. Each candidate is compiled for the arrays of the call. What does not compile, or needs more shared memory, registers or threads than
   the device has, is left out before it runs, and so is what comes after the time is up.
2. The others are captured into CUDA graphs over the inputs of the call and outputs of their own, and timed once, quickly. Those that take
   more than `CUTOFF` times as long as the best are dropped; the rest takes turns for some rounds (`vxc.runtime.timing`).
3. From the fastest on, each is checked on a sample until one is right. What the interpreter computes with it must be what the
   interpreter computes with the kernel as written, or what the reference gives: to the bit or, where a configuration changes the order of
   sums, within the bound of `vxc.diff`. And what the device gives must be that, to the bit where the language fixes every bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from vxc.analysis.exactness import inexact
from vxc.api.building import checked
from vxc.api.calls import Calls
from vxc.api.candidates import Config, Options, untunable
from vxc.api.host import dense_views
from vxc.api.libraries import host_view, is_array, view
from vxc.api.problems import Problem, on_device
from vxc.api.side_by_side import compiled_in_turn
from vxc.api.tune_record import About, Entry, Row
from vxc.binding import ArrayParam, signature
from vxc.cache.places import code_digest
from vxc.cuda.nvrtc import toolchain
from vxc.diag import VxcError
from vxc.diff import compare, first_difference
from vxc.dtypes import DType
from vxc.inputs import Call, complete
from vxc.interp.flat_interp import run_flat
from vxc.progress import progress
from vxc.runtime.arrays import ArrayView
from vxc.runtime.graphs import graphed
from vxc.runtime.launch import Placed, described, run_numpy, scheduled
from vxc.runtime.timing import Run, Stopwatch, in_turns, stopwatch
from vxc.schedule import bind_plan

CUTOFF = 1.5  # times the best: what is as slow in the first, short timing is not timed again
QUICK = {"warmup": 1.0, "rep": 4.0}  # milliseconds of the first timing
OTHER_ORDER = frozenset({"another order of sums"})


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


def tuned_for(about: About, base: Calls, variants: Mapping[Config, Calls], problem: Problem, options: Options) -> Entry:
    """Tries the variants of a kernel. Raises `VxcError` E0719 where none can be chosen, E0604, E0718."""
    sample = _given(options.sample) if options.sample else _example(base, problem.views)
    said: dict[Config, str] = {}
    with on_device(problem) as placed:
        times = _timed(about, variants, placed, options, said)
    chosen = None
    for config in sorted(times, key=times.__getitem__):
        right, said[config] = _checked(base, variants[config], sample, problem, options.reference)
        if right:
            chosen = config
            break
    rows = tuple(Row(config, _rounded(times.get(config)), said.get(config, "slower")) for config in variants)
    if chosen is None:
        notes = [f"{row.config}: {row.said}" for row in rows]
        raise untunable(f"no configuration of `{about.kernel}` can be chosen", "give others, or correct what each is refused for", notes)
    return Entry(about, {"vxc": code_digest()[:12], "nvrtc": toolchain()}, chosen, rows)


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
            advance(1, _best(runs))
            if runs and time.monotonic() - start > options.seconds:
                break
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


# ---- is it right? ----------------------------------------------------------------------------------------------------


def _given(sample: Mapping[str, Any]) -> Call:
    """Raises `VxcError` E0703 for arrays that are not in CPU memory."""
    arrays = {name: host_view(value, name) for name, value in sample.items() if is_array(value)}
    return Call(arrays, {name: value for name, value in sample.items() if name not in arrays}, {})


def _example(base: Calls, views: Mapping[str, ArrayView]) -> Call:
    """The example line of the kernel, its dtypes those of the call. Raises `VxcError` E0719 where there is none."""
    dtypes = {name: value for name, value in base.specialise(views).defines if isinstance(value, DType)}
    typed = checked(base.recipe, {**dtypes, **dict(base.recipe.defines)})
    if typed.example is None:
        way_out = "add an `example` line to the file, or pass sample=(x, ..), small NumPy arrays"
        raise untunable(f"nothing says on what to check configurations of `{base.recipe.name}`", way_out)
    return complete(typed)


def _checked(base: Calls, variant: Calls, sample: Call, problem: Problem, reference: Callable[..., Any] | None) -> tuple[bool, str]:
    """Whether a configuration is right on the sample, and how that was found."""
    views = dense_views({name: view(array, name) for name, array in sample.arrays.items()})
    made = variant.compiled(variant.specialise(views), problem.arch)
    own = _interpreted(made.tile, sample)
    expected, by = _expected(base, variant, views, sample, problem.arch, own, reference)
    other = next((name for name in expected if expected[name].shape != own[name].shape), None)
    if other:
        return False, f"wrong: `{other}` is of shape {own[other].shape}, and of {expected[other].shape} by {by}"
    exact = first_difference(expected, own) is None
    differs = next((d for d in (compare(n, expected[n], own[n], OTHER_ORDER) for n in expected) if d), None)
    if differs:
        return False, f"wrong: interpreted, {differs}, by {by}"
    built, loose = variant.built(variant.specialise(views), problem.arch), inexact(made.tile)
    got = run_numpy(built, sample.arrays, sample.scalars, dims=sample.dims, device=problem.device)
    differs = first_difference(own, got, loose)
    if differs:
        return False, f"wrong: on the device, {differs}"
    return True, f"chosen, equal to {by} {'to the bit' if exact and not loose else 'within the bound'} on the sample"


def _expected(
    base: Calls,
    variant: Calls,
    views: Mapping[str, ArrayView],
    sample: Call,
    arch: str,
    own: Mapping[str, np.ndarray],
    reference: Callable[..., Any] | None,
) -> tuple[Mapping[str, np.ndarray], str]:
    """What the sample's outputs are to be, and by whom."""
    if reference is None:
        return _interpreted(base.compiled(base.specialise(views), arch).tile, sample), "the kernel as written"
    every = {**sample.arrays, **sample.scalars}
    found = reference(*(every[p.name].copy() if p.array else every[p.name] for p in variant.params if p.mode != "out"))
    results = found if isinstance(found, tuple) else (found,)
    names = [p.name for p in variant.params if p.mode != "in"]
    if len(results) != len(names):
        raise untunable(f"the reference gives {len(results)} arrays, and `{variant.recipe.name}` has {len(names)} outputs", "give one each")
    with np.errstate(all="ignore"):  # what is beyond the dtype is its infinity
        return {name: np.asarray(array).astype(own[name].dtype) for name, array in zip(names, results)}, "the reference"


def _interpreted(plan: Any, sample: Call) -> Mapping[str, np.ndarray]:
    return run_flat(plan, sample.arrays, sample.scalars, dims=sample.dims)
