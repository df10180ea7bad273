"""Storage and its accesses: global, shared and local arrays as flat NumPy arrays, cells as values.

Every access checks bounds; with `debug` also that what is read was written, and races. An array that exists once per lane
or block lies in one flat array, `lead` giving the offset at which each lane's own copy starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from vxc.binding import row_major
from vxc.dtypes import DType
from vxc.interp.flat_lanes import Lanes, both, either, lanes, lift, lift_lanes, minus
from vxc.interp.flat_machine import Machine, Step
from vxc.interp.flat_races import Shadow
from vxc.interp.fresh import poisoned, span
from vxc.ir.kernel import Buffer
from vxc.ir.ops import NOT_FILLED
from vxc.layout.placement import IN_ORDER, Placement

@dataclass
class Memory:
    """An array. `strides` are in elements; `written` is None where all of it was, `races` where they are not watched. `base` is its
    address, in bytes from a multiple of 16 on; `placement` says where in a copy an element lies.
    """

    name: str
    dtype: DType
    space: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    data: np.ndarray
    lead: np.ndarray | int = 0
    written: np.ndarray | None = None
    races: Shadow | None = None
    base: int = 0
    placement: Placement = IN_ORDER

    @property
    def extent(self) -> int:
        """Elements from the first to the last of one copy."""
        return span(self.shape, self.strides)

    def element(self, at: int) -> str:
        """`x[3, 5]`: the element at an offset, in the user's terms."""
        at %= max(self.placement.size(self.extent), 1)
        at = int(np.flatnonzero(self.placement(np.arange(self.extent)) == at)[0]) if self.placement is not IN_ORDER else at
        index = [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda k: -self.strides[k]):
            index[axis], at = divmod(at, max(self.strides[axis], 1))
        return f"{self.name}[{', '.join(map(str, index))}]"

    def view(self, flat: np.ndarray) -> np.ndarray:
        """`data` or `written` of the (only) copy, with its shape and strides."""
        return np.ndarray(self.shape, flat.dtype, flat, 0, [s * flat.itemsize for s in self.strides])


@dataclass
class Cell:
    """A variable of each lane over the axes open at its declaration; stores make a new array, never change one."""

    name: str
    depth: int
    value: np.ndarray | None = None
    written: Lanes = False

    def load(self, m: Machine, step: Step) -> np.ndarray:
        missing = minus(m.mask, lift_lanes(self.written, m.depth))
        if missing is not False and (m.debug or self.value is None):
            raise m.fault("E0721", f"`{self.name}` is read before anything is stored to it", step.inst, m.first(missing))
        return lift(self.value, m.depth)

    def store(self, m: Machine, mask: Lanes, value: np.ndarray, step: Step) -> None:
        if m.depth > self.depth:
            text = f"several lanes store to `{self.name}`, which is declared outside of their loop"
            raise m.fault("E0722", text, step.inst, m.first(mask))
        self.value = value if mask is True or self.value is None else np.where(mask, value, self.value)
        self.written = either(self.written, mask)


def cell(m: Machine, step: Step) -> None:
    m.storage[step.inst.result.name] = Cell(step.inst.result.name, m.depth)


def local(m: Machine, step: Step) -> None:
    m.storage[step.inst.result.name] = per_lane(step.inst.result, m.shape, m.debug)


def per_lane(buffer: Buffer, lanes_shape: tuple[int, ...], debug: bool, placement: Placement = IN_ORDER) -> Memory:
    """Unwritten storage of constant shape, one copy for each lane."""
    shape = tuple(int(n.value) for n in buffer.shape)
    size, copies = placement.size(prod(shape)), prod(lanes_shape)
    lead = (np.arange(copies) * size).reshape(lanes_shape)
    written = np.zeros(copies * size, bool) if debug else None
    data = poisoned(copies * size, buffer.dtype)
    return Memory(buffer.name, buffer.dtype, buffer.space, shape, row_major(shape), data, lead, written, placement=placement)


def address(m: Machine, step: Step, memory: Memory) -> np.ndarray:
    """Offsets of the element that each lane accesses, in bounds even for lanes that do not run. Raises E0720."""
    flat = np.asarray(0)
    for axis, (arg, extent, stride) in enumerate(zip(step.args[1 : 1 + len(memory.shape)], memory.shape, memory.strides)):
        index = m.get(arg).astype(np.int64, copy=False)
        if np.count_nonzero(index.view(np.uint64) >= extent):  # negative ones are huge as u64
            out = both(m.mask, lanes((index < 0) | (index >= extent)))
            if out is not False:
                raise _out_of_range(m, step, memory, axis, index, out)
            index = np.clip(index, 0, max(extent - 1, 0))
        term = index if stride == 1 else index * stride
        flat = flat + term if axis else term
    return own(m, memory, flat)


def own(m: Machine, memory: Memory, flat: np.ndarray) -> np.ndarray:
    """Where elements lie, given their offsets in memory order: in each lane's own copy of an array, where there are several."""
    flat = flat if memory.placement is IN_ORDER else memory.placement(flat)
    return flat + lift(memory.lead, m.depth) if memory.space in ("local", "shared", "fragment") else flat


def _out_of_range(m: Machine, step: Step, memory: Memory, axis: int, index: np.ndarray, out: Lanes):
    lane = m.first(out)
    extent = memory.shape[axis]
    text = f"index {m.at_lane(index, lane)} is out of range for dimension {axis} of `{memory.name}`, which has {extent}"
    return m.fault("E0720", text, step.inst, lane, "guard it with an `if`, or correct the index")


def load(m: Machine, step: Step) -> None:
    store = m.storage[step.args[0].name]
    if type(store) is Cell:
        m.env[step.inst.result.name] = store.load(m, step)
        return
    flat = address(m, step, store)
    if store.written is not None:
        check_written(m, step, store, flat)
    note(m, step, store, flat, "r")
    m.env[step.inst.result.name] = np.asarray(store.data.take(flat))


def check_written(m: Machine, step: Step, memory: Memory, flat: np.ndarray) -> None:
    missing = minus(m.mask, lanes(np.asarray(memory.written.take(flat))))
    if missing is not False:
        lane = m.first(missing)
        text = f"`{memory.element(m.at_lane(flat, lane))}` is read before anything is stored to it"
        hint = NOT_FILLED if memory.space == "workspace" else "store to it before, with a barrier between if another thread does"
        raise m.fault("E0721", text, step.inst, lane, hint)


def store(m: Machine, step: Step) -> None:
    memory, value = m.storage[step.args[0].name], m.get(step.args[-1])
    if type(memory) is Cell:
        memory.store(m, m.mask, value, step)
        return
    flat = address(m, step, memory)
    note(m, step, memory, flat, "w")
    flat, value = active(m.mask, flat, value)
    memory.data[flat] = value
    if memory.written is not None:
        memory.written[flat] = True


def active(mask: Lanes, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays brought to a common shape, those of the running lanes only (then in one dimension)."""
    if mask is not True:
        arrays = (*arrays, mask)
    if any(a.shape != arrays[0].shape for a in arrays):
        arrays = np.broadcast_arrays(*arrays)
    return list(arrays) if mask is True else [a[arrays[-1]] for a in arrays[:-1]]


def note(m: Machine, step: Step, memory: Memory, flat: np.ndarray, mode: str) -> None:
    """Count an access, and look whether it races. Raises E0722 (iterations) or E0725 (threads)."""
    if m.counters is not None:
        m.counters.access(m, step, memory, flat)
        m.counters.touch(m, memory, flat, mode)
    watch(m, step, memory, flat, mode)


def watch(m: Machine, step: Step, memory: Memory, flat: np.ndarray, mode: str, width: int = 1) -> None:
    """Look whether an access of `width` elements from `flat` on races. Raises E0722 (iterations) or E0725 (threads)."""
    who = m.who(mode) if memory.races is not None else None
    if who is None:
        return
    full = np.broadcast_to(flat, m.shape)
    at, owner, epoch = (a.reshape(-1) for a in active(m.mask, full, lift(who.owner, m.depth), lift(who.epoch, m.depth)))
    groups = who.groups if who.groups is None else who.groups[:, np.broadcast_to(m.mask, m.shape)]
    if width > 1:
        at = (np.arange(width)[:, None] + at).reshape(-1)
        owner, epoch, groups = (x if x is None else np.concatenate([x] * width, axis=-1) for x in (owner, epoch, groups))
    race = memory.races.access(mode, at, who._replace(owner=owner, epoch=epoch, groups=groups))
    if race is not None:
        raise m.raced(step.inst, memory.element(race.at), race, mode)
