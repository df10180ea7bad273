"""The configurations that tuning chooses from: every combination of values for generics and knobs that the constraints allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import Any

from vxc.api.constraints import Value, tests_of
from vxc.api.signatures import Signature
from vxc.api.specialise import Recipe, fixed
from vxc.api.tune_refusals import shown, untunable
from vxc.diag import suggestion, there_are
from vxc.dtypes import DType
from vxc.record import record

KNOBS = {"maxrregcount": 1, "reduce_chunk": 0}
"""What is no part of the text, with the least value: the cap on registers of a thread, and the chunk of reductions that do not say theirs.
A generic of such a name comes first; threads, lanes and chunks are generics in the attributes of the text, as in `@threads(T)`.
"""

_MOST = 100_000  # combinations


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
    tests = tests_of(where, axes)
    if prod(map(len, values.values())) > _MOST:
        raise untunable(f"the axes of `{kernel.name}` have more than {_MOST:,} combinations", "give fewer values")
    every = (Config(tuple(zip(values, chosen))) for chosen in product(*values.values()))
    found = tuple(config for config in every if all(test(dict(config.values)) for test in tests))
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
    values = [_generic(kernel, name, value) if name in generics else _knob(name, value) for value in islice(given, _MOST + 1)]
    if len(values) > _MOST:
        raise untunable(f"axis `{name}` is given more than {_MOST:,} values", "give fewer")
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
