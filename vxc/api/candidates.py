"""The configurations that tuning chooses from: every combination of values for generics and knobs that the constraints allow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from vxc.api.signatures import Signature
from vxc.api.specialise import Recipe, fixed
from vxc.api.tune_refusals import guarded, shown, untunable
from vxc.diag import listed, suggestion, there_are
from vxc.dtypes import DType
from vxc.record import record

KNOBS = {"maxrregcount": 1, "reduce_chunk": 0}
"""What is no part of the text, with the least value: the cap on registers of a thread, and the chunk of reductions that do not say theirs.
A generic of such a name comes first; threads, lanes and chunks are generics in the attributes of the text, as in `@threads(T)`.
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


def candidates(kernel: Signature, axes: Mapping[str, Any], where: Any) -> tuple[Config, ...]:
    """All combinations, in the order of the values given, that satisfy every constraint. Raises `VxcError` E0719, E0218."""
    values = {name: _values(kernel, name, given) for name, given in axes.items()}
    tests = [_test(constraint, axes) for constraint in _constraints(where)]
    every = [Config(tuple(zip(values, chosen))) for chosen in product(*values.values())]
    found = tuple(config for config in every if all(test(config) for test in tests))
    if not found:
        raise untunable(f"no combination of values for `{kernel.name}` satisfies all constraints", "loosen one, or give more values")
    return found


def _values(kernel: Signature, name: str, given: Any) -> tuple[Value, ...]:
    """The values of an axis, each once, as plain ints, bools and names of dtypes."""
    generics = dict(kernel.generics)
    if name not in generics and name not in KNOBS:
        known = [*generics, *KNOBS]
        raise untunable(f"`{kernel.name}` has no generic `{name}`", suggestion(name, known, there_are(known)))
    if isinstance(given, (str, bytes, bytearray)) or not isinstance(given, Sequence) or not given:
        raise untunable(f"axis `{name}` is given {shown(given)}", f"give it the values to try, as in {name}=[64, 128]")
    values = [_generic(kernel, name, value) if name in generics else _knob(name, value) for value in given]
    if len(set(map(type, values))) > 1:
        raise untunable(f"axis `{name}` is given {shown(given)}, of several kinds", "give it ints, bools or names of dtypes alone")
    return tuple(dict.fromkeys(values))


def _generic(kernel: Signature, name: str, value: Any) -> Value:
    found = fixed(kernel, name, value)
    return found.name if isinstance(found, DType) else found


def _knob(name: str, value: Any) -> int:
    if type(value) is not int or value < KNOBS[name]:
        hint = "give it positive ints" if KNOBS[name] else "give it ints of at least 0, which stands for a whole row"
        raise untunable(f"axis `{name}` is given {shown(value)}", hint)
    return value


# ---- constraints -----------------------------------------------------------------------------------------------------

_SHOWN = 120  # characters of an expression
_LIKE = "give a text such as 'BM * BN <= 16384', or a function of the axes it names"


def _constraints(where: Any) -> list[Any]:
    single = isinstance(where, str) or callable(where) or not isinstance(where, Iterable)
    return [where] if single else guarded("`where`", _LIKE, list, where)


def _test(constraint: Any, axes: Iterable[str]) -> Callable[[Config], bool]:
    """A constraint as a function of all values: an expression of Python over the names of axes, or a function of some of them."""
    if isinstance(constraint, str):
        what = f"the constraint `{constraint if constraint.isprintable() and len(constraint) < _SHOWN else shown(constraint)}`"
        holds = _expression(constraint, axes, what)
    elif callable(constraint):
        what = "a constraint"
        holds = _function(constraint, axes)
    else:
        raise untunable(f"a constraint is {shown(constraint)}", _LIKE)
    return lambda config: guarded(f"{what}, for {config},", _LIKE, lambda: bool(holds(dict(config.values))))


def _expression(text: str, axes: Iterable[str], what: str) -> Callable[[dict[str, Value]], Any]:
    try:
        code = compile(text.strip(), "<constraint>", "eval")
    except SyntaxError as error:
        raise untunable(f"{what} is no expression: {error.msg}", _LIKE) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise untunable(f"{what} is no expression: {str(error) or type(error).__name__}", _LIKE) from None
    _known(code.co_names, axes, what)
    return lambda values: eval(code, {"__builtins__": {}, **values})


def _function(function: Callable[..., Any], axes: Iterable[str]) -> Callable[[dict[str, Value]], Any]:
    """Parameters that are no axes keep their defaults."""
    way_out = "write it as `lambda BM, BN: ..`, with the axes it looks at as its parameters"
    params = guarded("asking a constraint for its parameters", way_out, inspect.signature, function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in params):
        raise untunable(f"a constraint is {shown(function)}, which does not say what it looks at", way_out)
    _known([p.name for p in params if p.default is p.empty], axes, "a constraint")
    placed = [p for p in params if p.kind is p.POSITIONAL_ONLY]
    named = [p.name for p in params if p.kind is not p.POSITIONAL_ONLY and p.name in axes]
    return lambda values: function(*(values.get(p.name, p.default) for p in placed), **{name: values[name] for name in named})


def _known(names: Iterable[str], axes: Iterable[str], what: str) -> None:
    for name in names:
        if name not in axes:
            raise untunable(f"{what} asks for `{name}`, which is no axis", f"the axes are {listed(axes)}")
