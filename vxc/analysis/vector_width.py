"""Vector widths: which accesses of a loop may be one access of several elements, and what must hold for it (stage=thread).

Looked at are the loops whose few iterations one thread runs one after another: of kind `unroll` with constant bounds, and those
that deal elements out to lanes (`deal`), which may as well be dealt out several in a row. An access can be widened if its offset
in memory is that of the first iteration plus the index, and the first offset is a multiple of the width, given that certain
arrays are aligned and certain dimensions divisible. Nothing is assumed of either: `needs` and `aligned` are for the kernel to test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vxc.analysis.conditions import ENDS, SAME, kind_of
from vxc.analysis.forms import Atom, Form, form
from vxc.analysis.offsets import Offsets, merge, run_of, settled
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import LOOPS, Regions

BYTES = 16  # of the widest access
MOST = 32  # elements of one loop
GLOBAL = ("param", "workspace")
MEMORY = (*GLOBAL, "shared")  # what lanes share
_REFUSED = frozenset(("loop", "while", "barrier", "break", "continue", "print", "shfl_xor", "shfl_up", "shfl_idx"))


@dataclass(frozen=True)
class Run:
    """Accesses of a loop to the same elements of `buffer`, which can be `width` elements at once. Positions are in the kernel.

    `offset` is a value of the loop that is the offset in memory, or None: then it follows from `indices`.
    """

    buffer: Buffer
    width: int
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    indices: tuple[Operand, ...]
    offset: Operand | None

    @property
    def reads(self) -> bool:
        """Whether an iteration sees what was there before."""
        return bool(self.loads) and (not self.stores or self.loads[0] < self.stores[0])


@dataclass(frozen=True)
class WideLoop:
    """A loop of `count` iterations with something to widen.

    `guard` is the position of the `if` around its body, or -1; `whole` says that it decides the same for all iterations. `digits` are the
    divisions in it by a parameter that go on from one iteration to the next: the remainder by one up, or back to 0. `conditions` are the
    `if`s with accesses in them, by position: SAME in all iterations, or true in all where they are at both ENDS.
    """

    at: int
    count: int
    runs: tuple[Run, ...]
    guard: int
    whole: bool
    digits: tuple[int, ...]
    conditions: dict[int, str]


@dataclass(frozen=True)
class Missed:
    """An access that stays as it is, and why."""

    at: int
    buffer: Buffer
    why: str


@dataclass
class Widths:
    """What is found in one kernel. `aligned`: buffer -> bytes that it must begin at a multiple of; `divides`: parameter -> what must
    divide it; `least`: parameter -> what it must be at least.
    """

    loops: dict[int, WideLoop] = field(default_factory=dict)
    missed: list[Missed] = field(default_factory=list)
    aligned: dict[str, int] = field(default_factory=dict)
    divides: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)


def candidate(inst: Inst) -> int:
    """How many iterations of a loop one thread runs in a row, or could; 0 where that is no question."""
    if inst.op != "loop":
        return 0
    if inst.attr("deal"):
        return inst.attr("deal")
    wanted = inst.attr("kind") == "unroll" or inst.attr("vector")
    if not wanted or not all(type(x) is Const for x in inst.operands):
        return 0
    start, stop, step = (*(x.value for x in inst.operands), 1)[:3]
    count = stop - start
    return count if step == 1 and start == 0 and 1 < count <= MOST and count & (count - 1) == 0 else 0


def vector_widths(kernel: Kernel, distinct: bool) -> Widths:
    """`distinct` is False where two parameters may be the same memory."""
    found = Widths()
    if not any(map(candidate, kernel.insts)):
        return found
    regions = Regions.of(kernel.insts)
    offsets = Offsets.of(kernel.params)
    for at, inst in enumerate(kernel.insts):
        count = candidate(inst)
        if inst.attr("deal"):  # element `first + u` instead of `first` + u * lanes
            offsets.forms[inst.result.name] = offsets.form(inst.operands[0]) * count + form(Atom(inst.result.name))
        else:
            offsets.define(inst)
        inside = [kernel.insts[i] for i in regions.body(at)] if count else []
        if any(a.buffer.space in MEMORY for other in inside for a in accesses(other)):
            for other in inside:
                offsets.define(other)
            wide = _Loop(kernel, regions, offsets, at, count, found).widened(distinct)
            if wide:
                found.loops[at] = wide
    return found


class _Loop:
    """One loop under examination."""

    def __init__(self, kernel: Kernel, regions: Regions, offsets: Offsets, at: int, count: int, found: Widths):
        self.insts, self.regions, self.offsets = kernel.insts, regions, offsets
        self.at, self.count, self.found = at, count, found
        self.index = Atom(kernel.insts[at].result.name)
        # unknowns that may vary in it
        self.own = {i.result.name: i for i in self.insts[at + 1 : regions.end[at]] if type(i.result) is Value}
        self.guard, self.level = self._level()
        self.conditions = [i for i in sorted(self.level) if self._is_condition(i)]
        for i in self.conditions:
            self.level |= set(regions.level(regions.body(i)))

    def _level(self) -> tuple[int, set[int]]:
        """The `if` around all of the body that does anything, or -1, and the positions that every iteration (that is let in) runs."""
        own = list(self.regions.level(self.regions.body(self.at)))
        last = own[-1] if own else -1
        guarded = last >= 0 and self.insts[last].op == "if" and self.regions.other[last] < 0
        if guarded and all(OPS[self.insts[i].op].pure for i in own[:-1]) and self._bound(last):
            return last, set(self.regions.level(self.regions.body(last)))
        return -1, set(own)

    def _bound(self, guard: int) -> tuple[Form, Form, Inst] | None:
        """(first element, limit, comparison) where the condition of an `if` is that the loop's element is below a limit."""
        name = self.insts[guard].operands[0]
        test = next((self.insts[i] for i in range(self.at, guard) if self.insts[i].result == name), None)
        if test is None or test.op != "lt":
            return None
        element, limit = map(self.offsets.form, test.operands)
        first = self._run_of(element)
        return None if first is None or self._varies(limit) else (first, limit, test)

    def _run_of(self, f: Form) -> Form | None:
        """As `run_of`; None where what is left may vary in the loop."""
        first = run_of(f, self.index, self.count)
        return None if first is None or self._varies(first) else first

    def _is_condition(self, at: int) -> bool:
        """Whether an `if` is one whose accesses may be widened."""
        return self.insts[at].op == "if" and at != self.guard and self.regions.other[at] < 0 and self._kind(at) is not None

    def _kind(self, at: int) -> str | None:
        """What is known of the condition of an `if`, given what divides by now; see `conditions.kind_of`."""
        test = self.insts[at].operands[0]
        return kind_of(test, self.own, self.offsets.form, self._kind_of_index, self._whole) if self._computable((test,)) else None

    def _kind_of_index(self, f: Form) -> str | None:
        if not self._varies(settled(f, self.index, self.count)):
            return SAME
        return ENDS if self._run_of(f) is not None else None

    def _whole(self, f: Form) -> bool:
        """Whether an index is at first, or always, a multiple of the iterations, with what divides anyway."""
        first = self._run_of(f)
        needs = self.offsets.divisible(f if first is None else first, self.count, self.found.divides)
        return needs is not None and all(self.found.divides.get(k, 1) >= v for k, v in needs.items())

    def _varies(self, f: Form) -> bool:
        return any(a == self.index or a.name in self.own for a in f.atoms())

    def widened(self, distinct: bool) -> WideLoop | None:
        inside = [i for i in self.regions.body(self.at)]
        if any(self.insts[i].op in _REFUSED for i in inside):
            return None
        touched: dict[str, list[int]] = {}
        for i in inside:
            for access in accesses(self.insts[i]):
                if access.buffer.space in MEMORY:
                    touched.setdefault(access.buffer.name, []).append(i)
        found = [a for places in touched.values() for i in places for a in accesses(self.insts[i])]
        writes = any("w" in a.mode and a.buffer.space in GLOBAL for a in found)
        if writes and not distinct:
            self._miss(next(iter(touched.values())), "two parameters of the kernel may be the same array")
            return None
        runs = [run for places in touched.values() for run in self._runs(places)]
        if not runs:
            return None
        whole = False
        if self.guard >= 0:
            first, limit, _ = self._bound(self.guard)
            whole = self._whole(first) and self._whole(limit)
        around = {self.regions.parent[i] for run in runs for i in (*run.loads, *run.stores)}
        conditions = {i: self._kind(i) for i in self.conditions if i in around}
        return WideLoop(self.at, self.count, tuple(runs), self.guard, whole, self._digits(runs), conditions)

    def _digits(self, runs: list[Run]) -> tuple[int, ...]:
        """Divisions that wide accesses leave in the loop."""
        wide = {i for run in runs for i in (*run.loads, *run.stores)}
        inside = self.regions.body(self.at)
        effects = [i for i in inside if not OPS[self.insts[i].op].pure and i != self.guard]
        used = [x for i in effects for x in (self.insts[i].operands[-1:] if i in wide else self.insts[i].operands)]
        found = []
        for i in slice_of(self.insts, self.regions, self.at, used):
            inst = self.insts[i]
            by = inst.operands[1] if inst.op in ("floordiv", "mod") else None
            if type(by) is not Value or by.name not in self.offsets.params:
                continue
            if self._run_of(self.offsets.form(inst.operands[0])) is not None and self._computable(inst.operands):
                merge(self.found.least, {inst.operands[1].name: self.count})
                found.append(i)
        return tuple(found)

    def _runs(self, places: list[int]) -> Iterator[Run]:
        """The accesses to one buffer, those to the same elements together."""
        buffer = self.insts[places[0]].operands[0]
        by_offset: dict[Form, list[int]] = {}
        for i in places:
            by_offset.setdefault(self.offsets.linear(buffer, self._indices(i)), []).append(i)
        stored = any(self.insts[i].op != "load" for i in places)
        if stored and (len(by_offset) > 1 or any(self.insts[i].op == "atomic" for i in places)):
            self._miss(places, f"`{buffer.name}` is written here, and not only at the element that the iteration reads")
            return
        for offset, group in by_offset.items():
            home = next((self.regions.parent[i] for i in group if i in self.level), -1)
            outside = [i for i in group if self.regions.parent[i] != home or i not in self.level]
            group = [i for i in group if i not in outside]
            if outside and (stored or not group):
                self._miss(outside, "it happens only under a condition")
            elif self._varies(offset):  # not where all iterations read the same one
                run = self._run(buffer, offset, group)
                if run is not None:
                    yield run

    def _run(self, buffer: Buffer, offset: Form, group: list[int]) -> Run | None:
        indices = self._indices(group[0])
        first = self._run_of(offset)
        if not self._computable(indices):
            self._miss(group, "where it is depends on memory")
        elif first is None:
            self._miss(group, self._stride(offset))
        elif buffer.dtype.bits < 8:
            self._miss(group, f"two elements of {buffer.dtype} share a byte")
        else:
            width = min(BYTES // buffer.dtype.bytes, self.count)
            while width > 1:
                needs = self.offsets.divisible(first, width, self.found.divides)
                if needs is not None:
                    self._need(buffer, width, needs, indices)
                    loads, stores = (tuple(i for i in group if self.insts[i].op == op) for op in ("load", "store"))
                    return Run(buffer, width, loads, stores, indices, self._same(offset))
                width //= 2
            if buffer.dtype.bytes < BYTES:
                self._miss(group, f"the first of {self.count} elements, {first}, may be at an odd place")
        return None

    def _need(self, buffer: Buffer, width: int, needs: dict[str, int], indices: tuple[Operand, ...]) -> None:
        merge(self.found.divides, needs)
        if buffer.space == "param":
            merge(self.found.aligned, {buffer.name: width * buffer.dtype.bytes})
        for x in indices:
            if type(x) is Value:
                merge(self.found.least, dict.fromkeys(self.offsets.divisors.get(x.name, ()), 1))

    def _same(self, offset: Form) -> Operand | None:
        """A value that is the offset."""
        for i in range(self.at, self.regions.end[self.at]):
            result = self.insts[i].result
            if type(result) is Value and self.offsets.forms.get(result.name) == offset and self._computable((result,)):
                return result
        return None

    def _computable(self, values: Iterable[Operand]) -> bool:
        """Whether values follow from the index and what is known before the loop, by pure instructions."""
        return all(i == self.at or OPS[self.insts[i].op].pure for i in slice_of(self.insts, self.regions, self.at, values))

    def _indices(self, at: int) -> tuple[Operand, ...]:
        return accesses(self.insts[at])[0].box

    def _stride(self, offset: Form) -> str:
        """Why an offset is none of consecutive elements."""
        step, rest = offset.coefficient(self.index), offset.without(self.index)
        if step is None or self.index in rest.atoms() or step == form(1):
            return "its elements do not follow one another in memory throughout"
        known = f"consecutive iterations are {step} elements apart"
        return known if step.terms else "how its index follows from the iteration is not known"

    def _miss(self, places: Iterable[int], why: str) -> None:
        self.found.missed += [Missed(i, self.insts[i].operands[0], why) for i in list(places)[:1]]


def slice_of(insts, regions: Regions, loop: int, values: Iterable[Operand]) -> list[int]:
    """Positions of the instructions in a loop (and of the loop itself) that values are made from, in order."""
    defined = {insts[i].result.name: i for i in range(loop, regions.end[loop]) if type(insts[i].result) is Value}
    found: set[int] = set()
    work = list(values)
    while work:
        x = work.pop()
        at = defined.get(x.name) if type(x) is Value else None
        if at is not None and at not in found:
            found.add(at)
            if at != loop:
                work += insts[at].operands
    return sorted(found)


def around(regions: Regions, at: int) -> int:
    """The outermost loop around a position, itself counted."""
    return next((p for p in reversed([at, *regions.parents(at)]) if regions.insts[p].op in LOOPS))
