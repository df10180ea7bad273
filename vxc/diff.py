"""Comparing what executors give: to the bit where the language fixes every bit, else within a stated bound.

The interpreters agree to the bit. An emitted kernel agrees to the bit on outputs that `analysis.exactness` calls exact; on
the others an element may differ by `ULPS` units in the last place of the greatest magnitude that the output holds near it:
|got - expected| <= ULPS * eps * (|expected| + max |expected|), with the greatest eps of the output's dtype and of those that the
deviation has passed on its way there. Integers reached by
elementary functions may differ by 1. Where the order of float atomics is free and the output holds values that are not finite, a sum
may overflow in one order and not in another: there any two values agree of which one is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

import numpy as np

from vxc.analysis.exactness import ATOMICS, DISTORTED, grains, inexact
from vxc.diag import VxcError
from vxc.driver import Compiled
from vxc.dtypes import DType, from_numpy
from vxc.frontend.typed import TypedKernel
from vxc.inputs import Call
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.interp.flat_simt import may_meet
from vxc.ir.kernel import Kernel
from vxc.ir.plan import Plan
from vxc.passes.simplify import SIMPLIFY
from vxc.pipeline import PIPELINE
from vxc.record import record

ULPS = 32  # elementary functions are within 2 or 3 each; the rest is for sums of them and one rounding to a narrow output

ORDERS = (0, 1, 2)  # of the warps, in which IR at stage=thread is run
MAX_STEPS = 1 << 20  # iterations of serial loops, all told: some minutes in an interpreter
LOWERING = "lowering"  # the step from the typed tree to IR
GPU = "gpu"
CLAIM = "E0722"  # that iterations are independent is the author's word, and it is not so
READS = {"E0720", "E0721"}  # what is read is not there: no fault of a build without --debug if nothing uses it

Results = Mapping[str, np.ndarray]
Loose = Mapping[str, Collection[str]]  # outputs that are compared by bound, with the causes
Grains = Mapping[str, Collection[DType]]  # of these, the float dtypes that deviations pass


@record
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


def compare(
    output: str, expected: np.ndarray, got: np.ndarray, causes: Collection[str] = (), passed: Collection[DType] = ()
) -> Difference | None:
    """The difference of two arrays of one shape and dtype.

    Without `causes` (of `exactness.inexact`) every bit counts, but NaN equals NaN; with them, the bound, in which the dtypes `passed` (of
    `exactness.grains`) count, too; DISTORTED, nothing.
    """
    if DISTORTED in causes:
        return None
    same = _same_bits(expected, got)
    if causes and not same.all():
        same |= _near(expected, got, passed)
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


def _near(expected: np.ndarray, got: np.ndarray, passed: Collection[DType]) -> np.ndarray:
    """Within the bound; an overflow on one side matches a value next to it on the other."""
    if not _dtype(expected).is_float:
        return np.abs(expected.astype(object) - got.astype(object)) <= 1
    with np.errstate(all="ignore"):
        info = _finfo(expected.dtype)
        a, b = (np.clip(x.astype(np.float64), -float(info.max), float(info.max)) for x in (expected, got))  # keeps NaN
        largest = np.max(np.abs(a), initial=0.0, where=np.isfinite(expected))
        eps = max(float(found.eps) for found in (info, *(_finfo(dtype.numpy) for dtype in passed)))
        return np.abs(a - b) <= ULPS * eps * (np.abs(a) + largest)


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


def first_difference(
    expected: Results, got: Results, loose: Loose = MappingProxyType({}), grains: Grains = MappingProxyType({})
) -> Difference | None:
    """The first output that differs; those in `loose` are compared by bound."""
    differences = (compare(name, expected[name], got[name], loose.get(name, ()), grains.get(name, ())) for name in expected)
    return next((d for d in differences if d is not None), None)


# ---- executors -------------------------------------------------------------------------------------------------------


@record
class Executor:
    """One way to run a kernel; `loose` and `grains` say on which outputs it may differ from the others, and how far, `order` is that of
    warps. What faults in the first executor does not run on one that `faults` not: it would report nothing, or break by it. Nor does a
    false `@independent` run on one that does not notice each, as `claims` says: one thread may run both iterations. One that does not do
    `all_reads`, but only those whose value something uses, need not report a fault of `READS`.
    """

    name: str
    run: Callable[[Call, int], Results]
    loose: Loose = field(default_factory=dict)
    order: int = 0
    grains: Grains = field(default_factory=dict)
    faults: bool = True
    claims: bool = True
    all_reads: bool = True


def ast_executor(kernel: TypedKernel, debug: bool = False) -> Executor:
    """The interpreter of the typed tree."""

    def run(call: Call, seed: int) -> Results:
        return run_ast(kernel, call.arrays, call.scalars, dims=call.dims, seed=seed, trap_div=debug, max_steps=MAX_STEPS)

    return Executor("ast", run)


def flat_executor(name: str, kernel: TypedKernel, plan: Plan, debug: bool = False, order: int = 0) -> Executor:
    """The interpreter of the flat IR; at stage=thread the order of atomics is the schedule's. `order` is added to the seed."""

    def run(call: Call, seed: int) -> Results:
        options = {"dims": call.dims, "seed": seed + order, "trap_div": debug, "source": kernel.source, "max_steps": MAX_STEPS}
        return run_flat(plan, call.arrays, call.scalars, **options)

    loose = {output: {ATOMICS} for output, causes in inexact(plan).items() if ATOMICS in causes} if is_threads(plan) else {}
    claims = {k.stage for k in plan.kernels} == {"tile"}
    all_reads = debug or not any(SIMPLIFY.name in k.done for k in plan.kernels)
    return Executor(name, run, loose, order, grains(plan) if loose else {}, claims=claims, all_reads=all_reads)


def step_executors(
    kernel: TypedKernel, plans: Iterable[tuple[str, Plan]], debug: bool = False, orders: Sequence[int] = ORDERS
) -> Iterator[Executor]:
    """The syntax tree, then the IR after each step that changed it: the first to differ names the step at fault.

    Executors come as `plans` do. Those at stage=thread take turns in the `orders` of their warps; the last takes what is left.
    """
    yield ast_executor(kernel, debug)
    last, left = None, list(orders)
    for name, plan in plans:
        if last is None or _undone(plan) != _undone(last):
            order = (left.pop(0) if left else orders[0]) if is_threads(plan) else 0
            yield flat_executor(name, kernel, plan, debug, order)
        last = plan
    if last and is_threads(last) and any(map(_is_seeded, last.kernels)):
        yield from (flat_executor(name, kernel, last, debug, order) for order in left)


def prefix_executors(compiled: Compiled, debug: bool = False, orders: Sequence[int] = ORDERS) -> Iterator[Executor]:
    """The `step_executors` of a kernel that is compiled."""
    plans = [(LOWERING, compiled.tile), *((p.name, compiled.after(p.name)) for p in PIPELINE.passes)]
    return step_executors(compiled.typed, plans, debug, orders)


def _is_seeded(kernel: Kernel) -> bool:
    """Whether a seed can matter to a kernel at stage=thread: to the order of its warps, or to where arrays begin."""
    return may_meet(kernel.insts) or any(inst.op in ("aligned", "ahead") for inst in kernel.insts)


def is_threads(plan: Plan) -> bool:
    """Whether all kernels are at stage=thread."""
    return {k.stage for k in plan.kernels} == {"thread"}


def _undone(plan: Plan) -> Plan:
    return plan.with_kernels(replace(kernel, done=()) for kernel in plan.kernels)


def gpu_executor(compiled: Compiled) -> Executor:
    """The emitted kernel on the GPU."""
    from vxc.runtime.launch import run_numpy

    def run(call: Call, seed: int) -> Results:
        return run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)

    return Executor(GPU, run, inexact(compiled.tile), grains=grains(compiled.tile), faults=False)


@record
class Disagreement:
    """Two executors that differ on one set of inputs. `why` is the difference, or the fault that only one reports, of the code `code`."""

    inputs: str
    pair: tuple[str, str]
    why: str
    code: str = ""

    def __str__(self) -> str:
        return f"{self.pair[0]} and {self.pair[1]} differ on {self.inputs}: {self.why}"


@record
class SharedFault:
    """A fault of the same codes from every executor that comes upon it, on one set of inputs: they agree, but nothing was compared."""

    inputs: str
    error: VxcError

    def __str__(self) -> str:
        return f"all fault alike with {', '.join(_codes(self.error))} on {self.inputs}"


def findings(executors: Iterable[Executor], inputs: Mapping[str, Call], seed: int = 0) -> Iterator[Disagreement | SharedFault]:
    """Each executor against the first, on each set of inputs; then the sets on which all report one fault."""
    executors = iter(executors)
    reference = next(executors)
    expected = {name: _outcome(reference, call, seed) for name, call in inputs.items()}
    alike = {name: outcome for name, outcome in expected.items() if isinstance(outcome, VxcError)}
    for other in executors:
        for name, call in inputs.items():
            if isinstance(expected[name], VxcError) and not (other.faults and (other.claims or CLAIM not in _codes(expected[name]))):
                continue
            code, why = _contrast(expected[name], _outcome(other, call, seed), other)
            if why:
                alike.pop(name, None)
                yield Disagreement(name, (reference.name, other.name), why, code)
    for name, error in alike.items():
        yield SharedFault(name, error)


def disagreements(executors: Iterable[Executor], inputs: Mapping[str, Call], seed: int = 0) -> Iterator[Disagreement]:
    """The `findings` in which executors differ."""
    return (found for found in findings(executors, inputs, seed) if isinstance(found, Disagreement))


def _outcome(executor: Executor, call: Call, seed: int) -> Results | VxcError:
    try:
        return executor.run(call, seed)
    except VxcError as error:
        return error


def _codes(outcome: Results | VxcError) -> list[str]:
    return sorted({d.code for d in outcome.diagnostics}) if isinstance(outcome, VxcError) else []


def _contrast(expected: Results | VxcError, got: Results | VxcError, other: Executor) -> tuple[str, str]:
    """The code of a fault that one reports alone, and how two outcomes differ; "" where they agree, as two faults of one code do."""
    if isinstance(expected, VxcError) and READS.issuperset(_codes(expected)) and not (other.all_reads or _codes(got)):
        return "", ""
    if _codes(expected) != _codes(got):
        told = next(o for o in (got, expected) if isinstance(o, VxcError)).diagnostics[0]
        return told.code, f"one reports {told.code}, {told.message}"
    if isinstance(expected, VxcError) or isinstance(got, VxcError):
        return "", ""
    return "", str(first_difference(expected, got, other.loose, other.grains) or "")
