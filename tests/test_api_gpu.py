"""Kernels called from Python on a GPU: torch and CuPy arrays, streams, graphs, threads, and what is refused leaves the device usable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT

import vxc

pytestmark = pytest.mark.gpu

SOFTMAX = "samples/softmax.vx"


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_torch_in_torch_out(torch):
    k = vxc.kernel(SHIFT)
    x = torch.randn(1000, device="cuda")
    for n in (1, 2, 3):
        y = k(x, n)
        assert y.device == x.device and torch.equal(y, x + n)
        given = torch.empty_like(x)
        assert k(x, given, n) is given and torch.equal(given, y)
        assert torch.equal(k(x, n=n), y) and torch.equal(k(x=x, y=given, n=n), y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_generic_dtype_is_that_of_the_arrays(torch, dtype):
    softmax = vxc.load(SOFTMAX).softmax
    x = torch.randn(33, 1000, device="cuda", dtype=getattr(torch, dtype))
    assert torch.allclose(softmax(x).double(), x.double().softmax(1), atol=4e-3)
    assert torch.allclose(softmax(x[:5]).double(), x[:5].double().softmax(1), atol=4e-3)


def test_views_are_read_where_they_lie(torch):
    softmax = vxc.load(SOFTMAX).softmax
    base = torch.randn(64, 96, device="cuda")
    for view in (base.t(), base[:, 8:40], base[::2], base[:, ::3], base[0].expand(7, 96)):
        wanted = softmax(view.contiguous())
        assert torch.equal(softmax(view), wanted)
        assert torch.equal(softmax(view, torch.empty(wanted.shape[::-1], device="cuda").t()), wanted)


def test_repeated_calls_with_views_take_the_fast_path(torch, full):
    k = vxc.kernel("kernel put(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }")
    frame = torch.zeros(48, 64, device="cuda")
    views = (lambda b: b.t()[:48], lambda b: b[:48, 8:56], lambda b: b[::2, ::2][:, :24], lambda b: b[0].expand(48, 96))
    for at, view in enumerate(views):
        for base in (torch.randn(96, 96, device="cuda") for _ in range(2)):
            x = view(base)
            y = torch.empty(x.shape[::-1], device="cuda").t()
            for _ in range(3):
                y.zero_()
                assert k(x, y) is y and torch.equal(y, x) and torch.equal(k(x), x)
                base.add_(1)
        assert len(full) == 2 * at + 2
    left, right = frame[:, :32:2], frame[:, 1:32:2]  # each in between the other
    for n in range(3):
        left.fill_(n + 1)
        k(left, right)
        assert bool((right == n + 1).all()) and bool((frame[:, 32:] == 0).all())
        with pytest.raises(vxc.LaunchError, match="arguments `x` and `y` overlap in memory"):
            k(left, frame[:, 2:33:2])
    assert len(full) == 2 * len(views) + 1 + 3


def test_zero_and_one_elements(torch):
    k = vxc.kernel(SHIFT)
    for size in (0, 1, 0, 1):
        x = torch.ones(size, device="cuda")
        assert torch.equal(k(x, 2), x + 2)
    lazy = torch._neg_view(torch.ones(1, device="cuda"))
    with pytest.raises(vxc.LaunchError, match="lazy negation"):
        k(lazy, 2)


def test_cupy_arrays_and_streams(full):
    cupy = pytest.importorskip("cupy")
    k = vxc.kernel(SHIFT)
    x = cupy.arange(1000, dtype=cupy.float32)
    assert cupy.array_equal(k(x, 3), x + 3) and isinstance(k(x, 3), cupy.ndarray) and len(full) == 1
    with cupy.cuda.Stream(non_blocking=True) as stream:
        y = k(x, 4)
        stream.synchronize()
        assert cupy.array_equal(y, x + 4)
    column = cupy.arange(2000, dtype=cupy.float32).reshape(1000, 2)[:, 1]
    assert cupy.array_equal(k(column, 1), column + 1)
    backwards = x[::-3]
    assert cupy.array_equal(k(backwards, 1), backwards + 1)
    k(x[::2], x[::-2], 1)
    assert cupy.array_equal(x[::-2], x[::2] + 1)
    seen = len(full)
    for n in (1, 1, 1, 2):
        assert cupy.array_equal(k(backwards, n), backwards + n) and cupy.array_equal(k(column, n), column + n)
        k(x[::2], x[::-2], n)
        assert cupy.array_equal(x[::-2], x[::2] + n)
    assert len(full) == seen


def test_a_call_captured_by_cupy_replays():
    cupy = pytest.importorskip("cupy")
    k = vxc.kernel(SHIFT)
    x, y = cupy.zeros(1000, cupy.float32), cupy.empty(1000, cupy.float32)
    k(x, y, 1)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        k(x, y, 1)
        k(x, y, 2)
        graph = stream.end_capture()
        for value in (3, 4):
            x.fill(value)
            graph.launch(stream)
            stream.synchronize()
            assert bool((y == value + 2).all())


@pytest.fixture
def pycuda():
    """PyCUDA with the primary context current."""
    gpuarray, driver = pytest.importorskip("pycuda.gpuarray"), pytest.importorskip("pycuda.driver")
    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    yield gpuarray
    context.pop()


def test_arrays_of_pycuda(pycuda, full):
    k, x = vxc.kernel(SHIFT), pycuda.to_gpu(np.arange(1000, dtype=np.float32))
    for n in (1, 2, 2, 2):
        y = k(x, n)
        assert isinstance(y, pycuda.GPUArray) and np.array_equal(y.get(), x.get() + n)
        assert k(x, y, n + 1) is y and np.array_equal(y.get(), x.get() + n + 1)
    assert len(full) == 2


def test_memory_of_another_context_is_refused(pycuda):
    driver = pytest.importorskip("pycuda.driver")
    context = driver.Device(0).make_context()
    try:
        x = pycuda.to_gpu(np.ones(10, np.float32))
        with pytest.raises(vxc.LaunchError, match="`x` is memory of a CUDA context that is not the primary one.*autoprimaryctx"):
            vxc.kernel(SHIFT)(x, 1)
        x.gpudata.free()
    finally:
        context.pop()
        context.detach()


def test_arrays_of_numba(full):
    cuda = pytest.importorskip("numba.cuda")
    host = np.arange(1000, dtype=np.float32)
    k, x = vxc.kernel(SHIFT), cuda.to_device(host)
    for n in (1, 2, 2, 2):
        y = k(x, n)
        assert np.array_equal(y.copy_to_host(), host + n)
        assert k(x, y, n + 1) is y and np.array_equal(y.copy_to_host(), host + n + 1)
    assert len(full) == 2


def test_arrays_of_jax(torch):
    """They are read where they lie, through what interface they have, and cannot be written."""
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this jax has no GPU")
    k, x = vxc.kernel(SHIFT), jax.numpy.arange(1000, dtype="float32")
    y = torch.empty(1000, device="cuda")
    for n in (1, 2):
        k(x, y, n)
        assert np.array_equal(y.cpu().numpy(), np.asarray(x) + n)
    with pytest.raises(vxc.LaunchError, match="read-only"):
        k(y, x, 1)


def test_numpy_arrays_are_copied():
    k = vxc.kernel(SHIFT)
    x = np.arange(1000, dtype=np.float32)
    y = np.empty_like(x)
    assert k(x, y, 2) is y and np.array_equal(y, x + 2) and np.array_equal(k(x, 2), y)


def test_the_current_stream_and_a_given_one(torch):
    k = vxc.kernel(SHIFT)
    x = torch.zeros(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)
        x.fill_(1)
        y = k(x, 1)
        side.synchronize()
    assert bool((y == 2).all())
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)
        x.fill_(5)
    z = torch.empty_like(x)
    k(x, z, 1, stream=side)
    torch.cuda.synchronize()
    assert bool((z == 6).all())


@pytest.mark.parametrize("text", [SHIFT, CHAIN], ids=["one launch", "two launches"])
def test_a_captured_call_replays(torch, text):
    k = vxc.kernel(text)
    x, y = torch.zeros(1000, device="cuda"), torch.empty(1000, device="cuda")
    call = (lambda: k(x, y, 1)) if text is SHIFT else (lambda: k(x, 2.0, y))
    with pytest.raises(vxc.LaunchError, match="captured into a graph"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.add_(1)  # torch warns of a graph with nothing in it
            call()
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
        call()
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, x + 1 if text is SHIFT else x * 2 + 1)


def test_outputs_that_a_call_allocates_are_as_torch_makes_them(torch):
    k, x = vxc.kernel(SHIFT), torch.zeros(1000, device="cuda")
    k(x, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = k(k(x, 1), 1)
    x.fill_(4)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, x + 2)
    made, like = k(x, 1), torch.empty_like(x)
    assert (made.device, made.dtype, made.stride(), made.requires_grad) == (like.device, like.dtype, like.stride(), False)
    with torch.inference_mode():
        assert k(x, 1).is_inference() and torch.empty_like(x).is_inference()
    freed = k(x, 1).data_ptr()
    assert k(x, 1).data_ptr() == freed  # of torch's pool


def test_a_program_of_two_launches(torch):
    chain = vxc.kernel(CHAIN)
    for size in (10, 100_000, 10):
        x = torch.randn(size, device="cuda")
        assert torch.equal(chain(x, 3.0), x * 3 + 1) and torch.equal(chain(x, 4.0), x * 4 + 1)


def test_bound_calls(torch):
    k = vxc.kernel(SHIFT)
    x, y = torch.zeros(1000, device="cuda"), torch.empty(1000, device="cuda")
    b = k.bind(x, y, 7)
    x.fill_(2)
    assert b() is y and torch.equal(y, x + 7)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)
        x.fill_(3)
        b()
        side.synchronize()
    assert torch.equal(y, x + 7)


def test_eight_threads(torch):
    k = vxc.kernel(SHIFT)
    torch.cuda.synchronize()

    def work(at):
        x, wrong = torch.full((128,), float(at), device="cuda"), []
        y = torch.empty_like(x)
        for n in range(10_000):
            k(x, y, n)
            if n % 1000 == 999 and not bool((y == at + n).all()):
                wrong.append((at, n))
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [[]] * 8


def test_what_is_refused_leaves_the_device_usable(torch):
    k = vxc.kernel(SHIFT)
    x, y = (torch.ones(100, device="cuda") for _ in range(2))
    k(x, 1)
    twice, host = torch.ones(199, device="cuda"), x.cpu()
    for arguments, words in [
        ((x, y, 1, 2), "takes 3 arguments"), ((x,), "argument `n` of `shift` is missing"), (([1.0], 1), "a list is no array"),
        ((x, y, y), "one number, and an array"), ((x, "1"), "`n` is i32"), ((x.reshape(10, 10), 1), "2 dimensions"),
        ((x.half(), 1), "float16"), ((x, y.double(), 1), "`y` holds float64"), ((x, host, 1), "`y` lies in CPU memory"),
        ((x, host.numpy(), 1), "`y` lies in CPU memory"),
        ((x, y[:1].expand(100), 1), "several elements may be one place"), ((twice[:100], twice[99:], 1), "overlap"),
        ((x.to(torch.complex64), 1), "complex64"), ((x, y[:50], 1), "dimension 0 of `y` is 50"), ((x.bool(), 1), "`x` holds bool"),
        ((x, x, 1), "overlap"), ((x.double(), 1), "`x` holds float64"), ((x.cpu(), 1), "`x` lies in CPU memory"),
        ((x, x.new_empty(99), 1), "dimension 0 of `y` is 99"), ((x, 1.5), "`n` is i32"), ((x, 2**31), "`n` is i32"),
        ((x.to_sparse(), 1), "layout"), ((x[:3].expand(2, 3), 1), "2 dimensions"), ((torch.empty(100, device="meta"), 1), "on device meta"),
    ]:  # fmt: skip
        for call in (k, lambda *arguments: k.bind(*arguments)()):
            with pytest.raises(vxc.LaunchError, match=words) as caught:
                call(*arguments)
            assert "\n" not in str(caught.value)
    for keywords, words in ({"z": 2}, "no parameter `z`"), ({"x": x}, "given twice"), ({"device": "cpu"}, "lies on a CUDA device"), (
        {"stream": "main"}, "`stream` is a str",
    ):  # fmt: skip
        with pytest.raises(vxc.LaunchError, match=words):
            k(x, 1, **keywords)
    freed = torch.ones(100, device="cuda")
    freed.untyped_storage().resize_(0)
    with pytest.raises(vxc.LaunchError, match="freed"):
        k(freed, 1)
    assert torch.equal(k(x, 1), x + 1)


def test_parts_of_rows_are_handed_on_in_graphs_and_on_two_streams(torch):
    """The fold of parts starts early. Calls on a stream share memory: a fold that did not wait would read parts of other rows."""
    k = vxc.load("samples/rowsum.vx").rowsum
    rows = [torch.randn(64, 1 << 18, device="cuda") for _ in range(4)]
    want = [k(x) for x in rows]
    assert all(torch.allclose(y.double(), x.double().sum(1), atol=1e-2) for x, y in zip(rows, want))
    found = [k(x, torch.empty_like(y)) for x, y in zip(rows, want)]  # compiled before it is captured
    streams, graphs = [torch.cuda.Stream() for _ in range(2)], [torch.cuda.CUDAGraph() for _ in range(2)]
    torch.cuda.synchronize()
    for side, (stream, graph) in enumerate(zip(streams, graphs)):
        with torch.cuda.graph(graph, stream=stream):
            for at in (side, side + 2, side):
                k(rows[at], found[at])
    for _ in range(20):
        for side, (stream, graph) in enumerate(zip(streams, graphs)):
            with torch.cuda.stream(stream):
                graph.replay()
                for at in (side + 2, side, side + 2):
                    k(rows[at], found[at])
        torch.cuda.synchronize()
        assert all(torch.equal(a, b) for a, b in zip(found, want))
        for y in found:
            y.zero_()
