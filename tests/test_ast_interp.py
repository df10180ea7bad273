"""The AST interpreter against NumPy and plain Python: values to the bit, and the faults it must find."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.dtypes import F32
from vxc.frontend.check import check_module
from vxc.frontend.parse import parse
from vxc.frontend.typed import Reduce, Scan
from vxc.interp import ast_stmt
from vxc.interp.ast_interp import run_ast
from vxc.interp.ast_machine import walk
from vxc.semantics import Order, dot, reduce, scan
from vxc.source import Source

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True, params=[1, 1 << 20], ids=["one by one", "at once"])
def budget(request, monkeypatch):
    """Every test runs with one iteration of a parallel loop at a time, and with all of them."""
    monkeypatch.setattr(ast_stmt, "BUDGET", request.param)


def typed(text: str):
    source = Source("t.vx", text)
    return check_module(parse(source), source)[0]


def run(text: str, *, dims=None, trap_div=False, **arguments):
    """The outputs of the only kernel in `text`."""
    arrays = {k: v for k, v in arguments.items() if isinstance(v, np.ndarray)}
    scalars = {k: v for k, v in arguments.items() if not isinstance(v, np.ndarray)}
    return run_ast(typed(text), arrays, scalars, dims=dims, trap_div=trap_div)


def out(text: str, **arguments):
    """The only output."""
    (value,) = run(text, **arguments).values()
    return value


def fault(text: str, **arguments) -> tuple[str, str, str]:
    """Code, message and the source text under the carets."""
    with pytest.raises(VxcError) as caught:
        run(text, **arguments)
    (found,) = caught.value.diagnostics
    return found.code, found.message, found.source.slice(found.span)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def equal(got, wanted):
    np.testing.assert_array_equal(got, np.asarray(wanted, got.dtype), strict=True)


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
    assert isinstance(order, Order)


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


# Faults --------------------------------------------------------------------------------------------------------------------------


def test_out_of_range_names_array_index_extent_and_iteration():
    text = "kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j + 1]; } }"
    assert fault(text, x=f32(2, 5)) == ("E0720", "index 5 is out of range for dimension 1 of `x`, which has 5 (at i=0, j=4)", "x[i, j + 1]")
    gather = "kernel k(x: f32[N], p: i32[M], out y: f32[M]) { parallel i in M { if p[i] != 99 { y[i] = x[p[i]]; } } }"
    p = np.array([0, 99, 2, -1], np.int32)
    assert fault(gather, x=f32(4), p=p) == ("E0720", "index -1 is out of range for dimension 0 of `x`, which has 4 (at i=3)", "x[p[i]]")
    serial = "kernel k(x: f32[N], inout y: f32[M]) { parallel i in M { serial j in i + 1 { y[i] += x[j]; } } }"
    assert fault(serial, x=f32(3), y=f32(6))[1] == "index 3 is out of range for dimension 0 of `x`, which has 3 (at i=3, j=3)"


def test_reads_of_what_nothing_has_written():
    text = "kernel k(out y: f32[N]) { parallel i in N { y[i] = y[i] + 1.0; } }"
    assert fault(text, dims={"N": 4})[:2] == ("E0721", "`y[0]` is read, but nothing has written it (at i=0)")
    local = "kernel k(out y: f32[N]) { parallel i in N { local m: f32[4]; if i != 2 { m[3] = 1.0; } y[i] = m[3]; } }"
    assert fault(local, dims={"N": 4}) == ("E0721", "`m[3]` is read, but nothing has written it (at i=2)", "m[3]")
    var = "kernel k(out y: f32[N]) { parallel i in N { var v: f32; if i < 3 { v = 1.0; } y[i] = v; } }"
    assert fault(var, dims={"N": 4}) == ("E0721", "`v` is read, but nothing has written it (at i=3)", "v")


def test_independence_that_does_not_hold():
    text = 'kernel k(p: i64[N], out y: f32[N]) { @independent("unique") parallel i in N { y[p[i]] = 1.0; } }'
    equal(out(text, p=np.array([2, 0, 1])), [1, 1, 1])
    code, message, place = fault(text, p=np.array([2, 0, 1, 0]))
    assert (code, place) == ("E0722", "y[p[i]] = 1.0;")
    assert message == "`@independent` does not hold: i=1 writes `y[0]`, which i=3 writes"
    reads = 'kernel k(inout y: f32[N]) { @independent("?") parallel i in 2..N { let a = y[N - 1 - i]; y[i] = a; } }'
    assert fault(reads, y=f32(7))[:2] == ("E0722", "`@independent` does not hold: i=2 writes `y[2]`, which i=4 reads")
    ragged = 'kernel k(p: i64[M], out y: f32[N]) { @independent("?") parallel i in M - 1, j in p[i]..p[i + 1] step 2 { y[j % 5] = 1.0; } }'
    message = fault(ragged, p=np.array([0, 1, 9]), y=f32(5))[1]
    assert message == "`@independent` does not hold: i=0, iteration 0 of `j` writes `y[0]`, which i=1, iteration 2 of `j` writes"
    several = 'kernel k(inout y: f32[N]) { @independent("?") parallel i in N { let a = y[0]; if i == 5 { y[0] = a; } } }'
    assert fault(several, y=f32(7))[:2] == ("E0722", "`@independent` does not hold: i=0 reads `y[0]`, which i=5 writes")


def test_assertions_and_divisions():
    text = 'kernel k(x: f32[N], out y: f32[N]) { parallel i in N { assert(x[i] >= 0.0, "negative"); y[i] = x[i]; } }'
    assert fault(text, x=np.array([1, -1], np.float32))[:2] == ("E0723", "assertion failed: negative (at i=1)")
    text = "kernel k(a: i32[N], b: i32[N], out y: i32[N]) { parallel i in N { y[i] = a[i] // b[i]; } }"
    a, b = np.array([-7, 7], np.int32), np.array([2, 0], np.int32)
    equal(out(text, a=a, b=b), [-4, 0])
    assert fault(text, a=a, b=b, trap_div=True) == ("E0724", "integer division by zero (at i=1)", "a[i] // b[i]")


def test_print_in_iteration_order(capsys):
    run('kernel k(x: f32[N]) { parallel i in N { if i != 1 { print("x", i, x[i]); } } }', x=np.array([0.1, 2, 3], np.float32))
    assert capsys.readouterr().err == "x 0 0.1\nx 2 3.0\n"


def test_calls_are_checked_and_derived_sizes_too():
    text = "kernel k(x: f32[M, N], out y: f32[M // 2]) { parallel i in M // 2 { y[i] = x[2 * i, 0]; } }"
    assert out(text, x=f32(7, 1)).shape == (3,)
    code, message, _ = fault(text, x=f32(7, 1), y=f32(4))
    assert (code, message) == ("E0705", "dimension 0 of `y` is 4, but its declared size `M // 2` is 3")


def test_tile_constructs_are_refused_for_now():
    text = "kernel k(x: f32[N], out y: f32[N]) { grid b in N { y[b] = x[b]; } }"
    assert fault(text, x=f32(3))[:2] == ("E0401", "a `grid` loop cannot be interpreted yet")


def test_pitched_arrays():
    text = "kernel k(x: f32[B, M : lm, N : ln], out y: i64[2]) { y[0] = lm; y[1] = ln; }"
    base = np.zeros((3, 7, 9), np.float32)
    equal(out(text, x=base[:, :4, :5]), [7, 9])
    equal(out(text, x=base[:1, :4, :5]), [4, 9])
    equal(out(text, x=base[:, :0, :5]), [0, 5])
    assert fault(text, x=base[:, :, ::2])[:2] == ("E0706", "stride 2 of `x` (in elements) is 2, but 1 is declared")
