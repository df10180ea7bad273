"""Elements of outputs that a kernel never stores to: counted by both interpreters at every stage, told by `vxc run` and `vxc diff`."""

from __future__ import annotations

import numpy as np
import pytest
from cli_tool import vxc

import vxc as package
from vxc.driver import compile
from vxc.inputs import complete
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.pipeline import PASSES
from vxc.source import Source

HALF = """kernel half(x: f32[N], out y: f32[N], out z: i32[N]) { parallel i in 0..N // 2 { y[i] = x[i]; z[i] = 1; } }
example half(x = rand(f32, 600));
"""
KINDS = {
    "a loop that ends early": (HALF, {"y": 300, "z": 300}),
    "a branch": (
        "kernel k(x: i32[N], out y: i32[N]) {"
        "parallel i in N { if x[i] == i % 2 as i32 { y[i] = x[i]; } } } example k(x = randint(i32, 0, 1, 40));",
        {"y": 20},
    ),
    "an index from memory": (
        "kernel k(p: i32[N], x: f32[M], out y: f32[M]) {"
        "@independent(\"distinct\") parallel i in N { y[p[i] + 2 * i] = x[i]; } }"
        "example k(p = randint(i32, 1, 2, 3), x = rand(f32, 9));",
        {"y": 6},
    ),
    "rows": ("kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M - 1 { y[i] = x[i] / sum(x[i]); } }"
             "example k(x = rand(f32, 3, 65));",
             {"y": 65}),
    "strides": ("kernel k(x: f32[M, N], out y: f32[M, N : N + 4]) { parallel i in M, j in N - 1 { y[i, j] = x[i, j]; } }"
                "example k(x = rand(f32, 5, 8));", {"y": 5}),
    "tiles": (
        "kernel k(x: f32[N], out y: f32[N]) { grid b in N // 32 {"
        "shared t: f32[32]; copy(x[b * 32 :+ 32], t); copy(t, y[b * 32 :+ 32]); } }"
        "example k(x = rand(f32, 70));",
        {"y": 6},
    ),
    "a program": (
        "kernel h(x: f32[N], out y: f32[N]) { parallel i in N - 2 { y[i] = x[i]; } }"
        "program k(x: f32[N], out y: f32[N], out z: f32[N]) { h(x, y); h(x, z); } example k(x = rand(f32, 8));",
        {"y": 2, "z": 2},
    ),
    "nothing at all": ("kernel k(x: f32[N], out y: f32[N], out z: u8[N]) {"
                       "parallel i in N { y[i] = x[i]; } } example k(x = rand(f32, 4));",
                       {"z": 4}),
    "every element": ("kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } example k(x = rand(f32, 8));", {}),
    "no element": ("kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } example k(x = rand(f32, 0));", {}),
    "inout": ("kernel k(inout y: f32[N]) { parallel i in 1..N { y[i] = 1.0; } } example k(y = rand(f32, 8));", {}),
}  # fmt: skip


@pytest.mark.parametrize("text, expected", KINDS.values(), ids=KINDS)
def test_every_executor_counts_them(text, expected):
    made = compile(Source("k.vx", text))
    call = complete(made.typed)
    assert run_ast(made.typed, call.arrays, call.scalars, dims=call.dims).unwritten == expected
    for name in PASSES:
        assert run_flat(made.after(name), call.arrays, call.scalars, dims=call.dims, seed=1).unwritten == expected, name


def test_what_is_given_for_an_output_does_not_count_as_written():
    made = compile(Source("k.vx", HALF))
    given = {"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)}
    for got in (run_ast(made.typed, given, {}), run_flat(made.tile, given, {})):
        assert got["y"].tolist() == [1, 1, 1, 1] and got.unwritten == {"y": 2, "z": 2}


@pytest.mark.parametrize("arguments", [("run", "--on", place) for place in ("ast", "flat", "flat:thread")] + [("diff",)], ids=" ".join)
def test_commands_tell(arguments):
    got = vxc(*arguments, "-", stdin=HALF)
    assert got.status == 0
    for name in ("y", "z"):
        assert f"note: half stores nothing to 300 of 600 elements of `{name}`: they may hold anything" in got.err
    assert "stores nothing" not in vxc(*arguments, "-", stdin=KINDS["every element"][0]).err


def test_a_call_from_python_warns():
    half = package.kernel(HALF)
    with pytest.warns(package.UnwrittenWarning) as caught:
        half(np.ones(10, np.float32), device="cpu")
    said = "half stores nothing to 5 of 10 elements of `{}`: they may hold anything"
    assert [str(w.message) for w in caught] == [said.format("y"), said.format("z")] and {w.filename for w in caught} == {__file__}
    half(np.ones(10, np.float32), np.zeros(10, np.float32), np.zeros(10, np.int32), device="cpu")  # given arrays keep what they held
