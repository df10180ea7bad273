"""Rows: shapes that must agree, row-valued lets, reductions and their order."""

from __future__ import annotations

import pytest
from typed_text import body, errors, kernels

from vxc.diag import VxcError
from vxc.semantics import Order


def test_different_shapes_name_both_declarations():
    text = "kernel k(q: f32[N, 64], k: f32[N, 32], out s: f32[N]) { parallel i in N { s[i] = dot(q[i], k[i]); } }"
    with pytest.raises(VxcError) as caught:
        kernels(text)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == ("E0213", "rows of different shapes: 64 and 32 elements")
    assert text[found.span.start : found.span.end] == "k[i]" and found.label == "32 elements of `k`"
    assert [(label.text, text[label.span.start : label.span.end]) for label in found.secondary] == [
        ("64 elements of `q`", "q[i]"),
        ("`q` is declared here", "q: f32[N, 64]"),
        ("`k` is declared here", "k: f32[N, 32]"),
    ]


STALE = [
    ("let r = y[i] * 2; y[i] = r + 1;", False),
    ("let r = y[i] * 2; y[i] = r + 1; y[i] = r;", True),
    ("let r = y[i] * 2; let s = sum(r); y[i] = r / s;", False),
    ("let r = x[i] / sum(y[i]); y[i] = r + 1; y[i] = r;", False),
    ("let r = y[i] * 2; serial k in 4 { y[i] = r + 1; }", True),
    ("serial k in 4 { let r = y[i] * 2; y[i] = r + 1; }", False),
    ("var v = 1.0; let r = x[i] * v; v = 2.0; y[i] = r;", True),
    ("var v = 1.0; let r = x[i] * v; y[i] = r; v = 2.0;", False),
    ("let r = y[i] * 2; let t = r + 1; y[i] = t; x2[i] = t;", True),
]


@pytest.mark.parametrize("text, stale", STALE, ids=[row[0] for row in STALE])
def test_a_row_is_not_used_after_what_it_reads_was_written(text, stale):
    text = f"kernel k(x: f32[M, N], inout y: f32[M, N], out x2: f32[M, N]) {{ parallel i in M {{ {text} }} }}"
    if stale:
        assert {code for code, _ in errors(text)} == {"E0226"}
    else:
        kernels(text)


def test_reductions_in_rows_are_computed_once():
    chain = "".join(f"let a{k} = a{k - 1} / sum(a{k - 1});" for k in range(1, 30))
    lines = body(f"kernel k(x: f32[M, N], out y: f32[M, N]) {{ parallel i in M {{ let a0 = x[i]; {chain} y[i] = a29; }} }}")
    assert sum(line.count("sum[") + line.count("sum(") for line in lines) == 29


def test_reduction_orders():
    text = "kernel k(x: f16[M, 4096], out y: f32[M], out t: f32[1]) { parallel i in M { y[i] = sum(x[i]); } t[0] = sum(x); }"
    rows, total = body(text)[1:]
    assert f"sum{Order(8, 8, 64)}[j in 4096]" in rows
    assert f"sum{Order(8, 8, 512, 256)}[" in total  # alone: one result
    assert f"sum{Order(8, 16, 64)}[" in body(text, reduce_chunk=16)[1]
    text = "@chunk(2) kernel k(x: f32[M, N], out y: f32[M]) { @lanes(8) parallel i in M { y[i] = @chunk(4) sum(x[i]) + sum(x[i]); } }"
    line = body(text)[1]
    assert f"sum{Order(4, 4, 8, 0)}[" in line and f"sum{Order(4, 2, 8, 0)}[" in line  # parts by the length, which only the call knows
