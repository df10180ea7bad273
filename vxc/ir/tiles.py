"""Tile instructions in terms of loops: what `copy` and `gemm` mean, for interpreter, proofs and the pass that expands them.

    copy @x, %r, %c, @s, 0, 0, 0.0:f16 {extents=[128, 64], from=[0, 1], to=[0, 1]}

moves a tile: its axis k runs along dimension from[k] of the source and to[k] of the target, from the given starts, with the
given steps. What lies outside the source reads as the pad, what lies outside the target is not stored.

    gemm @a, @b, @acc {trans_a=false, trans_b=true}

adds the matrix product of two tiles to a third, each element by fma in increasing k (integers exactly).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from vxc.dtypes import DType
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Scalar, Value
from vxc.ir.walk import names

TILE_OPS = ("copy", "gemm")
TILE = "tile"  # why iterations over the elements of a tile are independent


def expand(insts: Sequence[Inst], params=()) -> tuple[Inst, ...]:
    """The instructions with every tile instruction written as parallel loops; all others stay as they are."""
    if not any(inst.op in TILE_OPS for inst in insts):
        return tuple(insts)
    b = Builder(names(params, insts))
    for inst in insts:
        b.at(inst.loc)
        if inst.op == "copy":
            expand_copy(b, inst)
        elif inst.op == "gemm":
            expand_gemm(b, inst)
        else:
            b.add(inst)
    return tuple(b.insts)


def copy_operands(inst: Inst) -> tuple[Buffer, tuple[Scalar, ...], Buffer, tuple[Scalar, ...], Scalar]:
    """(source, its starts, target, its starts, pad) of a `copy`."""
    source = inst.operands[0]
    rank = len(source.shape)
    target = inst.operands[1 + rank]
    return source, inst.operands[1 : 1 + rank], target, inst.operands[2 + rank : -1], inst.operands[-1]


def expand_copy(b: Builder, inst: Inst) -> None:
    source, sources, target, targets, pad = copy_operands(inst)
    extents = inst.attr("extents")
    ones = (1,) * len(extents)
    read = Tile(source, sources, inst.attr("from"), inst.attr("from_steps", ones))
    write = Tile(target, targets, inst.attr("to"), inst.attr("to_steps", ones))
    copy_elements(b, read, write, extents, pad)


FAR = 1 << 62  # an index that starts below this does not wrap


class Tile(NamedTuple):
    """Elements of a buffer, from `starts` (one for each dimension) along `dims` (one for each axis) by `steps`, all positive."""

    buffer: Buffer
    starts: Sequence[Scalar]
    dims: Sequence[int]
    steps: Sequence[Scalar | int]


def copy_elements(b: Builder, source: Tile, target: Tile, extents: Sequence[Scalar | int], pad: Scalar) -> None:
    """Parallel loops that copy between tiles of any extents, which need not be constant."""
    extents = [extent if isinstance(literal(extent), int) else _stored(b, target, axis, extent) for axis, extent in enumerate(extents)]
    with nest(b, extents) as indices:
        read, readable = _place(b, source, extents, indices)
        write, writable = _place(b, target, extents, indices)
        with _guard(b, writable):
            b.emit("store", target.buffer, *write, _element(b, source.buffer, read, readable, pad, target.buffer.dtype))


def _stored(b: Builder, target: Tile, axis: int, extent: Scalar) -> Scalar:
    """Of a run-time extent, what is left of the target: it may be any number, and what lies behind the target is not stored."""
    start, step, size = target.starts[target.dims[axis]], target.steps[axis], target.buffer.shape[target.dims[axis]]
    if start == Const(0) and extent == size and literal(step) == 1:
        return extent
    room = size if start == Const(0) else b.emit("sub", size, start)
    return b.emit("min", extent, room if literal(step) == 1 else b.emit("ceildiv", room, step))


def expand_gemm(b: Builder, inst: Inst) -> None:
    a, c, acc = inst.operands
    (rows, columns), depth = acc.shape, a.shape[0 if inst.attr("trans_a") else 1]
    with nest(b, (rows, columns)) as (i, j):
        total = b.declare("cell", "total", acc.dtype)
        b.emit("store", total, b.emit("load", acc, i, j))
        with b.loop(0, depth, kind="serial", name="k") as k:
            x = convert(b, b.emit("load", a, *((k, i) if inst.attr("trans_a") else (i, k))), acc.dtype)
            y = convert(b, b.emit("load", c, *((j, k) if inst.attr("trans_b") else (k, j))), acc.dtype)
            b.emit("store", total, b.emit("fma", x, y, b.emit("load", total)))
        b.emit("store", acc, i, j, b.emit("load", total))


def convert(b: Builder, value: Scalar, dtype: DType) -> Scalar:
    return value if value.dtype is dtype else b.emit("cast", value, dtype=dtype)


@contextmanager
def nest(b: Builder, extents: Iterable[Scalar | int]) -> Iterator[list[Value]]:
    """Parallel loops over a tile, its elements independent of one another by what a tile is."""
    with ExitStack() as open_:
        yield [open_.enter_context(b.loop(0, n, kind="parallel", name=hint, independent=TILE)) for n, hint in zip(extents, "ijklmnop")]


@contextmanager
def _guard(b: Builder, condition: Scalar | None) -> Iterator[None]:
    with ExitStack() as open_:
        if condition is not None:
            open_.enter_context(b.if_(condition))
        yield


def _place(b: Builder, tile: Tile, extents, indices) -> tuple[list[Scalar], Scalar | None]:
    """The element at `indices` of the tile, and whether it lies in the buffer (None: always)."""
    place, within = list(tile.starts), [_inside(start, 1, 1, size) for start, size in zip(tile.starts, tile.buffer.shape)]
    for dim, step, extent, index in zip(tile.dims, map(literal, tile.steps), extents, indices):
        within[dim] = _inside(tile.starts[dim], literal(extent), step, tile.buffer.shape[dim])
        offset = index if step == 1 else b.emit("mul", index, step)
        place[dim] = offset if tile.starts[dim] == Const(0) else b.emit("add", tile.starts[dim], offset)
    inside = None
    for start, index, size, always in zip(tile.starts, place, tile.buffer.shape, within):
        if always:
            continue
        from_start = isinstance(start, Const) and 0 <= start.value < FAR
        for test in ([] if from_start else [b.emit("ge", index, 0)]) + [b.emit("lt", index, size)]:
            inside = test if inside is None else b.emit("and", inside, test)
    return place, inside


def literal(x: Scalar | int) -> Scalar | int:
    """A constant as a Python number."""
    return x.value if isinstance(x, Const) else x


def _inside(start: Scalar, extent: Scalar | int, step: Scalar | int, size: Scalar) -> bool:
    """True where `extent` indices by `step` from `start` are certainly indices of a dimension of `size` elements."""
    if start == Const(0) and step == 1 and extent == size:
        return True
    reach = (literal(start), extent, step, literal(size))
    return all(isinstance(x, int) for x in reach) and reach[0] >= 0 and reach[0] + (reach[1] - 1) * reach[2] < reach[3]


def _element(b: Builder, source: Buffer, read, readable: Scalar | None, pad: Scalar, dtype: DType) -> Scalar:
    """The source's element as the target's dtype, or the pad outside the source."""
    if readable is None:
        return convert(b, b.emit("load", source, *read), dtype)
    cell = b.declare("cell", "element", dtype)
    b.emit("store", cell, pad)
    with b.if_(readable):
        b.emit("store", cell, convert(b, b.emit("load", source, *read), dtype))
    return b.emit("load", cell)
