"""From a compiled kernel and the inputs of a call to its explanation."""

from __future__ import annotations

from vxc.diag import VxcError
from vxc.driver import Compiled
from vxc.explain.bounds import Finding, bounds_of
from vxc.explain.layouts import layouts_of
from vxc.explain.loops import loops_of
from vxc.explain.measure import Measured, accesses_of, execution_of, measure, traffic_of
from vxc.explain.model import Decision, KernelExplanation, Launch, Resources
from vxc.explain.resources import resources_of
from vxc.inputs import Call
from vxc.pass_manager import Remark

NO_NVRTC = ("E0601", "E0602")
NO_SIZES = Measured(note="there is no `example` line and no -a: arguments, and so memory traffic, are not known")


def explain(compiled: Compiled, call: Call | None) -> KernelExplanation:
    """What the compiler decided on a kernel or program, and what that costs in one call; None: sizes are not known.

    Raises VxcError for what the call does wrong, and for CUDA text that is rejected; without NVRTC, resources are missing.
    """
    measured = measure(compiled, call) if call else NO_SIZES
    notes = [measured.note] if measured.note else []
    try:
        resources = resources_of(compiled)
    except VxcError as error:
        if error.diagnostics[0].code not in NO_NVRTC:
            raise
        resources = {}
        notes.append(f"registers and occupancy are not known: {error.diagnostics[0].message}")
    launches = [_launch(compiled, kernel.name, resources.get(kernel.name), measured) for kernel in compiled.plan.kernels]
    for x in launches:
        if x.execution and x.execution.simulated_blocks < x.grid:
            ran = f"{x.execution.simulated_blocks} of its {x.grid:,} blocks were simulated"
            notes.append(f"{x.kernel}: {ran}, some from its start, its end and between; counts are estimated from them")
    remarks = (*map(_decision, compiled.remarks), *map(_unproven, bounds_of(compiled.tile)))
    return KernelExplanation(compiled.tile.name, dict(measured.arrays), tuple(launches), remarks, tuple(notes))


def _launch(compiled: Compiled, name: str, resources: Resources | None, measured: Measured) -> Launch:
    kernel, target = compiled.plan.kernel(name), compiled.target
    grid = measured.grids.get(name)
    at_once = resources.blocks_per_multiprocessor * target.sms if resources else 0
    return Launch(
        kernel=name,
        threads=kernel.attr("threads", 1),
        grid=grid,
        multiprocessors=target.sms,
        waves=float(f"{grid / at_once:.3g}") if grid is not None and at_once else None,
        resources=resources,
        execution=execution_of(kernel, measured) if grid else None,  # it moves nothing where it is not launched: not even each array once
        traffic=traffic_of(kernel, measured, target) if grid else None,
        loops=loops_of(compiled, name),
        layouts=layouts_of(compiled, name),
        accesses=accesses_of(kernel, measured),
    )


def _decision(remark: Remark) -> Decision:
    line, column = remark.loc or (None, None)
    return Decision(remark.pass_name, remark.kind, remark.kernel, line, column, remark.message, remark.superseded_by or None)


def _unproven(found: Finding) -> Decision:
    line, column = found.loc or (None, None)
    said = found.diagnostic
    message = "; ".join((said.message, *said.notes, said.help))
    return Decision("prove-in-range", "missed", found.kernel, line, column, message)
