"""Calls on NumPy arrays: by copies to a device and back, or interpreted."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from vxc.api.calls import Calls, Fitted, check_spread
from vxc.api.devices import arch_of, cuda, default_arch
from vxc.api.errors import UnwrittenWarning
from vxc.api.libraries import Library, host_view, is_array, library_of, torch_dtype
from vxc.api.signatures import Parameter
from vxc.binding import ArrayParam, row_major, signature
from vxc.diag import Diagnostic, VxcError, count
from vxc.dtypes import from_numpy
from vxc.interp.flat_interp import run_flat
from vxc.ir.plan import Plan
from vxc.runtime.arrays import CPU, ArrayView
from vxc.runtime.launch import check_overlap, check_writable, described, run_numpy
from vxc.schedule import bind_plan, schedule
from vxc.target import DEFAULT_ARCH

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def interpreted(calls: Calls, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Runs the plan on the interpreter, which also checks indices and asserts, on arrays in CPU memory; gives the `out` arrays."""
    arrays = _arrays(given, CPU)
    fit = calls.fitted(calls.views(arrays))
    made = fit.calls.compiled(fit.calls.specialise(copied_views(fit.views, fit.calls.params)), calls.target or DEFAULT_ARCH)
    _check_outputs(made.tile, fit.views, calls.apart)
    scalars = {name: value for name, value in given.items() if name not in arrays}
    with _within_memory():
        seen = _seen(arrays, fit)
        found = run_flat(made.tile, seen, scalars, source=made.source)
        results = _results(calls, given, seen, found, fit)
    for name, missing in ((name, n) for name, n in found.unwritten.items() if name not in arrays):  # those given keep what they held
        few = f"{missing:,} of {count(found[name].size, 'element')} of `{name}`"
        warnings.warn(f"{calls.recipe.name} stores nothing to {few}: they may hold anything", UnwrittenWarning, stacklevel=_caller())
    return results


def _caller() -> int:
    """How many frames above the function that asks who called the package is, as `warnings.warn` counts them."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def copied(calls: Calls, given: Mapping[str, Any], device: int = 0) -> tuple[Any, ...]:
    """Runs on a device, on copies of NumPy arrays; gives the `out` arrays."""
    driver = cuda()
    arrays = _arrays(given, device)
    fit = calls.fitted(calls.views(arrays))
    made = fit.calls.built(fit.calls.specialise(copied_views(fit.views, fit.calls.params)), calls.target or arch_of(driver, device))
    _check_outputs(made.plan, fit.views, calls.apart)
    scalars = {name: value for name, value in given.items() if name not in arrays}
    with _within_memory():
        seen = _seen(arrays, fit)
        return _results(calls, given, seen, run_numpy(made, seen, scalars, device=device), fit)


def check(calls: Calls, given: Mapping[str, Any], device: str | int) -> None:
    """Refuses what such a call refuses before it runs; no device is needed."""
    arrays = _arrays(given, device)
    fit = calls.fitted(calls.views(arrays))
    lying, arch = copied_views(fit.views, fit.calls.params), calls.target or (DEFAULT_ARCH if device == CPU else default_arch())
    plan = fit.calls.plan(fit.calls.specialise(lying), arch)
    _check_outputs(plan, fit.views, calls.apart)
    scalars = {name: value for name, value in given.items() if name not in arrays}
    declared = {p.name: p for p in signature(plan.params) if isinstance(p, ArrayParam)}
    schedule(plan, bind_plan(plan, described(lying, declared), scalars, source=calls.recipe.source), calls.recipe.source)


def _arrays(given: Mapping[str, Any], device: str | int) -> dict[str, np.ndarray]:
    """The arrays of a call, in CPU memory. Raises `VxcError` E0703."""
    arrays = {name: value for name, value in given.items() if is_array(value)}
    if device == CPU:
        return {name: host_view(array, name) for name, array in arrays.items()}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            kind = f"{type(array).__module__}.{type(array).__qualname__}"
            message = f"argument `{name}` is a {kind}, and `device=` says where NumPy arrays are copied"
            raise VxcError(Diagnostic("E0703", message, help="leave `device=` out for arrays on a device; move others there"))
    return arrays


@contextmanager
def _within_memory() -> Iterator[None]:
    """Says of arrays that are too large for this machine that they are (E0705)."""
    try:
        yield
    except MemoryError as error:
        raise VxcError(Diagnostic("E0705", f"an array does not fit into memory: {error}", help="use smaller sizes")) from None


def _check_outputs(plan: Plan, views: Mapping[str, ArrayView], apart: str) -> None:
    """What holds of outputs on a device holds of those that copies are written back to. Raises `VxcError` E0703, E0713."""
    declared = {p.name: p for p in signature(plan.params) if isinstance(p, ArrayParam)}
    for name, found in views.items():
        check_writable(declared[name], found)
        check_spread(name, found, declared[name].mode)
    check_overlap(views, declared, apart)


def copied_views(views: Mapping[str, ArrayView], params: Iterable[Parameter]) -> dict[str, ArrayView]:
    """As copies of the arrays lie: like `dense_views`, but for those that are declared with a pitch, which copies have, too."""
    pitched = {p.name for p in params if p.pitched and p.name in views}
    return {**dense_views(views), **{name: replace(views[name], ptr=0, strides=(*map(abs, views[name].strides),)) for name in pitched}}


def dense_views(views: Mapping[str, ArrayView]) -> dict[str, ArrayView]:
    """As copies of the arrays lie: NumPy's strides and addresses are no matter."""
    return {name: replace(v, ptr=0, strides=row_major(v.shape)) for name, v in views.items()}


def _seen(arrays: Mapping[str, np.ndarray], fit: Fitted) -> dict[str, np.ndarray]:
    """The arrays as the kernel declares them: the same memory."""
    strides = {name: [step * array.itemsize for step in fit.views[name].strides] for name, array in arrays.items()}
    return {name: as_strided(array, fit.views[name].shape, strides[name]) for name, array in arrays.items()}


def _results(
    calls: Calls, given: Mapping[str, Any], arrays: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], fit: Fitted
) -> tuple[Any, ...]:
    """What was computed, written into the arrays of the call; those that it left out are new ones, of the library of the others."""
    for name, value in found.items():
        if name in arrays:
            arrays[name][...] = value
    like = library_of(given.values())
    new = {n: array.reshape(fit.shapes.get(n, array.shape)) for n, array in found.items() if n not in given}
    return tuple(given[p.name] if p.name in given else _new(like, new[p.name]) for p in calls.params if p.mode == "out")


def _new(library: Library | None, array: np.ndarray) -> Any:
    if library is None or library.module != "torch":
        return array
    torch = library.imported
    plain = array.view(f"int{8 * array.itemsize}") if array.dtype.isbuiltin != 1 else array
    return torch.from_numpy(np.ascontiguousarray(plain).reshape(array.shape)).view(torch_dtype(torch, from_numpy(array.dtype)))
