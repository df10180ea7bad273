"""Is a configuration right? On a sample, the interpreter must find with it what is expected, and the device what the interpreter finds.

Expected is what the interpreter finds with the kernel as written, or what a reference gives: to the bit or, where a configuration changes
the order of sums, within the bound of `vxc.diff`. What the device gives must be that to the bit where the language fixes every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vxc.analysis.exactness import inexact
from vxc.api.building import checked
from vxc.api.calls import Calls
from vxc.api.errors import found_running
from vxc.api.host import dense_views
from vxc.api.libraries import host_view, is_array, view
from vxc.api.tune_arguments import Options
from vxc.api.tune_refusals import about, guarded, shown, untunable
from vxc.diag import VxcError, listed
from vxc.diff import compare, first_difference
from vxc.dtypes import DType, from_numpy
from vxc.inputs import Call, complete
from vxc.interp.flat_interp import run_flat
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.runtime.launch import run_numpy

OTHER_ORDER = frozenset({"another order of sums"})


@record
class Question:
    """What configurations are checked on, `on` in words, and what the reference gives there; None: what the kernel as written gives
    counts.
    """

    call: Call
    on: str
    expected: Mapping[str, np.ndarray] | None


def question_of(base: Calls, views: Mapping[str, ArrayView], options: Options) -> Question:
    """For arrays of these dtypes. Raises `VxcError` E0719 where nothing says what to check on, or the reference is no good."""
    call, on = (_example(base, views), "the example line") if options.sample is None else (_given(options.sample), "the sample")
    return Question(call, on, None if options.reference is None else _referred(base, call, options.reference))


def answer(base: Calls, variant: Calls, question: Question, arch: str, device: int | None) -> tuple[bool, str]:
    """Whether a configuration is right, and how that was found; without a device, by the interpreter alone. Raises `VxcError`."""
    with about(question.on):
        return _answer(base, variant, question, arch, device)


def _answer(base: Calls, variant: Calls, question: Question, arch: str, device: int | None) -> tuple[bool, str]:
    sample, written, by = question.call, None, "the reference"
    views = dense_views({name: view(array, name) for name, array in sample.arrays.items()})
    if question.expected is None:
        written, by = _interpreted(base.compiled(base.specialise(views), arch).tile, sample), "the kernel as written"
    made = variant.compiled(variant.specialise(views), arch)
    try:
        own = _interpreted(made.tile, sample)
    except VxcError as error:
        found = error.diagnostics[0]
        if not found_running(found.code):
            raise
        return False, f"wrong: interpreted, {found.code}: {found.message}"
    expected = written or {name: _converted(name, array, own[name].dtype) for name, array in (question.expected or {}).items()}
    for name, array in expected.items():
        if not array.size:
            raise untunable(f"`{name}` has no elements on the sample, so nothing of it is checked", "give a larger sample")
        if array.shape != own[name].shape:
            return False, f"wrong: `{name}` is of shape {own[name].shape}, and of {array.shape} by {by}"
    exact = first_difference(expected, own) is None
    differs = next((d for d in (compare(n, expected[n], own[n], OTHER_ORDER) for n in expected) if d), None)
    if differs:
        return False, f"wrong: interpreted, {differs}, by {by}"
    loose = inexact(made.tile)
    if device is not None:
        built = variant.built(variant.specialise(views), arch)
        got = run_numpy(built, sample.arrays, sample.scalars, dims=sample.dims, device=device)
        differs = first_difference(own, got, loose)
        if differs:
            return False, f"wrong: on the device, {differs}"
    return True, f"chosen, equal to {by} {'to the bit' if exact and not loose else 'within the bound'} on the sample"


def _given(sample: Mapping[str, Any]) -> Call:
    arrays = {name: value for name, value in sample.items() if isinstance(value, np.ndarray)}
    return Call(arrays, {name: value for name, value in sample.items() if name not in arrays}, {})


def _example(base: Calls, views: Mapping[str, ArrayView]) -> Call:
    """The example line of the kernel, its dtypes those of the call. Raises `VxcError` E0719 where there is none."""
    dtypes = {name: value for name, value in base.specialise(views).defines if isinstance(value, DType)}
    typed = checked(base.recipe, {**dtypes, **dict(base.recipe.defines)})
    if typed.example is None:
        way_out = "add an `example` line to the file, or pass sample=(x, ..), small NumPy arrays"
        raise untunable(f"nothing says on what to check configurations of `{base.recipe.name}`", way_out)
    return complete(typed)


def _interpreted(plan: Any, sample: Call) -> Mapping[str, np.ndarray]:
    return run_flat(plan, sample.arrays, sample.scalars, dims=sample.dims)


# ---- the reference ---------------------------------------------------------------------------------------------------


def _referred(base: Calls, sample: Call, reference: Callable[..., Any]) -> dict[str, np.ndarray]:
    """What a reference gives for the sample, by output. Raises `VxcError` E0719 for what is not as many arrays of numbers."""
    every = {**sample.arrays, **sample.scalars}
    inputs = [every[p.name].copy() if p.array else every[p.name] for p in base.params if p.mode != "out"]
    found = guarded("the reference", "it is called with the inputs of the sample, as NumPy arrays and numbers", reference, *inputs)
    names = [p.name for p in base.params if p.mode != "in"]
    several = isinstance(found, tuple) or isinstance(found, list) and len(names) > 1
    results = found if several else (found,)
    if len(results) != len(names):
        kind = type(found).__name__
        given, outputs = f"a {kind} of {len(found)}" if several else f"a {kind}", f"{len(names)} output{'s' * (len(names) != 1)}"
        hint = f"give {'an array' if len(names) == 1 else 'a tuple with an array for each'}: {listed(f'`{name}`' for name in names)}"
        raise untunable(f"the reference gives {given}, and `{base.recipe.name}` has {outputs}", hint)
    return {name: _numbers(name, result) for name, result in zip(names, results)}


def _numbers(name: str, result: Any) -> np.ndarray:
    what, way_out = f"what the reference gives for `{name}`", "give an array of ints, floats or bools"
    array = guarded(what, way_out, lambda: np.array(host_view(result, name) if is_array(result) else result, order="C"))
    if array.dtype.kind not in "biuf" and from_numpy(array.dtype) is None:
        raise untunable(f"{what} is {shown(result)}, of {array.dtype}", way_out)
    return array


def _converted(name: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """In the dtype of an output: floats are rounded, and beyond it infinite; ints must be what they are. Raises `VxcError` E0719."""
    with np.errstate(all="ignore"):
        found = array.astype(dtype)
        if not from_numpy(dtype).is_float and not np.array_equal(found.astype(object), array.astype(object)):
            raise untunable(f"what the reference gives for `{name}` is no array of {dtype}", f"round it, as with .astype('{dtype}')")
    return found
