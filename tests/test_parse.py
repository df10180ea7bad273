"""The parser: what it accepts, the tree it builds, what it says about mistakes."""

from __future__ import annotations

import inspect
import re
import time
import tomllib
from pathlib import Path

import lark
import pytest

from vxc import grammars
from vxc.diag import VxcError
from vxc.frontend import syntax
from vxc.frontend.build import RESERVED, Build
from vxc.frontend.node import Attr, Expr, Item, Node, Stmt, children, walk
from vxc.frontend.parse import dump, parse, parser
from vxc.source import Source

ROOT = Path(__file__).parent.parent
EXERCISES = sorted((Path(__file__).parent / "parse").glob("*.vx"))
REFERENCE = re.findall(r"^```vx( body)?\n(.*?)^```", (ROOT / "grammar/README.md").read_text(encoding="utf-8"), re.M | re.S)


def tree(text: str) -> syntax.Module:
    return parse(Source("t.vx", text))


def body(statements: str) -> tuple[Stmt, ...]:
    return tree(f"kernel k() {{\n{statements}\n}}\n").items[0].body.stmts


def value(expression: str) -> Expr:
    return body(f"let v = {expression};")[0].value


def show(node: Node) -> str:
    """An expression with all its parentheses."""
    match node:
        case syntax.Binary():
            return f"({show(node.left)} {node.op} {show(node.right)})"
        case syntax.Unary():
            return f"({node.op}{show(node.operand)})"
        case syntax.Cast():
            return f"({show(node.operand)} as {node.type})"
        case syntax.AttrExpr():
            return f"(@{node.attrs[0].name} {show(node.operand)})"
        case syntax.Name():
            return node.name
        case syntax.Number():
            return node.text
        case syntax.Call():
            return f"{node.func.name}({', '.join(map(show, node.args))})"


def errors(text: str) -> list[tuple[str, str, str]]:
    """(code, line:column, message) of each error in a file."""
    with pytest.raises(VxcError) as caught:
        tree(text)
    return [(d.code, d.place.removeprefix("t.vx:"), d.message) for d in caught.value.diagnostics]


# ---- what is accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.name)
def test_exercises_have_consistent_spans(path):
    source = Source(path.name, path.read_text(encoding="utf-8"))
    for node in walk(parse(source)):
        assert 0 <= node.span.start <= node.span.end <= len(source.text)
        for child in children(node):
            inside = node.span.start <= child.span.start and child.span.end <= node.span.end
            assert inside or isinstance(child, Attr), (node, child)
        if hasattr(node, "name_span"):
            assert source.slice(node.name_span) == node.name


def test_exercises_hold_every_node_class():
    built = {type(node) for path in EXERCISES for node in walk(tree(path.read_text(encoding="utf-8")))}
    classes = {c for _, c in inspect.getmembers(syntax, inspect.isclass) if issubclass(c, Node)}
    assert classes - built == {Node, Expr, Stmt, Item}


@pytest.mark.parametrize("kind, text", REFERENCE, ids=[text[:30].strip() for _, text in REFERENCE])
def test_reference_examples_parse(kind, text):
    assert body(text) if kind else tree(text).items


def test_reference_names_every_reserved_word():
    listed = re.search(r"^    (as .*\n    .*)$", (ROOT / "grammar/README.md").read_text(encoding="utf-8"), re.M)[1]
    assert set(listed.split()) == RESERVED


def test_keywords_of_the_grammar_are_reserved_or_stand_only_in_their_place():
    keywords = {word for t in parser().terminals if r"\b" in t.pattern.value for word in re.findall("[a-z]{2,}", t.pattern.value)}
    assert keywords - RESERVED == {"kernel", "program", "fn", "extern", "example", "import", "step"}
    assert RESERVED <= keywords


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a - b - c", "((a - b) - c)"),
        ("(a - b) * c", "((a - b) * c)"),
        ("a // b % c / d", "(((a // b) % c) / d)"),
        ("-a as f16 as f32 + b", "((((-a) as f16) as f32) + b)"),
        ("-f(a)", "(-f(a))"),
        ("!a == b", "((!a) == b)"),
        ("a << b + c & d ^ e | f", "((((a << (b + c)) & d) ^ e) | f)"),
        ("a | b == c && d || e", "((((a | b) == c) && d) || e)"),
        ("a * @chunk(8) dot(x, y)", "(a * (@chunk dot(x, y)))"),
        ("1 + 2.5e3 * 0xFF", "(1 + (2.5e3 * 0xFF))"),
    ],
)
def test_precedence(text, shown):
    assert show(value(text)) == shown


@pytest.mark.parametrize(
    "text, number",
    [("0", 0), ("1_000", 1000), ("0xFf", 255), ("0b1_01", 5), ("1e3", 1000.0), ("3.1415926", 3.1415926), ("1.5E-2", 0.015), ("2e50", 2e50)],
)
def test_numbers(text, number):
    node = value(text)
    assert node.value == number and node.is_float == isinstance(number, float)


def test_range_needs_no_spaces():
    (loop,) = body("serial i in 0..N step 2 { }")
    (binder,) = loop.binders
    assert (binder.start.value, binder.stop.name, binder.step.value) == (0, "N", 2)


def test_index_kinds():
    a, b, c, d, e = value("x[i, i :+ 4, :, 1:, :n:2]").indices
    assert isinstance(a, syntax.Index) and isinstance(b, syntax.Window)
    assert [[show(part) for part in (s.start, s.stop, s.step)] for s in (c, d, e)] == [[None] * 3, ["1", None, None], [None, "n", "2"]]


def test_positional_and_named_arguments():
    call = value("f(a, b, axis = 1, pad = 0.0)")
    assert [show(a) for a in call.args] == ["a", "b"] and [n.name for n in call.named] == ["axis", "pad"]


def test_attributes_keep_their_order():
    (loop,) = body('@threads(4) @independent("why") parallel i in 4 { }')
    assert [attr.name for attr in loop.attrs] == ["threads", "independent"] and loop.attrs[1].args[0].value == "why"
    node = value("@lanes(1) @chunk(8) sum(x)")
    assert [attr.name for attr in node.attrs] == ["lanes", "chunk"]


def test_parameter_directions():
    (kernel,) = tree("kernel k(a: f32, in b: f32, out c: f32[N], inout d: f32[M, N : ld]) { }").items
    assert [p.direction for p in kernel.params] == ["in", "in", "out", "inout"]
    assert [extent.stride and extent.stride.name for extent in kernel.params[3].type.dims] == [None, "ld"]


def test_strings():
    assert value(r'f("a\"b\\n\n# no comment")').args[0].value == 'a"b\\n\n# no comment'


def test_words_of_c_and_cuda_are_names():
    words = "float template threadIdx half main asm int class static register volatile __global__ exp printf kernel program step fn".split()
    for word in words:
        (kernel,) = tree(f"kernel {word}({word}: f32) {{ let {word} = {word} + 1.0; {word} = {word}[0]; }}").items
        assert kernel.name == kernel.params[0].name == kernel.body.stmts[0].name == word


@pytest.mark.parametrize("name", ["größe", "Δx", "переменная", "変数", "x\u0302", "_", "_0"])
def test_names_of_any_script(name):
    assert value(name).name == name


@pytest.mark.parametrize("word", ["iffy", "inner", "asf", "letter", "gridx", "stepper", "trueish", "kernels"])
def test_keywords_end_at_word_boundaries(word):
    assert value(f"{word} + {word}").left.name == word
    with pytest.raises(VxcError):
        tree(f"{word} k() {{ }}")


def test_composed_and_decomposed_names_are_one():
    composed, decomposed = "gr\u00f6\u00dfe", "gro\u0308\u00dfe"
    assert composed != decomposed and value(composed).name == value(decomposed).name


def test_line_ends_and_bom_change_nothing():
    text = "kernel k() {\n    let a = 1;\n}\n"
    plain = dump(tree(text))
    assert dump(parse(Source.decode("t.vx", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()))) == plain
    assert dump(tree(text.replace("\n", "\r"))) == plain


def test_empty_files():
    assert tree("").items == tree("# nothing\n").items == ()


# ---- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 500 + "a" + ")" * 500,
        "-" * 500 + "a",
        "f(" * 500 + "a" + ")" * 500,
        "x[" * 500 + "0" + "]" * 500,
        " + ".join("a" * 5000),
        "if a { b } else " * 500 + "{ c }",
        "@chunk(1) " * 500 + "a",
    ],
    ids=["parentheses", "prefix", "call", "subscript", "sum", "if", "attribute"],
)
def test_deep_expressions(expression):
    module = tree(f"fn f() -> f32 {{ return {expression}; }}")
    assert len(dump(module).splitlines()) == sum(1 for _ in walk(module)) > 3


def test_deep_blocks():
    assert len(body("if a { " * 500 + "x = 1;" + " }" * 500)) == 1


def test_many_statements_take_linear_time():
    def seconds(count: int) -> float:
        text = "".join(f"    y[i] = y[i] * 2.0 + {j};\n" for j in range(count))
        start = time.process_time()
        assert len(body(text)) == count
        return time.process_time() - start

    seconds(100)
    assert seconds(5000) < 5 * seconds(2500) + 0.5


# ---- dump ------------------------------------------------------------------------------------------------------------


def test_dump():
    text = "kernel k<T: dtype>(x: T[N], out y: T[N]) {\n    @lanes(4) parallel i in N { y[i] = x[i] + 0.5; }\n}\n"
    assert dump(tree(text)) == """\
Module @1:1
  Kernel name='k' @1:1
    Generic name='T' kind='dtype' @1:10
    Param direction='in' name='x' @1:20
      type: TypeExpr name='T' @1:23
        Extent @1:25
          size: Name name='N' @1:25
    Param direction='out' name='y' @1:29
      type: TypeExpr name='T' @1:36
        Extent @1:38
          size: Name name='N' @1:38
    body: Block @1:42
      Loop kind='parallel' @2:15
        Attr name='lanes' @2:5
          Number text='4' value=4 @2:12
        Binder name='i' @2:24
          stop: Name name='N' @2:29
        body: Block @2:31
          Assign op='=' @2:33
            target: Subscript @2:33
              base: Name name='y' @2:33
              Index @2:35
                value: Name name='i' @2:35
            value: Binary op='+' @2:40
              left: Subscript @2:40
                base: Name name='x' @2:40
                Index @2:42
                  value: Name name='i' @2:42
              right: Number text='0.5' value=0.5 @2:47
"""


# ---- mistakes --------------------------------------------------------------------------------------------------------

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


# ---- the grammar file and its table ----------------------------------------------------------------------------------


def test_the_table_is_fresh():
    """If this fails: python -m vxc.frontend.parse"""
    stamp = grammars.stamp("vx", Build())
    assert (grammars.FOLDER / "vx.table").read_bytes().startswith(stamp + b"\n")


def test_the_table_parses_as_the_grammar_does():
    built = lark.Lark((grammars.FOLDER / "vx.lark").read_text(encoding="utf-8"), parser="lalr", keep_all_tokens=True, transformer=Build())
    for path in EXERCISES:
        source = Source(path.name, path.read_text(encoding="utf-8"))
        items = built.parse(source.text)
        assert [dump(item) for item in items] == [dump(item) for item in parse(source).items]


def test_every_callback_belongs_to_a_rule():
    rules = {str(rule.alias or rule.origin.name) for rule in parser().rules}
    callbacks = {name for name in vars(Build) if not name.startswith("_")}
    assert callbacks <= rules


def test_the_wheel_holds_every_package_and_the_grammar():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packages = {".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.glob("vxc/**/__init__.py")}
    assert set(settings["packages"]) == packages | {"vxc.grammar"}
    assert settings["package-dir"] == {"vxc.grammar": "grammar"}
