"""Rows of every length with every number of threads: those whose length only the call knows (bound-rows), rows and tiles of a block."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.everywhere import compiled
from tests.test_kept_rows import LAYERNORM, LENGTHS, LONG, NUMPY, SOFTMAX, rows
from vxc.binding import Described
from vxc.diff import first_difference
from vxc.driver import Compiled
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.pipeline import PIPELINE
from vxc.schedule import bind_plan, schedule

THREADS = [32, 96, 128, 256]

# ---- the length is the call's ----------------------------------------------------------------------------------------


@cache
def by_call(text: str, dtype: str, threads: int) -> Compiled:
    """A kernel of rows of N elements whose reductions have so many lanes."""
    text = text.format(t=dtype, n="N", lanes="")
    for call in ("max(", "sum(", "argmax("):
        text = text.replace(f" {call}", f" @lanes({threads}) {call}")
    return compiled(text, binary=False)


def arrays(text: str, dtype: str, n: int) -> dict[str, np.ndarray]:
    return {"x": rows(dtype, n)} | ({"w": rows("f32", n)[0]} if "w: f32" in text else {})


def agree(made: Compiled, given: dict[str, np.ndarray], passes: list[str]) -> None:
    """The syntax tree, the IR as lowered and after these passes give the same bits."""
    want = run_ast(made.typed, given, {})
    for name, plan in [("lowering", made.tile), *((name, made.after(name)) for name in passes)]:
        difference = first_difference(want, run_flat(plan, given, {}, seed=len(passes)))
        assert not difference, f"after {name}: {difference}"


@pytest.mark.parametrize("n", LENGTHS + LONG)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("text", [SOFTMAX, LAYERNORM], ids=["softmax", "layernorm"])
def test_lengths_that_the_call_gives(text, threads, n):
    made = by_call(text, "f16", threads)
    agree(made, arrays(text, "f16", n), ["keep-rows", PIPELINE.passes[-1].name])


@pytest.mark.parametrize("n", [1, 4, 96, 100, 1000, 1024, 1028])
def test_every_pass_keeps_the_bits(n):
    agree(by_call(SOFTMAX, "f32", 32), arrays(SOFTMAX, "f32", n), [p.name for p in PIPELINE.passes])


@pytest.mark.parametrize(
    "dtype, n, kept", [("f16", 8, 1), ("f16", 12, 0), ("f16", 1024, 1), ("f16", 1032, 0), ("f32", 12, 1), ("f32", 0, 1)]
)
def test_a_call_launches_the_kernel_of_its_length(dtype, n, kept):
    plan = by_call(SOFTMAX, dtype, 32).plan
    given = {name: Described((5, n), NUMPY[dtype].__name__) for name in "xy"}
    calls = schedule(plan, bind_plan(plan, given, {}))
    assert [x.kernel.name for x in calls.launches if x.grid] == (["k_kept"] if kept else ["k"])


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", NUMPY)
def test_kept_rows_of_the_calls_length_stay_in_registers(dtype, threads):
    made = by_call(SOFTMAX, dtype, threads)
    kept = made.binary.kernels["k_kept"]
    assert (kept.spill_stores, kept.spill_loads, kept.stack) == (0, 0, 0)
    kernel = next(k for k in made.after("map-loops").kernels if k.name == "k_kept")
    assert len([inst for inst in kernel.insts if inst.op == "load" and inst.operands[0].name == "x"]) == 1


# ---- a block to a row ------------------------------------------------------------------------------------------------

OF_BLOCKS = {
    "rows": """let m = max(x[b]); let z = sum(exp(x[b] - m)); s[b] = sum(x[b]); y[b] = exp(x[b] - m) / z;""",
    "tile": """fragment f: f32[1, {n}]; copy(x[b, 0], f); let m = max(f, axis = 1); let a = sum(f, axis = 1); s[b] = a[0];
        parallel j in {n} {{ f[0, j] = exp(f[0, j] - m[0]); }} let z = sum(f, axis = 1);
        parallel j in {n} {{ f[0, j] = f[0, j] / z[0]; }} copy(f, y[b, 0]);""",
}


@pytest.mark.parametrize("n", LENGTHS + LONG)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("how", OF_BLOCKS)
def test_a_block_of_so_many_threads_to_a_row(how, threads, n):
    """Sums of small integers, which are exact; quotients to the same bits everywhere; machine code that keeps all in registers."""
    text = "kernel k(x: f16[B, {n}], out y: f16[B, {n}], out s: f32[B]) {{ @threads({threads}) grid b in B {{ " + OF_BLOCKS[how] + " }} }}"
    made = compiled(text.format(n=n, threads=threads))
    found = made.binary.kernels["k"]
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0)
    x = np.random.default_rng(n).integers(-9, 10, (1, n)).astype(np.float16)
    agree(made, {"x": x}, [PIPELINE.passes[-1].name])
    assert run_ast(made.typed, {"x": x}, {})["s"].tolist() == x.astype(np.float64).sum(1).tolist()
