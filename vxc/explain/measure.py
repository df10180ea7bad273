"""What the kernels of a plan do to memory at the sizes of one call, counted by the simulated threads."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import field

from vxc.binding import describe
from vxc.diag import VxcError
from vxc.driver import Compiled
from vxc.explain.model import Access, Execution, Roofline, Traffic
from vxc.inputs import Call
from vxc.interp.flat_counters import SECTOR, Accesses, Counters
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Buffer, Inst, Kernel
from vxc.ir.narrow import Reason, words
from vxc.ir.ops import DECLARES, accesses
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record
from vxc.schedule import bind_plan, schedule
from vxc.semantics import SCALAR_OPS
from vxc.target import Target

MOST_BLOCKS = 96
"""Of a launch of more blocks, so many are simulated: a sixth from its start, a sixth from its end, the rest spread over what is between."""

WIDEST = 16  # bytes that one thread can access at a time
BY_ADDRESS: Reason = ("address",)  # of a `move` with `anywhere`, in more accesses than one
PART: Reason = ("part",)  # of a `move` of a part
_FREE = frozenset((*DECLARES, "end", "else", "extern"))  # nothing is executed for these


@record
class Measured:
    """The counts of one call, and its launches. `note` says why there is less than was asked for."""

    counters: Counters = field(default_factory=Counters)
    grids: Mapping[str, int] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)  # dtype and shape of each array
    note: str = ""


def measure(compiled: Compiled, call: Call) -> Measured:
    """Run the final plan with counters. Raises VxcError as `run_flat`, for what the call does wrong."""
    plan, counters = compiled.plan, Counters(MOST_BLOCKS)
    binding = bind_plan(plan, {name: describe(a) for name, a in call.arrays.items()}, call.scalars, call.dims, compiled.source)
    grids = {launch.kernel.name: launch.grid for launch in schedule(plan, binding, compiled.source).launches}
    arrays = {b.name: f"{b.dtype}[{', '.join(map(str, binding.shapes[b.name]))}]" for b in plan.buffers}
    note = ""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # what the kernel prints
            run_flat(plan, call.arrays, call.scalars, dims=call.dims, debug=False, counters=counters, source=compiled.source)
    except VxcError as error:
        if all(run == grid for run, grid in counters.blocks.values()):
            raise
        note = f"counted up to a fault of the blocks that stand for all: {error.diagnostics[0].message}"
    return Measured(counters, grids, arrays, note)


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
        warp_instructions=round(warps),
        active_lanes=round(threads / warps, 2) if warps else 0.0,
        divergent_branches=round(sum(counters.divergent[name, at] for at in counted)),
        barriers=round(sum(counters.issued[name, at] for at in counted if kernel.insts[at].op == "barrier")),
    )


def _free(inst: Inst) -> bool:
    return inst.op in _FREE or (inst.op in ("load", "store") and inst.operands[0].space in ("cell", "local"))


def traffic_of(kernel: Kernel, measured: Measured, target: Target) -> Traffic | None:
    """Bytes and arithmetic of a launch, and what the card could do at best."""
    name = kernel.name
    if name not in measured.counters.blocks:
        return None
    found = [count for (k, *_), count in measured.counters.accesses.items() if k == name and count.space != "shared"]
    minimum = round(SECTOR * sum(t.sectors for (k, _), t in measured.counters.touched.items() if k == name))
    operations = {bits: _operations(kernel, measured, bits) for bits in (32, 64)}
    total = sum(operations.values())
    return Traffic(
        minimum_bytes=minimum,
        requested_bytes=round(sum(c.bytes * c.threads for c in found)),
        moved_bytes=round(sum(c.sectors for c in found) * SECTOR),
        operations=total,
        operations_per_byte=round(total / minimum, 3) if minimum else None,
        roofline=_roofline(minimum, operations, target),
    )


def _operations(kernel: Kernel, measured: Measured, bits: int) -> int:
    """Floating-point operations in so many bits (or fewer, for 32): an fma is two, an elementary function one."""
    threads = measured.counters.threads
    return round(sum(_weight(inst, bits) * threads[kernel.name, at] for at, inst in enumerate(kernel.insts)))


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


def accesses_of(kernel: Kernel, measured: Measured) -> tuple[Access, ...]:
    """The accesses to global and shared memory, those alike from one line of the source as one, in program order."""
    groups: dict[tuple, list[int]] = {}
    counted: dict[tuple[int, str], list[int]] = {}
    for name, at, array, size in measured.counters.accesses:
        if name == kernel.name:
            counted.setdefault((at, array), []).append(size)
    for at, inst in enumerate(kernel.insts):
        for buffer, _, mode in accesses(inst):
            if buffer.space in ("param", "workspace", "shared"):
                sizes = counted.get((at, buffer.name)) or [max(1, buffer.dtype.bits * inst.attr("width", 1) // 8)]
                for size in sorted(sizes, reverse=True):
                    groups.setdefault((buffer, inst.loc[0] if inst.loc else None, _KINDS[mode], size), []).append(at)
    return tuple(_access(kernel, *key, places, measured) for key, places in groups.items())


_KINDS = {"r": "load", "w": "store", "rw": "atomic"}


def _access(
    kernel: Kernel,
    buffer: Buffer,
    line: int | None,
    kind: str,
    size: int,
    places: list[int],
    measured: Measured,
) -> Access:
    space, name = buffer.space, kernel.name
    found = [measured.counters.accesses.get((name, at, buffer.name, size), Accesses(space, size)) for at in places]
    known = name in measured.counters.blocks
    requests, shared = sum(c.requests for c in found), space == "shared"
    ideal = sum(c.ideal_cycles for c in found)
    reasons = _narrow([kernel.insts[at] for at in places], size)

    def each(count: float) -> float | None:
        return round(count / requests, 2) if requests and not shared else None

    return Access(
        buffer=source_name(buffer.name),
        line=line,
        kind=kind,
        space="shared" if shared else "global",
        bytes_per_access=size,
        why_not_wider="; ".join(map(words, reasons)) or None,
        narrow=reasons,
        requests=round(requests) if known else None,
        sectors_per_request=each(sum(c.sectors for c in found)),
        ideal_sectors_per_request=each(sum(c.ideal_sectors for c in found)),
        moved_bytes=round(sum(c.sectors for c in found) * SECTOR) if known and not shared else None,
        bank_conflicts=round(sum(c.cycles for c in found) / ideal, 2) if shared and ideal else None,
        same_element=round(sum(c.turns for c in found) / requests, 2) if requests and kind == "atomic" else None,
    )


def _narrow(insts: Sequence[Inst], size: int) -> tuple[Reason, ...]:
    """What the passes left at accesses of fewer than 16 bytes (`narrow`); a `move` anywhere, or of a part, may be of several each."""
    if size >= WIDEST:
        return ()
    whole = [inst.attr("width", 1) * inst.operands[0].dtype.bits // 8 <= size for inst in insts]
    several = [PART if inst.op == "move" and len(inst.operands) > 4 else BY_ADDRESS for inst in insts]
    reasons = [inst.attr("narrow") if all_ else why for inst, all_, why in zip(insts, whole, several)]
    return tuple(dict.fromkeys(filter(None, reasons)))
