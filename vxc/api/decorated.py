"""Whether the function that `vxc.jit` decorates says of its arguments what the kernel in its docstring does."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FunctionType

from vxc.api.signatures import Signature
from vxc.diag import Diagnostic, VxcError

_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_parameters(function: FunctionType, kernel: Signature) -> None:
    """Refuses a function (E0709) whose parameters are not those of the kernel in their order, all or all that are not `out`, for a reader
    of its first line would pass other arguments; one with `*args` or `**kwargs` alone says nothing of them. A default is refused, which a
    call would not use, but None for an `out`, which may be left out. Annotations are for readers and type checkers, and not looked at.
    """
    found = [*inspect.signature(function).parameters.values()]
    if found and all(p.kind in _ANY for p in found):
        return
    mine, all_of, inputs = [p.name for p in found], [p.name for p in kernel.params], [p.name for p in kernel.params if p.mode != "out"]
    if mine not in (all_of, inputs) or any(p.kind in _ANY for p in found):
        wanted = f"({', '.join(all_of)})"
        message = f"the function `{function.__name__}` takes {_listed(found)}, and the kernel `{kernel.name}` of its docstring {wanted}"
        hint = f"write `def {function.__name__}{wanted}`, or `(*args)`: arguments go to the parameters of the kernel in their order"
        raise VxcError(Diagnostic("E0709", message, help=hint))
    outputs = {p.name for p in kernel.params if p.mode == "out"}
    for p in found:
        if p.default is not p.empty and not (p.name in outputs and p.default is None):
            message = f"the function `{function.__name__}` gives `{p.name}` a default, and a kernel has none"
            raise VxcError(Diagnostic("E0709", message, help=f"remove `={p.default!r}`; an `out` may be left out, and have None"))


def _listed(params: Sequence[inspect.Parameter]) -> str:
    stars = dict(zip(_ANY, ("*", "**")))
    return f"({', '.join(stars.get(p.kind, '') + p.name for p in params)})"
