"""Tile statements of the AST interpreter: `copy` and `gemm`, for all blocks at once.

The elements of a tile are axes inside those of the scope, as if the statement were a parallel loop over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as reduce_pairs

import numpy as np

from vxc.dtypes import I64, DType
from vxc.frontend.typed import Copy, Gemm, Load, Symbol, Window
from vxc.interp.ast_machine import Machine
from vxc.interp.ast_memory import Storage
from vxc.interp.ast_scope import Axis, Scope, pad
from vxc.interp.ast_steps import check_slices
from vxc.semantics import cast, evaluate

_ELEMENT = Symbol("element", "index", I64)
_ZERO, _ONE = np.asarray(0, np.int64), np.asarray(1, np.int64)


def copy(machine: Machine, node: Copy, scope: Scope):
    """A store of every element that lies inside the target, of the source's element or, where that lies outside, the pad."""
    yield from check_slices(machine, node, scope)
    extents = []
    for extent in node.source.extents:
        extents.append((yield extent, scope))
    filler = yield node.pad, scope
    corners = []
    for window in (node.source, node.target):
        corners.append((yield from _corner(window, scope)))
    source, target = node.source.array, node.target.array
    inner, element = _open(scope, _stored(machine.memory[target], node.target, *corners[1], extents))
    places = [_place(window, *corner, element, scope) for window, corner in zip((node.source, node.target), corners)]
    if inner is None:
        return
    present, stored = (_inside(machine.memory[array], place) for array, place in zip((source, target), places))
    inner = inner.narrow(stored)
    if inner is None:
        return
    value, read = pad(filler, inner.depth), inner.narrow(present)
    if read is not None:
        loaded = cast(machine.load(node.source, places[0], read), source.dtype, target.dtype)
        value = loaded if read is inner else np.where(present, loaded, value)
    machine.store(node.target, places[1], value, inner)


def _corner(window: Window, scope: Scope):
    """Where a window begins in each dimension, and its step along each of its axes."""
    starts, steps = [], []
    for start in window.starts:
        starts.append((yield start, scope))
    for step in window.steps:
        steps.append((yield step, scope))
    return starts, steps


def _stored(storage: Storage, window: Window, starts: list[np.ndarray], steps: list[np.ndarray], extents: list[np.ndarray]):
    """Extents up to the end of the target: they may be any numbers, and what lies behind it is not stored."""
    sizes = storage.data.shape[storage.lead :]
    rooms = (evaluate("ceildiv", I64, sizes[axis] - starts[axis], step) for axis, step in zip(window.axes, steps))
    return [np.minimum(*np.broadcast_arrays(extent, room)) for extent, room in zip(extents, rooms)]


def _place(window: Window, starts: list[np.ndarray], steps: list[np.ndarray], element: list[np.ndarray], scope: Scope) -> list[np.ndarray]:
    """The index, for each dimension of a window's array, of the elements that `element` numbers along the tile's axes."""
    depth = scope.depth + len(element)
    place = [pad(start, depth) for start in starts]
    for axis, along, step in zip(window.axes, element, steps, strict=True):
        place[axis] = place[axis] + along * pad(step, depth)
    return place


def _open(scope: Scope, extents: Sequence[np.ndarray]) -> tuple[Scope | None, list[np.ndarray]]:
    """The scope of a tile's elements (None if there are none), and their number along each of its axes."""
    depth = scope.depth + len(extents)
    sizes = [max(scope.range(extent)[1], 0) for extent in extents]
    axes = (*scope.axes, *(Axis(_ELEMENT, 0, size, size, _ZERO, _ONE) for size in sizes))
    element = [np.arange(size).reshape((-1,) + (1,) * (len(sizes) - k - 1)) for k, size in enumerate(sizes)]
    element = [along.reshape((1,) * (depth - along.ndim) + along.shape) for along in element]
    inner = Scope(axes, None if scope.mask is None else pad(scope.mask, depth), scope.indices) if all(sizes) else None
    for along, extent in zip(element, extents):
        if inner is not None and extent.ndim:
            inner = inner.narrow(along < pad(extent, depth))
    return inner, element


def _inside(storage: Storage, place: list[np.ndarray]) -> np.ndarray:
    """Where an index lies inside the array in every dimension."""
    extents = storage.data.shape[storage.lead :]
    return reduce_pairs(np.logical_and, ((index >= 0) & (index < extent) for index, extent in zip(place, extents, strict=True)))


def gemm(machine: Machine, node: Gemm, scope: Scope) -> None:
    factors = []
    for array, transposed in ((node.a, node.trans_a), (node.b, node.trans_b)):
        value = cast(_whole(machine, Load(array, (), node.span), scope), array.dtype, node.acc.dtype)
        factors.append(value.swapaxes(-1, -2) if transposed else value)
    acc = Load(node.acc, (), node.span)
    value = _multiply(*factors, _whole(machine, acc, scope), node.acc.dtype)
    inner, element = _open(scope, _shape(machine, acc))
    if inner is not None:
        machine.store(acc, element, value, inner)


def _multiply(a: np.ndarray, b: np.ndarray, acc: np.ndarray, dtype: DType) -> np.ndarray:
    """acc[.., M, N] + a[.., M, K] @ b[.., K, N], all of `dtype`: integers exactly (they wrap), floats by fma in increasing k."""
    if dtype.is_int:
        return acc + a @ b
    for k in range(a.shape[-1]):
        acc = evaluate("fma", dtype, a[..., :, k, None], b[..., None, k, :], acc)
    return acc


def _whole(machine: Machine, load: Load, scope: Scope) -> np.ndarray:
    """All elements of an array, over the axes of the scope and then its own."""
    inner, element = _open(scope, _shape(machine, load))
    shape = machine.memory[load.array].data.shape
    return np.zeros(shape, load.dtype.numpy) if inner is None else machine.load(load, element, inner)


def _shape(machine: Machine, load: Load) -> list[np.ndarray]:
    storage = machine.memory[load.array]
    return [np.asarray(size) for size in storage.data.shape[storage.lead :]]


TILES = {Copy: copy, Gemm: gemm}
