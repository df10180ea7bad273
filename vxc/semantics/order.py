"""Reduction order: part of every reduction's meaning, chosen here once by the defaults below and then carried as data.

`Order` is defined on element index alone, never on load width, alignment or thread count, so any realisation that
follows it gives the same bits.
"""

from __future__ import annotations

from dataclasses import astuple

from vxc.dtypes import DType
from vxc.record import record


@record
class Order:
    """How n elements are combined.

    Part p holds elements [p*S, min(p*S + S, n)), S = ceildiv(ceildiv(n, parts), v*lanes) * v*lanes, parts 0 meaning
    `parts_by_length(n)`. Within a part, in increasing e, element e goes to lane (e // v) % lanes and there to partial
    ((e // (v*lanes)) * v + e % v) % chunk, chunk 0 meaning S / lanes. k partials, and k parts, fold by h = (k+1)//2:
    a[i] += a[i+h] where i+h < k; lanes fold by xor distance min(lanes, 32)/2 .. 1, warps of 32 lanes by increasing index.
    """

    v: int
    chunk: int
    lanes: int
    parts: int = 1

    def __str__(self) -> str:
        return f"[{self.v}, {self.chunk}, {self.lanes}, {self.parts}]"

    def parts_of(self, n: int) -> int:
        """The number of parts of a reduction over n elements."""
        return self.parts or parts_by_length(n)

    @property
    def most_parts(self) -> int:
        """The number of parts of the longest reduction."""
        return self.parts or PARTS[-1][1]

    def span(self, n: int) -> int:
        """S, the elements of a part for a reduction over n."""
        tile = self.v * self.lanes
        return -(-(-(-n // self.parts_of(n))) // tile) * tile

    @property
    def warp(self) -> int:
        """Lanes that fold together by xor distance."""
        return min(self.lanes, 32)


def parse_order(text: str) -> Order:
    """The inverse of `str(order)`: "[v, chunk, lanes, parts]". ValueError where it is not one."""
    fields = [int(part) for part in text.strip().strip("[]").split(",")]
    if len(fields) != 4:
        raise ValueError(f"an order has four fields [v, chunk, lanes, parts], not {text!r}")
    return Order(*fields)


def check_order(order: Order) -> str | None:
    """What is wrong with an order, in the user's terms, or None."""
    if any(not isinstance(field, int) for field in astuple(order)):
        return "an order is made of integers"
    if order.v < 1:
        return f"the vector width must be at least 1, not {order.v}"
    if order.chunk < 0:
        return f"the chunk must be 0 (single-shot) or more, not {order.chunk}"
    if order.lanes not in (1, 2, 4, 8, 16) and not (order.lanes % 32 == 0 and 32 <= order.lanes <= 1024):
        return f"lanes must be 1, 2, 4, 8, 16 or a multiple of 32 up to 1024, not {order.lanes}"
    if order.parts < 0:
        return f"there must be at least one part, or 0 (by the length), not {order.parts}"
    return None


# Fragments: as the accumulators of an MMA lie, two neighbours to a thread and four threads to a row.
FRAGMENT_ORDER = Order(v=2, chunk=2, lanes=4)

# Lanes by the number of 16-byte vectors in a row, first line that fits: (vectors, lanes where 4 elements are a vector, lanes else). Whole
# 128-byte lines per warp load decide (8 lanes or more); up to 128 vectors a warp per row needs no barrier, and several rows share a block.
# Beyond, as measured on rows that are kept (softmax, norms) and on sums: of f32 4 vectors a lane, which leave registers to load ahead what
# goes with the row; of f16 about 8, since a fold across more warps costs more than it spares where elements are narrow.
# Up to 32 vectors the lines differ in nothing but the lanes that idle: an order of more lanes gives the same bits.
_LANES = [
    (1, 1, 1), (2, 2, 2), (4, 4, 4), (8, 8, 8), (16, 16, 16),
    (128, 32, 32), (256, 64, 64), (512, 128, 64), (1024, 256, 128), (2048, 512, 256),
]  # fmt: skip
_LANES_BEYOND = 512
_LANES_UNKNOWN = 32
_LANES_ALONE = 512  # one result: the reduction is all the parallelism there is

_PART = 1 << 13  # elements a part is worth
_PARTS_LEAST = 16  # of a row that is worth a second launch
_PARTS_MAX = 64
_PARTS_ALONE = 256  # about two blocks a multiprocessor
_PART_APART = 1 << 9  # elements that a part is worth where they lie apart, which fewer threads share
_CHUNK_UNVECTORISED = 4  # independent partials where there is no vector to give them
_CHUNK_APART = 32  # the same of elements that lie apart, as of a column: so many threads may share one, and get the bits of one

# Parts of a row whose length only the call knows, where 32 lanes take a part: from so many elements on, so many. Few long rows
# need thousands of warps to keep the memory busy; a part of 2048 elements still gives each lane 16 loads. More than 64 parts of 64 rows
# are more blocks than an H200 holds at once.
PARTS = ((0, 1), (1 << 15, 16), (1 << 18, 64))


def parts_by_length(n: int) -> int:
    """The parts of a reduction over `n` elements whose order leaves them to the length: a power of two."""
    return next(parts for least, parts in reversed(PARTS) if n >= least)


def reduce_order(
    length: int | None,
    dtype: DType | None,
    contiguous: bool,
    *,
    chunk: int | None = None,
    lanes: int | None = None,
    parts: int | None = None,
    alone: bool = False,
) -> Order:
    """The order of a reduction over `length` elements (None if known only at run time).

    `dtype` is the narrowest array type read along the axis (None if no array is), `contiguous` whether those elements are
    neighbours, `alone` whether the reduction lies inside no parallel loop, so that there is one result. `chunk`, `lanes`,
    `parts` are the author's (`@chunk`, `@lanes`, `--reduce-chunk`) and override the defaults.
    """
    v = 128 // dtype.bits if contiguous and dtype is not None else 1
    strided = dtype is not None and not contiguous
    return Order(
        v=v,
        chunk=_default_chunk(length, v, strided and not alone and lanes is None) if chunk is None else chunk,
        lanes=_default_lanes(length, v, strided, alone) if lanes is None else lanes,
        parts=_default_parts(length, v, strided, alone) if parts is None else parts,
    )


def _default_chunk(length: int | None, v: int, apart: bool) -> int:
    """Of a short constant length no more than fill: those beyond change no bit."""
    if not apart:
        return v if v > 1 else _CHUNK_UNVECTORISED
    return _CHUNK_APART if length is None else min(_CHUNK_APART, 1 << max(0, length - 1).bit_length())


def _default_lanes(length: int | None, v: int, strided: bool, alone: bool) -> int:
    if strided and not alone:
        return 1  # neighbouring threads then take neighbouring results, which is what coalesces
    if length is None:
        return _LANES_ALONE if alone else _LANES_UNKNOWN
    vectors = -(-length // v)
    return next((words if v == 4 else others for limit, words, others in _LANES if vectors <= limit), _LANES_BEYOND)


def _default_parts(length: int | None, v: int, strided: bool, alone: bool) -> int:
    """For a constant length and a whole array a power of two, which lanes fold without a remainder."""
    if length is None:
        return _PARTS_ALONE if alone else 0 if v > 1 else 1
    part = _PART_APART if strided and not alone else _PART
    most = _PARTS_ALONE if strided or alone else _PARTS_MAX
    return min(1 << (length // part).bit_length() - 1, most) if length >= _PARTS_LEAST * part else 1
