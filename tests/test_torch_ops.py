"""Operators of torch without torch: schemas, shapes with sizes that are not known, and what is registered, with a fake library.

What only torch itself can say (opcheck, torch.compile) is in test_torch_ops_real.py.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import FakeTorch, Tensor, floats
from tuning_kernels import SCALE

import vxc
from vxc.api.torch_ops import Shapes, schema
from vxc.dtypes import DTYPES


def kernel(signature: str, body: str = "parallel i in M { y[i] = 0.0; }") -> vxc.Kernel:
    return vxc.kernel(f"kernel f{signature} {{ {body} }}")


class Size:
    """A size that is not known: arithmetic on it is written down, and nothing can be decided on it."""

    def __init__(self, text: str):
        self.text = text

    def _made(op, swapped=False):
        return lambda self, other: Size(f"({other} {op} {self})" if swapped else f"({self} {op} {other})")

    __add__, __radd__, __sub__, __mul__, __rmul__ = _made("+"), _made("+", True), _made("-"), _made("*"), _made("*", True)
    __floordiv__, __mod__ = _made("//"), _made("%")

    def __neg__(self):
        return Size(f"-{self}")

    def __str__(self):
        return self.text

    def __bool__(self):
        raise AssertionError(f"a decision on {self}")

    __int__ = __index__ = __bool__


# ---- schemas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature, returned, out",
    [
        ("(x: f32[M], out y: f32[M])", "(Tensor x) -> Tensor", "(Tensor x, Tensor(a1!) y) -> ()"),
        ("(x: f32[M], a: f64, n: i32, b: bool, out y: f32[M])", "(Tensor x, float a, SymInt n, bool b) -> Tensor",
         "(Tensor x, float a, SymInt n, bool b, Tensor(a4!) y) -> ()"),
        ("(inout y: f32[M], x: f32[M])", "(Tensor(a0!) y, Tensor x) -> ()", "(Tensor(a0!) y, Tensor x) -> ()"),
        ("(x: f32[M], out y: f32[M], out z: i64[M])", "(Tensor x) -> (Tensor, Tensor)", "(Tensor x, Tensor(a1!) y, Tensor(a2!) z) -> ()"),
        ("<T: dtype>(x: T[M], a: T, out y: f32[M])", "(Tensor x, Scalar a) -> Tensor", "(Tensor x, Scalar a, Tensor(a2!) y) -> ()"),
        ("(class: f32[M], é: f32[M], out y: f32[M])", "(Tensor argument_0, Tensor argument_1) -> Tensor",
         "(Tensor argument_0, Tensor argument_1, Tensor(a2!) y) -> ()"),
    ],
)  # fmt: skip
def test_a_schema_says_what_is_taken_written_and_given(signature, returned, out):
    k = kernel(signature)
    assert schema(k._signature, True) == returned and schema(k._signature, False) == out


# ---- shapes ----------------------------------------------------------------------------------------------------------


def shapes(of: vxc.Kernel, scalars=None, **arrays) -> dict[str, tuple[str, list[str]]]:
    """What the outputs are, in text; an array is given as its dtype and its shape, names standing for sizes that are not known."""
    given = {n: (DTYPES[t], tuple(Size(s) if isinstance(s, str) else s for s in shape)) for n, (t, *shape) in arrays.items()}
    found = Shapes(of._calls.recipe, of._signature)(given, scalars or {})
    return {name: (dtype.name, [str(size) for size in shape]) for name, (dtype, shape) in found.items()}


@pytest.mark.parametrize(
    "signature, arrays, found",
    [
        ("(x: f32[M, N], out y: f16[M])", {"x": ("f32", "m", "n")}, {"y": ("f16", ["m"])}),
        ("(x: f32[M], w: f32[K], out y: f32[M - K + 1])", {"x": ("f32", "m"), "w": ("f32", "k")},
         {"y": ("f32", ["((m + (-1 * k)) + 1)"])}),
        ("(x: f32[M], out y: f32[M // 2, 3])", {"x": ("f32", "m")}, {"y": ("f32", ["(m // 2)", "3"])}),
        ("(x: f32[M], out y: f32[ceildiv(M, 4)])", {"x": ("f32", "m")}, {"y": ("f32", ["-(-m // 4)"])}),
        ("<T: dtype>(x: T[M], out y: T[M])", {"x": ("bf16", "m")}, {"y": ("bf16", ["m"])}),
        ("<C = 8>(x: f32[M], out y: f32[M, C])", {"x": ("f32", "m")}, {"y": ("f32", ["m", "8"])}),
        ("(inout y: f32[M])", {"y": ("f32", "m")}, {}),
    ],
)  # fmt: skip
def test_shapes_follow_without_deciding_anything(signature, arrays, found):
    assert shapes(kernel(signature, "parallel i in 0 { }"), **arrays) == found


def test_generics_are_constants_of_the_graph():
    k = kernel("<C = 8>(x: f32[M, C], out y: f32[M, C])", "parallel i in 0 { }")
    assert shapes(k, x=("f32", "m", 16)) == {"y": ("f32", ["m", "16"])}
    with pytest.raises(AssertionError, match="a decision on c"):
        shapes(k, x=("f32", "m", "c"))
    assert shapes(k.define(C=4), x=("f32", "m", 4)) == {"y": ("f32", ["m", "4"])}


def test_arguments_can_be_sizes():
    k = kernel("(x: f32[M], n: i64, out y: f32[M, n])", "parallel i in 0 { }")
    assert shapes(k, {"n": Size("n")}, x=("f32", "m")) == {"y": ("f32", ["m", "n"])}


def test_sizes_of_tiles_are_constants_of_the_graph():
    k = kernel("(x: f32[M, N], out y: f32[M])", "parallel i in M { local t: f32[N]; t = x[i]; y[i] = sum(t); }")
    assert shapes(k, x=("f32", "m", 16)) == {"y": ("f32", ["m"])}
    with pytest.raises(AssertionError, match="a decision on n"):
        shapes(k, x=("f32", "m", "n"))


def test_what_has_no_shape_is_said():
    with pytest.raises(vxc.VxcError, match="E0714.*the shape of `y` does not follow"):
        shapes(kernel("(x: f32[M], out y: f32[M, K])", "parallel i in 0 { }"), x=("f32", 4))
    with pytest.raises(vxc.VxcError, match="E0705.*`x` has 2 dimensions, and 1 are declared"):
        shapes(kernel("(x: f32[M], out y: f32[M])"), x=("f32", 4, 5))


# ---- what is registered ----------------------------------------------------------------------------------------------


class Library:
    """As much of `torch.library` as is asked for."""

    def __init__(self):
        self.made = {}

    def custom_op(self, name, run, *, mutates_args, schema):
        self.made[name] = made = SimpleNamespace(run=run, mutates=mutates_args, schema=schema, fake=None)
        made.register_fake = lambda fake: setattr(made, "fake", fake)
        return made


class Made(Tensor):
    """A tensor that says what was made like it."""

    def new_empty(self, shape, dtype):
        return Made(np.empty(shape, dtype.vxc.numpy), self.ordinal)


Made.__module__ = "torch"
TWICE = "kernel twice(x: f32[M], inout n: i32[M], out y: f32[M]) { parallel i in M { y[i] = 2.0 * x[i]; n[i] += 1; } }"


@pytest.fixture
def library(torch: FakeTorch) -> Library:
    torch.library = Library()
    return torch.library


def test_on_a_gpu_the_kernel_is_launched(library, cuda):
    made = vxc.kernel(TWICE).as_torch_op("lib::twice")
    assert library.made["lib::twice"] is made and made.mutates == ["n"] and made.schema == "(Tensor x, Tensor(a1!) n) -> Tensor"
    x, n = Tensor(floats(3)), Tensor(np.zeros(3, np.int32))
    assert made.run(x, n).array.tolist() == [0, 2, 4] and n.array.tolist() == [1, 1, 1]
    assert [entry for entry in cuda.log if entry.startswith("twice")] == ["twice x1 on 0"]


def test_a_tuned_kernel_is_an_operator_too(gpu):
    sys.modules["torch"].library = Library()
    fast = vxc.autotune(vxc.kernel(SCALE), B=[32, 64])
    made, x, n = fast.as_torch_op("lib::fast"), Tensor(floats(3)), Tensor(np.zeros(3, np.int32))
    assert made.run(x, n).array.tolist() == [0, 2, 4] and n.array.tolist() == [1, 1, 1] and "B=64" in fast.report()


def test_outputs_of_the_caller_are_written_and_not_given_back(library, cuda):
    made = vxc.kernel(TWICE).as_torch_op("lib::twice", out=True)
    x, n, y = Tensor(floats(3)), Tensor(np.zeros(3, np.int32)), Tensor(np.zeros(3, np.float32))
    assert made.mutates == ["n", "y"] and made.run(x, n, y) is None and made.fake(x, n, y) is None
    assert y.array.tolist() == [0, 2, 4]


def test_tracing_makes_arrays_and_runs_nothing(library, cuda):
    made = vxc.kernel(TWICE.replace("out y: f32[M]", "out y: f32[M], out z: f16[2 * M, 3]")).as_torch_op("lib::twice")
    y, z = made.fake(Made(floats(3)), Made(np.zeros(3, np.int32)))
    assert (y.shape, str(y.dtype), z.shape, str(z.dtype)) == ((3,), "torch.float32", (6, 3), "torch.float16")
    assert cuda.log == []


def test_on_the_cpu_the_kernel_is_interpreted(monkeypatch, library, cuda):
    calls = []
    k = vxc.kernel(TWICE)
    monkeypatch.setattr(type(k), "__call__", lambda self, *args, **options: calls.append(options))
    made = k.as_torch_op("lib::twice")
    made.run(Tensor(floats(3), device=-1), Tensor(np.zeros(3, np.int32), device=-1))
    made.run(Tensor(floats(3)), Tensor(np.zeros(3, np.int32), device=-1))
    assert calls == [{"device": "cpu"}, {}]


@pytest.mark.parametrize("name", ["twice", "::twice", "lib::", "lib::a::b", "a b::c", "lib::é", ""])
def test_a_name_has_a_namespace(library, name):
    with pytest.raises(vxc.LaunchError, match="E0709.*is no name of a torch operator; write it as namespace::name"):
        vxc.kernel(TWICE).as_torch_op(name)


def test_a_kernel_without_arrays_to_take_is_refused(library):
    k = kernel("(n: i32, out y: f32[n])", "parallel i in n { y[i] = 0.0; }")
    with pytest.raises(vxc.LaunchError, match="E0708.*takes no arrays.*out=True"):
        k.as_torch_op("lib::f")
    assert k.as_torch_op("lib::f", out=True).mutates == ["y"]


def test_dtypes_that_kernels_lack_are_named(library):
    made, x = vxc.kernel(TWICE).as_torch_op("lib::twice"), Made(floats(3))
    x.dtype = "torch.complex64"
    with pytest.raises(vxc.LaunchError, match="E0704: argument `x` is of torch.complex64"):
        made.fake(x, x)


def test_without_torch_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(vxc.LaunchError, match=r"E0605: torch cannot be imported; .*pip install 'vxc\[torch\]'"):
        vxc.kernel(TWICE).as_torch_op("lib::twice")
