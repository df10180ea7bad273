"""infer-vector-widths: several elements in one access, wherever they follow one another and lie in the right place.

Before: stage=thread; every access is one element. A loop marked `deal` deals the elements of a range out to lanes, one by one.
After:  in loops of a few iterations, `move` takes elements to or from a `local` array, up to 16 bytes at once. What that counts
        on (arrays aligned, dimensions divisible) is one condition, tested at the top: where it does not hold, the loops run as they
        were. No `deal` is left: lanes are dealt several elements in a row, from where an array (one that is written, if any is) has a
        multiple of 16 bytes; of each other array a lane accesses 16 bytes at once, 4 (8 of 4-byte elements) or one element,
        whichever the address allows. The elements before and behind go one by one, in a loop that is not unrolled, so as to cost the
        wide form no registers.

    %v = loop 0, 4 {kind="unroll"}                 %0: bool = aligned @x {bytes=16}
      %1: i64 = add %b, %v                         if %0
      %2: f32 = load @x, %1                          local @x.1: f32[4]
      store @acc, %v, %2                 ->          %1: i64 = add %b, 0
    end %v                                           move @x.1, 0, @x, %1 {width=4}
                                                     %v = loop 0, 4 {kind="unroll"}
                                                       %3: f32 = load @x.1, %v
                                                       store @acc, %v, %3
                                                     end %v
                                                   else
                                                     ..

A test that each element is below a limit becomes one test, of all elements of an iteration; in an unrolled loop, where that fails for
some of them only, they go one by one. A division of each element's index is one division, of the first, that the others go on from. Arrays
of one launch are different memory, so a load may come before a store to another array.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from vxc.analysis.conditions import ENDS, SAME
from vxc.analysis.vector_width import slice_of, vector_widths
from vxc.analysis.wide_loop import Run, WideLoop, Widths
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Scalar, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.infer_vector_widths_text import say
from vxc.passes.move_runs import linear, transfer
from vxc.passes.two_forms import least, placed, span


class _Digit(NamedTuple):
    """A division that goes on: its remainder at the first element, its divisor, and what it gives some elements after."""

    rest: Value
    divisor: Scalar
    after: Callable[[Value], Value]


class _Widen:
    """Rewrites one kernel."""

    def __init__(self, kernel: Kernel, found: Widths):
        self.kernel, self.insts, self.found = kernel, kernel.insts, found
        self.regions = Regions.of(kernel.insts)
        self.b = Builder(names(kernel.params))
        self.rewriter = Rewriter(self.b)
        self.enough: Value | None = None

    def run(self) -> tuple[Inst, ...]:
        found = self.found
        plain = [at for at, loop in found.loops.items() if not loop.dealt]
        if found.loops:
            self.enough = self._every(least(self.b, self.kernel, found))
        wide = self._every([*placed(self.b, self.kernel, found), self.enough]) if plain else None
        doubled = {both.start: both for both in sorted((span(self.insts, self.regions, at) for at in plain), key=len)}
        at = 0
        while at < len(self.insts):
            region = doubled.get(at) or range(at, (self.regions.end[at] if at in found.loops else at) + 1)
            if wide is None or at not in doubled:
                self._range(region)
            else:
                with self.b.if_(wide):
                    self._range(region)
                    self.b.else_()
                    self._range(region, placed=False)
            at = region.stop
        return tuple(self.b.insts)

    def _every(self, tests: Iterable[Value | None]) -> Value | None:
        every = None
        for test in tests:
            every = test if every is None else every if test is None else self.b.emit("and", every, test)
        return every

    def _copy(self, at: int, placed: bool = True) -> None:
        """The form that is not wide (not `placed`) keeps its loops, so as to cost the other no registers."""
        inst = self.insts[at]
        if not placed and inst.attr("unroll"):
            inst = inst.with_attrs(unroll=1)
        self.b.at(inst.loc)
        if at in self.found.loops and inst.attr("kind") == "serial":
            inst = inst.with_attrs(unroll=1)
        self.rewriter.copy(inst.with_attrs(deal=None) if inst.attr("deal") else inst)

    def _range(self, positions: range, placed: bool = True) -> None:
        """Copy with the loops in it widened; where what they count on does not hold (`placed`), only those that deal out."""
        at = positions.start
        while at < positions.stop:
            loop = self.found.loops.get(at)
            if loop is None or not (placed or loop.dealt):
                self._copy(at, placed)
                at += 1
                continue
            if loop.dealt:
                self._dealt(loop)
            else:
                inst = self.insts[at]
                own = self.b.at(inst.loc).emit("mul", self.rewriter(inst.operands[0]), loop.count) if inst.attr("deal") else Const(0)
                self._widened(loop, own)
            at = self.regions.end[at] + 1

    def _dealt(self, loop: WideLoop) -> None:
        """Several elements in a row to a lane, then those that are left: see `_left`."""
        b, inst = self.b.at(self.insts[loop.at].loc), self.insts[loop.at]
        lane, total, lanes = map(self.rewriter, inst.operands)
        here = self._at(loop, Const(0))
        ahead: Scalar = Const(0)
        if loop.shift:
            run = loop.shift.run
            ahead = b.emit("ahead", run.buffer, self._offset(loop, run, here), bytes=run.width * run.buffer.dtype.bytes)
        with b.if_(self.enough) if self.enough else nullcontext():
            self._widened(loop, b.emit("add", b.emit("mul", lane, loop.count), ahead))
        before, after, rest = self._left(loop, here, ahead, total)
        with b.loop(lane, b.emit("add", before, rest), lanes, kind="serial", unroll=1, name=inst.result.name) as e:
            self._as_it_was(loop, self._at(loop, b.emit("select", b.emit("lt", e, before), e, b.emit("add", e, after))))

    def _left(self, loop: WideLoop, here: Rewriter, ahead: Scalar, total: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Of the `total` elements from `here` on, how many go one by one: the first (all of them, where divisions do not go on from one
        another), and the rest behind the last whole vector; between them how far the rest is from where the first end.
        """
        b = self.b
        before = rest = whole = Const(0)
        if loop.shift:
            before = b.emit("select", b.emit("eq", *map(self.rewriter, (loop.shift.base, loop.shift.start))), ahead, 0)
        if loop.guard >= 0:
            self._define(loop, here, loop.tests[0].operands)
            element, limit = map(here, loop.tests[0].operands)
            left = b.emit("max", b.emit("sub", b.emit("sub", limit, element), ahead), 0)
            rest = b.emit("mod", left, loop.count)
            whole = b.emit("sub", left, rest)
            rest = b.emit("select", b.emit("lt", left, total), rest, 0)
        if self.enough:
            before, rest = (b.emit("select", self.enough, *xs) for xs in ((before, total), (rest, 0)))
        return before, b.emit("sub", b.emit("add", ahead, whole), before), rest

    def _widened(self, loop: WideLoop, first: Scalar) -> None:
        """The iterations of one lane, those from `first` on."""
        b, start = self.b.at(self.insts[loop.at].loc), self._at(loop, first)
        tests = [self._fits(loop, start)] if loop.guard >= 0 else []
        ends = [self.insts[i].operands[0] for i, kind in loop.conditions.items() if kind is ENDS]
        last = self._at(loop, b.emit("add", first, loop.count - 1) if ends else first)
        for rewriter in (start, last) if ends else ():
            self._define(loop, rewriter, ends)
            tests += map(rewriter, ends)
        if not tests:
            self._vector(loop, first, start)
            return
        with b.if_(self._every(tests)):
            self._vector(loop, first, start)
            if ends or not (loop.whole or loop.dealt):
                b.else_()
                self._one_by_one(loop, first)

    def _fits(self, loop: WideLoop, start: Rewriter) -> Value:
        """Whether the guard lets all elements in; where it decides the same for all, whether it lets the first."""
        b, holds = self.b, []
        for test in loop.tests:
            self._define(loop, start, test.operands)
            element, limit = map(start, test.operands)
            below = test.op == "lt" and not loop.whole
            holds.append(b.emit("le", b.emit("add", element, loop.count), limit) if below else b.emit(test.op, element, limit))
        return self._every(holds)

    def _at(self, loop: WideLoop, index: Scalar) -> Rewriter:
        """A rewriter in which the loop's index is a given value."""
        return Rewriter(self.b, ChainMap({self.insts[loop.at].result: index}, self.rewriter.mapping))

    def _define(self, loop: WideLoop, rewriter: Rewriter, values) -> None:
        """Compute values of the loop through a rewriter, outside of it."""
        for i in slice_of(self.insts, self.regions, loop.at, values):
            if i != loop.at and self.insts[i].result not in rewriter.mapping:
                rewriter.copy(self.insts[i])

    def _vector(self, loop: WideLoop, first: Scalar, start: Rewriter) -> None:
        """The loop with its accesses in front of and behind it."""
        b = self.b
        arrays = [b.declare("local", run.buffer.name, run.buffer.dtype, (loop.count,)) for run in loop.runs]
        digits = {i: self._digit(loop, i, start) for i in loop.digits}
        places = [self._offset(loop, run, start) for run in loop.runs]
        held = self._held(loop, start)
        for run, array, place in zip(loop.runs, arrays, places):
            if run.reads:
                with self._where(held, run.loads):
                    self._fetch(loop, run, array, place, first, digits)
        left_out = {loop.guard, self.regions.end[loop.guard]} if loop.guard >= 0 else set()
        left_out |= {i for at in loop.conditions if at not in held for i in (at, self.regions.end[at])}
        local = {i: array for run, array in zip(loop.runs, arrays) for i in (*run.loads, *run.stores)}
        with self._each(loop, first, kind="unroll") as (u, inner):
            for i in self.regions.body(loop.at):
                inst = self.insts[i]
                b.at(inst.loc)
                if i in local and inst.op == "load":
                    inner.mapping[inst.result] = b.emit("load", local[i], u, name=inst.result.name)
                elif i in local:
                    b.emit("store", local[i], u, inner(inst.operands[-1]))
                elif i in digits:
                    inner.mapping[inst.result] = digits[i].after(u)
                elif i in held:
                    b.emit("if", held[i])
                elif i not in left_out:
                    inner.copy(inst)
        for run, array, place in zip(loop.runs, arrays, places):
            if run.stores:
                b.at(self.insts[run.stores[0]].loc)
                with self._where(held, run.stores):
                    transfer(b, loop, run, place, lambda k, at, width: b.emit("move", run.buffer, at, array, k, width=width))

    def _held(self, loop: WideLoop, start: Rewriter) -> dict[int, Scalar]:
        """The conditions that are the same in all iterations."""
        held = {i: self.insts[i].operands[0] for i, kind in loop.conditions.items() if kind is SAME}
        self._define(loop, start, held.values())
        return {i: start(test) for i, test in held.items()}

    @contextmanager
    def _where(self, held: Mapping[int, Scalar], accesses: tuple[int, ...]) -> Iterator[None]:
        """A region that runs where the condition around accesses, all around the same, holds."""
        test = held.get(self.regions.parent[accesses[0]])
        with self.b.if_(test) if test is not None else nullcontext():
            yield

    def _digit(self, loop: WideLoop, at: int, start: Rewriter) -> _Digit:
        """What a division gives from the first element on: it wraps around once at most, the divisor being no less than the elements."""
        b, inst = self.b, self.insts[at]
        self._define(loop, start, inst.operands)
        first, divisor = map(start, inst.operands)
        if type(divisor) is Value:
            divisor = b.emit("max", divisor, loop.count)  # as it is here, which ranges see only so
        value = b.emit(inst.op, first, divisor, name=inst.result.name)
        rest = value if inst.op == "mod" else b.emit("mod", first, divisor)
        start.mapping[inst.result] = value

        def after(u: Value) -> Value:
            here = b.emit("add", rest, u)
            past = b.emit("ge", here, divisor)
            up = b.emit("sub", here, divisor) if inst.op == "mod" else b.emit("add", value, 1)
            return b.emit("select", past, up, here if inst.op == "mod" else value, name=inst.result.name)

        return _Digit(rest, divisor, after)

    def _fetch(self, loop: WideLoop, run: Run, array: Buffer, place: Scalar, first: Scalar, digits: Mapping[int, _Digit]) -> None:
        """Load a run to its array: element by element where a division that it must lie within takes a step."""
        b = self.b.at(self.insts[run.loads[0]].loc)
        within = [b.emit("le", b.emit("add", digits[i].rest, loop.count), digits[i].divisor) for i in run.within]
        with b.if_(self._every(within)) if within else nullcontext():
            transfer(b, loop, run, place, lambda k, at, width: b.emit("move", array, k, run.buffer, at, width=width))
            if within:
                b.else_()
                with self._each(loop, first, kind="unroll") as (u, inner):
                    inner.mapping.update((self.insts[i].result, digit.after(u)) for i, digit in digits.items())
                    self._define(loop, inner, run.indices)
                    b.emit("store", array, u, b.emit("load", run.buffer, *map(inner, run.indices)))

    def _one_by_one(self, loop: WideLoop, first: Scalar) -> None:
        """The loop over the same elements as it was, each with its own test."""
        inst = self.insts[loop.at]
        unrolled = inst.attr("kind") == "unroll" and not inst.attr("deal")
        how = {"kind": "unroll"} if unrolled else {"kind": "serial", "unroll": 1}
        with self._each(loop, first, **how) as (_, inner):
            self._as_it_was(loop, inner)

    def _as_it_was(self, loop: WideLoop, inner: Rewriter) -> None:
        for i in self.regions.body(loop.at):
            self.b.at(self.insts[i].loc)
            inner.copy(self.insts[i])

    @contextmanager
    def _each(self, loop: WideLoop, first: Scalar, **how) -> Iterator[tuple[Value, Rewriter]]:
        """A loop over the elements from `first` on: its index, and a rewriter with the old index at that element."""
        b, index = self.b, self.insts[loop.at].result
        with b.loop(0, loop.count, name=index.name, **how) as u:
            yield u, self._at(loop, u if first == Const(0) else b.emit("add", first, u))

    def _offset(self, loop: WideLoop, run: Run, start: Rewriter) -> Scalar:
        """The offset in memory of the first element."""
        if run.offset is not None:
            self._define(loop, start, (run.offset,))
            return start(run.offset)
        self._define(loop, start, run.indices)
        return linear(self.b, run.buffer, [start(x) for x in run.indices], start)


def run(plan: Plan, context: Context) -> Plan:
    kernels, shares = [], plan.shares_arguments
    for kernel in plan.kernels:
        found = vector_widths(kernel, kernel.name not in shares)
        say(kernel, found, context)
        deals = found.loops or any(inst.attr("deal") for inst in kernel.insts if inst.op == "loop")
        kernels.append(replace(kernel, insts=_Widen(kernel, found).run()) if deals else kernel)
    return plan.with_kernels(kernels)


INFER_VECTOR_WIDTHS = Pass("infer-vector-widths", run, "several elements in one access", needs=("thread",))
