"""What `vector_width` finds in a kernel: loops with accesses that may be wide, and what must hold for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from vxc.analysis.offsets import Offsets
from vxc.ir.kernel import GLOBAL, Buffer, Inst, Operand, Value
from vxc.ir.narrow import Reason
from vxc.ir.ops import Access
from vxc.record import record, state


class Size(NamedTuple):
    """Elements of an access; `anywhere`: wherever they lie, as the `move` of that attribute does it; `why` they are not 16 bytes."""

    elements: int
    anywhere: str | None
    why: Reason | None = None


@record
class Run:
    """Accesses of a loop to the same elements of `buffer`. Positions are in the kernel.

    `each` iterations in a row access the same element. `offset` is a value of the loop that is the offset in memory, or None: then it
    follows from `indices`. `within` are divisions that must have one quotient for all elements; where they have not, the elements do not
    follow one another.
    """

    buffer: Buffer
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    indices: tuple[Operand, ...]
    each: int
    offset: Operand | None
    within: tuple[int, ...]
    given: Size  # where what the kernel tests holds
    otherwise: Size

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
class Guards:
    """What is known of the conditions in a loop. `whole`: the guard decides the same for all iterations. `kinds`, by position of the other
    `if`s with accesses in them: SAME in all iterations, or true in all where they are at both ENDS.
    """

    whole: bool
    kinds: Mapping[int, str]


@record
class WideLoop:
    """A loop of `count` iterations with something to widen; `dealt` says that it deals elements out to lanes.

    `guard` is the position of the `if` around its body, or -1, `tests` the comparisons of the iteration's element with a limit that must
    all hold; `in_part`: where these are not `whole`, what they let in is the first elements, which may go as a part of a vector. `digits`
    are the divisions in it that go on from one iteration to the next: the remainder by one up, or back to 0. `given` holds where what the
    kernel tests does, `otherwise` anywhere; without it the loop stays as it is there. `copies`: it only copies
    vectors to arrays of the thread, so that elements which the guard keeps out may be copied with others.
    """

    at: int
    count: int
    dealt: bool
    runs: tuple[Run, ...]
    guard: int
    tests: tuple[Inst, ...]
    digits: tuple[int, ...]
    shift: Shift | None
    in_part: bool
    given: Guards
    otherwise: Guards | None
    copies: bool


@record
class Missed:
    """Accesses to one buffer that stay as they are, by position, and why."""

    places: tuple[int, ...]
    buffer: Buffer
    why: Reason


@state
class Widths:
    """What is found in one kernel, and what it tests for it. `aligned`: buffer -> bytes that it must begin at a multiple of; `divides`:
    parameter -> what must divide it; `least`: parameter -> what it must be at least; `near`: parameters that must be no further than NEAR
    (`wrapping`) from 0. `offsets` has the forms of all its values.
    """

    offsets: Offsets

    loops: dict[int, WideLoop] = field(default_factory=dict)
    missed: list[Missed] = field(default_factory=list)
    aligned: dict[str, int] = field(default_factory=dict)
    divides: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    near: dict[str, None] = field(default_factory=dict)

    @property
    def two_forms(self) -> bool:
        """Whether loops have another form where the tests fail."""
        return bool(self.aligned or self.divides)


def in_vain(runs: Iterable[Run], accesses: Iterable[Access]) -> bool:
    """Whether a loop that deals elements out would deal several in a row to a lane for shared memory alone: of global memory lanes would
    then access elements apart, one at a time, and each sector again and again.
    """
    return any(a.buffer.space in GLOBAL for a in accesses) and not any(run.buffer.space in GLOBAL for run in runs)
