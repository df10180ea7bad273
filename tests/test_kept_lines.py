"""Kept rows that lie as they do in memory (`vxc.analysis.kept_lines`): which kernels keep them so, what they move, and that the bits are
those of the order.
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
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_interp import run_flat
from vxc.pipeline import PIPELINE
from vxc.source import Source

ROWS = 3
SOFTMAX = """kernel k(x: T[M, {n}], out y: T[M, {n}]) {{
    parallel i in M {{ let m = max(x[i]); let z = sum(exp(x[i] - m)); y[i] = exp(x[i] - m) / z; }}
}}"""
NORM = "kernel k(x: T[M, {n}], w: T[{n}], out y: T[M, {n}]) {{ parallel i in M {{ y[i] = x[i] * sum(x[i]) * w; }} }}"
AFFINE = """kernel k(x: T[M, {n}], w: T[{n}], v: T[{n}], out y: T[M, {n}]) {{
    parallel i in M {{ y[i] = x[i] * sum(x[i]) * w + v; }}
}}"""
STATS = "kernel k(x: T[M, {n}], out s: f32[M]) {{ parallel i in M {{ let m = sum(x[i]); s[i] = sum((x[i] - m) * (x[i] - m)); }} }}"


def made(text: str, t: str, **aligned: bool) -> Compiled:
    return compile(Source("k.vx", text.replace("T[", f"{t}[")), aligned=aligned)


def numbers(t: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(DTYPES[t].numpy)


def kept(kernel: Compiled) -> bool:
    return any("keep aligned vectors" in remark.message for remark in kernel.remarks)


def inputs(kernel: Compiled, t: str, n: int) -> dict[str, np.ndarray]:
    return {b.name: numbers(t, *(ROWS, n)[2 - len(b.shape) :]) for b in kernel.plan.buffers if b.mode == "in"}


# Lanes of a warp and of several; rows that end with a step, behind it by one element, and by all but what a vector begins behind 16 bytes.
LENGTHS = [("f16", 505), ("f16", 1001), ("f16", 1017), ("f16", 2049), ("f32", 333), ("f32", 381), ("f32", 1001), ("f32", 8193)]


@pytest.mark.parametrize("text", [SOFTMAX, STATS], ids=["softmax", "stats"])
@pytest.mark.parametrize("t, n", LENGTHS)
def test_each_vector_of_a_row_is_loaded_once_and_stored_whole(t, n, text):
    """But for the ends of a row, whose vectors have elements of others: of those its own are stored."""
    known = {"x": True, "y": True} if text is SOFTMAX and (t == "f32" or n < 512) else {}
    kernel, size = made(text.format(n=n), t, **known), DTYPES[t].bytes
    assert kept(kernel)
    arrays = inputs(kernel, t, n)
    want = run_ast(kernel.typed, arrays, {})
    for base in range(0, size if known else LINE, size):
        touched = Touched()
        bases = {"x": base if text is STATS else 0, "y": base, "s": 0}
        got = run_flat(kernel.plan, arrays, {}, bases=bases, seed=1, counters=touched)
        assert first_difference(want, got) is None, base
        lined = "x" if text is STATS else "y"
        lines = [[(base + (row * n + e) * size) // LINE for e in range(n)] for row in range(ROWS)]
        whole = sum(count * size == LINE for row in lines for count in Counter(row).values())
        seen: Counter = Counter()
        for (_, _, name, width), count in touched.accesses.items():
            seen[name, width] += count.threads
        if text is STATS:
            assert seen["x", LINE] == sum(len({*row}) for row in lines) and {w for name, w in seen if name == "x"} == {LINE}, base
        else:
            stored = sum(width * count for (name, width), count in seen.items() if name == lined)
            assert seen[lined, LINE] == whole and stored == ROWS * n * size, base
        assert all(start < last and end > first and start % (end - start) == 0 for start, end, first, last in touched.seen), base


@pytest.mark.parametrize("t", ["f16", "f32"])
@pytest.mark.parametrize("text", [SOFTMAX, NORM, STATS], ids=["softmax", "norm", "stats"])
def test_the_bits_are_those_of_the_order_after_each_pass(text, t):
    for n, bases in ((333, {"x": 0, "y": 0}), (1001, {"x": 8, "y": 4}), (1001, {"x": 4, "y": 12, "w": 8})):
        for aligned in ({}, dict.fromkeys(("x", "y"), True), dict.fromkeys(("x", "w", "y"), False)):
            if any(bases.values()) and any(aligned.values()):
                continue
            kernel = made(text.format(n=n), t, **{name: lies for name, lies in aligned.items() if f"{name}: " in text})
            arrays = inputs(kernel, t, n)
            want = run_ast(kernel.typed, arrays, {})
            for name in ("place-barriers", "lower-to-threads", "infer-vector-widths", PIPELINE.passes[-1].name):
                placed = {b.name: bases.get(b.name, 0) for b in kernel.plan.buffers} if name != "place-barriers" else {}
                got = run_flat(kernel.after(name), arrays, {}, bases=placed, seed=n)
                assert first_difference(want, got) is None, (n, name)


def moved(kernel: Compiled, arrays: dict[str, np.ndarray]) -> float:
    """Bytes moved over the least."""
    counters = Counters()
    run_flat(kernel.plan, arrays, {}, seed=1, counters=counters)
    sectors = sum(count.sectors for (_, _, name, _), count in counters.accesses.items() if name in "xy")
    return sectors / sum(touched.sectors for touched in counters.touched.values())


@pytest.mark.parametrize("t, n", LENGTHS)
def test_what_is_moved_is_little_more_than_the_least(t, n):
    kernel = made(SOFTMAX.format(n=n), t, x=True, y=True)
    assert moved(kernel, inputs(kernel, t, n)) < 1.2


@pytest.mark.parametrize(
    "text, t, n, aligned",
    [
        (SOFTMAX, "f32", 1000, {"x": True, "y": True}),  # begin with a vector
        (SOFTMAX, "f16", 1000, {"x": False, "y": True}),  # what is stored does
        (SOFTMAX, "f32", 1001, {"x": False, "y": True}),  # words, of which x would be met elsewhere
        (SOFTMAX, "f16", 333, {"x": False, "y": True}),  # all vectors are at an end, and x would be met elsewhere
        (SOFTMAX, "f16", 1024, {"x": False, "y": False}),  # a lane would keep a vector more
        (SOFTMAX, "f16", 40, {}),  # no vector of a row is sure to be whole
        (AFFINE, "f32", 1001, dict.fromkeys("xwvy", True)),  # two arrays would be met elsewhere
        (STATS.replace("let m = sum", "let m = argmax").replace("- m", "- (m as f32)"), "f32", 1001, {}),  # an index
    ],
)
def test_rows_that_lie_as_they_are_dealt(text, t, n, aligned):
    assert not kept(made(text.format(n=n), t, **aligned))


def test_rows_that_are_stored_where_they_were_loaded_stay_as_dealt():
    """The next row is another warp's: what a vector has of it would be loaded while that is stored."""
    kernel = made("kernel k(inout x: T[M, 505]) { parallel i in M { let m = sum(x[i]); x[i] = x[i] - m; } }", "f16")
    assert not kept(kernel)
    assert not any(inst.attr("anywhere") == "line" for k in kernel.plan.kernels for inst in k.insts)
