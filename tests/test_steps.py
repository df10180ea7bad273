"""A loop that steps by 0 is one fault everywhere: before any launch where sizes and scalars tell, else where the loop is reached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Const, Inst
from vxc.ir.plan import Plan
from vxc.pipeline import PIPELINE
from vxc.semantics import trip_counts
from vxc.source import Source

SIZE = 5
MESSAGE = "a loop steps by 0 and would never end"
OUTERMOST = {
    "parallel": "kernel k(n: i64, inout y: f32[N]) { parallel i in 0..N step n { y[i] = 1.0; } }",
    "let": "kernel k(n: i64, inout y: f32[N]) { let a = n * 2; let b = a + a; parallel i in 0..N step b { y[i] = 1.0; } }",
    "serial": "kernel k(n: i64, inout y: f32[N]) { serial i in 0..N step n { y[i] = 1.0; } }",
    "second": "kernel k(n: i64, inout y: f32[N, N]) { parallel i in N, j in 0..N step n { y[i, j] = 1.0; } }",
    "called": "kernel f(n: i64, inout y: f32[N]) { let m = n - 1; parallel i in 0..N step m { y[i] += 1.0; } }"
    " program k(n: i64, inout y: f32[N]) { f(3, y); f(n + 1, y); }",
}
INNER = {
    "parallel": "kernel k(n: i64, inout y: f32[N, N]) { parallel i in N { parallel j in 0..N step n { y[i, j] = 1.0; } } }",
    "serial": "kernel k(n: i64, inout y: f32[N]) { parallel i in N { serial j in 0..N step n { y[i] += 1.0; } } }",
    "loaded": "kernel k(p: i64[1], inout y: f32[N]) { parallel i in N { serial j in 0..N step p[0] { y[i] += 1.0; } } }",
    "branch": "kernel k(n: i64, inout y: f32[N]) { if n < 1 { serial i in 0..N step n { y[i] = 1.0; } } }",
}


def made(text: str) -> Compiled:
    return compile(Source("k.vx", text))


def plans_of(compiled: Compiled) -> list[Plan]:
    """From stage=tile to the last."""
    return [compiled.tile, *(compiled.after(p.name) for p in PIPELINE.passes)]


def arguments(text: str, n: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    y = np.zeros((SIZE, SIZE) if "y: f32[N, N]" in text else SIZE, np.float32)
    return {"y": y} | ({"p": np.array([n])} if "p: i64" in text else {}), {} if "p: i64" in text else {"n": n}


def faults(run, *given) -> tuple[str, str]:
    with pytest.raises(VxcError) as raised:
        run(*given)
    (found,) = raised.value.diagnostics
    return found.code, found.message.split(" (")[0]


def required_once_before_each_launch(entries: Sequence[Inst], code: str) -> bool:
    required = [i for i, inst in enumerate(entries) if inst.attr("code") == code]
    launched = [i for i, inst in enumerate(entries) if inst.op == "launch"]
    return len(required) == len(launched) and all(map(int.__lt__, required, launched))


def asserts(plan: Plan) -> bool:
    """Whether its kernels check anything themselves."""
    return any(inst.op == "assert" for kernel in plan.kernels for inst in kernel.insts)


@pytest.mark.parametrize("text", [*OUTERMOST.values(), *INNER.values()])
def test_executors_agree_after_every_pass(text):
    compiled = made(text)
    plans = plans_of(compiled)
    for n in (2, 1, -1):
        expected = run_ast(compiled.typed, *arguments(text, n))
        for plan in plans:
            assert first_difference(expected, run_flat(plan, *arguments(text, n), seed=1)) is None
    for run, code in ((run_ast, compiled.typed), *((run_flat, plan) for plan in plans)):
        assert faults(run, code, *arguments(text, 0)) == ("E0731", MESSAGE)


@pytest.mark.parametrize("text", OUTERMOST.values())
def test_the_plan_requires_it_before_any_launch(text):
    plan = made(text).plan
    assert required_once_before_each_launch(plan.entries, "E0731") and not asserts(plan)


@pytest.mark.parametrize("text", INNER.values())
def test_debug_builds_check_what_only_the_device_knows(text):
    assert f"error[E0731]: {MESSAGE}" in compile(Source("k.vx", text), debug=True).cuda
    assert "E0731" not in made(text).cuda


def test_a_constant_step_is_not_asked_about():
    compiled = made(OUTERMOST["parallel"].replace("step n", "step 3"))
    assert not any(inst.op == "require" for inst in compiled.plan.entries)
    assert any(Const(3) in inst.operands for inst in compiled.tile.kernels[0].insts)


@pytest.mark.parametrize("bound, step, careful", [
    ("n", "4", True), ("n", "-4", True), ("n", "n", True), ("N", "n", True), ("n", "1", False), ("n", "-1", False), ("N", "4", False),
    ("N * N", "4", True), ("1000", "4", False),
])  # fmt: skip
def test_emitted_loops_do_not_count_past_the_numbers(bound, step, careful):
    """An index is advanced with care where the end may be so near to the last number that the step leads past it."""
    text = f"kernel k(n: i64, inout y: f32[N]) {{ parallel i in N {{ serial j in 0..{bound} step {step} {{ y[i] += 1.0; }} }} }}"
    assert ("= vx_next<long long>(" in made(text).cuda) == careful


@pytest.mark.parametrize("step, last", [(4, 2**63 - 1), (-4, -(2**63))])
def test_no_index_counts_past_the_numbers(step, last):
    loop = "serial j in a[i]..b[i] step p[i] { y[i] += 1.0; }"
    text = f"kernel k(p: i64[N], a: i64[N], b: i64[N], inout y: f32[N]) {{ parallel i in N {{ {loop} }} }}"
    compiled = made(text)
    arrays = {"p": np.array([step, 1]), "a": np.array([last - 2 * step - step // 2, 0]), "b": np.array([last, 1])}
    for plan in plans_of(compiled):
        got = run_flat(plan, {**arrays, "y": np.zeros(2, np.float32)}, {})
        assert first_difference(run_ast(compiled.typed, {**arrays, "y": np.zeros(2, np.float32)}, {}), got) is None
        assert got["y"].tolist() == [3, 1]


@pytest.mark.parametrize("step", ["", " step 4611686018427387904", " step 4611686018427387905"])
@pytest.mark.parametrize("a, b", [(-1, 2**63 - 1), (-(2**63), 2**63 - 1), (2**63 - 1, -(2**63))])
def test_ends_further_apart_than_an_i64_holds(a, b, step):
    """Both interpreters count the iterations that there are, up to the sixth."""
    text = f"kernel k(a: i64, b: i64, out y: i64[1]) {{ y[0] = 0; serial q in a..b{step} {{ y[0] += 1; if y[0] > 5 {{ break; }} }} }}"
    made = compile(Source("k.vx", text))
    stride = int(step.split()[-1]) if step else 1
    wanted = min(6, max(0, -(-(b - a) // stride)))
    assert run_ast(made.typed, {}, {"a": a, "b": b})["y"].tolist() == [wanted]
    for plan in (made.tile, made.plan):
        assert run_flat(plan, {}, {"a": a, "b": b})["y"].tolist() == [wanted]


@pytest.mark.parametrize("start, stop, step", [(0, 10, 3), (10, 0, -3), (0, 10, 0), (-(2**63), 2**63 - 1, 1), (5, 2**63 - 1, -(2**63))])
def test_trips_are_counted_without_wrapping(start, stop, step):
    forward, back = step > 0 and start < stop, step < 0 and start > stop
    wanted = -(-abs(stop - start) // abs(step)) if forward or back else 0
    assert int(trip_counts(start, stop, step)) == min(wanted, 2**63 - 1)


FAR = 2**61
FAR_NESTS = (
    "parallel i in a..b step s { atomic_add(n[0], 1); }",
    f"parallel i in a..b step {FAR} {{ atomic_add(n[0], 1); }}",
    f"parallel i in a..b step {-FAR} {{ atomic_add(n[0], 1); }}",
    "parallel i in a..b step s, j in 2 { atomic_add(n[0], 1); }",
    "parallel j in 2 { parallel i in a..b step s { atomic_add(n[0], 1); } }",
)


@pytest.mark.parametrize("nest", FAR_NESTS)
@pytest.mark.parametrize("a, b", [(-4 * FAR, 4 * FAR - 1), (-3 * FAR, 4 * FAR - 1), (4 * FAR - 1, -4 * FAR), (3, -5), (0, FAR)])
def test_parallel_iterations_between_ends_further_apart_than_an_i64_holds(nest, a, b):
    compiled = made(f"kernel k(a: i64, b: i64, s: i64, inout n: i64[1]) {{ {nest} }}")
    for s in (FAR, -FAR):
        step = next((k for k in (-FAR, FAR) if f"step {k} " in nest), s)
        wanted = len(range(a, b, step)) * (2 if "j in 2" in nest else 1)
        assert run_ast(compiled.typed, {"n": np.zeros(1, np.int64)}, {"a": a, "b": b, "s": s})["n"][0] == wanted
        for plan in plans_of(compiled):
            assert run_flat(plan, {"n": np.zeros(1, np.int64)}, {"a": a, "b": b, "s": s})["n"][0] == wanted
