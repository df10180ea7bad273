"""Elements of a tile read in an order that depends on the thread (part of tile-transposes).

A thread takes as many elements of a column as a piece of 16 bytes of what is stored has, one after another; threads beside it, in other
columns, begin at other rows, where those of what is stored are not aligned. An element lies in its piece of the shared array where it lies
in one of global memory, which is the number of its row and column there. So threads that read their first element each, then their
second, may meet in a bank: in rows of 8193, of 8191 stored, two of four columns do, in rows of 8193, of 8193 stored, all four. Where each
thread begins with the row whose number among so many rows is 0, all are in rows that begin alike, and only the columns count. What it has
read is then turned to where it belongs, by selections between registers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from vxc.analysis.transposes import Staged, Transpose
from vxc.analysis.vector_width import BYTES
from vxc.dtypes import DTYPES, DType
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Operand, Scalar
from vxc.layout.banks import BANK
from vxc.passes.nest import Nest


def meet(x: Staged, found: Transpose, nest: Nest, vector: int, beside: int) -> bool:
    """Whether threads in `beside` columns next to one another, of which each takes `vector` rows, may meet in a bank."""
    size = x.buffer.dtype.bytes
    per = BYTES // size
    if not x.begins % per or not found.begins % vector or vector % per:
        return False  # all rows, or all columns, begin alike; or turning does not make them
    down, over = (nest.loops[k].result for k in (found.along, found.across))
    steps = _step(x.buffer, x.indices, down), _step(found.anchor.buffer, found.anchor.box, over)
    if None in steps:
        return True
    columns = range(min(beside, beside * BANK // size))  # of one phase of an access
    return any(
        len({(start + c - c * steps[0] * steps[1]) % per * size // max(BANK, size) for c in columns}) < len(columns) for start in range(per)
    )


def _step(buffer: Buffer, indices: tuple[Operand, ...], loop: Operand) -> int | None:
    """Elements from one iteration of a loop to the next, where that is known."""
    inner = (buffer.strides or (Const(1),))[indices.index(loop)] if buffer.strides else None
    extents = [inner] if inner is not None else buffer.shape[indices.index(loop) + 1 :]
    return prod(n.value for n in extents) if all(type(n) is Const for n in extents) else None


def turned(b: Builder, x: Staged, vector: int, begin: Scalar, load: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """Reads the `vector` elements from the row `begin` on, each by `load` of its row; gives what gives the one at a number of them."""
    dtype = x.buffer.dtype
    bits = dtype if dtype.compute is dtype else DTYPES[f"u{dtype.bits}"]  # what is only stored has no selection of its own
    low = b.emit("mod", begin, vector)
    back = b.emit("sub", vector, low)
    held = b.declare("local", x.buffer.name, bits, (vector,))
    with b.loop(0, vector, kind="unroll", name="u") as u:
        value = load(b.emit("add", begin, b.emit("mod", b.emit("add", u, back), vector)))
        b.emit("store", held, u, _as(b, value, bits))
    bit = 1
    while bit < vector:
        on = b.emit("ne", b.emit("mod", b.emit("floordiv", low, bit), 2), 0)
        further = b.declare("local", x.buffer.name, bits, (vector,))
        with b.loop(0, vector, kind="unroll", name="u") as u:
            ahead = b.emit("load", held, b.emit("mod", b.emit("add", u, bit), vector))
            b.emit("store", further, u, b.emit("select", on, ahead, b.emit("load", held, u)))
        held, bit = further, 2 * bit
    return lambda number: _as(b, b.emit("load", held, number), dtype)


def _as(b: Builder, value: Scalar, dtype: DType) -> Scalar:
    return value if value.dtype is dtype else b.emit("reinterpret", value, dtype=dtype)
