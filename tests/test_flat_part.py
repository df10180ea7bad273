"""The flat interpreter at stage=thread: a `move` of the first of its elements, what it copies and by which accesses."""

from __future__ import annotations

import numpy as np
import pytest
from flat_kernels import fault, grid, run

from vxc.interp.flat_counters import Counters

X = np.arange(300, dtype=np.float32)
PLACES = """
local @v: f32[4]
%i: i64 = mul %t, 4
%j: i64 = add %i, %s
%m: i64 = mod %t, 4
%n: i64 = add %m, 1
"""
LOAD = PLACES + "move @v, 0, @x, %j, %n {HOW}\nmove @y, %i, @v, 0 {width=4}\n"
STORE = PLACES + "move @v, 0, @x, %i {width=4}\nmove @y, %j, @v, 0, %n {HOW}\n"
BRANCH, STRAIGHT, ALIGNED = 'anywhere="branch", width=4', 'anywhere="straight", width=4', "width=4"


def kernel(text: str, how: str) -> str:
    return grid("1", "%s: i64, @x: f32[300] in, @y: f32[300] inout", "%s, @x, @y", text.replace("HOW", how))


@pytest.mark.parametrize("how, s", [(BRANCH, 0), (BRANCH, 3), (STRAIGHT, 2), (ALIGNED, 4)])
def test_elements_that_are_not_wanted_are_anything(how, s):
    got = run(kernel(LOAD, how), {"x": X, "y": X}, {"s": s})["y"][:256].reshape(64, 4)
    wanted = np.arange(4) < np.arange(64)[:, None] % 4 + 1
    np.testing.assert_array_equal(got, np.where(wanted, X[s : s + 256].reshape(64, 4), np.nan))


@pytest.mark.parametrize("how, s", [(BRANCH, 0), (BRANCH, 3), (ALIGNED, 4)])
def test_other_elements_stay_as_they_are(how, s):
    got = run(kernel(STORE, how), {"x": X, "y": -X}, {"s": s})["y"][s : s + 256].reshape(64, 4)
    wanted = np.arange(4) < np.arange(64)[:, None] % 4 + 1
    np.testing.assert_array_equal(got, np.where(wanted, X[:256].reshape(64, 4), -X[s : s + 256].reshape(64, 4)))


@pytest.mark.parametrize("text, how, s, sizes", [
    (LOAD, ALIGNED, 0, {16: 64}),  # 16 of 64 threads want 1 element, 16 want 2, 16 want 3, 16 want 4
    (LOAD, STRAIGHT, 3, {16: 112}),
    (LOAD, BRANCH, 0, {4: 64, 8: 16, 16: 16}),
    (STORE, BRANCH, 2, {4: 64, 8: 48}),
    (STORE, ALIGNED, 0, {4: 32, 8: 32, 16: 16}),
])  # fmt: skip
def test_accesses(text, how, s, sizes):
    counters = Counters()
    run(kernel(text, how), {"x": X, "y": X}, {"s": s}, counters=counters)
    name = "x" if text is LOAD else "y"
    assert {size: count.threads for (_, _, array, size), count in counters.accesses.items() if array == name} == sizes


@pytest.mark.parametrize("how, s, wanted", [
    (ALIGNED, 1, ("E0729", "no place of `x` for an access of 4 elements (thread 0 of block 0)")),
    (BRANCH, 50, ("E0720", "not all elements are in `x` (thread 62 of block 0)")),
    (BRANCH, -5, ("E0720", "not all elements are in `x` (thread 0 of block 0)")),
])  # fmt: skip
def test_parts_in_wrong_places(how, s, wanted):
    assert fault(kernel(LOAD, how), {"x": X, "y": X}, {"s": s}) == wanted


def test_more_elements_than_it_has():
    text = kernel(LOAD, BRANCH).replace("mod %t, 4", "mod %t, 5")
    assert fault(text, {"x": X, "y": X}, {"s": 0}) == ("E0729", "no number of 4 elements (thread 4 of block 0)")


def test_what_is_wanted_was_written():
    body = "local @v: f32[4]\nmove @y, %t, @v, 0, 1 {anywhere=\"branch\", width=4}"
    code, message = fault(grid("1", "@y: f32[256] out", "@y", body))
    assert (code, message) == ("E0721", "`v[0]` is read before anything is stored to it (thread 0 of block 0)")
