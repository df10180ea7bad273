"""Layouts enumerated and turned round: what threads hold, as sums of digits, against a plain dictionary; where shared elements lie."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vxc.layout.arrangement import Arrangement, arrangement
from vxc.layout.digits import EXCLUSIVE, SUM, fit, total
from vxc.layout.layout import flattened, parse, spread
from vxc.layout.placement import IN_ORDER, Placement
from vxc.layout.places import Held, held, places, problem, written


@st.composite
def dealt(draw) -> tuple[str, tuple[int, ...], int]:
    """A layout whose digits of thread and slot are those of two indices in any order, over a shape that they may not fill."""
    radices = draw(st.lists(st.integers(1, 5), min_size=2, max_size=5))
    split = draw(st.integers(1, len(radices) - 1))
    where = draw(st.lists(st.booleans(), min_size=len(radices), max_size=len(radices)))
    order = draw(st.permutations(range(len(radices))))
    replicas = draw(st.integers(1, 3))
    parts: dict[bool, list[str]] = {False: [], True: []}
    inner = {False: 1, True: replicas}
    for k in order:
        name, lower = ("i", radices[:k]) if k < split else ("j", radices[split:k])
        parts[where[k]].append(f"{name} // {prod(lower)} % {radices[k]} * {inner[where[k]]}")
        inner[where[k]] *= radices[k]
    threads = -(-inner[True] // 32) * 32
    thread, slot = (" + ".join(parts[key]) or "0" for key in (True, False))
    thread, dims = (f"{thread} + r", f"i, j, r in {replicas}") if replicas > 1 else (thread, "i, j")
    extents = [prod(radices[:split]), prod(radices[split:])]
    short = draw(st.integers(0, extents[0] - 1))
    return f"[{dims}] -> [{thread}, {slot}]", (extents[0] - short, extents[1]), threads


@st.composite
def exchanged(draw) -> tuple[str, tuple[int, ...], int]:
    """A layout of which each bit of thread and slot is the exclusive or of some bits of two indices: all of an invertible matrix."""
    rows, columns, lanes = draw(st.integers(0, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    bits = [f"i // {1 << k} % 2" for k in range(rows)] + [f"j // {1 << k} % 2" for k in range(columns)]
    made = [[int(k == n) for k in range(len(bits))] for n in draw(st.permutations(range(len(bits))))]
    for to, of in draw(st.lists(st.tuples(*[st.integers(0, len(bits) - 1)] * 2), max_size=8)):
        if to != of:
            made[to] = [a ^ b for a, b in zip(made[to], made[of])]
    each = ["(" + " ^ ".join(bit for bit, taken in zip(bits, row) if taken) + ")" for row in made]
    texts = [" + ".join(f"{x} * {1 << k}" for k, x in enumerate(part)) or "0" for part in (each[:lanes], each[lanes:])]
    return f"[i, j] -> [{', '.join(texts)}]", (1 << rows, 1 << columns), 32


def elements(made: Held, threads: int) -> dict[tuple[int, int], int]:
    """(thread, slot number) -> element, as loops over slots find them: the digits of a slot, and the tests that are asked for."""
    layout, found, join = made.layout, {}, EXCLUSIVE if made.exclusive else SUM
    owners = layout.evaluate([made.count])[0].reshape(made.count, -1)
    *lower, highest = made.slots
    for thread in range(threads):
        mine = int(join.into(made.base, total(made.thread, np.array(thread), join)))
        for number, (u, *digits) in enumerate(product(range(highest.radix), *(range(d.radix) for d in reversed(lower)))):
            e = first = int(join.into(mine, u * highest.stride))
            for n, d in zip(digits, reversed(lower)):
                e = int(join.into(e, n * d.stride))
            if u >= made.whole:
                tested = first if made.together else e
                if made.threads_below and thread >= made.threads_below or (made.below or made.owner) and tested >= made.count:
                    continue
                if made.owner and thread not in owners[tested]:
                    continue
            found[thread, number] = e
    return found


# Elements of threads 0 to 7: 0, 3, 6, 5, 1, 2, 7, 4; the first three go on by 3 each, and the fourth does not.
BY_THREES = "[i, j] -> [(j // 2 % 2 ^ j // 4 % 2) + j // 4 % 2 * 2 + (j % 2 ^ j // 2 % 2 ^ j // 4 % 2) * 4, 0]"


@given(exchanged())
@example((BY_THREES, (1, 8), 32))
def test_every_exchange_of_bits_is_counted(drawn):
    text, shape, threads = drawn
    assert problem(parse(text), shape, threads) is None
    test_what_threads_hold_is_the_inverse_of_a_layout.hypothesis.inner_test(drawn)


@given(dealt())
def test_what_threads_hold_is_the_inverse_of_a_layout(drawn):
    text, shape, threads = drawn
    layout = flattened(parse(text), shape)
    assert layout.check([prod(shape)], threads) is None
    where = places(layout, (prod(shape),))
    made = held(where, threads)
    if made is None:
        assert problem(layout, (prod(shape),), threads) is not None
        return
    expected: dict[int, list[int]] = {}
    for e, each in enumerate(where.thread.tolist()):
        for thread in each:
            expected.setdefault(thread, []).append(e)
    found: dict[int, list[int]] = {}
    for (thread, _), e in elements(made[0], threads).items():
        found.setdefault(thread, []).append(e)
    assert {k: sorted(v) for k, v in found.items()} == {k: sorted(v) for k, v in expected.items()}
    assert sorted(made[1][made[1] >= 0].tolist()) == sorted(e for each in expected.values() for e in each)


@given(dealt())
def test_a_layout_written_as_digits_is_the_same(drawn):
    text, shape, _ = drawn
    where = places(parse(text), shape)
    again = written(where.thread, where.slot)
    if again is not None:
        read = places(parse(str(again.layout)), (prod(shape),))
        assert (read.thread == where.thread).all() and (read.slot == where.slot).all()


@pytest.mark.parametrize("v, lanes, count", list(product([1, 2, 4, 16], [1, 4, 32, 96, 128], [1, 3, 31, 33, 96, 100, 127, 229, 768, 1000])))
def test_every_dealing_of_any_width_is_counted(v, lanes, count):
    made = held(places(spread(v, lanes), (count,)), lanes)
    found = elements(made[0], lanes)
    assert sorted(found.values()) == list(range(count))
    assert all(e // v % lanes == thread for (thread, _), e in found.items())


@given(st.lists(st.tuples(st.integers(2, 4), st.integers(-3, 9)), max_size=4), st.integers(-5, 5))
def test_digits_are_found(digits, base):
    count = prod(radix for radix, _ in digits)
    values = np.full(count, base)
    divisor = 1
    for radix, stride in digits:
        values += np.arange(count) // divisor % radix * stride
        divisor *= radix
    found = fit(values)
    assert (base + total(found, np.arange(count)) == values).all()


def test_what_is_no_sum_of_digits_is_none():
    assert fit(np.array([0, 1, 2, 4, 4])) is None
    assert fit(np.arange(8) ^ np.arange(8) // 2) is None


@pytest.mark.parametrize("text, shape, threads, why", [
    ("[i, j] -> [i, j]", (8,), 32, "it has 2 indices, and the array 1 dimensions"),
    ("[i] -> [i, 0]", (33,), 32, "i=32 has thread 32, outside the 32 threads of the block"),
    ("[i] -> [i % 4, 0]", (8,), 32, "i=0 and i=4 both have slot 0 of thread 0"),
    ("[i, j] -> [i ^ j, j]", (4, 5), 32, "which elements a thread has is no sum of digits of its number and of the slot, nor their `^`"),
])  # fmt: skip
def test_problems_of_layouts(text, shape, threads, why):
    assert problem(parse(text), shape, threads)[0] == why


@pytest.mark.parametrize("text, shape, found", [
    ("[i, j] -> [i, j]", (8, 8), IN_ORDER),
    ("[i, j] -> [i, j ^ i % 8]", (16, 64), Placement(swizzle=(1, 8, 64))),
    ("[i, j] -> [i, j ^ i % 8 * 8]", (16, 64), Placement(swizzle=(8, 8, 64))),
    ("[i, j] -> [i * 66 + j]", (16, 64), Placement(pitch=(64, 66))),
    ("[i, j] -> [i // 16, j // 16, i % 16, j % 16]", (32, 64), None),
])  # fmt: skip
def test_arrangements_that_are_placements(text, shape, found):
    wanted = arrangement(text)
    assert wanted.problem(shape) is None and wanted.placement(shape) == found
    if found is not None:
        assert (found(np.arange(prod(shape))) == wanted.offsets(shape)).all()


@given(st.permutations("abcd"), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_a_permutation_of_dimensions_puts_each_element_where_it_says(order, shape):
    wanted = Arrangement(tuple("abcd"), tuple((name,) for name in order))
    assert arrangement(str(wanted)) == wanted and wanted.problem(shape) is None
    x = np.arange(prod(shape)).reshape(shape)
    lie = np.empty(x.size, np.int64)
    lie[wanted.offsets(shape)] = x.ravel()
    assert (lie == x.transpose(["abcd".index(name) for name in order]).ravel()).all()


@pytest.mark.parametrize("text, shape, why", [
    ("[i] -> [i]", (4, 4), "it has 1 indices, and the array 2 dimensions"),
    ("[i] -> [i - 1]", (4,), "result 0 is -1 at i=0"),
    ("[i, j] -> [i, j % 2]", (4, 4), "i=0, j=0 and i=0, j=2 lie in one place"),
    ("[i] -> [i * 3]", (64,), "its 64 elements would take 190 places"),
])  # fmt: skip
def test_problems_of_arrangements(text, shape, why):
    assert arrangement(text).problem(shape)[0] == why


@pytest.mark.parametrize("text", ["[i, r in 2] -> [i]", "[i, i] -> [i]", "[i] -> [k]"])
def test_texts_that_are_no_arrangements(text):
    with pytest.raises(ValueError):
        arrangement(text)


@pytest.mark.parametrize("text, shape, size", [("[i, j] -> [i, j]", (0, 4), (0, 1)), ("[e, r in 2] -> [r, e]", (3, 0), (0, 2))])
def test_arrays_without_elements(text, shape, size):
    where = places(parse(text), shape)
    assert where.thread.shape == size and where.slots == 0 and held(where, 32) is None and problem(parse(text), shape, 32) is None
