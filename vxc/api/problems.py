"""A call that is to be tuned for, and its inputs in the memory of the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

import numpy as np

from vxc.api.calls import Calls, place_of, reachable
from vxc.api.devices import arch_of, cuda
from vxc.api.libraries import is_array, library_of
from vxc.binding import row_major
from vxc.diag import Diagnostic, VxcError
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.runtime.driver import Driver


@record
class Problem:
    """`views` are the arrays of the call by parameter, those that are not there yet left out; `host` has those that are NumPy's, which lie
    on the device only within `on_device`. `stream` is where the caller's work on them goes.
    """

    cuda: Driver
    device: int
    arch: str
    stream: int
    views: Mapping[str, ArrayView]
    scalars: Mapping[str, Any]
    host: Mapping[str, np.ndarray] = field(default_factory=dict)


def problem_of(given: Mapping[str, Any], calls: Calls, device: int) -> Problem:
    """Of arguments as `matched` gives them; `device` counts where all arrays are NumPy's. Raises `VxcError` E0603, E0703, E0704."""
    driver = cuda()
    arrays = {name: value for name, value in given.items() if is_array(value)}
    scalars = {name: value for name, value in given.items() if name not in arrays}
    views, target = calls.views(arrays), calls.target
    if arrays and all(isinstance(array, np.ndarray) for array in arrays.values()):
        packed = {name: replace(v, strides=row_major(v.shape)) for name, v in views.items()}
        return Problem(driver, device, target or arch_of(driver, device), 0, packed, scalars, arrays)
    for name, found in views.items():
        reachable(name, found, arrays[name])
    library = library_of(arrays.values())
    place = place_of(driver, arrays, views)
    stream = library.stream(library.imported)(place) if library else 0
    return Problem(driver, place, target or arch_of(driver, place), stream, views, scalars)


@contextmanager
def idle(problem: Problem) -> Iterator[None]:
    """The context of the device is current, and nothing of the caller's under way. Raises `VxcError` E0604, E0718."""
    driver = problem.cuda
    driver.adopt(problem.device)
    with driver.active(problem.device):
        if driver.capturing(problem.stream):
            message = "this is the first call of a tuned kernel with arrays of this class, and the stream is captured into a graph"
            raise VxcError(Diagnostic("E0718", message, help="make one such call before the capture, which tunes the kernel"))
        driver.synchronize(problem.stream)
        yield


@contextmanager
def on_device(problem: Problem) -> Iterator[Problem]:
    """The same with all arrays on the device, whose context is current, and nothing of the caller's under way on them.

    Raises `VxcError` E0604, E0718.
    """
    driver = problem.cuda
    with idle(problem):
        memory: dict[str, Any] = {}
        try:
            for name, array in problem.host.items():
                memory[name] = driver.allocate(array.nbytes)
                driver.upload(memory[name], np.ascontiguousarray(array))
            placed = {name: replace(v, ptr=int(memory[name])) if name in memory else v for name, v in problem.views.items()}
            yield replace(problem, views=placed)
        finally:
            for held in memory.values():
                driver.free(held)
