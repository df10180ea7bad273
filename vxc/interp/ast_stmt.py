"""Statements of the typed tree on whole arrays: all iterations of a parallel loop run one statement before the next.

That is the meaning of the loop because its iterations are independent. Serial loops run iteration by iteration, for all
points that are still in them; `break` and `continue` take points out of the mask.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import prod
from typing import NamedTuple, get_args

import numpy as np

from vxc.diag import Diagnostic, VxcError
from vxc.frontend import dims
from vxc.frontend.typed import (
    Assert, Atomic, Break, Continue, Declare, If, Let, Loop, Print, SetVar, Stmt, Store, While,
)  # fmt: skip
from vxc.interp.ast_machine import BUDGET, OPENING, Machine
from vxc.interp.ast_memory import Storage
from vxc.interp.ast_scope import Flow, Scope, pad
from vxc.interp.ast_steps import check_slices
from vxc.interp.ast_tile import TILES
from vxc.interp.ast_watch import Watch
from vxc.ir.ops import HELP, STILL
from vxc.semantics import printed, trip_counts

_NEVER = np.zeros((), np.bool_)


class Nest(NamedTuple):
    """The binders of a loop from the `first` on, and its body. `opens` where they become axes, else iterations are in turn."""

    loop: Loop
    first: int
    opens: bool

    @property
    def inside(self):
        return self._replace(first=self.first + 1) if self.first + 1 < len(self.loop.binders) else self.loop.body


def _block(machine: Machine, statements: tuple[Stmt, ...], scope: Scope):
    through = scope.flow.through if scope.flow else None
    for statement in statements:
        yield statement, scope
        if scope.flow and scope.flow.through is not through:
            through = scope.flow.through
            scope = scope.narrow(~through)
            if scope is None:
                return


def _let(machine: Machine, node: Let, scope: Scope):
    symbol = node.symbol
    machine.depths[symbol] = scope.depth
    machine.unwritten.pop(symbol, None)
    if node.value is None:
        machine.values[symbol] = np.zeros((), symbol.dtype.numpy)
        if machine.debug:
            machine.unwritten[symbol] = np.ones((), np.bool_)
    else:
        machine.values[symbol] = yield node.value, scope


def _set_var(machine: Machine, node: SetVar, scope: Scope):
    symbol, depth = node.symbol, machine.depths[node.symbol]
    value = yield node.value, scope
    if any(axis.total > 1 for axis in scope.axes[depth:]):
        text = f"iterations of a parallel loop all assign to `{symbol.name}`, which is declared outside it"
        raise VxcError(Diagnostic("E0722", text, machine.code.source, node.span, help="use a reduction such as `sum`"))
    value = value.reshape(value.shape[:depth])
    missing = machine.unwritten.pop(symbol, None)
    if scope.mask is not None:
        mask = scope.mask.reshape(scope.mask.shape[:depth])
        value = np.where(mask, value, pad(machine.values[symbol], depth))
        if missing is not None:
            machine.unwritten[symbol] = missing & ~mask
    machine.values[symbol] = value


def _store(machine: Machine, node: Store, scope: Scope):
    indices = []
    for index in node.indices:
        indices.append((yield index, scope))
    machine.store(node, indices, (yield node.value, scope), scope)


def _atomic(machine: Machine, node: Atomic, scope: Scope):
    indices = []
    for index in node.indices:
        indices.append((yield index, scope))
    before = machine.atomic(node, indices, (yield node.value, scope), scope)
    if node.result is not None:
        machine.values[node.result] = before


def _declare(machine: Machine, node: Declare, scope: Scope):
    array = node.array
    shape = scope.sizes
    for size in array.shape:
        shape += (int((yield size, scope).reshape(())),)
    storage = Storage(np.zeros(shape, array.dtype.numpy), scope.depth)
    if node.init is not None:
        storage.data[...] = pad((yield node.init, scope), len(shape))
    elif machine.debug:
        storage.written = np.zeros(shape, np.bool_)
    machine.memory[array] = storage


def _if(machine: Machine, node: If, scope: Scope):
    cond = yield node.cond, scope
    for arm, arm_scope in ((node.then, scope.narrow(cond)), (node.other, scope.narrow(~cond))):
        if arm_scope is not None:
            yield arm, arm_scope


def _loop(machine: Machine, node: Loop, scope: Scope):
    opens = node.kind in OPENING or node.kind == "persistent" and not scope.axes
    watched = opens and machine.debug and any(name == "independent" for name, _ in node.attrs)
    if watched:
        machine.watches.append(Watch(node, scope.depth + len(node.binders)))
    for _, _, _, step in node.binders[1:]:
        if dims.is_arithmetic(step, {symbol for symbol, *_ in node.binders}):  # known before the nest
            _check_step(machine, node, scope, (yield step, scope))
    yield from check_slices(machine, node, scope)
    yield Nest(node, 0, opens), scope
    if watched:
        machine.watches.pop()


def _nest(machine: Machine, nest: Nest, scope: Scope):
    symbol, start, stop, step = nest.loop.binders[nest.first]
    start = yield start, scope
    stop = yield stop, scope
    step = yield step, scope
    _check_step(machine, nest.loop, scope, step)
    run = _parallel if nest.opens else _serial
    yield from run(machine, nest, scope, symbol, start, step, trip_counts(start, stop, step))


def _check_step(machine: Machine, loop: Loop, scope: Scope, step: np.ndarray) -> None:
    still = scope.active(step == 0)
    if still.any():
        raise machine.error("E0731", STILL, loop.span, scope, still, help=HELP["E0731"])


def _parallel(machine: Machine, nest: Nest, scope: Scope, symbol, start, step, trips):
    loop, total = nest.loop, scope.range(trips)[1]
    chunk = BUDGET // (machine.width(loop, nest.first) * prod(scope.sizes))
    chunk = max(1, machine.within(total) if loop.scan_order else chunk)  # a scan needs its whole row, or as much as is in range
    for first in range(0, total, chunk):
        part = range(first, min(first + chunk, total))
        inner = machine.enter(scope, symbol, start, step, trips, part, loop.scan_order)
        if inner is not None:
            yield nest.inside, inner


def _serial(machine: Machine, nest: Nest, scope: Scope, symbol, start, step, trips):
    flow = Flow(_NEVER, _NEVER)
    outer = replace(scope, flow=flow, indices=(*scope.indices, symbol))
    first, total = scope.range(trips)
    for t in range(total):
        inside = outer.narrow(~flow.left)
        if inside is not None and t >= first:
            inside = inside.narrow(trips > t)
        if inside is None:
            return
        machine.turn(nest.loop, inside)
        flow.through = flow.left
        machine.values[symbol] = start + t * step
        yield nest.inside, inside


def _while(machine: Machine, node: While, scope: Scope):
    flow = Flow(_NEVER, _NEVER)
    inside = replace(scope, flow=flow)
    while inside is not None:
        inside = inside.narrow((yield node.cond, inside))
        if inside is not None:
            machine.turn(node, inside)
            flow.through = flow.left
            yield node.body, inside
            inside = inside.narrow(~flow.left)


def _break(machine: Machine, node: Break, scope: Scope):
    here = ~_NEVER if scope.mask is None else scope.mask
    scope.flow.left = scope.flow.left | here
    scope.flow.through = scope.flow.through | here


def _continue(machine: Machine, node: Continue, scope: Scope):
    scope.flow.through = scope.flow.through | (~_NEVER if scope.mask is None else scope.mask)


def _assert(machine: Machine, node: Assert, scope: Scope):
    wrong = scope.active(~(yield node.cond, scope))
    if wrong.any():
        raise machine.error("E0723", f"assertion failed: {node.message}" if node.message else "assertion failed", node.span, scope, wrong)


def _print(machine: Machine, node: Print, scope: Scope):
    columns, dtypes = [], [arg.dtype for arg in node.args]
    for arg in node.args:
        columns.append(scope.select((yield arg, scope)))
    for row in zip(*columns) if columns else scope.select(_NEVER):
        print(node.label, *map(printed, row if columns else (), dtypes), file=sys.stderr)


STATEMENTS = {
    Let: _let,
    SetVar: _set_var,
    Store: _store,
    Atomic: _atomic,
    Declare: _declare,
    Loop: _loop,
    If: _if,
    While: _while,
    Break: _break,
    Continue: _continue,
    Assert: _assert,
    Print: _print,
} | TILES
assert set(STATEMENTS) == set(get_args(Stmt)), "one handler for each class of statement"
STATEMENTS |= {tuple: _block, Nest: _nest}
