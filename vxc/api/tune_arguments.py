"""The arguments of `vxc.autotune`, all checked here before anything is tuned, so that a later call meets none that make no sense."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from vxc.api.arguments import matched
from vxc.api.functions import gives_none
from vxc.api.libraries import host_view, is_array
from vxc.api.signatures import Parameter
from vxc.api.tune_refusals import about, shown, untunable
from vxc.diag import Diagnostic, VxcError
from vxc.record import record

_ROUNDS = 10_000  # at most: medians of more are no other, and each takes all that is left some milliseconds


@record
class Options:
    """`sample` are arguments to check on, by parameter, arrays as copies in CPU memory; None for the example line. `reference` takes its
    inputs and gives its outputs; after `seconds` no further configuration is tried.
    """

    sample: Mapping[str, Any] | None
    reference: Callable[..., Any] | None
    rounds: int
    seconds: float


def options_of(kernel: str, params: Sequence[Parameter], sample: Any, reference: Any, rounds: Any, seconds: Any) -> Options:
    """Raises `VxcError` E0719, and E0703, E0708 and E0709 for a sample that is no call of the kernel."""
    if reference is not None and (not callable(reference) or gives_none(reference)):
        said = gives_none(reference) if callable(reference) else shown(reference)
        raise untunable(f"`reference` is {said}", "give a function of the kernel's inputs that gives its outputs")
    with about("the sample"):
        own = _sample(kernel, params, sample)
    return Options(own, reference, _rounds(rounds), _seconds(seconds))


def axes_of(axes: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """The axes given as a mapping and those given by name, as one. Raises `VxcError` E0719."""
    if not isinstance(axes, Mapping) or not all(isinstance(name, str) for name in axes):
        raise untunable(f"the axes are {shown(axes)}", 'give values by names of generics, as in {"BM": [64, 128]} or BM=[64, 128]')
    for name in axes:
        if name in more:
            raise untunable(f"axis `{name}` is given twice, in the mapping and by name", "remove one of the two")
    return {**axes, **more}


def file_of(path: Any, code: str) -> Path:
    """A file that a user names. Raises `VxcError` of this code for what is no path."""
    if not isinstance(path, (str, Path)):
        raise VxcError(Diagnostic(code, f"a record of tuned kernels is named by {shown(path)}", help="give a str or pathlib.Path"))
    return Path(path)


def _rounds(given: Any) -> int:
    try:
        count = 0 if isinstance(given, (bool, np.bool_)) else operator.index(given)
    except TypeError:
        count = 0
    if not 1 <= count <= _ROUNDS:
        raise untunable(f"`rounds` is {shown(given)}", f"give an int from 1 to {_ROUNDS:,}")
    return count


def _seconds(given: Any) -> float:
    number = isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool)
    try:
        seconds = float(given) if number else nan
    except OverflowError:
        seconds = nan
    if not seconds >= 0:
        raise untunable(f"`seconds` is {shown(given)}", "give a number of 0 or more")
    return seconds


def _sample(kernel: str, params: Sequence[Parameter], given: Any) -> Mapping[str, Any] | None:
    if given is None:
        return None
    by_name = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
    if not by_name and not isinstance(given, (tuple, list)):
        raise untunable(f"`sample` is {shown(given)}", 'give the arguments of a small call, as in sample=(x, 2.0) or sample={"x": x}')
    values = matched(kernel, params, *(((), given) if by_name else (given, {})))
    return {name: _own(name, value) if is_array(value) else value for name, value in values.items()}


def _own(name: str, array: Any) -> np.ndarray:
    copied = np.array(host_view(array, name), order="C")
    if not copied.size:
        raise untunable(f"`{name}` of the sample has no elements, on which nothing can be checked", "give it some")
    return copied
