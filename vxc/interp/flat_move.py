"""Accesses of several elements at stage=thread: `move`, `aligned` and `ahead`, which say where it may, `move.async` and `await`.

What `move.async` copies is stored at the `await`. Until then its elements count as unwritten, so that reading them is a fault.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vxc.interp.flat_lanes import Lanes, both, lanes, minus
from vxc.interp.flat_machine import Machine, Step
from vxc.interp.flat_memory import Memory, active, check_written, own, watch
from vxc.interp.flat_part import move_part
from vxc.ir.ops import HELP
from vxc.target import WORD


class Started(NamedTuple):
    """Elements on their way: `values[k]` to `to + k` of `target`, by the lanes of `mask`."""

    step: Step
    mask: Lanes
    target: Memory
    to: np.ndarray
    values: list[np.ndarray]


def move(m: Machine, step: Step) -> None:
    """Raises E0720 and E0729 besides what a load and a store of each element raise."""
    if len(step.args) > 4:
        move_part(m, step)
        return
    target, to, values = _read(m, step)
    _write(m, step, target, to, values)


def move_async(m: Machine, step: Step) -> None:
    """Raises as `move`."""
    target, to, values = _read(m, step)
    if target.written is not None:
        for k in range(len(values)):
            target.written[active(m.mask, np.broadcast_to(to + k, m.shape))[0]] = False
    m.pending.append(Started(step, m.mask, target, to, values))


def await_(m: Machine, step: Step) -> None:
    """The lanes that run it find their elements in place."""
    here, started, m.pending = m.mask, m.pending, []
    for x in started:
        arrives, rest = both(here, x.mask), minus(x.mask, here)
        if arrives is not False:
            m.mask = arrives
            _write(m, x.step, x.target, x.to, x.values)
        if rest is not False:
            m.pending.append(x._replace(mask=rest))
    m.mask = here


def _read(m: Machine, step: Step) -> tuple[Memory, np.ndarray, list[np.ndarray]]:
    """The target, where its first element is, and the elements for it."""
    width, anywhere = step.inst.attr("width"), step.inst.attr("anywhere")
    target, source = (m.storage[step.args[at].name] for at in (0, 2))
    if anywhere in ("line", "held"):
        return target, _place(m, step, target, m.get(step.args[1]), width), _vector(m, step, source, width, anywhere == "line")
    to, start = (_place(m, step, memory, m.get(step.args[at]), width) for memory, at in ((target, 1), (source, 3)))
    if m.counters is not None:
        loads = {"branch": _count_pieces, "straight": _count_vectors}.get(anywhere, m.counters.access)
        stores = _count_words if anywhere else m.counters.access
        for memory, first, mode, count in ((target, to, "w", stores), (source, start, "r", loads)):
            m.counters.touch(m, memory, first, mode, width)
            (count if memory.space != "local" else m.counters.access)(m, step, memory, first, width)
    elements = np.add.outer(np.arange(width), start)
    for k in range(width) if source.written is not None and not source.written.take(elements).all() else ():
        check_written(m, step, source, elements[k])
    watch(m, step, source, start, "r", width)
    return target, to, list(source.data.take(elements))


def _vector(m: Machine, step: Step, source: Memory, width: int, aligned: bool) -> list[np.ndarray]:
    """The elements of a vector (an aligned one) that has one of the array's at least; those that are none of it have all bits set."""
    first, size = m.get(step.args[3]).astype(np.int64, copy=False), source.dtype.bytes
    outside = both(m.mask, lanes((first <= -width) | (first >= source.extent)))
    if outside is not False:
        lane = m.first(outside)
        text = f"no element of `{source.name}` is among the {width} from {m.at_lane(first, lane)} on"
        raise m.fault("E0720", text, step.inst, lane, "guard the access with an `if`")
    off = both(m.mask, lanes((source.base + first * size) % (width * size) != 0))
    if off is not False and aligned:
        lane = m.first(off)
        text = f"element {m.at_lane(first, lane)} of `{source.name}` is no place for an access of {width} elements"
        raise m.fault("E0729", text, step.inst, lane, f"start at a multiple of {width * size} bytes")
    if m.counters is not None:
        _count_vectors(m, step, source, first, width)
    running, values, other = m.mask, [], np.frombuffer(b"\xff" * size, source.data.dtype)[0]
    for k in range(width):
        inside = (first + k >= 0) & (first + k < source.extent)
        at = np.where(inside, first + k, 0)
        m.mask = both(running, lanes(inside))
        if m.mask is not False:
            if source.written is not None:
                check_written(m, step, source, at)
            if m.counters is not None:
                m.counters.touch(m, source, at, "r")
            watch(m, step, source, at, "r")
        values.append(np.where(inside, source.data.take(at), other))
    m.mask = running
    return values


def _count_vectors(m: Machine, step: Step, memory: Memory, first: np.ndarray, width: int) -> None:
    """Count the aligned vectors that hold the elements, and have one of the array's: the next one too where the first does not begin
    with them.
    """
    size, running = memory.dtype.bytes, m.mask
    past = (memory.base + first * size) % (width * size) // size
    for at, wanted in ((first - past, True), (first - past + width, past != 0)):
        m.mask = both(running, lanes(wanted & (at > -width) & (at < memory.extent)))
        if m.mask is not False:
            m.counters.access(m, step, memory, at, width)
    m.mask = running


def _count_pieces(m: Machine, step: Step, memory: Memory, first: np.ndarray, width: int) -> None:
    """Count accesses as wide as the address of each lane allows."""
    size, running = memory.dtype.bytes, m.mask
    widths = np.gcd(memory.base + first * size, width * size) // size
    for piece in (width >> k for k in range(width.bit_length())):
        m.mask = both(running, lanes(widths == piece))
        for k in range(0, width, piece) if m.mask is not False else ():
            m.counters.access(m, step, memory, first + k, piece)
    m.mask = running


def _count_words(m: Machine, step: Step, memory: Memory, first: np.ndarray, width: int) -> None:
    """Count the same, but where that would be less than words, words and what is in front of the first and behind the last."""
    size, running = memory.dtype.bytes, m.mask
    most = np.maximum(np.gcd(memory.base + first * size, width * size), min(WORD, width * size)) // size
    ahead = first
    for k in range(width):
        at, left = first + k, width - k
        widths = np.minimum(np.gcd(memory.base + at * size, width * size) // size, np.minimum(most, 1 << left.bit_length() - 1))
        for piece in (width >> k for k in range(width.bit_length())):
            m.mask = both(running, lanes((at == ahead) & (widths == piece)))
            if m.mask is not False:
                m.counters.access(m, step, memory, at, piece)
        ahead = np.where(at == ahead, at + widths, ahead)
    m.mask = running


def _write(m: Machine, step: Step, target: Memory, to: np.ndarray, values: list[np.ndarray]) -> None:
    watch(m, step, target, to, "w", len(values))
    for k, x in enumerate(values):
        at, value = active(m.mask, *np.broadcast_arrays(to + k, x))
        target.data[at] = value
        if target.written is not None:
            target.written[at] = True


def _place(m: Machine, step: Step, memory: Memory, index: np.ndarray, width: int) -> np.ndarray:
    """Offsets of the first element, in bounds even for lanes that do not run."""
    first = index.astype(np.int64, copy=False)
    last = memory.extent - width
    outside = (first < 0) | (first > last)
    out = both(m.mask, lanes(outside))
    if out is not False:
        lane = m.first(out)
        at = m.at_lane(first, lane)
        text = f"elements {at} to {at + width - 1} of `{memory.name}` are not all in 0..{memory.extent}"
        raise m.fault("E0720", text, step.inst, lane, HELP["E0720"])
    first = np.where(outside, 0, first)  # of lanes that do not run; elsewhere those of a swizzle might not lie together
    apart = 0 < memory.placement.run < width  # elements that do not lie together
    size = memory.dtype.bytes * (1 if step.inst.attr("anywhere") and memory.space != "local" else width)
    off = both(m.mask, lanes(apart | ((memory.base + first * memory.dtype.bytes) % size != 0)))
    if off is not False:
        at = memory.element(m.at_lane(first, m.first(off)))
        text = f"`{at}` is no place for an access of {width} elements"
        raise m.fault("E0729", text, step.inst, m.first(off), f"start at a multiple of {size} bytes")
    return own(m, memory, first)


def aligned(m: Machine, step: Step) -> None:
    m.env[step.inst.result.name] = np.asarray(m.storage[step.args[0].name].base % step.inst.attr("bytes") == 0)


def ahead(m: Machine, step: Step) -> None:
    memory, result = m.storage[step.args[0].name], step.inst.result
    place = memory.base + m.get(step.args[1]).astype(np.int64, copy=False) * memory.dtype.bytes
    m.env[result.name] = (-place % step.inst.attr("bytes") // memory.dtype.bytes).astype(result.dtype.numpy)
