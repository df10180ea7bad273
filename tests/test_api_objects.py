"""What the API's objects are called, copied as, asked for: names of every kind, wrong options, shapes that contradict the declaration."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from fake_cuda import SHIFT, floats

import vxc
from vxc.api.compiling import _plan_key
from vxc.runtime import driver as driver_module

SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
F32 = vxc.ShapeDtype((4,), "f32")


# ---- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["_scale", "__scale", "_kernels", "_source", "self", "_"])
def test_kernels_are_called_as_they_like(name, tmp_path):
    text = SCALE.replace("scale", name)
    (tmp_path / "k.vx").write_text(text)
    module = vxc.load(tmp_path / "k.vx")
    assert list(module) == dir(module) == [name]
    for k in (vxc.kernel(text), getattr(module, name), vxc.elementwise("x: f32 -> f32", "x", name=name)):
        assert k.name == name
    assert vxc.kernel(text)(floats(4), 2.0, device="cpu").tolist() == [0, 2, 4, 6]


def test_a_decorated_function_may_be_private():
    @vxc.jit
    def _scale(x, y):
        """kernel _scale(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }"""

    assert _scale(floats(3), device="cpu").tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", ["self", "target", "device", "stream", "args", "shapes", "kernel", "named", "function", "values"])
def test_parameters_are_called_as_they_like(name):
    k = vxc.kernel(f"kernel k({name}: f32[N], out y: f32[N]) {{ parallel i in N {{ y[i] = 2.0 * {name}[i]; }} }}")
    x = floats(3)
    if name != "device":
        assert k(**{name: x}, device="cpu").tolist() == k.bind(**{name: x}, device="cpu")().tolist() == [0, 2, 4]
    assert k.compile(**{name: (4,)}).made.typed


def test_a_generic_may_be_called_self():
    k = vxc.kernel("kernel k<self = 1>(x: f32[N], out y: i32[N]) { parallel i in N { y[i] = self as i32; } }")
    assert k.define(self=5)(floats(2), device="cpu").tolist() == [5, 5]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_modules_are_copied_as_their_kernels(copied):
    module = vxc.load("samples/softmax.vx")
    again = copied(module)
    assert list(again) == list(module) and repr(again) == repr(module) and again.softmax.signature == module.softmax.signature
    with pytest.raises(AttributeError, match="has no kernel `nope`: there is `softmax`"):
        again.nope


def test_the_package_lists_what_it_offers():
    assert sorted(dir(vxc)) == sorted(vxc.__all__) and {"load", "kernel", "jit", "autotune"} <= set(dir(vxc))


async def awaited(x, y):
    """kernel awaited(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }"""


def yielded(x, y):
    """kernel yielded(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }"""
    yield x


DECORATED = "what vxc.jit decorates is a function with the kernel as its docstring"

# ---- wrong options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vxc.load(b"x"), "the `path` of vxc.load is a str or pathlib.Path, not bytes"),
        (lambda: vxc.kernel(SCALE, 3), "the `name` of vxc.kernel is the name of a kernel in the text, a str, not int"),
        (lambda: vxc.kernel(SCALE, debug=object()), "`debug` is True or False, not object"),
        (lambda: vxc.kernel(SCALE, debug=1), "`debug` is True or False, not int"),
        (lambda: vxc.kernel(SCALE).as_torch_op(None), "the `name` of as_torch_op is a str such as 'mylib::softmax', not NoneType"),
        (lambda: vxc.jit(int), f"{DECORATED}, not type"),
        (lambda: vxc.jit(awaited), f"{DECORATED}, not an async function"),
        (lambda: vxc.jit(yielded), f"{DECORATED}, not a generator, which yields"),
        (lambda: vxc.jit(staticmethod(floats)), f"{DECORATED}, not staticmethod"),
        (lambda: vxc.jit("kernel"), f"{DECORATED}, not str"),
        (lambda: vxc.autotune(None), "what vxc.autotune tunes is a vxc kernel, not NoneType"),
    ],
)
def test_a_wrong_type_is_an_error_of_vxc_and_of_python(call, words):
    with pytest.raises(vxc.VxcError) as caught:
        call()
    assert str(caught.value) == f"E0709: {words}" and isinstance(caught.value, TypeError)


def test_a_function_without_docstring_holds_no_kernel():
    for function, named in ((lambda x, y: x, "a `lambda`"), (floats, "the function `floats`")):
        with pytest.raises(vxc.CompileError, match=f"E0234.*{named} has no docstring") as caught:
            vxc.jit(function)
        assert "write the kernel as its docstring" in caught.value.diagnostics[0].help
    code = "import vxc\n@vxc.jit\ndef scale(x, y):\n    'kernel scale(x: f32[N], out y: f32[N]) { }'"
    said = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True).stderr
    assert "`scale` has no docstring" in said and "Python drops docstrings with -OO: run it without, or use vxc.kernel" in said


@pytest.mark.parametrize("path", ["\ud800", "a\0b", "no/such\udc80.vx", "x" * 5000])
def test_a_path_that_is_none_cannot_be_read(path):
    with pytest.raises(vxc.CompileError, match="E0101"):
        vxc.load(path)


@pytest.mark.parametrize("cap", [0, -1, 1, 23, 256, 10000, 2**70, "32", True, 1.5])
def test_registers_are_capped_as_the_command_does(cap):
    for made in (lambda: vxc.kernel(SCALE, maxrregcount=cap), lambda: vxc.load("samples/softmax.vx", maxrregcount=cap)):
        with pytest.raises(vxc.LaunchError, match="`maxrregcount` is .* give an int from 24 to 255, or None"):
            made()
    for good in (24, 255, np.int64(32), None):
        assert vxc.kernel(SCALE, maxrregcount=good)._calls.recipe.maxrregcount == good


# ---- shapes ahead ------------------------------------------------------------------------------------------------------

ADD = """kernel add<T: dtype>(x: T[M, N], z: T[M], out y: T[M]) { parallel i in M { y[i] = (sum(x[i]) as T) + z[i]; } }"""
HALVES = [vxc.ShapeDtype((4, 8), "f16"), vxc.ShapeDtype((4,), "f16")]
LONGER = "kernel longer(x: f32[N], out y: f32[N + 1]) { parallel i in N { y[i] = x[i]; } }"


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("text", "defines", "right", "shapes", "words"),
    [
        (SCALE, {}, [F32], [(4,), (5,)], "dimension 0 of `y` is 5, but dimension 0 of `x` makes N = 4"),
        (SCALE, {}, [F32], [(2**70,)], "the shape of `x` has a size of 1180591620717411303424; sizes are at most 140,737,488,355,328"),
        (SCALE, {}, [F32], [vxc.ShapeDtype((4,), "f64")], "`x` holds float64, but f32 is declared"),
        (SCALE, {"N": 6}, [(6,)], [(7,)], "dimension 0 of `x` is 7, but N = 6 is defined"),
        (ADD, {}, HALVES, [HALVES[0], F32], "`z` holds float32, but `x` makes T = f16"),
        (ADD, {}, HALVES, [*HALVES, F32], "`y` holds float32, but `x` makes T = f16"),
        (ADD, {}, HALVES, [HALVES[0], vxc.ShapeDtype((5,), "f16")], "dimension 0 of `z` is 5"),
        (ADD, {"T": "f16"}, HALVES, [vxc.ShapeDtype((4, 8), "f32"), HALVES[1]], "`x` holds float32, but T = f16 is defined"),
        (LONGER, {}, [(4,), (5,)], [(4,), (9,)], "dimension 0 of `y` is N + 1; here the two sides are 9 and 5"),
    ],
)
def test_what_no_call_could_be_is_refused_ahead(monkeypatch, tmp_path, text, defines, right, shapes, words, warm):
    monkeypatch.setenv("VXC_CACHE", "1")
    monkeypatch.setenv("VXC_CACHE_DIR", str(tmp_path))
    if warm:
        assert vxc.kernel(text).define(**defines).compile(*right, target="sm_90a").cubin
    with pytest.raises(vxc.LaunchError) as caught:
        vxc.kernel(text).define(**defines).compile(*shapes, target="sm_90a")
    assert words in str(caught.value)


def test_pitched_arrays_are_described_by_their_shapes():
    k = vxc.kernel("kernel k(x: f32[M, N : L], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }")
    assert k.compile((4, 64), target="sm_90a") and k.compile((4, 64), (4, 64), target="sm_90a")


def test_what_is_explained_has_the_sizes_described():
    softmax = vxc.load("samples/softmax.vx").softmax
    text = softmax.compile(vxc.ShapeDtype((64, 1000), "f16"), target="sm_90a").explain()
    assert "f16[64, 1000]" in text and "[37, " not in text
    assert "[37, 1000]" in softmax.compile(target="sm_90a").explain()


# ---- bound calls on NumPy arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [{}, {"device": "cpu"}])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.ones((2, 3), np.float32), 1.0), "`x` has 2 dimensions, but 1 declared"),
        ((np.ones(3), 1.0), "`x` holds float64, but f32 is declared"),
        ((floats(3), 1.0, floats(4)), "dimension 0 of `y` is 4"),
        ((floats(3), 1e300), "is beyond its greatest value"),
        ((floats(3), np.float32), "is not a number"),
    ],
)
def test_binding_checks_also_where_no_device_is_needed_yet(arguments, words, device):
    with pytest.raises(vxc.LaunchError) as caught:
        vxc.kernel(SCALE).bind(*arguments, **device)
    assert words in str(caught.value)


def test_a_bound_call_on_the_host_is_repeated():
    x = floats(3)
    b = vxc.kernel(SCALE).bind(x, 2.0, device="cpu")
    assert b().tolist() == [0, 2, 4] and repr(b).startswith("<function scale.bind(..) at 0x")
    x += 1
    assert b().tolist() == [2, 4, 6]


# ---- no device ---------------------------------------------------------------------------------------------------------


def test_without_a_driver_it_is_said_once_what_to_install(monkeypatch):
    def no_library(_):
        raise RuntimeError('"cuda" is only found via system search. Ensure the NVIDIA display driver is installed.')

    monkeypatch.setattr("cuda.bindings.driver.cuInit", no_library)
    monkeypatch.setattr("vxc.api.devices.driver", driver_module._bindings)
    k = vxc.kernel(SCALE)
    with pytest.raises(vxc.NoDeviceError) as caught:
        k(floats(3), 2.0)
    assert str(caught.value) == (
        'E0603: no NVIDIA driver found ("cuda" is only found via system search); '
        'install the NVIDIA display driver, or pass device="cpu", which interprets'
    )


def test_a_kernel_that_is_an_attribute_of_a_class_is_no_method():
    k = vxc.kernel(SHIFT)
    assert type("Model", (), {"k": k})().k is k
    assert k.__get__(object(), object) is k  # what a `functools.partial` does there depends on the version of Python


def test_what_is_compiled_says_what_it_is():
    assert repr(vxc.kernel(SHIFT).compile((4,), target="sm_90a")) == "<vxc kernel shift, compiled for sm_90a>"


# ---- the register cap of the environment ---------------------------------------------------------------------------------


def test_the_register_cap_of_the_environment_is_that_of_kernels_without_one(monkeypatch):
    monkeypatch.setenv("VXC_MAXRREG", "24")
    made = [vxc.kernel(SCALE), vxc.kernel(SCALE, maxrregcount=40), vxc.elementwise("x: f32 -> f32", "x")]
    assert [k.compile((4,), (4,), target="sm_80").made.max_registers for k in made[:2]] == [24, 40]
    assert made[2]._calls.recipe.maxrregcount == 24
    assert [vxc.compile(vxc.Source("k.vx", SCALE), maxrregcount=cap).max_registers for cap in (None, 40)] == [24, 40]
    capped = made[0]
    monkeypatch.delenv("VXC_MAXRREG")
    free = vxc.kernel(SCALE)
    keys = {_plan_key(k._calls.recipe, k._calls.specialise({}), "sm_80") for k in (capped, free)}
    assert len(keys) == 2 and pickle.loads(pickle.dumps(capped))._calls.recipe.maxrregcount == 24
    for wrong in ("many", "3", "-1", "9" * 5000):
        monkeypatch.setenv("VXC_MAXRREG", wrong)
        with pytest.raises(vxc.LaunchError, match="E0709: `VXC_MAXRREG` in the environment is .*, which caps no registers"):
            vxc.kernel(SCALE)
        with pytest.raises(vxc.VxcError, match="E0709"):
            vxc.compile(vxc.Source("k.vx", SCALE))
