"""Calls on two devices in memory, of which all that belongs to one is refused on the other: what the fast path keeps must not mix them.

`test_api_two_gpus.py` has real ones.
"""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import CHAIN, EMPTY, SHIFT, Device, DeviceNDArray, GPUArray, content, floats

import vxc
from vxc.api import workspaces


@pytest.fixture(autouse=True)
def unmixed(devices):
    """No launch is even tried where something is of another device: the full way would make up for it, and hide it."""
    yield
    assert devices.refusals == []


@pytest.fixture
def pairs(devices, torches):
    """An input and an output on each device, of one shape."""
    return [(devices.tensor(floats(10), d), devices.tensor(floats(10), d)) for d in (0, 1)]


def test_kept_launches_run_on_the_device_of_their_arrays_whichever_is_current(devices, pairs, full):
    """0, 1, 0, 1 with the same arrays: each is a launch that was kept, in its own context and on its own stream."""
    k = vxc.kernel(SHIFT)
    for current in (0, 1):
        devices.make_current(current)
        for _ in range(3):
            for x, y in pairs:
                k(x, y, 1)
    assert len(full) == 2  # the first on each
    devices.ran.clear()
    for current in (0, 1, 1, 0):
        devices.make_current(current)
        for at, (x, y) in enumerate(pairs * 2):
            y.array[:] = 0
            assert k(x, y, 1) is y and np.array_equal(y.array, x.array + 1) and devices.ran[-1] == (at % 2, 0)
        assert devices.stack == [current]
    assert len(full) == 2 and len(devices.ran) == 16


def test_each_device_has_its_own_current_stream(devices, torches, pairs, full):
    k = vxc.kernel(SHIFT)
    for streams in ((0, 0), (7, 107), (0, 107), (7, 0), (7, 107)):
        torches.streams.update(enumerate(streams))
        for _ in range(3):
            for device, (x, y) in enumerate(pairs):
                devices.make_current(device)
                k(x, y, 2)
                assert devices.ran[-1] == (device, streams[device]) and np.array_equal(y.array, x.array + 2)
    assert len(full) == 2


def test_modules_are_compiled_for_each_architecture_and_loaded_once_for_each_device(devices, pairs):
    k = vxc.kernel(SHIFT)
    for _ in range(3):
        for x, y in pairs:
            k(x, y, 1), k(x, 1)
    assert {arch for _, arch in k._calls._compiled} == {"sm_90a", "sm_80"}
    assert [said for said in devices.log if "load" in said] == ["load on 0", "load on 1"]


def test_devices_of_one_architecture_share_machine_code_and_not_modules(devices, pairs):
    devices.archs = ((9, 0), (9, 0))
    k = vxc.kernel(SHIFT)
    for x, y in pairs * 2:
        assert np.array_equal(k(x, y, 1).array, x.array + 1)
    assert len(k._calls._compiled) == 1 and [said for said in devices.log if "load" in said] == ["load on 0", "load on 1"]


def test_outputs_are_allocated_on_the_device_of_the_inputs(devices, pairs, full):
    k = vxc.kernel(SHIFT)
    for current in (1, 0, 1):
        devices.make_current(current)
        for device, (x, _) in enumerate(pairs):
            for _ in range(2):
                y = k(x, 3)
                assert y.ordinal == devices.device_of(y.data_ptr()) == device and np.array_equal(y.array, x.array + 3)
    assert len(full) == 2


def test_arrays_change_within_a_key_and_sizes_between_devices(devices, pairs, full):
    """What is written anew, and what is looked up by shapes: arrays of one shape on both, then of two."""
    k = vxc.kernel(SHIFT)
    others = [[(devices.tensor(floats(n), d), devices.tensor(floats(n), d)) for n in (10, 6, 10)] for d in (0, 1)]
    for n in range(12):
        for device in (0, 1):
            x, y = others[device][n % 3]
            devices.make_current(n // 2 % 2)
            assert np.array_equal(k(x, y, n).array, x.array + n) and devices.ran[-1][0] == device
    assert len(full) == 4


def test_bound_calls_run_where_their_arrays_are(devices, torches, pairs):
    k = vxc.kernel(SHIFT)
    calls = [k.bind(x, y, 4) for x, y in pairs]
    for current in (0, 1):
        devices.make_current(current)
        for streams in ((0, 0), (7, 107)):
            torches.streams.update(enumerate(streams))
            for device, (b, (x, y)) in enumerate(zip(calls, pairs)):
                y.array[:] = 0
                assert b() is y and np.array_equal(y.array, x.array + 4) and devices.ran[-1] == (device, streams[device])
    assert devices.stack == [1]


def test_arrays_of_both_devices_are_refused_also_when_each_is_known(devices, pairs):
    k = vxc.kernel(SHIFT)
    (x, y), (other, z) = pairs
    for a, b in ((x, y), (x, y), (other, z), (other, z)):
        k(a, b, 1)
    ran = len(devices.ran)
    for a, b, words in ((x, z, "`x` on device 0, `y` on device 1"), (other, y, "`x` on device 1, `y` on device 0")):
        for current in (0, 1):
            devices.make_current(current)
            with pytest.raises(vxc.LaunchError, match=f"several devices: {words}"):
                k(a, b, 1)
            with pytest.raises(vxc.LaunchError, match="several devices"):
                k.bind(a, b, 1)
    assert len(devices.ran) == ran


def test_programs_have_a_workspace_on_each_device(devices, torches, pairs, full):
    chain = vxc.kernel(CHAIN)
    for a in (2.0, 3.0, 3.0):
        for device, (x, y) in enumerate(pairs):
            assert np.array_equal(chain(x, a, y).array, x.array * a + 1) and devices.ran[-1] == devices.ran[-2] == (device, 0)
    assert len(full) == 2
    held = {device: [devices.device_of(b.address) for b in found._blocks.values()] for (device, _), found in workspaces._ALL.items()}
    assert held == {0: [0], 1: [1]}


def test_threads_on_two_devices(devices, torches):
    """Of eight threads half use each device, made current by some of them and not by others; all call one kernel, and one bound call."""
    k, interval = vxc.kernel(SHIFT), sys.getswitchinterval()
    bound = [devices.tensor(floats(4), d) for d in (0, 1)]
    calls = [k.bind(x, devices.tensor(floats(4), d), 7) for d, x in enumerate(bound)]

    def work(at: int) -> int:
        device, wrong = at % 2, 0
        if at < 4:
            devices.make_current(device)
        x, y, z = (devices.tensor(floats(4 + at), device) for _ in range(3))
        for n in range(15):
            wrong += not np.array_equal(k(x, y, n % 3).array, x.array + n % 3)
            wrong += not np.array_equal(k(x, z, 1).array, x.array + 1)
            wrong += k(x, n).ordinal != device
            wrong += not np.array_equal(calls[device]().array, bound[device].array + 7)
        return wrong + (devices.stack != [device if at < 4 else 0])

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [0] * 8
    finally:
        sys.setswitchinterval(interval)


def test_arrays_that_vxc_owns_are_made_and_given_back_in_the_context_of_their_device(devices):
    k = vxc.kernel(SHIFT)
    arrays = [Device(floats(5)) for _ in (0, 1)]
    for device, x in enumerate(arrays):
        devices.holds(x.array, device)
    for current in (0, 1):
        devices.make_current(current)
        for device, x in enumerate(arrays):
            y = k(x, 1)
            assert y.device == device == devices.device_of(y._address) and np.array_equal(content(y), x.array + 1)
            assert y.__dlpack_device__() == (2, device)
            del y
            gc.collect()  # the fake says where memory is given back in another context
    assert not devices.memory


@pytest.mark.parametrize("kind, module", [(GPUArray, "pycuda"), (DeviceNDArray, "numba")])
def test_libraries_whose_arrays_do_not_say_where_they_are(devices, monkeypatch, full, kind, module):
    """Their device is that of their memory, and part of the key."""
    monkeypatch.setitem(sys.modules, module, EMPTY[module])
    k, arrays = vxc.kernel(SHIFT), [(kind(floats(5)), kind(floats(5))) for _ in (0, 1)]
    for device, pair in enumerate(arrays):
        for one in pair:
            devices.holds(one.array, device)
    for _ in range(3):
        for device, (x, y) in enumerate(arrays):
            devices.make_current(device)
            assert np.array_equal(k(x, y, 5).array, x.array + 5) and devices.ran[-1][0] == device
    assert len(full) == 2
    devices.make_current(0)
    assert np.array_equal(k(*arrays[1], 6).array, floats(5) + 6) and devices.ran[-1][0] == 1


def test_arrays_of_cupy(devices, monkeypatch, full):
    class Array:
        def __init__(self, array, device):
            devices.holds(array, device)
            self.array, self.shape, self.dtype, self.strides = array, array.shape, array.dtype, array.strides
            self._c_contiguous, self.data = True, SimpleNamespace(device_id=device, ptr=array.ctypes.data)
            self.__cuda_array_interface__ = Device(array).__cuda_array_interface__

    Array.__module__ = "cupy"
    streams = {0: 0, 1: 107}
    runtime = SimpleNamespace(getDevice=devices.current_device)
    cuda = SimpleNamespace(get_current_stream=lambda device: SimpleNamespace(ptr=streams[device]), runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    k, arrays = vxc.kernel(SHIFT), [(Array(floats(5), d), Array(floats(5), d)) for d in (0, 1)]
    for current in (0, 1, 0):
        devices.make_current(current)
        for device, (x, y) in enumerate(arrays):
            for n in (1, 1, 2):
                assert np.array_equal(k(x, y, n).array, x.array + n) and devices.ran[-1] == (device, streams[device])
    assert len(full) == 2


def test_numpy_arrays_are_copied_to_the_device_that_is_named(devices):
    k, x = vxc.kernel(SHIFT), floats(5)
    for device in (1, 0, 1):
        assert np.array_equal(k(x, 2, device=device), x + 2) and devices.ran[-1][0] == device
    assert not devices.memory and devices.stack == [0]
