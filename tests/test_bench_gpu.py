"""The benchmark on a GPU: a small case with all its peers, and the chart. Needs what `vxc[bench]` installs."""

from __future__ import annotations

import pytest
from bench_rows import SUM, rows_of
from benching import table
from benching.cases import ALWAYS, CASES, SAMPLES, Case, kernel
from benching.timing import measured

from vxc.runtime.driver import driver
from vxc.target import for_capability

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what the peers warn of is theirs


def test_every_peer_of_every_case_is_there():
    peers = pytest.importorskip("benching.peers", reason="needs torch", exc_type=ImportError)
    from benching import cupy_kernels, triton_kernels

    assert set(ALWAYS) == set(peers.PEERS)
    timed = {case.sample for case in CASES}
    assert timed == set(triton_kernels.kernels(True, 1.0)) == set(cupy_kernels.kernels(1.0)) and set(SAMPLES) == set(peers.TORCH)


def test_a_small_case_is_measured():
    pytest.importorskip("torch")
    case = Case("rows", "rowsum", "f32", (63, 1000))
    lines, problems = measured(case, kernel(case, for_capability(driver().capability(0)).name), None)
    assert problems == [] and [row["impl"] for row in lines] == ["vxc", "copy", "torch", "inductor", "triton", "cupy"]
    assert all(0 < row["ms"] < 1 and row["relerr"] < 1e-5 for row in lines)


def test_the_chart_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    table.plot(rows_of(SUM, vxc=0.1, copy=0.09, torch=0.2), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
