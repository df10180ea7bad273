"""Kernels as Python objects: what they are defined, copied and named by, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from fake_cuda import floats

import vxc

SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
FILL = """kernel fill<B = 1, C: bool = false, T: dtype = f32>(x: T[N], out y: i32[N]) {
    parallel i in N { y[i] = B as i32; if (C) { y[i] = 0; } }
}"""


# ---- kernels as objects ------------------------------------------------------------------------------------------------


def test_generics_and_dimensions_are_given_values_of_their_kind():
    k = vxc.kernel(FILL)
    for given, words in (
        ({"B": 1.5}, "generic `B` of `fill` is given 1.5"),
        ({"B": "x"}, "generic `B` of `fill` is given 'x'"),
        ({"B": None}, "generic `B` of `fill` is given None"),
        ({"C": 3}, "generic `C` of `fill` is given 3"),
        ({"T": "f31"}, "generic `T` of `fill` is given 'f31'"),
        ({"T": 8}, "generic `T` of `fill` is given 8"),
        ({"N": "f32"}, "dimension `N` of `fill` is given 'f32'"),
    ):
        with pytest.raises(vxc.CompileError, match=f"E0218(.|\n)*{words}(.|\n)*give it "):
            k.define(**given)
    assert k.define(B=np.int64(7), C=False, T="f32")(floats(3), device="cpu").tolist() == [7, 7, 7]
    assert k.define(B=7, C=np.True_, N=3)(floats(3), device="cpu").tolist() == [0, 0, 0]


def test_kernels_have_a_name_and_are_copied_and_pickled_as_their_source(tmp_path):
    (tmp_path / "k.vx").write_text(SCALE + "\n" + FILL)
    module = vxc.load(tmp_path / "k.vx", target="sm_90a")
    for k in (module.scale, vxc.kernel(SCALE, debug=True)):
        assert k.__name__ == "scale" and type(k).__name__ == "Kernel"
        for again in (pickle.loads(pickle.dumps(k)), copy.deepcopy(k), copy.copy(k)):
            assert repr(again) == repr(k) and np.array_equal(again(floats(3), 2.0, device="cpu"), 2 * floats(3))
            assert again.compile().target == k.compile().target and again.compile().made.debug == k.compile().made.debug
    fixed = module.fill.define(B=5, T="f16")
    again = pickle.loads(pickle.dumps(fixed))
    assert again.compile(target="sm_90a").cuda == fixed.compile(target="sm_90a").cuda
    assert again._calls.recipe.defines == fixed._calls.recipe.defines  # a dtype is equal to itself alone
    assert again(np.zeros(2, np.float16), device="cpu").tolist() == [5, 5]


def test_wrong_types_are_told_with_what_was_expected():
    for call, words in (
        (lambda: vxc.kernel(None), "the `text` of vxc.kernel is the source of a kernel, a str, not NoneType"),
        (lambda: vxc.load(None), "the `path` of vxc.load is a str or pathlib.Path, not NoneType"),
        (lambda: vxc.jit(5), "what vxc.jit decorates is a function with the kernel as its docstring, not int"),
        (lambda: vxc.kernel(SCALE, target=80), '`target` is an arch such as "sm_90a", not int'),
        (lambda: vxc.kernel(SCALE).compile(target=80), '`target` is an arch such as "sm_90a", not int'),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == words
    with pytest.raises(KeyError, match="no pass `nope` ran; give None, 'final' or one of .*expand-tiles"):
        vxc.kernel(SCALE).compile(target="sm_90a").ir("nope")
