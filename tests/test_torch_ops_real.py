"""Operators of torch in torch itself: `opcheck` and `torch.compile`, on the CPU through the interpreter and on a GPU.

CI does not install torch; there these are skipped. `pip install 'vxc[torch]'` has them run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import vxc

torch = pytest.importorskip("torch", reason="needs torch: pip install 'vxc[torch]'")
pytestmark = pytest.mark.filterwarnings("default")  # what torch warns of is its own
SAMPLES = Path(__file__).parent.parent / "samples"
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

MIXED = """
kernel mixed<T: dtype>(x: T[M, N], a: f32, inout w: f32[N], out y: T[M, N], out z: f32[M, N - 1]) {
    parallel i in M, j in N { y[i, j] = x[i, j] * a; }
    parallel i in M, j in N - 1 { z[i, j] = x[i, j + 1]; }
    parallel j in N { w[j] += 1.0; }
}
"""


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def numbers(*shape, device, dtype=torch.float32):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape).to(device, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_an_operator_passes_opcheck(device, dtype):
    op = vxc.kernel(MIXED).as_torch_op("vxc_tests::mixed")
    x, w = numbers(4, 6, device=device, dtype=dtype), torch.zeros(6, device=device)
    torch.library.opcheck(op, (x, 2.0, w))
    torch.library.opcheck(op, (x.t().contiguous().t(), 2.0, w))
    w.zero_()
    y, z = op(x, 2.0, w)
    assert torch.equal(y, 2 * x) and torch.equal(z, x[:, 1:].float()) and torch.equal(w, torch.ones_like(w))
    assert (y.dtype, y.device, z.dtype) == (dtype, x.device, torch.float32)


def test_a_kernel_of_one_line(device):
    fused = vxc.elementwise("x: f32, y: f32, a: scalar f32 -> f32", "a * x + y").as_torch_op("vxc_tests::fused_line")
    x, y = numbers(4, 1, 6, device=device), numbers(5, 1, device=device)
    torch.library.opcheck(fused, (x, y, 2.0))
    assert torch.equal(fused(x, y, 2.0), 2 * x + y)
    total = vxc.reduction("x: f32 -> f32", "x", axis=(0, 2), keepdims=True).as_torch_op("vxc_tests::total_line")
    torch.library.opcheck(total, (x,))
    assert torch.equal(torch.compile(lambda x: total(x) * 2, fullgraph=True, backend="eager")(x), 2 * x.sum((0, 2), keepdim=True))


def test_outputs_of_the_caller(device):
    op = vxc.kernel(MIXED).as_torch_op("vxc_tests::mixed_out", out=True)
    x, w = numbers(4, 6, device=device), torch.zeros(6, device=device)
    y, z = torch.zeros_like(x), torch.zeros(4, 5, device=device)
    torch.library.opcheck(op, (x, 2.0, w, y, z))
    assert op(x, 3.0, w, y, z) is None and torch.equal(y, 3 * x)


def test_compiled_in_one_graph_and_once_for_all_sizes(device):
    op = vxc.kernel(MIXED).as_torch_op("vxc_tests::mixed_compiled")
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, dynamic=True, backend=backend)
    def model(x, w):
        y, z = op(x + 1, 2.0, w)
        return y.sum() + z.sum(), w * 2

    for m, n in ((4, 6), (3, 9), (7, 5)):
        x, w = numbers(m, n, device=device), torch.zeros(n, device=device)
        total, doubled = model(x, w)
        assert total == 2 * (x + 1).sum() + (x + 1)[:, 1:].sum() and torch.equal(doubled, torch.full_like(w, 2.0))
    assert len(graphs) == 1


def test_a_sample_within_a_compiled_function(device):
    op = vxc.load(SAMPLES / "softmax.vx").softmax.as_torch_op("vxc_tests::softmax")
    x = torch.randn(5, 33, device=device)
    torch.library.opcheck(op, (x,))
    compiled = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    torch.testing.assert_close(compiled(x), torch.softmax(2 * x, 1) + 1)


def test_a_name_is_taken_over():
    for factor in (2.0, 3.0):
        k = vxc.kernel(f"kernel f(x: f32[N], out y: f32[N]) {{ parallel i in N {{ y[i] = {factor} * x[i]; }} }}")
        op = k.as_torch_op("vxc_tests::again")
        assert torch.equal(op(torch.ones(3)), torch.full((3,), factor))


def test_what_is_wrong_with_a_call_is_said(device):
    op = vxc.kernel(MIXED).as_torch_op("vxc_tests::wrong")
    with pytest.raises(vxc.LaunchError, match="E0705"):
        op(torch.ones(3, 4, device=device), 1.0, torch.ones(5, device=device))


SHIFTED = "kernel shifted(x: f32[N], out y: f32[N], n: i32) { parallel i in N { y[i] = x[i] + (n as f32); } }"


def test_a_kernel_called_within_a_compiled_function_runs_between_its_graphs(device):
    k, where = vxc.kernel(SHIFTED), {"device": "cpu"} if device == "cpu" else {}
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    k(torch.ones(100, device=device), 1, **where)  # a first call changes the way that calls take, and torch would compile once more
    compiled = torch.compile(lambda x: k(x * 2, 1, **where) * 3, backend=backend)
    for _ in range(4):
        x = torch.randn(100, device=device)
        assert torch.equal(compiled(x), (x * 2 + 1) * 3)
    assert len(graphs) == 2  # what is before the kernel, and what is behind it: nothing of vxc
    bound = k.bind(torch.ones(100, device=device), 1, **where)
    assert torch.equal(torch.compile(lambda x: bound() + x, backend=backend)(x), x + 2)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="as_torch_op"):
        torch.compile(lambda x: k(x, 1, **where), backend=backend, fullgraph=True)(x)
