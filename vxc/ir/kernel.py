"""The flat IR: values, constants, buffers, instructions and kernels, all frozen.

A kernel is one list of instructions. Loops, branches and roles are instructions that open a region, closed by a matching
`end`. Values are immutable (SSA); everything that changes is a declared buffer. What an opcode means stands in `ops.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import prod
from operator import is_
from typing import Union

import numpy as np

from vxc.dtypes import BOOL, F32, F64, I64, DType
from vxc.layout.placement import IN_ORDER, Placement
from vxc.record import value
from vxc.semantics import cast
from vxc.source import Source, Span

GLOBAL = ("param", "workspace")  # the spaces of global memory
NAN = float("nan")  # the one NaN object constants use, so that equal constants compare equal


@value
class Value:
    """An SSA value `%name: dtype`, defined once: by a parameter or by one instruction."""

    name: str
    dtype: DType

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"%{self.name}"


@value
class Const:
    """A literal operand. `value` is a Python int, bool or float exactly representable in `dtype`."""

    value: int | float | bool
    dtype: DType = I64

    def __post_init__(self):
        if self.value != self.value:
            object.__setattr__(self, "value", NAN)

    def __eq__(self, other) -> bool:  # 0.0 and -0.0 differ, 1 and True and 1.0 differ, NaN equals NaN
        if type(other) is not Const or self.dtype is not other.dtype:
            return False
        return self.value is other.value or repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        """`3` is i64, `true` bool; any other carries its dtype: `0.5:f32`."""
        if self.dtype is BOOL:
            return "true" if self.value else "false"
        shortest = np.float32(self.value) if self.dtype is F32 else self.value
        return str(shortest) if self.dtype is I64 else f"{shortest!s}:{self.dtype}"


def constant(value: int | float | bool, dtype: DType = I64) -> Const:
    """The literal of this dtype nearest to `value`; ValueError where an integer does not fit."""
    if dtype.is_float:
        return Const(float(cast(float(value), F64, dtype)), dtype)
    if value != int(value) or not dtype.min <= value <= dtype.max:
        raise ValueError(f"{value} is no {dtype}")
    return Const(bool(value) if dtype is BOOL else int(value), dtype)


Scalar = Union[Value, Const]


@value
class Buffer:
    """Declared storage `@name: dtype[shape]`.

    `space` is 'param' (global memory, from the caller), 'workspace' (global memory, from the plan), 'shared' (one per
    block), 'local' (an array per thread), 'fragment' (a tile over the threads of a block), 'cell' (a variable per thread) or
    'ring' (see `ops`); the last two have shape (). `mode` is 'in', 'out', 'inout' for a
    param, else ''. `strides` are in elements; None means contiguous, row-major. `align` is what is known of where a param lies: see
    `vxc.ir.alignment`.
    """

    name: str
    dtype: DType
    shape: tuple[Scalar, ...] = ()
    space: str = "param"
    mode: str = ""
    strides: tuple[Scalar, ...] | None = None
    align: int | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"@{self.name}"


Operand = Union[Value, Const, Buffer]
Attr = Union[int, bool, str, tuple]  # a tuple holds ints or strs


@value
class Inst:
    """One instruction: `[result =] op operands {attrs}`.

    `result` is a Value, or the Buffer that a storage declaration declares. `loc` is the (line, column) of the .vx text it
    comes from; it is no part of equality.
    """

    op: str
    operands: tuple[Operand, ...] = ()
    result: Value | Buffer | None = None
    attrs: tuple[tuple[str, Attr], ...] = ()
    loc: tuple[int, int] | None = field(default=None, compare=False)

    def attr(self, name: str, default=None):
        for key, said in self.attrs:
            if key == name:
                return said
        return default

    def over(self, operands: Iterable[Operand], result: Value | Buffer | None) -> Inst:
        """The same operation over other operands, with another result; this very object where they are the ones it has."""
        operands = tuple(operands)
        if result is self.result and len(operands) == len(self.operands) and all(map(is_, operands, self.operands)):
            return self
        return Inst(self.op, operands, result, self.attrs, self.loc)

    def with_attrs(self, **changes) -> Inst:
        """The same instruction with attributes set; None removes one. Attributes are kept in name order."""
        return Inst(self.op, self.operands, self.result, _merged(self.attrs, changes), self.loc)


def placement_of(declaration: Inst) -> Placement:
    """Where the elements of a shared array lie, as its declaration says."""
    given = {name: declaration.attr(name) for name in ("pitch", "swizzle") if declaration.attr(name)}
    return Placement(**given) if given else IN_ORDER


def shared_bytes(declaration: Inst) -> int:
    """What a shared array takes."""
    buffer = declaration.result
    return placement_of(declaration).size(prod(n.value for n in buffer.shape)) * buffer.dtype.bytes


STAGES = ("tile", "team", "thread")


@value
class Kernel:
    """One flat kernel: what one launch runs.

    `params` holds Values (scalars; dimensions, which are i64) and Buffers (space 'param' or 'workspace') in call order. `done`
    are the passes already run. `attrs` are `fp` ('exact', 'contract', 'fast') and, once decided, `threads` of a block, `group`
    lanes to an iteration and `rows` iterations to a block (map-loops), `shared_bytes` of a block (plan-shared), the most `blocks`
    of a launch where that is a constant (narrow-indices), the `min_blocks` that a multiprocessor holds where registers shall not be
    saved for more (map-loops).
    `source` is the .vx text that places are in, where it is known, and no part of equality.
    """

    name: str
    params: tuple[Value | Buffer, ...]
    insts: tuple[Inst, ...]
    stage: str = "tile"
    done: tuple[str, ...] = ()
    attrs: tuple[tuple[str, Attr], ...] = ()
    source: Source | None = field(default=None, compare=False)

    def span(self, inst: Inst) -> Span | None:
        """The word of the source at which an instruction stands."""
        return self.source.span_at(*inst.loc) if self.source and inst.loc else None

    def attr(self, name: str, default=None):
        for key, said in self.attrs:
            if key == name:
                return said
        return default

    def with_attrs(self, **changes) -> Kernel:
        return Kernel(self.name, self.params, self.insts, self.stage, self.done, _merged(self.attrs, changes), self.source)

    def after(self, name: str) -> Kernel:
        """The kernel with a pass behind it."""
        return Kernel(self.name, self.params, self.insts, self.stage, (*self.done, name), self.attrs, self.source)


def _merged(attrs: tuple[tuple[str, Attr], ...], changes: dict[str, Attr | None]) -> tuple[tuple[str, Attr], ...]:
    merged = {**dict(attrs), **changes}
    return tuple(sorted([(k, v) for k, v in merged.items() if v is not None]))
