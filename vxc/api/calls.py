"""Calls in full: every check, in the order in which one finding makes the next one pointless. The fast path repeats what passed here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from vxc.api.compiling import Built, built, compiled, remembered
from vxc.api.devices import arch_of, cuda, device_of
from vxc.api.libraries import Library, is_array, library_of, maker, ordinal, view
from vxc.api.prepared import Extent, Out, Prepared
from vxc.api.signatures import Parameter
from vxc.api.specialise import Recipe, Specialisation
from vxc.binding import ArrayParam, bind_scalars, row_major, signature
from vxc.cuda.names import kernel_symbol
from vxc.diag import Diagnostic, VxcError
from vxc.ir.plan import Plan
from vxc.record import record
from vxc.runtime.arrays import CPU, ArrayView
from vxc.runtime.driver import Driver
from vxc.runtime.launch import APART, check_addresses, check_limits, check_overlap, check_view, described
from vxc.runtime.streams import stream_handle
from vxc.schedule import bind_plan, schedule
from vxc.target import VECTOR
from vxc.target import target as target_of

if TYPE_CHECKING:
    from vxc.driver import Compiled

Specialise = Callable[[Mapping[str, ArrayView]], Specialisation]
_OPTIONS = ("stream", "device")
_LIMIT = 4096  # prepared calls of a kernel


@record
class Checked:
    """A checked call on a device. `values` are addresses and scalars as `Prepared.run` takes them, `outs` the `out` arrays; `library` is
    that of the first array that has one, and `repeatable` says that calls like this may take its fast path.
    """

    given: Mapping[str, Any]
    device: int
    stream: int
    producers: tuple[int, ...]
    prepared: Prepared
    values: tuple[Any, ...]
    outs: tuple[Any, ...]
    library: Library | None
    repeatable: bool


@record
class Fitted:
    """The arrays of a call as a kernel declares them. `calls` are those of that kernel; `shapes` has the shape of each missing output that
    is allocated otherwise than it is declared.
    """

    calls: Calls
    views: Mapping[str, ArrayView]
    shapes: Mapping[str, tuple[int, ...]]


class Calls:
    """What one kernel has compiled and prepared. Threads that need the same at once wait for the first, which makes it. `renamed` gives
    keywords the names of parameters, where they may have others; `apart` is what is said of arrays that overlap.
    """

    renamed: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    apart = APART

    def __init__(self, recipe: Recipe, params: Sequence[Parameter], specialise: Specialise, target: str | None) -> None:
        self.recipe, self.params, self.specialise, self.target = recipe, tuple(params), specialise, target
        self.names = frozenset(p.name for p in self.params)
        self.deciding: frozenset[str] = frozenset()  # scalars that are part of the key
        self._compiled: dict[tuple[Specialisation, str], Compiled] = {}
        self._built: dict[tuple[Specialisation, str], Built] = {}
        self._prepared: dict[tuple, Prepared] = {}
        self.making = RLock()  # held by the thread that compiles or prepares
        _ALL.add(self)

    def split(self, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments by name, and options of the call; a parameter that is called as an option is the parameter."""
        options = {name: value for name, value in keywords.items() if name in _OPTIONS and name not in self.names}
        return {name: value for name, value in keywords.items() if name not in options}, options

    def views(self, arrays: Mapping[str, Any], stream: int = 0) -> dict[str, ArrayView]:
        """What arrays are and where they lie, by parameter. Raises as `libraries.view`."""
        found = {}
        for name, array in arrays.items():
            try:
                found[name] = view(array, name, stream)
            except VxcError as error:
                declared = next(p.text for p in self.params if p.name == name)
                error.diagnostics = tuple(
                    replace(d, notes=(*d.notes, f"it is declared `{declared}`")) if d.code == "E0704" else d for d in error.diagnostics
                )
                raise
        return found

    def fitted(self, views: Mapping[str, ArrayView]) -> Fitted:
        """An array of no dimensions has one element: it is taken with as many dimensions as are declared, each of size 1."""
        ranks = {p.name: len(p.dims) for p in self.params if p.name in views and not views[p.name].shape}
        ones = {name: replace(views[name], shape=(1,) * rank, strides=(1,) * rank) for name, rank in ranks.items()}
        return Fitted(self, {**views, **ones} if ones else views, {})

    def compiled(self, specialisation: Specialisation, target: str) -> Compiled:
        """From what was compiled before, else newly. Raises `VxcError`."""
        key = (specialisation, target)
        with self.making:
            if key not in self._compiled:
                self._compiled[key] = compiled(self.recipe, specialisation, target)
            return self._compiled[key]

    def remembered(self, specialisation: Specialisation, target: str) -> bool:
        """Whether `built` need compile nothing."""
        key = (specialisation, target)
        if key not in self._built:
            found = remembered(self.recipe, specialisation, target)
            if found:
                self._built[key] = found
        return key in self._built

    def built(self, specialisation: Specialisation, target: str) -> Built:
        """What can be launched: from what was built before, here or in an earlier process, else newly. Raises `VxcError`."""
        with self.making:
            if not self.remembered(specialisation, target):
                made = built(self.recipe, specialisation, target, lambda: self.compiled(specialisation, target))
                self._built[specialisation, target] = made
            return self._built[specialisation, target]

    def plan(self, specialisation: Specialisation, target: str) -> Plan:
        """The plan, for its parameters and entries, without making machine code. Raises `VxcError`."""
        known = self.remembered(specialisation, target)
        return self._built[specialisation, target].plan if known else self.compiled(specialisation, target).tile

    def forget(self) -> None:
        """Drops what belongs to the CUDA contexts of this process."""
        self._prepared.clear()

    def checked(self, given: Mapping[str, Any], stream: Any = None) -> Checked:
        """Checks a call on device arrays, its arguments as `matched` gives them, compiling what it needs. Raises `VxcError`."""
        driver = cuda()
        arrays = {name: value for name, value in given.items() if is_array(value)}
        library = library_of(arrays.values())
        asked = None if stream is None else stream_handle(stream)
        views = self.views(arrays, asked or 0)
        for name, found in views.items():
            reachable(name, found, arrays[name])
        device = place_of(driver, arrays, views)
        queue = asked if asked is not None else library.stream(library.imported)(device) if library else 0
        scalars = {name: value for name, value in given.items() if name not in views}
        fit = self.fitted(views)
        driver.adopt(device)
        prepared = fit.calls._find(driver, device, queue, fit, scalars)
        outs = {}
        if prepared.outs:
            with driver.active(device):
                outs = {o.name: maker([*arrays.values()], o.name, o.shape, o.dtype, device, stream)() for o in prepared.outs}
            views |= {name: view(array, name) for name, array in outs.items()}
            fit = self.fitted(views)
            if not all(views[name].ptr % VECTOR == 0 for name in outs):  # of an allocator that gives less
                prepared = fit.calls._find(driver, device, queue, fit, scalars)
        self.deciding |= fit.calls.deciding
        declared = prepared.declared
        placed = {name: found.upwards for name, found in fit.views.items()}
        for name, param in declared.items():
            check_view(param, placed[name])
        check_addresses(prepared.arrays, placed)
        check_overlap(placed, declared, self.apart)
        fitted = bind_scalars(prepared.params, scalars, self.recipe.source)
        values = (*(placed[name].ptr for name in declared), *(fitted[p.name] for p in prepared.params if p.name in fitted))
        producers = tuple({_handle(v.stream) for v in views.values() if v.stream is not None} - {queue})
        every = {**arrays, **outs}
        results = tuple(every[p.name] for p in self.params if p.mode == "out")
        repeatable = not producers and stream is None and _of_one(library, arrays.values())
        return Checked(given, device, queue, producers, prepared, values, results, library, repeatable)

    def run(self, call: Checked) -> None:
        """Enqueues a checked call. Raises `VxcError` E0604 where CUDA refuses."""
        driver = cuda()
        with driver.active(call.device):
            for producer in call.producers:
                driver.wait(call.stream, producer)
            status = call.prepared.run(call.values, call.stream)
        if status != 0:
            raise driver.refused(status)

    def _find(self, driver: Driver, device: int, queue: int, fit: Fitted, scalars: Mapping[str, Any]) -> Prepared:
        """What an earlier call with such arguments prepared, else newly made."""
        found = self._prepared.get(self._key(device, fit, scalars))
        if found is not None:
            return found
        with driver.active(device):
            if driver.capturing(queue):
                message = f"this is the first call of `{self.recipe.name}` with such arguments, and the stream is captured into a graph"
                hint = "make one such call before the capture, which compiles the kernel and loads it"
                raise VxcError(Diagnostic("E0718", message, help=hint))
            with self.making:
                found = self._prepared.get(self._key(device, fit, scalars))  # which another thread may have made meanwhile
                return found or self._made(driver, device, fit, scalars)

    def _made(self, driver: Driver, device: int, fit: Fitted, scalars: Mapping[str, Any]) -> Prepared:
        made = self._prepare(driver, device, fit, scalars)
        self.deciding |= made.deciding
        if len(self._prepared) >= _LIMIT:
            self._prepared.clear()
        self._prepared[self._key(device, fit, scalars)] = made
        return made

    def _key(self, device: int, fit: Fitted, scalars: Mapping[str, Any]) -> tuple:
        views = fit.views.items()
        arrays = tuple((n, v.shape, v.strides, v.dtype, v.itemsize, v.readonly, v.span[0] % VECTOR == 0) for n, v in views)
        return device, arrays, tuple(fit.shapes.items()), tuple((name, repr(scalars.get(name))) for name in sorted(self.deciding))

    def _prepare(self, driver: Driver, device: int, fit: Fitted, scalars: Mapping[str, Any]) -> Prepared:
        views = fit.views
        for name, found in views.items():
            check_spread(name, found, next(p.mode for p in self.params if p.name == name))
        made = self.built(self.specialise(views), self.target or arch_of(driver, device))
        views = {name: found.upwards for name, found in views.items()}
        params = signature(made.plan.params)
        declared = {p.name: p for p in params if isinstance(p, ArrayParam)}
        binding = bind_plan(made.plan, described(views, declared), scalars, source=made.source)
        outs = [Out(name, _whole(name, binding.shapes[name]), p.dtype) for name, p in declared.items() if name not in views]
        if outs:  # dense as they will be, they must fit the declaration
            new = {o.name: ArrayView(0, o.shape, row_major(o.shape), o.dtype, o.dtype.bytes, False, "cuda") for o in outs}
            views = {**views, **new}
            binding = bind_plan(made.plan, described(views, declared), scalars, source=made.source)
        calls = schedule(made.plan, binding, made.source)
        for step in calls.launches:
            check_limits(step, made.binary.kernels.get(kernel_symbol(step.kernel.name)), target_of(made.binary.arch))
        extents = [_extent(name, fit.views.get(name, views[name])) for name in declared]
        outs = [replace(o, shape=fit.shapes.get(o.name, o.shape)) for o in outs]
        return Prepared(driver, device, made.plan, made.binary, calls, extents, outs)


_ALL: WeakSet[Calls] = WeakSet()


def _forked() -> None:
    """In a forked process no other thread is left that could give back what it held."""
    for calls in list(_ALL):
        calls.making = RLock()


os.register_at_fork(after_in_child=_forked)


def _of_one(library: Library | None, arrays: Iterable[Any]) -> bool:
    return library is not None and all(map(library.owns, arrays))


def _whole(name: str, shape: Sequence[int | None]) -> tuple[int, ...]:
    if None in shape:
        message = f"argument `{name}` is missing, and its shape does not follow from the other arguments"
        raise VxcError(Diagnostic("E0714", message, help=f"pass `{name}`"))
    return tuple(n for n in shape if n is not None)


def _extent(name: str, found: ArrayView) -> Extent:
    low, high = found.span
    return Extent(name, low - found.ptr, high - found.ptr)


def _handle(stream: int) -> int:
    """The CUDA array interface writes 1 for the legacy default stream."""
    return 0 if stream == 1 else stream


def place_of(driver: Driver, arrays: Mapping[str, Any], views: Mapping[str, ArrayView]) -> int:
    """The device that all arrays lie on; where all are empty, that which the first says it is on, else the current one. Raises E0703."""
    said = {name: place for name, array in arrays.items() if (place := ordinal(array)) is not None}
    return device_of(driver, views, said, next(iter(said.values()), driver.current_device()))


def reachable(name: str, found: ArrayView, array: Any) -> None:
    """Refuses an array in CPU memory (E0703)."""
    if found.device == CPU:
        kind = f"{type(array).__module__}.{type(array).__qualname__}"
        message = f"argument `{name}` lies in CPU memory ({kind}), and a kernel on the GPU reaches that of its device only"
        hint = 'move it to the device, or run on the CPU with device="cpu"; NumPy arrays are copied there and back if all arrays are'
        raise VxcError(Diagnostic("E0703", message, help=hint))


def check_spread(name: str, found: ArrayView, mode: str) -> None:
    """Refuses an output of which several elements are in one place (E0713)."""
    steps = sorted((abs(stride), extent) for stride, extent in zip(found.strides, found.shape) if extent > 1)
    reach = 1
    for stride, extent in steps if mode != "in" and found.size else ():
        if stride < reach:
            message = f"argument `{name}` is `{mode}`, and with strides {list(found.strides)} several elements may be one place in memory"
            raise VxcError(Diagnostic("E0713", message, help="pass an array of its own, not an expanded or overlapping view"))
        reach += (extent - 1) * stride
