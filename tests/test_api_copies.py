"""Copies of what the API gives, in this process and in others; what is left when it is deleted."""

from __future__ import annotations

import concurrent.futures
import copy
import functools
import gc
import multiprocessing
import pickle
import weakref

import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT, Tensor, floats
from tuning_kernels import tuned

import vxc

GENERIC = "kernel same<T: dtype, B = 32>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } }"
COPIES = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, **{f"pickle {n}": lambda x, n=n: pickle.loads(pickle.dumps(x, n)) for n in (2, 5)}
}  # fmt: skip
copies = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


@copies
def test_a_copy_of_a_kernel_computes_what_it_does(torch, copied):
    x = Tensor(floats(4))
    for k, call, wanted in (
        (vxc.kernel(SHIFT), (x, 1), x.array + 1),
        (vxc.kernel(CHAIN), (x, 2.0), 2 * x.array + 1),
        (vxc.kernel(GENERIC), (x,), x.array),
        (vxc.kernel(GENERIC).define(T="f32", B=64, N=4), (x,), x.array),
        (vxc.elementwise("x: T -> T", "x + 1"), (x,), x.array + 1),
        (vxc.elementwise("x: T -> T", "x + 1").define(T="f32"), (x,), x.array + 1),
        (vxc.reduction("x: f32 -> f32", "x", axis=0, keepdims=True), (x,), [6.0]),
    ):
        again = copied(k)
        assert again is not k and again != k and again.signature == k.signature
        assert again._calls.recipe.defines == k._calls.recipe.defines and {k: 1, again: 2} == {again: 2, k: 1}
        assert np.array_equal(k(*call).array, wanted) and np.array_equal(again(*call).array, wanted)
        assert np.array_equal(copied(k)(*call).array, wanted)  # of one that was called


@copies
def test_a_copy_of_what_was_compiled_ahead_is_of_the_same_text(copied):
    softmax = vxc.load("samples/softmax.vx").softmax
    for made in (softmax.compile(vxc.ShapeDtype((64, 1000), "f16"), target="sm_90a"), softmax.compile(target="sm_80")):
        again = copied(made)
        assert again.cuda == made.cuda and again.ir("simplify") == made.ir("simplify") and again.target is made.target
        assert again.cubin == made.cubin and again.resources == made.resources and again.explain() == made.explain()
    line = vxc.reduction("x: T -> T", "x").compile(vxc.ShapeDtype((3, 4), "f16"), target="sm_90a")
    assert copied(line).cuda == line.cuda


@copies
def test_a_copy_of_an_error_says_the_same(torch, copied):
    for wrong in (lambda: vxc.kernel("kernel"), lambda: vxc.kernel(SHIFT)(Tensor(np.zeros(4)), 1), lambda: vxc.load(3)):
        with pytest.raises(vxc.VxcError) as caught:
            wrong()
        again = copied(caught.value)
        assert type(again) is type(caught.value) and str(again) == str(caught.value)
        assert getattr(again, "__notes__", []) == getattr(caught.value, "__notes__", [])


def test_a_kernel_is_what_functools_and_maps_take(torch):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    k(x, 2), k(x, 2)
    halfway = functools.partial(k, x)
    assert np.array_equal(halfway(1).array, x.array + 1) and np.array_equal(halfway(n=3).array, x.array + 3)
    assert [y.array[0] for y in map(k, [x, x], [1, 2])] == [1, 2]


# ---- other processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_kernels_go_to_processes_that_begin_anew(method):
    kernels = [vxc.kernel(SHIFT), vxc.load("samples/softmax.vx").softmax, vxc.elementwise("x: f32, n: scalar f32 -> f32", "x + n")]
    calls = [(floats(4), 2), (floats(2, 3),), (floats(4), 2)]
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        found = [pool.submit(k, *call, device="cpu") for k, call in zip(kernels, calls)]
        refused = pool.submit(kernels[0], floats(4), "a", device="cpu")
        made = pool.submit(kernels[0].compile, (4,), (4,), target="sm_90a")
        assert [f.result().tolist() for f in found] == [k(*call, device="cpu").tolist() for k, call in zip(kernels, calls)]
        with pytest.raises(vxc.LaunchError, match="`n` is i32, but 'a' is not an integer"):
            refused.result()
        assert made.result().cuda == kernels[0].compile((4,), (4,), target="sm_90a").cuda


# ---- what is left ----------------------------------------------------------------------------------------------------


def test_what_is_deleted_is_gone_and_what_it_gave_works_on(torch):
    k, x, y = vxc.kernel(SHIFT), Tensor(floats(4)), Tensor(floats(4))
    for call in ((x, 1), (x, y, 2)) * 3:
        k(*call)
    b, made, method = k.bind(x, y, 5), k.compile((4,), target="sm_90a"), k.compile
    gone = [weakref.ref(k), weakref.ref(k._calls)]
    del k
    assert b() is y and np.array_equal(y.array, x.array + 5) and "shift" in made.cuda and method((4,), target="sm_80").cuda
    del b, made, method
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_arrays_of_calls_are_not_held(torch):
    k, x, y = vxc.kernel(SHIFT), Tensor(floats(4)), Tensor(floats(4))
    for _ in range(3):
        k(x, y, 1), k(x, 1)
    gone = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [ref() for ref in gone] == [None, None] and np.array_equal(k(Tensor(floats(4)), 1).array, floats(4) + 1)


def test_a_tuned_kernel_outlives_the_kernel(gpu):
    scale = tuned()
    n = Tensor(np.zeros(50, np.int32))
    chosen = scale.choose(Tensor(floats(50)), n)
    gone = weakref.ref(scale)
    del scale
    gc.collect()
    assert gone() is None and np.array_equal(chosen(Tensor(floats(50)), n).array, 2 * floats(50))
