"""Which elements of shared arrays the threads of a block access together (stage=thread), by evaluating the kernel's index arithmetic.

One walk over the instructions with an array for each value that indices or conditions are made from: a row for each of a few samples of
the loops around it, a column for each thread. What that cannot know (what memory holds) is left out. Sizes of arrays count as SIZE, arrays
as aligned: the wide form of a kernel is looked at, at a block that lies inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vxc import semantics
from vxc.dtypes import BOOL
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS
from vxc.record import record
from vxc.target import WARP

SIZE = 1 << 16  # of a dimension: large, and divisible
SAMPLES = 4  # of the loops around an access, taken together
_STRIDES = (1, 7, 3, 5)  # the samples go through loops in different steps, so that not all loops are at their n-th trip at once


@record
class SharedAccess:
    """`offsets` [samples, threads] are the elements in memory order, -1 where a thread does not run; `weight` is how often each
    thread comes there, as far as that is known.
    """

    at: int
    buffer: Buffer
    width: int
    offsets: np.ndarray
    weight: float


_Place = tuple[Buffer, tuple[Operand, ...], int]  # an array, indices or an offset, so many elements


def shared_accesses(kernel: Kernel) -> list[SharedAccess]:
    """In program order, those whose elements are known."""
    with np.errstate(all="ignore"):
        return _Walk(kernel).run()


def _places(inst: Inst) -> list[_Place]:
    """The shared arrays that an instruction accesses, with the indices (or the offset) and how many elements."""
    if inst.op in ("move", "move.async"):
        found = [(inst.operands[k], inst.operands[k + 1 : k + 2], inst.attr("width")) for k in (0, 2)]
    elif inst.operands[0].shape:
        found = [(inst.operands[0], inst.operands[1 : 1 + len(inst.operands[0].shape)], 1)]
    else:
        return []
    return [place for place in found if place[0].space == "shared"]


def _asked(insts: Sequence[Inst], places: Mapping[int, Sequence[_Place]]) -> set[str]:
    """Names of the values that say which shared elements are accessed, at these positions, by whom and how often."""
    asked: set[str] = set()
    holds = [False]  # of each region around: whether a shared array is accessed in it
    for at in reversed(range(len(insts))):
        inst = insts[at]
        operands: Sequence[Operand] = ()
        if inst.op == "end":
            holds.append(False)
        elif OPS[inst.op].opens:
            if holds.pop():
                holds[-1], operands = True, inst.operands
        elif at in places:
            holds[-1], operands = True, [x for _, indices, _ in places[at] for x in indices]
        elif inst.result is not None and inst.result.name in asked:
            operands = inst.operands
        if operands:
            asked.update([x.name for x in operands if type(x) is Value])
    return asked


class _Walk:
    """The walk's state: values by name, and who runs the innermost region and how often."""

    def __init__(self, kernel: Kernel):
        self.insts = kernel.insts
        places = {at: _places(inst) for at, inst in enumerate(self.insts) if OPS[inst.op].access}
        self.places = {at: found for at, found in places.items() if found}
        self.asked = _asked(self.insts, self.places)
        threads = kernel.attr("threads")
        self.threads = np.arange(-(-threads // WARP) * WARP)
        self.mask = np.broadcast_to(self.threads < threads, (SAMPLES, self.threads.size))
        sizes = {x.name for p in kernel.params if isinstance(p, Buffer) for x in p.shape if isinstance(x, Value)}
        self.values: dict[str, np.ndarray] = {name: np.asarray(SIZE) for name in sizes}
        self.weight = 1.0
        self.depth = 0

    def run(self) -> list[SharedAccess]:
        found: list[SharedAccess] = []
        outside: list[tuple] = []
        runs = True  # whether any thread comes here: what none does is skipped
        for at, inst in enumerate(self.insts):
            if inst.op == "else":
                self.mask, self.weight, self.depth, taken = outside[-1]
                if taken is not None:
                    self.mask = self.mask & ~taken
                runs = self.mask.any()
            elif inst.op == "end":
                self.mask, self.weight, self.depth, _ = outside.pop()
                runs = self.mask.any()
            elif OPS[inst.op].opens:
                taken = self.get(inst.operands[0]) if runs and inst.op == "if" else None
                outside.append((self.mask, self.weight, self.depth, taken))
                if runs and inst.op == "loop":
                    self._enter(inst)
                elif taken is not None:
                    self.mask = self.mask & taken
                runs = self.mask.any()
            elif runs:
                found += self._accesses(at) if at in self.places else ()
                self._define(inst)
        return found

    def get(self, x: Operand) -> np.ndarray | None:
        return np.asarray(x.value) if isinstance(x, Const) else self.values.get(x.name)

    def _enter(self, loop: Inst) -> None:
        """A sample of its trips: the first in the first sample, others in the others."""
        start, stop, step = (*map(self.get, loop.operands), np.asarray(1))[:3]
        if start is None or step is None or not np.all(step):
            return
        trips = SAMPLES if stop is None else max(1, int(-(-(stop - start) // step).max()))
        stride = _STRIDES[self.depth % len(_STRIDES)]
        turn = np.array([[n * stride % trips] for n in range(SAMPLES)])
        index = start + turn * step
        self.values[loop.result.name] = index
        if stop is not None:
            self.mask = self.mask & ((index < stop) if np.all(step > 0) else np.where(step > 0, index < stop, index > stop))
        self.weight *= trips
        self.depth += 1

    def _define(self, inst: Inst) -> None:
        if type(inst.result) is not Value or inst.result.name not in self.asked:
            return
        if inst.op == "thread_index":
            self.values[inst.result.name] = self.threads
        elif inst.op == "block_index":
            self.values[inst.result.name] = np.asarray(0)
        elif inst.op == "aligned":
            self.values[inst.result.name] = np.asarray(True)
        elif OPS[inst.op].pure:
            operands = [self.get(x) for x in inst.operands]
            kinds = {x.dtype for x in inst.operands} | {inst.result.dtype}
            if all(x is not None for x in operands) and all(d.is_int or d is BOOL for d in kinds):
                self.values[inst.result.name] = _apply(inst, operands)

    def _accesses(self, at: int) -> list[SharedAccess]:
        found = []
        for buffer, indices, width in self.places[at]:
            values = [self.get(x) for x in indices]
            if any(x is None for x in values):
                continue
            flat = values[0]
            for x, extent in zip(values[1:], buffer.shape[1:]):
                flat = flat * extent.value + x
            offsets = np.where(self.mask, np.broadcast_to(flat, self.mask.shape), -1)
            found.append(SharedAccess(at, buffer, width, offsets, self.weight))
        return found


def _apply(inst: Inst, operands: list[np.ndarray]) -> np.ndarray:
    if inst.op in ("cast", "sat", "reinterpret"):
        return getattr(semantics, inst.op)(operands[0], inst.operands[0].dtype, inst.result.dtype)
    dtype = inst.operands[-1].dtype
    arrays = [x.astype(y.dtype.numpy, copy=False) for x, y in zip(operands, inst.operands)]
    return np.asarray(semantics.numpy_function(inst.op, dtype)(*arrays))
