"""The fast path of calls from Python, on the driver in memory (`fake_cuda`): what it repeats, what it writes anew, what it leaves."""

from __future__ import annotations

import ctypes
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_cuda import EMPTY, SHIFT, DeviceNDArray, GPUArray, Tensor, floats

import vxc
from vxc.api import front_text

SCALE = "kernel scale(x: f32[N], out y: f32[N], a: f32) { parallel i in N { y[i] = a * x[i]; } }"


@pytest.fixture(params=["2.11", "2.0"], ids=["guards", "keys"])
def torch(torch, request):
    """Versions with and without the check of `torch.compile`."""
    torch.__version__ = request.param
    return torch


def test_a_call_made_twice_running_is_repeated_without_writing_its_parameters(torch, full, monkeypatch):
    k = vxc.kernel(SHIFT)
    x, y = Tensor(floats(4)), Tensor(floats(4))
    k(x, y, 1), k(x, y, 1), k(x, y, 1)
    (prepared,) = k._calls._prepared.values()
    assert not prepared.slots and len(full) == 1  # the slot belongs to the record
    for value in (5.0, 7.0):
        x.array[:] = value
        assert k(x, y, 1) is y and (y.array == value + 1).all()
    assert not prepared.slots and len(full) == 1


def test_calls_in_turns_are_repeated_without_writing_their_parameters(torch, full, monkeypatch):
    k, arrays = vxc.kernel(SHIFT), [(Tensor(floats(size)), Tensor(floats(size))) for size in (4, 4, 8, 8)]
    for _ in range(3):
        for at, (x, y) in enumerate(arrays):
            k(x, y, at)
    made = list(k._calls._prepared.values())
    monkeypatch.setitem(k._installed._keys[0].__globals__, "_enqueue", None)  # with which nothing that is written can be launched
    for value in (5.0, 7.0):
        for at, (x, y) in enumerate(arrays):
            x.array[:] = value
            assert k(x, y, at) is y and (y.array == value + at).all()
    assert [prepared.slots for prepared in made] == [[], []] and len(full) == 2


def test_launches_that_are_kept_have_a_limit(torch, cuda, full, monkeypatch):
    monkeypatch.setattr(cuda, "_run", lambda *_: 0)
    monkeypatch.setattr(front_text, "MOST", 100)
    k, x, y = vxc.kernel(SHIFT), floats(150, 4), floats(150, 4)
    for at in range(len(x)):
        k(Tensor(x[at]), Tensor(y[at]), 3), k(Tensor(x[at]), Tensor(y[at]), 3)
    kept, once = (k._installed.call.__globals__[name] for name in ("_kept", "_once"))
    assert 0 < len(kept) <= 100 and 0 < len(once) <= 100 and len(full) == 1


@pytest.mark.parametrize("turns", [(8, 4), (8, 8, 4, 4), (8, 8, 8, 4), (8, 4, 4, 6, 6, 4, 8)])
def test_arrays_that_begin_at_one_place_are_told_apart(torch, full, turns):
    """A launch that is kept is found by where arrays are, and runs only if they are as they were: of one place there are many shapes."""
    k, x, y = vxc.kernel(SHIFT), floats(8), floats(8)
    for _ in range(6):
        for size in turns:
            y[:] = -1
            k(Tensor(x[:size]), Tensor(y[:size]), 3)
            assert np.array_equal(y, [*x[:size] + 3, *[-1] * (8 - size)])
    assert len(full) == len({*turns})
    with pytest.raises(vxc.LaunchError, match="holds int32"):
        k(Tensor(x.view(np.int32)), Tensor(y), 3)
    torch.stream = 7
    y[:] = -1
    assert np.array_equal(k(Tensor(x), Tensor(y), 3).array, x + 3)


def test_pairs_of_calls_in_turns(torch, full):
    k = vxc.kernel(SHIFT)
    arrays = [(Tensor(np.full(4, at, np.float32)), Tensor(floats(4))) for at in range(3)]
    for at in (0, 0, 1, 1, 0, 0, 2, 2, 2, 1, 0, 1, 1, 1, 0):
        for n in (at, 10 + at, 10 + at):
            x, y = arrays[at]
            assert (k(x, y, n).array == at + n).all()
    assert len(full) == 1


def test_numbers_that_are_equal_and_not_the_same_are_told_apart(torch):
    k, x, y = vxc.kernel(SCALE), Tensor(np.ones(1, np.float32)), Tensor(floats(1))
    for a in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 0, False, np.float64(-0.0), -0.0):
        assert np.signbit(k(x, y, a).array[0]) == np.signbit(float(a))
    n = vxc.kernel(SHIFT)
    n(x, y, 1), n(x, y, 1), n(x, y, 1)
    assert n(x, y, True).array[0] == 2
    with pytest.raises(vxc.LaunchError, match="`n` is i32, but 1.0 is not an integer"):
        n(x, y, 1.0)


def test_numbers_are_not_compared_as_numpy_compares_them(torch):
    """`np.float32(2) == 1e40` warns, which is an error here."""
    k, x, y = vxc.kernel(SCALE.replace("f32", "f64")), Tensor(np.ones(1)), Tensor(np.ones(1))
    for a in (1.0, np.float32(2), 1e40, np.float32(2), 1e40, 1e40, np.float32(3)):
        assert k(x, y, a).array[0] == float(a)


def test_what_raises_on_the_fast_path_gives_the_slot_back(torch, cuda, monkeypatch):
    k, x, y = vxc.kernel(SCALE), Tensor(np.ones(1, np.float32)), Tensor(floats(1))
    k(x, y, 1.0), k(x, y, 2.0), k(x, 1.0), k(x, 2.0)
    kept = [(prepared, list(prepared.slots)) for prepared in k._calls._prepared.values()]
    assert all(len(slots) == 1 for _, slots in kept)
    for arguments in ((x, y, 1e300), (x, 1e300)):
        with pytest.raises(vxc.LaunchError, match="beyond its greatest value"):
            k(*arguments)
        assert all(prepared.slots == slots for prepared, slots in kept)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(k._installed._keys[0].__globals__, "_enqueue", interrupted)
    for arguments in ((x, y, 3.0), (x, 3.0)):
        with pytest.raises(KeyboardInterrupt):
            k(*arguments)
        assert all(prepared.slots == slots for prepared, slots in kept)


def test_a_scalar_that_does_not_fit_is_refused_by_a_program_of_several_launches_too(torch, full):
    k = vxc.kernel("""
        kernel once(x: f32[N], b: bool, out y: f32[N]) { parallel i in N { if b { y[i] = x[i]; } else { y[i] = 0.0; } } }
        program twice(x: f32[N], b: bool, out y: f32[N]) { local w: f32[N]; once(x, b, w); once(w, b, y); }
    """)
    x, y = Tensor(floats(4)), Tensor(floats(4))
    for _ in range(3):
        assert np.array_equal(k(x, True, y).array, x.array)
    assert len(full) == 1
    for wrong in (2, 0.5):
        for arguments in ((x, wrong, y), (x, wrong)):
            with pytest.raises(vxc.LaunchError, match="`b` is bool"):
                k(*arguments)


def test_an_array_that_was_changed_in_place_is_seen(torch):
    k = vxc.kernel("kernel t(x: f32[M, N], out y: f32[N, M]) { parallel i in N, j in M { y[i, j] = x[j, i]; } }")
    x, y = Tensor(floats(2, 6)), Tensor(np.zeros((6, 2), np.float32))
    for _ in range(3):
        k(x, y)
    for shape in ((3, 4), (12, 1), (2, 6), (3, 4), (3, 4)):
        x.array, y.array = x.array.reshape(shape), y.array.reshape(shape[::-1])
        y.array[:] = 0
        assert np.array_equal(k(x, y).array, x.array.T)
    x.array = x.array.T
    with pytest.raises(vxc.LaunchError, match="`y` is 4, but dimension 0 of `x` makes M = 4|`y` is 4"):
        k(x, y)
    moved = Tensor(floats(3, 4))
    x.array = moved.array
    assert np.array_equal(k(x, y).array, moved.array.T)


def test_arrays_of_one_shape_are_told_apart(torch, full):
    """Which are looked for first."""
    k = vxc.kernel("kernel doubled<T: dtype>(x: T[N, N], out y: T[N, N]) { parallel i in N, j in N { y[i, j] = x[i, j] + x[i, j]; } }")
    plain, halves = floats(3, 3), floats(3, 3).astype(np.float16)
    kinds = plain, halves, plain.T, np.zeros((6, 3), np.float32)[::2], floats(2, 2), floats(4, 4)
    for _ in range(4):
        for kind in kinds:
            x, y = Tensor(kind), Tensor(np.zeros(kind.shape, kind.dtype))
            for made in (k(x, y), k(x, y), k(x)):
                assert made.array.dtype == kind.dtype and np.array_equal(made.array, 2 * kind)
    assert len(full) == 2 * len(kinds)
    x = Tensor(plain)
    x.negated = True
    with pytest.raises(vxc.LaunchError, match="lazy negation"):
        k(x, Tensor(floats(3, 3)))


@pytest.mark.parametrize(("kind", "module"), [(GPUArray, "pycuda"), (DeviceNDArray, "numba")], ids=["pycuda", "numba"])
def test_other_libraries_have_a_fast_path(cuda, full, monkeypatch, kind, module):
    monkeypatch.setitem(sys.modules, module, EMPTY[module])
    k, x, y = vxc.kernel(SHIFT), kind(floats(4)), kind(floats(4))
    for n in (1, 2, 2, 2, 3):
        assert k(x, y, n) is y and np.array_equal(y.array, x.array + n)
        made = k(x, n)
        assert isinstance(made, kind) and np.array_equal(made.array, y.array)
    assert len(full) == 2
    assert np.array_equal(k(kind(floats(4)[::2]), 1).array, floats(4)[::2] + 1) and len(full) == 3
    with pytest.raises(vxc.LaunchError, match="overlap"):
        k(x, x, 1)


def test_the_stream_of_a_call_is_that_of_a_library_that_has_one(torch, cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", EMPTY["numba"])
    torch.stream = 5
    made = vxc.kernel(SHIFT)(DeviceNDArray(floats(4)), Tensor(floats(4)), 1)
    assert isinstance(made, Tensor) and cuda.log[-1].endswith("on 5")


def test_eight_threads_of_ten_thousand_launches(torch, cuda, monkeypatch):
    """Each launch reads its parameters, lets the other threads run, and reads them again: as CUDA does, without Python's lock."""
    k, wrong = vxc.kernel(SHIFT), []
    k(Tensor(floats(1)), Tensor(floats(1)), 1)
    (prepared,) = k._calls._prepared.values()
    kernel = prepared.single.function
    at = {p.name: place for place, p in enumerate(kernel.params)}
    switch = sys.getswitchinterval()

    def launched(config, function, address):
        table = (ctypes.c_void_p * len(kernel.params)).from_address(address)
        values = [ctypes.c_uint64.from_address(table[at[name]]).value for name in ("x", "y")]
        n = ctypes.c_int32.from_address(table[at["n"]]).value
        if n % 64 == 0:
            time.sleep(0)
        x, y = (ctypes.c_float.from_address(ctypes.c_uint64.from_address(table[at[name]]).value) for name in ("x", "y"))
        if [ctypes.addressof(x), ctypes.addressof(y)] != values or ctypes.c_int32.from_address(table[at["n"]]).value != n:
            wrong.append((values, n))
        y.value = x.value + n
        return 0

    def work(at):
        x, y = Tensor(np.full(1, at, np.float32)), Tensor(floats(1))
        for call in range(10_000):
            n = call // 3  # twice anew, then repeated
            if k(x, y, n).array[0] != at + n:
                wrong.append((at, n))

    monkeypatch.setattr(cuda, "_run", launched)
    k._forget()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(switch)
    assert not wrong


@pytest.mark.parametrize(
    "name", ["call", "missing", "general", "places", "queue", "device", "type", "Exception", "at_x", "then_at_x", "launch"]
)
def test_parameters_have_names_that_the_fast_path_uses(torch, full, name):
    for at in range(3):
        names = ["x", "a", "y"]
        names[at] = name
        one, number, out = names
        params, body = f"{one}: f32[N], {number}: f32, out {out}: f32[N]", f"{out}[i] = {number} * {one}[i];"
        k = vxc.kernel(f"kernel k({params}) {{ parallel i in N {{ {body} }} }}")
        x, y = Tensor(floats(4)), Tensor(floats(4))
        for a in (2.0, 2.0, 2.0, 3.0):
            for made in (k(x, a), k(x, a, y), k(x, a, **{out: y}), k(**{one: x, number: a}), k(**{one: x, number: a, out: y})):
                assert np.array_equal(made.array, a * x.array)
        three = 3.0
        assert k(x, three, y) is k(x, three, y) is y
        assert [prepared.slots for prepared in k._calls._prepared.values()].count([]) == 1  # that of a record is no more among them
    assert len(full) == 6
