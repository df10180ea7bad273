"""The flat interpreter at stage=team: layouts, barriers, and what lanes share."""

from __future__ import annotations

import numpy as np
import pytest
from flat_kernels import fault, plan_of, run

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
