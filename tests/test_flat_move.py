"""The flat interpreter at stage=thread: accesses of several elements, and where arrays begin."""

from __future__ import annotations

import numpy as np
import pytest
from flat_kernels import fault, grid, run

from vxc.interp.flat_counters import Counters

MOVES = """
%i: i64 = mul %t, 4
%f: i64 = add %i, %s
local @v: f32[4]
move @v, 0, @x, %f {width=4}
move @y, %i, @v, 0 {width=4}
"""
MOVING = grid("1", "%s: i64, @x: f32[16, 32] in, @y: f32[256] out", "%s, @x, @y", MOVES)
X = np.arange(512, dtype=np.float32).reshape(16, 32)


def test_vector_accesses():
    np.testing.assert_array_equal(run(MOVING, {"x": X}, {"s": 4})["y"], np.arange(4, 260))
    np.testing.assert_array_equal(run(MOVING, {"x": X}, {"s": 3}, bases={"x": 4})["y"], np.arange(3, 259))


@pytest.mark.parametrize("s, bases, wanted", [
    (2, {}, ("E0729", "`x[0, 2]` is no place for an access of 4 elements (thread 0 of block 0)")),
    (4, {"x": 8}, ("E0729", "`x[0, 4]` is no place for an access of 4 elements (thread 0 of block 0)")),
    (4, {"y": 8}, ("E0729", "`y[0]` is no place for an access of 4 elements (thread 0 of block 0)")),
    (260, {}, ("E0720", "elements 512 to 515 of `x` are not all in 0..512 (thread 63 of block 0)")),
    (-4, {}, ("E0720", "elements -4 to -1 of `x` are not all in 0..512 (thread 0 of block 0)")),
])  # fmt: skip
def test_vector_accesses_in_wrong_places(s, bases, wanted):
    assert fault(MOVING, {"x": X}, {"s": s}, bases=bases) == wanted


LINE = """
local @v: f32[4]
%i: i64 = mul %t, 4
%f: i64 = add %i, %s
move @v, 0, @x, %f {anywhere="line", width=4}
move @y, %i, @v, 0 {width=4}
"""
LINES = grid("1", "%s: i64, @x: f32[254] in, @y: f32[256] out", "%s, @x, @y", LINE)


@pytest.mark.parametrize("s, base", [(0, 0), (-1, 4), (-2, 8)])
def test_a_line_has_an_element_of_the_array(s, base):
    """What is none of the array is NaN, so that whoever takes it for one shows it."""
    x = np.arange(254, dtype=np.float32)
    around = np.pad(x, (-s, 256 + s - 254), constant_values=np.nan)
    np.testing.assert_array_equal(run(LINES, {"x": x}, {"s": s}, bases={"x": base})["y"], around)


@pytest.mark.parametrize("s, base, wanted", [
    (-4, 0, ("E0720", "no element of `x` is among the 4 from -4 on (thread 0 of block 0)")),
    (4, 0, ("E0720", "no element of `x` is among the 4 from 256 on (thread 63 of block 0)")),
    (0, 4, ("E0729", "element 0 of `x` is no place for an access of 4 elements (thread 0 of block 0)")),
])  # fmt: skip
def test_lines_in_wrong_places(s, base, wanted):
    assert fault(LINES, {"x": np.zeros(254, np.float32)}, {"s": s}, bases={"x": base}) == wanted


@pytest.mark.parametrize("s, base, vectors", [(0, 0, 64), (-1, 4, 64), (-3, 0, 127), (1, 8, 127), (1, 0, 127)])
def test_held_elements_lie_anywhere(s, base, vectors):
    """Loaded are the aligned vectors that have an element of the array; what is none of it is NaN."""
    x = np.arange(254, dtype=np.float32)
    around = np.pad(x, (max(0, -s), 256), constant_values=np.nan)[max(0, s) : max(0, s) + 256]
    counters = Counters()
    got = run(LINES.replace('"line"', '"held"'), {"x": x}, {"s": s}, bases={"x": base}, counters=counters)
    np.testing.assert_array_equal(got["y"], around)
    assert [c.threads for (_, _, name, _), c in counters.accesses.items() if name == "x"] == [vectors]
    none = ("E0720", "no element of `x` is among the 4 from 254 on (thread 63 of block 0)")
    assert fault(LINES.replace('"line"', '"held"'), {"x": x}, {"s": 2}, bases={"x": base}) == none


def test_vector_accesses_race_and_read_what_is_written():
    body = "local @v: f32[4]\n%i: i64 = mul %t, 2\nmove @y, %i, @v, 0 {width=2}"
    code, message = fault(grid("1", "@y: f32[256] out", "@y", body))
    assert (code, message) == ("E0721", "`v[0]` is read before anything is stored to it (thread 0 of block 0)")
    body = "local @v: f32[2]\n%i: i64 = floordiv %t, 2\n%j: i64 = mul %i, 2\nmove @v, 0, @x, %j {width=2}\nmove @y, %j, @v, 0 {width=2}"
    code, message = fault(grid("1", "@x: f32[256] in, @y: f32[256] out", "@x, @y", body), {"x": X.reshape(-1)[:256]})
    assert (code, message) == ("E0725", "threads 0 and 1 of block 0 both write `y[0]` with no barrier between")


def test_aligned_is_said_by_the_caller_or_else_by_the_seed():
    body = "%c: bool = aligned @x {bytes=8}\n%i: i32 = cast %c\nstore @y, %t, %i"
    text = grid("1", "@x: i32[64] in, @y: i32[64] out", "@x, @y", body)
    x = np.zeros(64, np.int32)
    assert [run(text, {"x": x}, bases={"x": base})["y"][0] for base in (0, 4, 8, 12)] == [1, 0, 1, 0]
    found = [int(run(text, {"x": x}, seed=seed)["y"][0]) for seed in range(20)]
    assert found[0] == 1 and set(found) == {0, 1}
    assert found == [int(run(text, {"x": x}, seed=seed)["y"][0]) for seed in range(20)]


def test_how_far_ahead_a_multiple_is():
    body = "%i: i64 = sub %t, 40\n%c: i64 = ahead @x, %i {bytes=16}\nstore @y, %t, %c"
    text = grid("1", "@x: i32[64] in, @y: i64[64] out", "@x, @y", body)
    for base in (0, 4, 8, 12):
        got = run(text, {"x": np.zeros(64, np.int32)}, bases={"x": base})["y"]
        assert got.tolist() == [next(k for k in range(4) if (base + 4 * (t - 40 + k)) % 16 == 0) for t in range(64)]


STORE = """
%r: bool = lt %t, 32
if %r
  %i: i64 = mul %t, 8
  local @v: u8[8]
  move @v, 0, @x, %i {width=8}
  move @y, %i, @v, 0 {anywhere="branch", width=8}
end
"""


@pytest.mark.parametrize("base, wanted", [
    (0, {8: 32}),
    (4, {4: 64}),
    (1, {1: 64, 2: 32, 4: 32}),  # 1, 2, 4 and 1 bytes
    (2, {2: 64, 4: 32}),
    (7, {1: 64, 2: 32, 4: 32}),  # 1, 4, 2 and 1 bytes
])  # fmt: skip
def test_stores_between_words_are_words_and_their_ends(base, wanted):
    counters = Counters()
    text = grid("1", "@x: u8[256] in, @y: u8[256] out", "@x, @y", STORE)
    x = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(run(text, {"x": x}, bases={"y": base}, counters=counters)["y"], x)
    assert {size: count.threads for (_, _, name, size), count in counters.accesses.items() if name == "y"} == wanted


def test_a_vector_access_is_one_request_of_whole_sectors():
    counters = Counters()
    run(MOVING, {"x": X}, {"s": 4}, counters=counters)
    load, store = (counters.accesses[key] for key in sorted(counters.accesses))
    assert [(a.requests, a.sectors) for a in (load, store)] == [(2, 34), (2, 32)]


ASYNC = """
shared @s: f32[256]
%i: i64 = mul %t, 4
move.async @s, %i, @x, %i {width=4}
AWAIT
barrier {scope="block"}
%f: i64 = sub 255, %t
%v: f32 = load @s, %f
store @y, %t, %v
"""


def asynchronous(awaits: str) -> str:
    return grid("1", "@x: f32[16, 32] in, @y: f32[64] out", "@x, @y", ASYNC.replace("AWAIT", awaits))


def test_what_is_copied_by_itself_is_there_once_it_is_awaited():
    np.testing.assert_array_equal(run(asynchronous("await"), {"x": X})["y"], np.arange(255, 191, -1))
    code, message = fault(asynchronous(""), {"x": X})
    assert code == "E0721" and message.startswith("`s[")
    early = asynchronous("%w: f32 = load @s, %i\nawait")
    assert fault(early, {"x": X})[0] == "E0721"


def test_only_lanes_that_await_find_their_elements():
    some = "%c: bool = lt %t, 32\nif %c\nawait\nend"
    code, message = fault(asynchronous(some), {"x": X})
    assert code == "E0721" and message.startswith("`s[")
