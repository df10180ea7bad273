"""Runs of columns (part of map-loops and lower-to-threads): where a loop was several, a block has iterations of one innermost loop.

The index of such a loop has digits: its remainder by the extent of the innermost loop, and the quotient, on which the others depend.
Where blocks are cut from each run of that many iterations anew (`one_run` of the loop over blocks), the quotient is the same in the whole
block, so threads divide by no number that only the call knows, and a run begins where a vector does if its extent is a multiple of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vxc.analysis.forms import Atom
from vxc.analysis.offsets import Offsets
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Scalar, Value
from vxc.ir.walk import Regions
from vxc.record import record
from vxc.target import MAX_GRID


@record
class Runs:
    """The digits of a loop's index in its body: remainders and quotients by `extent`, the iterations of a run."""

    extent: Scalar
    remainders: tuple[Inst, ...]
    quotients: tuple[Inst, ...]

    @classmethod
    def of(cls, loop: Inst, body: Sequence[Inst]) -> Runs | None:
        """Those by the first number that the index itself is divided by, if it is one that is known before the loop."""
        here = {inst.result.name for inst in body if inst.result is not None}
        top = [body[at] for at in Regions.of(body).top()]
        by = next((inst.operands[1] for inst in top if inst.op == "mod" and inst.operands[0] == loop.result), None)
        if by is None or (by.value < 1 if isinstance(by, Const) else by.name in here or by == loop.result):
            return None
        remainders, quotients = ([x for x in top if x.op == op and x.operands == (loop.result, by)] for op in ("mod", "floordiv"))
        return cls(by, tuple(remainders), tuple(quotients))

    def whole(self, offsets: Offsets, count: Scalar) -> bool:
        """Whether so many iterations are whole runs, whatever the call."""
        terms, by = offsets.form(count).terms, self.extent
        return all(c % by.value == 0 if isinstance(by, Const) else Atom(by.name) in factors for factors, c in terms)

    def without(self, body: Sequence[Inst]) -> tuple[Inst, ...]:
        """The body but for the digits."""
        digits = {inst.result for inst in (*self.remainders, *self.quotients)}
        return tuple(inst for inst in body if inst.result not in digits)


@record
class Place:
    """Where a thread is: its iteration is `at` of those from `base` on, of which there are `end`; `run` is the quotient there. `every` says
    that no thread is past the end.
    """

    at: Scalar
    end: Scalar
    every: bool
    base: Scalar = Const(0)
    run: Scalar = Const(0)
    runs: Runs | None = None

    @classmethod
    def of(cls, b: Builder, loop: Inst, runs: Runs | None, rewriter: Rewriter, column: Scalar, across: int) -> Place:
        """That of the thread which takes iteration `column` of the `across` of its block."""
        block, end = b.emit("block_index", name="b"), rewriter(runs.extent if runs else loop.operands[1])
        every = isinstance(end, Const) and end.value % across == 0
        if runs is None:
            return cls(b.emit("add", b.emit("mul", block, across), column, name=loop.result.name), end, every)
        blocks = b.emit("ceildiv", end, across)
        if not isinstance(end, Const):  # in 32 bits: no number of a block is as great
            blocks = b.emit("min", b.emit("max", blocks, 1), MAX_GRID[0])
        run = b.emit("floordiv", block, blocks)
        at = b.emit("add", b.emit("mul", b.emit("mod", block, blocks), across), column, name=loop.result.name)
        return cls(at, end, every, b.emit("mul", run, end), run, runs)

    def inside(self, b: Builder) -> Value | None:
        """Whether the thread has an iteration; None where each has."""
        return None if self.every else b.emit("lt", self.at, self.end)

    def clamped(self, b: Builder) -> Place:
        """The last iteration for threads that have none."""
        return self if self.every else replace(self, at=b.emit("min", self.at, b.emit("sub", self.end, 1)))

    def known(self, b: Builder, loop: Inst, further: Scalar = Const(0)) -> dict[Value, Scalar]:
        """The loop's index and its digits, so many iterations further on in the run."""
        at = self.at if further == Const(0) else b.emit("add", self.at, further, name=loop.result.name)
        if self.runs is None:
            return {loop.result: at}
        digits = {inst.result: at for inst in self.runs.remainders} | {inst.result: self.run for inst in self.runs.quotients}
        return {loop.result: b.emit("add", self.base, at)} | digits
