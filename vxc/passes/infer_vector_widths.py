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
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from vxc.analysis.vector_width import around, slice_of, vector_widths
from vxc.analysis.wide_loop import Run, WideLoop, Widths
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Scalar, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.infer_vector_widths_text import say


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
            self.enough = self._every(self._least())
        wide = self._every([*self._placed(), self.enough]) if plain else None
        doubled = {around(self.regions, at) for at in plain}
        at = 0
        while at < len(self.insts):
            region = range(at, self.regions.end[at] + 1) if at in doubled or at in found.loops else range(at, at + 1)
            if wide is None or at not in doubled:
                self._range(region)
            else:
                with self.b.if_(wide):
                    self._range(region)
                    self.b.else_()
                    self._range(region, placed=False)
            at = region.stop
        return tuple(self.b.insts)

    def _placed(self) -> Iterator[Value]:
        """What wide accesses of unrolled loops count on."""
        b, buffers = self.b, {p.name: p for p in self.kernel.params}
        for name, size in self.found.aligned.items():
            yield b.emit("aligned", buffers[name], bytes=size)
        for name, by in self.found.divides.items():
            yield b.emit("eq", b.emit("mod", buffers[name], by), 0)

    def _least(self) -> Iterator[Value]:
        """What divisions that go on from one another count on."""
        parameters = {p.name: p for p in self.kernel.params}
        for name, least in self.found.least.items():
            yield self.b.emit("ge", parameters[name], least)

    def _every(self, tests: Iterable[Value | None]) -> Value | None:
        every = None
        for test in tests:
            every = test if every is None else every if test is None else self.b.emit("and", every, test)
        return every

    def _copy(self, at: int) -> None:
        inst = self.insts[at]
        self.b.at(inst.loc)
        self.rewriter.copy(inst.with_attrs(deal=None) if inst.attr("deal") else inst)

    def _range(self, positions: range, placed: bool = True) -> None:
        """Copy with the loops in it widened; where what they count on does not hold (`placed`), only those that deal out."""
        at = positions.start
        while at < positions.stop:
            loop = self.found.loops.get(at)
            if loop is None or not (placed or loop.dealt):
                self._copy(at)
                at += 1
                continue
            if loop.dealt:
                self._dealt(loop)
            else:
                self._widened(loop, Const(0))
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
            element, limit = map(here, self._test(loop).operands)
            left = b.emit("max", b.emit("sub", b.emit("sub", limit, element), ahead), 0)
            rest = b.emit("mod", left, loop.count)
            whole = b.emit("sub", left, rest)
            rest = b.emit("select", b.emit("lt", left, total), rest, 0)
        if self.enough:
            before, rest = (b.emit("select", self.enough, *xs) for xs in ((before, total), (rest, 0)))
        return before, b.emit("sub", b.emit("add", ahead, whole), before), rest

    def _test(self, loop: WideLoop) -> Inst:
        """The comparison that guards a loop's body."""
        return next(i for i in self.insts if i.result == self.insts[loop.guard].operands[0])

    def _widened(self, loop: WideLoop, first: Scalar) -> None:
        """The iterations of one lane, those from `first` on."""
        b, start = self.b.at(self.insts[loop.at].loc), self._at(loop, first)
        if loop.guard < 0:
            self._vector(loop, first, start)
            return
        test = self._test(loop)
        self._define(loop, start, test.operands)
        element, limit = map(start, test.operands)
        fits = b.emit("lt", element, limit) if loop.whole else b.emit("le", b.emit("add", element, loop.count), limit)
        with b.if_(fits):
            self._vector(loop, first, start)
            if not (loop.whole or loop.dealt):
                b.else_()
                self._one_by_one(loop)

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
        for run, array, place in zip(loop.runs, arrays, places):
            if run.reads:
                self._fetch(loop, run, array, place, first, digits)
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
                elif loop.guard < 0 or i not in (loop.guard, self.regions.end[loop.guard]):
                    inner.copy(inst)
        for run, array, place in zip(loop.runs, arrays, places):
            if run.stores:
                b.at(self.insts[run.stores[0]].loc)
                self._transfer(loop, run, place, lambda k, at, width: b.emit("move", run.buffer, at, array, k, width=width))

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
            self._transfer(loop, run, place, lambda k, at, width: b.emit("move", array, k, run.buffer, at, width=width))
            if within:
                b.else_()
                with self._each(loop, first, kind="unroll") as (u, inner):
                    inner.mapping.update((self.insts[i].result, digit.after(u)) for i, digit in digits.items())
                    self._define(loop, inner, run.indices)
                    b.emit("store", array, u, b.emit("load", run.buffer, *map(inner, run.indices)))

    def _transfer(self, loop: WideLoop, run: Run, place: Scalar, move: Callable[[Scalar, Scalar, int], object]) -> None:
        """`move(index in the array, in memory, width)` all of a run, as wide as is known to be right or as the address allows."""
        b = self.b
        widths = loop.widths(run)
        ahead = b.emit("ahead", run.buffer, place, bytes=run.width * run.buffer.dtype.bytes) if len(widths) > 1 else None
        with ExitStack() as narrower:
            for width in widths:
                if width != widths[-1]:
                    fits = b.emit("eq", ahead if width == run.width else b.emit("mod", ahead, width), 0)
                    narrower.enter_context(b.if_(fits))
                self._pieces(loop, place, width, move)
                if width != widths[-1]:
                    b.else_()

    def _pieces(self, loop: WideLoop, place: Scalar, width: int, move: Callable[[Scalar, Scalar, int], object]) -> None:
        if loop.count <= 2 * width:
            for k in range(0, loop.count, width):
                move(k, self.b.emit("add", place, k) if k else place, width)
        else:
            with self.b.loop(0, loop.count, width, kind="unroll", name="k") as k:
                move(k, self.b.emit("add", place, k), width)

    def _one_by_one(self, loop: WideLoop) -> None:
        """The loop over the same elements as it was, each with its own test."""
        with self._each(loop, Const(0), kind="unroll") as (_, inner):
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
        return _linear(self.b, run.buffer, [start(x) for x in run.indices], start)


def _linear(b: Builder, buffer: Buffer, indices: list[Operand], lookup: Rewriter) -> Scalar:
    found: Scalar | None = None
    for at, index in enumerate(indices):
        if buffer.strides is not None:
            index = b.emit("mul", index, lookup(buffer.strides[at]))
        elif found is not None:
            found = b.emit("mul", found, lookup(buffer.shape[at]))
        found = index if found is None else b.emit("add", found, index)
    return found


def run(plan: Plan, context: Context) -> Plan:
    kernels, shares = [], plan.shares_arguments
    for kernel in plan.kernels:
        found = vector_widths(kernel, kernel.name not in shares)
        say(kernel, found, context)
        deals = found.loops or any(inst.attr("deal") for inst in kernel.insts if inst.op == "loop")
        kernels.append(replace(kernel, insts=_Widen(kernel, found).run()) if deals else kernel)
    return plan.with_kernels(kernels)


INFER_VECTOR_WIDTHS = Pass("infer-vector-widths", run, "several elements in one access", needs=("thread",))
