"""Rows whose lanes take aligned vectors, at the ends of arrays: what the guard keeps out of a vector raises nothing, and what an index of
the kernel's reaches outside of an array is found, however little it is.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.everywhere import compiled
from vxc.diag import VxcError
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

N = 333
DTYPES = {"f16": "f2", "f32": "f4"}
READ = "o[i] = sum({row});"  # once: nothing to keep
KEPT = "let m = sum({row}); o[i] = sum(({row} - m) * ({row} - m));"
GATHERED = "kernel k(x: T[R, 333], r: i32[M], out o: f32[M]) {{ parallel i in M {{ let q = r[i]; {body} }} }}"
SLICED = "kernel k(x: T[L], s: i32[M], out o: f32[M]) {{ parallel i in M {{ let a = s[i] as i64; {body} }} }}"
SHIFTED = "kernel k(x: T[R, 340], s: i32[M], out o: f32[M]) {{ parallel i in M {{ let a = s[i] as i64; {body} }} }}"
INPLACE = """kernel k(inout x: T[M, 333]) {
    parallel i in M { let m = max(x[i]); let z = sum(exp(x[i] - m)); x[i] = exp(x[i] - m) / z; }
}"""


def made(text: str, row: str, t: str, body: str = KEPT) -> Compiled:
    return compile(Source("k.vx", text.format(body=body.format(row=row)).replace("T[", f"{t}[")))


def numbers(t: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(DTYPES[t])


def outcomes(kernel: Compiled, **arrays: np.ndarray) -> set[str]:
    """What the interpreters say, wherever the array begins: "" for the bits of the syntax tree, else the code."""

    def code(run) -> str:
        try:
            return first_difference(want, run()) or ""
        except VxcError as error:
            return error.diagnostics[0].code

    try:
        want = run_ast(kernel.typed, arrays, {})
    except VxcError as error:
        want, found = {}, {error.diagnostics[0].code}
    else:
        found = {""}
    size = arrays["x"].itemsize
    return found | {code(lambda base=base: run_flat(kernel.plan, arrays, {}, bases={"x": base}, seed=1)) for base in range(0, 16, size)}


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("body", [KEPT, READ])
def test_vectors_at_the_ends_of_an_array_raise_nothing(body, t):
    kernel = made(GATHERED, "x[q]", t, body)
    what = "keep" if body is KEPT else "load `x` in"
    assert t == "f16" and body is READ or any(f"lanes {what} aligned vectors" in remark.message for remark in kernel.remarks)
    assert outcomes(kernel, x=numbers(t, 4, N), r=np.array([3, 0, 2], np.int32)) == {""}
    assert outcomes(made(SLICED, "x[a : a + 333]", t, body), x=numbers(t, 3 * N), s=np.array([0, 2 * N, 7], np.int32)) == {""}


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("body", [KEPT, READ])
@pytest.mark.parametrize("past", [-N, -3, -1, 1, 2, 7, N])
def test_a_row_that_leaves_its_array_by_any_number_is_found(past, body, t):
    slices = np.array([past if past < 0 else 2 * N + past], np.int32)
    assert outcomes(made(SLICED, "x[a : a + 333]", t, body), x=numbers(t, 3 * N), s=slices) == {"E0720"}


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("body", [KEPT, READ])
@pytest.mark.parametrize("row", [-1, 4])
def test_a_row_that_is_none_of_the_array_is_found(row, body, t):
    assert outcomes(made(GATHERED, "x[q]", t, body), x=numbers(t, 4, N), r=np.array([1, row], np.int32)) == {"E0720"}


@pytest.mark.parametrize("past, expected", [(-1, "E0720"), (0, ""), (7, ""), (8, "E0720")])
def test_the_end_of_another_row_is_not_the_row_s(past, expected):
    kernel = made(SHIFTED, "x[1, a : a + 333]", "f16")
    assert outcomes(kernel, x=numbers("f16", 3, 340), s=np.array([past], np.int32)) == {expected}


@pytest.mark.parametrize("t", DTYPES)
def test_rows_in_place_load_nothing_that_others_store(t):
    assert outcomes(compile(Source("k.vx", INPLACE.replace("T[", f"{t}["))), x=numbers(t, 5, N)) == {""}


def test_debug_builds_ask_of_a_vector_that_one_element_is_inside():
    """And of the row that its ends are; other builds ask nothing."""
    text = SLICED.format(body=KEPT.format(row="x[a : a + 333]")).replace("T[", "f16[")
    debug = compile(Source("k.vx", text), debug=True)
    assert debug.binary.cubin and "an access leaves `x`" in debug.cuda
    lines = [line for line in debug.cuda.splitlines() if "index out of range in `x`" in line]
    assert lines and all(re.search(r"0 < \w+ \+ 8 && (\w+) < L\b", line) for line in lines), lines
    assert "an access leaves" not in compiled(text, binary=False).cuda
