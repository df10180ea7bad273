"""split-reductions: a reduction whose order has several parts becomes two launches.

Before: stage=tile, one nest to a kernel; a `reduce` in row scope carries order (V, chunk, lanes, parts > 1).
After:  a launch runs each part of each row as an iteration of its own and leaves the partial results in a workspace of shape
        [extents of the nest.., parts]; the kernel folds them where the reduction stood. The same bits as one launch.

    %j = reduce @s, %N {.., order=[2, 1, 4, 3]}         %p = loop 0, 3 {.., kind="parallel"}
      %0: f32 = load @x, %i, %j                           %j = reduce @s, %6 {.., order=[2, 1, 4, 1], usual=8}
      contribute %0                               ->      store @parts1.k, %i, %p, %11
    end %j                                              ..
                                                        %0: f32 = load @parts1.k, %i, %p

Where the elements depend on what the row did before (memory that this kernel writes, earlier reductions of one part), the result is an
index, or a block of a `grid` reduces, the reduction stays whole; lower-to-threads then runs its parts one after another.
"""

from __future__ import annotations

from collections.abc import Iterator

from vxc.dtypes import I64
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel, Scalar, Value
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.accumulate import Accumulator
from vxc.passes.launches import ONCE, Launched, Site, each_launch
from vxc.passes.lower_reduce import accumulator_of, bounds_of, fold_order, parts_of, span_of
from vxc.passes.nest import Nest, nest_of
from vxc.record import record
from vxc.semantics import Order

_FOLDS = {"dot": "sum", "absmax": "max"}  # what joins partial results of these


def run(plan: Plan, context: Context) -> Plan:
    def of(site: Site) -> Iterator[Launched]:
        kernel = site.kernel
        while found := _splittable(kernel, context):
            split = _Split.of(kernel, *found, site.name("_parts", first=1))
            split.bind(site)
            text = f"{split.inst.attr('op')} in two launches: {_count(split.inst)} parts a row, then their fold"
            context.applied(text, kernel.name, split.inst.loc)
            yield split.parts_kernel(), ONCE
            kernel = split.fold_kernel()
        yield kernel, ONCE

    return each_launch(plan, of)


def _splittable(kernel: Kernel, context: Context) -> tuple[Nest, int] | None:
    """The first reduction in row scope with several parts that can be a launch of its own, as its position in the nest's body."""
    if not any(inst.op == "reduce" and _several(inst) for inst in kernel.insts):
        return None
    nest = nest_of(kernel)
    for at in Regions.of(nest.body).top():
        inst = nest.body[at]
        if inst.op == "reduce" and _several(inst):
            reason = reason_against(kernel, nest, at)
            if reason is None:
                return nest, at
            if context is not None:
                context.missed(f"the {_count(inst)} parts of {inst.attr('op')} stay in one launch: {reason}", kernel.name, inst.loc)
    return None


def _several(reduce: Inst) -> bool:
    """Whether a reduction has several parts, whatever its length."""
    return Order(*reduce.attr("order")).parts_of(bounds_of(reduce)[0]) > 1


def _count(reduce: Inst) -> str:
    order, least = Order(*reduce.attr("order")), bounds_of(reduce)[0]
    few, many = order.parts_of(least), order.most_parts
    return f"{few}" if order.parts or isinstance(reduce.operands[1], Const) else f"{few} to {many}"


def reason_against(kernel: Kernel, nest: Nest, at: int) -> str | None:
    """Why the reduction at a position of the nest's body must be in one launch, or None."""
    if nest.body[at].attr("op") in ("argmax", "argmin"):
        return "its result is an index"
    if nest.loops[0].attr("threads"):
        return "it is work of one block"
    if any(not _whole(loop, kernel) for loop in nest.loops):
        return "the parallel loops around it do not run from 0 over a dimension"
    written = {a.buffer.name for inst in kernel.insts for a in accesses(inst) if "w" in a.mode and a.buffer.space in GLOBAL}
    for i in _slice(nest, Regions.of(nest.body), at):
        inst = nest.body[i]
        if inst.op in ("print", "assert"):
            return "it prints or asserts"
        for access in accesses(inst):
            if access.buffer.name in written:
                return f"it reads {access.buffer}, which the kernel writes"
    return None


def _whole(loop: Inst, kernel: Kernel) -> bool:
    start, stop, *step = loop.operands
    fixed = isinstance(stop, Const) or stop in kernel.params
    return start == Const(0) and fixed and step in ([], [Const(1)])


def _slice(nest: Nest, regions: Regions, at: int) -> list[int]:
    """Positions in the body that the reduction at `at` needs, itself with its region included, whole regions at a time."""
    needed = {x.name for i in range(at, regions.end[at] + 1) for x in nest.body[i].operands if not isinstance(x, Const)}
    kept: list[int] = list(range(at, regions.end[at] + 1))
    tops = [i for i in regions.top() if i < at]
    for i in reversed(tops):
        span = range(i, regions.end[i] + 1)
        insts = [nest.body[k] for k in span]
        makes = {k.result.name for k in insts if k.result is not None}
        makes |= {a.buffer.name for k in insts for a in accesses(k) if "w" in a.mode}
        makes |= {k.operands[0].name for k in insts if k.op in ("reduce", "extern")}
        if makes & needed:
            needed |= {x.name for k in insts for x in k.operands if not isinstance(x, Const)}
            kept += span
    return sorted(kept)


@record
class _Split:
    """One reduction of a kernel on its way to two launches. `parts` is how many a row has: a constant, or a parameter of both kernels."""

    kernel: Kernel
    nest: Nest
    at: int
    name: str  # of the kernel for the parts
    parts: Const | Value
    space: Buffer

    @classmethod
    def of(cls, kernel: Kernel, nest: Nest, at: int, name: str) -> _Split:
        order, length = Order(*nest.body[at].attr("order")), nest.body[at].operands[1]
        parts: Const | Value = Value(Builder(names(kernel.params, kernel.insts)).fresh("parts"), I64)
        if order.parts or isinstance(length, Const):
            parts = Const(order.parts_of(length.value if isinstance(length, Const) else 0))
        acc = accumulator_of(nest.body[at], nest.body[at + 1 : Regions.of(nest.body).end[at]])
        shape = (*(loop.operands[1] for loop in nest.loops), parts)
        space = Buffer(f"{name.removeprefix(kernel.name + '_')}.{kernel.name}", acc.dtype, shape, "workspace")
        return cls(kernel, nest, at, name, parts, space)

    @property
    def inst(self) -> Inst:
        return self.nest.body[self.at]

    @property
    def order(self) -> Order:
        return Order(*self.inst.attr("order"))

    @property
    def end(self) -> int:
        return Regions.of(self.nest.body).end[self.at]

    @property
    def acc(self) -> Accumulator:
        return accumulator_of(self.inst, self.nest.body[self.at + 1 : self.end])

    @property
    def params(self) -> tuple[Value | Buffer, ...]:
        """Of both kernels."""
        return (*self.kernel.params, *([self.parts] if isinstance(self.parts, Value) else []), self.space)

    def bind(self, site: Site) -> None:
        """Have the launch pass the new parameters."""
        if isinstance(self.parts, Value):
            length = site.arguments[self.inst.operands[1]]
            site.arguments[self.parts] = parts_of(site.b, self.order, length, bounds_of(self.inst)[0])
        site.workspace(self.space)

    def parts_kernel(self) -> Kernel:
        """Every part of every row: the slice that the reduction needs, over the part's elements."""
        b, nest, order, inst = Builder(names(self.params)), self.nest, self.order, self.inst
        rewriter = self._open(b)
        with b.at(inst.loc).loop(0, self.parts, kind="parallel", name="p", independent="parts") as p:
            before = [i for i in _slice(nest, Regions.of(nest.body), self.at) if i < self.at]
            rewriter.copy_all(nest.body[i] for i in before)
            length = rewriter(inst.operands[1])
            span = span_of(b, order, length, bounds_of(inst)[0])
            base, extent = part_bounds(b, length, span, self.parts, p)
            cell = rewriter(inst.operands[0])
            whole = (order.v, order.chunk or order.span(length.value) // order.lanes, order.lanes, 1)
            usual = None if isinstance(extent, Const) else order.span(max(bounds_of(inst)[0], 1))
            with b.reduce(cell, extent, op=inst.attr("op"), order=whole, name=inst.result.name, usual=usual) as e:
                rewriter.mapping[inst.result] = b.emit("add", base, e)
                rewriter.copy_all(nest.body[self.at + 1 : self.end])
            value = b.emit("load", cell)
            if self.acc.result_if_empty() is not None:  # an empty part joins as the identity
                value = b.emit("select", b.emit("eq", extent, 0), self.acc.start()[0], value)
            b.emit("store", self.space, *(rewriter(loop.result) for loop in nest.loops), p, value)
        return self._close(b, rewriter, self.name)

    def fold_kernel(self) -> Kernel:
        """The kernel with the reduction replaced by that of its partial results, in an order of the same bits."""
        b, inst = Builder(names(self.params)), self.inst
        rewriter = self._open(b)
        rewriter.copy_all(self.nest.body[: self.at])
        cell, least = b.at(inst.loc).declare("cell", "parts", self.acc.dtype), bounds_of(inst)[0]
        op, many = _FOLDS.get(inst.attr("op"), inst.attr("op")), isinstance(self.parts, Value)
        most = self.order.most_parts if many else self.parts.value
        with b.reduce(cell, self.parts, name="p", op=op, order=fold_order(most), most=most if many else None) as p:
            b.emit("contribute", b.emit("load", self.space, *(rewriter(loop.result) for loop in self.nest.loops), p))
        value = b.emit("load", cell)
        if self.acc.result_if_empty() is not None and not least:
            value = b.emit("select", b.emit("eq", rewriter(inst.operands[1]), 0), self.acc.result_if_empty(), value)
        b.emit("store", rewriter(inst.operands[0]), value)
        rewriter.copy_all(self.nest.body[self.end + 1 :])
        return self._close(b, rewriter, self.kernel.name)

    def _open(self, b: Builder) -> Rewriter:
        rewriter = Rewriter(b)
        rewriter.copy_all(self.nest.prologue)
        rewriter.copy_all(self.nest.loops)
        return rewriter

    def _close(self, b: Builder, rewriter: Rewriter, name: str) -> Kernel:
        for loop in reversed(self.nest.loops):
            b.emit("end", rewriter(loop.result))
        return b.build(name, self.params, done=self.kernel.done, attrs=self.kernel.attrs, source=self.kernel.source)


def part_bounds(b: Builder, length: Scalar, span: Scalar, parts: Scalar, part: Scalar) -> tuple[Scalar, Scalar]:
    """(first element, number of elements) of a part, computed in `b`."""
    base = b.emit("mul", part, span)
    if all(isinstance(x, Const) for x in (length, span, parts)) and length.value == span.value * parts.value:
        return base, span
    return base, b.emit("max", b.emit("min", span, b.emit("sub", length, base)), 0)


SPLIT_REDUCTIONS = Pass(
    "split-reductions", run, "run the parts of a reduction in a launch of their own", needs=("tile", "one-nest"), gives=("one-nest",)
)
