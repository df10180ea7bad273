"""Elements of a tile read in another order by threads in other columns (part of tile-transposes).

A thread takes as many elements of a column as a piece of 16 bytes of what is stored has, one after another; threads beside it, in other
columns, begin at other rows, where those of what is stored are not aligned. An element lies in its piece of the shared array where it lies
in one of global memory, which is the number of its row and column there. So threads that read their first element each, then their
second, may meet in a bank: in rows of 8193 f32, of which 8191 are stored, two of four columns do, of 8193 all four. Here threads exchange
the order in which they read by bits of the number of their column, so that none meet; what they have read is exchanged back between
registers.

Of elements of less than 4 bytes that costs more than the banks do, and where only the call says how long rows are, more than it brings.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from vxc.analysis.transposes import Staged, Transpose
from vxc.analysis.vector_width import BYTES
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Operand, Scalar
from vxc.layout.banks import BANK, LINE
from vxc.passes.nest import Nest

LANES = 8  # threads beside one another along what is stored: 128 bytes, and no bank twice


def turns(x: Staged, found: Transpose, nest: Nest, vector: int) -> int:
    """Of how many columns beside one another threads read in one order, so that none meet in a bank; 0 where orders need not differ, or
    would not help, or what decides it is not known. A thread takes `vector` rows.
    """
    size = x.buffer.dtype.bytes
    down, over = (nest.loops[k].result for k in (found.along, found.across))
    steps = _step(x.buffer, x.indices, down), _step(found.anchor.buffer, found.anchor.box, over)
    if size < BANK or None in steps or vector * size != BYTES:
        return 0
    columns = range(LINE // size // LANES)  # of one phase of an access
    rows, column = steps

    def apart(order: Callable[[int], int]) -> bool:
        """Whether columns whose threads read in these orders have their elements in other places of a piece, whatever the first one is."""
        return all(
            len({(first + c + ((v ^ order(c)) - c * column) * rows) % vector for c in columns}) == len(columns)
            for first in range(vector) for v in range(vector)
        )  # fmt: skip

    if apart(lambda c: 0):
        return 0
    return next((alike for alike in (2, 1) if apart(lambda c, n=alike: c // n % vector)), 0)


def _step(buffer: Buffer, indices: tuple[Operand, ...], loop: Operand) -> int | None:
    """Elements from one iteration of a loop to the next, where that is known."""
    at = indices.index(loop)
    extents = buffer.shape[at + 1 :] if buffer.strides is None else buffer.strides[at : at + 1]
    return prod(n.value for n in extents) if all(type(n) is Const for n in extents) else None


def turned(b: Builder, x: Staged, vector: int, side: Scalar, alike: int, load: Callable[[Scalar], Scalar]) -> Buffer:
    """An array of the thread with `vector` elements, of which `load` reads one of a number; `side` is that of the thread's column, of which
    `alike` read in one order.
    """
    order = b.emit("mod", b.emit("floordiv", side, alike) if alike > 1 else side, vector)
    most = min(vector, LINE // x.buffer.dtype.bytes // LANES // alike) - 1
    held = b.declare("local", x.buffer.name, x.buffer.dtype, (vector,))
    with b.loop(0, vector, kind="unroll", name="u") as u:
        b.emit("store", held, u, load(b.emit("xor", u, order)))
    bit = 1
    while bit <= most:
        on = b.emit("ne", b.emit("mod", b.emit("floordiv", order, bit), 2), 0)
        further = b.declare("local", x.buffer.name, x.buffer.dtype, (vector,))
        with b.loop(0, vector, kind="unroll", name="u") as u:
            other = b.emit("load", held, b.emit("xor", u, bit))
            b.emit("store", further, u, b.emit("select", on, other, b.emit("load", held, u)))
        held, bit = further, 2 * bit
    return held
