"""Vector widths: which accesses of a loop may be one access of several elements, and what must hold for it (stage=thread).

Looked at are the loops whose few iterations one thread runs one after another: of kind `unroll` with constant bounds, and those
that deal elements out to lanes (`deal`), which may as well be dealt out several in a row. An access can be widened if its offset
in memory is that of the first iteration plus the index. In an unrolled loop the first offset must be a multiple of the width, given that
certain arrays are aligned and certain dimensions divisible; nothing is assumed of either: `divides` and `aligned` are for the kernel to
test. What is dealt out may begin at any element, so that one array is met at a multiple of 16 bytes (`Shift`); the others are
accessed as wide as their addresses allow, for which all lanes of a warp should have an address alike.

Shared arrays begin at multiples of 16 bytes; loops that access nothing else are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vxc.analysis.conditions import ENDS, SAME, kind_of
from vxc.analysis.forms import Atom, Digit, Form, Unknown, atoms_of, digit, form
from vxc.analysis.offsets import Offsets, merge, run_of, settled
from vxc.analysis.wide_loop import Missed, Run, Shift, WideLoop, Widths, in_vain
from vxc.dtypes import I64
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.target import WARP

BYTES = 16  # of the widest access
MOST = 32  # elements of one loop
MEMORY = (*GLOBAL, "shared")  # what lanes share
_REFUSED = frozenset("loop while barrier break continue print shfl_xor shfl_up shfl_idx move move.async await".split())


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
        inside = [kernel.insts[i] for i in regions.body(at)] if count else []
        if inst.attr("deal"):  # element `first + u` instead of `first` + u * lanes, for any shift
            name = inst.result.name
            shift = form(0) if meets_shared(inside) else form(_shift(name))
            offsets.forms[name] = offsets.form(inst.operands[0]) * count + form(Atom(name)) + shift
        else:
            offsets.define(inst)
        if any(a.buffer.space in MEMORY for other in inside for a in accesses(other)):
            for other in inside:
                offsets.define(other)
            wide = _Loop(kernel, regions, offsets, at, count, found).widened(distinct)
            if wide:
                found.loops[at] = wide
    return found


def meets_shared(body: Iterable[Inst]) -> bool:
    """Whether a loop accesses shared memory, where what is dealt out begins at multiples: elements lie there as the tile has them."""
    return any(a.buffer.space == "shared" for inst in body for a in accesses(inst))


def _shift(index: str) -> Atom:
    """By how much the elements of a loop that deals them out are shifted."""
    return Atom(f"{index}+")


def _quotient(at: int) -> Atom:
    """What the division at a position gives for all elements of a loop."""
    return Atom(f"/{at}")


class _Loop:
    """One loop under examination."""

    def __init__(self, kernel: Kernel, regions: Regions, offsets: Offsets, at: int, count: int, found: Widths):
        self.insts, self.regions, self.offsets = kernel.insts, regions, offsets
        self.at, self.count, self.found = at, count, found
        self.index = Atom(kernel.insts[at].result.name)
        before = kernel.insts[:at]
        self.blocks = {i.result.name for i in before if i.op == "block_index"}
        # unknowns that are alike in all lanes: a loop's counts iterations
        self.alike = {*self.blocks, _shift(self.index.name).name, *(i.result.name for i in before if i.op == "loop")}
        # unknowns that may vary in it
        self.own = {i.result.name: i for i in self.insts[at + 1 : regions.end[at]] if type(i.result) is Value}
        self.guard, self.level = self._level()
        self.dealt = bool(kernel.insts[at].attr("deal")) and not meets_shared(kernel.insts[i] for i in regions.body(at))
        self.conditions = [] if self.dealt else [i for i in sorted(self.level) if self._is_condition(i)]
        for i in self.conditions:
            self.level |= set(regions.level(regions.body(i)))
        self.quotients = dict(self._quotients())
        self.alike |= {_quotient(i).name for i in self.quotients.values()}

    def _level(self) -> tuple[int, set[int]]:
        """The `if` around all of the body that does anything, or -1, and the positions that every iteration (that is let in) runs."""
        own = list(self.regions.level(self.regions.body(self.at)))
        last = own[-1] if own else -1
        guarded = last >= 0 and self.insts[last].op == "if" and self.regions.other[last] < 0
        if guarded and all(OPS[self.insts[i].op].pure for i in own[:-1]) and self._tests(last):
            return last, set(self.regions.level(self.regions.body(last)))
        return -1, set(own)

    def _tests(self, guard: int) -> tuple[Inst, ...]:
        """The comparisons that the condition of an `if` joins, each of the loop's element with a lower or an upper limit; else none."""
        made = {self.insts[i].result: self.insts[i] for i in range(self.at, guard)}
        found, work = [], [self.insts[guard].operands[0]]
        while work:
            test = made.get(work.pop())
            if test is None or test.op not in ("and", "lt", "ge"):
                return ()
            if test.op == "and":
                work += test.operands
                continue
            element, limit = map(self.offsets.form, test.operands)
            if self._run_of(element) is None or self._varies(limit):
                return ()
            found.append(test)
        return tuple(found)

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
        if not runs or self.insts[self.at].attr("deal") and in_vain(runs, found):
            return None
        tests = self._tests(self.guard) if self.guard >= 0 else ()
        elements, limits = ([self.offsets.form(test.operands[side]) for test in tests] for side in (0, 1))
        same = all(self._whole(f) for f in (*map(self._run_of, elements), *limits))
        whole = same and bool(tests) and not self.dealt
        around = {self.regions.parent[i] for run in runs for i in (*run.loads, *run.stores)}
        conditions = {i: self._kind(i) for i in self.conditions if i in around}
        digits, shift = self._digits(runs), self._shifted(runs)
        return WideLoop(self.at, self.count, tuple(runs), self.guard, tests, whole, digits, self.dealt, shift, conditions)

    def _shifted(self, runs: list[Run]) -> Shift | None:
        """Met at multiples is an array that is written, if any is; None where it is not known which elements are the first of all."""
        test = self._tests(self.guard)[0] if self.dealt and self.guard >= 0 else None
        element = self.own.get(test.operands[0].name) if test else None
        if element is None or element.op != "add" or element.operands[1] != self.insts[self.at].result:
            return None
        base = element.operands[0]
        made = next((i for i in self.insts[: self.at] if i.result == base), None)
        if made is None or not (made.op == "loop" or made.op == "mul" and made.operands[0].name in self.blocks):
            return None
        start = made.operands[0] if made.op == "loop" else Const(0)
        run = next((run for run in sorted(runs, key=lambda run: not run.stores) if not run.within and self._follows_shift(run)), None)
        return run and Shift(run, base, start)

    def _follows_shift(self, run: Run) -> bool:
        shift = _shift(self.index.name)
        offset = self.offsets.linear(run.buffer, run.indices)
        return offset.coefficient(shift) == form(1) and shift not in offset.without(shift).atoms()

    def _digits(self, runs: list[Run]) -> tuple[int, ...]:
        """Divisions that wide accesses leave in the loop."""
        wide = {i for run in runs for i in (*run.loads, *run.stores)}
        inside = self.regions.body(self.at)
        effects = [i for i in inside if not OPS[self.insts[i].op].pure and i != self.guard]
        used = [x for i in effects for x in (self.insts[i].operands[-1:] if i in wide else self.insts[i].operands)]
        used += [x for run in runs if run.within for x in run.indices]
        found = {i for i in slice_of(self.insts, self.regions, self.at, used) if self._goes_on(i)}
        found |= {i for run in runs for i in run.within}
        for by in (self.insts[i].operands[1] for i in found):
            if type(by) is Value:
                merge(self.found.least, {by.name: self.count})
        return tuple(sorted(found))

    def _goes_on(self, at: int) -> bool:
        """Whether a division is of consecutive numbers by what is no less than their count; powers of two are as cheap as they are."""
        inst = self.insts[at]
        by = inst.operands[1] if inst.op in ("floordiv", "mod") else None
        if type(by) is Const:
            divides = by.dtype is I64 and by.value >= self.count and (self.dealt or by.value & (by.value - 1))
        else:
            divides = type(by) is Value and by.name in self.offsets.params
        return bool(divides) and self._run_of(self.offsets.form(inst.operands[0])) is not None and self._computable(inst.operands)

    def _quotients(self) -> Iterator[tuple[Unknown, int]]:
        """The quotients of such divisions in a loop that deals out, and one division each."""
        for i in self.regions.body(self.at) if self.dealt else ():
            if self._goes_on(i):
                (quotient,) = digit("div", *map(self.offsets.form, self.insts[i].operands)).unknowns
                yield quotient, i

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
        first, within = self._run_of(offset), ()
        if first is None and all(self.insts[i].op == "load" for i in group):
            first, within = self._run_within(offset)
        if not self._computable(indices):
            self._miss(group, "where it is depends on memory")
        elif first is None:
            self._miss(group, self._stride(offset))
        elif buffer.dtype.bits < 8:
            self._miss(group, f"two elements of {buffer.dtype} share a byte")
        else:
            width = min(BYTES // buffer.dtype.bytes, self.count)
            while width > 1:
                needs = self._needs(first, width)
                if needs is not None and not (needs and buffer.space == "shared"):
                    self._need(buffer, width, needs, indices)
                    loads, stores = (tuple(i for i in group if self.insts[i].op == op) for op in ("load", "store"))
                    return Run(buffer, width, loads, stores, indices, self._same(offset), within)
                width //= 2
            if buffer.dtype.bytes < BYTES:
                self._miss(group, f"the first of {self.count} elements, {first}, may be at an odd place")
        return None

    def _run_within(self, offset: Form) -> tuple[Form | None, tuple[int, ...]]:
        """The first of consecutive elements as long as some divisions have one quotient, and these divisions."""
        used = {u: at for u, at in self.quotients.items() if any(u in m for m, _ in offset.terms)}
        return self._run_of(offset.replace(lambda u: form(_quotient(used[u])) if u in used else None)), tuple(used.values())

    def _needs(self, first: Form, width: int) -> dict[str, int] | None:
        """What must be divisible for elements to begin at a multiple of the width. Addresses are tested where elements are dealt out: there
        it is asked only that they are alike in all lanes of a warp (or in a quarter of them).
        """
        if not self.dealt:
            return self.offsets.divisible(first, width, self.found.divides)
        return {} if all(c % width == 0 or all(map(self._alike, m)) for m, c in first.terms) else None

    def _alike(self, u: Unknown) -> bool:
        if isinstance(u, Digit) and u.kind == "div" and (u.by.value or 0) >= WARP // 4:
            return True
        return all(a.name in self.alike or a.name in self.offsets.params for a in atoms_of(u))

    def _need(self, buffer: Buffer, width: int, needs: dict[str, int], indices: tuple[Operand, ...]) -> None:
        merge(self.found.divides, needs)
        if buffer.space == "param" and not self.dealt:
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
