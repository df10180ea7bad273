"""The whole path: source -> typed tree -> plan -> passes -> CUDA text -> machine code.

`compile` runs it up to the final plan, so that all that can be wrong with the source is said; text and machine code are
made when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

from vxc.collector import COLLECTOR
from vxc.cuda.cached import Job
from vxc.cuda.emit import emit
from vxc.cuda.names import kernel_symbol
from vxc.cuda.nvrtc import Binary
from vxc.diag import Diagnostic, VxcError, listed
from vxc.dtypes import DType
from vxc.frontend.check import NO_DEFINES, check, kernel_names, program_names
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.frontend.selection import only
from vxc.frontend.typed import TypedKernel
from vxc.frontend.typed_program import TypedProgram
from vxc.ir.alignment import with_alignment
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, PipelineError, Remark
from vxc.pipeline import PIPELINE
from vxc.record import record
from vxc.register_cap import register_cap
from vxc.source import Source
from vxc.target import DEFAULT_ARCH, Target, target as target_of

NOTHING_KNOWN: Mapping[str, bool] = MappingProxyType({})  # of where arrays lie


@record
class Compiled:
    """A kernel or program on its way. `tile` is the plan that the passes start from; `typed` is None if that was IR; `source` is
    the text that places are in, None if it is not known.

    `plan` (and `after`, `remarks`) are there at once, for the passes have run; `cuda`, `binary` and `ptx` are made when first
    asked for.
    """

    tile: Plan
    target: Target
    typed: TypedKernel | TypedProgram | None = None
    source: Source | None = None
    debug: bool = False
    max_registers: int | None = None

    @cached_property
    def _passed(self) -> tuple[dict[str, Plan], tuple[Remark, ...]]:
        """The plan after each pass that ran, and what the passes said."""
        context = Context(self.target, self.debug)
        plans: dict[str, Plan] = {}
        PIPELINE.run(self.tile, context, plans.__setitem__)
        return plans, tuple(context.remarks)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the passes decided, in order."""
        return self._passed[1]

    @property
    def plan(self) -> Plan:
        """The plan at the end, at stage=thread."""
        return next(reversed(self._passed[0].values()), self.tile)

    def after(self, name: str) -> Plan:
        """The plan after the pass `name`. KeyError for a pass that did not run."""
        return self._passed[0][name]

    @cached_property
    def cuda(self) -> str:
        """The CUDA C++ text. Raises VxcError (E0402, E0715)."""
        with COLLECTOR.paused():
            return emit(self.plan, debug=self.debug, bounds=self.max_registers is None)

    @cached_property
    def job(self) -> Job:
        """What NVRTC is asked for. Raises as `cuda`."""
        fp = self.plan.kernels[0].attr("fp", "exact") if self.plan.kernels else "exact"
        return Job(self.cuda, f"{self.plan.name}.cu", self.target.name, fp, self.max_registers, self.debug)

    @cached_property
    def binary(self) -> Binary:
        """Machine code, PTX and resources, of the cache if they are there.

        Raises VxcError: as `cuda`, E0601, E0602 (NVRTC), E0702 (it rejects the text).
        """
        return self.job.binary([k.source for k in self.plan.kernels if k.source])

    @property
    def ptx(self) -> str:
        """The PTX that the machine code was made from. Raises as `binary`."""
        return self.binary.ptx

    def symbol(self, kernel: str) -> str:
        """What the machine code calls a kernel of the plan."""
        return kernel_symbol(kernel)


def compile(
    source: Source,
    name: str | None = None,
    defines: Mapping[str, int | bool | DType] = NO_DEFINES,
    target: str = DEFAULT_ARCH,
    *,
    debug: bool = False,
    maxrregcount: int | None = None,
    reduce_chunk: int | None = None,
    aligned: Mapping[str, bool] = NOTHING_KNOWN,
) -> Compiled:
    """The kernel or program `name` (or the only program, else the only kernel) of a .vx source, compiled for one arch.

    `defines` fixes generics and dimensions, as -D does; what it leaves comes from the first `example` and from defaults. `debug`
    adds checks of indices, divisors and asserts to the emitted code; `maxrregcount` caps registers a thread (None: `VXC_MAXRREG` of
    the environment does); `reduce_chunk` is the chunk of reductions that do not say theirs; `aligned` says of arrays whether all their
    rows begin at multiples of 16 bytes (`vxc.ir.alignment`), which for others the kernel finds out itself. Raises VxcError with all that
    is wrong with the source (E01xx to E04xx), E0234 for no such kernel, E0701 for no such arch, E0708 for no such array, E0709 for no such
    cap, and E0716.
    """
    maxrregcount = register_cap(maxrregcount)
    with COLLECTOR.paused():
        module = parse(source)
        chosen = name or only(program_names(module) or kernel_names(module), source)
        typed = check(module, source, chosen, defines, reduce_chunk=reduce_chunk)
        return compile_typed(typed, target, debug=debug, maxrregcount=maxrregcount, aligned=aligned)


def compile_typed(
    typed: TypedKernel | TypedProgram,
    target: str = DEFAULT_ARCH,
    *,
    debug: bool = False,
    maxrregcount: int | None = None,
    aligned: Mapping[str, bool] = NOTHING_KNOWN,
) -> Compiled:
    """A checked kernel or program, compiled. Raises VxcError with what passes find (E03xx, E04xx, E0716), E0701, E0708."""
    plan = lower(typed)
    arrays = [b.name for b in plan.buffers]
    for name in aligned:
        if name not in arrays:
            message = f"`{name}` is said to be aligned or not, and is no array of `{plan.name}`"
            raise VxcError(Diagnostic("E0708", message, help=f"its arrays are {listed(arrays)}" if arrays else "it has none"))
    return compile_plan(with_alignment(plan, aligned), typed, target, debug=debug, maxrregcount=maxrregcount)


def compile_plan(
    tile: Plan, typed: TypedKernel | TypedProgram, target: str = DEFAULT_ARCH, *, debug: bool = False, maxrregcount: int | None = None
) -> Compiled:
    """A plan at stage=tile that stands for `typed`, compiled. Raises as `compile_typed`."""
    with COLLECTOR.paused():
        return _finished(Compiled(tile, target_of(target), typed, typed.source, debug, maxrregcount))


def compile_ir(source: Source, target: str = DEFAULT_ARCH, *, debug: bool = False, maxrregcount: int | None = None) -> Compiled:
    """A plan as IR text, from the pass after its last done one. Raises VxcError: E05xx, and what passes find."""
    from vxc.ir.reader import read_placed  # with the grammar of IR, which no kernel in .vx needs

    plan = read_placed(source)
    text = plan.kernels[0].source if plan.kernels else None
    compiled = Compiled(_resumable(plan), target_of(target), None, text, debug, maxrregcount)
    try:
        with COLLECTOR.paused():
            return _finished(compiled)
    except PipelineError as error:
        hint = f"the passes are {', '.join(p.name for p in PIPELINE.passes)}: list those that have run, from the first on"
        raise VxcError(Diagnostic("E0523", str(error), source, help=hint)) from None


def _finished(compiled: Compiled) -> Compiled:
    """The same, with the passes run."""
    compiled.plan
    return compiled


def _resumable(plan: Plan) -> Plan:
    """IR written by hand below stage=tile counts as having behind it what leads to its stage."""
    stages = {k.stage for k in plan.kernels}
    if any(k.done for k in plan.kernels) or stages == {"tile"} or len(stages) != 1:
        return plan
    names = [p.name for p in PIPELINE.passes]
    last = next(at for at, p in enumerate(PIPELINE.passes) if stages <= set(p.gives))
    return plan.with_kernels(replace(k, done=tuple(names[: last + 1])) for k in plan.kernels)
