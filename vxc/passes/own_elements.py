"""The elements of a tile that a lane holds in registers, or of a loop that one thread runs (part of lower-to-threads)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from math import gcd

from vxc.analysis.sweeps import Extent
from vxc.ir.builder import Builder
from vxc.ir.kernel import Const, Inst, Scalar, Value
from vxc.passes.accumulate import kind_of

IN_A_ROW = 16  # elements that the only lane of a group takes in a row at most


def own_elements(
    b: Builder, extent: Extent, deal: tuple[int, int], lane: Scalar, body: Callable[[Scalar, Scalar], None], name: str
) -> None:
    """Emit `body(element, slot)` for each element that a lane holds of a tile of `extent.most`, dealt `deal` = (v in a row, lanes).

    Slots are counted by unrolled loops, and only those that may lie behind the last element are tested, v elements at once where v
    divides their number.
    """
    v, lanes = deal if deal[1] > 1 else (gcd(extent.multiple, IN_A_ROW), 1)
    slots = -(-extent.most // (v * lanes))
    whole = extent.most // (v * lanes) if type(extent.size) is Const else 0
    kind = kind_of(slots * v)

    def step(u: Scalar, tested: bool) -> None:
        first = b.emit("add", b.emit("mul", u, lanes), lane)
        first = b.emit("mul", first, v) if v > 1 else first
        at_once = tested and extent.multiple % v == 0
        with b.if_(b.emit("lt", first, extent.size)) if at_once else nullcontext():
            if v == 1:
                body(first, u)
                return
            with b.loop(0, v, kind="unroll", name="v") as w:
                e = b.emit("add", first, w, name=name)
                with b.if_(b.emit("lt", e, extent.size)) if tested and not at_once else nullcontext():
                    body(e, b.emit("add", b.emit("mul", u, v), w))

    if whole:
        with b.loop(0, whole, kind=kind, name="slot") as u:
            step(u, tested=False)
    rest = slots - whole
    if rest > 1:
        with b.loop(whole, slots, kind=kind, name="slot") as u:
            step(u, tested=True)
    elif rest:
        step(Const(whole), tested=True)


@contextmanager
def own_vectors(b: Builder, loop: Inst) -> Iterator[Value]:
    """A loop from 0 that one thread runs, `vector` iterations in a row at a time, which divide their number; gives the index."""
    vector = loop.attr("vector")
    with b.loop(0, loop.operands[1], vector, kind="serial", name="o") as first, b.loop(0, vector, kind="unroll", name="v") as v:
        yield b.emit("add", first, v, name=loop.result.name)
