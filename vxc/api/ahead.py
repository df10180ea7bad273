"""Compiling before there are arrays: what a user says of their shapes, and what he is given."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vxc.api.arguments import matched
from vxc.api.calls import Calls, Fitted
from vxc.api.errors import WrongTypeError, expect, translated
from vxc.api.libraries import offers
from vxc.api.signatures import Parameter, Signature
from vxc.api.specialise import Specialisation, dtype_of
from vxc.binding import Described, brief, row_major
from vxc.cuda.names import kernel_symbol
from vxc.cuda.nvrtc import Binary, Resources
from vxc.diag import Diagnostic, VxcError, listed
from vxc.dtypes import DTYPES, DType
from vxc.ir.ranges import MAX_DIM
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.schedule import check_described
from vxc.target import Target, target

if TYPE_CHECKING:
    from vxc import driver as compiler


@record
class ShapeDtype:
    """An array that is not there yet: its shape and dtype ("f32", or a NumPy or torch dtype), and whether it begins at a multiple of 16
    bytes, as those do that libraries allocate, and slices of them need not. Raises `LaunchError` E0704, E0705, E0709.
    """

    shape: tuple[int, ...]
    dtype: Any
    aligned: bool = True

    @translated()
    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _sizes("a ShapeDtype", self.shape))
        _dtype(self.dtype)
        expect("`aligned` of a ShapeDtype", self.aligned, bool, "True or False")


def views_of(kernel: Signature, shapes: Sequence[Any], named: Mapping[str, Any]) -> dict[str, ArrayView]:
    """The arrays that a user describes, by parameter; none at all where nothing is described. Raises `VxcError` E0704, E0705, E0708,
    E0709.
    """
    if not shapes and not named:
        return {}
    declared = {p.name: p for p in kernel.params}
    arrays = [p for p in kernel.params if p.array]
    found: dict[str, ArrayView] = {}
    _only_arrays(kernel, arrays, shapes, named)
    matches = matched(kernel.name, arrays, [*map(_Ahead, shapes)], {name: _Ahead(x) for name, x in named.items()})
    for name, given in matches.items():
        given.read(name)
    for name, given in matches.items():
        dtype = given.dtype or DTYPES.get(declared[name].dtype)
        if dtype is None:
            message = f"`{name}` is of the generic dtype {declared[name].dtype}, and its shape alone is given"
            raise VxcError(Diagnostic("E0704", message, help=f'pass vxc.ShapeDtype({given.shape}, "f32")'))
        address = 0 if given.aligned else dtype.bytes
        found[name] = ArrayView(address, given.shape, row_major(given.shape), dtype, dtype.bytes, False, "cuda")
    return found


_LARGEST = f"sizes are at most {MAX_DIM:,}"
_LOADED = "give `{}` to vxc.load, vxc.kernel or vxc.jit"
_ELSEWHERE = {"arch": "the keyword is `target`", "debug": _LOADED.format("debug"), "maxrregcount": _LOADED.format("maxrregcount")}


def _only_arrays(kernel: Signature, arrays: Sequence[Parameter], shapes: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuses shapes of scalars, and options that are not of `compile` (E0708)."""
    scalars = {p.name: p.text for p in kernel.params if not p.array}
    left_out = f"scalars are left out: the arrays are {listed(f'`{p.text}`' for p in arrays)}"
    for name in named:
        if name in scalars:
            message = f"`{name}` of `{kernel.name}` is a scalar, `{scalars[name]}`, and has no shape"
            raise VxcError(Diagnostic("E0708", message, help=left_out))
        if name in _ELSEWHERE and name not in {p.name for p in arrays}:
            raise VxcError(Diagnostic("E0708", f"`{kernel.name}` has no parameter `{name}`", help=_ELSEWHERE[name]))
    if len(shapes) > len(arrays):
        message = f"`{kernel.name}` has {len(arrays)} arrays, and {len(shapes)} shapes are given"
        raise VxcError(Diagnostic("E0708", message, help=left_out))


class _Ahead:
    """What `compile` is told of an array; it counts as one where arguments are matched to parameters."""

    __dlpack__ = None

    def __init__(self, given: Any) -> None:
        self._given = given

    def read(self, name: str) -> None:
        """Finds the shape and dtype, of the parameter `name`. Raises `VxcError` E0704, E0705, E0709."""
        given = self._given
        sized = offers(given, "shape")
        with _refusing(f"`{name}`", given):
            shape = given.shape if sized else given
        self.shape = _sizes(f"`{name}`", shape)
        self.dtype = _dtype(given.dtype) if sized else None
        self.aligned = not isinstance(given, ShapeDtype) or given.aligned


def _sizes(what: str, shape: Any) -> tuple[int, ...]:
    """The sizes of a shape, or of one size alone. Raises `VxcError` E0705, E0709."""
    with _refusing(what, shape):
        sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        if isinstance(shape, (Set, Mapping)) or any(isinstance(size, (bool, np.bool_)) for size in sizes):
            raise TypeError("in no order, or no number")
        found = tuple(map(operator.index, sizes))
    if min(found, default=0) < 0:
        raise VxcError(Diagnostic("E0705", f"the shape of {what} has a size of {brief(min(found))}", help="sizes are 0 or more"))
    if max(found, default=0) > MAX_DIM:
        raise VxcError(Diagnostic("E0705", f"the shape of {what} has a size of {brief(max(found))}", help=_LARGEST))
    return found


@contextmanager
def _refusing(what: str, shape: Any) -> Iterator[None]:
    """What is raised within says that this is no shape: a TypeError, or what the type's own code raises (E0709)."""
    try:
        yield
    except Exception:
        message = f"{what} is described by {brief(shape)}, which is no shape"
        hint = "give sizes that are ints, as in (64, 1000); scalars are left out"
        raise VxcError(Diagnostic("E0709", message, help=hint)) from None


def _dtype(given: Any) -> DType:
    """The dtype that a name, a NumPy dtype or a torch dtype stands for. Raises `VxcError` E0704."""
    found = dtype_of(given)
    if found is None:
        name = str(getattr(given, "name", given)).removeprefix("torch.")
        raise VxcError(Diagnostic("E0704", f"`{name}` is no dtype of kernels", help=f"they are {', '.join(DTYPES)}"))
    return found


class Compiled:
    """A kernel compiled for one target and one choice of what is constant, and of where arrays lie: those with `align=16` in `ir()` are
    to begin, with all their rows, at multiples of 16 bytes. Texts and machine code are made when first asked for, or taken from the cache.
    """

    def __init__(self, calls: Calls, specialisation: Specialisation, shapes: Mapping[str, tuple[int, ...]], arch: str) -> None:
        self._calls, self._what, self._shapes = calls, (specialisation, arch), shapes

    def __reduce__(self) -> tuple[Callable[..., Compiled], tuple[Any, ...]]:
        """Copied and pickled as what it is made of: texts and machine code are made, or taken from the cache, where they are asked for."""
        calls = self._calls
        return _again, ((calls.recipe, calls.params, calls.specialise, calls.target), self._what[0], self._shapes, self._what[1])

    def __repr__(self) -> str:
        return f"<vxc kernel {self._calls.recipe.name}, compiled for {self._what[1]}>"

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Says what to call."""
        name = self._calls.recipe.name
        with translated():
            message = f"what `{name}.compile` gives is machine code to look at, and is not called"
            hint = f"call the kernel, `{name}(..)`; this has .cuda, .ptx, .cubin and .resources"
            raise WrongTypeError(Diagnostic("E0709", message, help=hint))

    @property
    def made(self) -> compiler.Compiled:
        """What the compiler made, step by step. Raises `CompileError`."""
        with translated():
            return self._calls.compiled(*self._what)

    @property
    def _binary(self) -> Binary:
        return self._calls.built(*self._what).binary

    @property
    def target(self) -> Target:
        return target(self._what[1])

    @property
    def cuda(self) -> str:
        """The CUDA C++ text. Raises `CompileError`."""
        with translated():
            return self.made.cuda

    @property
    def ptx(self) -> str:
        """The PTX text. Raises `CompileError`."""
        with translated():
            return self._binary.ptx

    @property
    def cubin(self) -> bytes:
        """The machine code. Raises `CompileError`."""
        with translated():
            return self._binary.cubin

    @property
    def resources(self) -> dict[str, Resources]:
        """By kernel, what it uses: registers a thread, spilled bytes, all shared bytes of a block. Raises `CompileError`."""
        with translated():
            made = self._calls.built(*self._what)
            dynamic = {kernel_symbol(kernel.name): kernel.attr("shared_bytes", 0) for kernel in made.plan.kernels}
            return {name: replace(used, shared=used.shared + dynamic.get(name, 0)) for name, used in made.binary.kernels.items()}

    def ir(self, after: str | None = None) -> str:
        """The IR after lowering, or after a pass, or at the end (`"final"`). Raises `LaunchError` for a pass that did not run."""
        from vxc.api import shown

        with translated():
            return shown.ir(self.made, after)

    def explain(self) -> str:
        """What `vxc explain` says: every decision, line by line, and what it costs at the described sizes, else those of the `example`."""
        from vxc.api import shown

        with translated():
            return shown.explained(self.made, self._shapes)


def ranked(fit: Fitted) -> Fitted:
    """The same. Raises `VxcError` E0705 for an array of another number of dimensions than is declared."""
    for param in fit.calls.params:
        rank, given = len(param.dims), len(fit.views[param.name].shape) if param.name in fit.views else len(param.dims)
        if given != rank:
            message = f"`{param.name}` is described with {given} dimensions, and is declared with {rank}"
            raise VxcError(Diagnostic("E0705", message, help=f"give a shape of {rank} sizes"))
    return fit


def compiled_ahead(fit: Fitted, arch: str) -> Compiled:
    """Compiled now, so that what is wrong is said now; nothing is wrong with what is in the cache. Raises `VxcError`."""
    calls, views = fit.calls, fit.views
    specialisation = calls.specialise(views)
    described = {name: Described(view.shape, view.dtype.numpy_name) for name, view in views.items()}
    check_described(calls.plan(specialisation, arch), described, calls.recipe.source)
    return Compiled(calls, specialisation, {name: view.shape for name, view in views.items()}, arch)


def _again(calls: tuple[Any, ...], specialisation: Specialisation, shapes: Mapping[str, tuple[int, ...]], arch: str) -> Compiled:
    return Compiled(Calls(*calls), specialisation, shapes, arch)
