"""Comparing what executors give: to the bit where the language fixes every bit, else within a stated bound.

The interpreters agree to the bit. An emitted kernel agrees to the bit on outputs that `analysis.exactness` calls exact; on
the others an element may differ by `ULPS` units in the last place of the greatest magnitude that the output holds near it:
|got - expected| <= ULPS * eps * (|expected| + max |expected|), with eps that of the output's dtype. Integers reached by
elementary functions may differ by 1. Where the order of float atomics is free and the output holds values that are not finite, a sum
may overflow in one order and not in another: there any two values agree of which one is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from vxc.analysis.exactness import ATOMICS, inexact
from vxc.diag import VxcError
from vxc.driver import Compiled
from vxc.dtypes import DType, from_numpy
from vxc.frontend.typed import TypedKernel
from vxc.inputs import Call
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.interp.flat_simt import may_meet
from vxc.ir.plan import Plan
from vxc.pipeline import PIPELINE

ULPS = 32  # elementary functions are within 2 or 3 each; the rest is for sums of them and one rounding to a narrow output

Results = Mapping[str, np.ndarray]
Loose = Mapping[str, Collection[str]]  # outputs that are compared by bound, with the causes


@dataclass(frozen=True)
class Difference:
    """The first element, in row-major order, on which two results differ, and how many do."""

    output: str
    index: tuple[int, ...]
    expected: object
    got: object
    count: int
    size: int

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.index))}]"
        more = f" ({self.count:,} of {self.size:,} elements differ)" if self.size > 1 else ""
        return f"{place} is {self.got!s}, expected {self.expected!s}{more}"


def compare(output: str, expected: np.ndarray, got: np.ndarray, causes: Collection[str] = ()) -> Difference | None:
    """The difference of two arrays of one shape and dtype.

    Without `causes` (of `exactness.inexact`) every bit counts, but NaN equals NaN; with them, the bound.
    """
    same = _same_bits(expected, got)
    if causes and not same.all():
        same |= _near(expected, got)
        if ATOMICS in causes:
            same |= _overflowed(expected, got)
    if same.all():
        return None
    index = np.unravel_index(int(np.argmin(same)), same.shape)
    return Difference(output, tuple(map(int, index)), expected[index], got[index], int(same.size - same.sum()), same.size)


def _same_bits(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    bits = f"u{expected.dtype.itemsize}"
    same = np.ascontiguousarray(expected).view(bits) == np.ascontiguousarray(got).view(bits)
    same = same.reshape(expected.shape)
    if not _dtype(expected).is_float:
        return same
    with np.errstate(invalid="ignore"):  # a signalling NaN in memory is a value like any other
        return same | (np.isnan(expected) & np.isnan(got))


def _near(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Within the bound; an overflow on one side matches a value next to it on the other."""
    if not _dtype(expected).is_float:
        return np.abs(expected.astype(object) - got.astype(object)) <= 1
    with np.errstate(all="ignore"):
        info = _finfo(expected.dtype)
        a, b = (np.clip(x.astype(np.float64), -float(info.max), float(info.max)) for x in (expected, got))  # keeps NaN
        largest = np.max(np.abs(a), initial=0.0, where=np.isfinite(expected))
        return np.abs(a - b) <= ULPS * float(info.eps) * (np.abs(a) + largest)


def _overflowed(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Where either is not finite, if anything expected is not."""
    finite = np.isfinite(expected)
    return ~(finite & np.isfinite(got)) & ~finite.all()


def _dtype(array: np.ndarray) -> DType:
    found = from_numpy(array.dtype)
    assert found is not None, array.dtype
    return found


def _finfo(dtype: np.dtype):
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def first_difference(expected: Results, got: Results, loose: Loose = MappingProxyType({})) -> Difference | None:
    """The first output that differs; those in `loose` are compared by bound."""
    differences = (compare(name, expected[name], got[name], loose.get(name, ())) for name in expected)
    return next((d for d in differences if d is not None), None)


# ---- executors -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Executor:
    """One way to run a kernel; `loose` has the outputs on which it may differ from the others by the bound.

    `seeded` is False where every seed gives the same, since there is no order that it could choose.
    """

    name: str
    run: Callable[[Call, int], Results]
    loose: Loose = field(default_factory=dict)
    seeded: bool = True


def ast_executor(kernel: TypedKernel, debug: bool = False) -> Executor:
    """The interpreter of the typed tree."""

    def run(call: Call, seed: int) -> Results:
        return run_ast(kernel, call.arrays, call.scalars, dims=call.dims, seed=seed, trap_div=debug)

    return Executor("ast", run, seeded=False)


def flat_executor(name: str, kernel: TypedKernel, plan: Plan, debug: bool = False) -> Executor:
    """The interpreter of the flat IR; at stage=thread the order of atomics is the schedule's."""

    def run(call: Call, seed: int) -> Results:
        return run_flat(plan, call.arrays, call.scalars, dims=call.dims, seed=seed, trap_div=debug, source=kernel.source)

    threads = [k for k in plan.kernels if k.stage == "thread"]
    loose = {output: {ATOMICS} for output, causes in inexact(plan).items() if ATOMICS in causes} if threads else {}
    return Executor(name, run, loose, seeded=len(threads) < len(plan.kernels) or any(may_meet(k.insts) or any(i.op == "aligned" for i in k.insts) for k in threads))


def prefix_executors(compiled: Compiled) -> list[Executor]:
    """The syntax tree, the IR as lowered, and the IR after each pass that changed it; the first to differ names the pass at fault."""
    kernel, last = compiled.typed, compiled.tile
    found = [ast_executor(kernel), flat_executor("lowering", kernel, last)]
    for p in PIPELINE.passes:
        plan = compiled.after(p.name)
        if _undone(plan) != _undone(last):
            found.append(flat_executor(p.name, kernel, plan))
        last = plan
    return found


def _undone(plan: Plan) -> Plan:
    return plan.with_kernels(replace(kernel, done=()) for kernel in plan.kernels)


def gpu_executor(compiled: Compiled) -> Executor:
    """The emitted kernel on the GPU."""
    from vxc.runtime.launch import run_numpy

    return Executor("gpu", lambda call, seed: run_numpy(compiled, call.arrays, call.scalars, dims=call.dims), inexact(compiled.tile))


@dataclass(frozen=True)
class Disagreement:
    """Two executors that differ on one set of inputs. `why` is the difference, or the fault that only one reports."""

    inputs: str
    pair: tuple[str, str]
    why: str

    def __str__(self) -> str:
        return f"{self.pair[0]} and {self.pair[1]} differ on {self.inputs}: {self.why}"


def disagreements(executors: Sequence[Executor], inputs: Mapping[str, Call], seed: int = 0) -> Iterator[Disagreement]:
    """Each executor against the first, on each set of inputs."""
    reference, *others = executors
    for name, call in inputs.items():
        expected = _outcome(reference, call, seed)
        for other in others:
            why = _contrast(expected, _outcome(other, call, seed), other.loose)
            if why:
                yield Disagreement(name, (reference.name, other.name), why)


def _outcome(executor: Executor, call: Call, seed: int) -> Results | VxcError:
    try:
        return executor.run(call, seed)
    except VxcError as error:
        return error


def _contrast(expected: Results | VxcError, got: Results | VxcError, loose: Loose) -> str:
    """How two outcomes differ; "" where they agree, as two faults of one code do."""
    faults = [sorted({d.code for d in o.diagnostics}) if isinstance(o, VxcError) else [] for o in (expected, got)]
    if faults[0] != faults[1]:
        told = next(o for o in (got, expected) if isinstance(o, VxcError))
        return f"one reports {told.diagnostics[0].code}, {told.diagnostics[0].message}"
    if isinstance(expected, VxcError) or isinstance(got, VxcError):
        return ""
    return str(first_difference(expected, got, loose) or "")
