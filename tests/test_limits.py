"""Texts that are very deep, very large or very odd: each compiles, or is refused with a code, a place and a way out."""

from __future__ import annotations

import time

import pytest

from vxc.diag import VxcError, render_all
from vxc.driver import compile
from vxc.frontend.parse import parse
from vxc.source import Source

DEEP = 600
LONGEST = 10.0  # seconds of processor time; far more than any of these takes
FAR = 9223372036854775807


def kernel(body: str) -> str:
    return f"kernel k(x: f32[M, N], p: i64[M], n: i64, c: bool, inout y: f32[M, N], inout z: i32[M]) {{ {body} }}"


def thread(body: str) -> str:
    return kernel(f"parallel i in M {{ {body} }}")


def value(expression: str) -> str:
    return thread(f"y[i, 0] = {expression};")


def block(body: str) -> str:
    return kernel(f"grid b in 1 {{ {body} y[0, 0] = 1.0; }}")


def nest(before: str, after: str, core: str) -> str:
    return before * DEEP + core + after * DEEP


def found(text: str) -> str:
    """'compiled', or the code of the first finding, whose text is short and whose place is in the file."""
    start = time.process_time()
    try:
        compile(Source("t.vx", text)).cuda
        result = "compiled"
    except VxcError as error:
        for d in error.diagnostics:
            assert d.source is not None and d.help and (d.span is None or d.span.end <= len(d.source.text))
        assert max(map(len, render_all(error.diagnostics).split("\n"))) < 500
        result = error.diagnostics[0].code
    assert time.process_time() - start < LONGEST
    return result


DEEP_TEXTS = {
    "blocks": thread(nest("{ ", " }", "y[i, 0] = 1.0;")),
    "parentheses": value(nest("(", ")", "1.0")),
    "operators to the right": value(nest("(x[i, 0] + ", ")", "1.0")),
    "operators to the left": value("1.0" + " + x[i, 0]" * DEEP),
    "indices": thread("z[i] = " + nest("p[(", " + 1) % 8]", "i") + " as i32;"),
    "if": thread(nest("if x[i, 0] > 1.0 { ", " }", "y[i, 0] = 1.0;")),
    "else if": thread(" else ".join(f"if n == {k} {{ y[i, 0] = {k}.0; }}" for k in range(DEEP))),
    "else": thread(nest("if n > 1 { y[i, 0] = 2.0; } else { ", " }", "y[i, 0] = 1.0;")),
    "value-if": value(nest("if n > 1 { ", " } else { 3.0 }", "1.0")),
    "value-else": value(" else ".join(f"if n == {k} {{ {k}.0 }}" for k in range(DEEP)) + " else { 0.0 }"),
    "calls": value(nest("max(", ", 2.0)", "x[i, 0]")),
    "signs": value("-" * DEEP + "x[i, 0]"),
    "casts": value("x[i, 0]" + " as f64 as f32" * DEEP),
    "and": thread("if c" + " && c" * DEEP + " { y[i, 0] = 1.0; }"),
    "or": thread("if " + nest("(c || ", ")", "c") + " { y[i, 0] = 1.0; }"),
    "serial": thread(nest("serial j in 2 { ", " }", "y[i, 0] = 1.0;")),
    "unroll": thread(nest("unroll j in 2 { ", " }", "y[i, 0] = 1.0;")),
    "while": thread(nest("while n > 1 { ", " }", "y[i, 0] = 1.0;")),
    "parallel": kernel(nest("parallel j in 1 { ", " }", "y[0, 0] = 1.0;")),
    "parallel in a block": block(nest("parallel j in 1 { ", " }", "z[0] = 1;")),
    "persistent": block(nest("persistent j in 1 { ", " }", "z[0] = 1;")),
    "pipelined": block(nest("pipelined j in 1 { ", " }", "z[0] = 1;")),
    "binders": kernel("parallel " + ", ".join(f"i{k} in 1" for k in range(DEEP)) + " { y[0, 0] = 1.0; }"),
    "blocks of a grid": kernel("grid " + ", ".join(f"i{k} in 1" for k in range(DEEP)) + " { y[0, 0] = 1.0; }"),
    "lets": value("0.0; let a0 = x[i, 0]; " + " ".join(f"let a{k + 1} = a{k} + a{k};" for k in range(DEEP)) + f" y[i, 0] = a{DEEP}"),
    "row lets": thread("let a0 = x[i]; " + " ".join(f"let a{k + 1} = a{k} + a{k};" for k in range(DEEP)) + f" y[i] = a{DEEP};"),
    "functions": "fn g0(a: f32) -> f32 { return a; } "
    + " ".join(f"fn g{k + 1}(a: f32) -> f32 {{ return g{k}(a) + 1.0; }}" for k in range(DEEP)) + value(f"g{DEEP}(1.0)"),
    "ifs of a function": "fn f(a: f32) -> f32 { " + nest("if a > 1.0 { return 1.0; } else { ", " }", "return 2.0;") + " } "
    + value("f(n as f32)"),
    "dimensions": f"kernel k(y: f32[N], w: f32[{nest('ceildiv(', ', 2)', 'N')}], out z: f32[1]) {{ z[0] = 1.0; }}",
    "generics": f"kernel k<{', '.join(f'G{k} = {k}' for k in range(DEEP))}>(out y: f32[1]) {{ y[0] = 1.0; }}",
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP_TEXTS)
def test_deep_texts_compile(name):
    assert found(DEEP_TEXTS[name]) == "compiled"


ODD = [
    (
        "E0223",
        "fn g0(a: f32) -> f32 { return a; } "
        + " ".join(f"fn g{k + 1}(a: f32) -> f32 {{ return g{k}(a) + g{k}(a); }}" for k in range(40)) + value("g40(1.0)"),
    ),
    ("E0212", value("x" + "[i]" * DEEP)),
    ("E0220", value("@chunk(2) " * DEEP + "sum(x[i])")),
    ("E0220", value(nest("@chunk(", ") sum(x[i])", "2"))),
    # very long
    ("E0715", f"kernel k({', '.join(f'a{k}: f32' for k in range(10_000))}, out z: f32[1]) {{ z[0] = a9999; }}"),
    ("E0201", f"kernel k({', '.join(f'a{k}: f32' for k in range(10_000))}, out z: f32[1]) {{ z[0] = b; }}"),
    ("E0224", f"kernel k({', '.join(f'a{k}: f32' for k in range(3_000))}, out z: f32[1]) {{ z[0] = a1; }} example k(b = 1);"),
    ("E0201", thread("let q = undefined; " * 500)),
    ("E0208", value("max(" + "1.0, " * DEEP + "2.0)")),
    ("E0201", value("q" * 100_000)),
    ("E0201", value("x[i, 0] + " * 5_000 + "zz")),
    ("compiled", thread("let " + "q" * 10_000 + " = 1.0; y[i, 0] = " + "q" * 10_000 + ";")),
    ("compiled", thread('print("' + "a" * 100_000 + '", i);')),
    # large numbers
    ("E0205", value("9" * 900)),
    ("E0105", value("9" * 900 + ".0")),
    ("E0105", value("9" * 100_000)),
    ("E0205", thread(f"z[i] = 0x{'f' * 900};")),
    ("E0105", value("1e999999999")),
    ("compiled", value("1e-999999999")),
    ("E0205", thread("z[i] = 1 << 9999999999;")),
    ("E0205", thread("z[i] = " + " * ".join(["9999999999"] * 500) + ";")),
    # extents
    ("E0219", f"kernel k(x: f32[{FAR}], out y: f32[{FAR}, {FAR}]) {{ parallel i in 4 {{ y[i, i] = x[i]; }} }}"),
    ("E0205", "kernel k(x: f32[18446744073709551616], out y: f32[1]) { y[0] = x[0]; }"),
    ("E0219", "kernel k(x: f32[-5], out y: f32[1]) { y[0] = 1.0; }"),
    ("compiled", "kernel k(x: f32[0], out y: f32[0, 5]) { y[:, 0] = x; }"),
    ("compiled", "kernel k(x: f32[0], out y: f32[5]) { y[0] = sum(x); y[1] = max(x); y[2] = argmax(x) as f32; }"),
    ("E0231", thread("local l: f32[1000000000000] = 0.0; y[i, 0] = l[3];")),
    ("E0231", thread("local l: f64[65537]; y[i, 0] = 1.0;")),
    ("compiled", thread("local l: f64[65536]; y[i, 0] = 1.0;")),
    ("E0231", thread(f"local l: f32[{FAR}, {FAR}] = 0.0;")),
    ("E0231", thread("local l: f32[-1] = 0.0;")),
    ("compiled", thread("local l: f32[0] = 0.0; y[i, 0] = 1.0;")),
    ("E0717", value("@chunk(1000000) sum(x[i])")),
    ("E0231", block(f"shared l: f32[{FAR}, {FAR}] = 0.0;")),
    ("E0716", block("shared l: f32[1000000] = 0.0; y[0, 1] = l[n];")),
    ("compiled", block("shared l: f32[0] = 0.0; fragment f: f32[0, 4] = 0.0; copy(f, y[0:0, 0:4]);")),
    ("E0219", f"kernel f(inout a: f32[N]) {{ a = 1.0; }} program k(inout y: f32[N]) {{ local w: f32[{FAR}, 8]; f(y); }}"),
    # loops
    ("E0230", thread(f"serial j in -{FAR}..{FAR} {{ y[i, 0] += 1.0; }}")),
    ("E0230", kernel(f"parallel j in -{FAR}..{FAR} {{ y[0, 0] = 1.0; }}")),
    ("E0230", kernel(f"parallel i in {FAR}, j in 8 {{ atomic_add(z[0], 1); }}")),
    ("compiled", thread(f"serial j in 0..{FAR} step {FAR} {{ y[i, 0] += 1.0; }}")),
    ("compiled", thread(f"serial j in {FAR}..-{FAR} step -{FAR} {{ y[i, 0] += 1.0; }}")),
    ("compiled", thread("unroll j in 1000000000000 { y[i, 0] += 1.0; }")),
    ("compiled", kernel("parallel j in 5..-5 { y[0, 0] = 1.0; }")),
    ("E0213", block(f"shared l: f32[4]; copy(x[0, 0 :+ {FAR}], l);")),
    ("E0215", thread(f"y[i, -{FAR}:] = 1.0;")),
    # files
    ("E0234", ""),
    ("E0234", " \n\t\n"),
    ("E0234", "# nothing\n#\n"),
    ("E0201", "kernel k(out y: f32[1]) {\r\n\ty[0]\t= q;\r\n}\r\n"),
    ("E0103", "kernel k(out y: f32[1]) {\x0b y[0] = q; }"),
    ("E0103", "kernel k(out y: f32[1]) { y[0] = \0q; }"),
    ("E0103", "kernel k(out y: f32[1]) { y[0] = \ud800; }"),
    ("E0103", "kernel k\udfff(out y: f32[1]) { y[0] = 1.0; }"),
    ("E0103", "kernel k(out y: f32[1]) {\u2028 y[0] = q; }"),
    ("E0103", "kernel k(out y: f32[1]) {\u00a0y[0] = 1.0; }"),
    ("E0103", "kernel k(out y: f32[1]) { y[0] = \u0661.0; }"),
    ("E0103", "kernel k(out y: f32[1]) { let a\u200d = 1.0; y[0] = a\u200d; }"),
    ("E0103", "kernel k(out y: f32[1]) { let \U0001f600 = 1.0; }"),
    ("compiled", "# \ud800 \u202e\nkernel k(out y: f32[1]) { y[0] = 1.0; }"),
    ("compiled", 'kernel k(out y: f32[1]) { print("\ud800 \\0"); y[0] = 1.0; }'),
    ("compiled", "kernel k(out y: f32[1]) { let x\u0302\u0302 = 1.0; let x\u0663 = x\u0302\u0302; y[0] = x\u0663; }"),
    ("compiled", "kernel k(out \U0001d41a: f32[1]) { \U0001d41a[0] = 1.0; }"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_texts(number):
    result, text = ODD[number]
    assert found(text) == result, text[:200]


def test_letters_that_look_alike_are_other_names():
    both = "kernel k(out y: f32[2]) { let \u0430 = 1.0; let a = 2.0; y[0] = a; y[1] = \u0430; }"
    assert "= 2.0f" in compile(Source("t.vx", both)).cuda and "= 1.0f" in compile(Source("t.vx", both)).cuda
    with pytest.raises(VxcError) as caught:
        compile(Source("t.vx", "kernel k(out y: f32[1]) { let sc\u0430le = 1.0; y[0] = scale; }"))
    assert caught.value.diagnostics[0].help == "there is `sc\u0430le`, with U+0430 where this has U+0061"


@pytest.mark.parametrize("size", [200, 5_000])
def test_time_is_linear_in_the_size_of_a_text(size):
    """Not a measurement, but a bound that nothing quadratic keeps."""
    text = f"kernel k(x: f32[N], out y: f32[N]) {{ parallel i in N {{ {'y[i] = x[i] * 2.0; ' * size} }} }}"
    start = time.process_time()
    parse(Source("t.vx", text))
    assert time.process_time() - start < 1.0 + size / 1_000


# ---- imports -----------------------------------------------------------------------------------------------------------

KERNEL = "kernel k(out y: f32[1]) { y[0] = 1.0; }"
FUNCTION = "fn h(x: f32) -> f32 { return x; }"
IMPORTS = [
    ("E0225", "files import each other: self.vx -> self.vx", {"self.vx": 'import "self.vx"; '}),
    ("E0225", "files import each other: self.vx -> sub/../self.vx", {"self.vx": 'import "sub/../self.vx"; ', "sub/x.vx": ""}),
    (
        "E0225",
        "files import each other: a.vx -> b.vx -> c.vx -> a.vx",
        {"a.vx": 'import "b.vx"; ', "b.vx": 'import "c.vx";', "c.vx": 'import "a.vx";'},
    ),
    ("E0225", "cannot read missing.vx: No such file or directory", {"a.vx": 'import "missing.vx"; '}),
    ("E0225", "cannot read .: Is a directory", {"a.vx": 'import ""; '}),
    ("E0225", "cannot read sub: Is a directory", {"a.vx": 'import "sub"; ', "sub/x.vx": ""}),
    ("E0225", "cannot read /dev/zero: it has more than 64 MiB", {"a.vx": 'import "/dev/zero"; '}),
    ("E0225", "cannot read a\0b: embedded null byte", {"a.vx": 'import "a\\0b"; '}),
    ("E0109", "this `(` is never closed", {"a.vx": 'import "b.vx"; ', "b.vx": "fn f("}),
    ("E0228", "`h` is defined twice", {"a.vx": f'import "b.vx"; {FUNCTION} ', "b.vx": FUNCTION}),
]


@pytest.mark.parametrize("code, message, files", IMPORTS, ids=[row[1] for row in IMPORTS])
def test_imports_that_cannot_be_followed(code, message, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    first = next(iter(files))
    with pytest.raises(VxcError) as caught:
        compile(Source(first, files[first] + KERNEL))
    assert (code, message) in [(d.code, d.message) for d in caught.value.diagnostics]
    assert all(d.place and d.help for d in caught.value.diagnostics)


def test_a_file_is_imported_once_by_whatever_path(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "lib.vx").write_text("fn h(x: f32) -> f32 { return x; }")
    (tmp_path / "link.vx").symlink_to(tmp_path / "lib.vx")
    text = 'import "lib.vx"; import "sub/../lib.vx"; import "link.vx"; import "lib.vx"; kernel k(out y: f32[1]) { y[0] = h(1.0); }'
    assert compile(Source(str(tmp_path / "a.vx"), text)).cuda
