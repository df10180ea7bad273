"""prove-parallel: what is accepted, what is refused and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diag import VxcError, render_all
from vxc.driver import compile
from vxc.frontend.check import check
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.interp.ast_interp import run_ast
from vxc.ir.plan import Plan
from vxc.ir.printer import print_kernel
from vxc.ir.reader import read_ir
from vxc.pass_manager import Context, run_pass
from vxc.passes.prove_parallel import PROVE_PARALLEL
from vxc.source import Source


def prove(text: str, **defines) -> tuple[Plan, Context]:
    source = Source("k.vx", text)
    module = parse(source)
    context = Context(target=None)
    return run_pass(PROVE_PARALLEL, lower(check(module, source, module.items[0].name, defines)), context), context


def findings(text: str) -> list[str]:
    """Code and message of each diagnostic; none where everything is proved."""
    try:
        prove(text)
    except VxcError as error:
        return [f"{d.code} {d.message}" for d in error.diagnostics]
    return []


ACCEPTED = {
    "elementwise": "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }",
    "transpose": "kernel k(x: f32[M, N], out y: f32[N, M]) { parallel i in M, j in N { y[j, i] = x[i, j]; } }",
    "reversed": "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[N - 1 - i] = x[i]; } }",
    "strided": "kernel k(x: f32[N], out y: f32[M]) { parallel i in N { y[2 * i] = x[i]; y[2 * i + 1] = x[i]; } }",
    "stepped": "kernel k(out y: f32[N]) { parallel i in 0..N step 3 { y[i] = 0.0; } }",
    "blocks of 16": "kernel k(out y: f32[N]) { parallel i in N // 16 { parallel j in 16 { y[i * 16 + j] = 0.0; } } }",
    "blocks of 16, serial": "kernel k(out y: f32[N]) { parallel i in N // 16 { serial j in 16 { y[i * 16 + j] = 0.0; } } }",
    "lanes": "kernel k(out y: f32[N]) { parallel t in 32 { serial j in 16 { y[j * 32 + t] = 0.0; } } }",
    "rows of N": "kernel k(x: f32[M, N], out y: f32[L]) { parallel i in M, j in N { y[i * N + j] = x[i, j]; } }",
    "digits": "kernel k(x: f32[N], out y: f32[M, 7]) { parallel i in N { y[i // 7, i % 7] = x[i]; } }",
    "three digits": "kernel k(x: f32[N], out y: f32[4, M, 8]) { parallel i in N { y[i % 4, i // 32, i // 4 % 8] = x[i]; } }",
    "digits of N": "kernel k(x: f32[L], z: f32[N], out y: f32[M, N]) { parallel i in L { y[i // N, i % N] = x[i]; } }",
    "rotated": "kernel k(x: f32[N], out y: f32[N]) { parallel i in 1..N { y[(i + 3) % N] = x[i]; } }",
    "rotated, every other": "kernel k(x: f32[N], out y: f32[N]) { parallel i in 0..N step 2 { y[(i + 3) % N] = x[i]; } }",
    "rotated by a scalar": "kernel k(x: f32[N], s: i64, out y: f32[N]) { parallel i in N { y[(i + s % N) % N] = x[i]; } }",
    "rotated by a narrow scalar": "kernel k(x: f32[N], s: i32, out y: f32[N]) { parallel i in N { y[(i + s) % N] = x[i]; } }",
    "rotated, last bits": "kernel k(x: f32[64], s: i64, out y: f32[64]) { parallel i in 64 { y[(i + s) % 64] = x[i]; } }",
    "one trip": "kernel k(out y: f32[N]) { parallel i in 0..2 step 2 { y[3] = 1.0; } }",
    "skewed": "kernel k(x: f32[M, N], out y: f32[L, N]) { parallel i in M, j in N { y[i + j, j] = x[i, j]; } }",
    "swizzled": "kernel k(inout y: f32[64]) { parallel i in 64 { y[(i // 8) * 8 + ((i % 8) ^ (i // 8))] = 1.0; } }",
    "neighbours exchanged": "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i ^ 1] = x[i]; } }",
    "exchanged by a scalar": "kernel k(x: f32[N], c: i64, out y: f32[N]) { parallel i in N { y[i ^ c ^ 6] = x[i]; } }",
    "pairs exchanged": "kernel k(x: f32[N], out y: f32[N]) { parallel i in N // 2, j in 2 { y[(i ^ 5) * 2 + j] = x[i]; } }",
    "exchanged with the inner index": "kernel k(x: f32[N], out y: f32[N]) { parallel i in N // 4, j in 4 { y[(i ^ j) * 4 + j] = x[i]; } }",
    "exchanged in blocks": """kernel k(x: f32[N], out y: f32[N]) {
        @threads(128) grid b in N // 128 { serial s in 7 { parallel t in 128 { y[b * 128 + (t ^ s)] = x[t]; } } } }""",
    "rows swizzled": "kernel k(x: f32[M, 64], out y: f32[M, 64]) { parallel i in M, j in 64 { y[i, j ^ i % 64] = x[i, j]; } }",
    "halves swapped in place": """kernel k(inout x: f32[M, N]) {
        parallel i in M, j in N // 2 { let t = x[i, j]; x[i, j] = x[i, j + N // 2]; x[i, j + N // 2] = t; } }""",
    "mirrored in place": """kernel k(inout x: f32[N]) {
        parallel j in N // 2 { let t = x[j]; x[j] = x[N - 1 - j]; x[N - 1 - j] = t; } }""",
    "transposed in place": """kernel k(inout z: f32[N, N]) {
        parallel i in N, j in N { if j < i && i < N { let t = z[i, j]; z[i, j] = z[j, i]; z[j, i] = t; } } }""",
    "triangle": "kernel k(out y: f32[N, N]) { parallel i in N { parallel j in i..N { y[i, j] = 0.0; y[j, i] = 0.0; } } }",
    "one iteration alone": "kernel k(x: f32[N], out y: f32[1]) { parallel i in N { if i == 0 { y[0] = x[i]; } } }",
    "shifted reads of another array": "kernel k(x: f32[N], out y: f32[N]) { parallel i in 1..N { y[i] = x[i - 1]; } }",
    "sibling loops": "kernel k(inout y: f32[N], x: f32[N]) { parallel i in N { y[i] = x[i]; } parallel i in N { y[N - 1 - i] = x[i]; } }",
    "atomics": "kernel k(p: i32[N], inout h: i32[64]) { parallel i in N { atomic_add(h[p[i]], 1); } }",
    "privates": """kernel k(x: f32[M, N], out y: f32[M]) { parallel i in M {
        local m: f32[4] = 0.0; var t = 0.0; serial j in N { t += x[i, j]; m[j % 4] = t; } y[i] = t + m[0]; } }""",
    "rows in place": "kernel k(inout x: f32[M, N]) { parallel i in M { let s = sum(x[i]); x[i] = x[i] / s; } }",
    "scan": "kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M { y[i] = cumsum(x[i]); } }",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    plan, _ = prove(ACCEPTED[name])
    loops = [i for i in plan.kernels[0].insts if i.op == "loop" and i.attr("kind") == "parallel"]
    assert all(i.attr("independent") == "proved" for i in loops)


COLLIDES = "E0312 `parallel` iterations collide: "
REFUSED = {
    "halved index": (
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i // 2] = x[i]; } }",
        [COLLIDES + "i=0 and i=1 both write `y[0]`"],
    ),
    "modulus": (
        "kernel k(x: f32[N], out y: f32[7]) { parallel i in N { y[i % 7] = x[i]; } }",
        [COLLIDES + "i=0 and i=7 both write `y[0]`"],
    ),
    "rotated too far": (
        "kernel k(out y: f32[7]) { parallel i in 8 { y[(i + 3) % 7] = 1.0; } }",
        [COLLIDES + "i=0 and i=7 both write `y[3]`"],
    ),
    "downwards": (
        "kernel k(out y: f32[7]) { parallel i in 2..0 step -1 { y[3] = 1.0; } }",
        [COLLIDES + "i=1 and i=2 both write `y[3]`"],
    ),
    "halves of exchanged": (
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[(i ^ 1) // 2] = x[i]; } }",
        [COLLIDES + "i=0 and i=1 both write `y[0]`"],
    ),
    "exchanged with its own digit": (
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i ^ i % 2] = x[i]; } }",
        [COLLIDES + "i=0 and i=1 both write `y[0]`"],
    ),
    "exchanged runs that are too long": (
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N, j in 5 { y[(i ^ 1) * 4 + j] = x[i]; } }",
        [COLLIDES + "i=0, j=0 and i=1, j=4 both write `y[4]`"],
    ),
    "sum of indices": (
        "kernel k(x: f32[M, N], out y: f32[L]) { parallel i in M, j in N { y[i + j] = x[i, j]; } }",
        [COLLIDES + "i=0, j=1 and i=1, j=0 both write `y[1]`"],
    ),
    "blocks of 17 every 16": (
        "kernel k(out y: f32[N]) { parallel i in N // 16 { parallel j in 17 { y[i * 16 + j] = 0.0; } } }",
        [COLLIDES + "i=0, j=16 and i=1, j=0 both write `y[16]`"],
    ),
    "33 lanes every 32": (
        "kernel k(out y: f32[N]) { parallel t in 33 { serial j in N // 32 { y[j * 32 + t] = 0.0; } } }",
        [COLLIDES + "t=0, j=1 and t=32, j=0 both write `y[32]`"],
    ),
    "equal only where N is 1": (
        "kernel k(x: f32[N], out y: f32[M, L]) { parallel i in 2 { serial j in 2 { y[j * N - j, i + j] = x[0]; } } }",
        [COLLIDES + "i=0, j=1 and i=1, j=0 both write `y[0, 1]`"],
    ),
    "variable outside": (
        "kernel k(x: f32[N], out y: f32[1]) { parallel i in 1 { var t = 0.0; parallel j in N { t += x[j]; } y[i] = t; } }",
        [COLLIDES + "j=0 and j=1 both write `t`"],
    ),
    "local shared by rows": (
        "kernel k(x: f32[N]) { local m: f32[4]; parallel i in N { m[0] = x[i]; } }",
        [COLLIDES + "i=0 and i=1 both write `m[0]`"],
    ),
    "previous element": (
        "kernel k(inout y: f32[N]) { parallel i in 1..N { y[i] = y[i - 1]; } }",
        [COLLIDES + "i=2 reads `y[1]` which i=1 writes"],
    ),
    "guarded previous element": (
        "kernel k(inout y: f32[N]) { parallel i in N { if i > 0 && i < N - 1 { y[i] = y[i - 1]; } } }",
        [COLLIDES + "i=2 reads `y[1]` which i=1 writes"],
    ),
    "element of another iteration": (
        "kernel k(x: f32[64], inout s: f32[64], out y: f32[64]) { parallel t in 64 { s[t] = x[t]; if t < 48 { y[t] = s[47 - t]; } } }",
        [COLLIDES + "t=47 reads `s[0]` which t=0 writes"],
    ),
    "read beside atomics": (
        "kernel k(inout h: f32[1], out y: f32[N]) { parallel i in N { atomic_add(h[0], 1.0); y[i] = h[0]; } }",
        [COLLIDES + "i=0 reads `h[0]` which i=1 updates"],
    ),
    "unknown stride": (
        "kernel k(s: i64, out y: f32[N]) { parallel i in N { y[i * s] = 0.0; } }",
        [COLLIDES + "i=0 and i=1 both write `y[0]`"],
    ),
    "scatter": (
        "kernel k(p: i64[N], x: f32[N], out y: f32[M]) { parallel i in N { y[p[i]] = x[i]; } }",
        ["E0313 cannot prove that `parallel` iterations over `i` touch different elements of `y`"],
    ),
    "condition on data": (
        "kernel k(x: f32[N], out y: f32[1]) { parallel i in N { if x[i] > 0.0 { y[0] = x[i]; } } }",
        ["E0313 cannot prove that `parallel` iterations over `i` touch different elements of `y`"],
    ),
    "past the end": (
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i + 1]; } }",
        ["E0310 index i + 1 of `x` reaches N, past its extent N"],
    ),
    "before the start": (
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i - 1]; } }",
        ["E0310 index i - 1 of `x` reaches -1, before its start"],
    ),
    "past a local's end": (
        "kernel k(out y: f32[N]) { parallel i in N { local m: f32[8]; serial j in 9 { m[j] = 0.0; } y[i] = m[0]; } }",
        ["E0310 index j of `m` reaches 8, past its extent 8"],
    ),
    "two mistakes, in order": (
        "kernel k(x: f32[N], out y: f32[1], out z: f32[1]) { parallel i in N { z[0] = x[i]; y[0] = x[i]; } }",
        [COLLIDES + "i=0 and i=1 both write `z[0]`", COLLIDES + "i=0 and i=1 both write `y[0]`"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, expected = REFUSED[name]
    assert findings(text) == expected


def test_bounds_are_reported_only_where_certain():
    for body in (
        "if i + 1 < N { y[i] = x[i + 1]; }",
        "y[i] = if i > 0 { x[i - 1] } else { 0.0 };",
        "serial j in N { if j == i { break; } y[i] = x[i + 1]; }",
        "y[i] = x[i + M];",
    ):
        assert findings(f"kernel k(x: f32[N], z: f32[M], out y: f32[N]) {{ parallel i in N {{ {body} }} }}") == [], body


@pytest.mark.parametrize(
    "index, s", [("(i + s) % N", 2**63 - 1), ("(i - s) % N", 4 - 2**63), ("(i + (s as i32 as i64) * (s as i32 as i64) * 2 - 9) % N", 2**31)]
)
def test_a_sum_that_wraps_separates_no_iterations(index, s):
    """The scalar is one with which two iterations collide, so there is nothing to prove."""
    text = f"kernel k(x: f32[N], s: i64, inout y: f32[N]) {{ parallel i in N {{ if {index} >= 0 {{ y[{index}] = x[i]; }} }} }}"
    with pytest.raises(VxcError, match="(?s)E0313.*a sum that may wrap.*take what may be any number modulo"):
        prove(text)
    typed = compile(Source("k.vx", text.replace("parallel", '@independent("no") parallel'))).typed
    with pytest.raises(VxcError, match="E0722"):
        run_ast(typed, {name: np.zeros(33, np.float32) for name in "xy"}, {"s": s})


@pytest.mark.parametrize("condition, s", [("i + s < s", 2**63 - 1), ("i - s < 0 - s", 1 - 2**63), ("!(i + s > s)", 2**63 - 9)])
def test_a_comparison_of_what_wraps_says_nothing_of_what_was_added(condition, s):
    text = f"kernel k(s: i64, x: f32[N], inout y: f32[N]) {{ parallel i in N {{ if {condition} {{ y[0] = x[i]; }} }} }}"
    (found,) = findings(text)
    assert found.startswith("E0313 cannot prove")
    typed = compile(Source("k.vx", text.replace("parallel", '@independent("no") parallel'))).typed
    with pytest.raises(VxcError, match="E0722"):
        run_ast(typed, {name: np.zeros(33, np.float32) for name in "xy"}, {"s": s})


def test_promise_is_kept_and_remarked():
    text = 'kernel k(p: i64[N], x: f32[N], out y: f32[M]) { @independent("p is a permutation") parallel i in N { y[p[i]] = x[i]; } }'
    plan, context = prove(text)
    assert [i.attr("independent") for i in plan.kernels[0].insts if i.op == "loop"] == ["p is a permutation"]
    assert [r.message for r in context.remarks] == ['iterations over `i` are independent, on the author\'s word: "p is a permutation"']


def test_text_of_a_collision():
    text = "kernel rowsum(x: f32[N], inout s: f32[1]) {\n    parallel i in N {\n        s[0] = s[0] + x[i];\n    }\n}\n"
    with pytest.raises(VxcError) as error:
        prove(text)
    assert render_all(error.value.diagnostics) == (
        "error[E0312]: `parallel` iterations collide: i=0 and i=1 both write `s[0]`\n"
        "  --> k.vx:3:9\n"
        "   |\n"
        " 3 |     s[0] = s[0] + x[i];\n"
        "   |     ^^^^ written here by every `i`\n"
        "   = help: use `sum(x)`, `atomic_add(s[0], x[i])`, or a `serial` loop"
    )


def test_text_of_what_cannot_be_proven():
    with pytest.raises(VxcError) as error:
        prove("kernel k(p: i64[N], x: f32[N], out y: f32[M]) {\n    parallel i in N { y[p[i]] = x[i]; }\n}\n")
    assert render_all(error.value.diagnostics) == (
        "error[E0313]: cannot prove that `parallel` iterations over `i` touch different elements of `y`\n"
        "  --> k.vx:2:23\n"
        "   |\n"
        " 2 |     parallel i in N { y[p[i]] = x[i]; }\n"
        "   |                       ^^^^^^^ which element this is depends on data\n"
        '   = help: if they do, say why with `@independent("reason")` on the loop; else use `atomic_add` or a `serial` loop'
    )


def test_sizes_and_both_places_are_shown():
    with pytest.raises(VxcError) as error:
        prove("kernel k(inout y: f32[N]) {\n    parallel i in 1..N { y[i] = y[i - 1]; }\n}\n")
    (d,) = error.value.diagnostics
    assert (d.label, d.notes, [label.text for label in d.secondary]) == ("read here", ("seen for N = 3",), ["written here"])


def test_the_example_of_the_pass():
    text = """kernel @k(%N: i64, @y: f32[%N] out) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    store @y, %i, 1.0:f32
  end %i
}
"""
    plan = PROVE_PARALLEL.run(read_ir(Source("k.vxir", text)), Context(target=None))
    assert print_kernel(plan.kernels[0]) == text.replace('{kind="parallel"}', '{independent="proved", kind="parallel"}')


def test_ir_without_source_has_no_place():
    text = """kernel @k(%N: i64, @y: f32[%N] out) stage=tile {
      %i = loop 0, %N {kind="parallel"}
        store @y, 0, 1.0:f32
      end %i
    }
    """
    with pytest.raises(VxcError) as error:
        PROVE_PARALLEL.run(read_ir(Source("k.vxir", text)), Context(target=None))
    assert [(d.code, d.source) for d in error.value.diagnostics] == [("E0312", None)]


@pytest.mark.parametrize(
    "line",
    ["a[i] = a[i] * 2.0;", "y[i, {n}] = a[i];", "z[i * 2000 + {n}] = a[i];", "serial j in 4 {{ z[i * 4 + j] = a[i]; }}"],
    ids=["one element", "a row", "flattened rows", "inner loops"],
)
def test_straight_line_code_is_linear(line):
    """2,000 statements: pairs would be two million comparisons."""
    body = "\n".join(line.format(n=n) for n in range(2000))
    assert findings(f"kernel k(inout a: f32[N], out y: f32[N, 2000], out z: f32[M]) {{ parallel i in N {{\n{body}\n}} }}") == []
