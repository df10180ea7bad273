"""How wide accesses are, against what is found from the addresses that each thread touches (`width_oracle`): every length of a row to 64,
every place modulo 16 bytes, lengths known and not, arrays of which it is known how they lie and others.

Every group of elements that a thread takes goes by its widest accesses, or by the fewest of several widths, or as the vectors that hold
it, but for what SHORT lists, which goes by exactly what is said there; and threads take whole vectors of elements wherever they can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import NamedTuple

import numpy as np
import pytest

from tests.width_oracle import WORD, Group, Trace
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

ROWS = 3
SIZES = {"f16": 2, "f32": 4}
FEW = 4  # elements of a vector of which so little may be left that it goes one by one
EVERY = tuple(range(1, 65))
SOME = (1, 2, 3, 4, 6, 7, 8, 9, 12, 14, 15, 16, 17, 20, 24, 28, 31, 32, 33, 36, 40, 50, 63, 64)
ROW = "kernel k(x: T[M, N], out y: T[M, N]) { parallel i in M { y[i] = x[i] - max(x[i]); } }"


class Form(NamedTuple):
    """A kernel. `flat`: any thread may take any elements of the arrays; `order`: the order of a reduction says which, from the first of
    each row on; `kept`: so too, of rows that are kept or read again.
    """

    kind: str
    text: str


FORMS = {
    "map": Form("flat", "kernel k(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i] * 2.0; } }"),
    "wider": Form("flat", "kernel k(x: f16[N], out y: f32[N]) { parallel i in N { y[i] = x[i] as f32; } }"),
    "narrower": Form("flat", "kernel k(x: f32[N], out y: f16[N]) { parallel i in N { y[i] = x[i] as f16; } }"),
    "bias": Form("flat", "kernel k(x: T[M, N], b: T[N], out y: T[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] + b[j]; } }"),
    "mixed": Form(
        "flat", "kernel k(x: f32[M, N], w: f16[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] * w[i, j] as f32; } }"
    ),
    "sum": Form("order", "kernel k(x: T[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"),
    "dot": Form("order", "kernel k(x: f32[M, N], w: f16[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i] * (w[i] as f32)); } }"),
    "row": Form("kept", ROW),
}


class Call(NamedTuple):
    """A run to judge: rows of `n` elements, `known` to the compiler or not, of arrays whose elements have these sizes, at these places."""

    form: Form
    n: int
    known: bool
    aligned: dict[str, bool]
    sizes: dict[str, int]
    bases: dict[str, int]

    @property
    def vector(self) -> int:
        """Elements that 16 bytes of the narrowest array hold: of which orders deal each lane so many in a row, and loops may."""
        return 16 // min(self.sizes.values())

    @property
    def flat_length(self) -> int | None:
        """Elements of an array of one dimension."""
        return self.n if "[M" not in self.form.text else None

    @property
    def tests(self) -> bool:
        """Whether the kernel has loops twice, for arrays that all begin at multiples of 16 bytes, and for others: where nothing is known of
        them, and rows of one at least would begin at such then.
        """
        return not self.aligned and any(not self.known or self.n * size % 16 == 0 for size in self.sizes.values())


class Short(NamedTuple):
    """Groups that go by narrower accesses than they could: where, the bytes of each, and why."""

    where: Callable[[Call, Group], bool]
    bytes: Callable[[Call, Group], int]
    why: str


def element(call: Call, group: Group) -> int:
    return group.size


def common(call: Call, group: Group) -> int:
    return min(group.widest, gcd(call.n, call.vector) * group.size)


def kept(call: Call, g: Group) -> bool:
    """Words stored to rows whose length only the call knows, or of several runs of less than a vector, where an array begins elsewhere."""
    run = gcd(call.n, call.vector)
    several = 1 < run < call.n < call.vector if call.known else run == call.vector
    elsewhere = any(base % (run * size) for base, size in zip(call.bases.values(), call.sizes.values()))
    return call.form.kind == "kept" and g.mode == "w" and g.size >= 4 and not call.aligned and several and elsewhere


def rest(call: Call, g: Group) -> bool:
    whole = call.form.kind == "kept" and call.known and g.count == call.n
    return call.vector <= FEW and g.count < call.vector and call.form.kind != "flat" and not whole


def across(call: Call, g: Group) -> bool:
    return call.form.kind == "flat" and g.array == "b" and g.count < call.vector


def in_turns(call: Call, g: Group) -> bool:
    few = call.known and call.vector < call.n <= 4 * call.vector
    return few and (call.form.kind == "kept" and g.mode == "w" or call.form.kind == "order" and call.tests)


SHORT = (
    Short(
        kept,
        element,
        "words of a row that is kept, of several runs to a thread or of a length that only the call knows, are stored wide where all "
        "arrays begin at multiples of a run; else one by one: by address they would cost registers (softmax by 256 lanes would spill 44 "
        "bytes), and layernorm of 16384 rows of 1000 would take 54 us on an H200 for 52",
    ),
    Short(
        rest,
        element,
        "what is left of a row behind its whole vectors, three elements at most, goes one element at a time: as wide as addresses allow, "
        "sums of rows of 33 f32 by a kernel for any length take 70 us on an H200 for 59, softmax of 333 f32 84 for 71",
    ),
    Short(
        across,
        element,
        "a vector in which a row ends is loaded one element at a time from an array that each row has anew: as the vectors that hold both "
        "sides of the end, bias_gelu of 671,088 rows of 100 f16 takes 98 us on an H200 for 76, of 33 100 for 79, of 33 f32 149 for 126",
    ),
    Short(
        in_turns,
        common,
        "rows of four vectors or fewer have fewer lanes than a quarter of a warp: where rows beside one another begin elsewhere modulo 16 "
        "bytes, lanes would take turns, so they are no wider than all rows allow: stored by the fewest accesses of each address, softmax "
        "of 3,355,443 rows of 20 f16 takes 179 us on an H200 for 157",
    ),
)


def judge(call: Call, groups: list[Group]) -> None:
    for g in groups:
        short = next((s for s in SHORT if s.where(call, g) and s.bytes(call, g) < g.widest), None)
        expected = short.bytes(call, g) if short else g.widest
        halves = g.widest < WORD and g.mode == "w" and g.count == call.vector and call.form.kind == "kept" and not call.known
        wide = g.words or g.filled and g.width == expected and not halves
        assert (g.held or g.fewest) and not short or wide, (call, g)
    whole = {(g.array, (g.address - call.bases[g.array]) // g.size) for g in groups if g.count == taken(call)}
    assert whole == set(complete(call)), call


def taken(call: Call) -> int:
    """Elements that a thread takes in a row: one of so few that each goes to a thread of its own."""
    return 1 if call.known and call.flat_length is not None else call.vector


def complete(call: Call) -> Iterator[tuple[str, int]]:
    """The array and the first element of each group of so many."""
    n, v, kind = call.n, taken(call), call.form.kind
    if kind == "flat":
        for at in windows(call, 0, call.flat_length or ROWS * n):
            yield from ((name, at) for name in call.sizes if name != "b")
            yield from (("b", at % n) for name in call.sizes if name == "b" and at % n + v <= n)
        return
    for start in range(0, ROWS * n, n):
        again = kind == "kept" and not call.known and n % v != 0  # then from where y begins with a vector
        if again:
            yield from ((name, at) for at in windows(call, start, n) for name in call.sizes)
        for at in range(start, start + n - v + 1, v):
            yield from ((name, at) for name in call.sizes if name != "y" or not again)


def windows(call: Call, start: int, length: int) -> Iterator[int]:
    """The first elements of whole vectors, one behind the other from where `y` is at a multiple of 16 bytes, or of one element."""
    base, size, v = call.bases["y"], call.sizes["y"], taken(call)
    first = next(e for e in range(start, start + 17) if (base + e * size) % min(16, v * size) == 0)
    return iter(range(first, start + length - v + 1, v))


def numbers(shape: tuple[int, ...], t: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.dtype(t.replace("f", "float")))


def places(sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Addresses modulo 16: each array alone at every place that suits its elements, and all at the same."""
    yield dict.fromkeys(sizes, 0)
    for name, size in sizes.items():
        yield from (dict.fromkeys(sizes, 0) | {name: at} for at in range(size, 16, size))
    yield from (dict.fromkeys(sizes, at) for at in range(max(sizes.values()), 16, max(sizes.values())))


def traced(made: Compiled, arrays: dict[str, np.ndarray], bases: dict[str, int], want) -> Trace:
    """Of a run that gives the right bits."""
    trace = Trace()
    got = run_flat(made.plan, arrays, {}, bases=bases, seed=1, counters=trace)
    assert first_difference(want, got) is None, bases
    return trace


def check(form: Form, t: str, known: bool, aligned: dict[str, bool], lengths: tuple[int, ...]) -> None:
    text = form.text.replace("T", t)
    for n in lengths:
        if known or n == lengths[0]:
            made = compile(Source("k.vx", text.replace("N", str(n)) if known else text), aligned=aligned)
        sizes = {b.name: b.dtype.bytes for b in made.plan.buffers if b.name != "s"}
        call = Call(form, n, known, aligned, sizes, {})
        if any(aligned.values()) and not known and call.flat_length is None and any(n * size % 16 for size in sizes.values()):
            continue  # refused, as tests/test_alignment.py says
        arrays = {b.name: numbers((ROWS, n)[2 - len(b.shape) :], str(b.dtype)) for b in made.plan.buffers if b.mode == "in"}
        rows = {b.name for b in made.plan.buffers if len(b.shape) == 2 and form.kind != "flat"}
        want = run_ast(made.typed, arrays, {})
        for bases in places(sizes):
            if any(bases[name] for name in sizes if aligned.get(name)):
                continue
            trace = traced(made, arrays, {"s": 0} | bases, want)
            starts = {name: range(bases[name], bases[name] + ROWS * n * sizes[name], n * sizes[name]) for name in rows & sizes.keys()}
            judge(call._replace(bases=bases), [g for g in trace.groups(call.vector, starts) if g.array in sizes])


CASES = [(name, t) for name, form in FORMS.items() for t in (SIZES if "T" in form.text else ["f16"])]


@pytest.mark.parametrize("known", [True, False], ids=["fixed", "run-time"])
@pytest.mark.parametrize("name, t", CASES)
def test_every_length_and_place(name, t, known):
    check(FORMS[name], t, known, {}, SOME if name == "dot" else EVERY)


@pytest.mark.parametrize("known", [True, False], ids=["fixed", "run-time"])
@pytest.mark.parametrize("name, t", CASES)
def test_arrays_that_are_known_to_begin_with_a_vector(name, t, known):
    form = FORMS[name]
    arrays = [word for word in ("x", "w", "b", "y", "s") if f"{word}: " in form.text]
    check(form, t, known, dict.fromkeys(arrays, True), EVERY)
