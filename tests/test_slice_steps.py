"""A slice by steps of less than 1 is one fault everywhere: before any launch where sizes and scalars tell, else where it is reached."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import Tensor, floats
from test_steps import SIZE, asserts, faults, made, plans_of, required_once_before_each_launch

import vxc
from vxc.diff import first_difference
from vxc.driver import compile
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

MESSAGE = "a slice goes by steps of less than 1"
HEAD = "kernel k(x: f32[N, N], n: i64, inout y: f32[N])"
KNOWN = {
    "reduced": f"{HEAD} {{ parallel i in N {{ y[i] = sum(x[i, 0:N:n]); }} }}",
    "column": f"{HEAD} {{ parallel i in N {{ y[i] = dot(x[::n, i], x[i, ::n]); }} }}",
    "atomic": f"{HEAD} {{ atomic_add(y[0:N:n], 1.0); }}",
    "let": f"{HEAD} {{ let m = n * 2; let s = m - n; parallel i in N {{ let r = x[i, 0:N:s]; y[i] = max(r) - min(r); }} }}",
    "tile": f"{HEAD} {{ grid b in N {{ shared s: f32[4]; s[:] = 0.0; copy(x[b, 0:4:n], s[::n]); parallel i in 1 {{ y[b] = sum(s); }} }} }}",
    "condition": f"{HEAD} {{ parallel i in N {{ if sum(x[i, ::n]) > 0.5 {{ y[i] = 1.0; }} }} }}",
    "called": "kernel f(x: f32[N, N], n: i64, inout y: f32[N]) { parallel i in N { y[i] += sum(x[i, 0:N:n]); } }"
    " program k(x: f32[N, N], n: i64, inout y: f32[N]) { f(x, 2, y); f(x, n, y); }",
}
REACHED = {
    "branch": f"{HEAD} {{ parallel i in N {{ if n < 9 {{ y[i] = sum(x[i, 0:N:n]); }} }} }}",
    "arm": f"{HEAD} {{ parallel i in N {{ y[i] = if n < 9 {{ sum(x[i, 0:N:n]) }} else {{ 0.0 }}; }} }}",
    "turn": f"{HEAD} {{ parallel i in N {{ serial t in 2 {{ y[i] += sum(x[i, 0:N:n]); }} }} }}",
    "index": f"{HEAD} {{ parallel i in N {{ y[i] = sum(x[i, 0:N:n + i - i]); }} }}",
    "copy": f"{HEAD} {{ grid b in N {{ shared s: f32[4]; s[:] = 0.0;"
    f" if n < 9 {{ copy(x[b, 0:4:n], s[::n]); }} parallel i in 1 {{ y[b] = sum(s); }} }} }}",
}
X = np.arange(SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE)


def arguments(n: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    return {"x": X, "y": np.zeros(SIZE, np.float32)}, {"n": n}


@pytest.mark.parametrize("text", [*KNOWN.values(), *REACHED.values()], ids=[*KNOWN, *REACHED])
def test_executors_agree_after_every_pass(text):
    compiled = made(text)
    plans = plans_of(compiled)
    for n in (1, 2):
        expected = run_ast(compiled.typed, *arguments(n))
        for plan in plans:
            assert first_difference(expected, run_flat(plan, *arguments(n), seed=1)) is None
    for n in (0, -1, -(2**63)):
        for run, code in ((run_ast, compiled.typed), *((run_flat, plan) for plan in plans)):
            assert faults(run, code, *arguments(n)) == ("E0735", MESSAGE), n


def test_steps_are_those_of_numpy():
    for n in (1, 2, 3, 7):
        got = run_ast(made(KNOWN["reduced"]).typed, *arguments(n))
        assert got["y"].tolist() == X[:, 0:SIZE:n].sum(1).tolist()


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN)
def test_the_plan_requires_it_once_before_each_launch(text):
    compiled = made(text)
    assert required_once_before_each_launch(compiled.tile.entries, "E0735") and not asserts(compiled.plan)


@pytest.mark.parametrize("text", REACHED.values(), ids=REACHED)
def test_debug_builds_check_what_is_known_where_it_is_reached(text):
    assert f"error[E0735]: {MESSAGE}" in compile(Source("k.vx", text), debug=True).cuda
    assert "E0735" not in made(text).cuda and not any(inst.attr("code") == "E0735" for inst in made(text).plan.entries)


@pytest.mark.parametrize("text", [REACHED["branch"].replace("n < 9", "n > 0"), REACHED["arm"].replace("n < 9", "n > 0")])
def test_a_slice_that_is_not_reached_is_no_fault(text):
    compiled = made(text)
    for n in (0, -3):
        for run, code in ((run_ast, compiled.typed), *((run_flat, plan) for plan in plans_of(compiled))):
            assert run(code, *arguments(n))["y"].tolist() == [0.0] * SIZE


def test_nothing_runs_where_no_iteration_would():
    """A call tells that its step is wrong, whatever the sizes."""
    compiled = made("kernel k(x: f32[M, N], n: i64, inout y: f32[M]) { parallel i in M { y[i] = sum(x[i, 0:N:n]); } }")
    given = {"x": np.zeros((0, 4), np.float32), "y": np.zeros(0, np.float32)}
    for run, code in ((run_ast, compiled.typed), (run_flat, compiled.tile), (run_flat, compiled.plan)):
        assert faults(run, code, given, {"n": 0}) == ("E0735", MESSAGE)


def test_calls_that_are_repeated_are_refused_alike(torch):
    k = vxc.kernel("kernel k(x: f32[M, N], n: i64, out y: f32[M]) { parallel i in M { y[i] = sum(x[i, ::n]); } }")
    x, y = Tensor(floats(3, 8)), Tensor(np.zeros(3, np.float32))
    for n in (2, 2, 0, 3, -1, 2):
        if n > 0:
            assert np.array_equal(k(x, n, y).array, x.array[:, ::n].sum(1))
        else:
            with pytest.raises(vxc.LaunchError, match="E0735: a slice goes by steps of less than 1"):
                k(x, n, y)
