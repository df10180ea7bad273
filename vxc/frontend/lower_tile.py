"""Lowering of arrays and of what moves and multiplies them as a whole: declarations, `copy`, `gemm`.

A `copy` whose extents and steps are constants is one instruction; any other is written as the loops that define it.
"""

from __future__ import annotations

from contextlib import ExitStack

from vxc.frontend import typed
from vxc.frontend.lower_expr import check_slices
from vxc.frontend.lower_state import Handler, Lowering, Steps
from vxc.ir.kernel import Const, Scalar
from vxc.ir.tiles import Tile, copy_elements, nest


def declare(low: Lowering, node: typed.Declare, name: str) -> Steps:
    """The threads of a block share the filling of a tile; a local array is filled by its own thread."""
    array = node.array
    shape = []
    for extent in array.shape:
        shape.append((yield extent))
    low.buffers[array] = buffer = low.out.declare(array.space, array.name, array.dtype, shape, layout=node.layout)
    if node.init is None:
        return
    value = yield node.init
    if array.space != "local":
        with nest(low.out, shape) as indices:
            low.out.emit("store", buffer, *indices, value)
        return
    with ExitStack() as loops:
        indices = [loops.enter_context(low.out.loop(0, extent, kind="serial")) for extent in shape]
        low.out.emit("store", buffer, *indices, value)


def copy(low: Lowering, node: typed.Copy, name: str) -> Steps:
    yield from check_slices(low, node)
    source = yield from _tile(low, node.source)
    target = yield from _tile(low, node.target)
    extents = []
    for extent in node.source.extents:
        extents.append((yield extent))
    pad = yield node.pad
    if not all(isinstance(x, Const) for x in (*extents, *source.steps, *target.steps)):
        copy_elements(low.out, source, target, extents, pad)
        return
    attrs = {"extents": _numbers(extents), "from": source.dims, "to": target.dims}
    attrs |= {f"{side}_steps": _steps(tile) for side, tile in (("from", source), ("to", target))}
    low.out.emit("copy", source.buffer, *source.starts, target.buffer, *target.starts, pad, **attrs)


def _tile(low: Lowering, window: typed.Window) -> Steps:
    starts, steps = [], []
    for start in window.starts:
        starts.append((yield start))
    for step in window.steps:
        steps.append((yield step))
    return Tile(low.buffers[window.array], starts, window.axes, steps)


def _steps(tile: Tile) -> tuple[int, ...] | None:
    """The steps of a tile, None where all are 1."""
    steps = _numbers(tile.steps)
    return None if set(steps) <= {1} else steps


def _numbers(constants: list[Scalar]) -> tuple[int, ...]:
    return tuple(constant.value for constant in constants)


def gemm(low: Lowering, node: typed.Gemm, name: str) -> None:
    tiles = (low.buffers[array] for array in (node.a, node.b, node.acc))
    low.out.emit("gemm", *tiles, trans_a=node.trans_a or None, trans_b=node.trans_b or None)


TILES: dict[type, Handler] = {typed.Declare: declare, typed.Copy: copy, typed.Gemm: gemm}
