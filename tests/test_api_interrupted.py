"""Calls that end at any question to the driver, by Ctrl-C or because CUDA refuses: nothing is left, and the next is right."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT, Device, Tensor, content, floats

import vxc

QUESTIONS = (
    "device_count", "capability", "device_of", "is_foreign", "current_device", "adopt", "capturing", "stream_id", "allocate_async",
    "allocate", "upload", "download", "synchronize", "wait", "load", "function", "set_max_dynamic_shared", "launch_config", "launch",
)  # fmt: skip
CALLS = {
    "arrays": (SHIFT, lambda k: k(Tensor(floats(4)), 1)),
    "a program": (CHAIN, lambda k: k(Tensor(floats(4)), 1.0)),
    "NumPy": (SHIFT, lambda k: k(floats(4), 1)),
    "bound": (SHIFT, lambda k: k.bind(Tensor(floats(4)), 1)()),
    "an output of vxc": (SHIFT, lambda k: k(Device(floats(4)), 1, stream=3)),
}


class Stopped(KeyboardInterrupt):
    """As Ctrl-C in the middle of a call."""


@pytest.mark.parametrize("refused", [False, True], ids=["Ctrl-C", "CUDA refuses"])
@pytest.mark.parametrize(("text", "call"), CALLS.values(), ids=CALLS)
def test_a_call_that_ends_in_the_middle(torch, cuda, monkeypatch, text, call, refused):
    left, asked = [0], []

    def ending(name: str):
        original = getattr(cuda, name)

        def question(*args, **keywords):
            left[0] -= 1
            if not left[0]:
                asked.append(name)
                raise cuda.failed(name, "CUDA_ERROR_UNKNOWN") if refused else Stopped
            return original(*args, **keywords)

        return question

    for name in QUESTIONS:
        monkeypatch.setattr(cuda, name, ending(name))
    for at in range(1, 100):
        k, left[0], before = vxc.kernel(text), at, len(asked)
        try:
            call(k)
        except (Stopped, vxc.LaunchError) as error:
            assert len(asked) > before and "\n" not in str(error)
        left[0] = 0
        gc.collect()
        kept = [memory for memory in cuda.memory if text != CHAIN]  # workspaces stay for the calls to come
        assert not kept and not cuda.captured
        assert all(np.array_equal(content(call(k)), floats(4) + 1) for _ in range(3))
        gc.collect()
        if len(asked) == before:
            break
    assert at > 5 and len(set(asked)) > 3
