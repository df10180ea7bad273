"""Kernels that are a reduction of each row: rows in flight, launches by length, parts, and what a launch costs the host."""

import numpy as np
import pytest

from vxc.binding import Described
from vxc.driver import compile
from vxc.dtypes import F16, F32
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.runtime.launch import _Call
from vxc.schedule import bind_plan, schedule
from vxc.source import Source

SUM = "kernel k<T: dtype>(x: T[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"


def compiled(text, **defines):
    return compile(Source("k.vx", text), defines=defines, target="sm_90a")


def flights(made):
    return [i.attr("flight", 1) for k in made.after("map-loops").kernels for i in k.insts if i.attr("map") == "blocks"]


@pytest.mark.parametrize(
    "n, dtype, rows", [(4, F32, 1), (8, F32, 2), (16, F32, 4), (64, F32, 4), (64, F16, 4), (256, F32, 2), (512, F32, 1)]
)
def test_so_many_rows_are_in_flight(n, dtype, rows):
    """Four vectors of one array, but no more rows than lanes to keep them; a row of one vector is a thread's."""
    assert flights(compiled(SUM, T=dtype, N=n)) == [rows]


@pytest.mark.parametrize(
    "body, rows",
    [
        ("s[i] = sum(x[i]); s[i] = s[i] + 1.0;", 4),
        ("if sum(x[i]) > 0.0 { s[i] = 1.0; } else { s[i] = s[i] * 2.0; }", 4),
        ("s[i] = sum(x[i] * s[i]);", 1),  # the elements read what the kernel writes
        ("s[i] = sum(x[i]) + max(x[i]);", 1),
        ("let z = sum(x[i]); y[i] = x[i] * z;", 1),  # lanes share what is left
    ],
)
def test_what_a_kernel_may_do_with_rows_in_flight(body, rows):
    text = f"kernel k(x: f32[M, 64], inout s: f32[M], inout y: f32[M, 64]) {{ parallel i in M {{ {body} }} }}"
    made = compiled(text)
    assert flights(made) == [rows]
    x = np.random.default_rng(1).standard_normal((70, 64)).astype("f4")
    for m in (1, 63, 64, 70):
        given = {"x": x[:m], "s": x[:m, 0].copy(), "y": x[:m].copy()}
        want = run_ast(made.typed, given, {})
        for plan in (made.after("place-barriers"), made.plan):
            got = run_flat(plan, given, {}, seed=m)
            assert all(got[name].tobytes() == want[name].tobytes() for name in want)


@pytest.mark.parametrize(
    "n, kernels",
    [(0, ["k_short"]), (64, ["k_short"]), (65, ["k"]), (4095, ["k"]), (4096, ["k_wide"]), (32767, ["k_wide"]),
     *((n, ["k_long_parts1", "k_long"]) for n in (32768, 1 << 20))],
)  # fmt: skip
def test_one_launch_has_the_rows(n, kernels):
    plan = compiled(SUM, T=F32).plan
    given = {"x": Described((5, n), "float32"), "s": Described((5,), "float32")}
    calls = schedule(plan, bind_plan(plan, given, {}))
    assert [x.kernel.name for x in calls.launches if x.grid] == kernels
    assert [w.nbytes > 0 for w in calls.workspaces] == [len(kernels) == 2]  # a short row needs no workspace


@pytest.mark.parametrize("n", [32768, 40001, 262144])
@pytest.mark.parametrize("text", [SUM, SUM.replace("sum(x[i])", "max(x[i]) + sum(x[i])")])
def test_parts_by_the_length_are_the_same_bits_everywhere(text, n):
    """In launches of their own, and one after another where a kernel does more than reduce."""
    made = compiled(text, T=F32)
    x = np.random.default_rng(n).standard_normal((1, n)).astype("f4")
    want = run_ast(made.typed, {"x": x}, {})["s"]
    for name in ("split-reductions", "map-loops", "limit-unrolling"):
        assert run_flat(made.after(name), {"x": x}, {})["s"].tobytes() == want.tobytes(), name


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("length", ["N", "1048576"])
def test_the_index_of_a_whole_array_spills_nothing(op, length):
    made = compiled(f"kernel k(x: f32[{length}], out s: i64[1]) {{ s[0] = {op}(x); }}")
    assert not any(k.spill_stores or k.spill_loads or k.stack for k in made.binary.kernels.values())


def test_calls_alike_are_worked_out_once():
    made = compiled(SUM, T=F32)
    arrays = {"x": Described((5, 7), "float32", (7, 1))}
    assert _Call.of(made, arrays, {"a": 1.5}) == _Call.of(made, dict(arrays), {"a": 1.5})
    others = [_Call.of(made, arrays, {"a": value}) for value in (0.0, -0.0, 1, 1.0, True)]
    others += [_Call.of(made, {"x": Described((5, 8), "float32", (8, 1))}, {"a": 1}), _Call.of(compiled(SUM, T=F16), arrays, {"a": 1})]
    assert len(set(others)) == len(others)
