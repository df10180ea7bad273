"""Elements of a tile read in another order by threads in other columns (part of tile-transposes).

A thread takes as many elements of a column as a piece of 16 bytes of what is stored has, one after another; threads beside it, in other
columns, begin at other rows, where those of what is stored are not aligned. An element lies in its piece of the shared array where it lies
in one of global memory, which is the number of its row and column there. So threads that read their first element each, then their
second, may meet in a bank: in rows of 8193 f32, of which 8191 are stored, two of four columns do, of 8193 all four. Columns that are a
few apart may not, as in 500 x 500 f16. Else threads exchange the order in which they read by bits of the number of their column, so that
none meet; what they have read is exchanged back between registers.

Where only the call says how long rows are, that takes more than it brings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vxc.analysis.transposes import Staged, Transpose
from vxc.analysis.vector_width import BYTES
from vxc.dtypes import BOOL, U8, U16, U32, DType
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Scalar
from vxc.layout.banks import BANK, LINE
from vxc.record import record
from vxc.target import WARP

LANES = 8  # threads beside one another along what is stored: 128 bytes, and no bank twice


class Order(NamedTuple):
    """Of a warp's columns, which are `step` apart, so many `alike` read in one order; 0: all do."""

    step: int
    alike: int


def order(x: Staged, found: Transpose, vector: int) -> Order:
    """In which columns a warp reads a tile, and in which orders, so that its threads meet in no bank, as far as that is known. A thread
    takes `vector` rows.
    """
    if x.apart is None or found.apart is None or vector * x.buffer.dtype.bytes != BYTES or x.buffer.dtype is BOOL:
        return Order(1, 0)
    ways = [*(Order(step, 0) for step in (1, 2, 4)), *(Order(1, alike) for alike in (2, 1))]
    return next((way for way in ways if _apart(x, found.apart, vector, way)), Order(1, 0))


def _apart(x: Staged, column: int, vector: int, way: Order) -> bool:
    """Whether threads of one access in different columns, whose rows begin `column` elements apart in what is stored, have their elements
    in other words of a piece, or in one row of it, whatever the first one is.
    """
    word = per_word(x)
    for first in range(vector):
        for v in range(0, vector, word):
            sides = [(c * way.step, v ^ (c // way.alike % (vector // word) * word if way.alike else 0)) for c in range(_columns(x))]
            rows = [(over, (row - over * column) % (2 * vector)) for over, row in sides]
            words = {((first + over + row * x.apart) // word, row) for over, row in rows}
            if len({number % (vector // word) for number, _ in words}) < len(words):
                return False
    return True


def _columns(x: Staged) -> int:
    """Columns that one phase of an access reads."""
    return min(WARP, LINE // x.buffer.dtype.bytes) // LANES


def per_word(x: Staged) -> int:
    """Elements in one word of a bank."""
    return max(1, BANK // x.buffer.dtype.bytes)


def turned(b: Builder, x: Staged, vector: int, side: Scalar, alike: int, load: Callable[[Scalar], Scalar]) -> Buffer:
    """An array of the thread with `vector` elements, of which `load` reads one of a number; `side` is that of the thread's column, of which
    `alike` read in one order. Orders differ in whole words of the banks, and words are what is exchanged back.
    """
    words = _Words(b, x, vector // per_word(x), load)
    most = min(words.count, _columns(x) // alike) - 1
    order = b.emit("mod", b.emit("floordiv", side, alike) if alike > 1 else side, words.count)
    held = b.declare("local", x.buffer.name, words.dtype, (words.count,))
    with b.loop(0, words.count, kind="unroll", name="u") as u:
        b.emit("store", held, u, words.load(b.emit("xor", u, order)))
    bit = 1
    while bit <= most:
        on = b.emit("ne", b.emit("mod", b.emit("floordiv", order, bit), 2), 0)
        further = b.declare("local", x.buffer.name, words.dtype, (words.count,))
        with b.loop(0, words.count, kind="unroll", name="u") as u:
            other = b.emit("load", held, b.emit("xor", u, bit))
            b.emit("store", further, u, b.emit("select", on, other, b.emit("load", held, u)))
        held, bit = further, 2 * bit
    return words.elements(held)


@record
class _Words:
    """Elements in a row as words of the banks, or as they are where none is narrower: `count` of them."""

    b: Builder
    x: Staged
    count: int
    one: Callable[[Scalar], Scalar]

    @property
    def dtype(self) -> DType:
        return self.x.buffer.dtype if per_word(self.x) == 1 else U32

    def load(self, number: Scalar) -> Scalar:
        """The word of a number."""
        b, each, whole = self.b, per_word(self.x), None
        if each == 1:
            return self.one(number)
        first = b.emit("mul", number, each)
        for k in range(each):
            part = b.emit("cast", b.emit("reinterpret", self.one(b.emit("add", first, k) if k else first), dtype=self._bits), dtype=U32)
            whole = part if whole is None else b.emit("or", whole, b.emit("shl", part, k * self._bits.bits))
        return whole

    def elements(self, held: Buffer) -> Buffer:
        """An array of the elements of the words in another."""
        b, each = self.b, per_word(self.x)
        if each == 1:
            return held
        found = b.declare("local", self.x.buffer.name, self.x.buffer.dtype, (self.count * each,))
        with b.loop(0, self.count, kind="unroll", name="u") as u:
            word = b.emit("load", held, u)
            for k in range(each):
                part = b.emit("cast", b.emit("shr", word, k * self._bits.bits), dtype=self._bits)
                b.emit("store", found, b.emit("add", b.emit("mul", u, each), k), b.emit("reinterpret", part, dtype=self.x.buffer.dtype))
        return found

    @property
    def _bits(self) -> DType:
        return {1: U8, 2: U16}[self.x.buffer.dtype.bytes]
