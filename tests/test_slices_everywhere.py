"""What a slice of a row in the middle of an array means, for any bounds: its elements where all are inside, else E0720, in every executor
after every pass; of `copy`, what lies outside is padded or left out.

Accesses that start in a neighbouring row are inside the memory of the array, which must not make them right.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_steps import plans_of

from vxc.diag import VxcError
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.explain.bounds import bounds_of
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

ROWS, SIZE, PAD = 3, 40, -1.0
HEAD = "kernel k(x: {t}[M, N], s: i64, e: i64, p: i64, u: i64, inout y: {t}[M, N]) {{ "
GRID = "grid b in 1 {{ shared a: {t}[3, 40]; copy(x[0, 0], a); "
READS = {
    "sum": "parallel i in 1..2 {{ y[i, 0] = sum(x[i, {slice}]); }} }}",
    "sum of rows": "parallel i in M {{ if i == 1 {{ y[i, 0] = sum(x[i, {slice}]); }} }} }}",
    "dot": "parallel i in 1..2 {{ y[i, 0] = dot(x[i, {slice}], x[i, {slice}]); }} }}",
    "scan": "parallel i in 1..2 {{ y[i, {slice}] = cumsum(x[i, {slice}]); }} }}",
    "row": "parallel i in 1..2 {{ y[i, {slice}] = x[i, {slice}] * 2; }} }}",
    "shared": GRID + "let z = sum(a[1, {slice}]); y[1, 0] = z; }} }}",
    "shared row": GRID + "y[1, {slice}] = a[1, {slice}] * 2; }} }}",
}
SLICES = {"s:e": (1, False), "s:e:2": (2, False), "s:e:p": (None, False), "s :+ e": (1, True)}
COPIES = {
    "global": "grid b in 1 {{ copy(x[1, s:e], y[1, u:u + e - s], pad = {pad}); }} }}",
    "steps": "grid b in 1 {{ copy(x[1, s:e:2], y[1, u:u + e - s:2], pad = {pad}); }} }}",
    "shared": GRID + "copy(a[1, s:e], y[1, u:u + e - s], pad = {pad}); }} }}",
    "tile": "grid b in 1 {{ shared a: {t}[40]; copy(x[1, s :+ 40], a, pad = {pad}); copy(a, y[1, u :+ 40]); }} }}",
}


@cache
def made(text: str) -> tuple[Compiled, list]:
    compiled = compile(Source("k.vx", text))
    return compiled, plans_of(compiled)


def text_of(body: str, t: str, part: str = "") -> str:
    return (HEAD + body).format(t=t, slice=part, pad=PAD)


def given_arrays(t: str) -> dict[str, np.ndarray]:
    dtype = np.float16 if t == "f16" else np.float32
    return {"x": (np.arange(ROWS * SIZE).reshape(ROWS, SIZE) % 7 + 1).astype(dtype), "y": np.full((ROWS, SIZE), 77, dtype)}


def outcomes(text: str, t: str, scalars: dict[str, int]):
    compiled, plans = made(text)
    runs = [lambda: run_ast(compiled.typed, given_arrays(t), scalars)]
    runs += [lambda plan=plan: run_flat(plan, given_arrays(t), scalars, seed=1) for plan in plans]
    for run in runs:
        try:
            yield run()
        except VxcError as error:
            yield error.diagnostics[0].code


BOUND = st.one_of(st.integers(-SIZE - 4, 2 * SIZE + 4), st.sampled_from([-(2**63), -(2**31) - 1, 2**31, 2**62, 2**63 - 1]))


STORED = ("scan", "row", "shared row")
CASES = [(name, part) for name in READS for part in SLICES if name not in STORED or part != "s:e:p"]  # of any step, apart is not proved


@pytest.mark.parametrize("name, part", CASES)
@pytest.mark.parametrize("t", ["f32", "f16"])
@settings(max_examples=6, deadline=None)
@given(start=BOUND, end=BOUND, step=st.integers(1, 5))
@example(start=-1, end=3, step=1)
@example(start=-SIZE, end=0, step=1)
@example(start=3, end=SIZE + 1, step=2)
@example(start=5, end=5, step=1)
@example(start=7, end=-7, step=3)
def test_slices(t, name, part, start, end, step):
    written, window = SLICES[part]
    step = written or step
    stop = start + max(end, 0) if window else end
    elements = range(start, stop, step)
    inside = not elements or 0 <= elements[0] and elements[-1] < SIZE
    text = text_of(READS[name], t, part)
    expected, *others = outcomes(text, t, {"s": start, "e": end, "p": step, "u": 0})
    if inside:
        arrays = given_arrays(t)
        taken = arrays["x"][1, list(elements)]
        if name == "scan":
            arrays["y"][1, list(elements)] = np.cumsum(taken, dtype=taken.dtype)
        elif name in STORED:
            arrays["y"][1, list(elements)] = taken * 2
        else:
            arrays["y"][1, 0] = (taken * taken if name == "dot" else taken).sum(dtype=np.int64)
        np.testing.assert_array_equal(expected["y"], arrays["y"])
    else:
        assert expected == "E0720"
    for got in others:
        assert got == "E0720" if not inside else first_difference(expected, got) is None, got


FAR = st.one_of(st.integers(-SIZE - 4, 2 * SIZE + 4), st.sampled_from([2**31, 2**62]))


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("t", ["f32", "f16"])
@settings(max_examples=8, deadline=None)
@given(start=st.integers(-SIZE - 4, 2 * SIZE + 4), end=FAR, to=FAR)
@example(start=-1, end=3, to=0)
@example(start=0, end=2**62, to=-3)
@example(start=4, end=-4, to=2)
@example(start=30, end=50, to=35)
def test_copies(t, name, start, end, to):
    """Extents that no array has are none to loop over: only what is stored takes time."""
    extent, step = SIZE if name == "tile" else end - start, 2 if name == "steps" else 1
    arrays = given_arrays(t)
    for k in range(0, min(extent, SIZE - to), step):
        if to + k >= 0:
            arrays["y"][1, to + k] = arrays["x"][1, start + k] if 0 <= start + k < SIZE else PAD
    for got in outcomes(text_of(COPIES[name], t), t, {"s": start, "e": end, "p": 1, "u": to}):
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got["y"], arrays["y"])


def test_builds_that_check_look_at_both_ends_of_a_run():
    """Before they load it; other builds have no trace of that."""
    source = Source("k.vx", text_of(READS["sum"], "f32", "s:e"))
    checked, plain = compile(source, debug=True).cuda, compile(source).cuda
    assert checked.index("error[E0720]: an access leaves `x`") < checked.index("vx_load_", checked.index("__global__"))
    assert "E0720" not in plain and "vx_fail" not in plain


def test_one_index_in_two_dimensions_is_looked_at_in_both():
    """Behind the shorter of them lies the next plane, which is inside of the array."""
    text = "kernel k(x: f32[M, N, 64], a: i64, out y: f32[R, 64]) { parallel r in R, i in 64 { y[r, i] = x[a, a, i] * 2.0; } }"
    made = compile(Source("k.vx", text), aligned={"x": True, "y": True})
    assert any(inst.op == "move" for inst in made.plan.kernels[0].insts)
    given = {"x": np.ones((6, 3, 64), np.float32), "y": np.zeros((2, 64), np.float32)}
    assert (run_flat(made.plan, given, {"a": 2})["y"] == 2).all()
    for a in (-1, 3, 5):
        with pytest.raises(VxcError, match="E0720"):
            run_flat(made.plan, given, {"a": a})


CONSTANT = [  # a slice, what `check` says of it
    ("-1:3", "E0215"),
    ("-3:-1", "E0215"),
    ("3:-1", "E0216"),
    ("30:41", "E0216"),
    ("-1 :+ 3", "E0215"),
    ("5:5", None),
    ("0:40", None),
]


@pytest.mark.parametrize("part, code", CONSTANT)
def test_constant_bounds_are_checked_when_compiling(part, code):
    text = f"kernel k(x: f32[3, 40], inout y: f32[3]) {{ parallel i in 1..2 {{ y[i] = sum(x[i, {part}]); }} }}"
    if code is None:
        assert compile(Source("k.vx", text)).cuda
        return
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", text))
    assert [d.code for d in caught.value.diagnostics] == [code]


@pytest.mark.parametrize("part", ["s:3", "3:s", "s :+ 4", "s:", ":s"])
def test_what_only_the_call_knows_is_noted(part):
    text = f"kernel k(x: f32[M, N], s: i64, inout y: f32[M]) {{ parallel i in M {{ y[i] = sum(x[i, {part}]); }} }}"
    assert [found.diagnostic.code for found in bounds_of(compile(Source("k.vx", text)).tile)] == ["N0311"]
