"""What runs over a kept row whose lanes hold it as it lies in memory (part of lower-to-threads): see `vxc.analysis.kept_lines`.

A row begins `past` elements behind a multiple of 16 bytes. What is number q of the elements from that multiple on is element q - `past` of
the row, and q is what is dealt to lanes, so each of their vectors is one of memory. Of the first and the last of them a lane may have a
part, or nothing. A reduction's partial results below `past` are those of the lane before, to which they are handed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vxc.analysis.kept_lines import KeptRow, kept_row
from vxc.analysis.thread_loop import slice_of
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Kernel, Scalar, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.passes.accumulate import kind_of
from vxc.record import record, state
from vxc.target import VECTOR

Body = Callable[[Scalar, tuple[Scalar, ...]], None]  # receives an element of the row and the digits of its slot, the highest first


@record
class LinedRow:
    """A row of which this lane holds its vectors from a multiple of 16 bytes on, which lies `past` elements in front of it."""

    row: KeptRow
    past: Scalar

    def own(self, b: Builder, lane: Scalar, body: Body, name: str) -> None:
        """Emit the body for each element of the row that a lane holds."""
        row, v = self.row, self.row.order.v
        first = b.emit("mul", lane, v)

        def step(u: Scalar, within: bool) -> None:
            start = b.emit("sub", b.emit("add", b.emit("mul", u, v * row.order.lanes), first), self.past)
            with b.loop(0, v, kind="unroll", name="v") as w:
                e = b.emit("add", start, w, name=name)
                if within:
                    body(e, (u, w))
                    return
                with b.if_(b.emit("and", b.emit("ge", e, 0), b.emit("lt", e, row.length))):
                    body(e, (u, w))

        step(Const(0), within=False)
        if row.whole > 1:
            with b.loop(1, row.whole, kind=kind_of(row.whole * v), name="slot") as u:
                step(u, within=True)
        for u in range(row.whole, row.steps):
            step(Const(u), within=False)


@state
class LinedRows:
    """The row that a kernel keeps so, if there is one, found when the first sweep over it is lowered. `insts` are the kernel's, `sweeps`
    the indices of what runs over it.
    """

    row: KeptRow | None
    insts: Sequence[Inst]
    sweeps: frozenset[Value]
    found: LinedRow | None = None

    @classmethod
    def of(cls, kernel: Kernel, say: Callable[[str, Inst], None]) -> LinedRows:
        """`say` is given a remark on the row, and an access to the array whose vectors lanes hold."""
        row = kept_row(kernel)
        if row is None:
            return cls(None, kernel.insts, frozenset())
        access = kernel.insts[row.access]
        name = access.operands[0].name
        say(f"lanes keep aligned vectors of `{name}`, wherever a row begins, and hand over partial results where it ends", access)
        return cls(row, kernel.insts, frozenset(kernel.insts[at].result for at in row.sweeps))

    def stretched(self, kernel: Kernel) -> Kernel:
        """The kernel with room for the elements of the first vector in front of the row, by which places are counted."""
        if self.row is None:
            return kernel
        length = Const(self.row.stretched)

        def wider(inst: Inst) -> Inst:
            if inst.op == "fragment":
                return replace(inst, result=replace(inst.result, shape=(length,)))
            if inst.result in self.sweeps:
                return replace(inst, operands=(inst.operands[0], length, *inst.operands[2:]))
            return inst

        tiles = {inst.result: wider(inst).result for inst in kernel.insts if inst.op == "fragment"}
        insts = (replace(x, operands=tuple(tiles.get(o, o) for o in x.operands)) for x in map(wider, kernel.insts))
        return replace(kernel, insts=tuple(insts))

    def over(self, b: Builder, index: Value, rewriter: Rewriter) -> LinedRow | None:
        """The row that the sweep of this index runs over; None where lanes hold elements as they are dealt."""
        if index not in self.sweeps:
            return None
        if self.found is None:
            self.found = LinedRow(self.row, self._past(b, rewriter))
        return self.found

    def _past(self, b: Builder, rewriter: Rewriter) -> Scalar:
        home, access, v = self.row.home, self.insts[self.row.access], self.row.order.v
        buffer, indices = access.operands[0], accesses(access)[0].box
        inner = rewriter.inside({self.insts[home].result: Const(0)})
        for i in slice_of(self.insts, Regions.of(self.insts), home, indices):
            if i != home:
                inner.copy(self.insts[i])
        start = b.linear(inner(buffer), [inner(x) for x in indices], inner)
        if buffer.align != VECTOR:
            start = b.emit("sub", 0, b.emit("ahead", inner(buffer), start, bytes=VECTOR))
        return b.emit("mod", start, v, name="past")


def parts_of_sweep(body: Sequence[Inst]) -> list[Sequence[Inst]]:
    """What a sweep does, in parts: each array that it only copies by itself, for whole vectors of one may be where others have a part."""
    stores = [inst for inst in body if inst.op == "store" and inst.operands[0].space == "local"]
    if any(not OPS[inst.op].pure and inst.op != "load" and inst not in stores for inst in body):
        return [body]
    made = {inst.result: inst for inst in body}
    parts = []
    for store in stores:
        work, needed = [store], set()
        while work:
            inst = work.pop()
            needed.add(inst)
            work += [made[x] for x in inst.operands if x in made]
        parts.append([inst for inst in body if inst in needed])
    return parts
