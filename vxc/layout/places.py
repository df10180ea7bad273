"""The places of an array's elements, enumerated: the thread and slot of each, and back: the element in each slot of a thread.

`Places` is a layout over an array of known extents. `Held` is its inverse as a formula, element = base + digits of the thread + digits of
the slot (or with `^` for each `+`), which is what a loop over a thread's own elements counts by.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import gcd, prod

import numpy as np

from vxc.layout.digits import EXCLUSIVE, SUM, Digit, Join, fit, total
from vxc.layout.layout import WRAPS, Dim, Layout, Program, flattened
from vxc.record import entity, record

IN_A_ROW = 16  # elements that a loop takes in a row at most
LARGEST = 1 << 24  # slots of all threads that an inverse is enumerated for
KEPT = 512  # answers that are remembered


@entity
class Places:
    """[elements in row-major order, replicas]: the thread and slot of each."""

    layout: Layout
    thread: np.ndarray
    slot: np.ndarray

    @property
    def replicas(self) -> int:
        return self.thread.shape[1]

    @cached_property
    def slots(self) -> int:
        return int(self.slot.max(initial=-1)) + 1

    def same(self, other: Places) -> bool:
        return np.array_equal(self.thread, other.thread) and np.array_equal(self.slot, other.slot)


def different(values: np.ndarray) -> int:
    """How many different values there are, without `np.unique`, which imports all of `numpy.ma`."""
    values = np.sort(values, axis=None)
    return int(np.count_nonzero(values[1:] != values[:-1])) + bool(values.size)


@lru_cache(KEPT)
def places(layout: Layout, shape: tuple[int, ...]) -> Places:
    """A layout of `[i, j]` for an array of two dimensions, or of `[e]`, the element's number in row-major order, for any array."""
    extents = extents_of(layout, shape)
    copies = [axis for axis, dim in enumerate(layout.dims) if dim.replicas]
    indices = [axis for axis in range(len(layout.dims)) if axis not in copies]
    size = prod(extents), prod(layout.dims[axis].replicas for axis in copies)
    flat = (x.transpose(*indices, *copies).reshape(size) for x in layout.evaluate(extents))
    return Places(layout, *flat)


@lru_cache(KEPT)
def by_number(where: Places, shape: tuple[int, ...]) -> Places:
    """The same places of an array of this shape, by a layout of the element's number in row-major order."""
    flat = flattened(where.layout, shape)
    return where if flat is where.layout else written(where.thread, where.slot) or places(flat, (len(where.thread),))


def extents_of(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """What the dimensions of a layout run over for an array of this shape."""
    return (prod(shape),) if sum(not dim.replicas for dim in layout.dims) == 1 else shape


def counted(layout: Layout, shape: tuple[int, ...]) -> int:
    """The threads that a layout counts from 0 up; 0 where it is none of such an array."""
    fits = sum(not dim.replicas for dim in layout.dims) in (1, len(shape))
    try:
        return int(places(layout, shape).thread.max(initial=-1)) + 1 if fits else 0
    except OverflowError:
        return 0


def problem(layout: Layout, shape: tuple[int, ...], threads: int, what: str = "element") -> tuple[str, str] | None:
    """Why a layout is none of an array (or loop: `what` is an iteration) of this shape in a team of so many threads, and a way out; or
    None.

    Every element has a thread and a slot (totality, ownership), which no other has (injectivity), and the threads can count what they
    hold (coverage).
    """
    given = sum(not dim.replicas for dim in layout.dims)
    if given not in (1, len(shape)):
        of, dimension = ("array", "dimensions") if what == "element" else ("loop", "ranges")
        return f"it has {given} indices, and the {of} {len(shape)} {dimension}", f"name one index for each {dimension[:-1]}"
    try:
        where = places(layout, shape)
    except OverflowError:
        return WRAPS
    if where.slots * threads > LARGEST:
        hint = f"let threads share the {what}s, and number the slots of each from 0 up"
        return f"it has a slot {where.slots - 1:,}, and {threads} threads have {LARGEST // threads:,} slots each at most", hint
    wrong = layout.check(extents_of(layout, shape), threads)
    if wrong:
        return wrong, f"give each {what} a thread of the block, and a slot in it that no other has"
    if prod(shape) and held(where, threads) is None:
        hint = "let thread and slot be sums of digits of the indices, `i // 4 % 8 * 2` for one, or exchange powers of two, as `i ^ j % 8`"
        return f"which {what}s a thread has is no sum of digits of its number and of the slot, nor their `^`", hint
    return None


def dealt(shape: tuple[int, ...], threads: int, names: Sequence[str]) -> Layout:
    """A layout for any array or loop nest of this shape: elements in row-major order, dealt to the threads one at a time; `names` are those
    of its indices.
    """
    number: Program = ()
    for axis, (name, extent) in enumerate(zip(names, shape)):
        number = (*number, extent, "*", name, "+") if axis else (name,)
    if prod(shape) <= threads:
        return Layout(tuple(map(Dim, names)), number, (0,))
    return Layout(tuple(map(Dim, names)), (*number, threads, "%"), (*number, threads, "//"))


def written(thread: np.ndarray, slot: np.ndarray) -> Places | None:
    """Places as a layout `[e, r in n] -> [thread, slot]`; None where digits do not give them. Arrays as in `Places`."""
    programs = [_program(x) for x in (thread, slot)]
    if None in programs:
        return None
    dims = (Dim("e"), *[Dim("r", thread.shape[1])] * (thread.shape[1] > 1))
    return Places(Layout(dims, *programs), thread, slot)


def _program(x: np.ndarray) -> Program | None:
    """The expression over e and r that gives x[e, r]."""
    elements, replicas = fit(x[:, 0]), fit(x[0])
    if elements is None or replicas is None or x.shape[1] > 1 and (x != x[:, :1] + x[:1] - x[0, 0]).any():
        return None
    digits = [(d, "e", len(x)) for d in reversed(elements)] + [(d, "r", x.shape[1]) for d in reversed(replicas)]
    digits = sorted((digit for digit in digits if digit[0].stride), key=lambda digit: digit[0].stride < 0)
    base = int(x[0, 0])
    program: Program = (base,) if base or not digits else ()
    for digit, name, count in digits:  # what is taken away comes last
        term = _term(digit, name, count)
        program = (*program, *term, "+" if digit.stride > 0 else "-") if program else term
    return program


def _term(digit: Digit, name: str, count: int) -> Program:
    term: Program = (name,)
    if digit.divisor > 1:
        term = (*term, digit.divisor, "//")
    if digit.divisor * digit.radix < count:
        term = (*term, digit.radix, "%")
    factor = abs(digit.stride)
    return term if factor == 1 else (*term, factor, "*")


@record
class Held:
    """The elements that a thread holds: base + the digits of its number + those of the slot (`slots`, lowest first, at least one); with `^`
    for each `+` where they are `exclusive`.

    There are `count` elements. All threads hold all elements of the first `whole` values of the highest slot digit; of the rest one exists
    where `below` (its number is < count), `threads_below` (the thread's number is < that) and `owner` (the layout gives it to this thread)
    hold, as far as asked for; `together` says that these then agree for all lower digits.
    """

    layout: Layout
    count: int
    base: int
    thread: tuple[Digit, ...]
    slots: tuple[Digit, ...]
    whole: int
    below: bool = False
    threads_below: int = 0
    owner: bool = False
    together: bool = False
    exclusive: bool = False

    @property
    def radices(self) -> tuple[int, ...]:
        """Of the slot digits, the highest first."""
        return tuple(digit.radix for digit in reversed(self.slots))

    @property
    def run(self) -> int:
        """Elements in a row that the lowest digit counts."""
        return self.slots[0].radix if self.slots[0].stride == 1 else 1


@lru_cache(KEPT)
def held(where: Places, threads: int, run: int = IN_A_ROW) -> tuple[Held, np.ndarray] | None:
    """The inverse for a team, and the elements as an array [slot digits, highest first.., thread], -1 where there is none; None where no
    such digits give them. The lowest digit counts at most `run` elements in a row.
    """
    return next((found for join in (SUM, EXCLUSIVE) if (found := _held(where, threads, run, join))), None)


def _held(where: Places, threads: int, run: int, join: Join) -> tuple[Held, np.ndarray] | None:
    count, replicas = where.thread.shape
    if not count:
        return None
    table = np.full((where.slots, threads), -1)
    table[where.slot.ravel(), where.thread.ravel()] = np.repeat(np.arange(count), replicas)
    exists = table >= 0
    first, used = int(exists.sum(axis=0).argmax()), exists.any(axis=0)
    last = int(np.flatnonzero(used)[-1]) + 1
    if not exists[:, first].all() or not used[0]:
        return None
    by_slot = join.out(table[:, first], table[0, first])
    some = exists.argmax(axis=0)[:last]
    by_thread = _filled(join.out(table[some, np.arange(last)], by_slot[some]), used[:last], join)
    slots, thread = fit(by_slot, join), fit(by_thread, join) if by_thread is not None else None
    if slots is None or thread is None or _several(slots, len(by_slot)):
        return None
    slots = _in_a_row(slots, run)
    padded = prod(digit.radix for digit in slots)
    base, numbers = int(by_thread[0]), np.arange(threads)
    made = join.into(join.into(base, total(slots, np.arange(padded), join))[:, None], total(thread, numbers, join))
    exists = np.concatenate([exists, np.zeros((padded - len(exists), threads), bool)])
    if (made[: len(table)][exists[: len(table)]] != table[exists[: len(table)]]).any():
        return None
    per = padded // slots[-1].radix
    whole = int(np.argmin([*exists.reshape(slots[-1].radix, -1).all(axis=1), False]))
    rest, values = exists[whole * per :], made[whole * per :]
    found = next((tests for tests in _tests(values, numbers, count, last) if np.array_equal(rest, tests[0])), None)
    asked = {} if whole == slots[-1].radix else found[1] if found else {"owner": True}
    asked |= {"exclusive": True} if join is EXCLUSIVE else {}
    blocks = rest.reshape(-1, per, threads)
    together = bool((blocks == blocks[:, :1]).all())
    table = np.where(exists, made, -1).reshape(*(digit.radix for digit in reversed(slots)), threads)
    return Held(where.layout, count, base, thread, slots, whole, together=together, **asked), table


def _filled(values: np.ndarray, used: np.ndarray, join: Join) -> np.ndarray | None:
    """Values for threads between others that hold nothing: as the digits of those before go on. The first and the last are used."""
    values, used = values.copy(), used.copy()
    while not used.all():
        hole = int(used.argmin())
        period = hole + int(used[hole:].argmax())
        digits = fit(values[:hole], join)
        if digits is None:
            return None
        more = total(digits, np.arange(hole, period), join)
        for start in (n for n in range(0, len(used), period) if used[n]):
            gap = slice(start + hole, start + period)
            values[gap] = np.where(used[gap], values[gap], join.into(values[start], more[: len(used[gap])]))
            used[gap] = True
    return values


def _several(slots: tuple[Digit, ...], count: int) -> bool:
    """Whether several slots of a thread hold one element."""
    return prod(digit.radix for digit in slots) < count or any(digit.stride == 0 for digit in slots)


def _in_a_row(slots: tuple[Digit, ...], run: int) -> tuple[Digit, ...]:
    """Slot digits of which the lowest is that of elements in a row, no more than may be taken at once, and the highest counts the steps."""
    if slots and slots[0].stride == 1:
        radix = slots[0].radix
        few = gcd(radix, run)
        rest = (Digit(few, radix // few, few),) if radix > few or len(slots) == 1 else ()
        slots = (Digit(1, few, 1), *rest, *slots[1:]) if few > 1 else slots
    return slots or (Digit(1, 1, 1),)


def _tests(values: np.ndarray, numbers: np.ndarray, count: int, last: int):
    below, thread = values < count, np.broadcast_to(numbers < last, values.shape)
    yield below, {"below": True}
    yield thread, {"threads_below": last}
    yield below & thread, {"below": True, "threads_below": last}
