"""One case through the whole compiler, every step compared with the syntax tree.

What can go wrong is a `Failure`: executors differ, a step refuses what an earlier one accepted, or an exception that is no
diagnostic. Only E0313, the prover's "cannot tell", is no failure: the program is rejected and nothing runs. Programs are made by chance
and compute anything with what elementary functions give, so outputs that are `distorted` are not compared with a GPU's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from vxc.analysis.exactness import DISTORTED, distorted
from vxc.diag import VxcError, told
from vxc.diff import LOWERING, Disagreement, Executor, SharedFault
from vxc.diff import ast_executor, disagreements, findings, flat_executor, gpu_executor, is_threads, step_executors
from vxc.driver import Compiled
from vxc.frontend.lower import lower
from vxc.frontend.typed import TypedKernel
from vxc.fuzz.case import Case
from vxc.fuzz.counts import constructs
from vxc.fuzz.views import VIEWS, viewed
from vxc.inputs import Call
from vxc.ir.alignment import with_alignment
from vxc.ir.plan import Plan
from vxc.ir.verify import verify
from vxc.pass_manager import Context, run_pass
from vxc.pipeline import PIPELINE
from vxc.record import record
from vxc.target import DEFAULT_ARCH, target

CHECK, EMIT = "check", "emit"
UNPROVEN = "E0313"
INPUTS = "its arguments"

Report = Callable[[str], None]
Aligned = Mapping[str, bool]


@record
class Executors:
    """What cases run on: the interpreters, and with `gpu` a device of the architecture `arch`."""

    arch: str = DEFAULT_ARCH
    gpu: bool = False


@record
class Failure:
    """What went wrong: `kind` in a few words, `where` the step at fault, `cause` a code, an exception's type or "", `why` in full."""

    kind: str
    where: str
    cause: str
    why: str

    @property
    def signature(self) -> tuple[str, str, str]:
        """What two failures of one fault have in common."""
        return self.kind, self.where, self.cause

    @property
    def headline(self) -> str:
        """One line, of the step and what happened there."""
        return f"{self.where or 'before any step'}: {self.why.splitlines()[0]}"


@record
class Outcome:
    """What became of a case. Without a failure, an `error` is what the prover or all executors alike report, else executors agree."""

    case: Case | None
    failure: Failure | None = None
    error: VxcError | None = None
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def code(self) -> str:
        return self.error.diagnostics[0].code if self.error else ""

    @property
    def length(self) -> int:
        return len(self.case.text) if self.case else 0


def quiet(step: str) -> None:
    """Reports no step."""


def examine(case: Case, executors: Executors = Executors(), *, fit: bool = False, report: Report = quiet) -> Outcome:
    """Compile and run a case; `report` is called with the name of each step before it begins.

    With `fit`, arguments are first fitted to the kernel (`Case.fitted`).
    """
    steps: list[str] = []

    def at(step: str) -> None:
        steps.append(step)
        report(step)

    try:
        at(CHECK)
        kernel = case.typed()[1]
        case = case.fitted(kernel) if fit else case
        call = case.call(kernel)
        plans: dict[str, Plan] = {}
        found, last = _first(kernel, case, call, plans, executors, at)
    except VxcError as error:
        code = error.diagnostics[0].code
        return Outcome(case, None if code == UNPROVEN else Failure("refused", steps[-1], code, str(error)), error)
    except Exception as error:
        return Outcome(case, Failure("exception", steps[-1], type(error).__name__, told(error)))
    if isinstance(found, Disagreement):
        return Outcome(case, Failure("difference", _guilty(kernel, call, plans, last), found.code, str(found)))
    return Outcome(case, None, found and found.error, constructs(case.text, plans.values()))


def _first(
    kernel: TypedKernel, case: Case, call: Call, plans: dict[str, Plan], on: Executors, at: Report
) -> tuple[Disagreement | SharedFault | None, Executor]:
    """The first finding, steps taken as far as it needs, and the last executor that ran; `plans` receives what the steps give."""
    ran: list[Executor] = []

    def announced(executor: Executor) -> Executor:
        def run(call: Call, seed: int):
            at(executor.name)
            ran.append(executor)
            return executor.run(call, seed)

        return replace(executor, run=run)

    found = next(findings(map(announced, _executors(kernel, case, call, plans, on, at)), {INPUTS: call}), None)
    return found, ran[-1]


def _executors(kernel: TypedKernel, case: Case, call: Call, plans: dict[str, Plan], on: Executors, at: Report) -> Iterator[Executor]:
    yield from step_executors(kernel, _steps(kernel, case.aligned, plans, on.arch, at))
    at(VIEWS)
    views = viewed(kernel, call, on.arch, case.seed)
    if views:
        yield views
    at(EMIT)
    compiled = Compiled(next(reversed(plans.values())), target(on.arch), kernel, kernel.source)
    compiled.cuda
    if on.gpu:
        gpu = gpu_executor(compiled)
        yield replace(gpu, loose={**gpu.loose, **dict.fromkeys(distorted(plans[LOWERING]), {DISTORTED})})


def _steps(kernel: TypedKernel, aligned: Aligned, plans: dict[str, Plan], arch: str, at: Report) -> Iterator[tuple[str, Plan]]:
    """The plan after each step; the first only once the iterations are proven independent, for else results mean nothing."""
    context = Context(target(arch))
    at(LOWERING)
    plan = plans[LOWERING] = with_alignment(lower(kernel), aligned)
    verify(plan)
    for p in PIPELINE.passes:
        at(p.name)
        plan = plans[p.name] = run_pass(p, plan, context)
        if len(plans) == 2:
            yield LOWERING, plans[LOWERING]
        yield p.name, plan


def _guilty(kernel: TypedKernel, call: Call, plans: Mapping[str, Plan], wrong: Executor) -> str:
    """The step at fault where an executor differs: at stage=thread the first after which warps in the same order give a difference."""
    threads = [name for name, plan in plans.items() if is_threads(plan)]
    before = threads[: threads.index(wrong.name)] if wrong.name in threads else []
    earlier = (flat_executor(name, kernel, plans[name], order=wrong.order) for name in before)
    found = next(disagreements([ast_executor(kernel), *earlier], {INPUTS: call}), None)
    return found.pair[1] if found else wrong.name
