"""A kernel's parameters: scalars, arrays, and the symbolic dimensions that arrays bind."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from vxc.diag import count
from vxc.dtypes import I64, DType
from vxc.frontend import dims, syntax
from vxc.frontend.node import Node, walk
from vxc.frontend.scope import At, State, bind, dtype_named, fail
from vxc.frontend.subscripts import as_index, countable, tidy
from vxc.frontend.typed import Array, Const, Expr, Symbol
from vxc.frontend.values import Value
from vxc.record import record


@record
class Signature:
    """`dims` are the symbols, in order of appearance; `fixed` what `-D` made constant."""

    params: tuple[Symbol | Array, ...]
    dims: tuple[Symbol, ...]
    fixed: dict[str, int]


def signature(st: State, at: At, params: tuple[syntax.Param, ...], defines: dict[str, Any]) -> Generator[Any, Any, Signature]:
    """Bind the parameters and dimensions in `at.scope`."""
    things: dict[syntax.Param, Symbol | Array] = {}
    for param in params:
        if not param.type.dims:
            things[param] = _scalar(at, param)
    found, fixed = _bind_dims(at, [p for p in params if p.type.dims], defines)
    for param in params:
        if param.type.dims:
            things[param] = yield from _array(st, at, param)
    for param, thing in things.items():
        if isinstance(thing, Array):
            bind(at, param.name, param.name_span, thing)
    return Signature(tuple(things[p] for p in params), found, fixed)


def _scalar(at: At, param: syntax.Param) -> Symbol:
    dtype = dtype_named(at, param.type.name, param.type.span)
    if param.direction != "in":
        hint = f"write `{param.direction} {param.name}: {dtype}[1]`"
        fail(at, "E0231", f"`{param.name}` is a scalar and cannot be `{param.direction}`", param, help=hint)
    if dtype.is_storage:
        hint = f"write `{param.name}: {dtype.compute}`"
        fail(at, "E0231", f"`{param.name}` is a scalar and cannot be {dtype}, in which only elements of arrays are", param, help=hint)
    symbol = Symbol(param.name, "scalar", dtype, param.span)
    bind(at, param.name, param.name_span, symbol)
    return symbol


def _bind_dims(at: At, arrays: list[syntax.Param], defines: dict[str, Any]) -> tuple[tuple[Symbol, ...], dict[str, int]]:
    """Bind each name in an extent or pitch that is nothing else; one plain occurrence must fix it. No stride has an outermost pitch."""
    plain: set[str] = set()
    uses: dict[str, syntax.Name] = {}
    outermost = [p.type.dims[0].stride for p in arrays]
    for part in (part for p in arrays for d in p.type.dims for part in (d.size, d.stride) if part is not None):
        if isinstance(part, syntax.Name) and not any(part is pitch for pitch in outermost):
            plain.add(part.name)
        for name in names_in(part):
            if at.scope.find(name.name) is None:
                uses.setdefault(name.name, name)
    found, fixed = [], {}
    for name, node in uses.items():
        if name in defines:
            size = defines[name]
            if isinstance(size, (bool, DType)) or not isinstance(size, int) or size < 0:
                fail(at, "E0229", f"`-D {name}={size}` is no size", node, help="a dimension is an integer of 0 or more")
            fixed[name] = size
            bind(at, name, node.span, Value(node.span, dims.const(size, node.span)))
            continue
        if name not in plain:
            hint = f"use `{name}` alone as a dimension of some parameter, or make it a parameter: `{name}: i64`"
            fail(at, "E0219", f"no array fixes the dimension `{name}`", node, help=hint)
        symbol = Symbol(name, "dim", I64, node.span)
        bind(at, name, node.span, symbol)
        found.append(symbol)
    return tuple(found), fixed


def names_in(expr: Node) -> Iterator[syntax.Name]:
    """The names of values in an expression, or a part of one."""
    functions = set()
    for node in walk(expr):
        if isinstance(node, syntax.Call):
            functions.add(node.func)
        elif isinstance(node, syntax.Name) and node not in functions:
            yield node


def _array(st: State, at: At, param: syntax.Param) -> Generator[Any, Any, Array]:
    dtype = dtype_named(at, param.type.name, param.type.span)
    shape: list[Expr] = []
    pitches: list[Expr | None] = []
    for dim in param.type.dims:
        size = tidy(st, as_index(at, (yield dim.size, at), "a dimension"))
        if isinstance(size, Const) and size.value < 0:
            fail(at, "E0219", f"a dimension of {size.value} elements", dim, help="dimensions are 0 or more")
        pitch = None if dim.stride is None else tidy(st, as_index(at, (yield dim.stride, at), "a pitch"))
        if isinstance(pitch, Const) and isinstance(size, Const) and pitch.value < size.value:
            fail(at, "E0219", f"a pitch of {pitch.value} for {count(size.value, 'element')}", dim, help="the pitch is at least the extent")
        shape.append(size)
        pitches.append(pitch)
    countable(at, param.name, [pitch or size for size, pitch in zip(shape, pitches)], param.type, "E0219")
    return Array(param.name, dtype, tuple(shape), "param", param.direction, tuple(pitches), param.span)
