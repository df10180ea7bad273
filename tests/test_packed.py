"""4-bit elements: NumPy arrays hold a byte for each, kernels read two from a byte."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import Device
from test_launch import refused

from vxc.driver import compile
from vxc.interp.flat_interp import run_flat
from vxc.runtime import launch as launch_module
from vxc.runtime.driver import driver
from vxc.runtime.launch import launch, run_numpy, two_to_a_byte
from vxc.source import Source
from vxc.target import for_capability

TEXT = "kernel k(x: {dtype}[M, N : ld], out y: i32[M, N]) {{ parallel i in M, j in N {{ y[i, j] = x[i, j] as i32; }} }}"
DTYPES = {"i4": (np.int8, -8, 8), "u4": (np.uint8, 0, 16)}


def made(dtype, arch="sm_90a"):
    return compile(Source("k.vx", TEXT.format(dtype=dtype)), target=arch)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_two_elements_to_a_byte(count):
    elements = np.arange(-3, count - 3, dtype=np.int8)
    packed = two_to_a_byte(elements)
    assert packed.nbytes == (count + 1) // 2
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(-1)
    assert [(int(h) ^ 8) - 8 for h in halves[:count]] == list(range(-3, count - 3)) and not halves[count:].any()


def test_run_numpy_sends_packed_elements(host, monkeypatch):
    sent = []
    monkeypatch.setattr(host, "upload", lambda address, array: sent.append(array))
    monkeypatch.setattr(host, "launch", lambda *arguments, **options: None)
    monkeypatch.setattr(launch_module, "loaded", lambda *arguments: None)
    x = np.array([[1, 2, 3]], np.uint8)
    run_numpy(made("u4"), {"x": x})
    assert sent[0].tolist() == [0x21, 0x03]


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_arrays_of_packed_elements_are_refused(host, dtype):
    x, y = Device(np.zeros((2, 3), np.int8), typestr="|V1"), Device(np.zeros((2, 3), np.int32))
    assert "two elements to a byte" in refused("E0703", launch, made(dtype), {"x": x, "y": y}).message


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (17, 33)])
def test_packed_elements_on_the_gpu(dtype, shape):
    numpy_dtype, low, high = DTYPES[dtype]
    x = np.random.default_rng(1).integers(low, high, shape).astype(numpy_dtype)
    kernel = made(dtype, for_capability(driver().capability(0)).name)
    result = run_numpy(kernel, {"x": x})["y"]
    assert np.array_equal(result, x.astype(np.int32)) and np.array_equal(result, run_flat(kernel.plan, {"x": x}, {})["y"])
