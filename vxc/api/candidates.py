"""The configurations that tuning chooses from: every combination of values for generics and knobs that the constraints allow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import product
from typing import Any

from vxc.api.signatures import Signature
from vxc.api.specialise import Recipe, fixed
from vxc.diag import Diagnostic, VxcError, listed
from vxc.record import record

KNOBS = ("maxrregcount", "reduce_chunk")
"""What is no part of the text: the cap on registers of a thread, and the chunk of reductions that do not say theirs. A generic of such a
name comes first; threads, lanes and chunks are generics in the attributes of the text, as in `@threads(T)`.
"""

Value = int | bool | str
Constraint = str | Callable[..., Any]


@record
class Config:
    """A value for each axis, in the order in which they were given."""

    values: tuple[tuple[str, Value], ...]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values)

    def applied(self, recipe: Recipe, kernel: Signature) -> Recipe:
        """The recipe with the values fixed. Raises `VxcError` E0218 for one of the wrong kind."""
        generics = dict(kernel.generics)
        knobs = {name: value for name, value in self.values if name not in generics}
        return replace(recipe, **knobs).defining({name: fixed(kernel, name, value) for name, value in self.values if name in generics})


@record
class Options:
    """`sample` are arguments to check on, by parameter, None for the example line; `reference` takes its inputs and gives its outputs;
    after `seconds` no further configuration is tried.
    """

    sample: Mapping[str, Any] | None
    reference: Callable[..., Any] | None
    rounds: int
    seconds: float


def candidates(kernel: Signature, axes: Mapping[str, Sequence[Value]], where: Iterable[Constraint]) -> tuple[Config, ...]:
    """All combinations, in the order of the values given, that satisfy every constraint. Raises `VxcError` E0719, E0218."""
    for name, values in axes.items():
        _check_axis(kernel, name, values)
    every = [Config(tuple(zip(axes, values))) for values in product(*axes.values())]
    tests = [_test(constraint, axes) for constraint in where]
    found = tuple(config for config in every if all(test(dict(config.values)) for test in tests))
    if not found:
        raise untunable(f"no combination of values for `{kernel.name}` satisfies all constraints", "loosen one, or give more values")
    return found


def untunable(message: str, way_out: str, notes: Sequence[str] = ()) -> VxcError:
    return VxcError(Diagnostic("E0719", message, notes=tuple(notes), help=way_out))


def _check_axis(kernel: Signature, name: str, values: Sequence[Value]) -> None:
    generics = dict(kernel.generics)
    if name not in generics and name not in KNOBS:
        known = [*generics, *KNOBS]
        near = get_close_matches(name, known, 1)
        raise untunable(f"`{kernel.name}` has no generic `{name}`", f"did you mean `{near[0]}`?" if near else f"there is {listed(known)}")
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise untunable(f"axis `{name}` is given {values!r}", f"give it the values to try, as in {name}=[64, 128]")
    for value in values:
        if name in generics:
            fixed(kernel, name, value)
        elif type(value) is not int or value < 1:
            raise untunable(f"axis `{name}` is given {value!r}", "give it positive ints")


def _test(constraint: Constraint, axes: Iterable[str]) -> Callable[[dict[str, Value]], bool]:
    """A constraint as a function of all values: an expression of Python over the names of axes, or a function of some of them."""
    if isinstance(constraint, str):
        try:
            code = compile(constraint, "<constraint>", "eval")
        except SyntaxError as error:
            raise untunable(f"the constraint `{constraint}` is no expression: {error.msg}", "write it as in 'BM * BN <= 16384'") from None
        _known(code.co_names, axes, f"the constraint `{constraint}`")
        return lambda values: bool(eval(code, {"__builtins__": {}}, values))
    if not callable(constraint):
        raise untunable(f"a constraint is {constraint!r}", "give a text such as 'BM * BN <= 16384', or a function of the axes it names")
    names = tuple(inspect.signature(constraint).parameters)
    _known(names, axes, "a constraint")
    return lambda values: bool(constraint(**{name: values[name] for name in names}))


def _known(names: Iterable[str], axes: Iterable[str], what: str) -> None:
    for name in names:
        if name not in axes:
            raise untunable(f"{what} asks for `{name}`, which is no axis", f"the axes are {listed(axes)}")
