"""The moves of one run of elements, all of it or the first of them (part of infer-vector-widths)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from vxc.analysis.wide_loop import Size
from vxc.ir.builder import Builder
from vxc.ir.kernel import Scalar

Move = Callable[..., object]  # move(index in the array of the thread, offset in memory, *part, **attributes of the `move`)


def move_run(b: Builder, size: Size, count: int, move: Move, place: Scalar, upto: Scalar | None) -> None:
    """All `count` elements from the offset `place` on, or so many of them, one at least."""
    width, anywhere, why = size
    how = {"width": width, "anywhere": anywhere, "narrow": why}
    if upto is None and count > 2 * width:
        with b.loop(0, count, width, kind="unroll", name="k") as k:
            move(k, b.emit("add", place, k), **how)
        return
    for k in range(0, count, width):
        at = b.emit("add", place, k) if k else place
        if upto is None:
            move(k, at, **how)
            continue
        with b.if_(b.emit("lt", k, upto)) if k else nullcontext():
            left = b.emit("sub", upto, k) if k else upto
            move(k, at, b.emit("min", left, width) if k + width < count else left, **how)
