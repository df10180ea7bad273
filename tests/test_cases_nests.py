"""Loops inside the parallel loops of a block: iterations that teams of lanes share, and what lies in fragments meanwhile.

Every kernel runs on the syntax tree, on the IR as lowered and as threads in two orders, with the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import compiled, output, outputs
from tests.tile_kernels import block, run, small
from vxc.diff import disagreements, prefix_executors
from vxc.inputs import Call

THREADS = (32, 64, 96, 256)


def after_any_pass(text: str, **arrays: np.ndarray) -> list[str]:
    """What differs between the syntax tree and the IR after some pass."""
    return [str(d) for d in disagreements(prefix_executors(compiled(text, binary=False)), {"these": Call(arrays, {}, {})})]


@pytest.mark.parametrize("threads", THREADS)
def test_a_loop_in_a_loop_with_something_before_it(threads):
    text = block(
        "x: f32[12, 20], out y: f32[12, 20]",
        "parallel i in 12 { let s = x[i, 3]; parallel j in 20 { y[i, j] = x[i, j] + s; } }",
        threads,
    )
    x = small(12, 20)
    assert run(text, x=x).tolist() == (x + x[:, 3:4]).tolist()


@pytest.mark.parametrize("threads", THREADS)
def test_a_row_and_then_an_element_of_it(threads):
    text = block("x: f32[7, 12], out y: f32[7, 12]", "parallel i in 7 { y[i] = x[i] * 2.0; y[i, 11 - i] = x[i, 0]; }", threads)
    x = small(7, 12)
    want = 2 * x
    want[np.arange(7), 11 - np.arange(7)] = x[:, 0]
    assert run(text, x=x).tolist() == want.tolist()


@pytest.mark.parametrize("threads", THREADS)
def test_a_copied_row_is_read_by_teams_after_a_barrier_of_the_block(threads):
    body = "shared s: f32[3]; copy(x, s); parallel i in 3 { y[i] = s[2 - i]; y[i, 1] += 1.0; }"
    text = block("x: f32[3], out y: f32[3, 3]", body, threads)
    x = small(3)
    assert run(text, x=x).tolist() == (x[::-1, None] + np.array([0, 1, 0])).tolist()


@pytest.mark.parametrize("threads", THREADS)
def test_a_team_reads_a_whole_fragment(threads):
    """Lanes of a team are not the threads that hold the fragment."""
    text = block(
        "x: i32[7, 4], out y: i32[9, 7, 4]",
        "fragment f: i32[7, 4]; copy(x, f); parallel i in 9 { y[i] = f + (i as i32); y[i, 0, 0] = 99; }",
        threads,
    )
    x = small(7, 4, dtype="i4")
    want = x + np.arange(9)[:, None, None]
    want[:, 0, 0] = 99
    assert run(text, x=x).tolist() == want.tolist()


@pytest.mark.parametrize("threads", THREADS)
def test_a_thread_reads_a_whole_fragment(threads):
    body = """fragment f: i32[40]; copy(x, f); parallel i in 40 {
        var n = 0 as i32; serial r in 2 { parallel j in 40 { local m: i32[1] = f[j]; } n += f[(i + r) % 40]; } y[i] = n; }"""
    text = block("x: i32[40], out y: i32[40]", body, threads)
    x = small(40, dtype="i4")
    assert run(text, x=x).tolist() == (x + np.roll(x, -1)).tolist()


@pytest.mark.parametrize("threads", THREADS)
def test_a_row_of_each_iteration_of_several_workers(threads):
    text = f"""kernel k(out y: f32[5, 7, 13]) {{ @independent("each iteration has one worker") @threads({threads}) grid w in 2 {{
        persistent b in w..5 step 2 {{ parallel i in 7 {{ y[b, i] = b as f32; y[b, i, 3] = 9.0; }} }} }} }}"""
    want = np.broadcast_to(np.arange(5.0)[:, None, None], (5, 7, 13)).copy()
    want[:, :, 3] = 9
    assert output(text, binary=False).tolist() == want.tolist() and not after_any_pass(text)


FAR = 1 << 33


def test_iterations_far_apart_in_a_block():
    text = block(
        "x: i32[6, 5], out y: i32[6, 5]",
        f'@independent("one place each") parallel g in 0..{6 * FAR} step {FAR} {{ let i = g // {FAR}; y[i, 0] = 8; y[i] = x[5 - i]; }} '
        f'@independent("one place each") parallel g in 0..{6 * FAR} step {FAR} {{ let i = g // {FAR}; y[i, 1] *= 2; }}',
        64,
    )
    x = small(6, 5, dtype="i4")
    assert run(text, x=x).tolist() == (x[::-1] * np.array([1, 2, 1, 1, 1])).tolist() and not after_any_pass(text, x=x)


# ---- what all threads of a block come to together ----------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_tiles_under_a_condition_on_what_an_atomic_gave(threads):
    text = f"""kernel k(x: i32[4, 40], inout n: i32[4], out y: i32[4, 40]) {{ @threads({threads}) grid b in 4 {{
        shared s: i32[40] = 5; let old = atomic_add(n[b], 1);
        if old % 2 == 0 {{ copy(x[b, :], s); }}
        parallel i in 40 {{ y[b, i] = s[39 - i]; }} }} }}"""
    x, n = small(4, 40, dtype="i4"), np.arange(4, dtype=np.int32)
    want = np.where(n[:, None] % 2 == 0, x[:, ::-1], 5)
    assert compiled(text, binary=False).plan.kernels[0].attr("threads") == threads
    assert outputs(text, binary=False, x=x, n=n)["y"].tolist() == want.tolist()


@pytest.mark.parametrize("threads", THREADS)
def test_tiles_in_as_many_trips_as_a_sum_says(threads):
    text = f"""kernel k(x: i32[3, 8], c: i64[3, 5], out y: i32[3, 8]) {{ @threads({threads}) grid b in 3 {{
        shared s: i32[8] = 0; fragment f: i32[8] = 0;
        serial t in sum(c[b]) {{ copy(x[t % 3, :], s); parallel i in 8 {{ f[i] += s[7 - i]; }} }}
        copy(f, y[b, :]); }} }}"""
    x, c = small(3, 8, dtype="i4"), np.array([[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    rows = [x[np.arange(n) % 3].sum(0)[::-1] for n in c.sum(1)]
    assert run(text, x=x, c=c).tolist() == np.array(rows).tolist()


# ---- tiles that lie outside, whatever the sizes --------------------------------------------------------------------------


@pytest.mark.parametrize("start", [-9, -2, 0, 6, 8, 40])
@pytest.mark.parametrize("space", ["shared", "fragment"])
def test_a_copy_from_and_to_a_constant_place_outside(space, start):
    text = block("x: i32[8], inout y: i32[8]", f"{space} s: i32[3]; copy(x[{start} :+ 3], s, pad = 7); copy(s, y[{start} :+ 3]);", 32)
    x = small(8, dtype="i4")
    want = np.zeros(8, np.int32)
    places = [p for p in range(start, start + 3) if 0 <= p < 8]
    want[places] = x[places]
    assert run(text, x=x, y=np.zeros(8, np.int32)).tolist() == want.tolist()


@pytest.mark.parametrize("row", [-1, 0, 3, 4])
def test_a_copy_of_a_row_that_there_is_not(row):
    text = block("x: i32[4, 5], out y: i32[5]", f"shared s: i32[5]; copy(x[{row}, :], s, pad = 7); copy(s, y);", 32)
    x = small(4, 5, dtype="i4")
    assert run(text, x=x).tolist() == (x[row].tolist() if 0 <= row < 4 else [7] * 5)


@pytest.mark.parametrize("threads", THREADS)
def test_parts_of_a_sum_over_a_tile_of_the_block(threads):
    """Its parts stay in the launch that fills the tile."""
    text = f"""kernel k(x: f32[3, 40], z: f32[100], out y: f32[3]) {{ @threads({threads}) grid b in 3 {{
        shared s: f32[40]; copy(x[b, :], s); y[b] = @parts(2) sum(z * s[39 - b]); }} }}"""
    x, z = small(3, 40), small(100)
    assert run(text, x=x, z=z).tolist() == (z.sum() * x[np.arange(3), 39 - np.arange(3)]).tolist()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("store", ["y[i + t] = t as i32;", "let v = sum(x[i]); y[i + t] = v + (t as i32);"])
def test_each_trip_writes_over_what_other_threads_wrote_before(store, threads):
    """The array is never read: still the last trip's value stands."""
    text = block("x: i32[40, 3], out y: i32[48]", f"serial t in 9 {{ parallel i in 40 {{ {store} }} }}", threads)
    x = np.zeros((40, 3), np.int32)
    assert run(text, x=x).tolist() == [min(e, 8) for e in range(48)]
