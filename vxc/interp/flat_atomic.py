"""Atomics: each running lane combines its value into its element, in lane order, and gets the element's value before.

Lanes that meet at one element are taken in turn: all first lanes of an element at once, then all second ones, and so on;
where more than about sqrt(n) lanes meet at one element, that element's values are accumulated by themselves. So n lanes
take about 2 sqrt(n) array operations at most.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from vxc.dtypes import DType
from vxc.interp.flat_machine import Machine, Step
from vxc.interp.flat_memory import active, address, check_written, note
from vxc.semantics import cast, evaluate


def atomic(m: Machine, step: Step) -> None:
    memory, inst = m.storage[step.args[0].name], step.inst
    flat = address(m, step, memory)
    if memory.written is not None:
        check_written(m, step, memory, flat)
    note(m, step, memory, flat, "rw")
    every = np.broadcast_to(m.mask, m.shape)
    at, value = active(every, np.broadcast_to(flat, m.shape), m.get(step.args[-1]))
    before = np.zeros(m.shape, memory.data.dtype)
    before[every] = combine_in_turn(inst.attr("op"), memory.dtype, memory.data, at, value)
    m.env[inst.result.name] = before


def combine_in_turn(op: str, dtype: DType, data: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Combine values[k] into data[at[k]] for k = 0, 1 ..; gives what each found there. Changes `data`."""
    if not at.size:
        return values
    order = np.argsort(at, kind="stable")
    where, value = at[order], values[order]
    starts = np.flatnonzero(np.r_[True, where[1:] != where[:-1]])
    sizes = np.diff(np.r_[starts, at.size])
    before = np.empty_like(value)
    crowded = sizes > isqrt(at.size) + 1
    for start, size in zip(starts[crowded], sizes[crowded]):
        found = _running(op, dtype, np.concatenate([data[where[start]][None], value[start : start + size]]))
        before[start : start + size], data[where[start]] = found[:-1], found[-1]
    starts, sizes = starts[~crowded], sizes[~crowded]
    for turn in range(sizes.max(initial=0)):
        k = starts[sizes > turn] + turn
        before[k] = data[where[k]]
        data[where[k]] = _combine(op, dtype, before[k], value[k])
    result = np.empty_like(before)
    result[order] = before
    return result


def _combine(op: str, dtype: DType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = dtype.compute
    return cast(evaluate(op, wide, cast(a, dtype, wide), cast(b, dtype, wide)), wide, dtype)


def _running(op: str, dtype: DType, x: np.ndarray) -> np.ndarray:
    """x[0], x[0] op x[1], ...: addition from left to right, max and min (which may be regrouped) by doubling."""
    if op == "add":
        with np.errstate(all="ignore"):
            return np.add.accumulate(x, dtype=x.dtype)
    distance = 1
    while distance < x.size:
        x = np.concatenate([x[:distance], _combine(op, dtype, x[:-distance], x[distance:])])
        distance *= 2
    return x
