"""How a nest is cut into tiles that go through shared memory (part of tile-transposes).

Nothing is assumed of where rows begin, unless sizes are known. A row of a tile is fetched from the boundary of 16 bytes at or before its
first element, a thread for each half of each sector of 32 bytes that it lies in, so that no sector is fetched by two warps. Its pieces of
16 bytes stay whole: rows lie as far apart in shared memory as in global memory, but for a multiple of 16 bytes, so that the place of an
element follows from its row by one product. Threads that read below one another, as many rows apart as such a piece has elements, meet
different banks where that distance is an odd number of elements; where it is not, a piece is left out after as many rows. Where only the
call says how far rows are apart, they lie whole pieces apart, each with a shift of its own. What is stored begins at a boundary of 32
bytes at or before the tile, so a tile has a few rows of the tile before (`halo`). Tiles that complete the same rows of what is stored are
neighbours in the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from vxc.analysis.transposes import Staged, Transpose
from vxc.analysis.vector_width import BYTES
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Kernel, Operand, Scalar, Value
from vxc.ir.tiles import TILE
from vxc.ir.walk import names
from vxc.passes.nest import Nest
from vxc.passes.turned_rows import LANES, order, turned
from vxc.record import record
from vxc.target import MAX_THREADS_PER_BLOCK, WARP

PIECES = 4  # that a thread copies: fewer keep too little under way, more leave too few threads


@record
class Shape:
    """Of the tiles of one nest, in elements: `rows` along the loop along which is stored, of which a thread takes `vector`, `columns`
    across; `halo` more rows before.
    """

    rows: int
    columns: int
    vector: int
    halo: int

    def pieces(self, x: Staged) -> int:
        """Pieces of 16 bytes that hold a row: one more where it may begin inside of one."""
        return self.columns // per_piece(x) + (x.begins % per_piece(x) > 0)

    def halves(self, x: Staged) -> int:
        """Pieces in the sectors that hold a row, if it begins in a sector as late as it may."""
        return self.columns // per_piece(x) + 2 * (x.begins % (2 * per_piece(x)) > 0)

    def length(self, x: Staged) -> int:
        """Elements of the shared array."""
        size, last = per_piece(x), self.rows + self.halo - 1
        over = beyond(x) or 0
        pieces = last * self.pieces(x) + (last // size if has_gaps(x) else 0) + (over and size - 1 + last * over) // size
        return (pieces + self.pieces(x)) * size

    def bytes(self, staged: Sequence[Staged]) -> int:
        return sum(self.length(x) * x.buffer.dtype.bytes for x in staged)

    def threads(self, staged: Sequence[Staged]) -> int:
        size = self.rows * self.columns * max(x.buffer.dtype.bytes for x in staged)
        return min(MAX_THREADS_PER_BLOCK, max(WARP, size // (PIECES * BYTES)))


def per_piece(x: Staged) -> int:
    """Elements in a piece of 16 bytes."""
    return BYTES // x.buffer.dtype.bytes


def beyond(x: Staged) -> int | None:
    """Elements by which rows lie further apart than whole pieces; None where only the call says."""
    return 0 if x.begins % per_piece(x) == 0 else None if x.apart is None else x.apart % per_piece(x)


def has_gaps(x: Staged) -> bool:
    """Whether a piece is left out after as many rows as a piece has elements."""
    return (beyond(x) or 0) % 2 == 0


@record
class _Lines:
    """Where the rows of a tile lie: `array` in shared memory; in global memory the offset of the first is `corner`, a row later it is
    `stride` more. `shift` and `over` are what these are more than whole pieces.
    """

    array: Buffer
    corner: Scalar
    stride: Scalar
    shift: Scalar
    over: Scalar


@record
class _Tile:
    """The tile of a block: its first row and column, where its arrays lie, and `rows` and `columns` of all tiles together."""

    first: Value
    start: Value
    lines: dict[Staged, _Lines]
    rows: Scalar
    columns: Scalar


def tiled(kernel: Kernel, nest: Nest, found: Transpose, shape: Shape) -> Kernel:
    """The kernel over tiles."""
    return _Tiled(kernel, nest, found, shape).kernel()


class _Tiled:
    """Rewrites one kernel."""

    def __init__(self, kernel: Kernel, nest: Nest, found: Transpose, shape: Shape):
        self.source, self.nest, self.found, self.shape = kernel, nest, found, shape
        self.b = Builder(names(kernel.params))
        self.rewriter = Rewriter(self.b)
        self.along, self.across = (nest.loops[k] for k in (found.along, found.across))

    def kernel(self) -> Kernel:
        b, shape, staged = self.b, self.shape, self.found.staged
        self.rewriter.copy_all(self.nest.prologue)
        b.at(self.nest.loops[0].loc)
        rows, columns = (self.rewriter(loop.operands[1]) for loop in (self.along, self.across))
        across = b.emit("ceildiv", columns, shape.columns)
        down = b.emit("ceildiv", b.emit("add", rows, shape.halo - 1) if shape.halo else rows, shape.rows)
        totals = [self._product(x.buffer.shape) for x in staged]
        strides = [self._product(x.buffer.shape[x.indices.index(self.along.result) + 1 :]) for x in staged]
        with ExitStack() as open_:
            for loop in self.nest.loops:
                if loop not in (self.along, self.across):
                    outer = self._grid(self.rewriter(loop.operands[1]), loop.result.name)
                    self.rewriter.mapping[loop.result] = open_.enter_context(outer)
            column, row = open_.enter_context(self._grid(across, "p")), open_.enter_context(self._grid(down, "q"))
            first, start = b.emit("mul", row, shape.rows), b.emit("mul", column, shape.columns)
            first = b.emit("sub", first, shape.halo) if shape.halo else first
            arrays = [b.declare("shared", f"{x.buffer.name}.tile", x.buffer.dtype, (shape.length(x),)) for x in staged]
            corners = [self._offset(x.buffer, x.indices, first, start) for x in staged]
            lines = {x: self._lines(x, *at) for x, *at in zip(staged, arrays, corners, strides)}
            tile = _Tile(first, start, lines, rows, columns)
            for x, total in zip(staged, totals):
                self._fetch(x, tile, total)
            self._compute(tile)
        return replace(self.source, insts=tuple(b.insts))

    def _grid(self, stop: Scalar, name: str):
        return self.b.loop(0, stop, kind="parallel", name=name, independent=TILE, threads=self.shape.threads(self.found.staged))

    def _few(self, count: int, together: bool = True):
        """Elements in a row, that are accessed at once where that is possible and asked for."""
        return self.b.loop(0, count, kind="serial", name="v", vector=count if together else 1, unroll=1)

    def _product(self, extents: Sequence[Scalar]) -> Scalar:
        product: Scalar = Const(1)
        for n in map(self.rewriter, extents):
            product = n if product == Const(1) else self.b.emit("mul", product, n)
        return product

    def _lines(self, x: Staged, array: Buffer, corner: Scalar, stride: Scalar) -> _Lines:
        size, over = per_piece(x), beyond(x)
        shift = self.b.emit("mod", corner, size) if x.begins % size else Const(0)
        return _Lines(array, corner, stride, shift, self.b.emit("mod", stride, size) if over is None else Const(over))

    def _offset(self, buffer: Buffer, indices: Sequence[Operand], row: Scalar, column: Scalar) -> Scalar:
        """The offset in memory of an element of given row and column."""
        return self.b.linear(buffer, list(map(self._at(row, column), indices)), self.rewriter)

    def _at(self, row: Scalar, column: Scalar) -> Rewriter:
        return self.rewriter.inside({self.along.result: row, self.across.result: column})

    def _fetch(self, x: Staged, tile: _Tile, total: Scalar) -> None:
        """Copy a tile, its rows from where a piece begins. Pieces beyond the row are left out, elements beyond the array."""
        b, shape, size = self.b.at(self.nest.body[x.loads[0]].loc), self.shape, per_piece(x)
        wanted = b.emit("min", b.emit("sub", tile.columns, tile.start), shape.columns)
        halves, lines = shape.halves(x), tile.lines[x]
        with b.loop(0, (shape.rows + shape.halo) * halves, kind="parallel", name="e", independent=TILE, **{"async": True}) as e:
            row, piece = b.emit("floordiv", e, halves), b.emit("mod", e, halves)
            begin = b.emit("add", lines.corner, b.emit("mul", row, lines.stride))
            first = b.emit("floordiv", begin, size)
            if halves > shape.columns // size:
                piece = b.emit("sub", piece, b.emit("mod", first, 2))
            flat = b.emit("mul", b.emit("add", first, piece), size)
            place = b.emit("mul", b.emit("add", self._line(row, x, lines), piece), size)
            has = b.emit("lt", flat, b.emit("add", begin, wanted))
            if halves > shape.columns // size:
                has = b.emit("and", b.emit("ge", piece, 0), has)
            with b.if_(has), self._few(size) as v:
                at = b.emit("add", flat, v)
                with b.if_(b.emit("and", b.emit("ge", at, 0), b.emit("lt", at, total))):
                    value = b.emit("load", x.buffer, *self._digits(x.buffer, at))
                    b.emit("store", lines.array, b.emit("add", place, v), value)

    def _line(self, row: Scalar, x: Staged, lines: _Lines) -> Scalar:
        """The piece of the shared array in which a row of the tile begins."""
        b, size = self.b, per_piece(x)
        line = b.emit("mul", row, self.shape.pieces(x))
        if has_gaps(x):
            line = b.emit("add", line, b.emit("floordiv", row, size))
        if x.begins % size == 0 or beyond(x) is None:
            return line
        return b.emit("add", line, b.emit("floordiv", b.emit("add", b.emit("mul", row, lines.over), lines.shift), size))

    def _digits(self, buffer: Buffer, flat: Scalar) -> list[Scalar]:
        """The indices of an element by its offset."""
        found: list[Scalar] = []
        for n in map(self.rewriter, buffer.shape[:0:-1]):
            found.append(self.b.emit("mod", flat, n))
            flat = self.b.emit("floordiv", flat, n)
        return [flat, *reversed(found)]

    def _compute(self, tile: _Tile) -> None:
        """The body, a few rows of one column to a thread: lanes side by side along what is stored, the rest of a warp in other columns."""
        b, shape, anchor = self.b.at(self.nest.loops[0].loc), self.shape, self.found.anchor
        beside, tall = WARP // LANES, shape.rows // (shape.vector * LANES)
        ways = [order(x, self.found, shape.vector) for x in tile.lines]
        step = max(way.step for way in ways)
        orders = {x: way.alike for x, way in zip(tile.lines, ways) if way.alike}
        with b.loop(0, shape.rows * shape.columns // shape.vector, kind="parallel", name="e", independent=TILE) as e:
            lane, rest = b.emit("mod", e, LANES), b.emit("floordiv", e, LANES)
            side, rest = b.emit("mod", rest, beside), b.emit("floordiv", rest, beside)
            chunk = b.emit("add", b.emit("mul", b.emit("mod", rest, tall), LANES), lane)
            column = self._column(b.emit("floordiv", rest, tall), side, step)
            here = b.emit("add", tile.start, column)
            with b.if_(b.emit("lt", here, tile.columns)):
                zero = self._offset(anchor.buffer, anchor.box, Const(0), here)
                limit = b.emit("add", zero, tile.rows)
                flat, begin = self._begin(zero, tile.first, b.emit("mul", chunk, shape.vector))
                load = partial(self._load, tile, column)
                with ExitStack() as open_:
                    if orders:
                        whole = b.emit("and", b.emit("ge", flat, zero), b.emit("le", b.emit("add", flat, shape.vector), limit))
                        open_.enter_context(b.if_(whole))
                        self._turned(tile, begin, here, side, orders, load)
                        b.else_()
                    with self._few(shape.vector, together=not orders) as v:
                        at, row = b.emit("add", flat, v), b.emit("add", begin, v)
                        with b.if_(b.emit("and", b.emit("ge", at, zero), b.emit("lt", at, limit))):
                            self._body(self._at(b.emit("add", tile.first, row), here), lambda x: load(x, row))

    def _turned(self, tile: _Tile, begin: Scalar, here: Scalar, side: Scalar, orders: Mapping[Staged, int], load: Callable) -> None:
        """The body for all elements of a thread, in an order by its column's number in a warp."""
        b, vector = self.b, self.shape.vector
        held = {}
        for x, alike in orders.items():
            held[x] = turned(b, x, vector, side, alike, lambda number: load(x, b.emit("add", begin, number)))
        with self._few(vector) as v:
            row = b.emit("add", begin, v)
            inner = self._at(b.emit("add", tile.first, row), here)
            self._body(inner, lambda x: b.emit("load", held[x], v) if x in held else load(x, row))

    def _begin(self, zero: Scalar, first: Value, along: Scalar) -> tuple[Scalar, Scalar]:
        """(offset in memory, row of the tile) at which elements are stored that lie `along` behind the boundary where a column of the tile
        begins; the column's row 0 lies at the offset `zero`. Written so that what divides the first is seen, and the range of the second.
        """
        b, halo, bound = self.b, self.shape.halo, 2 * self.shape.vector
        base = b.emit("add", zero, b.emit("add", first, halo))
        flat = b.emit("add", b.emit("mul", b.emit("floordiv", base, bound), bound), along)
        return flat, b.emit("add", b.emit("sub", halo, b.emit("mod", base, bound)), along) if halo else along

    def _body(self, inner: Rewriter, load: Callable[[Staged], Value]) -> None:
        """One iteration of the nest; `inner` knows its row and column in the array, `load` gives what is staged."""
        staged = {at: x for x in self.found.staged for at in x.loads}
        for at, inst in enumerate(self.nest.body):
            self.b.at(inst.loc)
            if at in staged:
                inner.mapping[inst.result] = load(staged[at])
            else:
                inner.copy(inst)

    def _column(self, group: Scalar, side: Scalar, step: int) -> Scalar:
        """The column of a warp's thread: its columns are `step` apart, those between them are of the next groups."""
        b, beside = self.b, WARP // LANES
        if step == 1:
            return b.emit("add", b.emit("mul", group, beside), side)
        block, within = b.emit("floordiv", group, step), b.emit("mod", group, step)
        return b.emit("add", b.emit("mul", b.emit("add", b.emit("mul", block, beside), side), step), within)

    def _load(self, tile: _Tile, column: Value, x: Staged, row: Scalar) -> Value:
        """The element of a tile at a row and column of it."""
        b, size, lines, over = self.b, per_piece(x), tile.lines[x], beyond(x)
        if over is None:
            shift = b.emit("mod", b.emit("add", lines.shift, b.emit("mul", row, lines.over)), size)
            place = b.emit("mul", self._line(row, x, lines), size)
        else:
            shift, place = lines.shift, b.emit("mul", row, self.shape.pieces(x) * size + over)
            if has_gaps(x):
                place = b.emit("add", place, b.emit("mul", b.emit("floordiv", row, size), size))
        return b.emit("load", lines.array, b.emit("add", place, b.emit("add", column, shift)))
