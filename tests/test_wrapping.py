"""Sums of indices that wrap: digits of what goes round are those of the wrapped number, in accesses of several elements, too."""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import compiled, output

from vxc.analysis.wrapping import NEAR, wrapped
from vxc.ir.kernel import Const

TEXT = "kernel k(x: f32[N], s: {}, out y: f32[N]) {{ parallel i in N {{ y[i] = x[(i + s) % N]; }} }}"


@pytest.mark.parametrize("size", [17, 40])
@pytest.mark.parametrize("s", [2**63 - 1, 2**63 - 4, -(2**63), 4 - 2**63, 2**62, 2**40, 2**40 + 1, -(2**40) - 1, 5])
@pytest.mark.parametrize("sign", "+-")
def test_elements_from_anywhere(size, s, sign):
    x = np.arange(size, dtype=np.float32)
    turned = [(i + int(f"{sign}1") * s + 2**63) % 2**64 - 2**63 for i in range(size)]
    text = TEXT.format("i64").replace("+", sign)
    np.testing.assert_array_equal(output(text, x=x, s=s, binary=False), x[[w % size for w in turned]])


SUMS = {
    "i + 3": False,
    "i * N + j": False,  # positions, however large their ranges
    "(j * M + i) * 64 + 5": False,
    "(N - 1 - i) // 4 * 64 + j % 64": False,
    "if a > 0 { i + 2 } else { j }": False,
    "s": False,  # no sum
    "i + p[j]": True,
    "i + s": True,
    "s * 3": True,
    "i - s": True,
    "i + a": False,
    "i + (s % N)": False,
    "i + (s & 255)": False,
    "min(i + s, 7) + j": False,
    "i * a": True,
    "i * j": False,  # below M * N
    "i * i * i - 2": True,
    "(i * M + j) * N + i": True,  # beyond any array
    "j * N": True,
    "M * M * M - 1 + i": True,
    "(i << 31 << 32) + j": True,
    "i * 1099511627776 * 8388608": True,
    "((i - 1) as u64 >> 1) as i64 + j": True,
    "s % M * N + j": False,
    "s % M * M + j": True,
    "i * 4611686018427387904": True,
    "i << a": True,
    "i << 3": False,
    "(a as i64) * (a as i64) * 2 + i": True,
    "if a > 0 { i + s } else { j }": True,
}


@pytest.mark.parametrize("index", SUMS)
def test_which_sums_may_wrap(index):
    params = "x: f32[N], p: i64[N], s: i64, a: i32, out y: f32[M, N]"
    text = f"kernel k({params}) {{ parallel i in M, j in N {{ y[i, j] = x[({index}) % 9]; }} }}"
    (kernel,) = compiled(text, binary=False).tile.kernels
    (divided,) = (inst.operands[0].name for inst in kernel.insts if inst.op == "mod" and inst.operands[1] == Const(9))
    assert (divided in wrapped(kernel)) == SUMS[index]


@pytest.mark.parametrize(
    "declared, index", [("i64", "i + s"), ("i64", "i + s % N"), ("i64", "2 * s - 7 + i"), ("i32", "i + s"), ("u8", "i - s")]
)
def test_what_cannot_wrap_is_loaded_together(declared, index):
    """Where an i64 is near 0, which the kernel tests; sums with a narrower one are."""
    insts = compiled(TEXT.format(declared).replace("i + s", index), binary=False).plan.kernels[0].insts
    assert any(inst.op == "move" and inst.operands[2].name == "x" for inst in insts)
    assert any(x == Const(NEAR) for inst in insts for x in inst.operands) == (declared == "i64" and "% N" not in index)


@pytest.mark.parametrize("index", ["i + p[0]", "i + s * s"])
def test_what_no_test_of_scalars_shows(index):
    text = TEXT.format("i64").replace("s: ", "p: i64[1], s: ").replace("i + s", index)
    insts = compiled(text, binary=False).plan.kernels[0].insts
    assert not any(inst.op == "move" and inst.operands[2].name == "x" for inst in insts)


@pytest.mark.parametrize("size", [17, 40])
@pytest.mark.parametrize(
    "s, scalars",
    [
        ("(a as i64) * (b as i64) * 2 - 9", {"a": -(2**31), "b": -(2**31)}),
        ("(1 << (a as i64)) - b", {"a": 63, "b": 7}),
        ("(((a - b) as i64) as u64 >> 1) as i64 - 6", {"a": 6, "b": 7}),
        ("(N // N << 31 << 32) - b", {"a": 0, "b": 7}),
        ("N // N * 1099511627776 * 8388608 - b", {"a": 0, "b": 7}),
    ],
)
def test_what_wraps_need_not_come_from_64_bits(size, s, scalars):
    """Nor from a sum: a product or a shift of small numbers goes past what 64 bits hold."""
    text = f"kernel k(a: i32, b: i32, x: f32[N], out y: f32[N]) {{ let s = {s}; parallel i in N {{ y[i] = x[(i + s) % N]; }} }}"
    x, first = np.arange(size, dtype=np.float32), 2**63 - (9 if "- 9" in s else 7)
    turned = [(i + first + 2**63) % 2**64 - 2**63 for i in range(size)]
    np.testing.assert_array_equal(output(text, x=x, binary=False, **scalars), x[[w % size for w in turned]])
