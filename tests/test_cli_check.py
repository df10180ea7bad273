"""`vxc check`, and bad input of every kind: a diagnostic with code, place and a way out, never a traceback."""

from __future__ import annotations

import json
import os

import pytest

from cli_tool import SAMPLES, SCALE, TWO, vxc
from code_inputs import SOURCES

HEAD = "kernel f(x: f32[N], k: i32[N], w: f32[K], out y: f32[N]) {\n"


def body(statement: str) -> str:
    return f"{HEAD}    parallel i in N {{ {statement} }}\n}}\n"


GENERIC = "kernel f<T: dtype, U: dtype = f16>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } }\n"


def test_generic_dtypes_that_nothing_gives_are_f32():
    got = vxc("check", "-", stdin=GENERIC)
    assert (got.status, got.out) == (0, "<stdin>: f: ok\n")
    assert "<stdin>: f is checked for T = f32: give `-D T=f16`, or an `example` line, for others" in got.err
    assert "is checked for" in vxc("check", "-k", "f", "-", stdin=GENERIC).err
    for arguments, more in ((("-D", "T=f16"), ""), ((), "example f(x = rand(f16, 8));")):
        got = vxc("check", *arguments, "-", stdin=GENERIC + more)
        assert got.status == 0 and "is checked for" not in got.err
    refused = vxc("check", "-", stdin=GENERIC.replace("= x[i]", "= x[i] & x[i]"))
    assert refused.status == 1 and "error[E0203]" in refused.err
    assert vxc("compile", "-", stdin=GENERIC).status == 1  # what is to run is not assumed


BAD = [
    # what                 text                                              code     line:column of the finding
    ("missing brace",      HEAD + "    parallel i in N { y[i] = x[i];\n}\n", "E0109", "2:21"),
    ("= for ==",           body("if x[i] = 0.0 { y[i] = x[i]; }"),           "E0110", "2:31"),
    ("stray token",        body("y[i] = x[i]; ) "),                          "E0109", "2:36"),
    ("unknown name",       "fn g(x: f32) -> f32 { let scale = 2.0; return x * scal; }\n", "E0201", "1:51"),
    ("dtype mismatch",     body("y[i] = x[i] * k[i];"),                      "E0203", "2:30"),
    ("shape mismatch",     HEAD + "    y = x * w;\n}\n",                     "E0213", "2:13"),
    ("slice past the end", HEAD + "    local l: f32[4] = 0.0;\n    y[0:8] = l[0:8];\n}\n", "E0216", "3:16"),
    ("constant index",     HEAD + "    local l: f32[4] = 0.0;\n    y[0] = l[4];\n}\n", "E0215", "3:14"),
    ("in parameter",       body("x[i] = 1.0; y[i] = x[i];"),                 "E0211", "2:23"),
    ("racing parallel",    body("y[0] = y[0] + x[i];"),                      "E0312", "2:23"),
    ("/ on ints",          body("y[i] = (k[i] / 2) as f32;"),                "E0203", "2:30"),
    ("division by zero",   body("y[i] = (k[i] // 0) as f32;"),               "E0217", "2:39"),
    ("generic unbound",    "kernel f<B: int>(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }\n", "E0218", "1:10"),
]  # fmt: skip


@pytest.mark.parametrize("text, code, place", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_source(tmp_path, text, code, place):
    path = tmp_path / "bad.vx"
    path.write_text(text)
    got = vxc("check", path)
    assert (got.status, got.out) == (1, "")
    assert got.err.startswith(f"error[{code}]: ")
    assert f"--> {path}:{place}\n" in got.err
    assert "= help: " in got.err and "Traceback" not in got.err


def test_a_shape_mismatch_names_both_declarations(tmp_path):
    path = tmp_path / "bad.vx"
    path.write_text(HEAD + "    y = x * w;\n}\n")
    assert vxc("check", path).err.count("is declared here") == 2


def test_everything_wrong_is_found_in_source_order(tmp_path):
    path = tmp_path / "bad.vx"
    path.write_text(body("y[i] = zz;") + body("y[i] = uu;").replace("f(", "g("))
    assert [line for line in vxc("check", path).err.splitlines() if line.startswith("error")] == [
        "error[E0201]: nothing is named `zz` here",
        "error[E0201]: nothing is named `uu` here",
    ]


@pytest.mark.parametrize(
    "make, code, words",
    [
        (lambda p: None, "E0101", "No such file"),
        (lambda p: p.mkdir(), "E0101", "Is a directory"),
        (lambda p: p.write_bytes(b""), "E0234", "is empty"),
        (lambda p: p.write_bytes(bytes(range(256))), "E0102", "is not text: byte 128 (0x80) is not UTF-8"),
        (lambda p: p.write_bytes(b"kernel\0"), "E0102", "byte 6 is NUL"),
    ],
    ids=["missing", "directory", "empty", "binary", "nul"],
)
def test_files_that_are_no_source(tmp_path, make, code, words):
    path = tmp_path / "x.vx"
    make(path)
    for command in (["check"], ["run"], ["compile"], ["diff"]):
        got = vxc(*command, path)
        assert (got.status, got.out) == (1, "")
        assert f"error[{code}]: " in got.err and words in got.err and "= help: " in got.err


def test_empty_standard_input():
    assert vxc("check", "-").err.startswith("error[E0234]: <stdin> is empty\n")


def test_crlf_and_bom_are_read_as_if_they_were_not_there(tmp_path):
    path = tmp_path / "x.vx"
    path.write_bytes(b"\xef\xbb\xbf" + SCALE.replace("\n", "\r\n").encode())
    assert vxc("check", path) == (0, f"{path}: scale: ok\n", "", f"{path}: scale: ok\n".encode())


@pytest.mark.parametrize("code", [code for code in SOURCES if code >= "E03" and code != "E0702"])
def test_what_compiling_refuses_is_found(code):
    """All but E0702, which is NVRTC's."""
    got = vxc("check", "-", stdin=SOURCES[code][0].replace("§", ""))
    assert (got.status, got.out) == (1, "") and got.err.startswith(f"error[{code}]: ")


def test_a_line_for_each_kernel_that_is_sound_even_beside_a_racing_one():
    got = vxc("check", "-", stdin=TWO + body("y[0] = x[i];"))
    assert got.status == 1
    assert got.out == "<stdin>: dbl: ok\n<stdin>: inc: ok\n"
    assert got.err.startswith("error[E0312]")


def test_kernels_by_name_and_definitions():
    generic = GENERIC
    assert vxc("check", "-", "-D", "T=bf16", stdin=generic).out == "<stdin>: f: ok\n"
    assert vxc("check", "-", "-k", "inc", stdin=TWO).out == "<stdin>: inc: ok\n"
    assert "error[E0234]: <stdin> has no kernel `icn`\n   = help: did you mean `inc`?" in vxc("check", "-", "-k", "icn", stdin=TWO).err
    assert "error[E0229]: `-D TT`" in vxc("check", "-", "-D", "TT=f16", stdin=generic).err


@pytest.mark.parametrize("option", [["-D", "T"], ["-D", "T=f17"], ["-D", "T=f16", "-D", "T=f32"], ["--maxrregcount", "0"], ["--nonsense"]])
def test_malformed_options_are_usage_errors(option):
    got = vxc("check", SAMPLES / "softmax.vx", *option)
    assert (got.status, got.out) == (2, "")
    assert got.err.startswith("Usage: vxc check")


def test_json_holds_what_the_text_says():
    (report,) = json.loads(vxc("check", "-", "--json", stdin=body("y[0] = x[i];")).out)
    (found,) = report["diagnostics"]
    assert (report["kernels"], found["code"], found["labels"][0]["line"], found["labels"][0]["column"]) == ([], "E0312", 2, 23)


def test_colours_are_for_terminals_and_NO_COLOR_turns_them_off(monkeypatch):
    text = body("y[i] = zz;")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033" not in vxc("check", "-", stdin=text).err
    assert "\033[1;31merror[E0201]" in vxc("check", "-", stdin=text, terminal=True).err
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    assert "\033" not in vxc("check", "-", stdin=text, terminal=True).err


def test_every_sample_is_sound():
    samples = sorted(SAMPLES.glob("*.vx"))
    got = vxc("check", *samples)
    assert got.status == 0 and "error[" not in got.err  # of notes, test_in_range.py says which there are
    assert got.out.count(": ok\n") >= len(samples) > 20
