"""Expressions of the typed tree on whole arrays; what each operation means comes from `vxc.semantics`."""

from __future__ import annotations

from functools import reduce as reduce_pairs
from math import prod
from typing import get_args

import numpy as np

from vxc.frontend.typed import Cast, Cond, Const, Expr, ExternCall, LetIn, Load, Op, Reduce, Scan, Var
from vxc.interp.ast_machine import Machine
from vxc.interp.ast_scope import Scope, pad
from vxc.interp.ast_steps import check_slices
from vxc.semantics import DIVISIONS, cast, dot, evaluate, reduce, reinterpret, sat, scan

_CONVERSIONS = {"cast": cast, "sat": sat, "reinterpret": reinterpret}


def _const(machine: Machine, node: Const, scope: Scope):
    return np.asarray(node.value, node.dtype.numpy)


def _var(machine: Machine, node: Var, scope: Scope):
    missing = machine.unwritten.get(node.symbol)
    if missing is not None:
        wrong = scope.active(pad(missing, scope.depth))
        if wrong.any():
            text = f"`{node.symbol.name}` is read, but nothing has written it"
            raise machine.error("E0721", text, node.span, scope, wrong, help="give it a value where it is declared")
    return pad(machine.values[node.symbol], scope.depth)


def _load(machine: Machine, node: Load, scope: Scope):
    indices = []
    for index in node.indices:
        indices.append((yield index, scope))
    return machine.load(node, indices, scope)


def _op(machine: Machine, node: Op, scope: Scope):
    args = []
    for arg in node.args:
        args.append((yield arg, scope))
    dtype = node.args[-1].dtype
    if machine.trap_div and node.name in DIVISIONS:
        wrong = scope.active(args[1] == 0)
        if wrong.any():
            raise machine.error("E0724", "integer division by zero", node.span, scope, wrong, help="test the divisor first")
    return evaluate(node.name, dtype, *args)


def _cast(machine: Machine, node: Cast, scope: Scope):
    return _CONVERSIONS[node.how]((yield node.arg, scope), node.arg.dtype, node.dtype)


def _cond(machine: Machine, node: Cond, scope: Scope):
    cond = yield node.cond, scope
    then_scope, other_scope = scope.narrow(cond), scope.narrow(~cond)
    if other_scope is None:
        return (yield node.then, then_scope)
    other = yield node.other, other_scope
    return other if then_scope is None else np.where(cond, (yield node.then, then_scope), other)


def _let_in(machine: Machine, node: LetIn, scope: Scope):
    for symbol, value in node.lets:
        machine.values[symbol] = yield value, scope
    return (yield node.body, scope)


def _extern_call(machine: Machine, node: ExternCall, scope: Scope):
    args = []
    for arg in node.args:
        args.append((yield arg, scope))
    machine.values.update(zip(node.params, args, strict=True))
    return (yield node.body, scope)


def _reduce(machine: Machine, node: Reduce, scope: Scope):
    yield from check_slices(machine, node, scope)
    extents = []
    for _, extent in node.binders:
        extents.append(np.maximum((yield extent, scope), 0))
    longest = tuple(scope.range(extent)[1] for extent in extents)
    within = tuple(map(machine.within, longest))
    if within != longest:  # out of range, which is found before there is memory for all of it
        yield from _elements(machine, node, scope, extents, within)
    args = yield from _elements(machine, node, scope, extents, longest)
    if all(extent.size == 1 for extent in extents):
        return _fold(node, [_rows(value, scope.depth, longest) for value in args])
    # the order depends on the length: points of one length together
    result = np.zeros(scope.sizes, node.dtype.numpy)
    for lengths in np.unique(np.stack([scope.select(extent) for extent in extents]), axis=1).T:
        here = np.broadcast_to(reduce_pairs(np.logical_and, map(np.equal, extents, lengths)), scope.sizes)
        inside = (slice(None), *map(slice, lengths))
        full = (np.broadcast_to(value, (*scope.sizes, *longest)) for value in args)
        result[here] = _fold(node, [_rows(value[here][inside], 1, tuple(lengths)) for value in full])
    return result


def _elements(machine: Machine, node: Reduce, scope: Scope, extents: list[np.ndarray], sizes: tuple[int, ...]):
    """The arguments over the first iterations of each binder, `sizes` of them."""
    inner: Scope | None = scope
    for (symbol, _), extent, size in zip(node.binders, extents, sizes):
        inner = machine.enter(inner, symbol, _ZERO, _ONE, pad(extent, inner.depth), range(size)) if inner and size else None
    args = []
    for arg in node.args:
        args.append((yield arg, inner) if inner else np.zeros((), arg.dtype.numpy))
    return args


_ZERO, _ONE = np.asarray(0, np.int64), np.asarray(1, np.int64)


def _rows(value: np.ndarray, depth: int, lengths: tuple[int, ...]) -> np.ndarray:
    """A value over `depth` outer axes and the binders, the binders as one last axis in row-major order."""
    outer = value.shape[:depth] if value.ndim else (1,) * depth
    return np.broadcast_to(value, (*outer, *lengths)).reshape(*outer, prod(lengths))


def _fold(node: Reduce, rows: list[np.ndarray]) -> np.ndarray:
    dtype = node.args[0].dtype
    return dot(*rows, dtype, node.order) if node.op == "dot" else reduce(node.op, rows[0], dtype, node.order)


def _scan(machine: Machine, node: Scan, scope: Scope):
    value = yield node.arg, scope
    axis = next(k for k, opened in enumerate(scope.axes) if opened.symbol is node.binder)
    shape = list(value.shape) if value.ndim else [1] * scope.depth
    shape[axis] = scope.axes[axis].size
    rows = np.moveaxis(np.broadcast_to(value, shape), axis, -1)
    return np.moveaxis(scan(node.op, rows, node.arg.dtype, scope.axes[axis].order), -1, axis)


EXPRESSIONS = {
    Const: _const,
    Var: _var,
    Load: _load,
    Op: _op,
    Cast: _cast,
    Cond: _cond,
    LetIn: _let_in,
    Reduce: _reduce,
    Scan: _scan,
    ExternCall: _extern_call,
}
assert set(EXPRESSIONS) == set(get_args(Expr)), "one handler for each class of expression"
