"""How many threads a block of a grid has: what `@threads` says, else what layouts count, also where an `if` is around the grid."""

from __future__ import annotations

import re

import numpy as np
import pytest
from everywhere import compiled, outputs

from vxc.diag import VxcError
from vxc.driver import compile
from vxc.source import Source

X = np.arange(64, dtype=np.float32)
BODY = """{} grid b in 1 {{
    @layout({}) fragment f: f32[64];
    copy(x, f);
    @layout({}) parallel i in 64 {{ f[i] = f[i] * 2.0; }}
    copy(f, y);
}}"""
COUNTED = [  # @threads, layouts of a fragment and of a loop, threads of the block
    ("", "[i] -> [i % 8, i // 8]", "[i] -> [i, 0]", 128),
    ("", "[i] -> [i * 2, 0]", "[i] -> [i, 0]", 128),
    ("", "[i] -> [i * 3, 0]", "[i] -> [i, 0]", 192),
    ("", "[i] -> [i, 0]", "[i] -> [i % 16 * 64, i // 16]", 992),
    ("", "[i, r in 3] -> [i + r * 64, 0]", "[i] -> [i * 16, 0]", 1024),
    ("@threads(64)", "[i] -> [i % 8, i // 8]", "[i] -> [i, 0]", 64),
    ("@threads(96)", "[i, r in 2] -> [i % 32 + 64 * r, i // 32]", "[i] -> [i % 2 * 64 + i // 2 % 16, i // 32]", 96),
    ("@threads(512)", "[i] -> [i * 3, 0]", "[i] -> [i, 0]", 512),
]


@pytest.mark.parametrize("given, tile, loop, threads", COUNTED)
def test_a_block_has_the_threads_that_are_written_or_that_layouts_count(given, tile, loop, threads):
    body = BODY.format(given, tile, loop)
    plain = f"kernel k(x: f32[64], out y: f32[64]) {{ {body} }}"
    np.testing.assert_array_equal(outputs(plain, x=X)["y"], X * 2)
    assert [kernel.attr("threads") for kernel in compiled(plain, binary=False).plan.kernels] == [threads]
    conditional = f"kernel k(n: i64, x: f32[64], out y: f32[64]) {{ parallel i in 64 {{ y[i] = 0.0; }} if n > 0 {{ {body} }} }}"
    for n in (0, 1):
        np.testing.assert_array_equal(outputs(conditional, binary=n == 1, x=X, n=n)["y"], X * 2 * n)
    assert [kernel.attr("threads") for kernel in compiled(conditional, binary=False).plan.kernels] == [256, threads]


@pytest.mark.parametrize("given, threads", [("", 128), ("@threads(32)", 32), ("@threads(224)", 224), ("@threads(1024)", 1024)])
def test_threads_are_honoured_under_a_condition_without_layouts(given, threads):
    text = """kernel k(n: i64, x: f32[64], out y: f32[3, 64]) {{
        if n > 0 {{ {} grid b in 3 {{
            shared s: f32[64];
            parallel t in 64 {{ s[t] = x[t]; }}
            let z = sum(s);
            let p = cumsum(s);
            parallel t in 64 {{ y[b, t] = s[63 - t] + z * (b as f32) + p[t]; }}
        }} }} else {{ parallel i in 3, j in 64 {{ y[i, j] = -1.0; }} }}
    }}""".format(given)
    found = outputs(text, x=X, n=1)["y"]
    np.testing.assert_array_equal(found, X[::-1] + np.float32(2016) * np.arange(3, dtype=np.float32)[:, None] + np.cumsum(X))
    assert (outputs(text, binary=False, x=X, n=0)["y"] == -1).all()
    assert [kernel.attr("threads") for kernel in compiled(text, binary=False).plan.kernels] == [threads]


def test_the_largest_of_several_grids_under_one_condition_counts():
    text = """kernel k(n: i64, x: f32[64], out y: f32[64], out z: f32[64]) {
        if n > 0 {
            @threads(64) grid b in 2 { parallel i in 32 { y[b * 32 + i] = x[b * 32 + i] + 1.0; } }
            @threads(96) grid b in 1 {
                @layout([i] -> [i % 32 + i // 32 * 64, 0]) fragment f: f32[64];
                copy(x, f);
                copy(f, z);
            }
        }
    }"""
    found = outputs(text, x=X, n=1)
    np.testing.assert_array_equal(found["y"], X + 1)
    np.testing.assert_array_equal(found["z"], X)
    assert [kernel.attr("threads") for kernel in compiled(text, binary=False).plan.kernels] == [96]


MISFITS = [  # @threads, layout, what the message says, the threads that the hint names
    ("@threads(64)", "[i] -> [i * 3, 0]", "i=22 has thread 66, outside the 64 threads", 192),
    ("@threads(64)", "[i] -> [i * 30, 0]", "i=3 has thread 90, outside the 64 threads", None),
    ("", "[i] -> [i * 30, 0]", "i=35 has thread 1050, outside the 1024 threads", None),
    ("", "[i] -> [i - 1, 0]", "i=0 has thread -1, outside the 128 threads", None),
]


@pytest.mark.parametrize("given, layout, message, threads", MISFITS)
@pytest.mark.parametrize("condition", ["", "if n > 0"])
def test_layouts_that_want_other_threads(given, layout, message, threads, condition):
    loop = f"{given} grid b in 1 {{ @layout({layout}) fragment f: f32[64]; copy(x, f); copy(f, y); }}"
    text = f"kernel k(n: i64, x: f32[64], out y: f32[64]) {{ {condition} {{ {loop} }} }}" if condition else (
        f"kernel k(n: i64, x: f32[64], out y: f32[64]) {{ {loop} }}")  # fmt: skip
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", text))
    (found,) = caught.value.diagnostics
    assert found.code == "E0235" and message in found.message and text[found.span.start : found.span.end] == layout
    asked = re.search(r"@threads\((\d+)\)", found.help)
    assert (asked and int(asked[1])) == threads
    if threads:
        assert compile(Source("k.vx", text.replace(given, asked[0]))).cuda


WRAPPING = [
    ("fragment", "[i] -> [i * 2147483647 * 2147483647 * 4 * 0 + i, 0]"),
    ("fragment", "[i] -> [i, (i + 2147483647) * 2147483647 * 4 % 1]"),
    ("fragment", "[i] -> [0 - i * 2147483647 * 2147483647 * 4, 0]"),
    ("shared", "[i] -> [i * 2147483647 * 2147483647 * 4 * 0 + i]"),
    ("shared", "[i] -> [(0 - i - 2147483647) * 2147483647 * 4 * 0 + i]"),
    ("shared", "[i] -> [i * 2147483647, i * 2147483647, i * 2147483647, i]"),
    ("parallel", "[i] -> [i * 2147483647 * 2147483647 * 4 * 0 + i, 0]"),
]


@pytest.mark.parametrize("what, layout", WRAPPING)
def test_numbers_of_a_layout_that_would_wrap_are_refused(what, layout):
    """Whether in a step of the expression, or in the place that results make together."""
    declared = f"@layout({layout}) {what} s: f32[64]; s[0] = x[0];" if what != "parallel" else ""
    looped = f"@layout({layout}) parallel i in 64 {{ y[i] = x[i]; }}" if what == "parallel" else ""
    text = f"kernel k(x: f32[64], out y: f32[64]) {{ grid b in 1 {{ {declared} {looped} }} }}"
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", text))
    (found,) = caught.value.diagnostics
    assert found.code == "E0235" and text[found.span.start : found.span.end] == layout
    assert "more than 64 bits" in found.message or "places" in found.message
