"""infer-vector-widths: several elements in one access, wherever they follow one another and lie in the right place.

Before: stage=thread; every access is one element. A loop marked `deal` deals the elements of a range out to lanes, one by one.
After:  in loops of a few iterations, `move` takes elements to or from a `local` array, up to 16 bytes at once. Where they lie at
        multiples of that if only arrays are aligned and dimensions divisible, that is one condition, tested at the top; where it does
        not hold, or could not, each `move` looks at its address (`anywhere`). No `deal` is left: lanes are dealt several elements in a
        row, from where an array (one that is written, if any is) has a multiple of 16 bytes. The elements before and behind go one by
        one, in a loop that is not unrolled, so as to cost the wide form no registers. Accesses of fewer than 16 bytes have the reason
        (`narrow`), unless it is that of a `move` with `anywhere`, its address.

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

A test that each element is below a limit becomes one test, of all elements of an iteration; in an unrolled loop of more than a few, where
it may fail for some of them only, of the first, and each `move` is told how many there are; of a few, they then go one by one. A division
of each element's index is one division, of the first, that the others go on from; where a divisor is less than the elements of an
iteration, each is divided. What two or more iterations in a row read, as a byte that holds two elements, is loaded once for all of them.
Arrays of one launch are different memory, so a load may come before a store to another array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vxc.analysis.vector_width import vector_widths
from vxc.analysis.wide_loop import Widths
from vxc.analysis.wrapping import NEAR
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import LOOPS, Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.infer_vector_widths_text import say
from vxc.passes.joined_loads import joined
from vxc.passes.why_narrow import marked
from vxc.passes.widen_loop import LoopWriter, every


class _Widen:
    """Rewrites one kernel."""

    def __init__(self, kernel: Kernel, found: Widths):
        self.insts, self.found = kernel.insts, found
        self.parameters = {p.name: p for p in kernel.params}
        self.regions = Regions.of(kernel.insts)
        self.b = Builder(names(kernel.params))
        self.rewriter = Rewriter(self.b)
        self.some: Value | None = None
        self.enough: Value | None = None

    def run(self) -> tuple[Inst, ...]:
        least = {self.parameters[name]: n for name, n in self.found.least.items()}
        self.some = every(self.b, [*(self.b.emit("ge", by, 1) for by in least), *self._near()])
        self.enough = every(self.b, [self.b.emit("ge", by, n) for by, n in least.items() if n > 1])
        wide = every(self.b, [*self._placed(), self.some, self.enough]) if self.found.two_forms else None
        plain = [at for at, loop in self.found.loops.items() if not loop.dealt] if wide else []
        doubled = {both.start: both for both in sorted((self._span(at) for at in plain), key=len)}
        at = 0
        while at < len(self.insts):
            both = doubled.get(at)
            if both is None:
                at = self._copy(at, wide is None)
                continue
            with self.b.if_(wide):
                self._range(both, True)
                self.b.else_()
                self._range(both, False)
            at = both.stop
        return tuple(self.b.insts)

    def _placed(self) -> Iterator[Value]:
        """What the wide form of loops counts on."""
        for name, size in self.found.aligned.items():
            yield self.b.emit("aligned", self.parameters[name], bytes=size)
        for name, by in self.found.divides.items():
            yield self.b.emit("eq", self.b.emit("mod", self.parameters[name], by), 0)

    def _near(self) -> Iterator[Value]:
        """That sums do not wrap."""
        for name in self.found.near:
            yield self.b.emit("ge", self.parameters[name], -NEAR)
            yield self.b.emit("le", self.parameters[name], NEAR)

    def _range(self, positions: range, placed: bool) -> None:
        at = positions.start
        while at < positions.stop:
            at = self._copy(at, placed)

    def _copy(self, at: int, placed: bool) -> int:
        """Copy an instruction, or write a whole loop; gives the position behind it. Where the tests fail, loops that go round are not
        unrolled, so as to cost the other form no registers.
        """
        inst, loop = self.insts[at], self.found.loops.get(at)
        if loop is None or not placed and loop.otherwise is None:
            self.b.at(inst.loc)
            if self.found.two_forms and not placed and inst.attr("unroll"):
                inst = inst.with_attrs(unroll=1)
            self.rewriter.copy(inst.with_attrs(deal=None) if inst.attr("deal") else inst)
            return at + 1
        known = placed and self.found.two_forms and not loop.dealt
        tests = (None, None) if known else (self.some, self.enough)
        LoopWriter(self.b, self.regions, self.rewriter, loop, placed, *tests).write()
        return self.regions.end[at] + 1

    def _span(self, at: int) -> range:
        """What there are two forms of, for the loop at a position: the loops around it, or all from the declaration of an array that they
        fill. Elements of less than 4 bytes share registers, but only where no branch joins them.
        """
        regions = self.regions
        first = next(p for p in reversed([at, *regions.parents(at)]) if self.insts[p].op in LOOPS)
        inside = range(first, regions.end[first] + 1)
        filled = (self.insts[i].operands[0] for i in inside if self.insts[i].op == "store")
        narrow = {x.name for x in filled if x.space == "local" and x.dtype.bytes < 4}
        places = [i for i in range(first) if self.insts[i].op == "local" and self.insts[i].result.name in narrow]
        if not places:
            return inside
        scope = regions.parent[places[0]]
        if scope < 0:
            return range(places[0], len(self.insts))
        arm = regions.other[scope]
        return range(places[0], arm if places[0] < arm else regions.end[scope])


def run(plan: Plan, context: Context) -> Plan:
    kernels, shares = [], plan.shares_arguments
    for kernel in plan.kernels:
        found = vector_widths(kernel, kernel.name not in shares)
        say(kernel, found, context)
        deals = found.loops or any(inst.attr("deal") for inst in kernel.insts if inst.op == "loop")
        kernel = marked(kernel, found)
        kernel = replace(kernel, insts=_Widen(kernel, found).run()) if deals else kernel
        kernels.append(joined(kernel, context))
    return plan.with_kernels(kernels)


INFER_VECTOR_WIDTHS = Pass("infer-vector-widths", run, "several elements in one access", needs=("thread",))
