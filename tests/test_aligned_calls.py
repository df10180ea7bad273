"""Calls are specialised to where their arrays lie modulo 16 bytes, on the driver in memory: it refuses what a kernel is wrongly told."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from cli_tool import SAMPLES
from fake_cuda import EMPTY, GPUArray, Tensor

import vxc
from vxc.api.compiling import Specialiser, signatures
from vxc.api.specialise import Recipe
from vxc.diag import VxcError
from vxc.dtypes import F16, F32, U8
from vxc.runtime.arrays import ArrayView
from vxc.source import Source

DOUBLE = "kernel double(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }"
ROWS = "kernel rows(x: f32[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"
COLUMN = "kernel column(x: f32[M, N], out y: f32[N]) { parallel j in N { y[j] = x[0, j]; } }"
HALVES = "kernel halves(x: f32[M, N], out y: f32[M, N // 2]) { parallel i in M, j in N // 2 { y[i, j] = x[i, 2 * j]; } }"
STEPS = "kernel steps(x: f32[M, N], n: i32, out y: f32[n, N]) { parallel i in n, j in N { y[i, j] = x[0, j]; } }"
PACKED = (
    "kernel packed<W = 16>(x: u8[N, K // 16, W // 2], out w: f16[N, K]) {"
    " parallel i in N, j in K { w[i, j] = x[i, j // 16, j % 16 // 2] as f16; } }"
)
CHAIN = """
kernel scale(x: f32[M, N], out y: f32[M, N]) { parallel i in M { y[i] = x[i] / sum(x[i]); } }
program chain(x: f32[M, N], out y: f32[M, N]) { local w: f32[M, N]; scale(x, w); scale(w, y); }
"""


def at(byte: int, *shape: int) -> np.ndarray:
    """Ones at an address that is this modulo 16."""
    count = int(np.prod(shape))
    memory = np.ones(count + 8, np.float32)
    return memory[(byte - memory.ctypes.data) % 16 // 4 :][:count].reshape(shape)


def compiled(k) -> list[dict[str, bool]]:
    """Of what was compiled for a kernel, which arrays are known to lie how."""
    return [dict(what.aligned) for what, _ in k._calls._built]


@pytest.fixture(params=["2.11", "2.0"], ids=["guards", "keys"])
def torch(torch, request):
    torch.__version__ = request.param
    return torch


def test_each_way_is_compiled_once_and_found_by_the_fast_path(torch, full):
    k = vxc.kernel(DOUBLE)
    pairs = [(at(a, 40), at(b, 40)) for a, b in ((0, 0), (4, 0), (0, 8), (12, 12), (4, 4))]
    calls = [(Tensor(x), Tensor(y)) for x, y in pairs]
    for turn in range(4):
        for place in (0, 0, 0, 1, 0, 1, 1, 1, 2, 3, 4, 0, 4, 3):
            x, y = calls[place]
            x.array[:], y.array[:] = turn, 0
            assert (k(x, y).array == 2 * turn).all()
    assert len(full) == len(pairs)  # no call went the full way again
    found = [{"x": True, "y": True}, {"x": False, "y": True}, {"x": True, "y": False}, {"x": False, "y": False}]
    assert compiled(k) == found


def test_outputs_that_are_allocated(torch, full):
    k = vxc.kernel(DOUBLE)
    for byte in (0, 4, 0, 4, 8, 4, 0):
        assert (k(Tensor(at(byte, 40))).array == 2).all()
    assert len(full) == 3 and compiled(k) == [{"x": True, "y": True}, {"x": False, "y": True}]


def test_an_allocator_that_gives_less(torch, full, monkeypatch):
    monkeypatch.setattr(torch, "empty_strided", lambda shape, strides, dtype, device: Tensor(at(4, *shape), device))
    k, x = vxc.kernel(DOUBLE), Tensor(at(0, 40))
    for _ in range(3):
        assert (k(x).array == 2).all()
    assert {"x": True, "y": False} in compiled(k)


def test_an_allocator_that_gives_less_later_on(torch, full, monkeypatch):
    place = [0]
    monkeypatch.setattr(torch, "empty_strided", lambda shape, strides, dtype, device: Tensor(at(place[0], *shape), device))
    k, x = vxc.kernel(DOUBLE), Tensor(at(0, 40))
    for turn, place[0] in enumerate((0, 0, 8, 8, 0, 4, 0)):
        x.array[:] = turn
        found = k(x)
        assert found.array.ctypes.data % 16 == place[0] and (found.array == 2 * turn).all()


def test_an_array_that_moved_in_place(torch, full):
    k, x, y = vxc.kernel(DOUBLE), Tensor(at(0, 40)), Tensor(at(0, 40))
    k(x, y), k(x, y), k(x, y)
    x.array = at(4, 40)
    x.array[:] = 5
    for _ in range(3):
        assert (k(x, y).array == 10).all()
    x.array = np.frombuffer(bytearray(200), np.float32, 40, 1)  # elements cut through
    for _ in range(2):
        with pytest.raises(vxc.LaunchError, match="no multiple of its 4-byte elements|is read-only"):
            k(x, y)


def test_other_libraries(cuda, full, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda", EMPTY["pycuda"])
    k = vxc.kernel(DOUBLE)
    for byte in (0, 4, 0, 4, 4, 0):
        x, y = GPUArray(at(byte, 40)), GPUArray(at(0, 40))
        assert (k(x, y).array == 2).all()
    assert len(full) == 2 and len(compiled(k)) == 2


def test_a_call_that_is_bound_keeps_its_way(torch):
    k = vxc.kernel(DOUBLE)
    pairs = [(Tensor(at(byte, 40)), Tensor(at(0, 40))) for byte in (0, 4)]
    calls = [k.bind(x, y) for x, y in pairs]
    assert all(repr(call).startswith(f"<function {k.name}.bind(..) at 0x") for call in calls)
    for turn in range(3):
        for (x, y), call in zip(pairs, calls):
            x.array[:] = turn
            assert call() is y and (y.array == 2 * turn).all()
    assert len(compiled(k)) == 2


def test_a_program_and_views(torch, monkeypatch):
    k = vxc.kernel(CHAIN)
    for byte in (0, 4, 0):
        assert np.allclose(k(Tensor(at(byte, 4, 8))).array, 1 / 8)
    assert compiled(k) == [{"x": True, "y": True}, {"x": False, "y": True}]
    monkeypatch.setitem(sys.modules, "pycuda", EMPTY["pycuda"])
    c, wide = vxc.kernel(COLUMN), at(0, 3, 20)
    rows = [wide[:, :8], wide[:, 1:9], wide[::2, 4:12], at(0, 3, 10)[:, :8]]
    for view in (*rows, at(0, 8, 4).T, at(0, 8, 3).T, wide[::-1, :8], wide[::-1, 3:11]):
        assert (c(GPUArray(view)).array == 1).all()
    assert [found["x"] for found in compiled(c)] == [True, False] * 3  # rows apart, columns apart, and rows backwards


def test_a_first_call_with_another_way_is_no_part_of_a_graph(torch, cuda):
    k, y = vxc.kernel(DOUBLE), Tensor(at(0, 40))
    k(Tensor(at(0, 40)), y)
    cuda.captured = {0}
    k(Tensor(at(0, 40)), y)
    with pytest.raises(vxc.LaunchError, match="first call of `double` with such arguments"):
        k(Tensor(at(4, 40)), y)
    cuda.captured = set()
    assert (k(Tensor(at(4, 40)), y).array == 2).all()
    cuda.captured = {0}
    assert (k(Tensor(at(4, 40)), y).array == 2).all()


def test_compiling_ahead():
    k = vxc.kernel(ROWS)
    assert "align" not in k.compile(target="sm_90a").ir()  # one for all arrays
    assert "@x: f32[%M, 8] in align=16, @s: f32[%M] out align=16" in k.compile((4, 8), target="sm_90a").ir()
    anywhere = vxc.ShapeDtype((4, 8), "f32", aligned=False)
    made = k.compile(anywhere, target="sm_90a")
    assert "@x: f32[%M, 8] in align=4, @s: f32[%M] out align=16" in made.ir()
    assert "vx_aligned" not in made.cuda and "vx_aligned" in k.compile(target="sm_90a").cuda


def test_numpy_arrays_lie_as_their_copies(cuda):
    k = vxc.kernel(ROWS)
    for x in (at(0, 4, 8), at(4, 4, 8)):
        assert (k(x) == 8).all() and (k(x, device="cpu") == 8).all()
    assert compiled(k) == [{"s": True, "x": True}]


# ---- what is decided -------------------------------------------------------------------------------------------------


def specialised(text: str, strides=None, dtype=F32, shape=(4, 8), ptr=0, **more):
    source = Source("k.vx", text)
    (kernel, *_), _ = signatures(source)
    steps = strides or tuple(int(np.prod(shape[d + 1 :])) for d in range(len(shape)))
    views = {"x": ArrayView(ptr, shape, steps, dtype, dtype.bytes, False, "cuda"), **more}
    return dict(Specialiser(Recipe(source, kernel.name), kernel)(views).aligned)


@pytest.mark.parametrize("text, given, expected", [
    (ROWS, {}, {"x": True, "s": True}),
    (ROWS, {"ptr": 8}, {"x": False, "s": True}),
    (ROWS, {"shape": (4, 7)}, {"x": True, "s": True}),  # a constant, which the kernel sees
    (COLUMN, {"shape": (4, 7)}, {"x": False, "y": True}),
    (COLUMN, {"shape": (0, 7)}, {"x": False, "y": True}),
    (COLUMN, {"shape": (7, 4)}, {"x": True, "y": True}),
    (COLUMN.replace("f32", "f16"), {"shape": (7, 4), "dtype": F16}, {"x": False, "y": True}),
    (COLUMN.replace("f32", "T").replace("column", "column<T: dtype>"), {"shape": (7, 4), "dtype": F16}, {"x": False, "y": True}),
    (COLUMN, {"strides": (12, 1)}, {"x": True, "y": True}),
    (COLUMN, {"strides": (13, 1)}, {"x": False, "y": True}),
    (COLUMN, {"strides": (1, 4)}, {"x": True, "y": True}),
    (COLUMN, {"strides": (1, 6)}, {"x": False, "y": True}),
    (COLUMN, {"strides": (16, 2)}, {"x": False, "y": True}),
    (COLUMN.replace("M, N]", "M, N : ld]"), {"strides": (12, 1)}, {"x": True, "y": True}),
    (COLUMN.replace("M, N]", "M, N : ld]"), {"strides": (13, 1)}, {"x": False, "y": True}),
    (COLUMN.replace("M, N]", "M, N : ld]"), {"strides": (12, 1), "shape": (1, 8)}, {"x": False, "y": True}),  # of one row, none is known
    (HALVES, {}, {"x": True}),  # how long the rows of y are does not stand there
    (STEPS, {}, {"x": True, "y": True}),
    (ROWS.replace("f32[M, N]", "f32[M, 8]"), {}, {"x": True, "s": True}),
    (PACKED, {"shape": (3, 4, 8), "dtype": U8}, {"x": True}),  # rows of 32 bytes, and of 8, a constant
    (PACKED, {"shape": (3, 5, 8), "dtype": U8}, {"x": False}),
    (PACKED.replace("W // 2]", "ceildiv(W, 2)]"), {"shape": (3, 4, 8), "dtype": U8}, {"x": True}),
    (PACKED.replace("W // 2]", "min(16, ceildiv(W, 2))]"), {"shape": (3, 4, 8), "dtype": U8}, {"x": True}),
    (PACKED.replace("W // 2]", "8 # , N,\n]"), {"shape": (3, 4, 8), "dtype": U8}, {"x": True}),
    (PACKED.replace("K // 16", "5").replace("W // 2", "N // 6"), {"shape": (3, 5, 8), "dtype": U8}, {"x": False}),
    (PACKED.replace("K // 16", "5").replace("W // 2", "N // 6"), {"shape": (3, 5, 16), "dtype": U8}, {"x": True}),
])  # fmt: skip
def test_which_arrays_are_known_to_lie_how(text, given, expected):
    assert specialised(text, **given) == expected


@pytest.mark.parametrize("how", ["parallel", "copy"])
def test_sizes_that_follow_from_generics_are_constants(how):
    """Rows of 128 bytes, of which the declaration has 16 // 2 last."""
    kernel = getattr(vxc.load(SAMPLES / f"dequant_u4_{how}.vx"), f"dequant_u4_{how}")
    made = kernel.compile(b=vxc.ShapeDtype((24, 12, 16, 8), "u8"), w=vxc.ShapeDtype((384, 192), "f16"), target="sm_90a")
    assert "load b, global memory: 16 bytes a thread at a time; " in made.explain()
    b, w = np.arange(24 * 12 * 16 * 8, dtype=np.uint8).reshape(24, 12, 16, 8), np.zeros((384, 192), np.float16)
    assert kernel(b, w, device="cpu")[1, 3] == b[0, 0, 1, 1] >> 4


def test_a_shape_that_contradicts_is_refused_as_before(torch):
    with pytest.raises(vxc.LaunchError, match="`x` has 1 dimension, but 2 declared"):
        vxc.kernel(COLUMN)(Tensor(at(0, 8)))
    with pytest.raises((vxc.LaunchError, VxcError), match="holds float64, but f32 is declared"):
        vxc.kernel(COLUMN)(Tensor(np.ones((4, 6))))


def test_a_kernel_that_only_writes(torch, full):
    k = vxc.kernel("kernel ones(out y: f32[N]) { parallel i in N { y[i] = 1.0; } }")
    for byte in (0, 4, 0, 4, 4):
        y = Tensor(at(byte, 40))
        y.array[:] = 0
        assert (k(y).array == 1).all()
    assert len(full) == 2
