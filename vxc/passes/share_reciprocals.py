"""share-reciprocals: several elements divided by one value are multiplied by its reciprocal, to the same bits.

Before: stage=thread; accesses are as wide as they get.
After:  an unrolled loop with an f32 division by what is the same in all its iterations (or those that an `if` lets in) is three: one
        that multiplies by the reciprocal, made once behind the divisor, and corrects; one that divides after all where one of these
        elements lies outside of the range in which that is exact; and the loop as it was, with the quotients from a `local` array.
        Where only the divisor needs a test, all that divides by it stands there twice, by the reciprocal and as it was.

    %v = loop 0, 4 {kind="unroll"}            %v = loop 0, 4 {kind="unroll"}
      %1: f32 = load @e, %v                     %7: f32 = load @e, %v
      %2: f32 = div %1, %z                ->    %8: f32 = mul %7, %5
      store @y, %v, %2                          %9: f32 = neg %8
    end %v                                      %10: f32 = fma %9, %z, %7
                                                %11: f32 = fma %10, %5, %8

With r = 1/z and q = a * r, rounded, q + r * (a - q * z), by two fma, rounds as a/z does: bounds on the errors show it for all but quotients
next to the middle of two floats, and those have been tried for every significand of z (tests/test_reciprocals.py has the bounds, and
tries a part). Nothing may overflow or become subnormal: |z| in [2**-24, 2**24] (else r is NaN), |q| in [2**-78, 2**100]. The sum of
all |q| is tested against the upper end: an addition for each costs less than a comparison. The lower end goes untested where the quotient
only becomes f16 and its dividend has the sign of +0 by what makes it: below the range q is off, but has the sign of a/z and at most
twice its size, and both round to the same zero. The upper end goes untested where the quotient is no more than 1 (`part`). For
`fp="fast"`, division is one instruction already.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from vxc.analysis.thread_loop import slice_of
from vxc.dtypes import BOOL, F16, F32
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import NAN, Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, definitions, names, uses
from vxc.pass_manager import Context, Pass
from vxc.passes.bound_quotients import UNSIGNED
from vxc.passes.prove_parallel_text import source_name

DIVISORS = (2.0**-24, 2.0**24)
QUOTIENTS = (2.0**-78, 2.0**100)
LANES_MEET = ("warp", "warpgroup", "block", "cluster")  # scopes of instructions that no branch may keep a lane from


class _Share:
    """Rewrites one kernel."""

    def __init__(self, kernel: Kernel):
        self.insts, self.regions = kernel.insts, Regions.of(kernel.insts)
        self.b = Builder(names(kernel.params))
        self.rewriter = Rewriter(self.b)
        self.loops = {at: found for at, inst in enumerate(self.insts) if inst.op == "loop" and (found := self._divisions(at))}
        divisors = dict.fromkeys(self.insts[i].operands[1] for found in self.loops.values() for i in found)
        made = self.made = definitions(self.insts)
        self.uses = uses(self.insts)
        self.divisors = {x: made.get(x.name, -1) if type(x) is Value else -1 for x in divisors}  # divisor -> where it is made
        self.reciprocals: dict[Operand, Value] = {}
        self.twice = {span.start: (span, x) for x in self.divisors if (span := self._span(x))}

    def run(self) -> tuple[Inst, ...]:
        arrays: dict[int, tuple[int, Buffer]] = {}  # division -> its loop, its quotients
        self._behind(-1)
        at = -1
        while (at := at + 1) < len(self.insts):
            inst = self.insts[at]
            self.b.at(inst.loc)
            if at in self.twice:
                at = self._two_forms(*self.twice[at])
                continue
            arrays.update({i: (at, self._quotients(at, i)) for i in self.loops.get(at, ())})
            if at in arrays:
                loop, array = arrays[at]
                index = self.rewriter(self.insts[loop].result)
                self.rewriter.mapping[inst.result] = self.b.emit("load", array, index, name=inst.result.name)
            else:
                self.rewriter.copy(inst)
            self._behind(at)
        return tuple(self.b.insts)

    def _divisions(self, at: int) -> list[int]:
        """The divisions in a loop that take a reciprocal."""
        inst = self.insts[at]
        bounds = (*inst.operands, Const(1))[:3]
        if inst.attr("kind") != "unroll" or not all(type(x) is Const for x in bounds) or bounds[0].value or bounds[2].value != 1:
            return []
        own = [*self.regions.level(self.regions.body(at))]
        own += [k for i in own if self._lets_in(at, i) for k in self.regions.level(self.regions.body(i))]
        divisions = [i for i in own if self.insts[i].op == "div" and self.insts[i].result.dtype is F32]
        if not divisions:
            return []
        inside = {self.insts[i].result for i in range(at, self.regions.end[at])}
        written = {a.buffer for i in self.regions.body(at) for a in accesses(self.insts[i]) if "w" in a.mode}
        found: list[int] = []
        for i in divisions:
            if self.insts[i].operands[1] in inside:
                continue
            before = [k for k in self._dividend(at, i) if k != at]
            again = all(OPS[self.insts[k].op].pure or self.insts[k].op == "load" for k in before)
            if again and not any(a.buffer in written for k in before for a in accesses(self.insts[k])) and set(before) <= set(own):
                found += [] if set(before) & set(found) else [i]
        return found if bounds[1].value > 1 else []

    def _lets_in(self, at: int, i: int) -> bool:
        """Whether an instruction of a loop decides, by its index alone, which iterations do what is in it."""
        if self.insts[i].op != "if" or self.regions.other[i] >= 0:
            return False
        return all(k == at or OPS[self.insts[k].op].pure for k in slice_of(self.insts, self.regions, at, self.insts[i].operands))

    def _dividend(self, at: int, division: int) -> list[int]:
        """What a dividend is made from in a loop."""
        return slice_of(self.insts, self.regions, at, self.insts[division].operands[:1])

    def _span(self, x: Operand) -> range | None:
        """All that divides by a value, where a test of it alone decides, and nothing else is in question there."""
        loops = {at: found for at, found in self.loops.items() if any(self.insts[i].operands[1] == x for i in found)}
        made = self.divisors[x]
        if made < 0 or not all(self._never_tested(self.insts[i]) for found in loops.values() for i in found):
            return None
        arm, scope = len(self.insts), self.regions.parent[made]
        if scope >= 0:
            arm = self.regions.other[scope] if made < self.regions.other[scope] else self.regions.end[scope]
        level = [p for p in self.regions.level(range(made + 1, arm)) if any(p <= at <= self.regions.end[p] for at in loops)]
        span = range(level[0], self.regions.end[level[-1]] + 1)
        results = {self.insts[i].result for i in span} - {None}
        meet = any(OPS[self.insts[i].op].scope in LANES_MEET for i in span)
        others = any(at in span and at not in loops for at in self.loops) or any(at in span for at in self.divisors.values())
        later = any(o in results for inst in self.insts[span.stop :] for o in inst.operands if type(o) is not Const)
        return None if meet or others or later else span

    def _two_forms(self, span: range, x: Operand) -> int:
        """What is in the span by reciprocals where the divisor is in its range, else as it was; gives its last position."""
        b, divisor, reciprocal = self.b, self.rewriter(x), self.reciprocals[x]
        with b.if_(b.emit("eq", reciprocal, reciprocal)):
            for inst in (self.insts[i] for i in span):
                b.at(inst.loc)
                if inst.op == "div" and inst.operands[1] == x and self._never_tested(inst):
                    _, quotient = self._corrected(self.rewriter(inst.operands[0]), divisor, reciprocal)
                    self.rewriter.mapping[inst.result] = quotient
                else:
                    self.rewriter.copy(inst)
            b.else_()
            for i in span:
                b.at(self.insts[i].loc)
                self.rewriter.copy(self.insts[i])
        return span.stop - 1

    def _corrected(self, dividend: Operand, divisor: Operand, reciprocal: Value) -> tuple[Value, Value]:
        """A quotient by a reciprocal, as it is at first and corrected."""
        b = self.b
        first = b.emit("mul", dividend, reciprocal)
        rest = b.emit("fma", b.emit("neg", first), divisor, dividend)
        return first, b.emit("fma", rest, reciprocal, first)

    def _never_tested(self, division: Inst) -> bool:
        """Whether a quotient is right wherever its divisor is in the range."""
        return bool(division.attr("part")) and self._small_vanish(division)

    def _behind(self, at: int) -> None:
        """The reciprocals of what is made at a position, -1 for parameters and constants; NaN for divisors outside of the range."""
        b = self.b
        for x in (x for x, made in self.divisors.items() if made == at):
            divisor = self.rewriter(x)
            size = b.emit("abs", divisor)
            usual = b.emit("and", b.emit("ge", size, DIVISORS[0]), b.emit("le", size, DIVISORS[1]))
            self.reciprocals[x] = b.emit("select", usual, b.emit("div", Const(1.0, F32), divisor), Const(NAN, F32))

    def _quotients(self, at: int, division: int) -> Buffer:
        """An array with the quotients of all iterations of the loop."""
        b, inst, loop = self.b, self.insts[division], self.insts[at]
        count, divisor = loop.operands[1], self.rewriter(inst.operands[1])
        reciprocal = self.reciprocals[inst.operands[1]]
        array = b.declare("local", "div", F32, (count,))
        sizes = None if inst.attr("part") else b.declare("cell", "sizes", F32)
        if sizes:
            b.emit("store", sizes, -0.0)
        fine = None if self._small_vanish(inst) else b.declare("cell", "fine", BOOL)
        if fine:
            b.emit("store", fine, True)
        with b.loop(*loop.operands, kind="unroll", name=loop.result.name) as index, self._let_in(at, division, index):
            first, quotient = self._corrected(self._again(at, division, index), divisor, reciprocal)
            b.emit("store", array, index, quotient)
            size = b.emit("abs", first) if sizes or fine else None
            if sizes:
                b.emit("store", sizes, b.emit("add", b.emit("load", sizes), size))
            if fine:
                b.emit("store", fine, b.emit("and", b.emit("load", fine), b.emit("ge", size, QUOTIENTS[0])))
        tests = [b.emit("le", b.emit("load", sizes), QUOTIENTS[1])] if sizes else []
        tests += [b.emit("load", fine)] if fine else []
        usual = b.emit("and", *tests) if len(tests) == 2 else tests[0] if tests else b.emit("eq", reciprocal, reciprocal)
        with b.if_(b.emit("not", usual)), b.loop(*loop.operands, kind="unroll", name=loop.result.name) as index:
            with self._let_in(at, division, index):
                b.emit("store", array, index, b.emit("div", self._again(at, division, index), divisor))
        return array

    def _let_in(self, at: int, division: int, index: Value) -> AbstractContextManager:
        """A region for what the loop does where it divides, at one iteration."""
        around = self.regions.parent[division]
        return nullcontext() if around == at else self.b.if_(self._value(at, self.insts[around].operands[0], index))

    def _small_vanish(self, division: Inst) -> bool:
        """Whether of quotients below the range nothing remains but a sign, which is right."""
        users = [self.insts[i] for i in self.uses.get(division.result.name, ())]
        return all(x.op == "cast" and x.result.dtype is F16 for x in users) and self._unsigned(division.operands[0])

    def _unsigned(self, x: Operand) -> bool:
        """Whether a value has the sign of +0, or is NaN, by the instruction that makes it, or those that fill the array it is from."""
        made = self._maker(x)
        if made is None or made.op != "load":
            return made is not None and made.op in UNSIGNED
        array = made.operands[0]
        users = [self.insts[i] for i in self.uses[array.name]]
        fills = [x for x in users if any("w" in a.mode and a.buffer == array for a in accesses(x))]
        makers = [self._maker(x.operands[-1]) if x.op == "store" else None for x in fills]
        return array.space == "local" and all(x is not None and x.op in UNSIGNED for x in makers)

    def _maker(self, x: Operand) -> Inst | None:
        return self.insts[self.made[x.name]] if type(x) is Value and x.name in self.made else None

    def _again(self, at: int, division: int, index: Value) -> Operand:
        """A dividend at one iteration, computed here."""
        return self._value(at, self.insts[division].operands[0], index)

    def _value(self, at: int, x: Operand, index: Value) -> Operand:
        """A value of a loop at one iteration, computed here."""
        inner = self.rewriter.inside({self.insts[at].result: index})
        for i in slice_of(self.insts, self.regions, at, [x]):
            if i != at:
                inner.copy(self.insts[i])
        return inner(x)


def share(kernel: Kernel, context: Context) -> Kernel:
    state = _Share(kernel) if kernel.attr("fp") != "fast" else None
    if state is None or not state.loops:
        return kernel
    said = dict.fromkeys((kernel.insts[i].loc, kernel.insts[i].operands[1]) for found in state.loops.values() for i in found)
    made = {inst.result: inst for inst in kernel.insts if inst.op == "load"}
    twice = {x for _, x in state.twice.values()}
    for loc, x in said:
        name = made[x].operands[0].name if x in made else x.name if type(x) is Value else str(x.value)
        by = "one value" if name.isdecimal() else f"`{source_name(name)}`"
        alone = ", where it is neither huge nor tiny; no quotient is tested" if x in twice else ""
        context.applied(f"divisions by {by} multiply by its reciprocal, corrected to the same bits{alone}", kernel.name, loc)
    return replace(kernel, insts=state.run())


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels(share(kernel, context) for kernel in plan.kernels)


SHARE_RECIPROCALS = Pass("share-reciprocals", run, "multiply by one reciprocal where several elements have one divisor", needs=("thread",))
