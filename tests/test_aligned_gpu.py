"""Arrays that lie in every way modulo 16 bytes, on a GPU: each has a kernel of its own, and all give the same bits."""

from __future__ import annotations

from itertools import product

import pytest

import vxc

pytestmark = pytest.mark.gpu

ROWS = {"softmax": (), "rmsnorm": ("w",), "rowsum": ()}


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def placed(torch, values, element: int):
    """The same values so many elements behind a multiple of 16 bytes."""
    memory = torch.empty(values.numel() + 16, dtype=values.dtype, device="cuda")
    found = memory[element : element + values.numel()].view(values.shape)
    return found.copy_(values)


@pytest.mark.parametrize("n", [33, 1000, 1001])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("sample", ROWS)
def test_rows(torch, sample, dtype, n):
    kernel = getattr(vxc.load(f"samples/{sample}.vx"), sample)
    kind = getattr(torch, dtype)
    arrays = [torch.randn(37, n, device="cuda").to(kind), *(torch.randn(n, device="cuda").to(kind) for _ in ROWS[sample])]
    scalars = [1e-5] if ROWS[sample] else []
    wanted = kernel(*arrays, *scalars)
    for element, output in product((0, 1, 5), (0, 4)):
        out = placed(torch, torch.zeros_like(wanted), output)
        kernel(*(placed(torch, x, element) for x in arrays), *scalars, out)
        assert torch.equal(out, wanted), (element, output)
    pitched = torch.randn(37, n + 3, device="cuda").to(kind)[:, 1 : n + 1]
    assert torch.equal(kernel(pitched, *arrays[1:], *scalars), kernel(pitched.contiguous(), *arrays[1:], *scalars))


@pytest.mark.parametrize("n", [1, 1000, 4099])
def test_elements_and_tiles(torch, n):
    add = vxc.load("samples/add.vx").add
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    for places in product((0, 1, 2), repeat=3):
        a, b, out = (placed(torch, v, element) for v, element in zip((x, y, torch.zeros_like(x)), places))
        assert torch.equal(add(a, b, out), x + y), places
    transpose = vxc.load("samples/transpose.vx").transpose
    m = torch.randn(37, n, device="cuda")
    for element in (0, 1, 3):
        assert torch.equal(transpose(placed(torch, m, element)), m.t())


def test_calls_in_turns_and_in_a_graph(torch):
    add = vxc.load("samples/add.vx").add
    calls = [tuple(placed(torch, torch.ones(1000, device="cuda"), e) for _ in range(3)) for e in (0, 1, 2)]
    for turn in range(9):
        x, y, out = calls[turn % 3]
        x.fill_(turn)
        assert torch.equal(add(x, y, out), x + y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for x, y, out in calls:
            add(x, y, out)
    for x, _, out in calls:
        x.fill_(7)
        out.zero_()
    graph.replay()
    assert all((out == 8).all() for _, _, out in calls)
