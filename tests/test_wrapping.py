"""Sums of indices that wrap: digits of what goes round are those of the wrapped number, in accesses of several elements, too."""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import compiled, output

TEXT = "kernel k(x: f32[N], s: {}, out y: f32[N]) {{ parallel i in N {{ y[i] = x[(i + s) % N]; }} }}"


@pytest.mark.parametrize("size", [17, 40])
@pytest.mark.parametrize("s", [2**63 - 1, 2**63 - 4, -(2**63), 2**62, 5])
def test_elements_from_anywhere(size, s):
    x = np.arange(size, dtype=np.float32)
    wrapped = [(i + s + 2**63) % 2**64 - 2**63 for i in range(size)]
    np.testing.assert_array_equal(output(TEXT.format("i64"), x=x, s=s, binary=False), x[[w % size for w in wrapped]])


def test_what_cannot_wrap_is_loaded_together():
    insts = compiled(TEXT.format("i64").replace("+ s", "+ s % N"), binary=False).plan.kernels[0].insts
    assert any(inst.op == "move" and inst.operands[2].name == "x" for inst in insts)


@pytest.mark.parametrize("size", [17, 40])
@pytest.mark.parametrize(
    "s, scalars",
    [
        ("(a as i64) * (b as i64) * 2 - 9", {"a": -(2**31), "b": -(2**31)}),
        ("(1 << (a as i64)) - b", {"a": 63, "b": 7}),
    ],
)
def test_what_wraps_need_not_come_from_64_bits(size, s, scalars):
    """Nor from a sum: a product or a shift of small numbers goes past what 64 bits hold."""
    text = f"kernel k(a: i32, b: i32, x: f32[N], out y: f32[N]) {{ let s = {s}; parallel i in N {{ y[i] = x[(i + s) % N]; }} }}"
    x, first = np.arange(size, dtype=np.float32), 2**63 - (9 if "- 9" in s else 7)
    wrapped = [(i + first + 2**63) % 2**64 - 2**63 for i in range(size)]
    np.testing.assert_array_equal(output(text, x=x, binary=False, **scalars), x[[w % size for w in wrapped]])
