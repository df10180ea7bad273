"""The parser: what it accepts and the tree it builds."""

from __future__ import annotations

import inspect
import re
import time
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from syntax_text import body, show, tree, value

from vxc.diag import VxcError
from vxc.frontend import syntax
from vxc.frontend.build import RESERVED
from vxc.frontend.check import check
from vxc.frontend.node import Attr, Expr, Item, Node, Stmt, children, walk
from vxc.frontend.parse import dump, parse, parser
from vxc.source import Source

ROOT = Path(__file__).parent.parent
EXERCISES = sorted((Path(__file__).parent / "parse").glob("*.vx"))
REFERENCE = re.findall(r"^```vx( body)?\n(.*?)^```", (ROOT / "grammar/README.md").read_text(encoding="utf-8"), re.M | re.S)


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


def test_nodes_are_frozen_and_compare_by_identity():
    source = Source("k.vx", "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }")
    (kernel,), (again,) = parse(source).items, parse(source).items
    typed = check(parse(source), source, "k")
    for item, name in ((kernel, "name"), (kernel, "span"), (typed, "name"), (typed.body[0], "span")):
        before = getattr(item, name)
        with pytest.raises(FrozenInstanceError):
            setattr(item, name, before)
        with pytest.raises(FrozenInstanceError):
            delattr(item, name)
        assert getattr(item, name) == before
    with pytest.raises((AttributeError, TypeError)):
        kernel.other = 1
    assert kernel != again and kernel == kernel and len({kernel, again}) == 2
    assert replace(kernel, name="other").name == "other" and kernel.name == "k"
