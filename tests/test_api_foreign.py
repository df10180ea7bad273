"""Numbers and arrays of types that are not vxc's: what they cannot say is refused, in one diagnostic, and nothing is lost on the way."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from fake_cuda import Tensor, floats

import vxc

SCALE = "kernel scale(x: f32[N], a: f32, out y: f32[N]) { parallel i in N { y[i] = a * x[i]; } }"
WIDE = SCALE.replace("f32", "f64")
COUNT = "kernel count(x: i32[N], n: i32, out y: i32[N]) { parallel i in N { y[i] = x[i] + n; } }"


class Number:
    """Its code raises."""

    def __float__(self) -> float:
        raise RuntimeError("no float")

    def __index__(self) -> int:
        raise RuntimeError("no index")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        (SCALE, np.complex64(1 + 2j), "is not a number"),
        (SCALE, np.complex128(1), "is not a number"),
        (WIDE, np.clongdouble(1 + 2j), "is not a number"),
        (SCALE, np.array(1 + 2j), "is not a number"),
        (SCALE, 1j, "is not a number"),
        (SCALE, np.longdouble("1e4000"), "is beyond its greatest value"),
        (WIDE, np.longdouble("-1e4000"), "is beyond its greatest value"),
        (WIDE, Decimal("1e999"), "is beyond its greatest value"),
        (WIDE, Fraction(10**400), "is beyond its greatest value"),
        (WIDE, 10**400, "is beyond its greatest value"),
        (SCALE, 1e300, "is beyond its greatest value"),
        (COUNT, 10**5000, "is outside -2147483648..2147483647"),
        (SCALE, Number(), "cannot be read as a number (RuntimeError: no float)"),
        (COUNT, Number(), "cannot be read as a number (RuntimeError: no index)"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_numbers_that_do_not_fit_are_refused(text, value, words):
    k = vxc.kernel(text)
    x = np.zeros(3, {SCALE: np.float32, WIDE: np.float64, COUNT: np.int32}[text])
    with pytest.raises(vxc.LaunchError) as caught:
        k(x, value, device="cpu")
    assert caught.value.diagnostics[0].code == "E0707" and words in str(caught.value) and len(str(caught.value)) < 300


def test_numbers_that_do_not_fit_are_refused_on_the_fast_path(torch):
    k, x = vxc.kernel(SCALE), Tensor(floats(4))
    y = Tensor(floats(4))
    for _ in range(3):
        k(x, 2.0, y)
    for value in (np.complex64(1 + 2j), np.longdouble("1e4000"), Decimal("1e999"), Number()):
        with pytest.raises(vxc.LaunchError, match="E0707"):
            k(x, value, y)


def test_infinities_and_numbers_of_other_types_are_taken():
    for k, kind in ((vxc.kernel(SCALE), np.float32), (vxc.kernel(WIDE), np.float64)):
        for value in (float("inf"), np.float16("-inf"), np.longdouble("inf"), Decimal("-Infinity"), Decimal("1.5"), Fraction(3, 2), True):
            assert k(np.ones(1, kind), value, device="cpu")[0] == kind(value)
        for value in (float("nan"), np.longdouble("nan"), Decimal("NaN")):
            assert np.isnan(k(np.ones(1, kind), value, device="cpu")[0])


class Foreign:
    """An array by what it says of itself."""

    def __init__(self, **said):
        vars(self).update(said)


class Raising:
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("array was deleted")


def interface(**changed):
    said = {"shape": (3,), "typestr": "<f4", "data": (64, False), "version": 3, **changed}
    return Foreign(__cuda_array_interface__={name: value for name, value in said.items() if value is not None})


def speaking(device, capsule=None):
    return Foreign(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: device)


def refused():
    raise BufferError("not exportable")


@pytest.mark.parametrize(
    "array",
    [
        Foreign(__cuda_array_interface__={}), Foreign(__cuda_array_interface__=7), interface(data=1), interface(data=("a", False)),
        interface(typestr="zz"), interface(typestr=3), interface(shape=3), interface(shape=("a",)), interface(shape=(1.5,)),
        interface(strides="a"), interface(strides=(4, "a")), interface(data=None), interface(shape=None), interface(stream="a"),
        Raising(), speaking((1, 0)), speaking("x"), speaking(None), speaking((2, 0), "no capsule"),
        Foreign(__dlpack__=refused, __dlpack_device__=refused), Foreign(__dlpack__=None), Foreign(__dlpack__=None, __dlpack_device__=None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("device", ["cpu", None])
def test_arrays_that_do_not_say_where_they_lie_are_refused(cuda, array, device):
    k = vxc.kernel(SCALE)
    for call in (lambda: k(array, 1.0, device=device), lambda: k(np.ones(3, np.float32), array, device=device)):
        with pytest.raises(vxc.LaunchError) as caught:
            call()
        assert caught.value.diagnostics[0].code in ("E0703", "E0709", "E0707")
