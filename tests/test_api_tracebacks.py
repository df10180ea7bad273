"""Errors of calls from Python end at the caller's own line: no frame of vxc, nothing of how it was found out. Faults of vxc keep theirs."""

from __future__ import annotations

import traceback

import numpy as np
import pytest
from fake_cuda import SHIFT, Tensor, floats
from tuning_kernels import SCALE

import vxc
from vxc.api import calls
from vxc.diag import Diagnostic, VxcError

INDEXED = "kernel pick(x: f32[N], at: i32, out y: f32[M]) { parallel i in M { y[i] = x[at]; } }"
WRONG = "kernel wrong(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = z[i]; } }"


def frames(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def tuned():
    return vxc.autotune(vxc.kernel(SCALE), B=[32, 64])


def undocumented():
    pass


CALLS = [
    ("load", lambda x: vxc.load("nowhere.vx")),
    ("load what is no path", lambda x: vxc.load(3)),
    ("kernel", lambda x: vxc.kernel("kernel (")),
    ("kernel of no text", lambda x: vxc.kernel(None)),
    ("kernel for no arch", lambda x: vxc.kernel(SHIFT, target="sm_3")),
    ("jit", lambda x: vxc.jit(undocumented)),
    ("jit with options", lambda x: vxc.jit(debug=True)(undocumented)),
    ("jit of no function", lambda x: vxc.jit(3)),
    ("elementwise", lambda x: vxc.elementwise("x", "x")),
    ("elementwise of no text", lambda x: vxc.elementwise("x: f32 -> f32", 3)),
    ("reduction", lambda x: vxc.reduction("x: f32 -> f32", "x", "total")(x)),
    ("call of a wrong kernel", lambda x: vxc.kernel(WRONG)(x)),
    ("call", lambda x: vxc.kernel(SHIFT)(x)),
    ("call on the CPU", lambda x: vxc.kernel(INDEXED, debug=True)(floats(2), 5, np.empty(3, np.float32), device="cpu")),
    ("bind", lambda x: vxc.kernel(SHIFT).bind(x)),
    ("define", lambda x: vxc.kernel(SHIFT).define(M=3)),
    ("compile", lambda x: vxc.kernel(SHIFT).compile((2, 2))),
    ("compile a wrong kernel", lambda x: vxc.kernel(WRONG).compile()),
    ("ir", lambda x: vxc.kernel(SHIFT).compile().ir("nothing")),
    ("as_torch_op", lambda x: vxc.kernel(SHIFT).as_torch_op("nothing")),
    ("autotune", lambda x: vxc.autotune(vxc.kernel(SCALE), Z=[1])),
    ("autotune of no kernel", lambda x: vxc.autotune(undocumented)),
    ("tuned call", lambda x: tuned()(3)),
    ("choose", lambda x: tuned().choose(3)),
    ("bind of a tuned kernel", lambda x: tuned().bind(3)),
    ("compile of a tuned kernel", lambda x: tuned().compile((4,))),
    ("load of a record", lambda x: tuned().load("nowhere.json")),
    ("export of a record", lambda x: tuned().export("nowhere/nothing.json")),
]


@pytest.mark.parametrize("call", [row[1] for row in CALLS], ids=[row[0] for row in CALLS])
def test_the_traceback_is_the_callers_own(torch, call):
    with pytest.raises(VxcError) as caught:
        call(Tensor(floats(4)))
    assert isinstance(caught.value, (vxc.CompileError, vxc.LaunchError))
    assert set(frames(caught.value)) == {__file__}
    shown = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in shown and "site-packages/vxc" not in shown and str(caught.value) in shown


def test_what_cuda_refuses_ends_at_the_call_too(torch, cuda):
    k, x = vxc.kernel(SHIFT), Tensor(floats(4))
    bound = k.bind(x, Tensor(floats(4)), 1)
    k(x, 1)
    for call in (lambda: k(x, 1), bound):
        cuda.fails += ["CUDA_ERROR_CONTEXT_IS_DESTROYED"] * 2
        with pytest.raises(vxc.LaunchError) as caught:
            call()
        assert set(frames(caught.value)) == {__file__}


def test_no_device_ends_at_the_call_too(cuda):
    cuda.devices = 0
    with pytest.raises(vxc.NoDeviceError) as caught:
        vxc.kernel(SHIFT)(floats(4), 1)
    assert set(frames(caught.value)) == {__file__}


def test_what_the_caller_was_handling_is_not_shown_as_if_it_were_the_cause(torch):
    try:
        raise KeyError("theirs")
    except KeyError:
        with pytest.raises(vxc.LaunchError) as caught:
            vxc.kernel(SHIFT)(Tensor(floats(4)))
    assert caught.value.__suppress_context__


def test_a_fault_of_vxc_keeps_its_frames(torch, monkeypatch):
    def fails(*_):
        raise RuntimeError("a fault")

    monkeypatch.setattr(calls, "place_of", fails)
    with pytest.raises(RuntimeError) as caught:
        vxc.kernel(SHIFT)(Tensor(floats(4)), 1)
    assert any(file.endswith("vxc/api/calls.py") for file in frames(caught.value))


def test_what_a_function_of_the_caller_raised_is_the_cause_with_its_frames():
    def constraint(B):
        raise ValueError("the caller's own")

    with pytest.raises(vxc.LaunchError) as caught:
        vxc.autotune(vxc.kernel(SCALE), B=[32], where=constraint)
    assert set(frames(caught.value)) == {__file__}
    assert frames(caught.value.__cause__)[-1] == __file__


def test_a_diagnostic_is_of_one_kind_wherever_it_passes():
    from vxc.api.errors import translated

    error = VxcError(Diagnostic("E0703", "refused", help="look"))
    with pytest.raises(vxc.LaunchError) as caught:
        with translated("outer"), translated("inner"):
            raise error
    assert caught.value is error and error.__notes__ == ["in the call of `inner`"]
