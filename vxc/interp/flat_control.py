"""Control flow under masks: branches, serial loops, `while`, `break`, `continue`; and the two checks `assert` and `print`.

A loop whose bounds are uniform counts in Python; else each lane counts for itself and stays until its own bound. Regions
that no lane enters are skipped.
"""

from __future__ import annotations

import sys

import numpy as np

from vxc.interp.flat_lanes import Lanes, both, either, lanes, minus
from vxc.interp.flat_machine import Frame, Machine, Step, condition
from vxc.ir.ops import HELP, STILL
from vxc.semantics import printed


ENDLESS = "does this loop end? an interpreter runs so many iterations at most, a GPU any number"


class Branch(Frame):
    """An `if`: `other` holds the lanes of the arm not yet run."""

    def __init__(self, m: Machine, step: Step, other: Lanes):
        super().__init__(m, step)
        self.other = other

    def close(self, m: Machine) -> int:
        after = m.leave(self)
        m.mask = minus(m.mask, m.gone)
        return after if m.mask is not False else m.frames[-1].stop


def if_(m: Machine, step: Step) -> int | None:
    regions, at = m.program.regions, step.at
    cond = condition(m, step)
    then, other = both(m.mask, cond), minus(m.mask, cond)
    middle = regions.other[at]
    frame = Branch(m, step, other)
    if then is not False:
        if middle >= 0:
            frame.stop = middle
        m.enter(frame, then)
        return None
    if middle < 0:
        return frame.end + 1
    m.enter(frame, other)
    return middle + 1


def else_(m: Machine, step: Step) -> int | None:
    frame = m.frames[-1]
    frame.stop = frame.end
    m.mask = frame.other
    return None if m.mask is not False else frame.end


def plain(m: Machine, step: Step) -> None:
    """A region that is run once: `extern`, `role`."""
    m.enter(Frame(m, step), m.mask)


def end(m: Machine, step: Step) -> int:
    return m.frames[-1].close(m)


class Loop(Frame):
    """A serial loop or `while`. `broken` holds the lanes that left it; `outer_gone` is `gone` of the loop around it."""

    loop = True

    def __init__(self, m: Machine, step: Step):
        super().__init__(m, step)
        self.inst, self.body = step.inst, step.at + 1
        self.broken: Lanes = False
        self.outer_gone = m.gone

    def advance(self, m: Machine) -> Lanes:
        """Step to the next iteration; gives the lanes that have one."""
        return True

    def close(self, m: Machine) -> int:
        m.gone = False
        m.mask = both(minus(self.saved, self.broken), self.advance(m)) if self.broken is not True else False
        if m.mask is not False:
            if m.turns is not None and next(m.turns, None) is None:
                raise m.fault("E0734", "the loops run for longer than allowed", self.inst, m.first(m.mask), ENDLESS)
            return self.body
        m.gone = self.outer_gone
        return m.leave(self)


class UniformLoop(Loop):
    """All lanes count together."""

    def __init__(self, m: Machine, step: Step, indices: range):
        super().__init__(m, step)
        self.indices = iter(indices)
        self.index = step.inst.result

    def advance(self, m: Machine) -> Lanes:
        index = next(self.indices, None)
        if index is None:
            return False
        m.env[self.index.name] = np.asarray(index, self.index.dtype.numpy)
        return True


class LaneLoop(Loop):
    """Each lane counts from its own start to its own stop by its own step."""

    def __init__(self, m: Machine, step: Step, start, stop, by):
        super().__init__(m, step)
        self.next, self.last, self.by = start, stop, by
        self.index = step.inst.result

    def advance(self, m: Machine) -> Lanes:
        index = self.next
        m.env[self.index.name] = index
        more = np.where(self.by > 0, index < self.last, index > self.last)
        self.next = index + self.by
        past = (self.next > index) != (self.by > 0)  # of all numbers: there is no further iteration
        self.next = np.where(past, self.last, self.next)
        return lanes(more)


def serial(m: Machine, step: Step) -> int:
    start, stop, by = bounds(m, step)
    if start.ndim or stop.ndim or by.ndim:
        frame: Loop = LaneLoop(m, step, *np.broadcast_arrays(start, stop, by))
    else:
        frame = UniformLoop(m, step, range(int(start), int(stop), int(by)))
    m.frames.append(frame)
    return frame.close(m)


def bounds(m: Machine, step: Step) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, stop and step of a loop. Raises E0731 for a step of 0."""
    start, stop, *by = map(m.get, step.args)
    by = by[0] if by else np.asarray(1, start.dtype)
    still = both(m.mask, lanes(by == 0))
    if still is not False:
        raise m.fault("E0731", STILL, step.inst, m.first(still), HELP["E0731"])
    return start, stop, by


def while_(m: Machine, step: Step) -> None:
    frame = Loop(m, step)
    m.gone = False
    m.enter(frame, m.mask)


def break_(m: Machine, step: Step) -> int:
    frame = next(f for f in reversed(m.frames) if f.loop)
    frame.broken = either(frame.broken, m.mask)
    return continue_(m, step)


def continue_(m: Machine, step: Step) -> int:
    m.gone = either(m.gone, m.mask)
    m.mask = False
    return m.frames[-1].stop


def assert_(m: Machine, step: Step) -> None:
    failed = minus(m.mask, condition(m, step))
    code = step.inst.attr("code")
    if code and failed is not False:
        raise m.fault(code, step.inst.attr("message"), step.inst, m.first(failed), HELP[code])
    if m.debug and failed is not False:
        raise m.fault("E0723", f"assertion failed: {step.inst.attr('message')}", step.inst, m.first(failed))


def print_(m: Machine, step: Step) -> None:
    """One line for each lane, in lane order."""
    columns = [np.broadcast_to(m.get(arg), m.shape) for arg in step.args]
    active = np.broadcast_to(m.mask, m.shape)
    dtypes = [operand.dtype for operand in step.inst.operands]
    for row in zip(*(column[active] for column in columns)) if columns else [()] * int(active.sum()):
        print(step.inst.attr("label"), *map(printed, row, dtypes), file=sys.stderr)
