"""Passes, the pipeline that orders them, and remarks.

A pass is a named function plan -> plan with a contract: the properties it `needs`, those it `gives`, those it `breaks`. Every
pass keeps every result bit for bit. A pipeline checks at construction that the needs of each pass are given by those before
it. Running it verifies the plan after every pass, records the pass in each kernel's `done`, and starts
after the last pass that is already there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from vxc.ir.plan import Plan
from vxc.ir.verify import verify
from vxc.record import record
from vxc.target import Target


@record
class Remark:
    """One decision: `kind` is 'applied' or 'missed'; `loc` the (line, column) it is about, where there is one.

    `about` names what is decided, where a later pass may decide it again: `superseded_by` is the pass that has.
    """

    pass_name: str
    kind: str
    message: str
    kernel: str = ""
    loc: tuple[int, int] | None = None
    about: tuple[str, ...] = ()
    superseded_by: str = ""

    def __str__(self) -> str:
        place = f":{self.loc[0]}:{self.loc[1]}" if self.loc else ""
        return f"{self.kind} {self.pass_name} {self.kernel}{place}: {self.message}"


@record
class Context:
    """What passes may know besides the plan."""

    target: Target
    debug: bool = False
    remarks: list[Remark] = field(default_factory=list)
    pass_name: str = ""

    def applied(self, message: str, kernel: str = "", loc: tuple[int, int] | None = None, about: tuple[str, ...] = ()) -> None:
        """Note a decision; what other passes have said about the same (`about`, kernel and place) no longer holds."""
        for at, said in enumerate(self.remarks if about else ()):
            if (said.about, said.kernel, said.loc, said.superseded_by) == (about, kernel, loc, "") and said.pass_name != self.pass_name:
                self.remarks[at] = replace(said, superseded_by=self.pass_name)
        self.remarks.append(Remark(self.pass_name, "applied", message, kernel, loc, about))

    def missed(self, message: str, kernel: str = "", loc: tuple[int, int] | None = None) -> None:
        self.remarks.append(Remark(self.pass_name, "missed", message, kernel, loc))


@record
class Pass:
    """One step of the pipeline; see the module's docstring."""

    name: str
    run: Callable[[Plan, Context], Plan]
    doc: str
    needs: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()


class PipelineError(ValueError):
    """The passes are in an order in which some needs are not met."""


@record
class Pipeline:
    """Passes in order, from the properties `given` at the start (lowering gives 'tile')."""

    passes: tuple[Pass, ...]
    given: tuple[str, ...] = ("tile",)

    def __post_init__(self):
        have = set(self.given)
        for p in self.passes:
            lacking = set(p.needs) - have
            if lacking:
                raise PipelineError(f"pass {p.name} needs {', '.join(sorted(lacking))}, which no pass before it gives or keeps")
            have = (have - set(p.breaks)) | set(p.gives)

    def remaining(self, plan: Plan) -> Sequence[Pass]:
        """The passes after the last one that every kernel of the plan has behind it, by position."""
        count = min(len(k.done) for k in plan.kernels) if plan.kernels else 0
        names = [p.name for p in self.passes]
        for k in plan.kernels:
            if list(k.done[:count]) != names[:count]:
                raise PipelineError(f"kernel {k.name} has done [{', '.join(k.done)}], which is no beginning of [{', '.join(names)}]")
        return self.passes[count:]

    def run(self, plan: Plan, context: Context, observer: Callable[[str, Plan], None] | None = None) -> Plan:
        """Run what remains. `observer(pass name, plan)` is called after each pass."""
        verify(plan)
        for p in self.remaining(plan):
            plan = run_pass(p, plan, context)
            if observer:
                observer(p.name, plan)
        return plan


def run_pass(p: Pass, before: Plan, context: Context) -> Plan:
    """One pass over a plan that has been verified, recorded in the `done` of each kernel, and what it changed verified.

    Kernels that it makes carry the `done` of where they come from.
    """
    plan = p.run(before, Context(context.target, context.debug, context.remarks, p.name))
    plan = plan.with_kernels([k.after(p.name) for k in plan.kernels])
    verify(plan, before)
    return plan
