"""The machine under every stage: a program counter, an environment of arrays, and masks for control flow.

A value is an array over the open axes (of parallel loops at stage=tile and team; blocks by lanes at stage=thread), or has
no axes where it is uniform. All lanes walk the instruction list together; `mask` says which of them are running.
A handler executes one instruction and gives the position to go on at: None for the next, WAIT to pause there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vxc.diag import Diagnostic, VxcError
from vxc.interp.flat_lanes import Lanes, both, lanes, lift, lift_lanes
from vxc.ir.kernel import Buffer, Const, Inst, Value
from vxc.ir.ops import accesses
from vxc.ir.printer import mention
from vxc.ir.walk import Regions
from vxc.record import record
from vxc.semantics import DIVISIONS, cast, numpy_function, reinterpret, sat
from vxc.source import Source

WAIT = -1


class Step(NamedTuple):
    """An instruction ready to run; `args` are its operands: names of values, arrays for constants, buffers."""

    run: Callable[[Machine, Step], int | None]
    inst: Inst
    args: tuple[str | np.ndarray | Buffer, ...]
    at: int


@record
class Program:
    """An instruction list prepared once: its steps and its nesting. `written` names the buffers that it writes."""

    name: str
    steps: tuple[Step, ...]
    regions: Regions
    written: frozenset[str]
    attrs: Mapping[str, Any]
    source: Source | None

    @classmethod
    def of(
        cls, name: str, insts: tuple[Inst, ...], handlers: Mapping[str, Callable], attrs: Mapping[str, Any], source: Source | None
    ) -> Program:
        steps = tuple(Step(handlers[i.op], i, tuple(map(_argument, i.operands)), at) for at, i in enumerate(insts))
        written = frozenset(a.buffer.name for i in insts for a in accesses(i) if "w" in a.mode)
        return cls(name, steps, Regions.of(insts), written, attrs, source)


def _argument(operand) -> str | np.ndarray | Buffer:
    if isinstance(operand, Const):
        return np.asarray(operand.value, operand.dtype.numpy)
    return operand.name if isinstance(operand, Value) else operand


@dataclass
class Machine:
    """One run of a program by all lanes of `shape`.

    `gone` holds the lanes that left the current iteration of the innermost loop. `storage` maps names to Memory or Cell.
    `rng` orders agents. `turns` has an item for each iteration of a serial loop that may still be run, None for any number.
    """

    program: Program
    env: dict[str, np.ndarray]
    storage: dict[str, Any]
    debug: bool = True
    trap_div: bool = False
    counters: Any = None
    rng: np.random.Generator | None = None
    turns: Iterator[int] | None = None
    shape: tuple[int, ...] = ()
    mask: Lanes = True
    gone: Lanes = False
    frames: list[Frame] = field(default_factory=list)

    def run(self, at: int = 0, stop: int | None = None) -> Iterator[Step]:
        """Walk the program, or its part from `at` to `stop`; yields the step of each WAIT."""
        steps, counters = self.program.steps, self.counters
        stop = len(steps) if stop is None else stop
        while at < stop:
            step = steps[at]
            if counters is not None:
                counters.issue(self, step)
            jump = step.run(self, step)
            if jump == WAIT:
                yield step
            at = at + 1 if jump is None or jump == WAIT else jump

    @property
    def depth(self) -> int:
        return len(self.shape)

    def get(self, arg) -> np.ndarray:
        """The value of an argument, with as many axes as are open, or none."""
        value = self.env[arg] if type(arg) is str else arg
        return lift(value, len(self.shape)) if value.ndim else value

    def enter(self, frame: Frame, mask: Lanes) -> None:
        self.frames.append(frame)
        self.mask = mask

    def leave(self, frame: Frame) -> int:
        """Close the innermost frame; gives the position after its end."""
        self.frames.pop()
        self.mask = frame.saved
        return frame.end + 1

    def who(self, mode: str):
        """Who accesses memory now, for race detection (flat_races.Who), or None where order is that of the program."""
        return None

    def describe(self, lane: tuple[int, ...]) -> str:
        """A lane in the user's terms, "" where there is only one."""
        return ""

    def first(self, set_: Lanes) -> tuple[int, ...]:
        """The first lane of a set, as a position over the open axes."""
        full = np.broadcast_to(lift_lanes(set_, self.depth), self.shape)
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(full)), self.shape)) if self.shape else ()

    def at_lane(self, value: np.ndarray, lane: tuple[int, ...]):
        """What one lane holds of a value, as a Python number."""
        return np.broadcast_to(value, self.shape)[lane].item()

    def fault(self, code: str, message: str, inst: Inst, lane: tuple[int, ...] | None = None, help: str = "") -> VxcError:
        """A fault at an instruction: placed in the source where that is known, else the instruction's text is noted."""
        who = self.describe(lane) if lane is not None else ""
        text = f"{message} ({who})" if who else message
        source = self.program.source
        if source is None or inst.loc is None:
            return VxcError(Diagnostic(code, text, notes=(mention(self.program.name, inst),), help=help))
        return VxcError(Diagnostic(code, text, source, source.element_at(*inst.loc), help=help))


class Frame:
    """An open region. `saved` is the mask around it, `stop` the next `else` or `end` of it, `end` its `end`."""

    loop = False

    def __init__(self, m: Machine, step: Step):
        self.saved = m.mask
        self.end = self.stop = m.program.regions.end[step.at]

    def close(self, m: Machine) -> int:
        """Reached the `end`: where to go on."""
        return m.leave(self)


# Values --------------------------------------------------------------------------------------------------------------------------


def scalar(m: Machine, step: Step) -> None:
    inst = step.inst
    args = [m.get(arg) for arg in step.args]
    if m.trap_div and inst.op in DIVISIONS:
        zero = both(m.mask, lanes(args[1] == 0))
        if zero is not False:
            raise m.fault("E0724", "integer division by zero", inst, m.first(zero), "test the divisor first")
    m.env[inst.result.name] = np.asarray(numpy_function(inst.op, inst.operands[-1].dtype)(*args))


_CONVERSIONS = {"cast": cast, "sat": sat, "reinterpret": reinterpret}


def convert(m: Machine, step: Step) -> None:
    inst = step.inst
    m.env[inst.result.name] = _CONVERSIONS[inst.op](m.get(step.args[0]), inst.operands[0].dtype, inst.result.dtype)


def condition(m: Machine, step: Step) -> Lanes:
    return lanes(m.get(step.args[0]))
