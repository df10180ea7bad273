"""Vector widths: which accesses of a loop may be one access of several elements, and what must hold for it (stage=thread).

Looked at are the loops whose few iterations one thread runs one after another: of kind `unroll` with constant bounds, and those
that deal elements out to lanes (`deal`), which may as well be dealt out several in a row. An access can be widened if its offset
in memory is that of the first iteration plus the index: then its elements are a run. A load may also go up by one every 2, 4 .. iterations,
where it begins at the first iteration of an element: its run is that much shorter. On an H200, u4 to f16 of 8192 x 8192, two to a byte and
staged in shared memory, takes .0487 ms so, and .0560 where each element's byte is loaded: then instructions are the limit. How wide a run
goes:

- in 16 bytes, or all of it if it is shorter, where its first offset is a multiple of that, given that certain arrays are aligned and
  certain dimensions divisible. Of an array with `align` (`vxc.ir.alignment`) that is known, and nothing is tested; of others nothing is
  assumed: `divides` and `aligned` are for the kernel to test.
- Where the test fails, what is dealt out, and what is stored goes by its address (`branch`): in the widest accesses of 16, 8, 4, 2 or 1
  bytes that it is a multiple of; stores between two words by words, and what is less at both ends. Lanes at other places modulo a width
  would take turns: such a run is no wider than what is alike in a quarter of a warp at least.
- Where no test could show it, it is loaded as the aligned vectors of that size that hold it, one or two, and shifted (`straight`): no
  branch, so that loads of several runs are under way together. That takes more registers, so it is only for kernels without tests, and
  for rows that a thread keeps, where tests fail. A loop that computes with such a row, and what it loads besides, stays as it is there: the
  row's registers are the kernel's limit (flash_splitk would take 107 for 80); so do stores of words (softmax would spill by 256 lanes).
- Rows that a thread keeps, of elements of 4 bytes or more, are loaded by address all the same: a vector of them is four loads at most, and
  needs no shift. On an H200, softmax of 8192 rows of 8192 f32 from an odd address takes .133 ms so and .151 by vectors, of 8193 .147 and
  .172; of 8192 f16 .118 and .079.
- A loop that only copies a vector of each array to the thread, of which a guard keeps elements out, copies those with the others.
- Where the run may not be complete, at the end of a row, the same of as many elements as there are (`in_part`): the vectors that hold
  these, or accesses as wide as their place and number allow. Not so loops of FEW elements, where what is left is three at most: one at a
  time, in a branch of its own, it keeps whole vectors free of tests. On an H200, sums of rows of 33 f32 by a kernel for any length take
  .0703 ms in parts and .0593 so, of f16 .150 and .175; softmax of 333 f32 .0838 and .0714, of f16 .114 and .124.
- Elements in front of where lanes begin, and those left behind the last vector of what is dealt out, go one to a lane.
- An element at a time from an array that each row has anew, where a row ends in the run.

- A loop that deals out elements of shared memory stays as it is where its runs are not known to be aligned: lanes that take neighbouring
  elements access whole lines as well, and can copy them without registers in between.

What is dealt out may begin at any element, so that one array is met at a multiple of 16 bytes (`Shift`); where it is known to be at one
as it is, nothing is shifted, and neither are others looked at of which that is known. Shared arrays begin at multiples of 16 bytes, and
their addresses are not looked at; loops that access nothing else are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vxc.analysis.forms import Atom, Form, Unknown, digit, form
from vxc.analysis.offsets import Offsets, address, merge
from vxc.analysis.thread_loop import MEMORY, ThreadLoop, meets_shared, quotient_of, shift_of, slice_of
from vxc.analysis.wide_loop import Missed, Run, Shift, Size, WideLoop, Widths, in_vain
from vxc.analysis.wrapping import Wrapping
from vxc.dtypes import I64
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.narrow import Reason
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.target import VECTOR

BYTES = VECTOR  # of one access
MOST = 32  # elements of one loop
FEW = 4  # the same of which so little may be left that it goes one by one
_DIGITS = ("floordiv", "mod")
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


def refusal(inside: Iterable[Inst]) -> str | None:
    """The instruction in a loop that keeps it as it is, if there is one."""
    return next((inst.op for inst in inside if inst.op in _REFUSED), None)


def vector_widths(kernel: Kernel, distinct: bool) -> Widths:
    """`distinct` is False where two parameters may be the same memory."""
    offsets = Offsets.of(kernel.params)
    found = Widths(offsets)
    regions = Regions.of(kernel.insts)
    wrapping = Wrapping(kernel)
    done = 0  # where what is before has its forms
    for at, inst in enumerate(kernel.insts):
        if at < done:
            continue
        count = candidate(inst)
        inside = [kernel.insts[i] for i in regions.body(at)] if count else []
        if inst.attr("deal"):  # element `first + u` instead of `first` + u * lanes, for any shift
            shift = form(0) if meets_shared(inside) else form(shift_of(inst))
            name = inst.result.name
            offsets.forms[name] = offsets.form(inst.operands[0]) * count + form(Atom(name)) + shift
        else:
            offsets.define(inst)
        if not refusal(inside) and any(a.buffer.space in MEMORY for other in inside for a in accesses(other)):
            for other in inside:
                offsets.define(other)
            done = regions.end[at]
            wide = _Finder(ThreadLoop(kernel.insts, regions, offsets, at, count), found, wrapping).widened(distinct)
            if wide:
                found.loops[at] = wide
    if found.two_forms:
        found.loops.update({at: replace(loop, runs=tuple(map(_by_address, loop.runs))) for at, loop in found.loops.items()})
    return found


def _by_address(run: Run) -> Run:
    return replace(run, given=run.otherwise) if run.given.anywhere == "straight" else run


class _Finder:
    """Finds the runs of one loop, and adds what they count on to `found`."""

    def __init__(self, loop: ThreadLoop, found: Widths, wrapping: Wrapping):
        self.loop, self.found, self.insts, self.offsets, self.wrapping = loop, found, loop.insts, loop.offsets, wrapping
        self.tests = loop.tests(loop.guard) if loop.guard >= 0 else ()
        self.in_part = loop.count > FEW and loop.lets_first_in(self.tests)
        self.quotients = dict(self._quotients())

    def widened(self, distinct: bool) -> WideLoop | None:
        loop = self.loop
        touched: dict[str, list[int]] = {}
        for i in loop.body:
            for access in accesses(self.insts[i]):
                if access.buffer.space in MEMORY:
                    touched.setdefault(access.buffer.name, []).append(i)
        found = [a for places in touched.values() for i in places for a in accesses(self.insts[i])]
        if not distinct and any("w" in a.mode and a.buffer.space in GLOBAL for a in found):
            for places in touched.values():
                self._miss(places, ("aliases",))
            return None
        missed = len(self.found.missed)
        runs = [run for places in touched.values() for run in self._runs(places)]
        if runs and self.insts[loop.at].attr("deal") and in_vain(runs, found):
            for run in runs:
                self._miss([*run.loads, *run.stores], ("whole-lines",))
            return None
        if not runs:
            return None
        tests = self.tests
        around = {loop.regions.parent[i] for run in runs for i in (*run.loads, *run.stores)}
        given, otherwise = (loop.guards(tests, around, divides) for divides in (self.found.divides, {}))
        shift = self._shifted(runs, tests)
        if shift and self._met(shift.run):  # where they begin, they are at multiples
            self._unshifted()
            del self.found.missed[missed:]
            shift, runs = None, [run for places in touched.values() for run in self._runs(places)]
            runs = [self._met(run) or run for run in runs]
        runs = [shift.run if shift and run.buffer is shift.run.buffer and run.indices == shift.run.indices else run for run in runs]
        digits = self._digits(runs)
        elsewhere = None if loop.fixed or loop.keeps and not loop.moves else otherwise
        copies = bool(tests) and loop.copies(runs, inside=any(test.op == "ge" for test in tests))
        parts = digits, shift, self.in_part, given, elsewhere, copies
        return WideLoop(loop.at, loop.count, loop.dealt, tuple(runs), loop.guard, tests, *parts)

    # ---- runs

    def _runs(self, places: list[int]) -> Iterator[Run]:
        """The accesses to one buffer, those to the same elements together."""
        loop, parent = self.loop, self.loop.regions.parent
        buffer = self.insts[places[0]].operands[0]
        by_offset: dict[Form, list[int]] = {}
        for i in places:
            by_offset.setdefault(self.offsets.linear(buffer, loop.indices(i)), []).append(i)
        stored = any(self.insts[i].op != "load" for i in places)
        if stored and (len(by_offset) > 1 or any(self.insts[i].op == "atomic" for i in places)):
            self._miss(places, ("written", buffer.name))
            return
        for offset, group in by_offset.items():
            home = next((parent[i] for i in group if i in loop.level), -1)
            outside = [i for i in group if parent[i] != home or i not in loop.level]
            group = [i for i in group if i not in outside]
            if outside and loop.varies(offset):
                follows = loop.first(offset) is not None
                self._miss(outside, ("condition",) if follows else self._stride(offset))
            if loop.varies(offset) and group and not (outside and stored):  # not where all iterations read the same one
                run = self._run(offset, group)
                if run is not None:
                    yield run

    def _run(self, offset: Form, group: list[int]) -> Run | None:
        loop, indices = self.loop, self.loop.indices(group[0])
        buffer = self.insts[group[0]].operands[0]
        first, within, each = loop.first(offset), (), 1
        if first is None and all(self.insts[i].op == "load" for i in group):
            first, within = self._run_within(offset)
            if first is None:
                (first, each), within = loop.first_of_repeated(offset), ()
        if not loop.computable(indices):
            self._miss(group, ("data",))
        elif first is None:
            self._miss(group, self._stride(offset))
        elif buffer.dtype.bits < 8:
            self._miss(group, ("packed", str(buffer.dtype)))
        elif buffer.dtype.bytes < BYTES:
            loads, stores = (tuple(i for i in group if self.insts[i].op == op) for op in ("load", "store"))
            given, otherwise = self._sizes(buffer, first, loop.count // each, bool(stores))
            if given.elements > 1:
                for x in indices:
                    if type(x) is Value:
                        merge(self.found.least, dict.fromkeys(self.offsets.divisors.get(x.name, ()), 1))
                return Run(buffer, loads, stores, indices, each, loop.value_of(offset), within, given, otherwise)
            self._miss(group, given.why or ("unknown",))
        return None

    def _sizes(self, buffer: Buffer, first: Form, count: int, stored: bool) -> tuple[Size, Size]:
        """How many of `count` elements an access may have: where what is tested holds, and otherwise; see the rule above."""
        loop, size, width = self.loop, buffer.dtype.bytes, min(BYTES // buffer.dtype.bytes, count)
        widths = [width >> k for k in range(width.bit_length())]
        few: Reason | None = ("short", count, width * size) if width * size < BYTES else None
        if buffer.space == "shared":
            most = next(w for w in widths if w == 1 or self.offsets.divisible(first, w, self.found.divides) == {})
            known = Size(most, None, few if most == width else ("begins", count, most * size))
            return known, known
        most = next(w for w in widths if w == 1 or loop.alike(first, w))
        by_address = Size(most, "branch" if most > 1 else None, few if most == width else ("turns", count, most * size))
        straight = Size(width, "straight", few)
        kept = self.loop.keeps
        held = by_address if loop.dealt or stored or kept and size >= 4 else straight
        place = first + address(buffer)
        if set(address(buffer).atoms()) <= set(first.atoms()) and self.offsets.divisible(place, width, {}) == {}:
            return Size(width, None, few), Size(width, None, few)  # counted from a multiple that was looked for
        needs = None if loop.dealt else self.offsets.divisible(first, width, self.found.divides)
        tested = buffer.space == "param" and buffer.align is None
        known = buffer.align is None or not needs and width * buffer.dtype.bytes <= buffer.align  # nothing is tested of it
        if needs is not None and known:
            merge(self.found.divides, needs)
            if tested:
                merge(self.found.aligned, {buffer.name: width * buffer.dtype.bytes})
            whole = Size(width, None, few)
            return whole, whole if not needs and not tested or loop.fixed else held if kept else by_address
        if loop.fixed:
            single = Size(1, None, ("row-starts",))
            return single, single
        return held, held if kept else by_address

    def _run_within(self, offset: Form) -> tuple[Form | None, tuple[int, ...]]:
        """The first of consecutive elements as long as some divisions have one quotient, and these divisions."""
        used = {u: at for u, at in self.quotients.items() if any(u in m for m, _ in offset.terms)}
        return self.loop.first(offset.replace(lambda u: form(quotient_of(used[u])) if u in used else None)), tuple(used.values())

    # ---- what is dealt out, and divisions that go on

    def _shifted(self, runs: list[Run], tests: tuple[Inst, ...]) -> Shift | None:
        """Met at multiples is an array that is written, if any is; None where it is not known which elements are the first of all."""
        loop = self.loop
        element = loop.own.get(tests[0].operands[0].name) if loop.dealt and tests else None
        if element is None or element.op != "add" or element.operands[1] != self.insts[loop.at].result:
            return None
        base = element.operands[0]
        made = next((i for i in self.insts[: loop.at] if i.result == base), None)
        blocks = {i.result.name for i in self.insts[: loop.at] if i.op == "block_index"}
        if made is None or not (made.op == "loop" or made.op == "mul" and made.operands[0].name in blocks):
            return None
        start = made.operands[0] if made.op == "loop" else Const(0)
        run = next((run for run in sorted(runs, key=lambda run: not run.stores) if not run.within and self._follows_shift(run)), None)
        if run is None:
            return None
        size = run.given._replace(anywhere=None)
        return Shift(replace(run, given=size, otherwise=size), base, start)

    def _met(self, run: Run) -> Run | None:
        """The run with accesses at multiples of their size, where it is known that they are if nothing is shifted."""
        loop, buffer = self.loop, run.buffer
        offset = self._without_shift(self.offsets.linear(buffer, run.indices))
        first = loop.first(offset) if run.each == 1 else loop.first_of_repeated(offset)[0]
        width = min(BYTES // buffer.dtype.bytes, loop.count // run.each)
        size = Size(width, None, run.given.why if run.given.elements == width else None)
        known = buffer.space != "param" or size.elements * buffer.dtype.bytes <= (buffer.align or 0)
        whole = known and first is not None and self.offsets.divisible(first, size.elements, {}) == {}
        return replace(run, given=size, otherwise=size) if whole else None

    def _unshifted(self) -> None:
        """Forms of the loop's values, and divisions that go on in it, where nothing is shifted."""
        forms = self.offsets.forms
        forms.update((name, self._without_shift(forms[name])) for name in self.loop.own if name in forms)
        name = self.loop.index.name
        forms[name] = self._without_shift(forms[name])
        self.quotients = dict(self._quotients())

    def _without_shift(self, f: Form) -> Form:
        return f.replace(lambda u: form(0) if u == self.loop.shift else None)

    def _follows_shift(self, run: Run) -> bool:
        shift = self.loop.shift
        offset = self.offsets.linear(run.buffer, run.indices)
        return offset.coefficient(shift) == form(1) and shift not in offset.without(shift).atoms()

    def _digits(self, runs: list[Run]) -> tuple[int, ...]:
        """Divisions that wide accesses leave in the loop."""
        loop = self.loop
        wide = {i for run in runs for i in (*run.loads, *run.stores)}
        effects = [i for i in loop.body if not OPS[self.insts[i].op].pure and i != loop.guard]
        used = [x for i in effects for x in (self.insts[i].operands[-1:] if i in wide else self.insts[i].operands)]
        used += [x for run in runs if run.within for x in run.indices]
        found = {i for i in slice_of(self.insts, loop.regions, loop.at, used) if self._goes_on(i)}
        found |= {i for run in runs for i in run.within}
        for number, by in (self.insts[i].operands for i in found):
            self.found.near.update(dict.fromkeys(self._near(number) or ()))
            if type(by) is Value:
                merge(self.found.least, {by.name: loop.count})
        return tuple(sorted(found))

    def _goes_on(self, at: int) -> bool:
        """Whether a division is of consecutive numbers by what is no less than their count; powers of two are as cheap as they are.

        A sum that may wrap gives numbers that are not consecutive: with a scalar near 2**63, as in (i + s) % N. So scalars are tested.
        """
        inst, loop = self.insts[at], self.loop
        by = inst.operands[1] if inst.op in _DIGITS else None
        if type(by) is Const:
            divides = by.dtype is I64 and by.value >= loop.count and (loop.dealt or by.value & (by.value - 1))
        else:
            divides = type(by) is Value and by.name in self.offsets.params
        if not divides or loop.first(self.offsets.form(inst.operands[0])) is None or not loop.computable(inst.operands):
            return False
        return self._near(inst.operands[0]) is not None

    def _near(self, number: Operand) -> tuple[str, ...] | None:
        """The scalars that must be near 0 for consecutive sums to be consecutive numbers; None where that is not enough."""
        return self.wrapping.near(number, (a.name for a in self.offsets.form(number).atoms()))

    def _quotients(self) -> Iterator[tuple[Unknown, int]]:
        """The quotients of such divisions in a loop that deals out, and one division each."""
        for i in self.loop.body if self.loop.dealt else ():
            if self._goes_on(i):
                (quotient,) = digit("div", *map(self.offsets.form, self.insts[i].operands)).unknowns
                yield quotient, i

    # ---- what stays

    def _stride(self, offset: Form) -> Reason:
        """Why an offset is none of consecutive elements."""
        index = self.loop.index
        step, rest = offset.coefficient(index), offset.without(index)
        if step is None or index in rest.atoms() or step == form(1):
            return ("broken",)
        return ("apart", str(step) if step.value is None else step.value) if step.terms else ("unknown",)

    def _miss(self, places: list[int], why: Reason) -> None:
        self.found.missed.append(Missed(tuple(places), self.insts[places[0]].operands[0], why))
