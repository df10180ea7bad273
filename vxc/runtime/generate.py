"""Arrays made up on request: `rand:f32[8,64]`, `randint:i32[100]:0:10`, `special:f16[64]`. One row of `GENERATORS` per kind.

An array depends on the seed and on the name of the parameter it is for, not on the order in which arguments are given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DTYPES, F64, I64, DType
from vxc.semantics import cast

Number = int | float
Shape = tuple[int, ...]
USAGE = "write KIND:DTYPE[DIM,...], such as rand:f32[8,64], randint:i32[100]:0:10 or full:f16[32]:0.5"


def _rand(rng: np.random.Generator, dtype: DType, shape: Shape) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal(shape, np.float64 if dtype is F64 else np.float32).astype(dtype.numpy)
    return _randint(rng, dtype, shape, dtype.min, dtype.max + 1)


def _randint(rng: np.random.Generator, dtype: DType, shape: Shape, low: Number, high: Number) -> np.ndarray:
    if dtype.is_float:
        return rng.integers(int(low), int(high), shape).astype(dtype.numpy)
    if not dtype.min <= low < high <= dtype.max + 1:
        raise ValueError(f"[{low}, {high}) is no range of {dtype}")
    return rng.integers(low, high, shape, dtype.numpy)


def _full(_rng, dtype: DType, shape: Shape, value: Number) -> np.ndarray:
    if not (dtype.is_float or dtype.min <= value <= dtype.max):
        raise ValueError(f"{value} is no {dtype}")
    source = F64 if dtype.is_float else dtype
    return cast(np.full(shape, value, source.numpy), source, dtype)


def _range(_rng, dtype: DType, shape: Shape, start: Number, step: Number) -> np.ndarray:
    source = F64 if dtype.is_float else I64
    count = np.arange(math.prod(shape), dtype=source.numpy)
    return cast(start + step * count, source, dtype).reshape(shape)


def _permutation(rng: np.random.Generator, dtype: DType, shape: Shape) -> np.ndarray:
    return cast(rng.permutation(math.prod(shape)), I64, dtype).reshape(shape)


def _special(rng: np.random.Generator, dtype: DType, shape: Shape) -> np.ndarray:
    values = special_values(dtype)
    return np.where(rng.random(shape) < 0.5, values[rng.integers(0, len(values), shape)], _rand(rng, dtype, shape))


def special_values(dtype: DType) -> np.ndarray:
    """The edges of a type, each once: NaN, infinities, zeros, denormals, extremes and around 1; for ints the ends and around 0."""
    if not dtype.is_float:
        edges = (dtype.min, dtype.min + 1, -2, -1, 0, 1, 2, 3, dtype.max - 1, dtype.max)
        return np.array(sorted({v for v in edges if dtype.min <= v <= dtype.max}), dtype.numpy)
    sign = 1 << (dtype.bits - 1)
    normal = 1 << _MANTISSA[dtype.name]  # the least normal number
    one = (sign // 2 - normal) // normal * normal
    top = sign - normal  # infinity; 256 in f8e4m3, which has none
    near = {0, 1, 2, sign - 2, sign - 1} | {p + d for p in (normal, one, one + normal, top) for d in (-1, 0, 1)}
    return np.array(sorted(near | {p + sign for p in near}), f"u{dtype.bytes}").view(dtype.numpy)


_MANTISSA = {"f8e4m3": 3, "f8e5m2": 2, "f16": 10, "bf16": 7, "f32": 23, "f64": 52}


class Generator(NamedTuple):
    """`make(rng, dtype, shape, *arguments)` gives the array; trailing arguments may be left to `defaults`."""

    make: Callable[..., np.ndarray]
    arguments: tuple[str, ...]
    defaults: tuple[Number, ...]
    meaning: str


GENERATORS = {
    "rand": Generator(_rand, (), (), "floats: standard normal, rounded once; ints and bools: every value equally often"),
    "randint": Generator(_randint, ("low", "high"), (0, 100), "whole numbers in [low, high)"),
    "special": Generator(_special, (), (), "half NaN, infinities, signed zeros, denormals and extremes, half rand"),
    "range": Generator(_range, ("start", "step"), (0, 1), "start, start + step, ... in row-major order; ints wrap"),
    "permutation": Generator(_permutation, (), (), "0, 1, ... each once, in any order; ints wrap"),
    "full": Generator(_full, ("value",), (), "one value"),
    "zeros": Generator(lambda *where: _full(*where, 0), (), (), "0"),
    "ones": Generator(lambda *where: _full(*where, 1), (), (), "1"),
}


def generate(kind: str, dtype: DType, shape: Sequence[int], arguments: Sequence[Number] = (), *, name: str, seed: int) -> np.ndarray:
    """A new row-major array of one of the `GENERATORS`, for the parameter `name`. Raises `VxcError` E0709."""
    row = GENERATORS.get(kind)
    if row is None:
        raise malformed(name, f"`{kind}` is no kind of array (there are {', '.join(GENERATORS)})")
    values = (*arguments, *row.defaults[len(arguments) :])
    if len(values) != len(row.arguments):
        raise malformed(name, f"`{kind}` takes {', '.join(row.arguments) or 'no arguments'}, not {len(arguments)} values")
    rng = np.random.default_rng([seed % 2**64, *name.encode()])
    try:
        with np.errstate(all="ignore"):  # a value beyond the type is its infinity
            return row.make(rng, dtype, tuple(shape), *values)
    except (MemoryError, OverflowError, ValueError) as error:
        raise malformed(name, f"{kind}:{dtype}{list(shape)}: {error}") from None


def generate_text(text: str, *, name: str, seed: int) -> np.ndarray:
    """The array described by `KIND:DTYPE[DIM,...]` and `:ARGUMENT`s; of `DIM:PITCH`, the first DIM of PITCH. Raises `VxcError` E0709."""
    found = _TEXT.fullmatch(text)
    dtype = found and DTYPES.get(found["dtype"])
    if not dtype:
        raise malformed(name, f"`{text}` names no dtype of {' '.join(DTYPES)}" if found else f"`{text}` describes no array")
    dims = [d.split(":") for d in found["dims"].split(",") if d.strip()]
    if any(int(d[-1]) < int(d[0]) for d in dims):
        raise malformed(name, f"`{text}`: a pitch is at least its extent")
    number = float if dtype.is_float and found["kind"] != "randint" else int
    try:
        arguments = [number(a) for a in found["arguments"].split(":")[1:]]
    except ValueError as error:
        raise malformed(name, f"`{text}`: {error}") from None
    made = generate(found["kind"], dtype, [int(d[-1]) for d in dims], arguments, name=name, seed=seed)
    return made[tuple(slice(int(d[0])) for d in dims)]


_DIM = r"\d{1,20}(:\d{1,20})?"
_TEXT = re.compile(rf"(?P<kind>\w+):(?P<dtype>\w+)\[(?P<dims>\s*({_DIM})?(\s*,\s*{_DIM})*\s*)\](?P<arguments>(:[^:]*)*)")


def malformed(name: str, message: str) -> VxcError:
    """The error for a text that describes no argument."""
    return VxcError(Diagnostic("E0709", f"argument `{name}`: {message}", help=USAGE))
