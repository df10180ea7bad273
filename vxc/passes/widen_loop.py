"""One loop written with wide accesses (part of infer-vector-widths): its runs move to and from arrays of the thread, around the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from vxc.analysis.conditions import ENDS, SAME
from vxc.analysis.thread_loop import slice_of
from vxc.analysis.wide_loop import Run, WideLoop
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Scalar, Value
from vxc.ir.walk import Regions
from vxc.passes.move_run import Move, move_run
from vxc.passes.why_narrow import REST, ROW_END


class _Digit(NamedTuple):
    """A division that goes on: its remainder at the first element, its divisor, and what it gives some elements after."""

    rest: Value
    divisor: Scalar
    after: Callable[[Value], Value]


class LoopWriter:
    """Writes one loop to `b`, `rewriter` having what stands for values of before it.

    `placed`: what the kernel tests holds here. `some` and `enough` hold where dimensions that the loop divides by are not 0, and are so
    large that each division takes one step at most; None: they do.
    """

    def __init__(
        self, b: Builder, regions: Regions, rewriter: Rewriter, loop: WideLoop, placed: bool, some: Value | None, enough: Value | None
    ):
        self.b, self.insts, self.regions, self.rewriter, self.loop = b, regions.insts, regions, rewriter, loop
        self.placed, self.some, self.enough = placed, some, enough if loop.digits else None
        self.guards = loop.given if placed else loop.otherwise
        self.b.at(self.insts[loop.at].loc)

    def write(self) -> None:
        inst, loop = self.insts[self.loop.at], self.loop
        if loop.dealt:
            self._dealt()
        else:
            self._widened(self.b.emit("mul", self.rewriter(inst.operands[0]), loop.count) if inst.attr("deal") else Const(0))

    # ---- elements dealt out to lanes

    def _dealt(self) -> None:
        """Several elements in a row to a lane, then those that are left: see `_left`."""
        b, loop, inst = self.b, self.loop, self.insts[self.loop.at]
        lane, total, lanes = map(self.rewriter, inst.operands)
        here = self._at(Const(0))
        ahead: Scalar = Const(0)
        if loop.shift:
            run = loop.shift.run
            ahead = b.emit("ahead", run.buffer, self._offset(run, here), bytes=run.given.elements * run.buffer.dtype.bytes)
        with b.if_(self.some) if self.some else nullcontext():
            first = b.emit("add", b.emit("mul", lane, loop.count), ahead)
            with b.if_(self.enough) if self.enough else nullcontext():
                self._widened(first)
                if self.enough:
                    b.else_()
                    self._widened(first, goes_on=False)
        before, after, rest = self._left(here, ahead, total)
        with b.loop(lane, b.emit("add", before, rest), lanes, kind="serial", unroll=1, name=inst.result.name) as e:
            self._as_it_was(self._at(b.emit("select", b.emit("lt", e, before), e, b.emit("add", e, after))))

    def _left(self, here: Rewriter, ahead: Scalar, total: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Of the `total` elements from `here` on, how many go one by one: the first (all of them, where a divisor is 0), and the rest
        behind the last whole vector; between them how far the rest is from where the first end.
        """
        b, loop = self.b, self.loop
        before = rest = whole = Const(0)
        if loop.shift:
            before = b.emit("select", b.emit("eq", *map(self.rewriter, (loop.shift.base, loop.shift.start))), ahead, 0)
        if loop.guard >= 0:
            self._define(here, loop.tests[0].operands)
            element, limit = map(here, loop.tests[0].operands)
            left = b.emit("max", b.emit("sub", b.emit("sub", limit, element), ahead), 0)
            rest = b.emit("mod", left, loop.count)
            whole = b.emit("sub", left, rest)
            rest = b.emit("select", b.emit("lt", left, total), rest, 0)
        if self.some:
            before, rest = (b.emit("select", self.some, *xs) for xs in ((before, total), (rest, 0)))
        return before, b.emit("sub", b.emit("add", ahead, whole), before), rest

    # ---- the iterations of one lane

    def _widened(self, first: Scalar, goes_on: bool = True) -> None:
        """The iterations from `first` on; `goes_on`: divisions do from one to the next."""
        b, loop, start = self.b, self.loop, self._at(first)
        tests = [test for test in (self.some, self.enough) if test and not loop.dealt]
        if self.in_part:
            tests.append(self._fits(start))
            with b.if_(every(b, tests)):
                self._vector(first, start, self._upto(start))
                if len(tests) > 1:
                    b.else_()
                    self._one_by_one(first)
            return
        if loop.guard >= 0:
            tests.append(self._fits(start))
        ends = [self.insts[i].operands[0] for i, kind in self.guards.kinds.items() if kind is ENDS]
        last = self._at(b.emit("add", first, loop.count - 1) if ends else first)
        for rewriter in (start, last) if ends else ():
            self._define(rewriter, ends)
            tests += map(rewriter, ends)
        if not tests:
            self._vector(first, start, goes_on=goes_on)
            return
        others = ends or not (self.guards.whole and len(tests) == 1 or loop.dealt or loop.copies)
        with b.if_(every(b, tests)):
            self._vector(first, start, goes_on=goes_on)
            if others:
                b.else_()
                self._one_by_one(first)

    @property
    def in_part(self) -> bool:
        return self.loop.in_part and not self.guards.whole and not self.loop.copies

    def _upto(self, start: Rewriter) -> Scalar:
        """How many elements the guard lets in, in ranges too: that the first is one is tested."""
        b, count = self.b, Const(self.loop.count)
        for test in self.loop.tests:
            element, limit = map(start, test.operands)
            count = b.emit("min", b.emit("max", b.emit("sub", limit, element), 1), count)
        return count

    def _fits(self, start: Rewriter) -> Value:
        """Whether the guard lets all elements in; where it decides the same for all, or some go, whether it lets the first."""
        b, holds = self.b, []
        for test in self.loop.tests:
            self._define(start, test.operands)
            element, limit = map(start, test.operands)
            if self.loop.copies:  # any element will do
                last = b.emit("add", element, self.loop.count - 1) if test.op == "ge" else element
                holds.append(b.emit(test.op, last, limit))
                continue
            below = test.op == "lt" and not self.guards.whole and not self.in_part
            holds.append(b.emit("le", b.emit("add", element, self.loop.count), limit) if below else b.emit(test.op, element, limit))
        return every(b, holds)

    def _vector(self, first: Scalar, start: Rewriter, upto: Scalar | None = None, goes_on: bool = True) -> None:
        """The loop with its accesses in front of and behind it, all of them or so many; without those that divisions must go on for."""
        b, loop = self.b, self.loop
        runs = [run for run in loop.runs if goes_on or not run.within]
        arrays = [b.declare("local", run.buffer.name, run.buffer.dtype, (loop.count // run.each,)) for run in runs]
        digits = {i: self._digit(i, start) for i in loop.digits} if goes_on else {}
        places = [self._offset(run, start) for run in runs]
        held = self._held(start)
        for run, array, place in zip(runs, arrays, places):
            if run.reads:
                with self._where(held, run.loads):
                    self._checked(run, first, upto)
                    self._fetch(run, array, place, first, digits, upto)
        left_out = {loop.guard, self.regions.end[loop.guard]} if loop.guard >= 0 and upto is None else set()
        left_out |= {i for at in self.guards.kinds if at not in held for i in (at, self.regions.end[at])}
        local = {i: (array, run.each) for run, array in zip(runs, arrays) for i in (*run.loads, *run.stores)}
        single = {i for run in loop.runs if run not in runs for i in run.loads}
        with self._each(first, kind="unroll") as (u, inner):
            for i in self.regions.body(loop.at):
                inst = self.insts[i]
                b.at(inst.loc)
                if i in local and inst.op == "load":
                    array, each = local[i]
                    k = b.emit("floordiv", u, each) if each > 1 else u
                    inner.mapping[inst.result] = b.emit("load", array, k, name=inst.result.name)
                elif i in local:
                    b.emit("store", local[i][0], u, inner(inst.operands[-1]))
                elif i in digits:
                    inner.mapping[inst.result] = digits[i].after(u)
                elif i in held:
                    b.emit("if", held[i])
                elif i == loop.guard and upto is not None and any(type(test.operands[1]) is Value for test in loop.tests):
                    b.emit("if", b.emit("lt", u, upto))  # in 32 bits, which a limit may exceed
                elif i not in left_out:
                    inner.copy(inst.with_attrs(narrow=ROW_END) if i in single else inst)
        for run, array, place in zip(runs, arrays, places):
            if run.stores:
                b.at(self.insts[run.stores[0]].loc)
                with self._where(held, run.stores):
                    if not run.reads:
                        self._checked(run, first, upto)
                    to = start(run.buffer)
                    self._transfer(run, lambda k, at, *part, **how: b.emit("move", to, at, array, k, *part, **how), place, upto)

    def _one_by_one(self, first: Scalar) -> None:
        """The loop over the same elements as it was, each with its own test."""
        inst = self.insts[self.loop.at]
        unrolled = inst.attr("kind") == "unroll" and not inst.attr("deal")
        how = {"kind": "unroll"} if unrolled else {"kind": "serial", "unroll": 1}
        with self._each(first, **how) as (_, inner):
            self._as_it_was(inner)

    def _as_it_was(self, inner: Rewriter) -> None:
        moved = {i for run in self.loop.runs for i in (*run.loads, *run.stores)}
        for i in self.regions.body(self.loop.at):
            self.b.at(self.insts[i].loc)
            inner.copy(self.insts[i].with_attrs(narrow=REST) if i in moved else self.insts[i])

    # ---- conditions and divisions

    def _held(self, start: Rewriter) -> dict[int, Scalar]:
        """The conditions that are the same in all iterations."""
        held = {i: self.insts[i].operands[0] for i, kind in self.guards.kinds.items() if kind is SAME}
        self._define(start, held.values())
        return {i: start(test) for i, test in held.items()}

    @contextmanager
    def _where(self, held: Mapping[int, Scalar], accesses: tuple[int, ...]) -> Iterator[None]:
        """A region that runs where the condition around accesses, all around the same, holds."""
        test = held.get(self.regions.parent[accesses[0]])
        with self.b.if_(test) if test is not None else nullcontext():
            yield

    def _digit(self, at: int, start: Rewriter) -> _Digit:
        """What a division gives from the first element on: it wraps around once at most, the divisor being no less than the elements."""
        b, inst = self.b, self.insts[at]
        self._define(start, inst.operands)
        first, divisor = map(start, inst.operands)
        if type(divisor) is Value:
            divisor = b.emit("max", divisor, self.loop.count)  # as it is here, which ranges see only so
        value = b.emit(inst.op, first, divisor, name=inst.result.name)
        rest = value if inst.op == "mod" else b.emit("mod", first, divisor)
        start.mapping[inst.result] = value

        def after(u: Value) -> Value:
            here = b.emit("add", rest, u)
            past = b.emit("ge", here, divisor)
            up = b.emit("sub", here, divisor) if inst.op == "mod" else b.emit("add", value, 1)
            return b.emit("select", past, up, here if inst.op == "mod" else value, name=inst.result.name)

        return _Digit(rest, divisor, after)

    # ---- memory

    def _checked(self, run: Run, first: Scalar, upto: Scalar | None) -> None:
        """That a doubted run lies in its array: the ends of elements that follow one another."""
        b, loop = self.b, self.loop
        if not any(self.insts[i].attr("doubted") for i in (*run.loads, *run.stores)):
            return
        tests: list[Value] = []
        known: set[tuple[Scalar, Scalar]] = set()
        last = Const(loop.count - 1) if upto is None else b.emit("sub", upto, 1)
        for end in (first, last if first == Const(0) else b.emit("add", first, last)):
            here = self._at(end)
            self._define(here, run.indices)
            for index, extent in zip(map(here, run.indices), self.rewriter(run.buffer).shape):
                tests += [b.emit("ge", index, 0), b.emit("lt", index, extent)] if (index, extent) not in known else []
                known.add((index, extent))
        b.emit("assert", every(b, tests), code="E0720", message=f"an access leaves `{run.buffer.name}`")

    def _fetch(
        self, run: Run, array: Buffer, place: Scalar, first: Scalar, digits: Mapping[int, _Digit], upto: Scalar | None
    ) -> None:
        """Load a run to its array: element by element where a division that it must lie within takes a step."""
        b = self.b.at(self.insts[run.loads[0]].loc)
        within = [b.emit("le", b.emit("add", digits[i].rest, self.loop.count), digits[i].divisor) for i in run.within]
        with b.if_(every(b, within)) if within else nullcontext():
            of = self.rewriter(run.buffer)
            self._transfer(run, lambda k, at, *part, **how: b.emit("move", array, k, of, at, *part, **how), place, upto)
            if within:
                b.else_()
                with self._each(first, kind="unroll") as (u, inner):
                    inner.mapping.update((self.insts[i].result, digit.after(u)) for i, digit in digits.items())
                    self._define(inner, run.indices)
                    b.emit("store", array, u, b.emit("load", inner(run.buffer), *map(inner, run.indices), narrow=ROW_END))

    def _transfer(self, run: Run, move: Move, place: Scalar, upto: Scalar | None) -> None:
        """Move all of a run that begins at `place`, or so many of its elements."""
        size = run.given if self.placed else run.otherwise
        if self.loop.copies:  # of elements that are kept out, one may lie outside of the array
            size = size._replace(anywhere="held" if size.anywhere else "line")
        if upto is not None and run.each > 1:
            upto = self.b.emit("ceildiv", upto, run.each)
        move_run(self.b, size, self.loop.count // run.each, move, place, upto)

    def _offset(self, run: Run, start: Rewriter) -> Scalar:
        """The offset in memory of the first element."""
        if run.offset is not None:
            self._define(start, (run.offset,))
            return start(run.offset)
        self._define(start, run.indices)
        return self.b.linear(run.buffer, [start(x) for x in run.indices], start)

    # ---- the loop's index

    def _at(self, index: Scalar) -> Rewriter:
        """A rewriter in which the loop's index is a given value."""
        return self.rewriter.inside({self.insts[self.loop.at].result: index})

    @contextmanager
    def _each(self, first: Scalar, **how) -> Iterator[tuple[Value, Rewriter]]:
        """A loop over the elements from `first` on: its index, and a rewriter with the old index at that element."""
        b, index = self.b, self.insts[self.loop.at].result
        with b.loop(0, self.loop.count, name=index.name, **how) as u:
            yield u, self._at(u if first == Const(0) else b.emit("add", first, u))

    def _define(self, rewriter: Rewriter, values) -> None:
        """Compute values of the loop through a rewriter, outside of it."""
        for i in slice_of(self.insts, self.regions, self.loop.at, values):
            if i != self.loop.at and self.insts[i].result not in rewriter.mapping:
                rewriter.copy(self.insts[i])


def every(b: Builder, tests: Iterable[Value | None]) -> Value | None:
    """Whether all hold, of those that are not None."""
    found = None
    for test in tests:
        found = test if found is None else found if test is None else b.emit("and", found, test)
    return found
