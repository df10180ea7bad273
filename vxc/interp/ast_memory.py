"""Memory of the AST interpreter: whole-array loads, stores and atomics, with checks of range and of unwritten reads.

An access selects elements by one index array for each dimension. Where each of them runs evenly along an axis of its own
the elements are a strided view of the array, else they are gathered and scattered one by one; both give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vxc.dtypes import DType
from vxc.interp.ast_scope import Scope
from vxc.semantics import Order, evaluate, scan


@dataclass(slots=True, eq=False)
class Storage:
    """Elements of one declared array: an instance for each point of the scope of its declaration (`lead` axes), then its shape.

    `written` marks the elements that hold something; None where all do. Where `constant`, a load may give a view.
    """

    data: np.ndarray
    lead: int = 0
    written: np.ndarray | None = None
    constant: bool = False


class OutOfRange(Exception):
    """At the points `where`, index `index` lies outside dimension `axis`."""

    def __init__(self, axis: int, index: np.ndarray, where: np.ndarray) -> None:
        super().__init__(axis)
        self.axis, self.index, self.where = axis, index, where


class Unwritten(Exception):
    """At the points `where`, the element read holds nothing."""

    def __init__(self, where: np.ndarray) -> None:
        super().__init__()
        self.where = where


def locate(storage: Storage, indices: Sequence[np.ndarray], scope: Scope) -> list[np.ndarray]:
    """Indices into `storage.data`, in range everywhere: inactive points are sent to element 0. Raises OutOfRange."""
    place = [np.arange(storage.data.shape[k]).reshape((1,) * k + (-1,) + (1,) * (scope.depth - k - 1)) for k in range(storage.lead)]
    for axis, (index, extent) in enumerate(zip(indices, storage.data.shape[storage.lead :], strict=True)):
        outside = (index < 0) | (index >= extent)
        if outside.any():
            wrong = scope.active(outside)
            if wrong.any():
                raise OutOfRange(axis, index, wrong)
            index = np.where(outside, 0, index)
        place.append(index)
    return place


def load(storage: Storage, place: list[np.ndarray], scope: Scope) -> np.ndarray:
    """The elements at `place`. Raises Unwritten."""
    if storage.data.size == 0:  # then no point is active
        return np.zeros((), storage.data.dtype)
    view = _view(storage.data, place, scope.depth)
    if storage.written is not None:
        flags = _view(storage.written, place, scope.depth)
        missing = scope.active(~(storage.written[tuple(place)] if flags is None else flags))
        if missing.any():
            raise Unwritten(missing)
    if view is None:
        return np.asarray(storage.data[tuple(place)])
    return view if storage.constant else view.copy()


def store(storage: Storage, place: list[np.ndarray], value: np.ndarray, scope: Scope) -> None:
    """Write the active points' values; where several write one element, the last iteration's stays."""
    for data, new in ((storage.data, value), (storage.written, np.True_)):
        if data is None:
            continue
        view = _view(data, place, scope.depth)
        if view is not None and all(a == b for a, b in zip(view.shape, scope.sizes)):
            np.copyto(view, new, where=True if scope.mask is None else scope.mask)
        else:
            data[tuple(scope.select(index) for index in place)] = scope.select(new)


def atomic(op: str, dtype: DType, storage: Storage, place: list[np.ndarray], value: np.ndarray, scope: Scope) -> np.ndarray:
    """Combine every active point's value into its element, in iteration order; gives the element's value before. Raises Unwritten."""
    load(storage, place, scope)
    flat = np.ravel_multi_index(tuple(scope.select(index) for index in place), storage.data.shape)
    before = _in_turn(op, dtype, storage.data.reshape(-1), flat, scope.select(value))
    result = np.zeros(scope.sizes, before.dtype)
    result[np.broadcast_to(True if scope.mask is None else scope.mask, scope.sizes)] = before
    return result


_SCANS = {"add": "sum", "max": "max", "min": "min"}


def _in_turn(op: str, dtype: DType, elements: np.ndarray, flat: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Combine values[k] into elements[flat[k]] for k = 0, 1 ..; gives what each found there. Atomics are on types of 32 bits or more.

    Element by element, each a scan from left to right, or turn by turn: all elements' first values, all their second ones.
    """
    by_element = np.argsort(flat, kind="stable")
    starts = np.flatnonzero(np.diff(flat[by_element], prepend=-1))
    counts = np.diff(starts, append=flat.size)
    before = np.empty(flat.size, elements.dtype)
    if len(starts) < counts.max():
        for start, count in zip(starts, counts):
            now = by_element[start : start + count]
            at, left_to_right = flat[now[0]], Order(int(count) + 1, 1, 1, 1)
            running = scan(_SCANS[op], np.append(elements[at], values[now]), dtype, left_to_right)
            before[now], elements[at] = running[:-1], running[-1]
        return before
    for turn in range(counts.max()):
        now = by_element[starts[counts > turn] + turn]
        before[now] = elements[flat[now]]
        elements[flat[now]] = evaluate(op, dtype, before[now], values[now])
    return before


def _view(data: np.ndarray, place: list[np.ndarray], depth: int) -> np.ndarray | None:
    """The selected elements as a view of `data` with `depth` dimensions; None where they are no strided view of it."""
    key: list[int | slice] = []
    axes: list[int] = []
    for index in place:
        if index.size == 1:
            key.append(int(index.reshape(())))
            continue
        axis = int(np.argmax(index.shape))
        if index.shape[axis] != index.size or axis in axes:
            return None
        along = index.reshape(-1)
        step = int(along[1] - along[0])
        if step == 0 or not (np.diff(along) == step).all():
            return None
        stop = int(along[-1]) + (1 if step > 0 else -1)
        key.append(slice(int(along[0]), None if stop < 0 else stop, step))
        axes.append(axis)
    view = data[(*key, ...)].transpose(sorted(range(len(axes)), key=axes.__getitem__))
    return view[(*(slice(None) if k in axes else None for k in range(depth)), ...)]
