"""The flat interpreter at stage=thread: warps, barriers, shuffles, and every fault that the machine detects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flat_kernels import fault, grid, plan_of, run, when
from vxc.diag import VxcError
from vxc.interp.flat_interp import run_flat
from vxc.source import Source

SUM = """
shared @s: f32[64]
%i = fma %b, 64, %t
%v: f32 = load @x, %i
store @s, %t, %v
{first}
%h = loop 0, 6 {{kind="serial"}}
  %d = shr 32, %h
  %below: bool = lt %t, %d
  if %below
    %u = add %t, %d
    %p: f32 = load @s, %t
    %q: f32 = load @s, %u
    %r: f32 = add %p, %q
    store @s, %t, %r
  end
  {second}
end %h
%zero: bool = eq %t, 0
if %zero
  %w: f32 = load @s, 0
  store @y, %b, %w
end
"""
BARRIER = 'barrier {scope="block"}'


def block_sum(first=BARRIER, second=BARRIER):
    body = SUM.format(first=first, second=second)
    return plan_of(grid("%B", "%B: i64, %N: i64, @x: f32[%N] in, @y: f32[%B] out", "%B, %N, @x, @y", body))


def test_block_reduction_same_for_every_seed():
    x = np.random.default_rng(0).standard_normal(64 * 5).astype(np.float32)
    plan = block_sum()
    results = [run(plan, {"x": x, "y": np.zeros(5, np.float32)}, seed=seed)["y"] for seed in range(5)]
    parts = x.reshape(5, 64)
    for _ in range(6):
        half = parts.shape[1] // 2
        parts = parts[:, :half] + parts[:, half:]
    for y in results:
        np.testing.assert_array_equal(y, parts[:, 0])


@pytest.mark.parametrize("seed", range(6))
def test_a_missing_barrier_is_found_under_every_seed(seed):
    x = {"x": np.ones(128, np.float32), "y": np.zeros(2, np.float32)}
    code, message = fault(block_sum(second=""), x, seed=seed)
    assert code == "E0725" and "s[" in message and "of block 0" in message and "no barrier between" in message
    code, message = fault(block_sum(first=""), x, seed=seed)  # warp 1 may not even have stored what warp 0 reads
    assert code in ("E0725", "E0721") and "s[" in message and "of block 0" in message


def test_without_debug_a_race_is_not_looked_for():
    x = {"x": np.ones(64, np.float32), "y": np.zeros(1, np.float32)}
    assert run(block_sum(first=""), x, debug=False)["y"].shape == (1,)


DIVERGENT = grid("1", "%flag: bool, @y: i64[64] out", "%flag, @y", """
%c: bool = lt %t, {limit}
if %flag
  barrier {{scope="block"}}
end
store @y, %t, %t
""")  # fmt: skip


def test_barrier_in_divergent_code():
    plan = when(plan_of(DIVERGENT.replace("{limit}", "48").replace("{{", "{").replace("}}", "}")), "c")
    code, message = fault(plan, {}, {"flag": True})
    assert code == "E0726" and "thread 48 of block 0" in message


def test_deadlock_of_warps():
    plan = when(plan_of(DIVERGENT.replace("{limit}", "32").replace("{{", "{").replace("}}", "}")), "c")
    assert fault(plan, {}, {"flag": True}) == ("E0727", "deadlock: warp 0 waits at a barrier, but warp 1 has ended (block 0)")


def test_warps_at_different_barriers():
    body = """
%c: bool = lt %t, 32
if %flag
  barrier {scope="block"}
else
  barrier {scope="block"}
end
store @y, %t, %t
"""
    plan = plan_of(grid("1", "%flag: bool, @y: i64[64] out", "%flag, @y", body))
    np.testing.assert_array_equal(run(plan, {}, {"flag": True})["y"], np.arange(64))
    assert fault(when(plan, "c"), {}, {"flag": True}) == ("E0727", "deadlock: warps 0 and 1 wait at different barriers (block 0)")


def test_block_uniform_barriers_may_differ_between_blocks():
    body = """
shared @s: i64[64]
%n = loop 0, %b {kind="serial"}
  store @s, %t, %n
  barrier {scope="block"}
  %o = sub 63, %t
  %v: i64 = load @s, %o
  barrier {scope="block"}
  store @y, %b, %t, %v
end %n
"""
    y = run(grid("4", "@y: i64[4, 64] out", "@y", body), {"y": np.full((4, 64), -1)})["y"]
    np.testing.assert_array_equal(y, np.repeat([[-1], [0], [1], [2]], 64, axis=1))


def test_group_barrier_orders_its_group_only():
    text = """
shared @s: i64[64]
store @s, %t, %t
barrier {{scope="group", width=8}}
%o = xor %t, {distance}
%v: i64 = load @s, %o
store @y, %t, %v
"""
    near = grid("1", "@y: i64[64] out", "@y", text.format(distance=7))
    np.testing.assert_array_equal(run(near)["y"], np.arange(64) ^ 7)
    code, message = fault(grid("1", "@y: i64[64] out", "@y", text.format(distance=8)))
    assert code == "E0725" and "s[" in message


def test_shuffles():
    body = """
%lane = mod %t, 32
%v: f32 = load @x, %t
%a: f32 = shfl_xor %v {distance=4, width=8}
%u: f32 = shfl_up %v {distance=3, width=16}
%i: f32 = shfl_idx %v, 5 {width=32}
store @y, 0, %t, %a
store @y, 1, %t, %u
store @y, 2, %t, %i
"""
    x = np.arange(64, dtype=np.float32)
    y = run(grid("1", "@x: f32[64] in, @y: f32[3, 64] out", "@x, @y", body), {"x": x})["y"]
    t = np.arange(64)
    np.testing.assert_array_equal(y[0], t ^ 4)
    np.testing.assert_array_equal(y[1], np.where(t % 16 >= 3, t - 3, t))
    np.testing.assert_array_equal(y[2], t // 32 * 32 + 5)


def test_shuffle_from_a_lane_that_does_not_run():
    body = """
%c: bool = lt %t, 40
if %flag
  %v = shfl_xor %t {distance=8, width=32}
  store @y, %t, %v
end
"""
    plan = plan_of(grid("1", "%flag: bool, @y: i64[64] out", "%flag, @y", body))
    np.testing.assert_array_equal(run(plan, {}, {"flag": True})["y"], np.arange(64) ^ 8)
    code, message = fault(when(plan, "c"), {}, {"flag": True})
    assert (code, message) == ("E0728", "the shuffle reads lane 8, which does not run it (thread 32 of block 0)")


def test_an_incomplete_warp():
    body = """
shared @s: i64[48]
store @s, %t, %t
barrier {scope="block"}
%o = sub 47, %t
%v: i64 = load @s, %o
store @y, %t, %v
"""
    y = run(grid("1", "@y: i64[48] out", "@y", body, "threads=48"))["y"]
    np.testing.assert_array_equal(y, 47 - np.arange(48))


GUARDED = """
%i = fma %b, 64, %t
%in: bool = lt %i, {limit}
if %in
  %v: f32 = load @x, %i
  %w: f32 = add %v, 1.0:f32
  store @y, %i, %w
end
"""


def test_tail_guard():
    text = grid("2", "%N: i64, @x: f32[%N] in, @y: f32[%N] out", "%N, @x, @y", GUARDED.format(limit="%N"))
    x = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(run(text, {"x": x})["y"], x + 1)
    assert run(text, {"x": x[:0]})["y"].shape == (0,)


def test_out_of_bounds_names_buffer_index_extent_thread():
    text = grid("2", "%N: i64, @x: f32[%N] in, @y: f32[%N] out", "%N, @x, @y", GUARDED.format(limit="128"))
    code, message = fault(text, {"x": np.zeros(100, np.float32)})
    assert (code, message) == ("E0720", "index 100 is out of range for dimension 0 of `x`, which has 100 (thread 36 of block 1)")


def test_the_index_after_the_last_is_out_of_bounds_though_the_next_row_is_there():
    body = "%last = sub %N, 1\n%v: i64 = load @x, 0, %last\nstore @y, %t, %v"
    text = grid("1", "%N: i64, @x: i64[2, %N] in, @y: i64[64] out", "%N, @x, @y", body)
    x = np.arange(8).reshape(2, 4)
    assert run(text, {"x": x})["y"].tolist() == [3] * 64
    code, message = fault(text.replace("0, %last", "0, %N"), {"x": x})
    assert (code, message) == ("E0720", "index 4 is out of range for dimension 1 of `x`, which has 4 (thread 0 of block 0)")


@pytest.mark.parametrize(
    "declare, index, name",
    [("cell @c: f32", "", "c"), ("local @c: f32[4]", ", 3", "c[3]"), ("shared @c: f32[4]", ", 3", "c[3]")],
)
def test_reads_of_what_was_never_written(declare, index, name):
    body = f"{declare}\n%v: f32 = load @c{index}\nstore @y, %t, %v"
    text = grid("1", "@y: f32[64] out", "@y", body)
    code, message = fault(text)
    assert (code, message) == ("E0721", f"`{name}` is read before anything is stored to it (thread 0 of block 0)")


def test_a_cell_written_by_some_threads_only():
    body = """
cell @c: i64
%low: bool = lt %t, 40
if %low
  store @c, %t
end
%v: i64 = load @c
store @y, %t, %v
"""
    code, message = fault(grid("1", "@y: i64[64] out", "@y", body))
    assert code == "E0721" and "thread 40 of block 0" in message


def test_an_out_parameter_is_unwritten_at_first():
    body = "%v: f32 = load @y, %t\nstore @y, %t, %v"
    code, message = fault(grid("1", "@y: f32[64] out", "@y", body), {"y": np.zeros(64, np.float32)})
    assert code == "E0721" and "`y[0]`" in message


def test_global_races_within_and_between_blocks():
    body = "%i = mod %t, 63\nstore @y, %b, %i, %t"
    code, message = fault(grid("1", "@y: i64[1, 64] out", "@y", body))
    assert code == "E0725" and "both write `y[0, 0]`" in message and "of block 0" in message
    code, message = fault(grid("2", "@y: i64[64] out", "@y", "store @y, %t, %b"))
    assert (code, message) == ("E0725", "blocks 0 and 1 both write `y[0]`")
    body = "%i = fma %b, 64, %t\n%v: i64 = load @y, %t\nstore @y, %i, %v"
    code, message = fault(grid("2", "@y: i64[128] inout", "@y", body), {"y": np.zeros(128, np.int64)})
    assert code == "E0725" and message.startswith("blocks 0 and 1 access")


def test_a_barrier_does_not_order_blocks():
    body = 'store @y, %t, 1\nbarrier {scope="block"}\nstore @y, %t, 2'
    assert run(grid("1", "@y: i64[64] out", "@y", body))["y"].tolist() == [2] * 64
    assert fault(grid("2", "@y: i64[64] out", "@y", body))[0] == "E0725"
    of_block = "%c{0}: bool = eq %b, {0}\nif %c{0}\nstore @y, %t, {0}\nend\n"
    body = of_block.format(0) + 'barrier {scope="block"}\n' + of_block.format(1)
    assert fault(grid("2", "@y: i64[64] out", "@y", body)) == ("E0725", "blocks 0 and 1 both write `y[0]`")


@pytest.mark.parametrize("width, other, ordered", [(32, 31, True), (4, 3, True), (8, 3, True), (4, 4, False), (16, 31, False)])
def test_a_barrier_of_a_group_orders_its_threads_and_no_others(width, other, ordered):
    """Whatever other barriers there are: one of a narrower group does not count, one of a wider group does."""
    body = f"""
shared @s: i64[64]
store @s, %t, %t
barrier {{scope="group", width=2}}
barrier {{scope="group", width={width}}}
barrier {{scope="group", width=2}}
%o = xor %t, {other}
%v: i64 = load @s, %o
store @y, %t, %v
"""
    text = grid("1", "@y: i64[64] out", "@y", body)
    if ordered:
        assert run(text)["y"].tolist() == [t ^ other for t in range(64)]
    else:
        assert fault(text)[0] == "E0725"


def test_atomics_do_not_race_but_with_plain_accesses():
    body = '%o: i64 = atomic @y, 0, 1 {op="add"}'
    assert run(grid("3", "@y: i64[1] inout", "@y", body), {"y": np.array([10])})["y"].tolist() == [10 + 3 * 64]
    code, _ = fault(grid("1", "@y: i64[1] inout", "@y", body + "\n%v: i64 = load @y, 0"), {"y": np.array([10])})
    assert code == "E0725"


def test_i32_indices_and_a_loop_with_a_stop_of_each_lane():
    body = """
%n: i32 = cast %t
cell @c: i32
store @c, 0:i32
%k: i32 = loop 0:i32, %n, 2:i32 {kind="serial"}
  %big: bool = gt %k, 20:i32
  if %big
    break
  end
  %odd: bool = eq %k, 4:i32
  if %odd
    continue
  end
  %a: i32 = load @c
  %s: i32 = add %a, %k
  store @c, %s
end %k
%r: i32 = load @c
store @y, %n, %r
"""
    y = run(grid("1", "@y: i32[64] out", "@y", body))["y"]
    assert y.tolist() == [sum(k for k in range(0, n, 2) if k <= 20 and k != 4) for n in range(64)]


def test_a_place_in_the_source_or_in_the_note():
    plan = plan_of(grid("1", "@y: f32[32] out", "@y", "store @y, %t, 0.0:f32 !2:5"))
    source = Source("k.vx", "kernel k(out y: f32[32]) {\n    y[t] = 0.0;\n}\n")
    with pytest.raises(VxcError) as caught:
        run_flat(plan.with_kernels(replace(k, source=source) for k in plan.kernels), {}, {})
    assert caught.value.diagnostics[0].place == "k.vx:2:5"
    with pytest.raises(VxcError) as caught:
        run_flat(plan, {}, {})
    assert caught.value.diagnostics[0].notes == ("in kernel @k at line 2, column 5: `store @y, %t, 0.0:f32`",)
