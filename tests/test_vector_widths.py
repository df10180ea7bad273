"""Vector accesses against an oracle that enumerates addresses: which elements go how wide, and that the bits stay the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vxc.analysis.forms import Atom, digit, form
from vxc.analysis.offsets import Offsets, run_of
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.dtypes import I64
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import HANDLERS, run_flat
from vxc.ir.kernel import Const, Inst, Value
from vxc.source import Source

ROWS = 3
MAP = "kernel k(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i] * 2.0; } }"
MATRIX = "kernel k(x: T[M, N], b: T[N], out y: T[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] + b[j]; } }"
ROW = "kernel k(x: T[M, N], out y: T[M, N]) { parallel i in M { y[i] = x[i] - max(x[i]); } }"
SIZES = {"f16": 2, "f32": 4}


@pytest.fixture
def moved(monkeypatch) -> Counter:
    """How many accesses of how many bytes each array has seen, counted by thread."""
    seen: Counter = Counter()
    move = HANDLERS["thread"]["move"]

    def counting(m, step):
        inst = step.inst
        (memory,) = (x for x in (inst.operands[0], inst.operands[2]) if x.space != "local")
        seen[memory.name, inst.attr("width") * memory.dtype.bytes] += int(np.broadcast_to(m.mask, m.shape).sum())
        move(m, step)

    monkeypatch.setitem(HANDLERS["thread"], "move", counting)
    return seen


@pytest.fixture(scope="module")
def kernels() -> dict[tuple[str, str], Compiled]:
    texts = {"map": MAP, "matrix": MATRIX, "row": ROW}
    return {(name, t): compile(Source("k.vx", text.replace("T", t))) for name, text in texts.items() for t in SIZES}


def places(size: int) -> list[dict[str, int]]:
    """Addresses modulo 16 for x and y: each alone at every place that suits its elements, and some of both."""
    every = range(0, 16, size)
    return [{"x": a, "y": 0} for a in every] + [{"x": 0, "y": a} for a in every if a] + [{"x": a, "y": a} for a in every if a]


def dealt(start: int, length: int, sizes: dict[str, int], bases: dict[str, int], most: int) -> tuple[list[int], Counter]:
    """Elements that are dealt out `most` at a time: where each stretch of so many begins, and the accesses of `y`, which is at a
    multiple of 16 bytes there, and of the other arrays, as wide as their addresses allow.
    """
    first = start + -(bases["y"] + start * sizes["y"]) % 16 // sizes["y"]
    firsts = list(range(first, start + length - most + 1, most))
    seen: Counter = Counter()
    for at in firsts:
        for name, size in sizes.items():
            bytes_ = widest(bases[name] + at * size, size, most)
            seen[name, bytes_] += most * size // bytes_
    return firsts, seen


def widest(address: int, size: int, most: int) -> int:
    """Bytes of an access to `most` elements that are at an address."""
    full = min(16, size * most)
    return next(w for w in (full, max(4, 2 * size), size) if address % w == 0)


def check(made: Compiled, arrays: dict, bases: dict[str, int]) -> None:
    expected = run_ast(made.typed, arrays, {})
    got = run_flat(made.plan, arrays, {}, bases=bases, seed=1)
    assert first_difference(expected, got) is None, bases


def numbers(shape, t: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.dtype(t.replace("f", "float")))


@pytest.mark.parametrize("t", SIZES)
@pytest.mark.parametrize("n", range(1, 65))
def test_one_dimension(kernels, moved, n, t):
    size = SIZES[t]
    for bases in places(size):
        moved.clear()
        check(kernels["map", t], {"x": numbers((n,), t)}, bases)
        assert moved == dealt(0, n, {"x": size, "y": size}, bases, 16 // size)[1], bases


@pytest.mark.parametrize("n", range(1, 65))
def test_two_types(moved, n):
    """Eight elements at a time, two accesses of the wider type."""
    made = compile(Source("k.vx", MAP.replace("x: T", "x: f16").replace("y: T", "y: f32")))
    for bases in [{"x": a, "y": b} for a in range(0, 16, 2) for b in range(0, 16, 4)][n % 3 :: 3]:
        moved.clear()
        check(made, {"x": numbers((n,), "f16")}, bases)
        assert moved == dealt(0, n, {"x": 2, "y": 4}, bases, 8)[1], bases


@pytest.mark.parametrize("t", SIZES)
@pytest.mark.parametrize("n", range(1, 65))
def test_a_matrix_is_one_stretch(kernels, moved, n, t):
    size, most = SIZES[t], 16 // SIZES[t]
    for bases in places(size)[n % 3 :: 3]:
        bases["b"] = (bases["x"] + n * size) % 16
        moved.clear()
        check(kernels["matrix", t], {"x": numbers((ROWS, n), t), "b": numbers((n,), t)}, bases)
        firsts, expected = dealt(0, ROWS * n, {"x": size, "y": size}, bases, most)
        for at in firsts:
            if at % n + most <= n:  # else b[j] begins again within a vector, and is loaded element by element
                bytes_ = widest(bases["b"] + at % n * size, size, most)
                expected["b", bytes_] += 16 // bytes_
        assert moved == (expected if n >= most else Counter()), bases


@pytest.mark.parametrize("t", SIZES)
@pytest.mark.parametrize("n", range(1, 65))
def test_rows(kernels, moved, n, t):
    size, most = SIZES[t], 16 // SIZES[t]
    for bases in places(size)[n % 3 :: 3]:
        moved.clear()
        check(kernels["row", t], {"x": numbers((ROWS, n), t)}, bases)
        expected = sum((dealt(n * row, n, {"x": size, "y": size}, bases, most)[1] for row in range(ROWS)), Counter())
        if n % most == 0 and bases["x"] == 0:
            expected["x", 16] += ROWS * n // most  # for its max: the order says which lane takes which elements
        assert moved == expected, bases


@pytest.mark.parametrize("n, pitch, wide", [(70, 72, True), (72, 73, False), (64, 64, True), (3, 8, True), (5, 6, False)])
def test_rows_with_a_pitch(moved, n, pitch, wide):
    """Where a row begins depends on the pitch; its last elements, which fill no vector, go one by one."""
    made = compile(Source("k.vx", "kernel k(x: f32[M, N : ld], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"))
    rows = 64  # a block of rows in flight, where they are short
    check(made, {"x": numbers((rows, pitch), "f32")[:, :n]}, {"x": 0})
    assert moved == Counter({("x", 16): rows * (n // 4) * wide})


@pytest.mark.parametrize("n", [0, 3, 4, 1030])
def test_no_array_is_met_at_multiples(n):
    """The only access that goes wide ends with the rows of x, so that what is dealt out begins at no array's multiple of 16 bytes."""
    made = compile(Source("k.vx", "kernel k(x: u8[N], at: i32[1], inout z: u32[1, 1, N]) { parallel i in 1 { z[at[0], i] = x as u32; } }"))
    arrays = {"x": np.arange(n, dtype=np.uint8), "at": np.zeros(1, np.int32), "z": np.ones((1, 1, n), np.uint32)}
    for bases in places(1)[::3] if n else [{"x": 0}]:
        check(made, arrays, {"x": bases["x"]})


# ---- forms -------------------------------------------------------------------------------------------------------------

N, K = Value("N", I64), Value("K", I64)


def offsets(*lines: tuple) -> Offsets:
    """Offsets after `(result, op, operands..)` lines; strings are values, N and K parameters."""
    found = Offsets.of((N, K))
    for name, op, *operands in lines:
        found.define(Inst(op, tuple(Value(x, I64) if isinstance(x, str) else Const(x) for x in operands), Value(name, I64)))
    return found


def test_digits_add_up():
    found = offsets(("r", "floordiv", "e", "N"), ("j", "mod", "e", "N"), ("a", "mul", "r", "N"), ("b", "add", "a", "j"))
    assert found.forms["b"] == form(Atom("e"))
    assert found.divisors["b"] == {"N"}


@pytest.mark.parametrize("lines, by, needs", [
    ([("f", "mul", "N", "i")], 4, {"N": 4}),
    ([("m", "mod", "N", 128), ("f", "sub", "N", "m")], 64, {}),
    ([("m", "mul", "i", 2), ("f", "mul", "m", "N")], 8, {"N": 4}),
    ([("m", "mul", "N", "K"), ("f", "max", "m", 0)], 8, {"K": 8}),
    ([("f", "add", "i", 0)], 2, None),
    ([("f", "add", "N", 2)], 4, None),
    ([("i", "loop", "N", 100, 6), ("f", "add", "i", 0)], 2, {"N": 2}),
    ([("i", "loop", 0, 100, 6), ("f", "add", "i", 0)], 4, None),
])  # fmt: skip
def test_divisibility(lines, by, needs):
    found = offsets(*lines)
    assert found.divisible(found.forms["f"], by, {}) == needs


def test_of_two_dimensions_the_one_that_is_needed_anyway():
    found = offsets(("f", "mul", "N", "K"))
    assert found.divisible(found.forms["f"], 8, {"N": 8}) == {"N": 8}


def test_runs_of_consecutive_elements():
    v, e = Atom("v"), Atom("e")
    assert run_of(form(e) * 4 + form(v), v, 4) == form(e) * 4
    assert run_of(form(e) + form(v) * 2, v, 4) is None
    quotient = digit("div", form(e) * 4 + form(v), form(8))
    assert run_of(quotient * 64 + form(v), v, 4) == digit("div", form(e) * 4, form(8)) * 64
    assert run_of(quotient * 64 + form(v), v, 16) is None
    assert run_of(digit("div", form(e) + form(v), form(8)) + form(v), v, 4) is None
