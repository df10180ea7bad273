"""infer-vector-widths: several elements in one access, wherever they follow one another and lie in the right place.

Before: stage=thread; every access is one element. A loop marked `deal` deals the elements of a range out to lanes, one by one.
After:  in loops of a few iterations, `move` takes elements to or from a `local` array, up to 16 bytes at once. What that counts
        on (arrays aligned, dimensions divisible) is one condition, tested at the top: where it does not hold, the loops run as they
        were. In the wide form lanes are dealt several elements in a row. No `deal` is left; what is dealt one by one is not
        unrolled, so as to cost the wide form no registers.

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

A test that each element is below a limit becomes one test, of all elements of an iteration; where that fails for some of them only,
they go one by one. A division of each element's index is one division, of the first, that the others go on from. Arrays
of one launch are different memory, so a load may come before a store to another array.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import reduce

from vxc.analysis.conditions import ENDS, SAME
from vxc.analysis.vector_width import Run, WideLoop, Widths, around, slice_of, vector_widths
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Scalar, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass


class _Widen:
    """Rewrites one kernel."""

    def __init__(self, kernel: Kernel, found: Widths):
        self.kernel, self.insts, self.found = kernel, kernel.insts, found
        self.regions = Regions.of(kernel.insts)
        self.b = Builder(names(kernel.params))
        self.rewriter = Rewriter(self.b)

    def run(self) -> tuple[Inst, ...]:
        wide = self._condition() if self.found.loops else None
        doubled = {around(self.regions, at) for at in self.found.loops}
        at = 0
        while at < len(self.insts):
            if at not in doubled:
                self._copy(at)
                at += 1
                continue
            region = range(at, self.regions.end[at] + 1)
            if wide is None:
                self._range(region)
            else:
                with self.b.if_(wide):
                    self._range(region)
                    self.b.else_()
                    for i in region:
                        self._copy(i)
            at = region.stop
        return tuple(self.b.insts)

    def _condition(self) -> Value | None:
        """What wide accesses count on, or None where that is nothing."""
        b, found = self.b, self.found
        buffers = {p.name: p for p in self.kernel.params}
        tests = [b.emit("aligned", buffers[name], bytes=size) for name, size in found.aligned.items()]
        tests += [b.emit("eq", b.emit("mod", buffers[name], by), 0) for name, by in found.divides.items()]
        tests += [b.emit("ge", buffers[name], least) for name, least in found.least.items()]
        every = None
        for test in tests:
            every = test if every is None else b.emit("and", every, test)
        return every

    def _copy(self, at: int) -> None:
        inst = self.insts[at]
        self.b.at(inst.loc)
        if at in self.found.loops and inst.attr("kind") == "serial":
            inst = inst.with_attrs(unroll=1)
        self.rewriter.copy(inst.with_attrs(deal=None))

    def _range(self, positions: range) -> None:
        """Copy with the loops in it widened."""
        at = positions.start
        while at < positions.stop:
            if at in self.found.loops:
                self._widened(self.found.loops[at])
                at = self.regions.end[at] + 1
            else:
                self._copy(at)
                at += 1

    def _widened(self, loop: WideLoop) -> None:
        b, inst = self.b.at(self.insts[loop.at].loc), self.insts[loop.at]
        first: Scalar = b.emit("mul", self.rewriter(inst.operands[0]), loop.count) if inst.attr("deal") else Const(0)
        start = self._at(loop, first)
        tests = [self._fits(loop, start)] if loop.guard >= 0 else []
        ends = [self.insts[i].operands[0] for i, kind in loop.conditions.items() if kind is ENDS]
        last = self._at(loop, b.emit("add", first, loop.count - 1) if ends else first)
        for rewriter in (start, last) if ends else ():
            self._define(loop, rewriter, ends)
            tests += map(rewriter, ends)
        if not tests:
            self._vector(loop, first, start)
            return
        with b.if_(reduce(lambda x, y: b.emit("and", x, y), tests)):
            self._vector(loop, first, start)
            if ends or not loop.whole:
                b.else_()
                self._one_by_one(loop, first)

    def _fits(self, loop: WideLoop, start: Rewriter) -> Value:
        """Whether the guard lets all elements in; where it decides the same for all, whether it lets the first."""
        b = self.b
        test = next(i for i in self.insts if i.result == self.insts[loop.guard].operands[0])
        self._define(loop, start, test.operands)
        element, limit = map(start, test.operands)
        return b.emit("lt", element, limit) if loop.whole else b.emit("le", b.emit("add", element, loop.count), limit)

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
        places = [self._offset(loop, run, start) for run in loop.runs]
        held = self._held(loop, start)
        for run, array, place in zip(loop.runs, arrays, places):
            if run.reads:
                with self._where(held, run.loads):
                    for k, at in self._pieces(loop, run, place):
                        b.emit("move", array, k, run.buffer, at, width=run.width)
        left_out = {loop.guard, self.regions.end[loop.guard]} if loop.guard >= 0 else set()
        left_out |= {i for at in loop.conditions if at not in held for i in (at, self.regions.end[at])}
        digits = {i: self._digit(loop, i, start) for i in loop.digits}
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
                    inner.mapping[inst.result] = digits[i](u)
                elif i in held:
                    b.emit("if", held[i])
                elif i not in left_out:
                    inner.copy(inst)
        for run, array, place in zip(loop.runs, arrays, places):
            if run.stores:
                b.at(self.insts[run.stores[0]].loc)
                with self._where(held, run.stores):
                    for k, at in self._pieces(loop, run, place):
                        b.emit("move", run.buffer, at, array, k, width=run.width)

    def _held(self, loop: WideLoop, start: Rewriter) -> dict[int, Scalar]:
        """The conditions that are the same in all iterations."""
        held = {i: self.insts[i].operands[0] for i, kind in loop.conditions.items() if kind is SAME}
        self._define(loop, start, held.values())
        return {i: start(test) for i, test in held.items()}

    @contextmanager
    def _where(self, held: dict[int, Scalar], accesses: tuple[int, ...]) -> Iterator[None]:
        """A region that runs where the condition around accesses, all around the same, holds."""
        test = held.get(self.regions.parent[accesses[0]])
        with self.b.if_(test) if test is not None else nullcontext():
            yield

    def _digit(self, loop: WideLoop, at: int, start: Rewriter) -> Callable[[Value], Value]:
        """What a division gives `u` elements after the first: it wraps around once at most, the divisor being no less than the elements."""
        b, inst = self.b, self.insts[at]
        self._define(loop, start, (*inst.operands, inst.result))
        first, divisor = map(start, inst.operands)
        rest = b.emit("mod", first, divisor)

        def after(u: Value) -> Value:
            here = b.emit("add", rest, u)
            past = b.emit("ge", here, divisor)
            up = b.emit("sub", here, divisor) if inst.op == "mod" else b.emit("add", start(inst.result), 1)
            return b.emit("select", past, up, here if inst.op == "mod" else start(inst.result), name=inst.result.name)

        return after

    def _one_by_one(self, loop: WideLoop, first: Scalar) -> None:
        """The loop over the same elements as it was, each with its own test."""
        how = {"kind": "serial", "unroll": 1} if self.insts[loop.at].attr("deal") else {"kind": "unroll"}
        with self._each(loop, first, **how) as (_, inner):
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

    def _pieces(self, loop: WideLoop, run: Run, place: Scalar) -> Iterator[tuple[int, Scalar]]:
        """Where each access of a run begins: in the local array, and in memory."""
        for k in range(0, loop.count, run.width):
            yield k, self.b.emit("add", place, k) if k else place


def _linear(b: Builder, buffer: Buffer, indices: list[Operand], lookup: Rewriter) -> Scalar:
    found: Scalar | None = None
    for at, index in enumerate(indices):
        if buffer.strides is not None:
            index = b.emit("mul", index, lookup(buffer.strides[at]))
        elif found is not None:
            found = b.emit("mul", found, lookup(buffer.shape[at]))
        found = index if found is None else b.emit("add", found, index)
    return found


def _remarks(kernel: Kernel, found: Widths, context: Context) -> None:
    insts = kernel.insts
    said = set()

    def once(say, message: str, at: int) -> None:
        if (insts[at].loc, message) not in said:
            said.add((insts[at].loc, message))
            say(message, kernel.name, insts[at].loc)

    for loop in found.loops.values():
        for run in loop.runs:
            for what, places in (("loads", run.loads * run.reads), ("stores", run.stores)):
                if places:
                    once(context.applied, f"{run.width * run.buffer.dtype.bytes}-byte {what} of `{run.buffer.name}`", places[0])
    for miss in found.missed:
        once(context.missed, f"`{miss.buffer.name}` goes one element at a time: {miss.why}", miss.at)
    tests = [f"`{name}` begins at a multiple of {size} bytes" for name, size in found.aligned.items()]
    tests += [f"{name} is a multiple of {by}" for name, by in found.divides.items()]
    tests += [f"{name} is at least {least}" for name, least in found.least.items()]
    if found.loops and tests:
        context.applied(f"wide accesses where {', '.join(tests)}; else one element at a time", kernel.name)


def run(plan: Plan, context: Context) -> Plan:
    kernels, shares = [], plan.shares_arguments
    for kernel in plan.kernels:
        found = vector_widths(kernel, kernel.name not in shares)
        _remarks(kernel, found, context)
        deals = found.loops or any(inst.attr("deal") for inst in kernel.insts if inst.op == "loop")
        kernels.append(replace(kernel, insts=_Widen(kernel, found).run()) if deals else kernel)
    return plan.with_kernels(kernels)


INFER_VECTOR_WIDTHS = Pass("infer-vector-widths", run, "several elements in one access", needs=("thread",))
