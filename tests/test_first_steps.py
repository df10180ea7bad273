"""What someone new to vxc from Python runs into first: each answer says what to write instead."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from cli_tool import SAMPLES
from cli_tool import vxc as command

import vxc
from vxc.explain.resources import resources_of

SUB = "kernel sub(a: f32[N], b: f32[N], out y: f32[N]) { parallel i in N { y[i] = a[i] - b[i]; } }"


def documented(text: str):
    """A function of these parameters whose docstring is the kernel `SUB`."""
    scope: dict = {}
    exec(f"def sub({text}): ...", scope)
    scope["sub"].__doc__ = SUB
    return scope["sub"]


SAME = ["a, b, y", "a, b", "a, b, y=None", "a, b, *, y", "a: float, b: 'any', /", "*args", "*args, **named"]


@pytest.mark.parametrize("parameters", SAME)
def test_a_decorated_function_takes_what_its_kernel_takes(parameters):
    a, b = np.float32([3, 5]), np.float32([1, 2])
    assert vxc.jit(documented(parameters))(a, b, device="cpu").tolist() == [2, 3]


@pytest.mark.parametrize("parameters", ["b, a, y", "b, a", "a", "a, b, y, z", "a, y", "a, b, out", "a, b, *args", "a, b, **named", ""])
def test_a_decorated_function_of_other_parameters_is_refused(parameters):
    with pytest.raises(vxc.LaunchError) as caught:
        vxc.jit(documented(parameters))
    assert f"`sub` takes ({parameters}), and the kernel `sub` of its docstring (a, b, y); write `def sub(a, b, y)`" in str(caught.value)


@pytest.mark.parametrize("parameters", ["a, b=1, y=None", "a, b=None", "a, b, y=0"])
def test_defaults_that_no_call_would_use_are_refused(parameters):
    with pytest.raises(vxc.LaunchError, match="gives `[by]` a default, and a kernel has none; remove `="):
        vxc.jit(documented(parameters))


@pytest.mark.parametrize("sample", ["gemm", "transpose", "softmax"])
def test_shared_bytes_are_those_that_explain_counts(sample):
    made = vxc.load(f"{SAMPLES}/{sample}.vx", target="sm_90a")
    made = getattr(made, sample).compile()
    counted = {name: used.shared_bytes for name, used in resources_of(made.made).items()}
    assert {name: used.shared for name, used in made.resources.items()} == counted
    assert (sample == "softmax") == (sum(counted.values()) == 0)


# ---- arrays that disagree, and shapes ahead --------------------------------------------------------------------------

NORM = """kernel norm<T: dtype>(x: T[M, N], w: T[N], eps: f32, out y: T[M, N]) {
    parallel i in M { y[i] = x[i] * w / (sum(x[i]) + eps) as T; }
}"""


@pytest.mark.parametrize(("x", "w", "defined", "words"), [
    (((4, 768), "f4"), ((700,), "f4"), {}, "dimension 0 of `w` is 700, but dimension 1 of `x` makes N = 768; it is declared `w: T[N]`"),
    (((4, 768), "f4"), ((768,), "f2"), {}, "`w` holds float16, but `x` makes T = f32; convert it, as with x.astype('float32')"),
    (((4, 768), "f4"), ((768,), "f4"), {"N": 64}, "dimension 1 of `x` is 768, but N = 64 is defined"),
    (((4, 768), "f4"), ((768,), "f4"), {"T": "f16"}, "`x` holds float32, but T = f16 is defined"),
])  # fmt: skip
def test_arrays_that_disagree_are_both_named(x, w, defined, words):
    with pytest.raises(vxc.LaunchError) as caught:
        vxc.kernel(NORM).define(**defined)(np.zeros(*x), np.zeros(*w), 0.5, device="cpu")
    assert words in str(caught.value) and "is declared;" not in str(caught.value)


@pytest.mark.parametrize(("shapes", "named", "words"), [
    ([(4, 8), (8,), 0.5], {}, "`y` is described by 0.5, which is no shape; give sizes that are ints, as in (64, 1000); scalars are left"),
    ([(4, 8), (8,), (4, 8), 0.5], {}, "`norm` has 3 arrays, and 4 shapes are given; scalars are left out: the arrays are `x: T[M, N]`, "),
    ([(4, 8), (8,)], {"eps": 0.5}, "`eps` of `norm` is a scalar, `eps: f32`, and has no shape; scalars are left out"),
    ([(4, 8), (8,)], {"arch": "sm_90a"}, "`norm` has no parameter `arch`; the keyword is `target`"),
    ([(4, 8), (8,)], {"debug": True}, "`norm` has no parameter `debug`; give `debug` to vxc.load, vxc.kernel or vxc.jit"),
])  # fmt: skip
def test_what_is_no_shape_is_named(shapes, named, words):
    with pytest.raises(vxc.LaunchError) as caught:
        vxc.kernel(NORM, target="sm_90a").compile(*shapes, **named)
    assert words in str(caught.value)


F16S = [np.float16, np.dtype("float16"), "f16", "float16"]


@pytest.mark.parametrize("dtype", [*F16S, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "bf16"], ids=str)
def test_dtypes_are_numpys_too(dtype):
    k, wanted = vxc.kernel(NORM, target="sm_90a"), "__half" if dtype in F16S else "__nv_bfloat16"
    ahead = k.compile(vxc.ShapeDtype((4, 8), dtype), vxc.ShapeDtype((8,), dtype))
    assert f"const {wanted}*" in ahead.cuda and f"const {wanted}*" in k.define(T=dtype).compile().cuda


@pytest.mark.parametrize("dtype", [float, int, np.complex64, np.dtype("datetime64[s]"), "f17", None], ids=str)
def test_other_types_are_no_dtypes(dtype):
    with pytest.raises(vxc.CompileError, match="generic `T` of `norm` is given"):
        vxc.kernel(NORM).define(T=dtype)


FILL = "kernel fill<B: int>(out y: f32[N]) { parallel i in N { y[i] = B as f32; } }"


@pytest.mark.parametrize(("call", "words"), [
    (lambda: vxc.kernel(FILL).define(B=3)(device="cpu"), "or give the size, as with `define(N=1024)`"),
    (lambda: vxc.kernel(FILL).compile(), "give it with `define(B=8)`, a default, or"),
    (lambda: vxc.kernel(SUB, target="sm_70"), "give `target=\"sm_80\"` or newer"),
    (lambda: vxc.kernel(SUB + FILL), "name one, as the second argument of vxc.kernel"),
])  # fmt: skip
def test_advice_is_in_the_words_of_python(call, words):
    with pytest.raises(vxc.VxcError) as caught:
        call()
    assert words in str(caught.value) and not re.search(r"\B-D |--arch|-k ", str(caught.value))


def test_the_first_kernel_of_the_readme_works_when_it_is_saved():
    first = re.search(r"^```\n(kernel .*?)^```", (SAMPLES.parent / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    got = command("run", "-", "--on", "flat", "--check", stdin=first[1])
    assert got.status == 0 and "check: equal to ast to the bit" in got.out and command("check", "-", stdin=first[1]).err == ""


# ---- what was meant --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "words"), [
    (lambda: vxc.kernel("arn.vx"), "vxc.kernel takes the text of a kernel, and 'arn.vx' is a path; load the file: vxc.load(path).NAME"),
    (lambda: vxc.load(SUB), "is the text of a kernel; pass it to vxc.kernel(text)"),
    (lambda: vxc.load(SAMPLES / "add.vx")(1), "add.vx is a module of kernels, and is not called itself; call a kernel of it: .add(..)"),
    (lambda: vxc.kernel(SUB, target="sm_90a").compile()(1), "is not called; call the kernel, `sub(..)`; this has .cuda,"),
])  # fmt: skip
def test_python_says_what_was_meant(call, words):
    with pytest.raises(vxc.LaunchError) as caught:
        call()
    assert words in str(caught.value)


def test_names_are_looked_up_when_a_kernel_is_first_called():
    late = vxc.kernel(SUB.replace("- b[i]", "- bb[i]"))
    with pytest.raises(vxc.CompileError, match="nothing is named `bb` here"):
        late(np.ones(2, np.float32), np.ones(2, np.float32), device="cpu")


@pytest.mark.parametrize(("arguments", "words"), [
    (("chek", "k.vx"), "No such command 'chek'; did you mean `check`?"),
    (("wombat",), "No such command 'wombat'."),
    (("run", "--on", "cpu", SAMPLES / "add.vx"), "did you mean `--on flat`?"),
    (("run", "--on", "moon", SAMPLES / "add.vx"), "'moon' is not one of 'gpu', 'flat'"),
    (("opt", SAMPLES / "add.vx", "-p", "simplify"), "add.vx is a .vx file, and this takes IR, which `vxc compile "),
])  # fmt: skip
def test_the_command_line_says_what_was_meant(arguments, words):
    got = command(*arguments)
    assert got.status == 2 and words in got.err


@pytest.mark.parametrize(("text", "words"), [
    ("rnd:f32[8]", "did you mean `rand`?"), ("rand:f32", "write KIND:DTYPE"), ("x.npy", "check the path"), ("q:x.npy", "check the"),
])  # fmt: skip
def test_arrays_say_what_was_meant(text, words):
    got = command("run", SAMPLES / "rowsum.vx", "-a", f"x={text}")
    assert got.status == 1 and words in got.err
