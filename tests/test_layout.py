"""Layouts: text, evaluation, proofs by enumeration, and the distribution of a reduction's order."""

import numpy as np
import pytest

from vxc.layout.layout import Dim, Layout, distribution, parse, spread
from vxc.semantics import Order


@pytest.mark.parametrize("text", [
    "[e] -> [e // 4 % 32, e // 128 * 4 + e % 4]",
    "[i, j, r in 2] -> [i * 8 + j % 8 + r * 32, j // 8]",
    "[i] -> [i ^ i // 8 & 3, 0]",
    "[i] -> [(i ^ 1) & 3, i - (1 - i)]",
    "[größe] -> [größe % (2 * 2), größe // (2 * 2)]",
])  # fmt: skip
def test_text_reads_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_parse_gives_a_value():
    assert parse("[i,r in 2]->[i+r*4,0]") == Layout((Dim("i"), Dim("r", 2)), ("i", "r", 4, "*", "+"), (0,))


def test_superfluous_parentheses_go():
    assert str(parse("[i] -> [((i) // 4) % (32), ((0))]")) == "[i] -> [i // 4 % 32, 0]"


@pytest.mark.parametrize("text, message", [
    ("[i] -> [i]", "layout `[i] -> [i]` has 1 results, not [thread, slot]"),
    ("[i] -> [k, 0]", "`k` is no dimension of layout `[i] -> [k, 0]`"),
    ("[i, i] -> [i, 0]", "a dimension occurs twice in layout `[i, i] -> [i, 0]`"),
    ("[i", "the text ends too early in layout `[i`"),
    ("[i] => [i, 0]", "`=` is not used in layout `[i] => [i, 0]`"),
    ("[i] -> [i + , 0]", "`,` does not fit in layout `[i] -> [i + , 0]`"),
    ("[i] -> [99999999999999999999, 0]", "99999999999999999999 is too large in layout `[i] -> [99999999999999999999, 0]`"),
])  # fmt: skip
def test_mistakes(text, message):
    with pytest.raises(ValueError) as error:
        parse(text)
    assert str(error.value) == message


def test_deep_expressions():
    text = "[i] -> [" + "(" * 3000 + "i" + " + 1)" * 3000 + ", 0]"
    thread, _ = parse(text).evaluate([2])
    assert thread.tolist() == [3000, 3001]
    assert parse(str(parse(text))) == parse(text)


def test_evaluate():
    thread, slot = parse("[i, j, r in 2] -> [i * 8 + j % 8 + r * 16, j // 8]").evaluate([2, 16])
    i, j, r = np.indices((2, 16, 2))
    assert (thread == i * 8 + j % 8 + r * 16).all() and (slot == j // 8).all()
    assert parse("[i] -> [i // 0 + i % 0 + (i ^ 3) + (i & 1), 0]").evaluate([4])[0].tolist() == [3, 3, 1, 1]
    with pytest.raises(ValueError, match="2 extents"):
        parse("[i] -> [i, 0]").evaluate([4, 4])


@pytest.mark.parametrize("text, extents, threads, wrong", [
    ("[i, j, r in 2] -> [i * 8 + j % 8 + r * 32, j // 8]", (4, 16), 64, None),
    ("[i] -> [i % 4, i // 4]", (0,), 4, None),
    ("[i, j, r in 2] -> [i * 8 + j % 8 + r * 32, j // 8]", (4, 16), 63, "i=3, j=7, r=1 has thread 63, outside the 63 threads of the block"),
    ("[i] -> [i - 1, 0]", (4,), 4, "i=0 has thread -1, outside the 4 threads of the block"),
    ("[i] -> [i % 4, i // 4 - 1]", (8,), 4, "i=0 has slot -1"),
    ("[i, j] -> [i, j % 8]", (4, 16), 4, "i=0, j=0 and i=0, j=8 both have slot 0 of thread 0"),
    ("[i, r in 2] -> [i, 0]", (4,), 4, "i=0, r=0 and i=0, r=1 both have slot 0 of thread 0"),
])  # fmt: skip
def test_check(text, extents, threads, wrong):
    assert parse(text).check(extents, threads) == wrong


@pytest.mark.parametrize("order, text", [
    (Order(4, 4, 32), "[e] -> [e // 4 % 32, e // 128 * 4 + e % 4]"),
    (Order(1, 4, 32), "[e] -> [e % 32, e // 32]"),
    (Order(4, 4, 1), "[e] -> [0, e]"),
    (Order(1, 0, 1), "[e] -> [0, e]"),
])  # fmt: skip
def test_distribution(order, text):
    assert str(distribution(order)) == text


@pytest.mark.parametrize("v", [1, 2, 3, 8])
@pytest.mark.parametrize("lanes", [1, 4, 96])
def test_spread_is_the_definition_of_an_order(v, lanes):
    e = np.arange(1000)
    thread, slot = spread(v, lanes).evaluate([1000])
    assert (thread == e // v % lanes).all()
    assert (slot == e // (v * lanes) * v + e % v).all()
    assert spread(v, lanes).check([1000], lanes) is None
