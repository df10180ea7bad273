"""The faults that the AST interpreter must find: code, text, place and iteration."""

from __future__ import annotations

import numpy as np
import pytest
from ast_kernels import budget, equal, f32, fault, out, run

from vxc.driver import compile
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

pytestmark = pytest.mark.usefixtures(budget.__name__)


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
    assert capsys.readouterr().err == "x 0 0.100000001\nx 2 3\n"


def test_print_spells_values_alike_everywhere(capsys):
    body = 'print("v", x[i] > 0.0, x[i], x[i] as f64, i, 18446744073709551615 as u64); print("on")'
    text = f"kernel k(x: f32[N]) {{ parallel i in N {{ {body}; }} }}"
    x, compiled = np.array([0.1, -np.inf], np.float32), compile(Source("k.vx", text))
    run(text, x=x)
    told = ["on", "on", "v false -inf -inf 1 18446744073709551615", "v true 0.100000001 0.10000000149011612 0 18446744073709551615"]
    assert sorted(capsys.readouterr().err.splitlines()) == told
    for plan in (compiled.tile, compiled.plan):
        run_flat(plan, {"x": x}, {})
        assert sorted(capsys.readouterr().err.splitlines()) == told
    assert '"v %s %.9g %.17g %lld %llu' in compiled.cuda and '"true" : "false"' in compiled.cuda


def test_calls_are_checked_and_derived_sizes_too():
    text = "kernel k(x: f32[M, N], out y: f32[M // 2]) { parallel i in M // 2 { y[i] = x[2 * i, 0]; } }"
    assert out(text, x=f32(7, 1)).shape == (3,)
    code, message, _ = fault(text, x=f32(7, 1), y=f32(4))
    assert (code, message) == ("E0705", "dimension 0 of `y` is 4, but its declared size `M // 2` is 3")


def test_a_derived_size_is_not_negative():
    text = "kernel k(x: f32[M], out y: f32[M - 1]) { parallel i in M - 1 { y[i] = x[i + 1]; } }"
    assert fault(text, x=f32(0)) == ("E0705", "dimension 0 of `y` would be -1", "out y: f32[M - 1]")


def test_pitched_arrays():
    text = "kernel k(x: f32[B, M : lm, N : ln], out y: i64[2]) { y[0] = lm; y[1] = ln; }"
    base = np.zeros((3, 7, 9), np.float32)
    equal(out(text, x=base[:, :4, :5]), [7, 9])
    equal(out(text, x=base[:1, :4, :5]), [4, 9])
    equal(out(text, x=base[:, :0, :5]), [0, 5])
    assert fault(text, x=base[:, :, ::2])[:2] == ("E0706", "stride 2 of `x` (in elements) is 2, but 1 is declared")


def test_a_step_of_zero():
    text = "kernel k(p: i64[N], inout y: f32[N]) { parallel i in N { serial j in 0..9 step p[i] { y[i] += 1.0; } } }"
    p = np.array([1, 4, -1])
    equal(out(text, p=p, y=np.zeros(3, np.float32)), [9, 3, 0])
    assert fault(text, p=p * [1, 0, 1], y=np.zeros(3, np.float32))[:2] == ("E0731", "a loop steps by 0 and would never end (at i=1)")
