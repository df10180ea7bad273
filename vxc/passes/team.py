"""A group of lanes and how its lanes meet: shuffles within a warp, shared scratch and barriers across warps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from vxc.dtypes import DType
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Scalar, Value, shared_bytes
from vxc.passes.accumulate import Accumulator, Slots, State
from vxc.record import state
from vxc.target import WARP


@state
class Team:
    """`group` lanes that run one iteration together; `lane` is this thread's number among them, a constant 0 if it is alone.

    `scratch` collects the shared arrays that are declared at the top of the kernel.
    """

    b: Builder
    group: int
    lane: Scalar = Const(0)
    first: Value | None = None  # true in lane 0; None where the group is one lane
    scratch: dict[tuple, Buffer] = field(default_factory=dict)
    ahead: int | None = None  # loads that a lane has in flight in a reduction, if it is not for the reduction to say

    @property
    def together(self) -> int:
        """Threads side by side that go the same way."""
        return self.group

    def within(self, start: Scalar, stop: Scalar) -> Scalar:
        """Where a loop from `start` ends for this thread."""
        return stop

    def number(self, thread: Value, several: bool = True) -> None:
        """Find this thread's lane; `several` groups may be in a block."""
        b = self.b
        self.lane = b.emit("mod", thread, self.group, name="lane") if several else thread
        self.first = b.emit("eq", self.lane, 0, name="first")

    def declarations(self, say: Callable[[str], None]) -> list[Inst]:
        """The scratch arrays, which are said to be beside what other arrays take."""
        found = [Inst("shared", (), buffer) for buffer in self.scratch.values()]
        total = 0
        for inst in found:  # each at a multiple of its elements' size
            total = -(-total // inst.result.dtype.bytes) * inst.result.dtype.bytes + shared_bytes(inst)
        if found:
            say(f"scratch arrays, by which warps meet, take {total:,} bytes of shared memory a block")
        return found

    def shared(self, dtype: DType, size: int, at: int) -> Buffer:
        """The scratch array number `at` of this type and size. Whoever uses it puts a barrier before writing."""
        key = (dtype, size, at)
        if key not in self.scratch:
            self.scratch[key] = Buffer(self.b.fresh("scratch"), dtype, (Const(size),), "shared")
        return self.scratch[key]

    def barrier(self) -> None:
        self.b.emit("barrier", scope="block")

    def across_lanes(self, acc: Accumulator, state: State, lanes: int) -> State:
        """The states of lanes 0..lanes-1 joined: xor distances in each warp, warps by index; every lane of the group gets the result."""
        b, width = self.b, min(lanes, WARP)
        distance = width // 2
        while distance:
            other = tuple(b.emit("shfl_xor", x, distance=distance, width=width) for x in state)
            state = acc.join(b, state, other)
            distance //= 2
        if self.group <= WARP:
            return self.broadcast(state) if width < self.group else state
        parts = self.gather(state, lanes, reader=0)
        if len(parts) == 1:
            return parts[0]
        slots = Slots.declare(b, acc.dtypes, 1, "total")
        slots.put(b, parts[0])
        for part in parts[1:]:
            slots.put(b, acc.join(b, slots.get(b), part))
        return slots.get(b)

    def gather(self, state: State, lanes: int, reader: int) -> list[State]:
        """The states held by lane `reader` of each of the ceil(lanes / 32) warps, in every lane of the block."""
        b, warps = self.b, -(-lanes // WARP)
        arrays = tuple(self.shared(x.dtype, warps, at) for at, x in enumerate(state))
        self.barrier()
        mine = b.emit("eq", b.emit("mod", self.lane, WARP), reader)
        with b.if_(b.emit("and", mine, b.emit("lt", self.lane, warps * WARP))):
            for array, x in zip(arrays, state):
                b.emit("store", array, b.emit("floordiv", self.lane, WARP), x)
        self.barrier()
        return [tuple(b.emit("load", array, k) for array in arrays) for k in range(warps)]

    def broadcast(self, state: State) -> State:
        """Lane 0's state in every lane of the group."""
        if self.group == 1:
            return state
        if self.group <= WARP:
            return tuple(self.b.emit("shfl_idx", x, 0, width=self.group) for x in state)
        return self.gather(state, 1, reader=0)[0]
