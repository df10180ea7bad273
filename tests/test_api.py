"""Kernels from Python without a GPU: where they come from, compiling ahead, what is specialised, running on the CPU, DLPack."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import vxc
from vxc.api.arguments import matched
from vxc.api.compiling import Specialiser, signatures
from vxc.api.dlpack import from_dlpack
from vxc.api.libraries import _torch_same
from vxc.api.specialise import Recipe
from vxc.diag import VxcError
from vxc.runtime.arrays import describe
from vxc.source import Source

SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
TWO = SCALE + "\nkernel twice(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }"


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


# ---- where kernels come from -------------------------------------------------------------------------------------------


def test_a_file_gives_its_kernels(tmp_path):
    path = tmp_path / "two.vx"
    path.write_text(TWO)
    module = vxc.load(path)
    assert list(module) == dir(module) == ["scale", "twice"]
    assert repr(module.scale) == "<vxc kernel scale(x: f32[N], a: f32, out y: f32[N])>"
    assert np.array_equal(module.twice(ones(3), device="cpu"), [2, 2, 2])
    with pytest.raises(AttributeError, match="no kernel `thrice`: there are `scale`, `twice`"):
        module.thrice
    with pytest.raises(vxc.CompileError, match="cannot read"):
        vxc.load(tmp_path / "none.vx")


def test_a_text_gives_one_kernel():
    assert vxc.kernel(SCALE).name == "scale" and vxc.kernel(TWO, "twice").name == "twice"
    for arguments, words in [((TWO,), "defines 2 kernels"), ((TWO, "thrice"), "no kernel `thrice`"), (("kernel",), "E01")]:
        with pytest.raises(vxc.CompileError, match=words):
            vxc.kernel(*arguments)


def test_a_docstring_gives_the_kernel_of_its_function():
    @vxc.jit
    def scale(x, a, y):
        """kernel scale(x: f32[N], a: f32, out y: f32[N]) {
            parallel i in N { y[i] = a * x[i]; }
        }"""

    @vxc.jit(debug=True)
    def twice(x, y):
        """kernel scale(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }
        kernel twice(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }"""

    assert isinstance(scale, vxc.Kernel) and np.array_equal(scale(ones(3), 3.0, device="cpu"), [3, 3, 3])
    assert np.array_equal(twice(ones(3), device="cpu"), [2, 2, 2])
    with pytest.raises(vxc.CompileError, match="`bare` has no docstring"):

        @vxc.jit
        def bare(x): ...


def test_one_liners():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), ones(2, 3)
    saxpy = vxc.elementwise("x: f32, y: f32 -> f32", "2.0 * x + exp(y * 0.0)")
    assert np.array_equal(saxpy(x.reshape(-1), y.reshape(-1), device="cpu"), 2 * x.reshape(-1) + 1)
    assert np.array_equal(vxc.reduction("x: f32, y: f32 -> f32", "x * y")(x, y, device="cpu"), x.sum(1))
    assert np.array_equal(vxc.reduction("x: f32 -> f32", "abs(x)", "max", name="peak")(-x, device="cpu"), [2, 5])
    with pytest.raises(vxc.CompileError, match="`x f32` is no signature"):
        vxc.elementwise("x f32", "x")


# ---- arguments ---------------------------------------------------------------------------------------------------------

NORM = "kernel norm(x: f32[M, N], out y: f32[M, N], w: f32[N], eps: f32) { }"


@pytest.mark.parametrize(
    ("args", "keywords", "wanted"),
    [
        ("xywe", {}, "x=x y=y w=w eps=e"),
        ("xwe", {}, "x=x w=w eps=e"),
        ("xw", {"eps": "e"}, "x=x w=w eps=e"),
        ("x", {"eps": "e", "w": "w"}, "x=x w=w eps=e"),
        ("xy", {"eps": "e", "w": "w"}, "x=x y=y w=w eps=e"),
        ("xyw", {"eps": "e"}, "x=x y=y w=w eps=e"),
        ("", {"w": "w", "x": "x", "eps": "e"}, "x=x w=w eps=e"),
    ],
)
def test_arguments_find_their_parameters(args, keywords, wanted):
    values = {"x": ones(1, 1), "y": ones(1, 1), "w": ones(1), "e": 0.5}
    params = signatures(Source("n.vx", NORM))[0][0].params
    found = matched("norm", params, [values[a] for a in args], {name: values[v] for name, v in keywords.items()})
    assert " ".join(f"{name}={next(k for k, v in values.items() if v is value)}" for name, value in found.items()) == wanted


# ---- what is specialised -----------------------------------------------------------------------------------------------

SOFTMAX = "kernel softmax<T: dtype>(x: T[M, N], out y: T[M, N]) { parallel i in M { let m = max(x[i]); y[i] = exp(x[i] - m); } }"
TILE = "kernel tile<B = 4>(x: f32[M, N], out y: f32[M, N]) { grid i in M { shared s: f32[N]; copy(x[i], s); copy(s, y[i]); } }"
PLAIN = "kernel plain(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }"
SPLIT = """
kernel part(x: f32[M, N], out w: f32[M]) { parallel i in M { w[i] = sum(x[i]); } }
kernel rest(w: f32[M], out y: f32[M]) { parallel i in M { y[i] = w[i]; } }
program split(x: f32[A, B], out y: f32[A]) { local w: f32[A]; part(x, w); rest(w, y); }
"""


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [(SOFTMAX, "softmax", {"N": 8, "T": "f32"}), (PLAIN, "plain", {}), (SPLIT, "split", {"B": 8})],
    ids=["rows", "no rows", "rows of a program"],
)  # fmt: skip
def test_lengths_of_rows_become_constants_and_other_sizes_do_not(text, name, wanted):
    found = specialised(text, name, ones(3, 8))
    assert {key: str(value) if key == "T" else value for key, value in found.defines} == wanted and found.strided == ()


def test_shapes_of_tiles_become_constants():
    assert dict(specialised(TILE, "tile", ones(3, 8)).defines) == {"N": 8}


def test_strides_are_told_apart_by_what_is_one():
    base = ones(8, 8)
    views = [base.T, base[:, 1:4], base[:, ::2], base[2:5], base[::-1], base[:, ::-1], base[::-2, ::-1], base[:1][::-1]]
    for view, wanted in zip(views, [(1, 2), (2, 1), (2, 2), None, (-2, 1), (2, -1), (-2, -1), None]):
        assert specialised(PLAIN, "plain", view).strided == ((("x", wanted),) if wanted else ())


def specialised(text, name, array):
    source = Source("k.vx", text)
    kernel = next(kernel for kernel in signatures(source)[0] if kernel.name == name)
    return Specialiser(Recipe(source, name), kernel)({"x": describe(array, "x")})


# ---- compiling ahead ---------------------------------------------------------------------------------------------------


def test_compiling_ahead_needs_no_gpu():
    k = vxc.kernel(SOFTMAX, target="sm_80")
    made = k.compile(vxc.ShapeDtype((64, 1000), "f16"))
    assert made.target == vxc.target("sm_80") and "softmax" in made.resources and made.cubin[:4] == b"\x7fELF"
    assert "__global__" in made.cuda and ".target sm_80" in made.ptx and "@x: f16[%M, 1000] in" in made.ir()
    assert "stage=thread" in made.ir("final") and "done=[prove-parallel]" in made.ir("prove-parallel")
    assert k.compile(np.empty((64, 1000), np.float16)).made is made.made
    assert k.compile(x=vxc.ShapeDtype((1, 1000), "f16")).made is made.made
    assert "@x: f32[%N] in" in vxc.kernel(SCALE).compile().ir()
    assert "@x: f32[%N] in" in vxc.kernel(SCALE).compile((8,), target="sm_90a").ir()
    assert "registers" in vxc.load("samples/softmax.vx").softmax.compile().explain()
    with pytest.raises(vxc.LaunchError, match="generic dtype T, and its shape alone"):
        k.compile((64, 1000))
    with pytest.raises(vxc.LaunchError, match="`f31` is no dtype"):
        k.compile(vxc.ShapeDtype((64, 1000), "f31"))


def test_generics_can_be_fixed():
    k = vxc.kernel("kernel fill<C: bool = false, V = 1>(x: f32[N], out y: i32[N]) { parallel i in N { y[i] = V as i32; } }")
    assert k(ones(2), device="cpu").tolist() == [1, 1] and k.define(V=7)(ones(2), device="cpu").tolist() == [7, 7]
    with pytest.raises(vxc.CompileError, match="W"):
        k.define(W=7)(ones(2), device="cpu")


# ---- on the CPU --------------------------------------------------------------------------------------------------------


def test_the_interpreter_takes_any_strides_and_narrow_types():
    softmax = vxc.load("samples/softmax.vx").softmax
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(softmax(x.T[::-1], device="cpu"), softmax(x.T[::-1].copy(), device="cpu"))
    assert softmax(x.astype(ml_dtypes.bfloat16), device="cpu").dtype == ml_dtypes.bfloat16
    with pytest.raises(vxc.LaunchError, match="index 3"):
        vxc.kernel("kernel far(x: f32[N], n: i32, out y: f32[N]) { parallel i in N { y[i] = x[i + n]; } }")(ones(3), 1, device="cpu")


def test_tensors_of_torch_run_on_the_cpu():
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'vxc[torch]'")
    softmax = vxc.load("samples/softmax.vx").softmax
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(5, 9).to(dtype)
        y = softmax(x, device="cpu")
        assert y.dtype is dtype and torch.allclose(y.float(), x.float().softmax(1), atol=1e-2)
        assert softmax(x, out := torch.empty_like(x), device="cpu") is out and torch.equal(out, y)


def test_elements_that_only_ml_dtypes_has_come_through_dlpack():
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'vxc[torch]'")

    class Array:
        """As one of JAX."""

        tensor = torch.arange(4).to(torch.bfloat16)
        __dlpack__, __dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

        def __array__(self, dtype=None, copy=None):
            return np.arange(4).astype(ml_dtypes.bfloat16)

    wide = vxc.kernel("kernel wide(x: bf16[N], out y: f32[N]) { parallel i in N { y[i] = x[i] as f32; } }")
    assert np.array_equal(wide(Array(), device="cpu"), np.arange(4))
    with pytest.raises(vxc.LaunchError, match="`x` is `inout`, but the array is read-only"):
        vxc.kernel("kernel own(inout x: bf16[N]) { parallel i in N { x[i] = 0.0; } }")(Array(), device="cpu")
    with pytest.raises(vxc.LaunchError, match="holds elements of torch.float8_e4m3fnuz, which no kernel reads"):
        wide(torch.ones(4).to(torch.float8_e4m3fnuz), device="cpu")


def test_the_check_of_torch_tells_tensors_apart():
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'vxc[torch]'")
    x, y = torch.zeros(4, 5), torch.zeros(5)
    guarded = _torch_same(torch)
    if guarded is None:
        pytest.skip("this torch is none of those whose guards were tried")
    same = guarded([x, y])
    assert same(x, y) and same(torch.ones(4, 5), torch.ones(9)[2:7])
    others = [torch.zeros(5, 4).t(), torch.zeros(4, 6)[:, :5], torch.zeros(4, 5).double(), torch.zeros(4), torch.zeros(4, 5, device="meta")]
    assert not any(same(other, y) for other in (*others, torch._neg_view(x), torch.nn.Parameter(x), None, 3, np.zeros((4, 5))))


def test_without_a_gpu_it_says_what_to_install():
    code = f"""
import sys
sys.modules["cuda.bindings"] = None
import numpy as np
import vxc
try:
    vxc.kernel({SCALE!r})(np.ones(3, np.float32), 2.0)
except vxc.NoDeviceError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert said.startswith("E0603: the package cuda-bindings cannot be imported (") and "pip install 'cuda-bindings>=13'" in said


# ---- DLPack ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.int64, np.uint16, np.bool_])
def test_dlpack_is_read_as_numpy_has_it(dtype):
    base = np.zeros((6, 8), dtype)
    frozen = np.zeros(3, dtype)
    frozen.flags.writeable = False
    for array in (base, base[1:, 2:], base.T, base[::2, ::3], base[0, 0:0], np.array(1, dtype), base[::-1], frozen):
        found, wanted = from_dlpack(array, "x"), describe(array, "x")
        same = ("ptr", "dtype", "itemsize", "readonly", "device", "shape")
        assert all(getattr(found, field) == getattr(wanted, field) for field in same)
        assert found.size < 2 or found.strides == wanted.strides


def test_dlpack_passes_the_stream_and_refuses_other_devices():
    class Far:
        def __init__(self, kind):
            self.kind, self.asked = kind, []

        def __dlpack_device__(self):
            return self.kind, 0

        def __dlpack__(self, stream=None):  # of before DLPack 1.0
            self.asked.append(stream)
            return np.zeros(3).__dlpack__()

    gpu = Far(2)
    assert from_dlpack(gpu, "x", 0).device == "cuda" and from_dlpack(gpu, "x", 77).shape == (3,) and gpu.asked == [1, 77]
    with pytest.raises(VxcError, match="DLPack device type 10"):
        from_dlpack(Far(10), "x")
    with pytest.raises(VxcError, match="DLPack type 5 with 128 bits"):
        from_dlpack(np.zeros(3, np.complex128), "x")
