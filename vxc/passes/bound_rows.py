"""bound-rows: rows whose length only the call knows have a launch of their own where lanes can keep them.

Before: stage=tile, one nest to a kernel; keep-rows has yet to come, and keeps only rows of which it is known how long they get.
After:  of a kernel whose lanes could keep a row of a parameter's length there are two: `k_kept` for rows of up to SLOTS elements to a
        lane, whose number is a multiple of the V of their order, and `k` for all others. The grid of each is 0 blocks, which is no
        launch, unless the row is its. `most` and `multiple` of the reductions and loops over the row say what they may count on.
        The order stays, but that it has one part, as it has at these lengths.

    launch @k[1](%M, %N, @x, @y)                     %0: bool = le %N, 1024
                                                     %1: i64 = mod %N, 4
                                                     ..
                                                 ->  launch @k_kept[%4](%M, %N, @x, @y)
                                                     ..
    %j = reduce @m, %N {.., order=[4, 4, 32, 0]}     %j = reduce @m, %N {most=1024, multiple=4, .., order=[4, 4, 32, 1]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

from vxc.analysis.sweeps import Extent
from vxc.ir.kernel import Const, Inst, Kernel
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass
from vxc.passes.kept_rows import Rows, rows_of
from vxc.passes.launches import Launched, Site, some_launches
from vxc.passes.nest import is_parallel
from vxc.semantics import Order

SLOTS = 32  # elements that a lane keeps at most: as many registers, or half as many, and code that each shorter row steps over


def run(plan: Plan, context: Context) -> Plan:
    shares = plan.shares_arguments

    def of(site: Site) -> Iterator[Launched]:
        kernel, b = site.kernel, site.b
        reduce = next((inst for inst in kernel.insts if inst.op == "reduce" and _by_call(kernel, inst)), None)
        if reduce is None:
            return
        order = Order(*reduce.attr("order"))
        extent = Extent(reduce.operands[1], SLOTS * order.lanes, order.v)
        bounded = replace(kernel, insts=tuple(_known(kernel, inst, extent) for inst in kernel.insts))
        rows = rows_of(bounded, kernel.name not in shares)
        if rows is None or rows.extent != extent or not rows.candidates():
            return
        if why := _reason_against(order, rows):
            context.missed(f"a row of whatever length is read again by each loop over it: {why}", kernel.name, reduce.loc)
            return
        name = site.name("_kept")
        fits = b.emit("le", site.arguments[extent.size], extent.most)
        if extent.multiple > 1:
            fits = b.emit("and", fits, b.emit("eq", b.emit("mod", site.arguments[extent.size], extent.multiple), 0))
        yield replace(bounded, name=name), b.emit("select", fits, Const(1), 0)
        yield kernel, b.emit("select", fits, Const(0), 1)
        numbers = f"whose number is a multiple of {extent.multiple}, " if extent.multiple > 1 else ""
        text = f"rows of up to {extent.most:,} elements, {numbers}have a launch of their own, {name}, whose lanes can keep them"
        context.applied(text, kernel.name, reduce.loc)

    return some_launches(plan, of)


def _reason_against(order: Order, rows: Rows) -> str:
    """Why lanes could not keep even short rows, if they could not."""
    if order.lanes == 1:
        return "a thread alone runs over it"
    if not order.chunk or order.parts_of(rows.extent.most) > 1 or SLOTS % order.v:
        return f"its order, {order}, is not of a number of partial results that all short rows have"
    if rows.why:
        return rows.why
    return "" if rows.choice()[0] else f"even {rows.extent.most:,} elements would take too many registers of each of {order.lanes} lanes"


def _by_call(kernel: Kernel, reduce: Inst) -> bool:
    """Whether only the call knows anything of the length of a reduction, which is a parameter."""
    return reduce.operands[1] in kernel.params and reduce.attr("most") is None and reduce.attr("least") is None


def _known(kernel: Kernel, inst: Inst, extent: Extent) -> Inst:
    """What runs over rows of an extent, with what is known of it."""
    if inst.op == "reduce" and inst.operands[1] == extent.size and _by_call(kernel, inst):
        order = Order(*inst.attr("order"))
        return inst.with_attrs(**extent.attrs, order=astuple(replace(order, parts=order.parts or 1)))
    if is_parallel(inst) and inst.operands[:2] == (Const(0), extent.size) and inst.operands[2:] in ((), (Const(1),)):
        return inst.with_attrs(**extent.attrs)
    return inst


BOUND_ROWS = Pass(
    "bound-rows", run, "a launch for rows that are short enough to keep", needs=("tile", "one-nest", "fused"), gives=("one-nest",)
)
