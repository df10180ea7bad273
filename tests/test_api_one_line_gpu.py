"""Kernels of one line on a GPU: arrays of torch and CuPy of any shapes, views where they lie, graphs."""

from __future__ import annotations

import numpy as np
import pytest

import vxc

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def fused() -> vxc.Kernel:
    return vxc.elementwise("x: f32, y: f32, a: scalar f32 -> f32", "a * x + y")


def test_tensors_of_all_shapes_broadcast(torch, full):
    k, base = fused(), torch.randn(6, 5, 8, 32, device="cuda")
    one = base[0, 0, 0, 0]
    for x, y in ((base, base), (base, base[0]), (base[:1, :, :1].clone(), base[:, :1, :, :1].clone()), (one, base), (one, one.clone()),
                 (base[:0], base[:1])):  # fmt: skip
        seen, wanted = len(full), 2 * x + y
        for _ in range(3):
            found = k(x, y, 2.0)
            assert found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-6)
            out = torch.full_like(wanted, 7)
            assert k(x, y, 2.0, out=out) is out and torch.equal(out, found)
        assert len(full) <= seen + (2 if wanted.numel() else 6)  # arrays without memory always go the full way


def test_views_are_read_and_written_where_they_lie(torch):
    k, base = fused(), torch.randn(6, 10, 8, device="cuda")
    flipped = base.permute(2, 0, 1)
    for x, y in ((base[:, ::2], base[:, 1::2]), (flipped, flipped[:1]), (base[0].expand(6, 10, 8), base), (base[:, :, 0:1], base)):
        wanted = k(x.contiguous(), y.contiguous(), 0.5)
        assert torch.equal(k(x, y, 0.5), wanted)
        out = torch.empty(wanted.shape[::-1], device="cuda").permute(2, 1, 0)
        assert k(x, y, 0.5, out) is out and torch.equal(out, wanted)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1, 2), ()])
def test_tensors_reduced_along_any_axes(torch, axis):
    k = vxc.reduction("x: f32, y: f32 -> f32", "x * y", axis=axis)
    x, y = torch.randn(7, 33, 130, device="cuda"), torch.randn(33, 1, device="cuda")
    for given in (x, x.permute(2, 1, 0), x[:, :, ::3]):
        for keepdims in (False, True):
            found = k(given, y, keepdims=keepdims)
            wanted = np.sum((given.double() * y.double()).cpu().numpy(), axis=axis, keepdims=keepdims)
            assert tuple(found.shape) == wanted.shape and np.allclose(found.cpu().numpy(), wanted, atol=1e-3)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int32"])
def test_a_dtype_of_any_kind_and_a_number_for_an_array(torch, name):
    k, x = vxc.elementwise("x: T, y: T -> T", "x * y"), torch.arange(30, device="cuda").reshape(5, 6).to(getattr(torch, name))
    assert torch.equal(k(x, x[0]), x * x[0]) and torch.equal(k(x, 2), x * 2) and k(x, x).dtype == x.dtype


def test_a_call_captured_into_a_graph_replays(torch):
    k, r = fused(), vxc.reduction("x: f32 -> f32", "abs(x)", "max", axis=None)
    x, y = torch.randn(64, 100, device="cuda"), torch.randn(100, device="cuda")
    out, most = torch.empty_like(x), torch.empty((), device="cuda")
    bound = k.bind(x, y, 3.0, out=out)
    bound(), r(out, most)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound()
        r(out, most)
    for value in (1.0, -2.0):
        x.fill_(value)
        graph.replay()
        assert torch.allclose(out, 3 * x + y) and most.item() == out.abs().max().item()


def test_an_output_of_no_dimensions_of_any_kernel(torch, full):
    total = vxc.kernel("kernel total(x: f32[N], out s: f32[1]) { s[0] = sum(x); }")
    x, s = torch.ones(1000, device="cuda"), torch.zeros((), device="cuda")
    for _ in range(3):
        s.zero_()
        assert total(x, s) is s and s.item() == 1000
    assert len(full) == 1


def test_arrays_of_cupy(full):
    cupy = pytest.importorskip("cupy")
    k, r = fused(), vxc.reduction("x: f32 -> f32", "x", axis=0)
    x, y = cupy.arange(24, dtype=cupy.float32).reshape(2, 3, 4), cupy.ones((3, 1), cupy.float32)
    for _ in range(3):
        found = k(x, y, 2.0)
        assert isinstance(found, cupy.ndarray) and cupy.array_equal(found, 2 * x + y)
        assert cupy.array_equal(r(x), x.sum(0)) and cupy.array_equal(k(x[0, 0, 0], y[0, 0], 2.0), 2 * x[0, 0, 0] + y[0, 0])
    assert len(full) == 3
    assert cupy.array_equal(r(x[:, ::-1]), x[:, ::-1].sum(0)) and r(x, axis=None).shape == () and int(r(x, axis=None)) == 276


def test_numpy_arrays_are_copied():
    k, x = fused(), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    out = np.empty((4, 3, 2), np.float32).T
    assert k(x, x[0, ::-1], 2.0, out=out) is out and np.array_equal(out, 2 * x + x[0, ::-1])
    assert np.array_equal(vxc.reduction("x: f32 -> f32", "x", axis=(0, 2))(x), x.sum((0, 2)))
