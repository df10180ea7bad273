"""A call that was checked, ready to be repeated: with the sizes it had, other addresses and other scalars.

The parameters of a launch are `void*[]` and the values that it points at, together in a *slot*: a bytearray of this layout

    | variables: addresses of arrays, scalars, addresses of workspaces | constants | void*[] of launch 1 | void*[] of launch 2 .. |

of which a call writes the variables with one `pack_into`. CUDA reads them without Python's lock held, so a slot belongs to one call at a
time: calls take one from `slots` and give it back, and make one where none is left.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vxc.api.workspaces import packed_together, workspaces
from vxc.binding import ArrayParam, signature
from vxc.cuda.names import kernel_symbol
from vxc.cuda.nvrtc import Binary
from vxc.dtypes import DType
from vxc.ir.kernel import Buffer, Value
from vxc.ir.plan import Plan
from vxc.record import record
from vxc.runtime.driver import Driver
from vxc.runtime.launch import loaded
from vxc.runtime.parameters import scalar
from vxc.schedule import Launch, Schedule

POINTER = "Q"
CODES = {
    "f32": "f", "f64": "d", "f16": "e", "bool": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "bf16": "H", "f8e4m3": "B", "f8e5m2": "B",
}  # fmt: skip
"""How `struct` packs a scalar of each dtype. It refuses what is no number of the type; bf16 and f8 are packed as their bits."""


def packed(dtype: DType, value: int | float | bool) -> int | float:
    """A number of a dtype as `struct` packs it by `CODES`."""
    return scalar(dtype, value).value if CODES[dtype.name] in "HB" and dtype.is_float else int(value) if dtype.kind == "b" else value


Slot = tuple[Any, ...]
"""The memory, and for each launch a reference to its `void*[]`, which keeps the memory where it is."""


class ByStream(dict[int, Any]):
    """What `make` gives for each stream handle, made when first asked for."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, stream: int) -> Any:
        if len(self) >= 1024:  # streams come and go
            self.clear()
        self[stream] = made = self._make(stream)
        return made


@record
class Step:
    """One launch: the function, and the configuration for each stream, as `Driver.raw_launch` takes them."""

    function: Any
    configs: dict[int, Any]


@record
class Extent:
    """Where an array lies from its address on: bytes before it (negative strides) and behind, 0 and 0 for none at all."""

    name: str
    low: int
    high: int


@record
class Out:
    """An output that a call allocates."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


class Prepared:
    """`run` does the call. `extents` are those of all arrays in the order of the plan, `outs` what the call is to allocate."""

    def __init__(
        self, cuda: Driver, device: int, plan: Plan, binary: Binary, calls: Schedule, extents: Sequence[Extent], outs: Sequence[Out]
    ) -> None:
        self.device, self.extents, self.outs = device, tuple(extents), tuple(outs)
        self.params, self.arrays, self.deciding = signature(plan.params), plan.buffers, deciding_scalars(plan)
        self.declared = {p.name: p for p in self.params if isinstance(p, ArrayParam)}
        self._enqueue, self._cuda, self._spaces = cuda.raw_launch(), cuda, workspaces(cuda, device)
        self._offsets, self._held = packed_together([w.nbytes for w in calls.workspaces])
        layout = _Layout(plan, calls)
        self.pack = struct.Struct(layout.format).pack_into
        self._image, self._tables = layout.image(), layout.tables
        self.slots: list[Slot] = []
        launches = [(launch, table) for launch, table in zip(calls.launches, layout.starts) if launch.grid]  # one over no blocks is none
        self.steps = tuple(self._step(cuda, binary, launch) for launch, _ in launches)
        self._starts = [start for _, start in launches]
        self.single = self.steps[0] if len(self.steps) == 1 and not self._offsets else None

    def _step(self, cuda: Driver, binary: Binary, launch: Launch) -> Step:
        shared = launch.kernel.attr("shared_bytes", 0)
        function = loaded(cuda, binary.cubin, kernel_symbol(launch.kernel.name), self.device, shared)
        grid, block = (launch.grid, 1, 1), (launch.kernel.attr("threads"), 1, 1)
        configs = ByStream(lambda stream: cuda.raw_config(grid, block, shared, stream, launch.early))
        return Step(cuda.raw_function(function), configs)

    def slot(self) -> Slot:
        """A new one, its constants and tables filled in."""
        memory = bytearray(self._image)
        held = (ctypes.c_char * len(memory)).from_buffer(memory)
        address = ctypes.addressof(held)
        for at, target in self._tables:
            struct.pack_into(POINTER, memory, at, address + target)
        return memory, *(ctypes.byref(held, start) for start in self._starts)

    def run(self, values: Sequence[Any], stream: int) -> Any:
        """Enqueues the launches in the current context; `values` are addresses and scalars as `pack` takes them.

        Gives 0, the status of the first launch if that failed, or None for a scalar that does not fit. Raises `VxcError` E0604
        for a later launch that failed.
        """
        if not self._offsets:
            return self._launch(values, stream)
        with self._spaces.held(self._held, stream) as address:
            return self._launch((*values, *(address + offset for offset in self._offsets)), stream)

    def repeated(self, values: Sequence[Any]) -> Callable[[int], Callable[[], Any]]:
        """What gives, for a stream, a function that does the call with these values, as `run`; one launch without workspaces has a slot of
        its own, which nobody writes any more.
        """
        if self.single is None:
            return lambda stream: partial(self.run, values, stream)
        step, (memory, table) = self.single, self.slot()
        self.pack(memory, 0, *values)
        return lambda stream: partial(self._enqueue, step.configs[stream], step.function, table, None)

    def _launch(self, values: Sequence[Any], stream: int) -> Any:
        slot = self.slots.pop() if self.slots else self.slot()
        memory, *tables = slot
        try:
            self.pack(memory, 0, *values)
        except (struct.error, OverflowError):
            return None
        for step, table in zip(self.steps, tables):
            status = self._enqueue(step.configs[stream], step.function, table, None)
            if status:
                if step is self.steps[0]:
                    return status
                raise self._cuda.refused(status)
        self.slots.append(slot)
        return 0


class _Layout:
    """`format` of the variables, `tables` as (place of a pointer, place that it points at), `starts` of each launch's table."""

    def __init__(self, plan: Plan, calls: Schedule) -> None:
        variables = [(b.name, POINTER) for b in plan.buffers]
        variables += [(s.name, CODES[s.dtype.name]) for s in plan.scalars]
        variables += [(w.name, POINTER) for w in calls.workspaces]
        self.format, places = "<", {}  # not the native one, which lets numbers overflow: so aligned here
        for name, code in variables:
            size = struct.calcsize(code)
            self.format += "x" * (-struct.calcsize(self.format) % size) + code
            places[name] = struct.calcsize(self.format) - size
        self._data = bytearray(struct.calcsize(self.format))
        self.tables: list[tuple[int, int]] = []
        self.starts: list[int] = []
        scalars = {s.name for s in plan.scalars}
        entries = (inst for inst in plan.entries if inst.op == "launch")
        targets: list[list[int]] = []
        for entry, launch in zip(entries, calls.launches, strict=True):
            rows = zip(launch.kernel.params, entry.operands[1:], launch.arguments, strict=True)
            targets.append(
                [
                    places[x.name] if isinstance(x, Buffer) or isinstance(x, Value) and x.name in scalars else self._constant(p.dtype, v)
                    for p, x, v in rows
                ]
            )
        for row in targets:
            self.starts.append(self._aligned(8))
            self._data += bytes(8 * max(len(row), 1))
            self.tables += [(self.starts[-1] + 8 * at, target) for at, target in enumerate(row)]

    def _constant(self, dtype: DType, value: Any) -> int:
        packed = bytes(scalar(dtype, value))
        at = self._aligned(len(packed))
        self._data += packed
        return at

    def _aligned(self, by: int) -> int:
        self._data += bytes(-len(self._data) % by)
        return len(self._data)

    def image(self) -> bytes:
        return bytes(self._data)


def deciding_scalars(plan: Plan) -> set[str]:
    """Scalar arguments on which more depends than what is passed on: grids, sizes, conditions."""
    operands = [x for inst in plan.entries for x in (inst.operands[:1] if inst.op == "launch" else inst.operands)]
    operands += [x for inst in plan.entries if isinstance(inst.result, Buffer) for x in inst.result.shape]
    return {x.name for x in operands if isinstance(x, Value)} & {s.name for s in plan.scalars}
