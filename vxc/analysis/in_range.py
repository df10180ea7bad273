"""Indices that are not shown to stay in their array, whatever the sizes.

An index is in range where neither it nor what is left up to the extent is ever negative. What counts: indices lie between the ends of
their loops, the loops run, and the conditions around the access hold. What is not shown may still be right; that an access leaves its
array is known where sizes are found for which it does. `analysis/bounds.py` finds what leaves whatever the sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.concrete import TooLarge, Work, enumerable, evaluate_form, executions_of, free_symbols, instances
from vxc.analysis.forms import Atom, Call, Form, Unknown, form
from vxc.analysis.proof import DEPTHS, QUICK, Facts, proved, said, with_sizes
from vxc.analysis.ranges import Ranges
from vxc.analysis.sweeps import Numbering
from vxc.ir.kernel import Buffer, Kernel
from vxc.ir.ranges import ranges
from vxc.record import record

_ROWS = 1 << 20  # executions looked at to find one that leaves

Outside = tuple[dict[str, int], int]  # sizes, and an index outside of the extent
Guards = tuple[tuple[Form, bool], ...]  # conditions, and whether they hold
Bounds = dict[Unknown, tuple["Form | None", "Form | None"]]


@record
class Unproven:
    """Index `dimension` of the access may be below 0 (`below`), or at least the extent (`above`), for all that is known.

    `lowest` and `highest` are bounds over dimensions, where there are any. `seen` are sizes and the index there, outside of the
    extent, where such sizes were found.
    """

    access: Access
    dimension: int
    extent: Form
    below: bool
    above: bool
    lowest: Form | None = None
    highest: Form | None = None
    seen: Outside | None = None


def unproven(facts: KernelFacts) -> Iterator[Unproven]:
    """Those of arrays of the caller, in program order."""
    of_the_caller = [access for access in facts.accesses if access.buffer.space == "param"]
    for x in chain.from_iterable(_open(facts, of_the_caller)):
        index = x.access.indices[x.dimension]
        inner = _inner(facts, x.access.loops)
        seen = _leaving(facts, x.access, index, x.extent)
        yield replace(x, lowest=inner.lowest(index), highest=inner.highest(index), seen=seen)


def doubted(facts: KernelFacts, accesses: Iterable[Access]) -> set[int]:
    """The positions of those of the accesses with an index that is not quickly shown to be in range."""
    firsts = [next(found, None) for found in _open(facts, accesses, QUICK)]
    return {at for x in firsts if x for at in facts.places[x.access]}


def _inner(facts: KernelFacts, loops: Sequence[LoopFact]) -> Ranges:
    return loops[-1].ranges if loops else facts.ranges


def _open(facts: KernelFacts, accesses: Iterable[Access], depths: tuple[int, ...] = DEPTHS) -> Iterator[Iterator[Unproven]]:
    """For each access, the indices that are not shown to be in range by proofs of some depths; each is proved as it is asked for."""
    same, only_run = _same_values(facts.kernel), _only_run(facts)

    def one_name(f: Form) -> Form:
        return f.replace(lambda u: form(Atom(same[u.name])) if isinstance(u, Atom) and u.name in same else None)

    @cache
    def around(loops: tuple[LoopFact, ...]) -> tuple[Ranges, Facts]:
        """What loops say."""
        inner = _inner(facts, loops)
        given = (one_name(fact) for loop in reversed(loops) for fact in _by_loop(loop))
        return Ranges({**only_run, **inner.bounds}, inner.least), tuple(given)

    @cache
    def told(loops: tuple[LoopFact, ...], guard: tuple[Form, bool]) -> Facts:
        """What one condition says there: that of an `else if` chain is around all accesses behind it."""
        return tuple(map(one_name, said((guard,), around(loops)[0], facts.chosen)))

    @cache
    def inside(loops: tuple[LoopFact, ...], guards: Guards) -> tuple[Ranges, Facts]:
        """What is known, and what is not negative, in some loops and conditions: by these, innermost first, then by the loops."""
        known, by_loops = around(loops)
        given = (*(fact for guard in reversed(guards) for fact in told(loops, guard)), *by_loops)
        known = with_sizes(known, given)
        return Ranges(_with_found(facts, known, given), known.least), given

    def of(access: Access) -> Iterator[Unproven]:
        known, given = inside(access.loops, access.guards)
        for d, (index, extent) in enumerate(zip(access.indices, facts.extents[access.buffer.name])):
            x = one_name(index)
            below, above = (not proved(room, known, given, depths) for room in (x, extent - 1 - x))
            if below or above:
                yield Unproven(access, d, extent, below, above)

    return map(of, accesses)


# ---- what is known ---------------------------------------------------------------------------------------------------


def _by_loop(loop: LoopFact) -> tuple[Form, ...]:
    step, index = loop.step.value or 0, form(loop.index)
    if step > 0:
        stop = _of_one_that_runs(loop.stop, loop.start)
        return stop - 1 - index, index - loop.start, stop - 1 - loop.start
    return (loop.start - index, index - loop.stop - 1) if step < 0 else ()


def _of_one_that_runs(stop: Form, start: Form) -> Form:
    """The stop of a loop that counts up and runs: a maximum is none of its operands at which the loop would not, as in `x[1:N]`, of
    which there are max(N, 1) - 1.
    """
    for u in stop.unknowns:
        if isinstance(u, Call) and u.op == "max" and stop.coefficient(u) == form(1):
            rest = stop.without(u)
            left = [x for x in u.args if (length := (rest + x - start).value) is None or length > 0]
            if len(left) == 1:
                return _of_one_that_runs(rest + left[0], start)
    return stop


def _only_run(facts: KernelFacts) -> Bounds:
    """Between what bounds values lie that only the run knows: a value of 8 bits is below 256."""
    others = {loop.index.name for loop in facts.loops} | {u.name for u in facts.ranges.least if isinstance(u, Atom)}
    return {Atom(name): (form(low), form(high)) for name, (low, high) in ranges(facts.kernel).items() if name not in others}


def _with_found(facts: KernelFacts, known: Ranges, given: Facts) -> Bounds:
    """The bounds, with those of what argmax and argmin give: an index of their elements, and -1 where there are none."""
    insts = facts.kernel.insts
    writes = Counter(inst.operands[0].name for inst in insts if inst.op in ("store", "reduce", "extern"))
    lengths = {insts[loop.at].operands[0].name: loop.stop for loop in facts.loops if insts[loop.at].attr("op") in ("argmax", "argmin")}
    found: Bounds = {}
    for inst in insts:
        cell = inst.operands[0].name if inst.op == "load" else ""
        if cell in lengths and writes[cell] == 1:
            some = proved(lengths[cell] - 1, known, given)
            found[Atom(inst.result.name)] = (form(0 if some else -1), lengths[cell] - 1)
    return {**known.bounds, **found}


def _same_values(kernel: Kernel) -> dict[str, str]:
    """Values that are the same as an earlier one: of one operation on the same operands, and loads of an element of an `in` array."""
    given = [p for p in kernel.params if isinstance(p, Buffer) and p.space == "param" and p.mode == "in"]
    numbering, known = Numbering({p.name: len(kernel.insts) for p in given}), {}
    for at, inst in enumerate(kernel.insts):
        numbering.of(inst, at, known)
    first = {n: inst.result.name for n, (inst, _) in numbering.made.items()}
    return {name: first[n] for name, n in known.items() if first[n] != name}


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _leaving(facts: KernelFacts, access: Access, index: Form, extent: Form) -> Outside | None:
    """The first of some small sizes for which the access runs with its index outside of the extent."""
    if not enumerable(facts, access):
        return None
    work = Work()
    for sizes in instances(facts, free_symbols(facts, [access]), [access]):
        if work.rows > _ROWS:
            return None
        try:
            table, rows = executions_of(access, sizes, work)
        except TooLarge:
            continue
        values = np.broadcast_to(evaluate_form(index, table), rows)
        outside = values[(values < 0) | (values >= evaluate_form(extent, sizes))]
        if outside.size:
            return sizes, int(outside.max() if outside[0] >= 0 else outside.min())
    return None
