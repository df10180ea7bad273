"""Kernels called from Python on several GPUs of one process: arrays, streams, modules, threads and graphs of each, and what is refused.

Every test is for any number of devices from two on. `python tools/gpu_check.py --several` records a run.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT

import vxc
from vxc.runtime.driver import driver, unavailable

COUNT = 0 if unavailable() else driver().device_count()
DEVICES = range(COUNT)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(COUNT < 2, reason=f"needs two GPUs, and there are {COUNT}")]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def arrays(torch):
    """One on each device, all of the same numbers."""
    host = torch.randn(1 << 20)
    return [host.to(f"cuda:{d}") for d in DEVICES]


def test_each_device_runs_on_its_own_stream(torch, arrays):
    """The kernels wait for what is before them on their own stream, and for nothing else."""
    k, streams = vxc.kernel(SHIFT), [torch.cuda.Stream(d) for d in DEVICES]
    for x in arrays:
        k(x, 0)
    torch.cuda.synchronize(0)
    for n in range(1, 6):
        found = []
        for x, stream in zip(arrays, streams):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(5_000_000)
                found.append(k(x * 2, n))
        for x, y, stream in zip(arrays, found, streams):
            stream.synchronize()
            assert y.device == x.device and torch.equal(y, x * 2 + n)


def test_all_devices_give_the_same_bits(torch, arrays):
    softmax = vxc.load("samples/softmax.vx").softmax
    results = [softmax(x.view(1024, 1024)).cpu() for x in arrays]
    assert all(torch.equal(result, results[0]) for result in results)
    assert torch.allclose(results[0], arrays[0].cpu().view(1024, 1024).softmax(1), atol=1e-6)


def test_a_module_is_loaded_once_for_each_device_and_compiled_once(torch, arrays, monkeypatch):
    loads, load = Counter(), type(driver()).load

    def counted(self, cubin):
        loads[self.current_device()] += 1
        return load(self, cubin)

    monkeypatch.setattr(type(driver()), "load", counted)
    k = vxc.kernel(SHIFT.replace("shift", "counted"))
    for _ in range(3):
        for x in arrays:
            assert torch.equal(k(x, 1), x + 1) and torch.equal(k(x[:5], 1), x[:5] + 1)
    assert loads == dict.fromkeys(DEVICES, 1) and len(k._calls._compiled) == 1


def test_the_current_device_is_not_that_of_the_arrays(torch, arrays):
    k = vxc.kernel(SHIFT)
    for current in DEVICES:
        with torch.cuda.device(current):
            for x in arrays:
                for n in (1, 1, 1, 2):
                    assert torch.equal(k(x, n), x + n) and torch.cuda.current_device() == current
                b = k.bind(x, torch.empty_like(x), 5)
                assert torch.equal(b(), x + 5) and torch.cuda.current_device() == current


def test_arrays_of_several_devices_are_refused(torch, arrays):
    k, (x, other) = vxc.kernel(SHIFT), arrays[:2]
    k(x, 1), k(other, 1)
    for first, second, words in ((x, other, "`x` on device 0, `y` on device 1"), (other, x, "`x` on device 1, `y` on device 0")):
        for _ in range(2):
            with pytest.raises(vxc.LaunchError, match=f"several devices: {words}; move them to one device"):
                k(first, torch.empty_like(second), 1)
            with pytest.raises(vxc.LaunchError, match="several devices"):
                k.bind(first, torch.empty_like(second), 1)
    assert torch.equal(k(x, 1), x + 1) and torch.equal(k(other, 1), other + 1)


def test_programs_have_a_workspace_on_each_device(torch, arrays):
    chain = vxc.kernel(CHAIN)
    for a in (2.0, 3.0):
        results = [chain(x, a) for x in arrays]
        assert all(torch.equal(y, x * a + 1) for x, y in zip(arrays, results))


def test_a_graph_is_captured_on_each_device(torch, arrays):
    k = vxc.kernel(SHIFT)
    for d, x in enumerate(arrays):
        with torch.cuda.device(d):
            y, graph = torch.empty_like(x), torch.cuda.CUDAGraph()
            k(x, y, 1)
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(d)):  # its own default one is of the first device that asked
                k(x, y, 2)
            y.zero_()
            graph.replay()
            assert torch.equal(y, x + 2)


def test_a_thread_for_each_device(torch, arrays):
    k = vxc.kernel(SHIFT)

    def work(d):
        wrong = []
        with torch.cuda.device(d):
            x, y = arrays[d][:100], torch.empty(100, device=f"cuda:{d}")
            for n in range(2_000):
                k(x, y, n)
                if n % 200 == 199 and not torch.equal(y, x + n):
                    wrong.append((d, n))
        return wrong

    with ThreadPoolExecutor(2 * COUNT) as pool:
        assert list(pool.map(work, (*DEVICES, *DEVICES))) == [[]] * 2 * COUNT


def test_arrays_of_cupy_on_each_device():
    cupy = pytest.importorskip("cupy")
    k, host = vxc.kernel(SHIFT), np.arange(1000, dtype=np.float32)
    for _ in range(2):
        for d in DEVICES:
            with cupy.cuda.Device(d):
                x = cupy.asarray(host)
                y = k(x, 3)
                assert y.device.id == d and np.array_equal(y.get(), host + 3)
    with cupy.cuda.Device(0):
        assert np.array_equal(k(x, 4).get(), host + 4)  # which lies on the last


def test_numpy_arrays_are_copied_to_the_device_that_is_named():
    k, x = vxc.kernel(SHIFT), np.arange(1000, dtype=np.float32)
    for d in DEVICES:
        assert np.array_equal(k(x, 2, device=d), x + 2)
    with pytest.raises(vxc.LaunchError, match=f"there is no device {COUNT}"):
        k(x, 2, device=COUNT)
