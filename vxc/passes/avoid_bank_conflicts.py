"""avoid-bank-conflicts: where the elements of a shared array lie, so that lanes which access it together do not meet in a bank.

Before: stage=thread, accesses have their widths; the elements of every shared array lie in memory order.
After:  an array whose accesses meet in banks has a `pitch` (rows with a gap behind each) or a `swizzle` (bits of the row's number are
        xored into the number of a vector of it), whichever makes its accesses take the fewest cycles. Accesses name elements as
        before; a `move` of more elements than now lie together is several; what a `move.async` copies stays together. Offsets in the
        arena, and `shared_bytes`, are those of the new sizes: arrays that had no byte in common have none.

    shared @tile: f32[32, 32] {offset=0}               shared @tile: f32[32, 32] {offset=0, pitch=[32, 33]}
    %1: f32 = load @tile, %lane, %j            ->      %1: f32 = load @tile, %lane, %j

Conflicts are counted, not guessed: the elements that a warp accesses together are enumerated for some trips of the loops around
(`analysis/shared_access.py`), the cycles that they take follow from `layout/banks.py`, for every candidate. Among equals the one with
fewer instructions is taken, then a pitch, whose arithmetic is less and leaves constant parts of an index constant, then fewer bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np

from vxc.analysis.shared_access import SharedAccess, shared_accesses
from vxc.ir.builder import Builder
from vxc.ir.kernel import Const, Inst, Kernel, Operand, placement_of, shared_bytes
from vxc.ir.narrow import Reason, rows_lie, vectors_lie, words
from vxc.ir.plan import Plan
from vxc.ir.walk import names
from vxc.layout.arrangement import arrangement
from vxc.layout.banks import LINE, cycles, nowhere
from vxc.layout.placement import IN_ORDER, Placement, places
from vxc.pass_manager import Context, Pass
from vxc.passes.infer_vector_widths_text import width_of
from vxc.passes.plan_shared import lay_out_again
from vxc.target import WARP

WIDEST, GAP = 16, 8  # bytes of a gap at most; how many times as long the row before it is, at least
ROWS = 24  # different warps looked at
VECTORS = (4, 8, 16, 32, 64)  # bytes of what changes places
MOVE = 2  # bytes of the narrowest `move`
WORTH = 0.95  # of the cycles before, at most, for a change


class _Cost:
    """What the accesses to one array, of elements of `size` bytes, cost in a placement."""

    def __init__(self, accesses: list[SharedAccess], size: int):
        self.size = size
        groups: dict[int, list[SharedAccess]] = {}
        for a in accesses:
            groups.setdefault(a.width, []).append(a)
        self.groups = [(width, *_rows(group)) for width, group in groups.items()]

    def of(self, placements: Sequence[Placement]) -> np.ndarray:
        """[placements, 3]: cycles, cycles without conflicts, instructions, of all accesses of a warp."""
        costs = np.zeros((len(placements), 3))
        for width, offsets, weights in self.groups:
            pieces = np.array([min(width, p.run or width) for p in placements])
            for piece in sorted({*pieces.tolist()}):
                chosen = np.flatnonzero(pieces == piece)
                parts = offsets + np.arange(0, width, piece, dtype=offsets.dtype)[:, None, None]  # of accesses in pieces
                lie = places([placements[c] for c in chosen], parts)
                byte = np.where(offsets < 0, np.array(nowhere(lie.dtype), lie.dtype), lie * self.size)
                phases = cycles(byte.reshape(-1, WARP), piece * self.size).reshape(len(chosen), len(parts), len(offsets), -1)
                runs = phases > 0
                counts = phases.sum(axis=(1, 3)), runs.sum(axis=(1, 3)), runs.any(axis=3).sum(axis=1)
                costs[chosen] += np.stack([weights @ x.T for x in counts], axis=1)
        return costs


class _Costed(NamedTuple):
    """A placement, its cycles without conflicts, and what it is chosen by: cycles, instructions, numbers in the swizzle, elements."""

    placement: Placement
    ideal: float
    key: tuple[float, float, int, int]


def _rows(accesses: list[SharedAccess]) -> tuple[np.ndarray, np.ndarray]:
    """The different warps of accesses of one width, and how much each counts; ROWS of those that count most."""
    counts: dict[bytes, float] = {}
    for a in accesses:
        for warp in (a.offsets + 1).astype(">u8").reshape(-1, WARP):  # as bytes they sort as numbers do
            row = warp.tobytes()
            counts[row] = counts.get(row, 0.0) + a.weight / len(a.offsets)
    most = sorted(counts, key=lambda row: (-counts[row], row))[:ROWS]
    rows = np.frombuffer(b"".join(most), ">u8").reshape(-1, WARP).astype(np.int32) - 1
    return rows, np.array([counts[row] for row in most])


def candidates(shape: tuple[int, ...], size: int, widest: int) -> Iterator[list[Placement]]:
    """For elements of `size` bytes: gaps behind rows of each dimension, then swizzles of one field, those of each vector together.

    First come the vectors that leave accesses of up to `widest` elements whole.
    """
    gaps = [1 << k for k in range(5) if size << k <= WIDEST]
    rows = sorted({prod(shape[at:]) for at in range(1, len(shape))} - {1, prod(shape)})
    yield [Placement(pitch=(row, row + gap)) for row in rows for gap in gaps if gap * GAP <= row]
    fields = sorted(_fields(prod(shape), size), key=lambda field: field[0] < widest)
    for _, group in groupby(fields, key=itemgetter(0)):
        yield [Placement(swizzle=field) for field in group]


def _fields(count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Fields that exchange vectors within the banks, of rows that there are at least two of."""
    for vector in (n // size for n in VECTORS if n >= size):
        turns = 2
        while vector * turns * size <= LINE:
            row = vector * turns
            while row < count:
                yield vector, turns, row
                row *= 2
            turns *= 2


def _may_follow(first: tuple[int, ...], field: tuple[int, ...]) -> bool:
    """Whether two fields are a placement: vectors change places within the rows of both."""
    return max(first[0] * first[1], field[0] * field[1]) <= min(first[2], field[2])


def choose(inst: Inst, accesses: list[SharedAccess], room: int, whole: int) -> tuple[Placement, str]:
    """The placement of a shared array that takes at most `room` bytes, and what it changes, in words ('' for nothing).

    Elements that lie together in it take `whole` bytes at least.
    """
    buffer = inst.result
    shape, size = tuple(n.value for n in buffer.shape), buffer.dtype.bytes
    count = prod(shape)
    if not accesses or count * size <= LINE:
        return IN_ORDER, ""  # all of it is in different banks
    cost = _Cost(accesses, size)
    before, least, fewest = cost.of([IN_ORDER])[0]
    if least >= WORTH * before:
        return IN_ORDER, ""
    widest = max(a.width for a in accesses)
    narrowest = max(whole, MOVE if widest > 1 else 1)

    def ordered(*placements: Placement) -> list[_Costed]:
        """Those that there is room for, the best first."""
        sizes = [(p, p.size(count)) for p in placements if p.run * size >= narrowest]
        fit = [(p, n) for p, n in sizes if n * size <= room]
        costs = cost.of([p for p, _ in fit]).tolist() if fit else []
        found = [_Costed(p, ideal, (taken, issued, len(p.swizzle), n)) for (p, n), (taken, ideal, issued) in zip(fit, costs)]
        return sorted(found, key=attrgetter("key"))

    best: list[_Costed] = []
    for group in candidates(shape, size, widest):
        best = sorted([*best, *ordered(*group)], key=attrgetter("key"))
        if best and best[0].key <= (least, fewest, 3, count):
            break  # no swizzle that is left takes fewer
    if best and best[0].key[0] > best[0].ideal:
        firsts = {p.run: p.swizzle for p, *_ in reversed(best) if p.swizzle}  # of each size of vector, the best
        fields = [*_fields(count, size)]
        pairs = [(first, field) for first in firsts.values() for field in fields if _may_follow(first, field)]

        def apart(pair: tuple[tuple[int, ...], ...]) -> bool:
            """Whether two fields leave less than the widest access whole."""
            return min(vector for vector, *_ in pair) < widest

        for _, group in groupby(sorted(pairs, key=apart), key=lambda pair: (apart(pair), pair[0])):
            more = [Placement(swizzle=(*first, *field)) for first, field in group]
            best = sorted([best[0], *ordered(*more)], key=attrgetter("key"))
            if best[0].key <= (least, fewest, 6, count):
                break  # none that is left takes fewer
    placement, ideal, (after, *_) = best[0] if best else _Costed(IN_ORDER, least, (before, fewest, 0, count))
    turns = f"{before / least:.3g} turns of the banks to an access"
    if after > WORTH * before:
        return IN_ORDER, f"{turns}, and neither gaps nor exchanged vectors make it fewer"
    return placement, f"{after / ideal:.3g} instead of {turns}"


def _given(inst: Inst, accesses: list[SharedAccess], room: int, whole: int) -> tuple[Placement, str]:
    """The placement that the author wants, and what it does, in words; with a better one of the same order, if there is one."""
    shape, size = tuple(n.value for n in inst.result.shape), inst.result.dtype.bytes
    placement = arrangement(inst.attr("layout")).placement(shape)
    if not accesses:
        return placement, "as @layout says"
    cost = _Cost(accesses, size)
    (before, least, _), (after, *_) = cost.of([IN_ORDER, placement])
    instead = "" if placement is IN_ORDER else f" instead of {before / least:.3g}"
    text = f"as @layout says: {after / least:.3g}{instead} turns of the banks to an access"
    if after > least:
        other, _ = choose(inst, accesses, room, whole)
        taken, ideal, _ = cost.of([other])[0]
        text += f"; {taken / ideal:.3g} if {_words(other, size)}" if other is not IN_ORDER and taken < after else ""
    return placement, text


def _words(placement: Placement, size: int) -> str:
    return rows_lie(*(n * size for n in placement.pitch)) if placement.pitch else vectors_lie(placement.run * size)


def _why(placement: Placement, size: int) -> Reason:
    return ("pitch", *(n * size for n in placement.pitch)) if placement.pitch else ("swizzle", placement.run * size)


def arrange(kernel: Kernel, context: Context) -> Kernel:
    declared = [inst for inst in kernel.insts if inst.op == "shared" and placement_of(inst) is IN_ORDER]
    found: dict[str, list[SharedAccess]] = {}
    for access in shared_accesses(kernel) if declared else ():
        found.setdefault(access.buffer.name, []).append(access)
    copied = [inst for inst in kernel.insts if inst.op == "move.async"]  # in pieces they would cost what they save
    whole = {name: max(i.attr("width") * i.operands[0].dtype.bytes for i in copied if i.operands[0].name == name)
             for name in {i.operands[0].name for i in copied}}  # fmt: skip
    placements: dict[str, Placement] = {}
    free = context.target.shared_per_block - sum(shared_bytes(inst) for inst in kernel.insts if inst.op == "shared")
    for inst in declared:
        room, name = free + shared_bytes(inst), inst.result.name
        if inst.attr("layout"):
            placement, why = _given(inst, found.get(name, []), room, whole.get(name, 1))
        else:
            placement, why = choose(inst, found.get(name, []), room, whole.get(name, 1))
        if placement is not IN_ORDER:
            placements[name] = placement
            more = _bytes(inst, placements) - shared_bytes(inst)
            free -= more
            extra = f", {more:,} bytes more" if more else ""
            context.applied(f"`{name}`: {_words(placement, inst.result.dtype.bytes)}{extra}: {why}", kernel.name, inst.loc)
        elif inst.attr("layout"):
            context.applied(f"`{name}`: its elements lie in order, {why}", kernel.name, inst.loc)
        elif why:
            context.missed(f"`{name}` keeps its bank conflicts: {why}", kernel.name, inst.loc)
    if not placements and not any(inst.attr("layout") for inst in declared):
        return kernel
    kernel = lay_out_again(kernel, {i.result.name: _bytes(i, placements) for i in declared if i.result.name in placements})
    return replace(kernel, insts=_split(kernel, [_placed(inst, placements) for inst in kernel.insts], placements, context))


def _bytes(inst: Inst, placements: dict[str, Placement]) -> int:
    return placements[inst.result.name].size(prod(n.value for n in inst.result.shape)) * inst.result.dtype.bytes


def _placed(inst: Inst, placements: dict[str, Placement]) -> Inst:
    if inst.op != "shared":
        return inst
    placement = placements.get(inst.result.name, placement_of(inst))
    return inst.with_attrs(layout=None, pitch=placement.pitch or None, swizzle=placement.swizzle or None)


def _split(kernel: Kernel, insts: list[Inst], placements: dict[str, Placement], context: Context) -> tuple[Inst, ...]:
    """Moves as several where their elements no longer lie together."""
    b = Builder(names(kernel.params, kernel.insts))
    said = set()

    def shifted(index: Operand, by: int) -> Operand:
        if isinstance(index, Const):
            return Const(index.value + by, index.dtype)
        return b.emit("add", index, by) if by else index

    for inst in insts:
        b.at(inst.loc)
        if inst.op != "move":
            b.add(inst)
            continue
        width = inst.attr("width")
        piece = min([width, *(placements[x.name].run for x in inst.operands[:4:2] if x.name in placements)])
        if piece >= width:
            b.add(inst)
            continue
        to, first, source, start = inst.operands
        what, shared = ("store", to) if to.name in placements else ("load", source)
        why = _why(placements[shared.name], shared.dtype.bytes)
        message, about = width_of(what, shared.name, piece * shared.dtype.bytes)
        if (about, inst.loc) not in said:
            said.add((about, inst.loc))
            context.applied(f"{message}, not {width * shared.dtype.bytes}: {words(why)}", kernel.name, inst.loc, about)
        for k in range(0, width, piece):
            if piece > 1:
                b.emit("move", to, shifted(first, k), source, shifted(start, k), narrow=why, width=piece)
            else:
                value = b.emit("load", source, *_indices(b, source.shape, shifted(start, k)), narrow=why if shared is source else None)
                b.emit("store", to, *_indices(b, to.shape, shifted(first, k)), value, narrow=why if shared is to else None)
    return tuple(b.insts)


def _indices(b: Builder, shape: tuple[Const, ...], offset: Operand) -> list[Operand]:
    """The indices of the element that has this number in memory order."""
    found: list[Operand] = []
    for extent in reversed(shape[1:]):
        found.append(b.emit("mod", offset, extent))
        offset = b.emit("floordiv", offset, extent)
    return [offset, *reversed(found)]


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels([arrange(kernel, context) for kernel in plan.kernels])


AVOID_BANK_CONFLICTS = Pass(
    "avoid-bank-conflicts", run, "place shared elements so that lanes do not meet in a bank", needs=("thread", "arena")
)
