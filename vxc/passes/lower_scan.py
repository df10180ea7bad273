"""A scan loop as the lanes of a group run it (part of lower-to-threads), in the order `semantics.scan` defines.

The elements go by tiles of V * lanes. For each tile, the body up to a `prefix` runs for the lane's V elements, which keeps
running results; lane totals meet by shuffles at distances 1, 2, 4 .., warp totals through shared scratch; then the rest of
the body runs with each element's prefix. What the later part needs of the earlier is kept in arrays of V.
"""

from __future__ import annotations


from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Scalar, Value, constant
from vxc.ir.ops import OPS
from vxc.ir.walk import Regions
from vxc.passes.accumulate import Accumulator
from vxc.passes.team import Team
from vxc.record import record
from vxc.semantics import Order, identity
from vxc.target import WARP


def lower_scan(threads, inst: Inst, body, rewriter: Rewriter, team: Team) -> None:
    """Emit the scan `inst` with its body; `threads` lowers pieces of it."""
    b, order = threads.b, Order(*inst.attr("order"))
    length = rewriter(inst.operands[0])
    pieces, prefixes = _pieces(body)
    kept = _kept(pieces, prefixes)
    carries = [_Carry.declare(b, Accumulator(p.attr("op"), p.result.dtype)) for p in prefixes]
    uniform = team.group if team.group > 1 else None
    # tiles wait for one another, so that unrolling would only take registers
    with b.loop(0, length, order.v * order.lanes, kind="serial", name="tile", uniform=uniform, unroll=1) as tile:
        first = b.emit("add", tile, b.emit("mul", team.lane, order.v))
        limit = length if order.lanes >= team.group else b.emit("select", b.emit("lt", team.lane, order.lanes), length, 0)
        arrays = {v: b.declare("local", v.name, v.dtype, (order.v,)) for v in kept}
        available: list[Value] = []  # what pieces so far have left in `arrays`
        prefix = None
        for number, piece in enumerate(pieces):
            made = _made(pieces, prefixes, number)
            own = _Own.declare(b, carries[number].acc, order.v) if number < len(prefixes) else None
            with b.loop(0, order.v, kind="unroll", name="v") as v, b.if_(b.emit("lt", b.emit("add", first, v), limit)):
                inner = rewriter.inside({inst.result: b.emit("add", first, v)})
                inner.mapping.update({value: b.emit("load", arrays[value], v) for value in available})
                if prefix is not None:
                    inner.mapping[prefixes[number - 1].result] = prefix(v)
                threads.lower(piece, inner, None)
                for value in made:
                    if value in arrays:
                        b.emit("store", arrays[value], v, inner(value))
                if own is not None:
                    own.put(b, inner(prefixes[number].operands[0]), v)
            available += [value for value in made if value in arrays]
            prefix = carries[number].meet(b, team, order, tile, own) if own is not None else None


def _pieces(body) -> tuple[list, list[Inst]]:
    """The body cut at the prefixes of its own level."""
    regions = Regions.of(body)
    cuts = [i for i in regions.top() if body[i].op == "prefix"]
    ends = [-1, *cuts, len(body)]
    return [body[a + 1 : z] for a, z in zip(ends, ends[1:])], [body[i] for i in cuts]


def _results(piece) -> list[Value]:
    """The values that a piece defines for what follows it."""
    regions = Regions.of(piece)
    return [piece[i].result for i in regions.top() if isinstance(piece[i].result, Value) and not OPS[piece[i].op].opens]


def _made(pieces, prefixes, at: int) -> list[Value]:
    """What is new from piece `at` on: its own results and that of the prefix before it."""
    return _results(pieces[at]) + ([prefixes[at - 1].result] if at else [])


def _kept(pieces, prefixes) -> list[Value]:
    """Values that a piece later than the one that gets them uses."""
    kept: dict[Value, None] = {}
    for at in range(len(pieces)):
        later = [inst for piece in pieces[at + 1 :] for inst in piece] + prefixes[at + 1 :]
        used = {x for inst in later for x in inst.operands if isinstance(x, Value)}
        kept.update((value, None) for value in _made(pieces, prefixes, at) if value in used)
    return list(kept)


@record
class _Own:
    """The lane's own running results in a tile, and their total."""

    acc: Accumulator
    running: Buffer
    total: Buffer

    @classmethod
    def declare(cls, b: Builder, acc: Accumulator, v: int) -> _Own:
        running, total = b.declare("local", "own", acc.dtype, (v,)), b.declare("cell", "total", acc.dtype)
        b.emit("store", total, _identity(acc))
        return cls(acc, running, total)

    def put(self, b: Builder, x: Scalar, v: Scalar) -> None:
        x = self.acc.widened(b, x)
        joined = self.acc.join(b, (b.emit("load", self.total),), (x,))[0]
        joined = b.emit("select", b.emit("eq", v, 0), x, joined)
        b.emit("store", self.running, v, joined)
        b.emit("store", self.total, joined)


@record
class _Carry:
    """The result of the tiles before."""

    acc: Accumulator
    tiles: Buffer

    @classmethod
    def declare(cls, b: Builder, acc: Accumulator) -> _Carry:
        tiles = b.declare("cell", "tiles", acc.dtype)
        b.emit("store", tiles, _identity(acc))
        return cls(acc, tiles)

    def meet(self, b: Builder, team: Team, order: Order, tile: Scalar, own: _Own):
        """Join the lanes' totals; gives the function from an element's place in its lane to its prefix."""
        width = min(order.lanes, WARP)
        upto = b.emit("load", own.total)
        place = b.emit("mod", team.lane, width)
        distance = 1
        while distance < width:
            lower = b.emit("shfl_up", upto, distance=distance, width=width)
            upto = b.emit("select", b.emit("ge", place, distance), self._join(b, lower, upto), upto)
            distance *= 2
        lanes = _Term(b.emit("shfl_up", upto, distance=1, width=width), b.emit("ge", place, 1)) if width > 1 else None
        warps, total = self._warps(b, team, order, upto, width)
        tiles = _Term(b.emit("load", self.tiles), b.emit("gt", tile, 0))
        before = tiles
        for term in (warps, lanes):
            before = before if term is None else before.join(b, self._join, term)
        b.emit("store", self.tiles, b.emit("select", tiles.present, self._join(b, tiles.value, total), total))

        def prefix(v: Scalar) -> Scalar:
            mine = b.emit("load", own.running, v)
            return b.emit("select", before.present, self._join(b, before.value, mine), mine)

        return prefix

    def _warps(self, b: Builder, team: Team, order: Order, upto: Scalar, width: int):
        """(the warps before this one, the tile's total)."""
        if order.lanes <= WARP:
            return None, b.emit("shfl_idx", upto, width - 1, width=width) if width > 1 else upto
        totals = [state[0] for state in team.gather((upto,), order.lanes, reader=WARP - 1)]
        warp = b.emit("floordiv", team.lane, WARP)
        sums = totals[:1]
        for each in totals[1:]:
            sums.append(self._join(b, sums[-1], each))
        before = sums[0]
        for at in range(1, len(sums) - 1):
            before = b.emit("select", b.emit("gt", warp, at), sums[at], before)
        return _Term(before, b.emit("gt", warp, 0)), sums[-1]

    def _join(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return self.acc.join(b, (x,), (y,))[0]


@record
class _Term:
    """A value that is there only where `present`; what is absent is skipped, not added."""

    value: Scalar
    present: Scalar

    def join(self, b: Builder, combine, other: _Term) -> _Term:
        both = combine(b, self.value, other.value)
        value = b.emit("select", self.present, b.emit("select", other.present, both, self.value), other.value)
        return _Term(value, b.emit("or", self.present, other.present))


def _identity(acc: Accumulator) -> Const:
    return constant(identity(acc.op, acc.dtype).item(), acc.dtype)
