"""Rows that begin anywhere, taken as the aligned vectors in which they lie (`vxc.analysis.rows_anywhere`): which reductions are, what
they load, and that the bits are those of the order.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.test_straight_loads import LINE, Touched
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.pipeline import PIPELINE
from vxc.source import Source

ROWS = 3
SUM = "kernel k(x: T[M, {n}], out s: A[M]) {{ parallel i in M {{ s[i] = sum(x[i]); }} }}"


def made(text: str, t: str = "f32", **aligned: bool) -> Compiled:
    return compile(Source("k.vx", text.replace("T", t).replace("A", "u32" if t == "u8" else "f32")), aligned=aligned)


def numbers(t: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, 256, shape).astype(np.uint8) if t == "u8" else rng.standard_normal(shape).astype(DTYPES[t].numpy)


def lines(kernel: Compiled) -> list:
    return [inst for k in kernel.plan.kernels for inst in k.insts if inst.op == "move" and inst.attr("anywhere") == "line"]


# Lanes of a warp and of several, rows that end with a step and behind it by less than a vector, and by all but one element.
@pytest.mark.parametrize(
    "t, n",
    [("f16", 544), ("f16", 1030), ("f16", 8193), ("f32", 384), ("f32", 511), ("f32", 8191), ("u8", 1041), ("u8", 4100)],
)
def test_each_vector_of_a_row_is_loaded_once(t, n):
    kernel, size = made(SUM.format(n=n), t), DTYPES[t].bytes
    assert lines(kernel)
    x = numbers(t, ROWS, n)
    want = run_ast(kernel.typed, {"x": x}, {})
    for base in range(0, LINE, size):
        touched = Touched()
        got = run_flat(kernel.plan, {"x": x}, {}, bases={"x": base, "s": 0}, seed=1, counters=touched)
        assert first_difference(want, got) is None, base
        loads: Counter = Counter()
        for (_, _, name, width), count in touched.accesses.items():
            loads[name, width] += count.threads
        held = [{(base + (row * n + e) * size) // LINE for e in range(n)} for row in range(ROWS)]
        assert loads["x", LINE] == sum(map(len, held)) and {width for name, width in loads if name == "x"} == {LINE}, base
        assert all(start % LINE == 0 and start < last and end > first for start, end, first, last in touched.seen if end - start == LINE)


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 4098, 4223, 32767, 32768, 32769, 40000])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_lengths_that_only_the_call_knows(op, n):
    kernel = made(SUM.format(n="N").replace("sum", op))
    x = numbers("f32", 2, n)
    want = run_ast(kernel.typed, {"x": x}, {})
    for base in range(0, LINE, 4):
        assert first_difference(want, run_flat(kernel.plan, {"x": x}, {}, bases={"x": base, "s": 0}, seed=base)) is None, base


@pytest.mark.parametrize(
    "body",
    [
        "s[i] = sum(x[i] * x[i]);",
        "s[i] = sum(x[i, 3:]);",
        "s[i] = max(abs(x[i]));",
        "s[i] = sum(x[i] * (i as T)) / 2.0;",
        "s[i] = prod(x[i]);",
        "s[i] = @lanes(8) sum(x[i]);",
    ],
)
def test_what_a_row_may_go_through(body):
    kernel = made(f"kernel k(x: T[M, 1030], out s: A[M]) {{ parallel i in M {{ {body} }} }}")
    assert lines(kernel)
    x = numbers("f32", ROWS, 1030)
    want = run_ast(kernel.typed, {"x": x}, {})
    for name in ("lower-to-threads", PIPELINE.passes[-1].name):
        for base in (0, 4, 12):
            got = run_flat(kernel.after(name), {"x": x}, {}, bases={"x": base, "s": 0}, seed=1)
            assert first_difference(want, got) is None, (name, base)


@pytest.mark.parametrize(
    "text, aligned",
    [
        (SUM.format(n=1032), {"x": True}),  # begins with a vector
        (SUM.format(n=100), {}),  # less than two vectors to a lane
        (SUM.format(n="N : ld").replace("sum", "argmax").replace("A[M]", "i64[M]"), {}),  # an index
        ("kernel k(x: T[M, 1030], y: T[M, 1030], out s: A[M]) { parallel i in M { s[i] = dot(x[i], y[i]); } }", {}),  # two arrays
        ("kernel k(inout x: T[M, 1030], out s: A[M]) { parallel i in M { s[i] = sum(x[i]); } }", {}),  # may be written
        ("kernel k(x: T[M, 2060], out s: A[M]) { parallel i in M { s[i] = sum(x[i, ::2]); } }", {}),  # not one after another
    ],
)
def test_what_goes_as_the_order_deals_it(text, aligned):
    assert not lines(made(text, **aligned))


@pytest.mark.parametrize(
    "body, once",
    [("s[i] = sum(x[i]);", True), ("s[i] = sum(x[i]) + x[i, 0];", False), ("s[i] = sum(x[i // 2]);", False), ("s[i] = sum(x[0]);", False)],
)
def test_what_is_read_once(body, once):
    found = lines(made(f"kernel k(x: T[M, 1030], out s: A[M]) {{ parallel i in M {{ {body} }} }}"))
    assert found and all(bool(inst.attr("once")) == once for inst in found)
