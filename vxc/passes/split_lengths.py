"""split-lengths: a reduction of rows whose length only the call knows is a launch for each range of lengths.

Before: stage=tile, one nest to a kernel.
After:  of a kernel that is nothing but one reduction (`plain_rows`) over a parameter, there are up to four: `k_short` for rows that
        give no lane of half a warp more than a vector, so that two of them share a warp; `k_long` for rows that the length cuts into parts,
        which split-reductions then gives launches of their own; `k_wide` for others that give each lane many vectors, where they may
        be those in which a row lies (`rows_anywhere`); `k` for all others. The grid of each is 0 blocks, which is no
        launch, unless the row is its. `least` and `most` of the `reduce` say what it may count on. The order stays, but that half of
        the lanes, which a short row leaves idle, are not in it.

    launch @k[1](%M, %N, @x, @y)                        %0: bool = le %N, 64
                                                        %1: i64 = select %0, 1, 0
                                                    ->  launch @k_short[%1](%M, %N, @x, @y)
                                                        ..
    %j = reduce @s, %N {.., order=[4, 4, 32, 0]}        %j = reduce @s, %N {most=64, .., order=[4, 4, 16, 1]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

from vxc.analysis.rows_anywhere import begin_anywhere
from vxc.ir.builder import Builder
from vxc.ir.kernel import Const, Inst, Kernel, Scalar, Value
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass
from vxc.passes.launches import Launched, Site, some_launches
from vxc.passes.nest import nest_of
from vxc.passes.plain_rows import plain_row
from vxc.passes.split_reductions import reason_against
from vxc.record import record
from vxc.semantics import PARTS, Order
from vxc.target import WARP

MANY = 32  # vectors of a row to each lane, of which several are on their way at a time


@record
class _Range:
    """Lengths from `least` (0: any) to `most` (None: any), the suffix of their kernel's name, and the order there."""

    suffix: str
    least: int
    most: int | None
    order: Order


def run(plan: Plan, context: Context) -> Plan:
    def of(site: Site) -> Iterator[Launched]:
        found = _ranges(site.kernel)
        if found is None:
            return
        reduce, ranges = found
        for part in ranges:
            name = site.name(part.suffix)
            yield _narrowed(site.kernel, reduce, part, name), _blocks(site.b, site.arguments[reduce.operands[1]], part)
            context.applied(f"{reduce.attr('op')} of rows of {_words(part)}: a launch of its own, {name}", site.kernel.name, reduce.loc)

    return some_launches(plan, of)


def _ranges(kernel: Kernel) -> tuple[Inst, list[_Range]] | None:
    """The reduction of a kernel, and the ranges of lengths to tell apart; None where there is one range."""
    nest = nest_of(kernel)
    row = plain_row(nest.body)
    if row is None or row.reduce.operands[1] not in kernel.params or row.reduce.attr("most"):
        return None
    order = Order(*row.reduce.attr("order"))
    half, longest = order.v * order.lanes // 2, None
    if order.parts == 0 and reason_against(kernel, nest, nest.body.index(row.reduce)) is None:
        longest = PARTS[1][0] - 1
    found = [_Range("_short", 0, half, replace(order, lanes=order.lanes // 2, parts=1))] if order.lanes == WARP else []
    wide = MANY * order.v * order.lanes
    if longest is not None and half < wide <= longest and any(kernel.insts[at] is row.reduce for at in begin_anywhere(kernel)):
        found.append(_Range("", half + 1 if found else 0, wide - 1, order))
        found.append(_Range("_wide", wide, longest, order))
    else:
        found.append(_Range("", half + 1 if found else 0, longest, order))
    if longest is not None:
        found.append(_Range("_long", longest + 1, None, order))
    return (row.reduce, found) if len(found) > 1 else None


def _narrowed(kernel: Kernel, reduce: Inst, part: _Range, name: str) -> Kernel:
    known = reduce.with_attrs(least=part.least or None, most=part.most, order=astuple(part.order))
    return replace(kernel, name=name, insts=tuple(known if inst is reduce else inst for inst in kernel.insts))


def _blocks(b: Builder, length: Value, part: _Range) -> Scalar:
    """1 where the length is in the range, else 0."""
    tests = [b.emit("ge", length, part.least)] if part.least else []
    tests += [b.emit("le", length, part.most)] if part.most is not None else []
    return b.emit("select", tests[0] if len(tests) == 1 else b.emit("and", *tests), Const(1), 0)


def _words(part: _Range) -> str:
    if part.most is None:
        return f"{part.least:,} elements or more"
    return f"{part.least:,} to {part.most:,} elements" if part.least else f"up to {part.most:,} elements"


SPLIT_LENGTHS = Pass(
    "split-lengths", run, "a launch for each range of row lengths", needs=("tile", "one-nest"), gives=("one-nest",)
)
