"""Offsets of accesses as forms: what must divide what for them to be multiples, and which go up by one."""

from __future__ import annotations

import pytest

from vxc.analysis.forms import Atom, digit, form
from vxc.analysis.offsets import Offsets, repeated_run_of, run_of
from vxc.dtypes import I64
from vxc.ir.kernel import Const, Inst, Value

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


def test_runs_in_digits_of_digits():
    """As of a tile of 16 columns in one of 64: element e % 64 lies at e % 64 // 16 * 256 + e % 16, in runs of up to 16."""
    v, e = Atom("v"), Atom("e")
    element = form(e) * 16 + form(v)
    column = element - digit("div", element, form(64)) * 64
    place = digit("div", column, form(16)) * 256 + column - digit("div", column, form(16)) * 16
    for count in (2, 8, 16):
        first = run_of(place, v, count)
        assert first is not None and v not in first.atoms()
    assert run_of(place, v, 32) is None


def test_runs_of_elements_that_iterations_share():
    """As of bytes of two elements each, 16 columns to a row of a tile: elements 8 * e on lie in 4 bytes in a row."""
    v, e = Atom("v"), Atom("e")
    element = form(e) * 8 + form(v)
    column = element - digit("div", element, form(16)) * 16
    place = digit("div", element, form(16)) * 128 + digit("div", column, form(2))
    tile = digit("div", form(e) * 8, form(16))
    assert repeated_run_of(place, v, 8) == (tile * 120 + form(e) * 4, 2)
    assert repeated_run_of(digit("div", element, form(4)) + 3, v, 8) == (form(e) * 2 + 3, 4)
    for other in (
        digit("div", element + 1, form(2)),  # which begins in the middle of a byte
        digit("div", form(e) + form(v), form(2)),  # or may do so
        digit("div", element, form(3)),
        digit("div", element, form(8)),  # one element for all
        digit("div", element + form(v), form(2)),
        digit("div", element, form(2)) * 2,
        digit("div", element, form(2)) + form(v),
        digit("div", element, form(2)) + digit("div", element, form(4)),
        element,
    ):
        assert repeated_run_of(other, v, 8) is None
