"""What a kernel of one line is: a family of kernels of the language, one for each form that its arrays have together (`broadcasting`), made
when a call first needs it.

All of a family take the same arguments in the same order, so one fast path serves all of them, as that of any kernel does. Where a call
says more than arrays do (other axes, a number for an array), it goes to another line, which is a family of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vxc.api.broadcasting import Form, Shape, looking
from vxc.api.calls import Calls, Fitted
from vxc.api.compiling import Specialiser, signatures
from vxc.api.dispatch import Dispatched
from vxc.api.errors import WrongTypeError, expect, translated
from vxc.api.kernels import Kernel
from vxc.api.lines import Line
from vxc.api.specialise import Recipe, Specialisation, dtype_of
from vxc.binding import brief
from vxc.diag import Diagnostic, VxcError, listed
from vxc.dtypes import DTYPES, DType
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.source import Source

if TYPE_CHECKING:
    from vxc.driver import Compiled

_NUMBER = (int, float, np.generic)
_LIMIT = 4096  # remembered shapes of a kernel
_AXIS, _KEEPDIMS, _OUT = "axis", "keepdims", "out"
_MOST = 64  # dimensions of an array of NumPy or torch


def axes_of(axis: Any) -> tuple[int, ...] | None:
    """What `axis` says, as a tuple. Raises `WrongTypeError`, and `VxcError` E0705 for what no array has."""
    if axis is None:
        return None
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    try:
        axes = tuple(map(operator.index, given))
    except Exception:  # TypeError, or what the type's own code raises
        axes = None
    if axes is None or any(isinstance(one, (bool, np.bool_)) for one in given):
        raise WrongTypeError(Diagnostic("E0709", f"`axis` is {brief(axis)}", help="give an int, a tuple of ints, or None for all"))
    if not all(-_MOST <= one < _MOST for one in axes):
        message = f"`axis` is {brief(axis)}, and arrays have {_MOST} dimensions at most"
        raise VxcError(Diagnostic("E0705", message, help="give ints that count them, from the last where negative, or None for all"))
    return axes


def kept_of(keepdims: Any) -> bool:
    expect("`keepdims`", keepdims, (bool, np.bool_), "True or False")
    return bool(keepdims)


@record
class Told:
    """A function of the kernel of a line for arrays of one form: what is wrong with that is told of the line."""

    function: Callable[..., Any]
    line: Line
    form: Form
    source: Source

    def __call__(self, *args: Any) -> Any:
        try:
            return self.function(*args)
        except VxcError as error:
            error.diagnostics = tuple(self.line.written(d, self.form) if d.source is self.source else d for d in error.diagnostics)
            raise


class Member(Calls):
    """The kernel of a line for arrays of one form."""

    def __init__(self, line: Line, form: Form, recipe: Recipe, target: str | None) -> None:
        (kernel,), _ = signatures(recipe.source)
        super().__init__(recipe, kernel.params, Told(Specialiser(recipe, kernel), line, form, recipe.source), target)

    def compiled(self, specialisation: Specialisation, target: str) -> Compiled:
        """As of any kernel."""
        return replace(self.specialise, function=super().compiled)(specialisation, target)


class Family(Calls):
    """The kernels of a line, by the form of their arrays."""

    apart = "pass an output of its own, or leave it out; a vxc.kernel with an `inout` parameter changes an array in place"

    def __init__(self, line: Line, recipe: Recipe, target: str | None) -> None:
        self.line, self._members = line, dict[Form, Calls]()
        self._outputs = [name for name, _ in line.outputs]
        self._fits: dict[tuple, tuple[Calls, Mapping[str, tuple[Shape, Shape]], Mapping[str, Shape]]] = {}
        named = replace(recipe, source=Source(f"<{line.name}>", line.text(line.usual())))
        super().__init__(named, line.signature.params, Specialiser(named, line.signature), target)

    def fitted(self, views: Mapping[str, ArrayView]) -> Fitted:
        """Of no arrays, the form of arrays of few dimensions. Raises `VxcError` E0705."""
        if not views:
            return Fitted(self._member(self.line.usual()), views, {})
        key = tuple((name, view.shape, view.strides) for name, view in views.items())
        found = self._fits.get(key)
        if found is None:
            form, looped, shape = self.line.fit(views)
            lies = {name: (view.shape, view.strides) for name, view in looped.items()}
            if len(self._fits) >= _LIMIT:
                self._fits.clear()
            found = self._fits[key] = self._member(form), lies, {name: shape for name, _ in self.line.outputs}
        member, known, shapes = found
        return Fitted(member, {name: looking(view, *known[name]) for name, view in views.items()}, shapes)

    def _member(self, form: Form) -> Calls:
        if form not in self._members:
            recipe = replace(self.recipe, source=replace(self.recipe.source, text=self.line.text(form)))
            return self._members.setdefault(form, Member(self.line, form, recipe, self.target))
        return self._members[form]

    def split(self, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """As for any kernel; `out=` are the outputs in their order."""
        return super().split(self.renamed(keywords))

    def renamed(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """`out=` by the names of outputs, if it is there. Raises `VxcError` E0708, E0709."""
        if _OUT not in keywords:
            return keywords
        names, given = self._outputs, keywords[_OUT]
        values = [given] if len(names) == 1 and not isinstance(given, (tuple, list)) else given
        if given is not None and (not isinstance(values, (tuple, list)) or len(values) != len(names)):
            outputs = f"{len(names)} output{'s' * (len(names) > 1)}"
            found = f"{type(given).__name__} of {len(given)}" if isinstance(given, (tuple, list)) else type(given).__name__
            hint = "pass the array" if len(names) == 1 else f"pass a tuple: {listed(f'`{name}`' for name in names)}"
            raise VxcError(Diagnostic("E0709", f"`{self.line.name}` has {outputs}, and `out` is a {found}", help=hint))
        outs = {} if given is None else dict(zip(names, values))
        for name in outs.keys() & keywords.keys():
            message = f"argument `{name}` of `{self.line.name}` is given twice, by name and as `out`"
            raise VxcError(Diagnostic("E0708", message, help="remove one of the two"))
        return {**{name: value for name, value in keywords.items() if name != _OUT}, **outs}

    def forget(self) -> None:
        super().forget()
        for member in self._members.values():
            member.forget()

    def out_shapes(self, arrays: Mapping[str, tuple[DType, Shape]], _: Mapping[str, Any]) -> dict[str, tuple[DType, Shape]]:
        """As `torch_ops.Shapes`: dtype and shape of each `out` array that is missing. Raises `VxcError` E0705, E0714."""
        shape = self.line.result({name: found for name, (_, found) in arrays.items()})
        known: dict[str, Any] = {kind: arrays[name][0] for name, kind in reversed(self.line.inputs) if name in arrays}
        known |= {**dict(self.recipe.defines), **DTYPES}
        for name, kind in self.line.outputs:
            if kind not in known:
                message = f"the dtype of `{name}` does not follow from the other arguments"
                raise VxcError(Diagnostic("E0714", message, help=f'give it with define({kind}="f32")'))
        return {name: (known[kind], shape) for name, kind in self.line.outputs if name not in arrays}


class OneLine(Kernel):
    """What `elementwise` and `reduction` give."""

    _calls: Family

    def __init__(self, line: Line, recipe: Recipe, target: str | None) -> None:
        Dispatched.__init__(self, line.signature, Family(line, recipe, target))
        self._kinds, self._arrays = dict(line.inputs), line.arrays
        self._open = [name for name, kind in line.inputs if name in line.scalars and kind not in DTYPES]
        self._usual = line.axis, line.keepdims, tuple((name, self._kinds[name]) for name in self._open)
        self._others: dict[tuple[tuple[int, ...] | None, bool, tuple[tuple[str, str], ...]], OneLine] = {}

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """As the line: what was compiled of it stays behind."""
        return OneLine, (self._calls.line, self._calls.recipe, self._calls.target)

    def _definable(self) -> tuple[set[str], bool]:
        return {name for name, _ in self._signature.generics}, True

    def _with(self, recipe: Recipe) -> OneLine:
        return OneLine(self._calls.line, recipe, self._calls.target)

    def _out_shapes(self) -> Callable[..., Any]:
        return self._calls.out_shapes

    def _general(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        with translated(self.name):
            kernel, keywords = self._meant(args, keywords)
        return super()._general(args, keywords) if kernel is self else kernel(*args, **keywords)

    def bind(self, /, *args: Any, **keywords: Any) -> Callable[[], Any]:
        """As `bind` of any kernel."""
        with translated(self.name):
            kernel, named = self._meant(args, keywords)
        return super().bind(*args, **named) if kernel is self else kernel.bind(*args, **named)

    def _meant(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[OneLine, Mapping[str, Any]]:
        """The kernel for a call, and the keywords that are left: another line where the call says `axis` or `keepdims`, has numbers for
        arrays, or has numbers of a type that the arrays decide.
        """
        line, said = self._calls.line, {**keywords}
        axis, keepdims = line.axis, line.keepdims
        if line.op and _AXIS in said and _AXIS not in self._calls.names:
            axis = axes_of(said.pop(_AXIS))
        if line.op and _KEEPDIMS in said and _KEEPDIMS not in self._calls.names:
            keepdims = kept_of(said.pop(_KEEPDIMS))
        given = {**dict(zip(self._kinds, args)), **said}
        numbers = [name for name in self._arrays if isinstance(given.get(name), _NUMBER)]
        numbers = [*numbers, *self._open] if len(numbers) < len(self._arrays) else []
        kinds = {name: self._kind(name, given) for name in numbers}
        key = axis, keepdims, tuple(kinds.items())
        if key == self._usual:
            return self, said
        if key not in self._others:
            inputs = tuple((name, kinds.get(name, kind)) for name, kind in line.inputs)
            other = replace(line, axis=axis, keepdims=keepdims, inputs=inputs, scalars=line.scalars.union(numbers))
            defines = tuple(define for define in self._calls.recipe.defines if define[0] in other.generics)
            self._others.setdefault(key, OneLine(other, replace(self._calls.recipe, defines=defines), self._calls.target))
        return self._others[key], said

    def _kind(self, name: str, given: Mapping[str, Any]) -> str:
        """The type of a number: that in which the arrays of its declared type are computed."""
        kind, calls = self._kinds[name], self._calls
        if kind not in DTYPES:
            alike = (given[other] for other in calls.line.arrays if self._kinds[other] == kind and other in given)
            like = next((array for array in alike if not isinstance(array, _NUMBER)), None)
            found = dict(calls.recipe.defines).get(kind) or dtype_of(getattr(like, "dtype", None))
            kind = found.name if isinstance(found, DType) else kind
        return DTYPES[kind].compute_name or kind if kind in DTYPES else kind
