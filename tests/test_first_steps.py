"""What someone new to vxc from Python runs into first: each answer says what to write instead."""

from __future__ import annotations

import numpy as np
import pytest
from cli_tool import SAMPLES

import vxc
from vxc.explain.resources import resources_of

SUB = "kernel sub(a: f32[N], b: f32[N], out y: f32[N]) { parallel i in N { y[i] = a[i] - b[i]; } }"


def documented(text: str):
    """A function of these parameters whose docstring is the kernel `SUB`."""
    scope: dict = {}
    exec(f"def sub({text}): ...", scope)
    scope["sub"].__doc__ = SUB
    return scope["sub"]


SAME = ["a, b, y", "a, b", "a, b, y=None", "a, b, *, y", "a: float, b: 'any', /", "*args", "*args, **named"]


@pytest.mark.parametrize("parameters", SAME)
def test_a_decorated_function_takes_what_its_kernel_takes(parameters):
    a, b = np.float32([3, 5]), np.float32([1, 2])
    assert vxc.jit(documented(parameters))(a, b, device="cpu").tolist() == [2, 3]


@pytest.mark.parametrize("parameters", ["b, a, y", "b, a", "a", "a, b, y, z", "a, y", "a, b, out", "a, b, *args", "a, b, **named", ""])
def test_a_decorated_function_of_other_parameters_is_refused(parameters):
    with pytest.raises(vxc.LaunchError) as caught:
        vxc.jit(documented(parameters))
    assert f"`sub` takes ({parameters}), and the kernel `sub` of its docstring (a, b, y); write `def sub(a, b, y)`" in str(caught.value)


@pytest.mark.parametrize("parameters", ["a, b=1, y=None", "a, b=None", "a, b, y=0"])
def test_defaults_that_no_call_would_use_are_refused(parameters):
    with pytest.raises(vxc.LaunchError, match="gives `[by]` a default, and a kernel has none; remove `="):
        vxc.jit(documented(parameters))


@pytest.mark.parametrize("sample", ["gemm", "transpose", "softmax"])
def test_shared_bytes_are_those_that_explain_counts(sample):
    made = vxc.load(f"{SAMPLES}/{sample}.vx", target="sm_90a")
    made = getattr(made, sample).compile()
    counted = {name: used.shared_bytes for name, used in resources_of(made.made).items()}
    assert {name: used.shared for name, used in made.resources.items()} == counted
    assert (sample == "softmax") == (sum(counted.values()) == 0)
