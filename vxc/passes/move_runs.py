"""Elements that follow one another, moved between memory and an array of the thread (part of infer-vector-widths)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from vxc.analysis.wide_loop import Run, WideLoop
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Operand, Scalar


def transfer(b: Builder, loop: WideLoop, run: Run, place: Scalar, move: Callable[[Scalar, Scalar, int], object]) -> None:
    """`move(index in the array, in memory, width)` all of a run, as wide as is known to be right or as the address allows."""
    widths = loop.widths(run)
    ahead = b.emit("ahead", run.buffer, place, bytes=run.width * run.buffer.dtype.bytes) if len(widths) > 1 else None
    with ExitStack() as narrower:
        for width in widths:
            if width != widths[-1]:
                fits = b.emit("eq", ahead if width == run.width else b.emit("mod", ahead, width), 0)
                narrower.enter_context(b.if_(fits))
            _pieces(b, loop, place, width, move)
            if width != widths[-1]:
                b.else_()


def _pieces(b: Builder, loop: WideLoop, place: Scalar, width: int, move: Callable[[Scalar, Scalar, int], object]) -> None:
    if loop.count <= 2 * width:
        for k in range(0, loop.count, width):
            move(k, b.emit("add", place, k) if k else place, width)
    else:
        with b.loop(0, loop.count, width, kind="unroll", name="k") as k:
            move(k, b.emit("add", place, k), width)


def linear(b: Builder, buffer: Buffer, indices: list[Operand], lookup: Rewriter) -> Scalar:
    """The offset in memory of an element, `lookup` giving what extents and strides are now."""
    found: Scalar | None = None
    for at, index in enumerate(indices):
        if buffer.strides is not None:
            index = b.emit("mul", index, lookup(buffer.strides[at]))
        elif found is not None:
            found = b.emit("mul", found, lookup(buffer.shape[at]))
        found = index if found is None else b.emit("add", found, index)
    return found
