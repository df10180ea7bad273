"""Calls from Python that are refused, on the driver in memory (`fake_cuda`): each says what is wrong, and the next call works."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from fake_cuda import FOREIGN, SECOND, SHIFT, Device, Tensor, floats
from numpy.lib.stride_tricks import as_strided

import vxc

BASE = floats(64)
MISUSES = [
    ("dtype", lambda k, x: k(Tensor(np.zeros(4)), 1), "array argument `x` holds float64, but f32 is declared"),
    ("rank", lambda k, x: k(Tensor(floats(2, 2)), 1), "`x` has 2 dimensions, but 1 declared"),
    ("shape", lambda k, x: k(x, Tensor(floats(3)), 1), "dimension 0 of `y` is 3, but dimension 0 of `x` makes N = 4"),
    ("raw elements", lambda k, x: k(Device(np.zeros(4, "V4")), 1), "`x` holds elements of 4 raw bytes, which no kernel reads; it is decl"),
    ("complex", lambda k, x: k(Device(np.zeros(4, np.complex64)), 1), "holds elements of complex64, which no kernel reads; it is declared"),
    ("byte order", lambda k, x: k(Device(np.zeros(4, ">f4")), 1), "`x` is in the other byte order (>f4); it is declared `x: f32[N]`; pass"),
    ("too many", lambda k, x: k(x, x, 1, 2), "takes 3 arguments, and 4 are given"),
    ("missing", lambda k, x: k(x), "argument `n` of `shift` is missing"),
    ("unknown", lambda k, x: k(x, 1, z=2), "no parameter `z`"),
    ("nearly known", lambda k, x: k(x, m=1), "its parameters are"),
    ("twice", lambda k, x: k(x, 1, x=x), "given twice"),
    ("no array", lambda k, x: k([1.0, 2.0], 1), "`x` is declared `x: f32[N]`, and a list is no array"),
    ("array for a number", lambda k, x: k(x, Tensor(floats(4)), x), "`n` is declared `n: i32`, one number, and an array"),
    ("float for an int", lambda k, x: k(x, 1.5), "`n` is i32, but 1.5 is not an integer"),
    ("text for an int", lambda k, x: k(x, "1"), "`n` is i32, but '1' is not an integer"),
    ("too large", lambda k, x: k(x, 2**31), "`n` is i32, but 2147483648 is outside -2147483648..2147483647"),
    ("CPU tensor", lambda k, x: k(Tensor(floats(4), -1), 1), "`x` lies in CPU memory (torch.Tensor)"),
    ("NumPy beside others", lambda k, x: k(x, floats(4), 1), "`y` lies in CPU memory (numpy.ndarray)"),
    ("a device array for the CPU", lambda k, x: k(x, 1, device="cpu"), "`x` lies on a CUDA device"),
    ("overlap", lambda k, x: k(Tensor(BASE[:4]), Tensor(BASE[3:7]), 1), "arguments `x` and `y` overlap in memory"),
    ("in place", lambda k, x: k(x, x, 1), "overlap in memory"),
    ("expanded output", lambda k, x: k(x, Tensor(as_strided(BASE, (4,), (0,))), 1), "several elements may be one place"),
    ("read-only", lambda k, x: k(x, Device(BASE[:4], data=(BASE.ctypes.data, True)), 1), "`y` is `out`, but the array is read-only"),
    ("misaligned", lambda k, x: k(x, Device(BASE[:4], data=(BASE.ctypes.data + 2, False)), 1), "is no multiple of its 4-byte elements"),
    ("freed", lambda k, x: k(Device(BASE[:4], data=(64, False)), 1), "`x` is at address 0x40, and CUDA knows of no memory there"),
    ("another context", lambda k, x: k(Device(BASE[:4], data=(FOREIGN[0], False)), 1), "`x` is memory of a CUDA context that is not the"),
    ("two devices", lambda k, x: k(x, Device(BASE[:4], data=(SECOND[0], False)), 1), "several devices: `x` on device 0, `y` on device 1"),
    ("no stream", lambda k, x: k(x, 1, stream="main"), "`stream` is a str"),
]  # fmt: skip


@pytest.mark.parametrize("way", ["first call", "fast path", "bind"])
@pytest.mark.parametrize(("call", "words"), [row[1:] for row in MISUSES], ids=[row[0] for row in MISUSES])
def test_misuse_is_refused_in_one_paragraph(torch, cuda, call, words, way):
    """With the parameter, what is expected of it and what was found; and what is right works as before."""
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    if way == "fast path":
        k(x, 1)
        k(x, Tensor(floats(4)), 1)
    cuda.log.clear()
    with pytest.raises(vxc.LaunchError) as caught:
        call(k if way != "bind" else lambda *args, **keywords: k.bind(*args, **keywords)(), x)
    text = str(caught.value)
    assert words in text and "\n" not in text and caught.value.diagnostics[0].help
    assert re.search("`[xynzm]`|`stream`|`shift` takes 3 arguments, and 4", text) and len(text) < 400
    assert not [line for line in cuda.log if line.startswith("shift")]
    assert np.array_equal(k(x, 1).array, x.array + 1)


def test_lazy_and_absent_memory_is_refused_also_on_the_fast_path(torch):
    k, one = vxc.kernel(SHIFT), Tensor(floats(1))
    k(one, 1), k(one, 1)
    one.negated = True
    with pytest.raises(vxc.LaunchError, match="lazy negation"):
        k(one, 1)
    x = Tensor(floats(4))
    k(x, 1)
    x.freed = True
    with pytest.raises(vxc.LaunchError, match="storage was freed"):
        k(x, 1)
    sparse = Tensor(floats(4))
    sparse.layout, sparse.is_contiguous = "sparse_coo", lambda: 1 / 0
    with pytest.raises(vxc.LaunchError, match="layout sparse_coo"):
        k(sparse, 1)


def test_a_first_call_is_refused_while_a_graph_is_captured(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    cuda.captured.add(0)
    with pytest.raises(vxc.LaunchError, match="first call of `shift` .* make one such call before the capture"):
        k(x, 1)
    assert not [line for line in cuda.log if line == "load"]
    cuda.captured.clear()
    k(x, 1)
    cuda.captured.add(0)
    assert np.array_equal(k(x, 1).array, x.array + 1)


def test_what_cuda_refuses_is_told(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    k(x, 1)
    cuda.fails += ["CUDA_ERROR_INVALID_CONTEXT"]  # the fast path's, which the full way mends
    assert np.array_equal(k(x, 1).array, x.array + 1)
    b = k.bind(x, y := Tensor(floats(4)), 1)
    for call in (lambda: k(x, 1), b):
        cuda.fails += ["CUDA_ERROR_CONTEXT_IS_DESTROYED"] * 2
        with pytest.raises(vxc.LaunchError, match="cuLaunchKernelEx failed: CUDA_ERROR_CONTEXT_IS_DESTROYED") as caught:
            call()
        assert "\n" not in str(caught.value) and caught.value.diagnostics[0].help
        assert np.array_equal(k(x, 2).array, x.array + 2)  # once the driver has a context again
    b()
    assert np.array_equal(y.array, x.array + 1)


def test_a_forked_process_says_so(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    k(x, 1), k(x, 1)
    child = os.fork()
    if not child:
        try:
            k(x, 1)
        except vxc.NoDeviceError as error:
            os._exit(7 if "before this process was forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert np.array_equal(k(x, 1).array, x.array + 1)


def test_no_device(cuda, monkeypatch):
    cuda.devices = 0
    with pytest.raises(vxc.NoDeviceError, match="finds no device"):
        vxc.kernel(SHIFT)(floats(4), 1)
