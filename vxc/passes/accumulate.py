"""What a reduction accumulates, as IR: where it starts, how an element joins, how two partial results join.

The state is one value, or for argmax and argmin a (value, index) pair. Every form of a reduction (per thread, across
lanes, across warps, across parts) is built from these three, so all of them agree.
"""

from __future__ import annotations

from vxc.dtypes import I64, U64, DType
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Scalar, constant
from vxc.record import record
from vxc.semantics import REDUCTIONS, empty, identity

UNROLLED = 64  # slots, at most

State = tuple[Scalar, ...]


@record
class Accumulator:
    """Reduction `op` in the dtype `dtype`, that of partial results; for argmax and argmin of their values. Elements may be narrower."""

    op: str
    dtype: DType

    @property
    def finds_index(self) -> bool:
        return self.op in ("argmax", "argmin")

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return (self.dtype, I64) if self.finds_index else (self.dtype,)

    @property
    def ordered(self) -> bool:
        """Whether the result depends on how elements are grouped."""
        return self.dtype.is_float and REDUCTIONS[self.op].ordered

    def start(self) -> State:
        first = constant(identity(self.op, self.dtype).item(), self.dtype)
        return (first, Const(-1)) if self.finds_index else (first,)

    def result_if_empty(self) -> Const | None:
        """What a reduction over nothing gives, or None where that is what accumulation starts with anyway."""
        if self.finds_index:
            return None
        value = constant(empty(self.op, self.dtype).item(), self.dtype)
        return None if value == self.start()[0] else value

    def feed(self, b: Builder, state: State, operands: tuple[Scalar, ...], index: Scalar) -> State:
        """The state after one more element."""
        operands = tuple(self.widened(b, x) for x in operands)
        if self.op == "dot":
            x, y = operands
            if self.dtype.is_float:
                return (b.emit("fma", x, y, state[0]),)
            return (b.emit("add", state[0], b.emit("mul", x, y)),)
        x = b.emit("abs", operands[0]) if self.op == "absmax" else operands[0]
        return self.join(b, state, (x, index) if self.finds_index else (x,))

    def widened(self, b: Builder, x: Scalar) -> Scalar:
        """An element in the dtype of partial results."""
        return x if x.dtype is self.dtype else b.emit("cast", x, dtype=self.dtype)

    def join(self, b: Builder, one: State, two: State) -> State:
        """Two partial results as one."""
        if not self.finds_index:
            return (b.emit(REDUCTIONS[self.op].combine, one[0], two[0]),)
        take = self._second_wins(b, one, two)
        return tuple(b.emit("select", take, y, x) for x, y in zip(one, two))

    def _second_wins(self, b: Builder, one: State, two: State) -> Scalar:
        """NaN first, then the better value, then the lesser index, -1 (nothing yet) last."""
        (x, i), (y, j) = one, two
        better = b.emit("gt" if self.op == "argmax" else "lt", y, x)
        equal = b.emit("eq", x, y)
        if self.dtype.is_float:
            x_nan, y_nan = b.emit("ne", x, x), b.emit("ne", y, y)
            better = b.emit("or", better, b.emit("and", y_nan, b.emit("not", x_nan)))
            equal = b.emit("or", equal, b.emit("and", x_nan, y_nan))
        earlier = b.emit("lt", b.emit("reinterpret", j, dtype=U64), b.emit("reinterpret", i, dtype=U64))
        return b.emit("or", better, b.emit("and", equal, earlier))


@record
class Slots:
    """A state held in storage: one buffer a component, cells for one slot, else arrays."""

    buffers: tuple[Buffer, ...]

    @classmethod
    def declare(cls, b: Builder, dtypes: tuple[DType, ...], count: int, name: str) -> Slots:
        if count == 1:
            return cls(tuple(b.declare("cell", name, dtype) for dtype in dtypes))
        return cls(tuple(b.declare("local", name, dtype, (count,)) for dtype in dtypes))

    def get(self, b: Builder, at: Scalar | int = 0) -> State:
        return tuple(b.emit("load", x, *self._index(x, at)) for x in self.buffers)

    def put(self, b: Builder, state: State, at: Scalar | int = 0) -> None:
        for x, value in zip(self.buffers, state):
            b.emit("store", x, *self._index(x, at), value)

    def _index(self, buffer: Buffer, at: Scalar | int) -> tuple:
        return (at,) if buffer.shape else ()


def kind_of(count: int) -> str:
    """The kind of a loop over so many slots: unrolled, they are registers."""
    return "unroll" if count <= UNROLLED else "serial"


def fold_halves(b: Builder, acc: Accumulator, slots: Slots, count: int, live: Scalar | None = None, width: int = 1) -> None:
    """k slots into slot 0 by h = (k+1)//2: a[i] joins a[i+h] where i+h < k, then k = h.

    `live` says how many slots hold anything, where that is known only at run time; both are then powers of two. `width` results lie
    side by side, each of so many slots that many apart.
    """
    while count > 1:
        half = (count + 1) // 2
        known = live is None or isinstance(live, Const)
        rest = Const((count - half) * width) if known else b.emit("select", b.emit("gt", live, half), Const(half), 0)
        with b.loop(0, rest, kind=kind_of(count) if known else "serial") as i:
            slots.put(b, acc.join(b, slots.get(b, i), slots.get(b, b.emit("add", i, half * width))), i)
        count = half
