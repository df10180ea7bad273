"""A `move` of the first of its elements at stage=thread (part of flat_move).

Other elements of a local array have all bits set, so that whoever takes one for wanted shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from vxc.interp.flat_lanes import both, lanes
from vxc.interp.flat_machine import Machine, Step
from vxc.interp.flat_memory import Memory, active, check_written, own, watch


def move_part(m: Machine, step: Step) -> None:
    """Raises as `move`, and E0729 for a number of elements that is no part of it."""
    target, source = (m.storage[step.args[at].name] for at in (0, 2))
    to, start, upto = (m.get(step.args[at]).astype(np.int64, copy=False) for at in (1, 3, 4))
    width, loads, anywhere = step.inst.attr("width"), target.space == "local", step.inst.attr("anywhere")
    memory, place = (source, start) if loads else (target, to)
    _refuse(m, step, (upto < 1) | (upto > width), "E0729", f"no number of {width} elements")
    _refuse(m, step, (place < 0) | (place + upto > memory.extent), "E0720", f"not all elements are in `{memory.name}`")
    if not anywhere:
        off = (memory.base + place * memory.dtype.bytes) % (width * memory.dtype.bytes) != 0
        _refuse(m, step, off, "E0729", f"no place of `{memory.name}` for an access of {width} elements")
    if m.counters is not None:
        for number in np.unique(upto):
            with _where(m, upto == number) as runs:
                if runs:
                    m.counters.touch(m, memory, np.where(upto == number, place, 0), "r" if loads else "w", int(number))
        count = _count_vectors if loads and anywhere != "branch" else _count_pieces if anywhere else _count_narrower
        count(m, step, memory, place, upto)
    for k in range(width):
        here = (k < upto) & (place + k >= 0) & (place + k < memory.extent)  # lanes that do not run may be anywhere
        value = np.frombuffer(b"\xff" * memory.dtype.bytes, source.data.dtype)[0]
        with _where(m, here) as runs:
            if runs:
                at = own(m, source, np.where(here, start + k, 0))
                if source.written is not None:
                    check_written(m, step, source, at)
                watch(m, step, source, at, "r")
                value = np.where(here, source.data.take(at), value)
        with _where(m, here | loads) as runs:
            if runs:
                at = own(m, target, np.where(here | loads, to + k, 0))
                watch(m, step, target, at, "w")
                at, value = active(m.mask, *np.broadcast_arrays(at, value))
                target.data[at] = value
                if target.written is not None:
                    target.written[at] = True


@contextmanager
def _where(m: Machine, here: np.ndarray) -> Iterator[bool]:
    """Only lanes of which that holds run; gives whether any do."""
    running = m.mask
    m.mask = both(running, lanes(here))
    yield m.mask is not False
    m.mask = running


def _refuse(m: Machine, step: Step, wrong: np.ndarray, code: str, text: str) -> None:
    found = both(m.mask, lanes(np.asarray(wrong)))
    if found is not False:
        raise m.fault(code, text, step.inst, m.first(found), "guard the access with an `if`")


def _count(m: Machine, step: Step, memory: Memory, place: np.ndarray, width: int, here: np.ndarray) -> None:
    with _where(m, here) as runs:
        if runs:
            m.counters.access(m, step, memory, place, width)


def _count_vectors(m: Machine, step: Step, memory: Memory, place: np.ndarray, upto: np.ndarray) -> None:
    """Count the aligned vectors that hold what is wanted."""
    width, size = step.inst.attr("width"), memory.dtype.bytes
    past = (memory.base + place * size) % (width * size) // size
    for behind, here in ((0, past < width), (width, past + upto > width)):
        _count(m, step, memory, place - past + behind, width, here)


def _count_pieces(m: Machine, step: Step, memory: Memory, place: np.ndarray, upto: np.ndarray) -> None:
    """Count accesses of one width in each lane, as wide as its address and number allow."""
    width, size = step.inst.attr("width"), memory.dtype.bytes
    widths = np.gcd(np.gcd(memory.base + place * size, upto * size), width * size) // size
    for piece in (width >> k for k in range(width.bit_length())):
        for k in range(0, width, piece):
            _count(m, step, memory, place + k, piece, (widths == piece) & (k < upto))


def _count_narrower(m: Machine, step: Step, memory: Memory, place: np.ndarray, upto: np.ndarray) -> None:
    """Count ever narrower accesses from a multiple of the widest on."""
    width = step.inst.attr("width")
    for piece in (width >> k for k in range(width.bit_length())):
        _count(m, step, memory, place, piece, upto & piece != 0)
        place = place + (upto & piece)
