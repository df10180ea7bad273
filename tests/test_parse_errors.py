"""What the parser says about mistakes: code, place and message of each."""

from __future__ import annotations

import pytest
from syntax_text import errors, tree

from vxc.diag import VxcError

STATEMENTS = [
    ("y[i] = x[i]\n    let z = 1;", "E0108", "2:16", "expected `;` here"),
    ("break", "E0108", "2:10", "expected `;` here"),
    ("f(a) }", "E0108", "2:9", "expected `;` here"),
    ("if x[i] = 1.0 { }", "E0110", "2:13", "`=` assigns; a condition compares"),
    ("while (a = 1) { }", "E0110", "2:14", "`=` assigns; a condition compares"),
    ("y[i] = ;", "E0107", "2:12", "expected an expression, found `;`"),
    ("y[i] = 1 2;", "E0107", "2:14", "expected `;`, found `2`"),
    ("let 3 = x;", "E0107", "2:9", "expected a name, found `3`"),
    ("local m;", "E0107", "2:12", "expected `:`, found `;`"),
    ("parallel { }", "E0107", "2:14", "expected a name, found `{`"),
    ("serial j 4 { }", "E0107", "2:14", "expected `in`, found `4`"),
    ("serial j in 0..4 y[j] = 0;", "E0107", "2:22", "expected `,`, `step` or `{`, found `y`"),
    ("@unroll serial j in 4 { }", "E0107", "2:13", "expected `(`, found `serial`"),
    ("a = 1; // note", "E0107", "2:12", "expected a statement or `}`, found `//`"),
    ("if a { };", "E0107", "2:13", "a `;` does not follow a block"),
    ("let a = if x { 1 };", "E0107", "2:13", "an `if` used as a value needs an `else`"),
    ("a = b < c < d;", "E0107", "2:15", "expected `;`, found `<`"),
    ("a = f(x[i];", "E0109", "2:15", "expected `)` here"),
    ("a = x[i;", "E0109", "2:12", "expected `]` here"),
    ("a = x[i) ;", "E0109", "2:12", "expected `]` here"),
    ("a = (1 + 2;", "E0109", "2:15", "expected `)` here"),
    ("a = x[i]];", "E0109", "2:13", "this `]` closes nothing"),
    ("a = 0.;", "E0105", "2:10", "`0.` needs a digit after the point"),
    ("a = .5;", "E0105", "2:9", "`.5` needs a digit before the point"),
    ("a = 1e999;", "E0105", "2:9", "1e999 is larger than every float64"),
    ("a = " + "1" * 5000 + ";", "E0105", "2:9", "a number of 5000 digits is too long"),
    ("a = b $ 2;", "E0103", "2:11", "`$` has no meaning here"),
    ("a = b × 2;", "E0103", "2:11", "`×` has no meaning here"),
    ("a = \x1b2;", "E0103", "2:9", "U+001B has no meaning here"),
    ('print("abc);', "E0104", "2:11", 'this string has no closing `"`'),
    ('print("abc);\n    print("x");', "E0104", "2:11", 'this string has no closing `"` on its line'),
    (r'print("a\qb");', "E0106", "2:13", r"`\q` is not an escape"),
    ("let if = 3;", "E0111", "2:9", "`if` is a reserved word and cannot be a name"),
    ("let as = 3;", "E0111", "2:9", "`as` is a reserved word and cannot be a name"),
    ("a = out;", "E0111", "2:9", "`out` is a reserved word and cannot be a name"),
    ("let a = 1; else { }", "E0112", "2:16", "this `else` has no `if`"),
    ("if a { } else { } else { }", "E0112", "2:23", "this `else` has no `if`"),
    ("x[i];", "E0113", "2:5", "this statement has no effect"),
    ("f(x) = 3;", "E0114", "2:5", "only a name or an element can be assigned to"),
    ("x[0](y);", "E0115", "2:5", "only a function can be called, by its name"),
    ("f(a = 1, 2);", "E0116", "2:14", "a positional argument follows `a = `"),
]


@pytest.mark.parametrize("text, code, place, message", STATEMENTS, ids=[row[0][:30] for row in STATEMENTS])
def test_mistakes_in_statements(text, code, place, message):
    assert errors(f"kernel k() {{\n    {text}\n}}\n")[0] == (code, place, message)


FILES = [
    ("kernel (x: f32) { }", "E0107", "1:8", "expected a name, found `(`"),
    ("kernel k(x f32) { }", "E0107", "1:12", "expected `:`, found `f32`"),
    ("kernel k(x: float*) { }", "E0107", "1:18", "expected `)`, `,` or `[`, found `*`"),
    ("kernel k(out in: f32) { }", "E0111", "1:14", "`in` is a reserved word and cannot be a name"),
    ("fn f(x: f32) { }", "E0107", "1:14", "expected `->`, found `{`"),
    ("import f;", "E0107", "1:8", "expected a string, found `f`"),
    ("example k(x = 1)\n", "E0108", "1:17", "expected `;` here"),
    ("@fp(fast)", "E0107", "1:10", "expected an item (`kernel`, `fn`, ...), found the end of the file"),
    ("hello", "E0107", "1:1", "expected an item (`kernel`, `fn`, ...), found `hello`"),
    ("kernel k() { }\n}\n", "E0109", "2:1", "this `}` closes nothing"),
    ("kernel k(x: f32 {\n}\n", "E0109", "1:16", "expected `)` here"),
    ("kernel k() {\n", "E0109", "1:12", "this `{` is never closed"),
    ("kernel k() {\n    if a {\n        b = 1;\n}\n", "E0109", "2:10", "this `{` is never closed"),
    ("kernel k() {\n    a = 1;\n\nkernel g() { }\n", "E0109", "1:12", "this `{` is never closed"),
    ("kernel k() {\n@fp(fast) kernel g() { }\n", "E0109", "1:12", "this `{` is never closed"),
    ("kernel k() {\nextern fn f() -> f32 = \"\" { return 1; }\n", "E0109", "1:12", "this `{` is never closed"),
]


@pytest.mark.parametrize("text, code, place, message", FILES, ids=[row[0][:30] for row in FILES])
def test_mistakes_in_items(text, code, place, message):
    assert errors(text) == [(code, place, message)]


def test_every_item_can_report_a_mistake():
    text = "kernel a() {\n    x = ;\n}\nfn b() { }\nkernel c() {\n    y = 1\n}\n@fp(fast)\nkernel d() {\n    z = 1;\n"
    assert [(code, place) for code, place, _ in errors(text)] == [("E0107", "2:9"), ("E0107", "4:8"), ("E0108", "6:10"), ("E0109", "9:12")]


def test_at_most_twenty_mistakes_are_reported():
    assert len(errors("kernel a() { x = ; }\n" * 100)) == 20


def test_the_text_of_mistakes():
    text = "kernel k() {\n    if a {\n        b = 1\n    }\n}\nkernel g() {\n    parallel i in 4 {\n        for j in 4 { }\n}\n"
    with pytest.raises(VxcError) as caught:
        tree(text)
    assert str(caught.value) == """\
error[E0108]: expected `;` here
  --> t.vx:3:14
   |
 3 |     b = 1
   |          ^
   = help: end the statement with `;`

error[E0107]: expected `=` or `;`, found `j`
  --> t.vx:8:13
   |
 8 |     for j in 4 { }
   |         ^
   = help: write `serial i in n { }` instead of `for`"""


def test_a_missing_brace_is_placed_by_indentation():
    with pytest.raises(VxcError) as caught:
        tree("kernel k() {\n    parallel i in 4 {\n        y[i] = 1;\n}\nkernel g() { }\n")
    assert str(caught.value) == """\
error[E0109]: this `{` is never closed
  --> t.vx:2:21
   |
 2 |     parallel i in 4 {
   |                     ^
...
 4 | }
   | - this `}` closes it, but is indented as if it closed an outer one
   = help: add a `}` before that one"""
