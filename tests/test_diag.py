"""Sources and diagnostics: positions, rendering, reading of files."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest

from vxc.codes import CODES
from vxc.diag import LARGEST, Diagnostic, Diagnostics, Label, VxcError, listed, read_source, render, render_all
from vxc.source import Source, Span

ROWSUM = Source(
    "rowsum.vx",
    "kernel rowsum(x: f32[N], out s: f32[1]) {\n    parallel i in N {\n        # every i\n            s[0] = s[0] + x[i];\n    }\n}\n",
)


def find(source: Source, text: str, after: int = 0) -> Span:
    start = source.text.index(text, after)
    return Span(start, start + len(text))


def collision(**more) -> Diagnostic:
    message = "`parallel` iterations collide: i=0 and i=1 both write `s[0]`"
    return Diagnostic("E0312", message, ROWSUM, find(ROWSUM, "s[0]"), "written here by every `i`", **more)


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_positions_count_characters_from_one():
    source = Source("t", "aé\n\nxyz")
    assert [source.position(offset) for offset in range(8)] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 3), (3, 4)]
    assert [source.line(number) for number in (1, 2, 3)] == ["aé", "", "xyz"]


def test_text_is_put_in_normal_form():
    assert Source.decode("t", "\ufeffa\r\nb\rc\n".encode()).text == "a\nb\nc\n"
    assert Source("t", "o\u0308").text == "\u00f6"
    assert Source("t", "a\ud800b\udfff").text == "a\ufffdb\ufffd"


def test_only_carriage_returns_and_line_feeds_end_lines():
    assert Source("t", "a\x0bb\x0cc\u2028d\x85e").line_starts == [0]


def test_sources_and_diagnostics_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ROWSUM.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        collision().code = "E0313"


# ---- rendering -------------------------------------------------------------------------------------------------------


def test_render():
    assert render(collision(help="use `sum(x)`, `atomic_add(s[0], x[i])`, or a `serial` loop")) == """\
error[E0312]: `parallel` iterations collide: i=0 and i=1 both write `s[0]`
  --> rowsum.vx:4:13
   |
 4 |     s[0] = s[0] + x[i];
   |     ^^^^ written here by every `i`
   = help: use `sum(x)`, `atomic_add(s[0], x[i])`, or a `serial` loop"""


def test_render_several_labels_sources_and_notes():
    other = Source("other.vx", "\n" * 9 + "fn f() { }")
    first = find(ROWSUM, "s[0]")
    labels = (
        Label(ROWSUM, find(ROWSUM, "rowsum"), "in this kernel"),
        Label(ROWSUM, find(ROWSUM, "s[0]", first.end), "read here"),
        Label(other, find(other, "f()"), "called from here"),
    )
    assert render(collision(secondary=labels, notes=("one\ntwo lines",), help="wait")) == """\
error[E0312]: `parallel` iterations collide: i=0 and i=1 both write `s[0]`
   --> rowsum.vx:4:13
    |
  1 | kernel rowsum(x: f32[N], out s: f32[1]) {
    |        ------ in this kernel
...
  4 |             s[0] = s[0] + x[i];
    |             ^^^^ written here by every `i`
    |                    ---- read here
   ::: other.vx:10:4
    |
 10 | fn f() { }
    |    --- called from here
    = note: one
            two lines
    = help: wait"""


def test_render_tabs_and_control_characters():
    source = Source("t.vx", "\ta\x1b\t= b;")
    assert render(Diagnostic("E0107", "no", source, find(source, "b"), "here")).splitlines()[3:] == [
        " 1 |     a\ufffd  = b;",
        "   |           ^ here",
    ]


def test_render_windows_a_long_line():
    source = Source("t.vx", "x" * 300 + " bad " + "y" * 300)
    text, carets = render(Diagnostic("E0107", "no", source, find(source, "bad"))).splitlines()[3:]
    assert len(text) <= 106 and text[carets.index("^") :].startswith("bad ")
    assert text[5:].startswith("..x") and text.endswith("y..")


@pytest.mark.parametrize("at", [0, 1, 50, 99, 100, 101, 150, 249, 250])
@pytest.mark.parametrize("indent", ["", " " * 40])
def test_a_window_shows_its_place_and_what_is_cut(at, indent):
    line = indent + "".join(chr(ord("a") + k % 26) for k in range(250)) + "$"
    start = len(indent) + at
    text, carets = render(Diagnostic("E0107", "no", Source("t.vx", line), Span(start, start + 1))).splitlines()[3:]
    shown = text[len(" 1 | ") :]
    column = carets.index("^") - len(" 1 | ")
    assert len(shown) <= 100 and shown[column] == line[start]
    assert shown.startswith("..") == (column != min(len(indent), 4) + at) and shown.endswith("..") == ("$" not in shown)
    assert shown.strip(". ") in line


def test_render_cuts_long_messages_and_shows_no_control_characters():
    name = "q" * 1000
    lines = render(Diagnostic("E0107", f"`{name}` \x1b[31m", ROWSUM, Span(0, 6), name, help=f"a\0{name}\nb")).splitlines()
    assert max(map(len, lines)) < 430 and all(line.isprintable() for line in lines)
    assert lines[0].startswith("error[E0107]: `qqq") and "qq..qq" in lines[0] and lines[0].endswith("` \ufffd[31m")


def test_lists_of_names_are_short():
    assert listed("abc") == "a, b, c" and listed("abcdefghi") == "a, b, c, d, e, f, g, h, i"
    assert listed(str(n) for n in range(1000)) == "0, 1, 2, 3, 4, 5, 6, 7 and 992 more"


def test_render_a_span_over_lines_marks_the_first():
    source = Source("t.vx", "ab {\n  c\n}\n")
    assert render(Diagnostic("E0107", "no", source, Span(1, 10))).splitlines()[3:] == [" 1 | ab {", "   |  ^^^"]


def test_render_the_end_of_the_text():
    source = Source("t.vx", "ab\n")
    assert render(Diagnostic("E0107", "no", source, Span(3, 3), "end")).splitlines()[1:] == ["  --> t.vx:2:1", "   |", " 2 |", "   | ^ end"]


def test_render_without_a_place():
    assert render(Diagnostic("E0101", "cannot read x", help="check")) == "error[E0101]: cannot read x\n   = help: check"


def test_colour_adds_only_colour():
    found = collision(secondary=(Label(ROWSUM, Span(0, 6), "here"),), notes=("n",), help="h")
    coloured = render(found, colour=True)
    assert coloured != render(found) and re.sub("\033\\[[0-9;]*m", "", coloured) == render(found)


def test_as_dict():
    assert collision(help="h").as_dict() == {
        "code": "E0312",
        "severity": "error",
        "message": "`parallel` iterations collide: i=0 and i=1 both write `s[0]`",
        "labels": [
            {"file": "rowsum.vx", "line": 4, "column": 13, "end_line": 4, "end_column": 17, "text": "written here by every `i`"}
        ],
        "notes": [],
        "help": "h",
    }


# ---- errors and the registry -----------------------------------------------------------------------------------------


def test_an_error_is_its_rendering():
    error = VxcError([collision(), collision()])
    assert str(error) == render_all([collision()] * 2) == f"{render(collision())}\n\n{render(collision())}"
    assert VxcError(collision()).diagnostics == (collision(),)


def test_diagnostics_raise_only_for_errors():
    found = Diagnostics()
    found.raise_if_errors()
    found.add("E0107", "no", ROWSUM, Span(0, 1), label="here")
    with pytest.raises(VxcError) as caught:
        found.raise_if_errors()
    assert caught.value.diagnostics == (Diagnostic("E0107", "no", ROWSUM, Span(0, 1), "here"),)


def test_codes_are_well_formed_and_unknown_ones_refused():
    for code, (severity, title) in CODES.items():
        assert re.fullmatch(r"[EWN]0[1-7]\d\d", code) and severity == {"E": "error", "W": "warning", "N": "note"}[code[0]] and title
    with pytest.raises(AssertionError, match="E9999"):
        Diagnostic("E9999", "no")


# ---- reading ---------------------------------------------------------------------------------------------------------


def message(path: str | Path) -> tuple[str, str]:
    with pytest.raises(VxcError) as caught:
        read_source(path)
    (found,) = caught.value.diagnostics
    assert found.help and found.source is None
    return found.code, found.message


def test_read_a_file(tmp_path):
    path = tmp_path / "größe.vx"
    path.write_bytes(b"\xef\xbb\xbffn\r\n")
    source = read_source(path)
    assert source.text == "fn\n" and source.name == str(path)


def test_read_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("é".encode())))
    source = read_source("-")
    assert (source.name, source.text) == ("<stdin>", "é")


def test_unreadable_files(tmp_path):
    assert message(tmp_path / "no.vx") == ("E0101", f"cannot read {tmp_path / 'no.vx'}: No such file or directory")
    assert message(tmp_path) == ("E0101", f"cannot read {tmp_path}: Is a directory")


def test_files_that_are_not_text(tmp_path):
    path = tmp_path / "a.vx"
    path.write_bytes(b"ok\xff\xfe")
    assert message(path) == ("E0102", f"{path} is not text: byte 2 (0xff) is not UTF-8")
    path.write_bytes(b"ok\0")
    assert message(path) == ("E0102", f"{path} is not text: byte 2 is NUL")


def test_files_without_end(tmp_path):
    path = tmp_path / "a.vx"
    path.write_bytes(b" " * (LARGEST + 1))
    assert message(path) == ("E0101", f"cannot read {path}: it has more than 64 MiB")
    assert message("/dev/zero") == ("E0101", "cannot read /dev/zero: it has more than 64 MiB")
