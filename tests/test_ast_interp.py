"""The AST interpreter against NumPy and plain Python: values to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from ast_kernels import RNG, budget, equal, f32, out, run, typed

from vxc.dtypes import F32
from vxc.frontend.typed import Reduce, Scan
from vxc.frontend.typed_walk import walk
from vxc.interp import ast_stmt
from vxc.semantics import dot, reduce, scan

pytestmark = pytest.mark.usefixtures(budget.__name__)


# Elementwise, rows, reductions ---------------------------------------------------------------------------------------------------

SOFTMAX = """kernel softmax(x: f32[M, N], out y: f32[M, N]) {
    parallel i in M {
        let m = max(x[i]);
        let z = sum(exp(x[i] - m));
        y[i] = exp(x[i] - m) / z;
    }
}"""


def test_saxpy_rounds_twice_and_leaves_its_inputs():
    x, y = f32(1001), f32(1001)
    before = y.copy()
    text = "kernel k(a: f32, x: f32[N], inout y: f32[N]) { parallel i in N { y[i] = a * x[i] + y[i]; } }"
    equal(out(text, a=0.3, x=x, y=y), np.float32(0.3) * x + y)
    equal(y, before)


def test_softmax_whatever_the_chunks(monkeypatch):
    x = f32(13, 37)
    whole = out(SOFTMAX, x=x)
    monkeypatch.setattr(ast_stmt, "BUDGET", 100)
    equal(out(SOFTMAX, x=x), whole)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(whole, e / e.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 33, 127, 1000, 1025])
@pytest.mark.parametrize("call, name", [("sum(x[i])", "sum"), ("prod(x[i])", "prod"), ("max(x[i])", "max"), ("dot(x[i], x[i])", "dot")])
def test_reductions_follow_the_order_of_their_node(call, name, n):
    text = "kernel k(x: f32[M, N], out s: f32[M]) { parallel i in M { s[i] = %s; } }" % call
    x = f32(3, n)
    (node,) = [node for node in walk(typed(text).body) if isinstance(node, Reduce)]
    wanted = dot(x, x, F32, node.order) if name == "dot" else reduce(name, x, F32, node.order)
    equal(out(text, x=x), wanted)


def test_a_reduction_over_a_ragged_slice_has_the_order_of_its_length():
    text = "kernel k(x: f32[N], p: i64[M1], out s: f32[M]) { parallel i in M { s[i] = sum(x[p[i]:p[i + 1]]); } }"
    x, p = f32(300), np.array([0, 3, 3, 100, 229, 300])
    (node,) = [node for node in walk(typed(text).body) if isinstance(node, Reduce)]
    equal(out(text, x=x, p=p, s=np.zeros(5, np.float32)), [reduce("sum", x[a:b], F32, node.order) for a, b in zip(p, p[1:])])


def test_a_reduction_over_two_ragged_dimensions():
    text = "kernel k(x: f32[B, M, N], p: i32[B], out y: f32[B]) { parallel i in B { y[i] = max(x[i, 0:p[i], 0:i + 1]); } }"
    x, p = f32(5, 7, 33), np.array([0, 3, 7, 3, 1], np.int32)
    equal(out(text, x=x, p=p), [x[i, : p[i], : i + 1].max(initial=-np.inf) for i in range(5)])


def test_argmax_takes_the_first_best_and_nan_first():
    x = np.array([[1, 3, 3, 2], [1, np.nan, np.nan, 9], [-np.inf] * 4], np.float32)
    equal(out("kernel k(x: f32[M, N], out r: i64[M]) { parallel i in M { r[i] = argmax(x[i]); } }", x=x), [1, 1, 0])


def test_f16_rows_are_summed_in_f32():
    x = np.ones((1, 4096), np.float16)
    equal(out("kernel k(x: f16[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }", x=x), [4096.0])


def test_scan_follows_its_order():
    text = "kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M { y[i] = cumsum(x[i]); } }"
    x = f32(3, 777)
    kernel = typed(text)
    assert any(isinstance(node, Scan) for node in walk(kernel.body))
    (order,) = {node.scan_order for node in walk(kernel.body) if getattr(node, "scan_order", None)}
    equal(out(text, x=x), scan("sum", x, F32, order))


def test_stencil_slices_and_reversal():
    x = f32(50)
    stencil = "kernel k(x: f32[N], inout y: f32[N]) { parallel i in 1..N - 1 { y[i] = x[i - 1] + x[i + 1]; } }"
    equal(out(stencil, x=x, y=np.zeros_like(x))[1:-1], x[:-2] + x[2:])
    equal(out("kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[N - 1 - i] = x[i]; } }", x=x), x[::-1])
    x = x.reshape(5, 10)
    equal(out("kernel k(x: f32[M, N], out y: f32[N, M]) { parallel i in M, j in N { y[j, i] = x[i, j]; } }", x=x), x.T)


def test_strided_and_reversed_inputs():
    base = f32(40, 30)
    x = base[::2, ::-3]
    equal(out("kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j] + 1.0; } }", x=x), x + np.float32(1))


def test_triangular_nest():
    text = "kernel k(inout y: i32[N, N]) { parallel i in N { parallel j in 0..i step 2 { y[i, j] = 1; } } }"
    wanted = [[int(j < i and j % 2 == 0) for j in range(9)] for i in range(9)]
    equal(out(text, y=np.zeros((9, 9), np.int32)), wanted)


def test_gather_and_scatter():
    table, at = f32(20, 6), RNG.permutation(20)
    equal(out("kernel k(t: f32[V, D], p: i64[N], out y: f32[N, D]) { parallel i in N { y[i] = t[p[i]]; } }", t=table, p=at), table[at])
    wanted = np.empty_like(table)
    wanted[at] = table
    scatter = 'kernel k(t: f32[N, D], p: i64[N], out y: f32[N, D]) { @independent("a permutation") parallel i in N { y[p[i]] = t[i]; } }'
    equal(out(scatter, t=table, p=at), wanted)


# Control flow --------------------------------------------------------------------------------------------------------------------


def test_nested_ifs_and_else_ifs():
    text = """kernel k(a: i32[N], out y: i32[N]) { parallel i in N {
        if a[i] > 3 { if a[i] % 2 == 0 { y[i] = 1; } else { y[i] = 2; } } else if a[i] > 0 { y[i] = 3; } else { y[i] = 4; }
    } }"""
    a = np.arange(-5, 10, dtype=np.int32)
    equal(out(text, a=a), [(1 if v % 2 == 0 else 2) if v > 3 else 3 if v > 0 else 4 for v in a.tolist()])


def test_a_value_if_reads_only_its_chosen_arm():
    x = f32(10)
    text = "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = if i > 0 && x[i - 1] > 0.0 { x[i - 1] } else { 0.0 }; } }"
    equal(out(text, x=x), [0.0] + [max(float(v), 0.0) for v in x[:-1]])


def test_serial_loops_with_break_and_continue():
    text = """kernel k(a: i32[N], out y: i32[N]) { parallel i in N {
        var s: i32 = 0;
        serial j in a[i] {
            if j == 2 { continue; }
            if j * i > 20 { break; }
            s += (j as i32) + 1;
        }
        y[i] = s;
    } }"""
    a = np.array([0, 1, 5, 9, 30, 2, 12], np.int32)

    def one(i):
        s = 0
        for j in range(int(a[i])):
            if j == 2:
                continue
            if j * i > 20:
                break
            s += j + 1
        return s

    equal(out(text, a=a), [one(i) for i in range(len(a))])


def test_break_leaves_the_innermost_loop():
    text = """kernel k(out y: i32[N]) { parallel i in N {
        var s: i32 = 0;
        serial j in 4 { serial k in 10 { if k > i { break; } s += 1; } if j == 2 { break; } s += 100; }
        y[i] = s;
    } }"""
    equal(out(text, dims={"N": 5}), [3 * (i + 1) + 200 for i in range(5)])


def test_serial_loops_may_run_downwards():
    text = "kernel k(x: f32[N], inout y: f32[N]) { serial i in N - 2..-1 step -1 { y[i] = y[i + 1] + x[i]; } }"
    x = f32(20)
    wanted = np.zeros(20, np.float32)
    for i in range(18, -1, -1):
        wanted[i] = wanted[i + 1] + x[i]
    equal(out(text, x=x, y=np.zeros(20, np.float32)), wanted)


def test_while_runs_until_every_iteration_is_through():
    text = """kernel k(a: i64[N], out y: i64[N]) { parallel i in N {
        var n = a[i];
        var steps: i64 = 0;
        while n != 1 { n = if n % 2 == 0 { n // 2 } else { 3 * n + 1 }; steps += 1; }
        y[i] = steps;
    } }"""
    equal(out(text, a=np.array([1, 2, 3, 7, 27])), [0, 1, 7, 16, 111])


def test_locals_are_private_to_an_iteration():
    text = """kernel k(x: f32[N, 4], out y: f32[N]) { parallel i in N {
        local m: f32[4] = 0.0;
        serial r in 3 { m = m + x[i]; }
        m[1] = -1.0;
        y[i] = max(m) + m[1];
    } }"""
    x = f32(9, 4)
    m = np.zeros_like(x) + x + x + x
    m[:, 1] = -1
    equal(out(text, x=x), m.max(1) + np.float32(-1))


def test_a_value_read_before_a_store_stays_what_it_was():
    text = "kernel k(inout y: f32[N], out z: f32[N]) { parallel i in N { let a = y[i]; y[i] = 0.0; z[i] = a; } }"
    y = f32(6)
    equal(run(text, y=y)["z"], y)


def test_statements_of_a_kernel_run_in_order():
    text = "kernel k(inout x: i32[N]) { if x[0] > 0 { x[0] = 0; } if x[0] > 0 { x[1] = 1; } }"
    equal(out(text, x=np.array([1, 7], np.int32)), [0, 7])


# Atomics -------------------------------------------------------------------------------------------------------------------------


def test_histogram():
    a = RNG.integers(0, 8, 1000).astype(np.int32)
    text = "kernel k(a: i32[N], inout h: i32[8]) { parallel i in N { if a[i] != 3 { atomic_add(h[a[i]], 1); } } }"
    wanted = np.bincount(a, minlength=8)
    wanted[3] = 0
    equal(out(text, a=a, h=np.zeros(8, np.int32)), wanted)


def test_atomics_in_iteration_order_with_their_previous_values():
    x = f32(500)
    text = "kernel k(x: f32[N], inout s: f32[1], out p: f32[N]) { parallel i in N { let old = atomic_add(s[0], x[i]); p[i] = old; } }"
    got = run(text, x=x, s=np.zeros(1, np.float32))
    running = np.add.accumulate(np.concatenate([[np.float32(0)], x]))
    equal(got["p"], running[:-1])
    equal(got["s"], running[-1:])


def test_atomic_max_keeps_nan_and_orders_zeros_and_small_ints_wrap():
    x = np.array([-0.0, 0.0, -0.0], np.float32)
    text = "kernel k(x: f32[N], inout s: f32[1]) { parallel i in N { atomic_max(s[0], x[i]); } }"
    assert not np.signbit(out(text, x=x, s=np.array([-0.0], np.float32)))[0]
    assert np.isnan(out(text, x=np.array([1, np.nan, 5], np.float32), s=np.zeros(1, np.float32)))[0]
    wrap = "kernel k(x: i32[N], inout s: i32[1]) { parallel i in N { atomic_add(s[0], x[i]); } }"
    equal(out(wrap, x=np.full(2, 2**30, np.int32), s=np.zeros(1, np.int32)), [-(2**31)])


# Empty and long ------------------------------------------------------------------------------------------------------------------


def test_empty_arrays():
    assert out(SOFTMAX, x=f32(0, 5)).shape == (0, 5)
    assert out(SOFTMAX, x=f32(5, 0)).shape == (5, 0)
    assert out("kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M { y[i] = cumsum(x[i]); } }", x=f32(5, 0)).shape == (5, 0)
    guarded = "kernel k(x: f32[N], p: i64[M], out y: f32[M]) { parallel i in M { y[i] = if p[i] >= 0 { x[p[i]] } else { -1.0 }; } }"
    equal(out(guarded, x=f32(0), p=np.full(4, -1)), [-1] * 4)
    rowsum = "kernel k(x: f32[M, N], out s: f32[M], out m: f32[M]) { parallel i in M { s[i] = sum(x[i]); m[i] = max(x[i]); } }"
    got = run(rowsum, x=f32(2, 0))
    equal(got["s"], [0.0, 0.0])
    equal(got["m"], [-np.inf, -np.inf])


def test_what_nothing_writes_is_kept_or_poisoned():
    text = "kernel k(out y: f32[N], out z: i32[N]) { parallel i in N { if i == 1 { y[i] = 2.0; z[i] = 3; } } }"
    got = run(text, dims={"N": 3})
    equal(got["y"], [np.nan, 2, np.nan])
    equal(got["z"], [0x5A5A5A5A, 3, 0x5A5A5A5A])
    equal(run(text, y=np.zeros(3, np.float32))["y"], [0, 2, 0])


def test_deep_expressions_and_long_else_if_chains():
    deep = "(" * 500 + "x[i]" + " + 1.0)" * 500
    equal(out("kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = %s; } }" % deep, x=np.zeros(3, np.float32)), [500] * 3)
    chain = " else ".join(f"if i == {v} {{ y[i] = {v * v}; }}" for v in range(400))
    equal(out("kernel k(inout y: i64[N]) { parallel i in N { %s } }" % chain, y=np.zeros(400, np.int64)), np.arange(400) ** 2)
