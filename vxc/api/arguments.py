"""Which argument of a Python call is which parameter of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vxc.api.libraries import is_array, on_device
from vxc.api.signatures import Parameter
from vxc.diag import Diagnostic, VxcError, listed, suggestion
from vxc.dtypes import DTYPES


def matched(kernel: str, params: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, in the order of the parameters.

    Positional arguments are all parameters, or all that are not `out`, or the first of them with the rest as keywords; an `out`
    that is missing, or None, is left out. An array of shape () in CPU memory is taken as its number where one is declared. Raises
    `VxcError` E0708 for what is missing, unknown or given twice, E0709 for an array where a number is declared, or the other way round,
    and for a number on a device.
    """
    declared = {p.name: p for p in params}
    for name in keywords:
        if name not in declared:
            fixed = any(name in (p.dtype, *p.dims) for p in params) and name not in DTYPES
            listing = f"its parameters are {listed(f'`{p.text}`' for p in params)}"
            hint = f"fix sizes and generics before: k.define({name}=..)" if fixed else suggestion(name, declared, listing)
            raise VxcError(Diagnostic("E0708", f"`{kernel}` has no parameter `{name}`", help=hint))
    names = [p.name for p in _positional(kernel, params, args, keywords)][: len(args)]
    for name in names:
        if name in keywords:
            message = f"argument `{name}` of `{kernel}` is given twice, by position and by name"
            raise VxcError(Diagnostic("E0708", message, help="remove one of the two"))
    given = {**dict(zip(names, args)), **keywords}
    values = {p.name: given[p.name] for p in params if p.name in given and not (p.mode == "out" and given[p.name] is None)}
    for p in params:
        if p.name not in values and p.mode != "out":
            raise VxcError(Diagnostic("E0708", f"argument `{p.name}` of `{kernel}` is missing", help=f"it is declared `{p.text}`"))
    return {name: _right_kind(declared[name], value) for name, value in values.items()}


def _positional(kernel: str, params: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[Parameter]:
    """The parameters that positional arguments go to."""
    inputs = [p for p in params if p.mode != "out"]
    if len(args) > len(params):
        text = f"`{kernel}` takes {len(params)} arguments, and {len(args)} are given by position"
        raise VxcError(Diagnostic("E0708", text, help=f"its parameters are {listed(f'`{p.text}`' for p in params)}"))
    for chosen in (params, inputs):
        names = {p.name for p in chosen[: len(args)]}
        if len(args) <= len(chosen) and not names & keywords.keys() and all(p.name in names or p.name in keywords for p in inputs):
            return chosen
    return inputs if len(args) == len(inputs) else params


def _right_kind(param: Parameter, value: Any) -> Any:
    """The argument, an array without dimensions that stands for a number as that number."""
    if param.array == is_array(value):
        return value
    if not param.array and _without_dimensions(value):
        if on_device(value, param.name):
            message = f"argument `{param.name}` is declared `{param.text}`, one number, and is given as an array on a device"
            hint = "reading it waits for the device: pass x.item(), or declare it as an array of one element"
            raise VxcError(Diagnostic("E0709", message, help=hint))
        if hasattr(value, "item"):
            return value[()] if isinstance(value, np.ndarray) and value.dtype.kind in "mM" else value.item()  # times are no numbers
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if param.array:
        hint = "pass an array of torch, CuPy, PyCUDA, Numba, JAX or NumPy, or anything with `__cuda_array_interface__` or `__dlpack__`"
        raise VxcError(Diagnostic("E0709", f"argument `{param.name}` is declared `{param.text}`, and a {kind} is no array", help=hint))
    message = f"argument `{param.name}` is declared `{param.text}`, one number, and an array ({kind}) is given"
    raise VxcError(Diagnostic("E0709", message, help="pass a Python number, such as x.item()"))


def _without_dimensions(value: Any) -> bool:
    try:
        return getattr(value, "shape", None) == ()
    except Exception:  # of the type's own code
        return False
