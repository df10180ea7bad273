"""How a call of a kernel finds its way: in full at first, and from then on by the fast path of the library that its arrays come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np

from vxc.api.arguments import matched
from vxc.api.calls import Calls, Checked
from vxc.api.devices import cuda, device_count, named_device
from vxc.api.errors import translated
from vxc.api.fronts import Front, writable
from vxc.api.libraries import Library, is_array
from vxc.api.prepared import CODES, ByStream
from vxc.api.signatures import Signature
from vxc.api.traced import unseen, untraced
from vxc.binding import fit_scalar
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import BOOL, DTYPES
from vxc.runtime.arrays import CPU


class Dispatched(partial):
    """What is called: a `functools.partial`, which passes a call on at the least cost, to the fast path or the full way."""

    def __new__(cls, *_: Any) -> Dispatched:
        return super().__new__(cls, _general)

    def __init__(self, signature: Signature, calls: Calls) -> None:
        self._signature, self._calls = signature, calls
        self._fronts: dict[str, Front] = {}
        self._install(None)
        _ALL.add(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Dispatched:
        """A kernel that is an attribute of a class is no method, whatever a `functools.partial` is in this Python."""
        return self

    def _install(self, front: Front | None) -> None:
        """From now on calls go to a fast path, or, with None, the full way."""

        def in_full(*args: Any, **keywords: Any) -> Any:
            with translated():
                return unseen(self._general)(args, keywords)

        self._installed = front
        self.__setstate__((front.call if front else untraced(in_full), (), {}, vars(self)))

    def _general(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        return _general(self, args, keywords)

    def _elsewhere(self, library: Library, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """What the fast path leaves where there are several devices: once more, with the device of its arrays current, if it was not."""
        array, current = next(filter(library.owns, args), None), library.current(library.imported)
        place = -1 if array is None or keywords else library.ordinal(array)
        if place >= 0 and place != current():
            with cuda().active(place):
                if current() == place:  # or it would come here again
                    return self(*args)
        return self._general(args, keywords)

    def _learn(self, library: Library, call: Checked) -> None:
        """Puts a call into the fast path for its library, which becomes that of the kernel."""
        front = self._fronts.get(library.module)
        if front is None or front.deciding != self._calls.deciding:
            scalars = {p.name: DTYPES.get(p.dtype) for p in self._calls.params if not p.array}
            if not writable(self._calls.params) or not all(dtype and dtype.name in CODES for dtype in scalars.values()):
                return  # a scalar of generic type is packed as each call has it
            if any(scalars[name].is_float for name in self._calls.deciding):
                return  # of a key they were no good part: 0.0 is -0.0 there
            packers = {name: _bool for name, dtype in scalars.items() if dtype is BOOL}
            place = cuda().device_of if device_count(cuda()) > 1 else None
            calls, left = self._calls, partial(self._elsewhere, library) if place and library.ordinal else self._general
            front = Front(calls.params, library, calls.deciding, packers, left, cuda().raw_launch(), place, calls.renamed)
            self._fronts[library.module] = front
        front.remember(dict(call.given), call.prepared)
        if front is not self._installed:
            self._install(front)

    def _forget(self) -> None:
        """Drops all that belongs to the CUDA contexts of this process."""
        self._calls.forget()
        self._fronts.clear()
        self._install(None)


def _bool(value: Any) -> int:
    """A bool as `struct` packs it, which would take any object for one. Raises ValueError."""
    fitted, problem = fit_scalar(value, BOOL)
    if problem:
        raise ValueError(problem)
    return int(fitted)


def _general(kernel: Dispatched, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A call in full."""
    calls = kernel._calls
    with translated(calls.recipe.name):
        keywords, options = calls.split(keywords)
        given = matched(calls.recipe.name, calls.params, args, keywords)
        if on_host(given, options):
            return away(calls, given, options)
        call = calls.checked(given, options.get("stream"))
        calls.run(call)
        if call.repeatable:
            kernel._learn(call.library, call)
    return result(call.outs)


def on_host(given: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether a call is one on arrays in CPU memory: all are NumPy's, or it says on which device to run."""
    arrays = [value for value in given.values() if is_array(value)]
    return options.get("device") is not None or bool(arrays) and all(isinstance(array, np.ndarray) for array in arrays)


def away(calls: Calls, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Such a call, interpreted or by copies."""
    from vxc.api.host import copied, interpreted

    with translated(calls.recipe.name):
        device = _host_device(options)
        return result(interpreted(calls, given) if device == CPU else copied(calls, given, device))


def bound_away(calls: Calls, given: Mapping[str, Any], options: Mapping[str, Any]) -> Callable[[], Any]:
    """A function that repeats such a call, which is checked now."""
    from vxc.api.host import check

    check(calls, given, _host_device(options))

    def again() -> Any:
        with translated():
            return unseen(away)(calls, given, options)

    return again


def _host_device(options: Mapping[str, Any]) -> str | int:
    """Where a call on arrays in CPU memory runs. Raises `VxcError` E0703, E0709."""
    if options.get("stream") is not None:
        hint = "leave it out: such a call ends when its results are there"
        raise VxcError(Diagnostic("E0709", "`stream` is for arrays on a device, and these are in CPU memory", help=hint))
    return named_device(options.get("device"))


def result(outs: Sequence[Any]) -> Any:
    """What a call gives: nothing, an array, or several."""
    return None if not outs else outs[0] if len(outs) == 1 else tuple(outs)


def bound(calls: Calls, call: Checked, *, fixed: bool) -> Callable[[], Any]:
    """A function that repeats a call, on its stream where that is `fixed`."""
    prepared, device, outs, library = call.prepared, call.device, result(call.outs), call.library
    module = library.imported if library else None
    stream = library.stream(module) if library and not fixed else {device: call.stream}.__getitem__  # which costs less than a lambda
    current = library.current(module) if library else cuda().current_device

    def in_full() -> Any:
        with translated(calls.recipe.name):
            calls.run(replace(call, stream=stream(device)))
            return outs

    if call.producers:
        return untraced(in_full)
    launches = ByStream(prepared.repeated(call.values))
    queue, launch, one = call.stream, launches[call.stream], device_count(cuda()) == 1

    def elsewhere() -> Any:
        """On another stream than that of the first call, on which CUDA may just have refused, or while another device is current."""
        now = stream(device)
        if now != queue and (one or current() == device) and not launches[now]():
            return outs
        return in_full()

    def again() -> Any:
        try:
            if stream(device) == queue and (one or current() == device) and not launch():
                return outs
            return elsewhere()
        except VxcError as error:
            error.__traceback__ = None  # as `translated` does, which costs more
            raise

    return untraced(again)


_ALL: WeakSet[Dispatched] = WeakSet()


def _forked() -> None:
    """In a forked process CUDA cannot be used: calls go the full way, which says so."""
    for kernel in list(_ALL):
        kernel._forget()


os.register_at_fork(after_in_child=_forked)
