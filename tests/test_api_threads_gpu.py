"""Threads that call one kernel on a GPU, each on a stream of its own; arrays of no library that allocates, and what they give."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT

import vxc
from vxc.api.devices import cuda as driver

pytestmark = pytest.mark.gpu
THREADS = 8


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class Interface:
    """An array of a library that vxc does not know."""

    def __init__(self, tensor):
        self._tensor = tensor  # which owns the memory

    @property
    def __cuda_array_interface__(self):
        return self._tensor.__cuda_array_interface__


def test_threads_on_streams_with_shapes_of_their_own(torch):
    """The first calls of all come at once; each writes what it alone reads, and many times, so that a mistaken stream shows."""
    shift, softmax, line = vxc.kernel(SHIFT), vxc.load("samples/softmax.vx").softmax, vxc.elementwise("x: f32, y: f32 -> f32", "x * y + 1")
    chain = vxc.kernel(CHAIN)
    wanted = softmax.bind(torch.arange(6000, device="cuda").reshape(6, 1000).half() / 1000)().clone()

    def work(at: int) -> list[str]:
        stream, wrong = torch.cuda.Stream(), []
        with torch.cuda.stream(stream):
            x = torch.arange(1000 * (at + 1) + at, device="cuda", dtype=torch.float32)
            rows = torch.arange(6000, device="cuda").reshape(6, 1000).half() / 1000
            table, column = x[: 8 * (100 + at)].reshape(8, -1), x[:8].reshape(8, 1)
            for n in range(60):
                torch.cuda._sleep(20_000)
                y = shift(x, n)
                shift(y, out := torch.empty_like(y), n)
                found = {
                    "shift": torch.equal(y, x + n), "given": torch.equal(out, x + 2 * n), "chain": torch.equal(chain(x, 2.0), 2 * x + 1),
                    "line": torch.equal(line(table, column), table * column + 1), "softmax": torch.equal(softmax(rows), wanted),
                }  # fmt: skip
                wrong += [f"{name} of thread {at}, call {n}" for name, right in found.items() if not right]
            bound = shift.bind(x, out, 7)
            for _ in range(200):
                assert bound() is out
            wrong += [] if torch.equal(out, x + 7) else [f"bound call of thread {at}"]
        stream.synchronize()
        return wrong

    torch.cuda.synchronize()
    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(work, range(THREADS)), []) == []


def test_an_array_of_vxc_is_taken_by_any_library(torch):
    k, x = vxc.kernel(SHIFT), torch.arange(1000, device="cuda", dtype=torch.float32)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for stream in (None, side):
        y = k(Interface(x), 3, stream=stream)
        z = k(y, 4)
        assert torch.equal(torch.from_dlpack(z), x + 7) and torch.equal(torch.as_tensor(y, device="cuda"), x + 3)
        assert k.bind(y, 1)().__dlpack_device__() == (2, 0)
    taken = torch.from_dlpack(y)
    del y, z
    gc.collect()
    k(Interface(x), 5)
    assert torch.equal(taken, x + 3)  # its memory is held
    assert np.array_equal(np.asarray(k(Interface(x), 5, stream=side)), x.cpu().numpy() + 5)
    half = vxc.kernel("kernel same<T: dtype>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } }")
    assert torch.equal(torch.from_dlpack(half(Interface(x.half()))), x.half())


def test_cupy_takes_an_array_of_vxc(torch):
    cupy = pytest.importorskip("cupy")
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    y = vxc.kernel(SHIFT)(Interface(x), 3)
    for taken in (cupy.asarray(y), cupy.from_dlpack(y)):
        assert np.array_equal(taken.get(), x.cpu().numpy() + 3)


def test_memory_of_outputs_is_given_back(torch, monkeypatch):
    """Counted at the driver, for other processes take and free memory of the device meanwhile."""
    k, x, cuda, held = vxc.kernel(SHIFT), torch.ones(1 << 20, device="cuda"), driver(), set()
    allocate, free = cuda.allocate, cuda.free
    monkeypatch.setattr(cuda, "allocate", lambda nbytes: held.add(id(memory := allocate(nbytes))) or memory)
    monkeypatch.setattr(cuda, "free", lambda memory: held.remove(id(memory)) or free(memory))
    y = k(Interface(x), 1)
    assert len(held) == 1
    for n in range(100):
        y = k(Interface(x), n)
    assert torch.equal(torch.from_dlpack(y), x + 99)
    del y
    gc.collect()
    assert not held


def test_jax_in_jax_out(torch):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this jax has no GPU")
    k, x = vxc.kernel(SHIFT), jax.numpy.arange(1000, dtype="float32")
    for n in range(5):
        y = k(x, n)
        assert isinstance(y, jax.Array) and np.array_equal(np.asarray(y + 1), np.asarray(x) + n + 1)


@pytest.mark.parametrize("threads", [0, 1])
def test_memory_that_comes_and_goes_breaks_no_capture(torch, threads):
    """Beside a capture in the mode that torch has by default, here or in another thread: an array of vxc ends, one is made, a workspace
    grows.
    """
    k, chain, side = vxc.kernel(SHIFT), vxc.kernel(CHAIN), torch.cuda.Stream()
    x, y, z = torch.arange(1000.0, device="cuda"), torch.empty(1000, device="cuda"), torch.empty(1000, device="cuda")
    given = [k(Interface(x), 1), k(Interface(x), 1, stream=side)]
    k(x, y, 1), chain(x[:10], 2.0, z[:10], stream=side)
    torch.cuda.synchronize()

    def churn():
        given.pop(0)
        gc.collect()
        given.append(k(Interface(x), 3, stream=side))
        chain(x, 2.0, z, stream=side)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), ThreadPoolExecutor(1) as pool:
        k(x, y, 5)
        pool.submit(churn).result() if threads else churn()
        k(x, y, 6)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, x + 6) and torch.equal(z, x * 2 + 1)
    assert [np.asarray(one).tolist() == (x + n).tolist() for one, n in zip(given, (1, 3), strict=True)] == [True, True]
