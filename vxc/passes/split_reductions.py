"""split-reductions: a reduction whose order has several parts becomes two launches.

Before: stage=tile, one nest to a kernel; a `reduce` in row scope carries order (V, chunk, lanes, parts > 1).
After:  a launch runs each part of each row as an iteration of its own and leaves the partial results in a workspace of shape
        [extents of the nest.., parts]; the kernel folds them where the reduction stood. The same bits as one launch.

    %j = reduce @s, %N {.., order=[2, 1, 4, 3]}         %p = loop 0, 3 {.., kind="parallel"}
      %0: f32 = load @x, %i, %j                           %j = reduce @s, %6 {.., order=[2, 1, 4, 1]}
      contribute %0                               ->      store @parts1.k, %i, %p, %11
    end %j                                              ..
                                                        %0: f32 = load @parts1.k, %i, %p

Where the elements depend on what the row did before (memory that this kernel writes, earlier reductions of one part), the result is an
index, or a block of a `grid` reduces, the reduction stays whole; lower-to-threads then runs its parts one after another.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Scalar, Value
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.accumulate import Accumulator, Slots, fold_halves
from vxc.passes.lower_reduce import accumulator_of
from vxc.passes.nest import Nest, nest_of
from vxc.semantics import Order


def run(plan: Plan, context: Context) -> Plan:
    entries, kernels = Builder(names(plan.params)), []
    rewriter, taken = Rewriter(entries), {k.name for k in plan.kernels}
    for entry in plan.entries:
        if entry.op != "launch":
            rewriter.copy(entry)
            continue
        kernel = plan.kernel(entry.attr("kernel"))
        numbers = (n for n in count(1) if _parts_name(kernel, n) not in taken)
        lookup = {p: rewriter(x) for p, x in zip(kernel.params, entry.operands[1:])}
        while True:
            found = _splittable(kernel, context)
            if found is None:
                break
            parts, kernel = _split(kernel, *found, next(numbers), context)
            space = parts.params[-1]
            lookup[space] = _workspace(entries, space, lookup)
            kernels.append(parts)
            entries.emit("launch", 1, *(lookup[p] for p in parts.params), kernel=parts.name)
        kernels.append(kernel)
        entries.at(entry.loc).emit("launch", 1, *(lookup[p] for p in kernel.params), kernel=kernel.name)
    return replace(plan, entries=tuple(entries.insts), kernels=tuple(kernels))


def _parts_name(kernel: Kernel, number: int) -> str:
    return f"{kernel.name}_parts{number}"


def _workspace(b: Builder, space: Buffer, lookup: dict) -> Buffer:
    shape = [lookup.get(x, x) for x in space.shape]
    return b.declare("workspace", space.name, space.dtype, shape)


def _splittable(kernel: Kernel, context: Context) -> tuple[Nest, int] | None:
    """The first reduction in row scope with several parts that can be a launch of its own, as its position in the nest's body."""
    if not any(inst.op == "reduce" and inst.attr("order")[3] > 1 for inst in kernel.insts):
        return None
    nest = nest_of(kernel)
    regions = Regions.of(nest.body)
    for at in regions.top():
        inst = nest.body[at]
        if inst.op == "reduce" and inst.attr("order")[3] > 1:
            reason = _reason_against(nest, regions, at, kernel)
            if reason is None:
                return nest, at
            if context is not None:
                context.missed(f"{inst.attr('op')} runs its {inst.attr('order')[3]} parts in one launch: {reason}", kernel.name, inst.loc)
    return None


def _reason_against(nest: Nest, regions: Regions, at: int, kernel: Kernel) -> str | None:
    if nest.body[at].attr("op") in ("argmax", "argmin"):
        return "its result is an index"
    if nest.loops[0].attr("threads"):
        return "it is work of one block"
    if any(not _whole(loop, kernel) for loop in nest.loops):
        return "the parallel loops around it do not run from 0 over a dimension"
    written = {a.buffer.name for inst in kernel.insts for a in accesses(inst) if "w" in a.mode and a.buffer.space in ("param", "workspace")}
    for i in _slice(nest, regions, at):
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


def _split(kernel: Kernel, nest: Nest, at: int, number: int, context: Context) -> tuple[Kernel, Kernel]:
    inst = nest.body[at]
    regions = Regions.of(nest.body)
    order = Order(*inst.attr("order"))
    acc = accumulator_of(inst, nest.body[at + 1 : regions.end[at]])
    shape = (*(loop.operands[1] for loop in nest.loops), Const(order.parts))
    space = Buffer(f"parts{number}.{kernel.name}", acc.dtype, shape, "workspace")
    context.applied(f"{inst.attr('op')} in two launches: {order.parts} parts a row, then their fold", kernel.name, inst.loc)
    parts = _parts_kernel(kernel, nest, regions, at, order, acc, space, number)
    return parts, _fold_kernel(kernel, nest, regions, at, order, acc, space)


def _parts_kernel(kernel, nest: Nest, regions: Regions, at: int, order: Order, acc: Accumulator, space: Buffer, number: int) -> Kernel:
    """Every part of every row: the slice that the reduction needs, over the part's elements."""
    b = Builder(names(kernel.params))
    rewriter = Rewriter(b)
    rewriter.copy_all(nest.prologue)
    for loop in nest.loops:
        rewriter.copy(loop)
    with b.at(nest.body[at].loc).loop(0, order.parts, kind="parallel", name="p", independent="parts") as p:
        before = [i for i in _slice(nest, regions, at) if i < at]
        rewriter.copy_all(nest.body[i] for i in before)
        inst = nest.body[at]
        length = rewriter(inst.operands[1])
        base, extent = part_bounds(b, order, length, p)
        cell = rewriter(inst.operands[0])
        whole = (order.v, order.chunk or order.span(length.value) // order.lanes, order.lanes, 1)
        with b.reduce(cell, extent, op=inst.attr("op"), order=whole, name=inst.result.name) as e:
            rewriter.mapping[inst.result] = b.emit("add", base, e)
            rewriter.copy_all(nest.body[at + 1 : regions.end[at]])
        value = b.emit("load", cell)
        if acc.result_if_empty() is not None:  # an empty part joins as the identity
            value = b.emit("select", b.emit("eq", extent, 0), acc.start()[0], value)
        b.emit("store", space, *(rewriter(loop.result) for loop in nest.loops), p, value)
    for loop in reversed(nest.loops):
        b.emit("end", rewriter(loop.result))
    return b.build(_parts_name(kernel, number), (*kernel.params, space), done=kernel.done, attrs=kernel.attrs, source=kernel.source)


def part_bounds(b: Builder, order: Order, length: Scalar, part: Scalar) -> tuple[Scalar, Scalar]:
    """(first element, number of elements) of a part; both computed in `b`."""
    tile = order.v * order.lanes
    span = Const(order.span(length.value)) if isinstance(length, Const) else None
    if span is None:
        span = b.emit("mul", b.emit("ceildiv", b.emit("ceildiv", length, order.parts), tile), tile)
    base = b.emit("mul", part, span)
    return base, b.emit("max", b.emit("min", span, b.emit("sub", length, base)), 0)


def _fold_kernel(kernel: Kernel, nest: Nest, regions: Regions, at: int, order: Order, acc: Accumulator, space: Buffer) -> Kernel:
    """The kernel with the reduction replaced by the fold of its partial results."""
    b = Builder(names((*kernel.params, space)))
    rewriter = Rewriter(b)
    rewriter.copy_all(nest.prologue)
    for loop in nest.loops:
        rewriter.copy(loop)
    rewriter.copy_all(nest.body[:at])
    inst = nest.body[at]
    b.at(inst.loc)
    slots = Slots.declare(b, acc.dtypes, order.parts, "parts")
    with b.loop(0, order.parts, kind="serial", name="p") as p:
        slots.put(b, (b.emit("load", space, *(rewriter(loop.result) for loop in nest.loops), p),), p)
    fold_halves(b, acc, slots, order.parts)
    value: Value | Scalar = slots.get(b)[0]
    if acc.result_if_empty() is not None:
        value = b.emit("select", b.emit("eq", rewriter(inst.operands[1]), 0), acc.result_if_empty(), value)
    b.emit("store", rewriter(inst.operands[0]), value)
    rewriter.copy_all(nest.body[regions.end[at] + 1 :])
    for loop in reversed(nest.loops):
        b.emit("end", rewriter(loop.result))
    return b.build(kernel.name, (*kernel.params, space), done=kernel.done, attrs=kernel.attrs, source=kernel.source)


SPLIT_REDUCTIONS = Pass(
    "split-reductions", run, "run the parts of a reduction in a launch of their own", needs=("tile", "one-nest"), gives=("one-nest",)
)
