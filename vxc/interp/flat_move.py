"""Vector accesses at stage=thread: `move`, which copies several elements at once, and `aligned` and `ahead`, which say where it may."""

from __future__ import annotations

import numpy as np

from vxc.interp.flat_lanes import both, lanes
from vxc.interp.flat_machine import Machine, Step
from vxc.interp.flat_memory import Memory, active, check_written, own, watch


def move(m: Machine, step: Step) -> None:
    """Raises E0720 and E0729 besides what a load and a store of each element raise."""
    width = step.inst.attr("width")
    target, source = (m.storage[step.args[at].name] for at in (0, 2))
    to, start = (_place(m, step, memory, m.get(step.args[at]), width) for memory, at in ((target, 1), (source, 3)))
    if m.counters is not None:
        m.counters.access(m, step, target, to, width)
        m.counters.access(m, step, source, start, width)
    for k in range(width):
        if source.written is not None:
            check_written(m, step, source, start + k)
        watch(m, step, source, start + k, "r")
        watch(m, step, target, to + k, "w")
        at, value = active(m.mask, *np.broadcast_arrays(to + k, source.data.take(start + k)))
        target.data[at] = value
        if target.written is not None:
            target.written[at] = True


def _place(m: Machine, step: Step, memory: Memory, index: np.ndarray, width: int) -> np.ndarray:
    """Offsets of the first element, in bounds even for lanes that do not run."""
    first = index.astype(np.int64, copy=False)
    last = memory.extent - width
    out = both(m.mask, lanes((first < 0) | (first > last)))
    if out is not False:
        lane = m.first(out)
        at = m.at_lane(first, lane)
        text = f"elements {at} to {at + width - 1} of `{memory.name}` are not all in 0..{memory.extent}"
        raise m.fault("E0720", text, step.inst, lane, "guard the access with an `if`")
    first = np.clip(first, 0, max(last, 0))
    off = both(m.mask, lanes((memory.base + first * memory.dtype.bytes) % (width * memory.dtype.bytes) != 0))
    if off is not False:
        at = memory.element(m.at_lane(first, m.first(off)))
        text = f"`{at}` is no place for an access of {width} elements"
        raise m.fault("E0729", text, step.inst, m.first(off), f"start at a multiple of {width * memory.dtype.bytes} bytes")
    return own(m, memory, first)


def aligned(m: Machine, step: Step) -> None:
    m.env[step.inst.result.name] = np.asarray(m.storage[step.args[0].name].base % step.inst.attr("bytes") == 0)


def ahead(m: Machine, step: Step) -> None:
    memory, result = m.storage[step.args[0].name], step.inst.result
    place = memory.base + m.get(step.args[1]).astype(np.int64, copy=False) * memory.dtype.bytes
    m.env[result.name] = (-place % step.inst.attr("bytes") // memory.dtype.bytes).astype(result.dtype.numpy)
