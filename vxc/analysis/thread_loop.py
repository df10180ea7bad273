"""One loop that one thread runs: what varies in it, what an index is at its first iteration, under which conditions its body runs
(part of vector_width).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import prod

from vxc.analysis.conditions import ENDS, SAME, kind_of
from vxc.analysis.forms import Atom, Call, Digit, Form, Unknown
from vxc.analysis.offsets import ADDRESS, Offsets, repeated_run_of, run_of, settled
from vxc.analysis.wide_loop import Guards, Run
from vxc.ir.kernel import GLOBAL, Inst, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.walk import Regions
from vxc.target import VECTOR, WARP

MEMORY = (*GLOBAL, "shared")  # what lanes share


class ThreadLoop:
    """The loop at position `at`, of `count` iterations; `dealt` says that it deals elements out to lanes, `fixed` that it does
    so from a multiple of them on, since they are in shared memory.

    `guard` is the `if` around all of the body that does anything, or -1; `conditions` other `if`s that are understood, with their kinds;
    `level` the positions that every iteration (that is let in) runs, those under such a condition too.
    """

    def __init__(self, insts: tuple[Inst, ...], regions: Regions, offsets: Offsets, at: int, count: int):
        self.insts, self.regions, self.offsets, self.at, self.count = insts, regions, offsets, at, count
        self.index = Atom(insts[at].result.name)
        self.shift = shift_of(insts[at])
        self.body = regions.body(at)
        self.own = {i.result.name: i for i in insts[at + 1 : regions.end[at]] if type(i.result) is Value}  # what may vary in it
        self.fixed = bool(insts[at].attr("deal")) and meets_shared(insts[i] for i in self.body)
        self.dealt = bool(insts[at].attr("deal")) and not self.fixed
        self.guard, self.level = self._level()
        found = ((i, self._condition(i)) for i in sorted(self.level)) if not self.dealt else ()
        self.conditions = {i: kind for i, kind in found if kind is not None}
        for i in self.conditions:
            self.level |= set(regions.level(regions.body(i)))

    # ---- indices

    def first(self, f: Form) -> Form | None:
        """What a form that goes up by one is at the first iteration; None where it does not, or what is left may vary in the loop."""
        found = run_of(f, self.index, self.count)
        return None if found is None or self.varies(found) else found

    def first_of_repeated(self, f: Form) -> tuple[Form | None, int]:
        """The same for a form that goes up by one after so many iterations."""
        found = repeated_run_of(f, self.index, self.count)
        return (None, 1) if found is None or self.varies(found[0]) else found

    def varies(self, f: Form) -> bool:
        return any(a == self.index or a.name in self.own for a in f.atoms())

    def computable(self, values: Iterable[Operand]) -> bool:
        """Whether values follow from the index and what is known before the loop, by pure instructions."""
        return all(i == self.at or OPS[self.insts[i].op].pure for i in slice_of(self.insts, self.regions, self.at, values))

    def indices(self, at: int) -> tuple[Operand, ...]:
        return accesses(self.insts[at])[0].box

    def value_of(self, offset: Form) -> Operand | None:
        """A value of the loop that is the offset."""
        for i in range(self.at, self.regions.end[self.at]):
            result = self.insts[i].result
            if type(result) is Value and self.offsets.forms.get(result.name) == offset and self.computable((result,)):
                return result
        return None

    # ---- lanes

    @cached_property
    def _common(self) -> frozenset[str]:
        """Unknowns that are alike in all lanes: a loop's counts iterations, and one quotient serves all elements of a division."""
        before = (i.result.name for i in self.insts[: self.at] if i.op in ("block_index", "loop"))
        return frozenset((*before, *self.offsets.params, self.shift.name))

    def alike(self, f: Form, width: int = 0) -> bool:
        """Whether a form (modulo a width, if one is given) is alike in at least a quarter of the lanes of a warp."""
        return all(width and c % width == 0 or all(map(self._alike, m)) for m, c in f.terms)

    def _alike(self, u: Unknown) -> bool:
        match u:
            case Atom(name):
                return name in self._common or name.startswith((_QUOTIENT, ADDRESS))
            case Digit("div", _, by) if (by.value or 0) >= WARP // 4:
                return True
            case Digit(_, arg, by):
                return self.alike(arg) and self.alike(by)
            case Call(_, args):
                return all(map(self.alike, args))

    # ---- what the thread keeps

    @property
    def keeps(self) -> bool:
        """Whether the loop is over a part of what an array of the thread keeps."""
        kept = (a.buffer for i in self.body for a in accesses(self.insts[i]) if a.buffer.space == "local")
        return any(prod(n.value for n in x.shape) > self.count for x in kept)

    @property
    def moves(self) -> bool:
        """Whether the loop fills an array of the thread, or stores less than words: not one that computes with what is kept."""
        found = [a for i in self.body for a in accesses(self.insts[i])]
        stored, read = ({a.buffer.name for a in found if mode in a.mode and a.buffer.space == "local"} for mode in "wr")
        return bool(stored - read) or any("w" in a.mode and a.buffer.space in GLOBAL and a.buffer.dtype.bytes < 4 for a in found)

    def copies(self, runs: Iterable[Run], inside: bool) -> bool:
        """Whether the loop only copies one vector of each run to arrays of the thread: an aligned one, or one whose first element need not
        be the first that the guard lets in (`inside`). What is kept out may be of others, so it is of arrays that nobody writes.
        """
        ends = (self.guard, self.regions.end[self.guard])
        read = [run for run in runs if run.buffer.space == "param" and run.buffer.mode == "in"]
        loads = {i for run in read for i in run.loads if self.count * run.buffer.dtype.bytes == VECTOR}
        whole = all(run.given.elements == run.otherwise.elements == self.count and not run.stores for run in runs)
        whole &= inside or all(run.given.anywhere is run.otherwise.anywhere is None for run in runs)
        others = [self.insts[i] for i in self.body if i not in (*ends, *loads) and not OPS[self.insts[i].op].pure]
        return whole and not self.dealt and all(x.op == "store" and x.operands[0].space == "local" for x in others)

    # ---- conditions

    def guards(self, tests: Iterable[Inst], around: set[int], divides: Mapping[str, int]) -> Guards:
        """Of the guard, and the conditions at `around`, where parameters are divisible as said."""
        sides = [[self.offsets.form(test.operands[side]) for test in tests] for side in (0, 1)]
        same = all(self._whole(f, divides) for f in (*map(self.first, sides[0]), *sides[1]))
        kinds = {i: self._kind(i, divides) if divides and kind is ENDS else kind for i, kind in self.conditions.items() if i in around}
        return Guards(same and bool(sides[0]) and not self.dealt, kinds)

    def lets_first_in(self, tests: tuple[Inst, ...]) -> bool:
        """Whether what the guard lets in is the first elements, of any number, all of them in global memory."""
        if self.dealt or not tests or any(test.op != "lt" for test in tests) or ENDS in self.conditions.values():
            return False
        spaces = {a.buffer.space for i in self.body for a in accesses(self.insts[i])} & {*MEMORY}
        return spaces <= {*GLOBAL} and not self.guards(tests, set(), {}).whole

    def tests(self, guard: int) -> tuple[Inst, ...]:
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
            if self.first(element) is None or self.varies(limit):
                return ()
            found.append(test)
        return tuple(found)

    def _level(self) -> tuple[int, set[int]]:
        own = list(self.regions.level(self.body))
        last = own[-1] if own else -1
        guarded = last >= 0 and self.insts[last].op == "if" and self.regions.other[last] < 0
        if guarded and all(OPS[self.insts[i].op].pure for i in own[:-1]) and self.tests(last):
            return last, set(self.regions.level(self.regions.body(last)))
        return -1, set(own)

    def _condition(self, at: int) -> str | None:
        """The kind of an `if` whose accesses may be widened, whatever parameters are divisible by; None for any other."""
        return self._kind(at, {}) if self.insts[at].op == "if" and at != self.guard and self.regions.other[at] < 0 else None

    def _kind(self, at: int, divides: Mapping[str, int]) -> str | None:
        test = self.insts[at].operands[0]
        if not self.computable((test,)):
            return None
        return kind_of(test, self.own, self.offsets.form, self._kind_of_index, lambda f: self._whole(f, divides))

    def _kind_of_index(self, f: Form) -> str | None:
        if not self.varies(f) or not self.varies(settled(f, self.index, self.count)):
            return SAME
        return ENDS if self.first(f) is not None else None

    def _whole(self, f: Form, divides: Mapping[str, int]) -> bool:
        """Whether an index is at first, or always, a multiple of the iterations."""
        first = self.first(f)
        needs = self.offsets.divisible(f if first is None else first, self.count, divides)
        return needs is not None and all(divides.get(k, 1) >= v for k, v in needs.items())


_QUOTIENT = "/"  # begins the names of what divisions give


def quotient_of(at: int) -> Atom:
    """What the division at a position gives for all elements of a loop."""
    return Atom(f"{_QUOTIENT}{at}")


def shift_of(loop: Inst) -> Atom:
    """By how much the elements of a loop that deals them out are shifted."""
    return Atom(f"{loop.result.name}+")


def meets_shared(body: Iterable[Inst]) -> bool:
    """Whether a loop accesses shared memory, where what is dealt out begins at multiples: elements lie there as the tile has them."""
    return any(a.buffer.space == "shared" for inst in body for a in accesses(inst))


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
