"""Accesses of some kernels against an oracle that enumerates addresses and knows nothing of the pass: how many bytes, how often. What all
lengths and places of ordinary arrays give is in test_widest_accesses.py; here is what is known of one array and not of another, elements
that iterations share, pitches, and rows from some element on.

A run is what one thread takes in a row: the elements that the order of a reduction gives a lane, or 16 bytes of the array that
an elementwise loop writes.
It goes in accesses of one width, the widest of 16, 8, 4, 2 and 1 bytes of which all of them are multiples. Rows whose length in the text is
no multiple of 16 bytes are loaded as the vectors of 16 bytes that their addresses lie in, however they lie. So is what is left of a row,
but for three elements or fewer, which go one by one. Of elements dealt out, those of a run that is not complete go one to a thread; those
of `b` in a run in which a row ends, one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_interp import run_flat
from vxc.semantics import reduce_order
from vxc.source import Source

ROWS = 256  # or a part of those that blocks have in flight, where rows are short: else the last would be read again
SIZES = {"f16": 2, "f32": 4}
FEW = 4  # elements of a vector of which so little may be left that it goes one by one
MAP = "kernel k(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i] * 2.0; } }"
SUM = "kernel k(x: T[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"
ROW = "kernel k(x: T[M, N], out y: T[M, N]) { parallel i in M { y[i] = x[i] - max(x[i]); } }"


def pieces(addresses: list[int], size: int) -> Counter:
    """Bytes of each access to elements of `size` bytes at consecutive addresses -> how many."""
    whole = len(addresses) * size
    legal = (w for w in (16, 8, 4, 2, 1) if w >= size and whole % w == 0 and not any(a % w for a in addresses[:: w // size]))
    width = next(legal)
    return Counter({width: whole // width})


def stored(addresses: list[int], size: int) -> Counter:
    """The same of stores by address: between two words, words and a half at both ends."""
    halves = pieces(addresses, size).keys() == {2}
    return Counter({2: 2, 4: len(addresses) // 2 - 1}) if halves and len(addresses) > 1 else pieces(addresses, size)


def vectors(addresses: list[int]) -> Counter:
    return Counter({16: len({a // 16 for a in addresses})})


def run(base: int, size: int, first: int, count: int) -> list[int]:
    return [base + (first + k) * size for k in range(count)]


def reduced(base: int, size: int, start: int, length: int, order, straight: bool = False) -> Counter:
    """Accesses of the lanes that reduce `length` elements from element `start` on; `straight`: as vectors, however they lie."""
    seen: Counter = Counter()
    for e in range(0, length, order.v):
        addresses = run(base, size, start + e, min(order.v, length - e))
        complete = vectors(addresses) if straight else pieces(addresses, size)
        seen += complete if len(addresses) == order.v or order.v > FEW else Counter({size: len(addresses)})
    return seen


def dealt(start: int, length: int, sizes: dict[str, int], bases: dict[str, int], most: int) -> Counter:
    """Accesses to elements dealt out `most` at a time from where `y` is at a multiple of 16 bytes."""
    first = next(e for e in range(start, start + 17) if (bases["y"] + e * sizes["y"]) % 16 == 0)
    firsts = list(range(first, start + length - most + 1, most))
    seen: Counter = Counter()
    for name, size in sizes.items():
        for at in firsts:
            seen += named(name, pieces(run(bases[name], size, at, most), size))
        seen[name, size] += length - most * len(firsts)
    return seen


def named(name: str, seen: Counter) -> Counter:
    return Counter({(name, width): count for width, count in seen.items()})


def places(size: int) -> list[dict[str, int]]:
    """Addresses modulo 16 for x and y: each alone at every place that suits its elements, and some of both."""
    every = range(0, 16, size)
    return [{"x": a, "y": 0} for a in every] + [{"x": 0, "y": a} for a in every if a] + [{"x": a, "y": a} for a in every if a]


def check(made: Compiled, arrays: dict, bases: dict[str, int], names: Iterable[str] = ("x", "y")) -> Counter:
    """Accesses by (array, bytes), of a run that gives the right bits."""
    counters = Counters()
    got = run_flat(made.plan, arrays, {}, bases=bases, seed=1, counters=counters)
    assert first_difference(run_ast(made.typed, arrays, {}), got) is None, bases
    seen: Counter = Counter()
    for (_, _, name, width), count in counters.accesses.items():
        if name in names:
            seen[name, width] += count.threads
    return seen


def numbers(shape, t: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.dtype(t.replace("f", "float")))


def known(text: str, t: str, **aligned: bool) -> Compiled:
    made = compile(Source("k.vx", text.replace("T", t)), aligned=aligned)
    assert not any(inst.op == "aligned" for kernel in made.plan.kernels for inst in kernel.insts)
    return made


@pytest.mark.parametrize("t", SIZES)
@pytest.mark.parametrize("x, y", [(True, True), (True, False), (False, True), (False, False)])
def test_one_dimension_of_known_arrays(t, x, y):
    size, made = SIZES[t], known(MAP, t, x=x, y=y)
    for n in range(1, 65, 3):
        for bases in (b for b in places(size) if not (x and b["x"] or y and b["y"])):
            expected = dealt(0, n, {"x": size, "y": size}, bases, 16 // size)
            assert check(made, {"x": numbers((n,), t)}, bases) == expected, (n, bases)
    assert ("ahead" in {inst.op for kernel in made.plan.kernels for inst in kernel.insts}) == (not y)


@pytest.mark.parametrize("x", [True, False])
@pytest.mark.parametrize("each, count", [(2, 4), (4, 2), (8, 1), (3, 1)])
def test_elements_that_iterations_share(each, count, x):
    """Of eight iterations at a time, each `each` read one byte of x; where that does not divide them, or is all, one byte at a time."""
    n = 2304
    text = f"kernel k(x: u8[{n // each}], out y: f16[{n}]) {{ parallel i in {n} {{ y[i] = x[i // {each}] as f16; }} }}"
    made, bytes_ = known(text, "f16", x=x, y=True), np.random.default_rng(each).integers(0, 256, n // each, np.uint8)
    for base in range(1 if x else 16):
        expected = Counter({("y", 16): n // 8})
        for first in range(0, n, 8):
            expected += named("x", pieces(run(base, 1, first // each, count), 1) if count > 1 else Counter({1: 8}))
        assert check(made, {"x": bytes_}, {"x": base}) == expected, base


@pytest.mark.parametrize("t", SIZES)
@pytest.mark.parametrize("x", [True, False])
def test_reduced_rows_of_known_arrays(t, x):
    """Rows known to begin at multiples of 16 bytes: whole vectors; anywhere: the vectors that hold them, whatever the length."""
    size, runtime = SIZES[t], known(SUM, t, x=x, s=True)
    for n in (1, 3, 8, 16, 24, 27, 40, 64):
        static = known(SUM.replace("N", str(n)), t, x=x, s=True)
        for made, length in ((runtime, None), (static, n)):
            if x and length is None and n * size % 16:
                continue  # refused, as tests/test_alignment.py says
            order = reduce_order(length, made.typed.params[0].dtype, True)
            for base in (0,) if x else range(0, 16, size):
                straight = not x or n * size % 16 != 0
                expected = sum((reduced(base, size, row * n, n, order, straight) for row in range(ROWS)), Counter())
                assert check(made, {"x": numbers((ROWS, n), t)}, {"x": base}, ("x",)) == named("x", expected), (length, base)


@pytest.mark.parametrize("t, n, straight", [("f16", 64, True), ("f16", 1024, True), ("f32", 64, True), ("f32", 512, False)])
def test_kept_rows_of_known_arrays(t, n, straight):
    """Of 4 bytes, elements of a row of which lanes keep several runs go by address, all others as the vectors that hold them."""
    size, most = SIZES[t], 16 // SIZES[t]
    text, x = ROW.replace("N", str(n)), numbers((2, n), t)
    assert check(known(text, t, x=True, y=True), {"x": x}, {}) == Counter({(name, 16): x.nbytes // 16 for name in ("x", "y")})
    made = known(text, t, x=False, y=False)
    for bases in places(size):
        loads = (run(bases["x"], size, at, most) for at in range(0, x.size, most))
        stores = (run(bases["y"], size, at, most) for at in range(0, x.size, most))
        expected = named("x", sum((vectors(a) if straight else pieces(a, size) for a in loads), Counter()))
        assert check(made, {"x": x}, bases) == expected + named("y", sum((stored(a, size) for a in stores), Counter())), bases


@pytest.mark.parametrize("n, pitch", [(70, 72), (72, 73), (64, 64), (3, 8), (5, 6), (33, 35)])
@pytest.mark.parametrize("base", range(0, 16, 4))
def test_rows_with_a_pitch(n, pitch, base):
    made = compile(Source("k.vx", "kernel k(x: f32[M, N : ld], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"))
    order = reduce_order(None, made.typed.params[0].dtype, True)
    expected = sum((reduced(base, 4, row * pitch, n, order) for row in range(ROWS)), Counter())
    assert check(made, {"x": numbers((ROWS, pitch), "f32")[:, :n]}, {"x": base}, ("x",)) == named("x", expected)


@pytest.mark.parametrize("start", range(9))
def test_a_row_from_some_element_on(start):
    made = compile(Source("k.vx", f"kernel k(x: f16[M, 75], out s: f32[M]) {{ parallel i in M {{ s[i] = sum(x[i, {start}:]); }} }}"))
    order = reduce_order(75 - start, made.typed.params[0].dtype, True)
    expected = sum((reduced(2, 2, row * 75 + start, 75 - start, order, straight=True) for row in range(ROWS)), Counter())
    assert check(made, {"x": numbers((ROWS, 75), "f16")}, {"x": 2}, ("x",)) == named("x", expected)


@pytest.mark.parametrize("n", [0, 3, 4, 1030])
def test_no_array_is_met_at_multiples(n):
    """The only access that goes wide ends with the rows of x, so that what is dealt out begins at no array's multiple of 16 bytes."""
    made = compile(Source("k.vx", "kernel k(x: u8[N], at: i32[1], inout z: u32[1, 1, N]) { parallel i in 1 { z[at[0], i] = x as u32; } }"))
    arrays = {"x": np.arange(n, dtype=np.uint8), "at": np.zeros(1, np.int32), "z": np.ones((1, 1, n), np.uint32)}
    for bases in places(1)[::3] if n else [{"x": 0}]:
        check(made, arrays, {"x": bases["x"]})
