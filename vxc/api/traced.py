"""Calls within a function that `torch.compile` compiles: kernels are called as they are, between two graphs; nothing of vxc is compiled.

That a kernel is part of a graph is what `as_torch_op` is for. Whether `torch.compile` is in use shows in what was imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_ADVICE = "a vxc kernel: call what its `as_torch_op` gives, which is part of the graph"


def unseen(function: F) -> F:
    """The function, of which, and of what it calls, nothing is compiled. For what takes its time anyway."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo.disable(function) if dynamo else function


def untraced(function: FunctionType) -> FunctionType:
    """The function, which is no part of a graph, nor compiled as one of its own. It costs calls nothing."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # as `torch._dynamo.disable` says it
    function._torchdynamo_disable_msg = _ADVICE  # type: ignore[attr-defined]
    try:
        frames = sys.modules["torch"]._C._dynamo.eval_frame
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)  # it, and what it calls
        frames.set_code_exec_strategy(function.__code__, skip)
    except (KeyError, AttributeError, TypeError):
        pass  # no torch, or one that has no such thing: it may compile what gains nothing by it
    return function
