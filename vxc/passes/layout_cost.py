"""What layouts cost: an estimate of a multiprocessor's cycles for the loops over some tiles in one block (part of infer-layouts).

    sectors     of 32 bytes that loads and stores of global memory move: SECTOR cycles each, its share of the device's bandwidth
    turns       of the banks of shared memory, a cycle each, and of shuffles. Rows of an array lie without a gap or with one, whichever
                is better for all accesses to it, since avoid-bank-conflicts places arrays after this
    exchanges   of a tile through shared memory: each thread stores its own elements, between two barriers of BARRIER cycles
    registers   of 4 bytes that the tiles take of a thread
    issue       an instruction of a warp takes a cycle of one of the 4 schedulers; the busiest warp's follow one another

All are counted by enumerating what each thread of the block accesses. What the call alone knows counts as 0, sizes of arrays as SIZE, loops
of unknown length as TRIPS. The figures rank candidates; they are no prediction of a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import groupby
from math import prod

import numpy as np

from vxc.analysis.ownership import Ownership, Runs
from vxc.ir.facts import trip_count
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Operand
from vxc.ir.ops import accesses
from vxc.ir.walk import OPENERS
from vxc.layout.banks import NOWHERE, cycles, different, nowhere
from vxc.layout.places import Places
from vxc.passes.layout_roots import Layouts
from vxc.record import state
from vxc.target import WARP

SIZE, TRIPS = 1 << 12, 8
SECTOR, BARRIER, SCHEDULERS = 1.5, 20, 4
SECTOR_BYTES = 32
GAPS = (0, 4, 16)  # bytes behind a row
WIDEST = 16  # bytes of an access


@state
class Cost:
    """`banks` are the turns for each array, by how its rows lie."""

    sectors: float = 0
    banks: dict[str, np.ndarray] = field(default_factory=dict)
    shuffles: float = 0
    exchanges: int = 0
    barriers: float = 0
    registers: int = 0
    issue: float = 0

    def access(self, array: str, turns: np.ndarray) -> None:
        self.banks[array] = self.banks.get(array, 0) + turns

    @property
    def turns(self) -> float:
        return self.shuffles + sum(float(turns.min()) for turns in self.banks.values())

    @property
    def cycles(self) -> float:
        return SECTOR * self.sectors + self.turns + BARRIER * self.barriers + self.issue

    @property
    def key(self) -> tuple[float, int]:
        return round(self.cycles, 3), self.registers

    def __str__(self) -> str:
        exchanged = f", {self.exchanges} exchange{'s' * (self.exchanges > 1)}" if self.exchanges else ""
        return (
            f"{self.sectors:,.0f} sectors, {self.turns:,.0f} turns of the banks{exchanged}, {self.registers} registers a thread:"
            f" about {self.cycles:,.0f} cycles"
        )


class Costs:
    """Costs of one kernel's accesses."""

    def __init__(self, ownership: Ownership):
        self.ownership, self.insts = ownership, ownership.insts
        self._turns: dict[tuple, np.ndarray] = {}
        self._issued: dict[Runs, float] = {}
        self._weights = {-1: 1}  # of what stands in each region
        for at, parent in enumerate(ownership.regions.parent):
            if self.insts[at].op in OPENERS:
                self._weights[at] = self._weights[parent] * _times(self.insts[at])

    def weight(self, at: int) -> float:
        """How often a position is come to, by serial loops around it."""
        return self._weights[self.ownership.regions.parent[at]]

    def loops(self, outermost: Iterable[int], layouts: Layouts) -> Cost:
        """What the given loops cost but for their accesses to tiles: global memory, shared arrays, instructions."""
        cost = Cost()
        for loop in outermost:
            for _, body in groupby(self.ownership.regions.body(loop), self.ownership.around):
                positions = [*body]
                runs = self.ownership.runs(positions[0], layouts.loops)
                if isinstance(runs, str):
                    continue
                issue = self._issue(runs)
                for at in positions:
                    weight = self.weight(at)
                    cost.issue += weight * issue
                    for access in accesses(self.insts[at]):
                        if access.buffer.space in GLOBAL:
                            cost.sectors += weight * self.sectors(runs, access.buffer, access.box)
                        elif access.buffer.space == "shared":
                            cost.access(access.buffer.name, self.turns(at, access.buffer, access.box, layouts))
        return cost

    def _issue(self, runs: Runs) -> float:
        """Of an instruction in these loops, come to once."""
        if runs not in self._issued:
            busy = _warps(runs.exists, False).any(axis=-1)
            by_warp = busy.reshape(-1, busy.shape[-1]).sum(axis=0)
            self._issued[runs] = max(by_warp.sum() / SCHEDULERS, by_warp.max())
        return self._issued[runs]

    def sectors(self, runs: Runs, buffer: Buffer, box: Sequence[Operand]) -> float:
        """Moved by one coming to an access to global memory, by all warps."""
        return float(different(self._sectors(runs, buffer, box, WARP)).sum())

    def fewest(self, runs: Runs, buffer: Buffer, box: Sequence[Operand]) -> float:
        """The same if all threads made one request, but one at least for each warp."""
        requests = different(self._sectors(runs, buffer, box, WARP)).any(axis=1).sum()
        return float(max(requests, different(self._sectors(runs, buffer, box, self.ownership.threads)).sum()))

    def _sectors(self, runs: Runs, buffer: Buffer, box: Sequence[Operand], lanes: int) -> np.ndarray:
        """[requests of so many lanes, accesses of a request]: sectors, sorted."""
        numbers = self._numbers(runs, box, _strides(buffer))
        sectors = _warps(np.where(numbers < NOWHERE, numbers * buffer.dtype.bytes // SECTOR_BYTES, NOWHERE), lanes=lanes)
        in_a_row = runs.loops[-1].held.run
        if in_a_row > 1:  # one request, or several that find in the cache what the first brought
            sectors = np.moveaxis(sectors, -3, -2).reshape(*sectors.shape[:-3], -1, in_a_row * lanes)
        return np.sort(sectors.reshape(-1, sectors.shape[-1]), axis=1)

    def turns(self, at: int, buffer: Buffer, box: Sequence[Operand], layouts: Layouts) -> np.ndarray:
        """Of the banks, for an access to an array in shared memory, or to a tile that is there; for each way in which its rows may lie."""
        runs = self.ownership.runs(at, layouts.loops)
        warps = -(-self.ownership.threads // WARP)
        if isinstance(runs, str):  # one element for all threads, or a thread's alone
            around = self.ownership.around(at)
            counts = [self.ownership.count(loop) or TRIPS for loop in around]
            return self.weight(at) * np.full(len(GAPS), max(warps, prod(counts) / WARP))
        numbers = self._numbers(runs, box, _strides(buffer), np.int32)
        return self.weight(at) * self._turned(numbers, buffer, runs.loops[-1].held.run)

    def _turned(self, numbers: np.ndarray, buffer: Buffer, run: int = 1) -> np.ndarray:
        """As `_turns`, which many accesses share: loops over like tiles come to like elements."""
        key = (numbers.tobytes(), numbers.shape, buffer.dtype, buffer.shape[-1], run)
        if key not in self._turns:
            self._turns[key] = _turns(numbers, buffer, run)
        return self._turns[key]

    def phases(self, runs: Runs, buffer: Buffer, box: Sequence[Operand], lie: np.ndarray) -> np.ndarray:
        """Cycles of each phase of an access, come to once, to a shared array whose elements lie in the places of `lie`."""
        numbers = self._numbers(runs, box, _strides(buffer))
        none = numbers.dtype.type(nowhere(numbers.dtype))
        known = (numbers >= 0) & (numbers < len(lie))
        first, size, _ = _requests(np.where(known, lie[np.where(known, numbers, 0)], none), buffer, runs.loops[-1].held.run)
        byte = np.where(first < none, first * size, none)
        return cycles(_warps(byte, none).reshape(-1, WARP), size)

    def exchange(self, tile: Buffer, where: Places, at: int) -> np.ndarray:
        """Turns for storing all elements of a tile once, each by a thread that holds it."""
        slots = np.full((where.slots, self.ownership.threads), nowhere(np.int32), np.int32)
        slots[where.slot[:, 0], where.thread[:, 0]] = np.arange(len(where.slot))
        return self.weight(at) * self._turned(slots, tile)

    def _numbers(self, runs: Runs, box: Sequence[Operand], strides: Sequence[int], dtype: type = np.int64) -> np.ndarray:
        """[digits.., thread]: elements in memory order, that of `nowhere` where there is none."""
        number = self.ownership.numbers(runs.chain, box, strides, unknown=True).astype(dtype)
        return np.where(runs.exists, number.take(runs.iterations), number.dtype.type(nowhere(dtype)))


def _times(opener: Inst) -> int:
    """How often a serial loop runs its body; 1 for what is none."""
    serial = opener.op == "loop" and opener.attr("map") in (None, "all")
    if serial and all(isinstance(x, Const) for x in opener.operands):
        return trip_count(*(x.value for x in (*opener.operands, Const(1))[:3]))
    return TRIPS if serial or opener.op == "while" else 1


def _strides(buffer: Buffer) -> list[int]:
    sizes = [x.value if isinstance(x, Const) else SIZE for x in buffer.strides or buffer.shape]
    return sizes if buffer.strides else [prod(sizes[at + 1 :]) for at in range(len(sizes))]


def _warps(x: np.ndarray, nothing: int | bool = NOWHERE, lanes: int = WARP) -> np.ndarray:
    """[.., warps, 32] of [.., threads], or of so many lanes each; `nothing` is what threads have that there are not."""
    missing = -x.shape[-1] % lanes
    padded = np.concatenate([x, np.full((*x.shape[:-1], missing), nothing)], axis=-1) if missing else x
    return padded.reshape(*padded.shape[:-1], -1, lanes)


def _turns(numbers: np.ndarray, buffer: Buffer, run: int = 1) -> np.ndarray:
    """Of accesses to these elements, `run` at a time where they follow one another in memory."""
    row, none = buffer.shape[-1].value, numbers.dtype.type(nowhere(numbers.dtype))
    first, size, together = _requests(numbers, buffer, run)
    row = max(row // together, 1)
    gaps = np.array([-(-gap // size) * size for gap in GAPS], first.dtype).reshape(-1, *[1] * first.ndim)
    lie = np.where(first < none, first * size + first // row * gaps, none)
    return cycles(_warps(lie, none).reshape(-1, WARP), size).reshape(len(GAPS), -1).sum(axis=1).astype(float)


def _requests(numbers: np.ndarray, buffer: Buffer, run: int) -> tuple[np.ndarray, int, int]:
    """Accesses to these elements, `run` at a time where they follow one another: their numbers, of so many bytes, of so many elements."""
    size, none = buffer.dtype.bytes, numbers.dtype.type(nowhere(numbers.dtype))
    if run > 1:
        first, exists = numbers[..., :1, :], numbers < none
        whole = (numbers - first == np.arange(run)[:, None]) & exists | ~exists
        if whole.all() and run * size in (2, 4, 8, WIDEST) and not (first[first < none] % run).any():
            return np.where(first < none, first // run, none), size * run, run
    return numbers, size, 1
