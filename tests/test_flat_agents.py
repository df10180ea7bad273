"""Stage=thread: warps that cannot meet run as one agent, to the same results, counts and faults."""

from __future__ import annotations

import numpy as np
import pytest
from flat_kernels import fault, grid, plan_of

from vxc.interp.flat_counters import Counters
from vxc.interp.flat_interp import run_flat
from vxc.interp.flat_simt import may_meet
from vxc.ir.plan import Plan

APART = """
{before}%u = add %t, 7
%k = mod %u, 40
%low: bool = lt %k, 24
%o = loop 0, %k {{kind="serial"}}
  %v: i64 = load @y, %b, %t
  %w: i64 = add %v, %o
  if %low
    store @y, %b, %t, %w
  end
end %o
%m: i64 = load @y, %b, %t
%x: i64 = shfl_xor %m {{distance=1, width=8}}
store @y, %b, %t, %x
"""


def apart(before: str) -> Plan:
    text = grid("%B", "%B: i64, @y: i64[%B, 80] inout", "%B, @y", APART.format(before=before), "threads=80")
    return plan_of(text)


def test_it_makes_no_difference_whether_warps_run_as_one_agent():
    together, alone = apart(""), apart("shared @s: i64[1]\n")  # shared memory is where they could meet
    assert not may_meet(together.kernels[0].insts) and may_meet(alone.kernels[0].insts)
    y = np.arange(3 * 80).reshape(3, 80)
    counts = []
    for plan in (together, alone):
        counters = Counters()
        results = [run_flat(plan, {"y": y}, {}, seed=seed, counters=counters)["y"] for seed in range(3)]
        assert all(np.array_equal(results[0], other) for other in results[1:])
        ops = [inst.op for inst in plan.kernels[0].insts]
        issued = [n for (_, at), n in sorted(counters.issued.items()) if ops[at] != "shared"]
        counts.append((results[0].tolist(), issued, [a for _, a in sorted(counters.accesses.items())]))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("before", ["", "shared @s: i64[1]\n"])
def test_warps_that_race_through_global_memory_are_found_however_they_run(before):
    body = f"{before}%o = mod %t, 48\nstore @y, %o, %t\n"
    code, message = fault(plan_of(grid("1", "@y: i64[48] out", "@y", body)), {})
    assert code == "E0725" and message.startswith("threads ") and "both write `y[" in message
