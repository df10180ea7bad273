"""Registers, spills, shared memory and occupancy of each kernel of the machine code."""

from __future__ import annotations

from vxc.driver import Compiled
from vxc.explain.model import Resources
from vxc.target import WARP, max_registers, occupancy


def resources_of(compiled: Compiled) -> dict[str, Resources]:
    """By the plan's kernels. Raises VxcError: E0601, E0602 where there is no fitting NVRTC, E0702, and as `Compiled.cuda`."""
    found = {}
    for kernel in compiled.plan.kernels:
        used = compiled.binary.kernels[compiled.symbol(kernel.name)]
        shared, threads = used.shared + kernel.attr("shared_bytes", 0), kernel.attr("threads", 1)
        most = max_registers(threads, kernel.attr("min_blocks", 1))
        blocks, limit = occupancy(compiled.target, threads, used.registers, shared)
        found[kernel.name] = Resources(
            registers=used.registers,
            register_cap=compiled.max_registers,
            register_limit=min(compiled.max_registers or most, most),
            spill_bytes=used.spill_stores + used.spill_loads,
            stack_bytes=used.stack,
            shared_bytes=shared,
            blocks_per_multiprocessor=blocks,
            warps_per_multiprocessor=blocks * -(-threads // WARP),
            warp_limit=compiled.target.warps_per_sm,
            limited_by=limit,
        )
    return found
