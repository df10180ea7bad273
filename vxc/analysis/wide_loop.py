"""What `vector_width` finds in a kernel: loops with accesses that may be wide, and what must hold for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vxc.ir.kernel import GLOBAL, Buffer, Inst, Operand, Value
from vxc.ir.ops import Access
from vxc.record import record


@record
class Run:
    """Accesses of a loop to the same elements of `buffer`, which can be `width` elements at once. Positions are in the kernel.

    `offset` is a value of the loop that is the offset in memory, or None: then it follows from `indices`. `within` are divisions that must
    have one quotient for all elements; where they have not, the elements do not follow one another.
    """

    buffer: Buffer
    width: int
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    indices: tuple[Operand, ...]
    offset: Operand | None
    within: tuple[int, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether an iteration sees what was there before."""
        return bool(self.loads) and (not self.stores or self.loads[0] < self.stores[0])


@record
class Shift:
    """Where the elements that are dealt out begin: `run`, which is one of the loop's, is then at a multiple of its width.

    The loop's first element is the value `base`; the elements in front of the first such multiple are those after `start`.
    """

    run: Run
    base: Value
    start: Operand


@record
class WideLoop:
    """A loop of `count` iterations with something to widen; `dealt` says that it deals elements out to lanes.

    `guard` is the position of the `if` around its body, or -1, `tests` the comparisons of the iteration's element with a limit that must
    all hold; `whole` says that they decide the same for all iterations. `digits` are the divisions in it that go on from one iteration to
    the next: the remainder by one up, or back to 0. `conditions` are the `if`s with accesses in them, by position: SAME in all iterations,
    or true in all where they are at both ENDS.
    """

    at: int
    count: int
    runs: tuple[Run, ...]
    guard: int
    tests: tuple[Inst, ...]
    whole: bool
    digits: tuple[int, ...]
    dealt: bool
    shift: Shift | None
    conditions: Mapping[int, str] = field(default_factory=dict)

    def widths(self, run: Run) -> tuple[int, ...]:
        """Elements that an access of a run may have, widest first; several where the address decides."""
        if not self.dealt or (self.shift and self.shift.run is run):
            return (run.width,)
        middle = max(2, 4 // run.buffer.dtype.bytes)
        return (run.width, middle, 1) if middle < run.width else (run.width, 1)


@record
class Missed:
    """An access that stays as it is, and why."""

    at: int
    buffer: Buffer
    why: str


@dataclass
class Widths:
    """What is found in one kernel. `aligned`: buffer -> bytes that it must begin at a multiple of; `divides`: parameter -> what must
    divide it; `least`: parameter -> what it must be at least.
    """

    loops: dict[int, WideLoop] = field(default_factory=dict)
    missed: list[Missed] = field(default_factory=list)
    aligned: dict[str, int] = field(default_factory=dict)
    divides: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)


def in_vain(runs: Iterable[Run], accesses: Iterable[Access]) -> bool:
    """Whether a loop that deals elements out would deal several in a row to a lane for shared memory alone: of global memory lanes would
    then access elements apart, one at a time, and each sector again and again.
    """
    return any(a.buffer.space in GLOBAL for a in accesses) and not any(run.buffer.space in GLOBAL for run in runs)
