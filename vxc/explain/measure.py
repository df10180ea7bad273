"""What the kernels of a plan do to memory at the sizes of one call, counted by the simulated threads."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod

from vxc.binding import describe
from vxc.diag import VxcError
from vxc.driver import Compiled
from vxc.explain.model import Access, Execution, Roofline, Traffic
from vxc.inputs import Call
from vxc.interp.flat_counters import SECTOR, Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Buffer, Inst, Kernel
from vxc.ir.ops import DECLARES, accesses
from vxc.pass_manager import Remark
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record
from vxc.schedule import Schedule, bind_plan, schedule
from vxc.semantics import SCALAR_OPS
from vxc.target import Target

MOST_BLOCKS = 96
"""Of a launch of more blocks, a third of so many from its start, its middle and its end are simulated."""

WIDEST = 16  # bytes that one thread can access at a time
NO_WIDTHS = "one element at a time"  # where no pass says more
NARROWER = "where the address or the end of the elements allows no more"
_FREE = frozenset((*DECLARES, "end", "else", "extern"))  # nothing is executed for these


@record
class Measured:
    """The counts of one call, and its launches. `note` says why there is less than was asked for."""

    counters: Counters = field(default_factory=Counters)
    grids: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes of each array and workspace, by the plan's names
    arrays: Mapping[str, str] = field(default_factory=dict)  # dtype and shape of each array
    calls: Schedule | None = None
    note: str = ""

    def scale(self, kernel: str, count: int) -> int:
        """A count of the blocks that were run, for the whole grid."""
        run, grid = self.counters.blocks[kernel]
        return count if run == grid else round(count * grid / run)


def measure(compiled: Compiled, call: Call) -> Measured:
    """Run the final plan with counters. Raises VxcError as `run_flat`, for what the call does wrong."""
    plan, counters = compiled.plan, Counters(MOST_BLOCKS)
    binding = bind_plan(plan, {name: describe(a) for name, a in call.arrays.items()}, call.scalars, call.dims, compiled.source)
    calls = schedule(plan, binding, compiled.source)
    sizes = {b.name: nbytes(b, binding.shapes[b.name]) for b in plan.buffers} | {w.name: w.nbytes for w in calls.workspaces}
    grids = {launch.kernel.name: launch.grid for launch in calls.launches}
    arrays = {b.name: f"{b.dtype}[{', '.join(map(str, binding.shapes[b.name]))}]" for b in plan.buffers}
    note = ""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # what the kernel prints
            run_flat(plan, call.arrays, call.scalars, dims=call.dims, debug=False, counters=counters, source=compiled.source)
    except VxcError as error:
        if all(run == grid for run, grid in counters.blocks.values()):
            raise
        note = f"counted up to a fault of the blocks that stand for all: {error.diagnostics[0].message}"
    return Measured(counters, grids, sizes, arrays, calls, note)


def nbytes(buffer: Buffer, shape: Sequence[int]) -> int:
    """Of an array of that shape; 4-bit elements lie two to a byte."""
    return -(-prod(shape) * buffer.dtype.bits // 8)


# ---- totals of a launch ----------------------------------------------------------------------------------------------


def execution_of(kernel: Kernel, measured: Measured) -> Execution | None:
    """Warp instructions of the IR, without declarations, ends of regions, and what is mostly in registers."""
    name, counters = kernel.name, measured.counters
    if name not in counters.blocks:
        return None
    counted = [at for at, inst in enumerate(kernel.insts) if not _free(inst)]
    warps = sum(counters.issued[name, at] for at in counted)
    threads = sum(counters.threads[name, at] for at in counted)
    return Execution(
        simulated_blocks=counters.blocks[name][0],
        warp_instructions=measured.scale(name, warps),
        active_lanes=round(threads / warps, 2) if warps else 0.0,
        divergent_branches=measured.scale(name, sum(counters.divergent[name, at] for at in counted)),
        barriers=measured.scale(name, sum(counters.issued[name, at] for at in counted if kernel.insts[at].op == "barrier")),
    )


def _free(inst: Inst) -> bool:
    return inst.op in _FREE or (inst.op in ("load", "store") and inst.operands[0].space in ("cell", "local"))


def traffic_of(kernel: Kernel, measured: Measured, target: Target) -> Traffic | None:
    """Bytes and arithmetic of a launch, and what the card could do at best."""
    name = kernel.name
    if name not in measured.counters.blocks:
        return None
    found = [count for (k, *_), count in measured.counters.accesses.items() if k == name and count.space != "shared"]
    minimum = _minimum(kernel, measured)
    operations = {bits: _operations(kernel, measured, bits) for bits in (32, 64)}
    total = sum(operations.values())
    return Traffic(
        minimum_bytes=minimum,
        requested_bytes=measured.scale(name, sum(c.bytes * c.threads for c in found)),
        moved_bytes=measured.scale(name, sum(c.sectors for c in found) * SECTOR),
        operations=total,
        operations_per_byte=round(total / minimum, 3) if minimum else None,
        roofline=_roofline(minimum, operations, target),
    )


def _minimum(kernel: Kernel, measured: Measured) -> int:
    """Each array that is read once, and each that is written once."""
    (launch,) = (x for x in measured.calls.launches if x.kernel.name == kernel.name)
    passed = {p.name: argument for p, argument in zip(kernel.params, launch.arguments)}
    touched = {(access.buffer.name, mode) for inst in kernel.insts for access in accesses(inst) for mode in access.mode}
    return sum(measured.sizes[passed[name]] for name, _ in sorted(touched) if name in passed)


def _operations(kernel: Kernel, measured: Measured, bits: int) -> int:
    """Floating-point operations in so many bits (or fewer, for 32): an fma is two, an elementary function one."""
    threads = measured.counters.threads
    return measured.scale(kernel.name, sum(_weight(inst, bits) * threads[kernel.name, at] for at, inst in enumerate(kernel.insts)))


def _weight(inst: Inst, bits: int) -> int:
    if inst.op not in SCALAR_OPS or inst.op == "select" or not inst.result.dtype.is_float or (inst.result.dtype.bits == 64) != (bits == 64):
        return 0
    return 2 if inst.op == "fma" else 1


def _roofline(minimum: int, operations: Mapping[int, int], target: Target) -> Roofline | None:
    peak = target.peak
    if peak is None:
        return None
    memory = minimum / (peak.memory_giga * 1e3)
    arithmetic = operations[32] / (peak.f32_tera * 1e6) + operations[64] / (peak.f64_tera * 1e6)
    bound = "memory" if memory >= arithmetic else "arithmetic"
    return Roofline(peak.device, float(f"{memory:.4g}"), float(f"{arithmetic:.4g}"), bound, peak.source)


# ---- accesses --------------------------------------------------------------------------------------------------------


def accesses_of(kernel: Kernel, measured: Measured, remarks: tuple[Remark, ...]) -> tuple[Access, ...]:
    """The accesses to global and shared memory, those alike from one line of the source as one, in program order."""
    groups: dict[tuple, list[int]] = {}
    counted: dict[tuple[int, str], list[int]] = {}
    for (name, at, array, size), _ in measured.counters.accesses.items():
        if name == kernel.name:
            counted.setdefault((at, array), []).append(size)
    for at, inst in enumerate(kernel.insts):
        for buffer, _, mode in accesses(inst):
            if buffer.space in ("param", "workspace", "shared"):
                sizes = counted.get((at, buffer.name)) or [max(1, buffer.dtype.bits * inst.attr("width", 1) // 8)]
                for size in sorted(sizes, reverse=True):
                    groups.setdefault((buffer, inst.loc[0] if inst.loc else None, _KINDS[mode], size), []).append(at)
    return tuple(_access(kernel.name, *key, _wider(key, groups), places, measured, remarks) for key, places in groups.items())


def _wider(key: tuple, groups: Mapping[tuple, list[int]]) -> bool:
    """Whether the same line accesses the same array more widely as well."""
    return any(other[:3] == key[:3] and other[3] > key[3] for other in groups)


_KINDS = {"r": "load", "w": "store", "rw": "atomic"}


def _access(
    kernel: str,
    buffer: Buffer,
    line: int | None,
    kind: str,
    size: int,
    wider: bool,
    places: list[int],
    measured: Measured,
    remarks: tuple[Remark, ...],
) -> Access:
    space = buffer.space
    found = [measured.counters.accesses.get((kernel, at, buffer.name, size), Accesses(space, size)) for at in places]
    known = kernel in measured.counters.blocks
    requests, shared = sum(c.requests for c in found), space == "shared"
    ideal = sum(c.ideal_cycles for c in found)

    def each(count: int) -> float | None:
        return round(count / requests, 2) if requests and not shared else None

    return Access(
        buffer=source_name(buffer.name),
        line=line,
        kind=kind,
        space="shared" if shared else "global",
        bytes_per_access=size,
        why_not_wider=None if size >= WIDEST or kind == "atomic" else _why_not_wider(kernel, buffer, line, size, wider, remarks),
        requests=measured.scale(kernel, requests) if known else None,
        sectors_per_request=each(sum(c.sectors for c in found)),
        ideal_sectors_per_request=each(sum(c.ideal_sectors for c in found)),
        moved_bytes=measured.scale(kernel, sum(c.sectors for c in found) * SECTOR) if known and not shared else None,
        bank_conflicts=round(sum(c.cycles for c in found) / ideal, 2) if shared and ideal else None,
        same_element=round(sum(c.turns for c in found) / requests, 2) if requests and kind == "atomic" else None,
    )


def _why_not_wider(kernel: str, buffer: Buffer, line: int | None, size: int, wider: bool, remarks: tuple[Remark, ...]) -> str | None:
    """What the pass that chooses widths says of the array on that line; without it, the plain fact."""
    if wider:
        return NARROWER
    said = [r for r in remarks if (r.pass_name, r.kind, r.kernel) == ("infer-vector-widths", "missed", kernel)]
    about = [r.message for r in said if r.loc and r.loc[0] == line and f"`{source_name(buffer.name)}`" in r.message]
    return about[0] if about else NO_WIDTHS if size == max(1, buffer.dtype.bytes) else None
