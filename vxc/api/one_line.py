"""`vxc.elementwise` and `vxc.reduction`: kernels of one line over arrays of any shapes that NumPy would broadcast.

Each is a family of kernels of the language, one for each form that arrays have together (`broadcasting`), made when a call first needs
it. All take the same arguments in the same order, so one fast path serves all of them, as that of any kernel does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vxc.api.authoring import register_cap
from vxc.api.broadcasting import Form, Shape, looking
from vxc.api.calls import Calls, Fitted
from vxc.api.compiling import Specialiser, signatures
from vxc.api.devices import arch_named
from vxc.api.dispatch import Dispatched
from vxc.api.errors import WrongTypeError, expect, translated
from vxc.api.kernels import Kernel
from vxc.api.lines import Line, read_signature
from vxc.api.specialise import Recipe
from vxc.binding import brief
from vxc.diag import Diagnostic, VxcError, listed
from vxc.dtypes import DTYPES, DType
from vxc.runtime.arrays import ArrayView
from vxc.source import Source
from vxc.target import Target

Axis = int | Sequence[int] | None
_NUMBER = (int, float, np.generic)
_LIMIT = 4096  # remembered shapes of a kernel
_AXIS, _KEEPDIMS, _OUT = "axis", "keepdims", "out"


def elementwise(
    signature: str, expression: str | Sequence[str], *, name: str = "elementwise", target: str | Target | None = None
) -> Kernel:
    """A kernel over arrays that broadcast: `vxc.elementwise("x: f32, y: f32 -> f32", "x * x + y")`; its output is `result`.

    Arrays may have any number of dimensions, none too, and sizes of 1, as for NumPy; the result has the shape of all together, and an
    output that is given must have it (`out=`, or by its name or place). Those of one shape without gaps are one flat dimension.
    `a: scalar f32` declares a number; a number is also taken for an array. A capital letter is any dtype, the same wherever it
    stands: `"x: T, y: T -> T"`. Several outputs have an expression each, and may have names:
    `vxc.elementwise("x: f32, y: f32 -> s: f32, d: f32", ("x + y", "x - y"))`.

    Raises `CompileError` for what is wrong with the text, and `LaunchError` E0705 when called with arrays that do not broadcast.
    """
    with translated():
        return _made("elementwise", signature, expression, name, target)


def reduction(
    signature: str,
    expression: str | Sequence[str],
    op: str = "sum",
    *,
    axis: Axis = -1,
    keepdims: bool = False,
    name: str = "reduction",
    target: str | Target | None = None,
) -> Kernel:
    """A kernel that reduces what an expression gives: `vxc.reduction("x: f32, y: f32 -> f32", "x * y")`, of [M, N] the sums of M rows.

    `op` is a reduction of the language: sum, prod, max, min, absmax, any, all, argmax, argmin (which counts in the dimensions that are
    reduced, the first outermost, and gives i64). `axis` is an int or several, from the last where negative, or None for all; `keepdims`
    leaves them with size 1. A call may say otherwise: `k(x, axis=None)`. Where nothing is reduced the result is the language's: 0 for
    sum, -inf for max. Signature, expressions, shapes and errors as for `elementwise`; the output is `result`.
    """
    with translated():
        expect("the `op` of vxc.reduction", op, str, "a str such as 'sum'")
        return _made("reduction", signature, expression, name, target, op=op, axis=_axes(axis), keepdims=_kept(keepdims))


def _made(function: str, signature: Any, expression: Any, name: str, target: str | Target | None, **more: Any) -> Kernel:
    expect(f"the `signature` of vxc.{function}", signature, str, "a str such as 'x: f32, y: f32 -> f32'")
    wanted = "a str such as 'x * y'"
    expect(f"the `expression` of vxc.{function}", expression, (str, tuple, list), wanted)
    expressions = (expression,) if isinstance(expression, str) else tuple(expression)
    for one in expressions:
        expect(f"an `expression` of vxc.{function}", one, str, wanted)
    inputs, scalars, outputs = read_signature(signature)
    if len(outputs) != len(expressions):
        message = f"the signature `{signature}` has {len(outputs)} outputs, and there are {len(expressions)} expressions"
        raise VxcError(Diagnostic("E0107", message, help="give an expression for each output, as in ('x + y', 'x - y')"))
    line = Line(name, inputs, scalars, outputs, expressions, **more)
    cap = register_cap(None)
    return OneLine(line, Recipe(Source("", ""), name, maxrregcount=cap, alone=True), arch_named(target))


def _axes(axis: Any) -> tuple[int, ...] | None:
    """What `axis` says, as a tuple. Raises `WrongTypeError`."""
    try:
        if axis is None:
            return None
        given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        if not any(isinstance(one, (bool, np.bool_)) for one in given):
            return tuple(map(operator.index, given))
    except Exception:  # TypeError, or what the type's own code raises
        pass
    raise WrongTypeError(Diagnostic("E0709", f"`axis` is {brief(axis)}", help="give an int, a tuple of ints, or None for all"))


def _kept(keepdims: Any) -> bool:
    expect("`keepdims`", keepdims, (bool, np.bool_), "True or False")
    return bool(keepdims)


class Family(Calls):
    """The kernels of a line, by the form of their arrays."""

    def __init__(self, line: Line, recipe: Recipe, target: str | None) -> None:
        self.line, self._members = line, dict[Form, Calls]()
        self._fits: dict[tuple, tuple[Calls, Mapping[str, tuple[Shape, Shape]], Mapping[str, Shape]]] = {}
        named = replace(recipe, source=Source(f"<{line.name}>", line.text(line.usual())))
        signatures(named.source)  # what is wrong with the expression is said at once
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
        member, lies, shapes = found
        return Fitted(member, {name: looking(view, *lies[name]) for name, view in views.items()}, shapes)

    def _member(self, form: Form) -> Calls:
        if form not in self._members:
            source = replace(self.recipe.source, text=self.line.text(form))
            (kernel,), _ = signatures(source)
            recipe = replace(self.recipe, source=source)
            self._members[form] = Calls(recipe, kernel.params, Specialiser(recipe, kernel), self.target)
        return self._members[form]

    def split(self, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """As for any kernel; `out=` are the outputs in their order."""
        return super().split(self.renamed(keywords))

    def renamed(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """`out=` by the names of outputs, if it is there. Raises `VxcError` E0708, E0709."""
        if _OUT not in keywords:
            return keywords
        names, given = [name for name, _ in self.line.outputs], keywords[_OUT]
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
        self._others: dict[tuple[tuple[int, ...] | None, bool, frozenset[str]], OneLine] = {}
        self._inputs, self._arrays = [name for name, _ in line.inputs], frozenset(line.arrays)

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """As the line: what was compiled of it stays behind."""
        recipe = self._calls.recipe
        named = {name: value.name if isinstance(value, DType) else value for name, value in recipe.defines}
        return _again, (self._calls.line, replace(recipe, defines=()), named, self._calls.target)

    def _definable(self) -> tuple[set[str], bool]:
        return {name for name, _ in self._signature.generics}, True

    def _with(self, recipe: Recipe) -> OneLine:
        return OneLine(self._calls.line, recipe, self._calls.target)

    def _out_shapes(self) -> Callable[..., Any]:
        return self._calls.out_shapes

    def _general(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        kernel, keywords = self._meant(args, keywords)
        return super()._general(args, keywords) if kernel is self else kernel(*args, **keywords)

    def bind(self, /, *args: Any, **keywords: Any) -> Callable[[], Any]:
        """As `bind` of any kernel."""
        with translated(self.name):
            kernel, named = self._meant(args, keywords)
        return super().bind(*args, **named) if kernel is self else kernel.bind(*args, **named)

    def _meant(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[OneLine, Mapping[str, Any]]:
        """The kernel for a call, and the keywords that are left: another line where the call says `axis` or `keepdims`, or has numbers
        for arrays.
        """
        line, said = self._calls.line, {**keywords}
        axis, keepdims, scalars = line.axis, line.keepdims, line.scalars
        if line.op and _AXIS in said and _AXIS not in self._calls.names:
            axis = _axes(said.pop(_AXIS))
        if line.op and _KEEPDIMS in said and _KEEPDIMS not in self._calls.names:
            keepdims = _kept(said.pop(_KEEPDIMS))
        numbers = [name for name, value in (*zip(self._inputs, args), *said.items()) if isinstance(value, _NUMBER) and name in self._arrays]
        if numbers and len(numbers) < len(self._arrays):
            scalars = scalars.union(numbers)
        if (axis, keepdims, scalars) == (line.axis, line.keepdims, line.scalars):
            return self, said
        found = self._others.get((axis, keepdims, scalars))
        if found is None:
            other = replace(line, axis=axis, keepdims=keepdims, scalars=scalars)
            found = self._others[axis, keepdims, scalars] = OneLine(other, self._calls.recipe, self._calls.target)
        return found, said


def _again(line: Line, recipe: Recipe, named: Mapping[str, int | bool | str], target: str | None) -> Kernel:
    """The kernel of a line, with these dtypes fixed."""
    return OneLine(line, recipe, target).define(**named)
