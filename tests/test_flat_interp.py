"""The flat interpreter at stages tile and team: values to the bit, faults, races by layout and barrier."""

from __future__ import annotations

import numpy as np
import pytest

from flat_kernels import fault, plan_of, run
from vxc.dtypes import DTYPES, F16, F32, I64
from vxc.interp import flat_tile
from vxc.semantics import Order, cast, dot, evaluate, reduce, scan

RNG = np.random.default_rng(3)
ORDER = Order(4, 4, 8, 2)

SOFTMAX = """
kernel @softmax(%M: i64, %N: i64, @x: f32[%M, %N] in, @y: f32[%M, %N] out) stage=tile {
  %i = loop 0, %M {independent="proved", kind="parallel"}
    cell @m: f32
    %j = reduce @m, %N {op="max", order=[4, 4, 8, 2]}
      %0: f32 = load @x, %i, %j
      contribute %0
    end %j
    %1: f32 = load @m
    cell @z: f32
    %k = reduce @z, %N {op="sum", order=[4, 4, 8, 2]}
      %2: f32 = load @x, %i, %k
      %3: f32 = sub %2, %1
      %4: f32 = exp %3
      contribute %4
    end %k
    %5: f32 = load @z
    %l = loop 0, %N {independent="proved", kind="parallel"}
      %6: f32 = load @x, %i, %l
      %7: f32 = sub %6, %1
      %8: f32 = exp %7
      %9: f32 = div %8, %5
      store @y, %i, %l, %9
    end %l
  end %i
}
"""


@pytest.mark.parametrize("shape", [(37, 1000), (1, 1), (5, 0)])
def test_softmax_equals_its_definition(shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    y = run(SOFTMAX, {"x": x})["y"]
    e = evaluate("exp", F32, evaluate("sub", F32, x, reduce("max", x, F32, ORDER)[:, None]))
    np.testing.assert_array_equal(y, evaluate("div", F32, e, reduce("sum", e, F32, ORDER)[:, None]))


def test_no_rows():
    assert run(SOFTMAX, {"x": np.zeros((0, 7), np.float32)})["y"].shape == (0, 7)


def test_chunks_change_nothing(monkeypatch):
    x = RNG.standard_normal((50, 300)).astype(np.float32)
    whole = run(SOFTMAX, {"x": x})["y"]
    monkeypatch.setattr(flat_tile, "_MOST", 700)
    monkeypatch.setattr(flat_tile, "_LEAST", 1)
    np.testing.assert_array_equal(run(SOFTMAX, {"x": x})["y"], whole)
    monkeypatch.setattr(flat_tile, "_MOST", 70)
    np.testing.assert_array_equal(run(SOFTMAX, {"x": x})["y"], whole)


def test_inputs_stay_and_initial_contents_remain():
    text = """
kernel @k(%N: i64, @x: f32[%N] inout, @y: f32[8] out) stage=tile {
  %i = loop 0, %N, 2 {kind="parallel"}
    %0: f32 = load @x, %i
    %1: f32 = neg %0
    store @x, %i, %1
    store @y, %i, %1
  end %i
}
"""
    x, y = np.arange(5, dtype=np.float32), np.full(8, 7, np.float32)
    got = run(text, {"x": x, "y": y})
    assert got["x"].tolist() == [0, 1, -2, 3, -4] and got["y"].tolist() == [0, 7, -2, 7, -4, 7, 7, 7]
    assert x.tolist() == [0, 1, 2, 3, 4] and y.tolist() == [7] * 8
    assert np.isnan(run(text, {"x": x})["y"][[1, 3, 5, 6, 7]]).all()


def test_strided_parameter():
    text = """
kernel @k(%M: i64, %N: i64, %ld: i64, @x: f32[%M, %N; %ld, 1] in, @y: f32[%N, %M] out) stage=tile {
  %i = loop 0, %M {kind="parallel"}
    %j = loop 0, %N {kind="parallel"}
      %0: f32 = load @x, %i, %j
      store @y, %j, %i, %0
    end %j
  end %i
}
"""
    x = RNG.standard_normal((6, 10)).astype(np.float32)
    np.testing.assert_array_equal(run(text, {"x": x[:, :7]})["y"], x[:, :7].T)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "maxnum", "minnum", "absmax", "argmax", "argmin"])
def test_reductions_over_rows_of_different_length(op):
    result = "i64" if op.startswith("arg") else "f32"
    text = f"""
kernel @k(%M: i64, %N: i64, @x: f32[%M, %N] in, @n: i64[%M] in, @y: {result}[%M] out) stage=tile {{
  %i = loop 0, %M {{kind="parallel"}}
    %0: i64 = load @n, %i
    %1: bool = ne %0, 3
    if %1
      cell @r: {result}
      %j = reduce @r, %0 {{op="{op}", order=[4, 0, 4, 1]}}
        %2: f32 = load @x, %i, %j
        contribute %2
      end %j
      %3: {result} = load @r
      store @y, %i, %3
    end
  end %i
}}
"""
    x, n = RNG.standard_normal((9, 40)).astype(np.float32), np.array([0, 40, 7, 3, 7, 1, 0, 33, 40])
    y = run(text, {"x": x, "n": n, "y": np.zeros(9, np.int64 if result == "i64" else np.float32)})["y"]
    want = [0 if k == 3 else reduce(op, row[:k], F32, Order(4, 0, 4, 1)) for row, k in zip(x, n)]
    np.testing.assert_array_equal(y, np.array(want, y.dtype))


def test_dot_of_f16_and_a_reduction_outside_of_loops():
    text = """
kernel @k(%N: i64, @x: f16[%N] in, @y: f16[%N] in, @z: f16[1] out) stage=tile {
  cell @r: f32
  %j = reduce @r, %N {op="dot", order=[8, 8, 32, 1]}
    %0: f16 = load @x, %j
    %1: f32 = cast %0
    %2: f16 = load @y, %j
    %3: f32 = cast %2
    contribute %1, %3
  end %j
  %4: f32 = load @r
  %5: f16 = cast %4
  store @z, 0, %5
}
"""
    x, y = RNG.standard_normal((2, 777)).astype(np.float16)
    want = dot(cast(x, F16, F32), cast(y, F16, F32), F32, Order(8, 8, 32))
    np.testing.assert_array_equal(run(text, {"x": x, "y": y})["z"], [cast(want, F32, F16)])


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_scans(op):
    text = f"""
kernel @k(%M: i64, %N: i64, @x: f32[%M, %N] in, @y: f32[%M, %N] out) stage=tile {{
  %i = loop 0, %M {{kind="parallel"}}
    %j = scan %N {{order=[4, 4, 8, 1]}}
      %0: f32 = load @x, %i, %j
      %1: f32 = prefix %0 {{op="{op}"}}
      store @y, %i, %j, %1
    end %j
  end %i
}}
"""
    x = RNG.standard_normal((4, 99)).astype(np.float32)
    np.testing.assert_array_equal(run(text, {"x": x})["y"], scan(op, x, F32, Order(4, 4, 8)))


def test_control_flow_as_python_does_it():
    text = """
kernel @k(%N: i64, @y: i64[%N, %N] out, @z: i64[%N, %N] out) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %j = loop 0, %N {kind="parallel"}
      cell @a: i64
      store @a, %i
      %k = loop %j, -3, -2 {kind="serial"}
        %0: bool = eq %k, 3
        if %0
          continue
        else
          %1: i64 = load @a
          %2: i64 = mul %1, 3
          %3: bool = gt %2, 100
          if %3
            break
          end
          %4: i64 = add %2, %k
          store @a, %4
        end
        %5: i64 = load @a
        %6: i64 = add %5, 1
        store @a, %6
      end %k
      %7: i64 = load @a
      store @y, %i, %j, %7
      while
        %8: i64 = load @a
        %9: bool = gt %8, 500
        if %9
          break
        end
        %10: i64 = mul %8, 2
        %11: i64 = add %10, 1
        store @a, %11
      end
      %12: i64 = load @a
      store @z, %i, %j, %12
    end %j
  end %i
}
"""
    n = 9
    got = run(text, {"y": np.zeros((n, n), np.int64), "z": np.zeros((n, n), np.int64)})
    for i in range(n):
        for j in range(n):
            a = i
            for k in range(j, -3, -2):
                if k == 3:
                    continue
                if a * 3 > 100:
                    break
                a = a * 3 + k + 1
            assert got["y"][i, j] == a
            while a <= 500:
                a = a * 2 + 1
            assert got["z"][i, j] == a


def test_a_triangle_and_local_arrays():
    text = """
kernel @k(%N: i64, @y: i64[%N, %N] inout) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    local @p: i64[4]
    %a = loop 0, 4 {kind="parallel"}
      %0: i64 = mul %a, %i
      store @p, %a, %0
    end %a
    %j = loop %i, %N {kind="parallel"}
      %1: i64 = mod %j, 4
      %2: i64 = load @p, %1
      store @y, %i, %j, %2
    end %j
  end %i
}
"""
    y = run(text, {"y": np.full((6, 6), -1)})["y"]
    i, j = np.indices((6, 6))
    np.testing.assert_array_equal(y, np.where(j >= i, i * (j % 4), -1))


@pytest.mark.parametrize("dtype", ["i8", "i32", "u32", "f16", "f32", "bf16"])
@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_atomics_in_lane_order(dtype, op):
    text = f"""
kernel @k(%N: i64, %B: i64, @at: i64[%N] in, @x: {dtype}[%N] in, @y: {dtype}[%B] inout, @old: {dtype}[%N] out) stage=tile {{
  %i = loop 0, %N {{kind="parallel"}}
    %0: i64 = load @at, %i
    %1: {dtype} = load @x, %i
    %2: {dtype} = atomic @y, %0, %1 {{op="{op}"}}
    store @old, %i, %2
  end %i
}}
"""
    t = DTYPES[dtype]
    numpy, wide = t.numpy, t.compute
    at = np.where(RNG.random(400) < 0.5, 2, RNG.integers(0, 300, 400))
    x = (RNG.standard_normal(400) * 50).astype(np.int8).astype(numpy)
    y = np.ones(300, numpy)
    got = run(text, {"at": at, "x": x, "y": y})
    old = np.empty_like(x)
    for k in range(400):
        old[k] = y[at[k]]
        y[at[k]] = cast(evaluate(op, wide, cast(old[k], t, wide), cast(x[k], t, wide)), wide, t)
    np.testing.assert_array_equal(got["old"], old)
    np.testing.assert_array_equal(got["y"], y)


def test_a_uniform_atomic_happens_once_for_each_iteration():
    text = """
kernel @k(%N: i64, @y: i32[1] inout) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %0: i32 = atomic @y, 0, 2:i32 {op="add"}
  end %i
}
"""
    assert run(text, {"y": np.array([5], np.int32)}, {"N": 1000})["y"].tolist() == [2005]


def scaled(body: str, params: str = "%N: i64, @x: i64[%N] in, @y: i64[%N] out", independent: str = "") -> str:
    return f'kernel @k({params}) stage=tile {{\n%i = loop 0, %N {{{independent}kind="parallel"}}\n{body}\nend %i\n}}\n'


def test_out_of_bounds():
    text = scaled("%0: i64 = add %i, 2\n%1: i64 = load @x, %0\nstore @y, %i, %1")
    assert fault(text, {"x": np.arange(10)}) == ("E0720", "the index of `x` is 10, outside 0..10 (i=8)")
    guarded = scaled("%0: i64 = add %i, 2\n%2: bool = lt %0, %N\nif %2\n%1: i64 = load @x, %0\nstore @y, %i, %1\nend")
    np.testing.assert_array_equal(run(guarded, {"x": np.arange(10), "y": np.zeros(10, int)})["y"], [2, 3, 4, 5, 6, 7, 8, 9, 0, 0])


def test_asserts_and_prints(capsys):
    text = scaled('%0: bool = lt %i, 3\nassert %0 {message="small"}\nprint %i, %0 {label="i"}')
    assert fault(text, {"x": np.arange(5)}) == ("E0723", "assertion failed: small (i=3)")
    run(text, {"x": np.arange(2)})
    assert capsys.readouterr().err == "i 0 True\ni 1 True\n"


def test_division_by_zero_traps_on_request():
    text = scaled("%0: i64 = load @x, %i\n%1: i64 = floordiv 7, %0\nstore @y, %i, %1")
    x = np.array([2, 0, -2])
    assert run(text, {"x": x})["y"].tolist() == [3, 0, -4]
    assert fault(text, {"x": x}, trap_div=True) == ("E0724", "integer division by zero (i=1)")


def test_a_step_of_zero():
    text = scaled('%0: i64 = load @x, %i\n%k = loop 0, 3, %0 {kind="serial"}\nend %k')
    code, _ = fault(text, {"x": np.array([1, 0])})
    assert code == "E0731"


def test_iterations_that_collide():
    half = "%0: i64 = floordiv %i, 2\nstore @y, %0, %i"
    code, message = fault(scaled(half, independent='independent="so I say", '), {"x": np.arange(4)})
    assert (code, message) == ("E0722", "iterations 0 and 1 both write `y[0]`")
    shifted = "%0: i64 = add %i, 1\n%1: i64 = mod %0, %N\n%2: i64 = load @y, %1\nstore @y, %i, %2"
    params = "%N: i64, @y: i64[%N] inout"
    code, message = fault(scaled(shifted, params), {"y": np.arange(4)})
    assert (code, message) == ("E0722", "iterations 0 and 3 access, and one writes, `y[0]`")
    assert run(scaled(half), {"x": np.arange(4)}, debug=False)["y"].shape == (4,)


def test_inner_iterations_that_collide_and_sibling_loops_that_do_not():
    text = """
kernel @k(%N: i64, @y: i64[%N, 8] inout) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %j = loop 0, 8 {kind="parallel"}
      store @y, %i, %j, %j
    end %j
    %k = loop 0, 8 {kind="parallel"}
      %0: i64 = sub 7, %k
      %1: i64 = load @y, %i, %0
      STORE
    end %k
  end %i
}
"""
    y = {"y": np.zeros((3, 8), np.int64)}
    assert run(text.replace("STORE", ""), y)["y"].tolist() == [list(range(8))] * 3
    code, message = fault(text.replace("STORE", "store @y, %i, %k, %1"), y)
    assert code == "E0722" and "inner iterations" in message and "of iteration 0" in message


TEAM = """
kernel @k(%M: i64, @y: i64[%M, 64] inout) stage=team {group=8, rows=4, threads=32} {
  role {name="main", warps=1}
    %i = loop 0, %M {kind="parallel", map="blocks"}
      %j = loop 0, 64 {kind="parallel", layout="LAYOUT", map="lanes"}
        store @y, %i, %j, %j
      end %j
      BARRIER
      %k = loop 0, 64 {kind="parallel", layout="[k] -> [k % 8, k // 8]", map="lanes"}
        %0: i64 = OTHER
        %1: i64 = load @y, %i, %0
        %2: i64 = add %1, 1
      end %k
    end %i
  end
}
"""


def team(layout="[j] -> [j % 8, j // 8]", barrier='barrier {scope="group", width=8}', other="xor %k, 1"):
    return plan_of(TEAM.replace("LAYOUT", layout).replace("BARRIER", barrier).replace("OTHER", other))


def test_team_lanes_communicate_through_barriers_only():
    y = {"y": np.zeros((3, 64), np.int64)}
    assert run(team(), y)["y"].tolist() == [list(range(64))] * 3
    code, message = fault(team(barrier=""), y)
    assert (code, message) == ("E0725", "lanes 0 and 1 of iteration 0 access, and one writes, `y[0, 1]` with no barrier between")
    assert run(team(barrier="", other="xor %k, 8"), y)["y"].tolist() == [list(range(64))] * 3


def test_team_layouts_are_checked_on_the_actual_extents():
    y = {"y": np.zeros((1, 64), np.int64)}
    code, message = fault(team("[j] -> [j % 8, j // 16]"), y)
    assert code == "E0730" and "both have slot 0 of thread 0" in message
    code, message = fault(team("[j] -> [j // 4, j % 4]"), y)
    assert code == "E0730" and "j=32 has thread 8" in message


@pytest.mark.parametrize("barrier", ['barrier {scope="group", width=8}', ""])
def test_team_row_scope_stores_are_lane_0s(barrier):
    text = f"""
kernel @k(%M: i64, @y: i64[%M] inout, @z: i64[%M] out) stage=team {{group=8, rows=4, threads=32}} {{
  role {{name="main", warps=1}}
    %i = loop 0, %M {{kind="parallel", map="blocks"}}
      store @y, %i, 3
      {barrier}
      %0: i64 = load @y, %i
      store @z, %i, %0
    end %i
  end
}}
"""
    if barrier:
        assert run(text, {"y": np.zeros(5, np.int64)})["z"].tolist() == [3] * 5
    else:
        assert fault(text, {"y": np.zeros(5, np.int64)})[0] == "E0725"


def test_a_thread_reads_a_row_of_its_own_without_a_barrier():
    """In a loop over lanes one thread plays all lanes of a reduction."""
    text = """kernel @k(@y: f32[32] out) stage=team {group=32, rows=1, threads=32} {
  role {name="main", warps=1}
    %b = loop 0, 1 {independent="proved", kind="parallel", map="blocks"}
      shared @s: f32[32, 8]
      %i = loop 0, 32 {independent="proved", kind="parallel", layout="[i] -> [i, 0]", map="lanes"}
        %k = loop 0, 8 {kind="serial"}
          store @s, %i, %k, 2.0:f32
        end %k
        cell @c: f32
        %j = reduce @c, 8 {op="sum", order=[1, 1, 4, 1]}
          %v: f32 = load @s, %i, %j
          contribute %v
        end %j
        %r: f32 = load @c
        store @y, %i, %r
      end %i
    end %b
  end
}"""
    assert run(text)["y"].tolist() == [16.0] * 32


def test_extern_runs_its_region():
    body = "%0: i64 = add %i, 1\nstore @r, %0\nend\n%1: i64 = load @r\nstore @y, %i, %1"
    text = scaled(f'cell @r: i64\nextern @r, %i {{cuda="return x + 1;", name="f", params="x"}}\n{body}')
    assert run(text, {"x": np.arange(4)})["y"].tolist() == [1, 2, 3, 4]


def test_a_plan_of_two_launches_through_a_workspace():
    text = """
plan @k(%N: i64, %s: i64, @x: i64[%N] in, @y: i64[%N] out) {
  %0: bool = gt %N, 2
  require %0 {what="N is above 2"}
  %1: i64 = add %N, 1
  workspace @w: i64[%1]
  launch @a[%N](%N, %1, %s, @x, @w)
  launch @b[%N](%N, %1, @w, @y)
}
kernel @a(%N: i64, %P: i64, %s: i64, @x: i64[%N] in, @w: i64[%P] work) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %0: i64 = load @x, %i
    %1: i64 = mul %0, %s
    store @w, %i, %1
  end %i
}
kernel @b(%N: i64, %P: i64, @v: i64[%P] work, @y: i64[%N] out) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %0: i64 = add %i, SHIFT
    %1: i64 = load @v, %0
    store @y, %i, %1
  end %i
}
"""
    assert run(text.replace("SHIFT", "0"), {"x": np.arange(4)}, {"s": -2})["y"].tolist() == [0, -2, -4, -6]
    assert fault(text.replace("SHIFT", "0"), {"x": np.arange(2)}, {"s": 1})[0] == "E0705"
    code, message = fault(text.replace("SHIFT", "1"), {"x": np.arange(4)}, {"s": 1})
    assert (code, message) == ("E0721", "`w[4]` is read before anything is stored to it (i=3)")


def test_deep_nesting_and_long_kernels_need_no_recursion():
    deep = "\n".join("if true" for _ in range(3000)) + "\nstore @y, %i, 7\n" + "end\n" * 3000
    assert run(scaled(deep), {"x": np.arange(3)})["y"].tolist() == [7, 7, 7]


def test_cells_are_fresh_in_each_iteration():
    text = scaled('%k = loop 0, 2 {kind="serial"}\ncell @c: i64\n%0: bool = eq %k, 0\nif %0\nstore @c, %i\nend\n%1: i64 = load @c\nend %k')
    code, message = fault(text, {"x": np.arange(3)})
    assert code == "E0721" and message.startswith("`c` is read")


def test_i64_constant_is_i64():
    assert I64.numpy == np.int64 and run(scaled("store @y, %i, 9007199254740993"), {"x": np.arange(1)})["y"].tolist() == [9007199254740993]
