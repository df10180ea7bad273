"""The AST interpreter's state: scalars, memory and watches of one run, opening axes, and the faults it finds.

Expressions and statements are handlers of (machine, node, scope) for `vxc.frontend.worklist`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import NoReturn

import numpy as np

from vxc.diag import Diagnostic, VxcError
from vxc.frontend.typed import Array, Const, Declare, Loop, Op, Reduce, Symbol, TypedKernel, Var, Window
from vxc.frontend.typed_program import TypedProgram
from vxc.frontend.typed_walk import parts, walk
from vxc.frontend.worklist import Handlers, run
from vxc.interp.ast_memory import OutOfRange, Storage, Unwritten, atomic, load, locate, store
from vxc.interp.ast_scope import RAGGED, Axis, Scope, iterations, pad
from vxc.interp.ast_watch import Collision, Watch
from vxc.ir.ops import NOT_FILLED
from vxc.semantics import Order, trip_counts
from vxc.source import Span

Code = TypedKernel | TypedProgram

BUDGET = 1 << 20  # points that may be open at once: parallel axes are cut to that; more makes NumPy slower, not faster
ENDLESS = "does this loop end? an interpreter runs so many iterations at most, a GPU any number"
OPENING = ("parallel", "grid")  # loops whose iterations are an axis; so is an outermost `persistent`


@dataclass(eq=False)
class Machine:
    """One run of one kernel or program. `values` holds scalars by symbol, `unwritten` the points where a var holds nothing yet."""

    code: Code
    handlers: Handlers
    debug: bool
    trap_div: bool
    turns: Iterator[int] | None = None  # an item for each iteration of a serial loop that may still be run, None for any number
    values: dict[Symbol, np.ndarray] = field(default_factory=dict)
    depths: dict[Symbol, int] = field(default_factory=dict)
    unwritten: dict[Symbol, np.ndarray] = field(default_factory=dict)
    memory: dict[Array, Storage] = field(default_factory=dict)
    watches: list[Watch] = field(default_factory=list)
    widths: dict[tuple[Loop, int], int] = field(default_factory=dict)
    workspaces: frozenset[Array] = frozenset()  # parameters to which a program passes arrays of its own

    def run(self, node, scope: Scope):
        """The value of an expression; for a statement (or a tuple of them) None."""
        return run(self.handlers, self, node, scope)

    # Scopes ---------------------------------------------------------------------------------------------------------------------

    def enter(self, scope: Scope, symbol: Symbol, start, step, trips, part: range, order: Order | None = None) -> Scope | None:
        """Open an axis over the iterations `part` of a binder that has `trips` at each point; None if no point is active."""
        depth = scope.depth + 1
        total = int(trips) if trips.ndim == 0 else RAGGED
        t = np.arange(part.start, part.stop).reshape((1,) * scope.depth + (-1,))
        self.values[symbol] = pad(start, depth) + t * pad(step, depth)
        mask = None if scope.mask is None else pad(scope.mask, depth)
        axes = (*scope.axes, Axis(symbol, part.start, len(part), total, start, step, order))
        inner = Scope(axes, mask, (*scope.indices, symbol))
        return inner if trips.ndim == 0 else inner.narrow(t < pad(trips, depth))

    def within(self, count: int) -> int:
        """Of `count` iterations along rows, so many that those of no array are longer: if all of them are in range, so are the others."""
        return min(count, 1 + max((size for storage in self.memory.values() for size in storage.data.shape), default=0))

    def width(self, loop: Loop, binder: int) -> int:
        """About how many points one iteration of a binder of the loop opens; an extent that varies counts as the largest of any array."""
        key = (loop, binder)
        if key not in self.widths:
            widest = prod(self.extent(inner) for inner in loop.binders[binder + 1 :])
            todo: list[tuple[object, int]] = [(loop.body, widest)]
            while todo:
                node, opened = todo.pop()
                if isinstance(node, Loop) and node.kind in OPENING or isinstance(node, Reduce):
                    opened *= prod(self.extent(inner) for inner in node.binders)
                elif isinstance(node, Declare):
                    opened *= prod(self.extent((None, size)) for size in node.array.shape)
                elif isinstance(node, Window):
                    opened *= prod(self.extent((None, size)) for size in node.extents)
                widest = max(widest, opened)
                todo.extend((part, opened) for part in parts(node))
            self.widths[key] = widest
        return self.widths[key]

    def extent(self, binder: tuple) -> int:
        """Iterations of a binder, (symbol, extent) or (symbol, start, stop, step), as far as dimensions and constants tell."""
        known = []
        for expr in binder[1:]:
            if not all(isinstance(n, (Const, Op)) or isinstance(n, Var) and n.symbol.kind in ("dim", "scalar") for n in walk(expr)):
                return max((size for storage in self.memory.values() for size in storage.data.shape), default=1) or 1
            known.append(self.run(expr, Scope()))
        bounds = known if len(known) == 3 else (0, known[0], 1)
        return max(int(trip_counts(*bounds)), 1)

    # Memory ---------------------------------------------------------------------------------------------------------------------

    def load(self, node, indices: list[np.ndarray], scope: Scope) -> np.ndarray:
        storage, place = self._locate(node, indices, scope)
        try:
            value = load(storage, place, scope)
        except Unwritten as fault:
            self._unwritten(node, indices, scope, fault)
        self._watched(node, storage, place, scope, False)
        return value

    def store(self, node, indices: list[np.ndarray], value: np.ndarray, scope: Scope) -> None:
        storage, place = self._locate(node, indices, scope)
        self._watched(node, storage, place, scope, True)
        store(storage, place, value, scope)

    def atomic(self, node, indices: list[np.ndarray], value: np.ndarray, scope: Scope) -> np.ndarray:
        storage, place = self._locate(node, indices, scope)
        try:
            return atomic(node.op, node.array.dtype, storage, place, value, scope)
        except Unwritten as fault:
            self._unwritten(node, indices, scope, fault)

    def _locate(self, node, indices: list[np.ndarray], scope: Scope) -> tuple[Storage, list[np.ndarray]]:
        storage = self.memory[node.array]
        try:
            return storage, locate(storage, indices, scope)
        except OutOfRange as fault:
            index = self._at(fault.index, fault.where, scope)
            extent = storage.data.shape[storage.lead + fault.axis]
            text = f"index {index} is out of range for dimension {fault.axis} of `{node.array.name}`, which has {extent}"
            raise self.error("E0720", text, node.span, scope, fault.where, help="guard it with an `if`, or correct the index") from None

    def _unwritten(self, node, indices: list[np.ndarray], scope: Scope, fault: Unwritten) -> NoReturn:
        element = ", ".join(str(self._at(index, fault.where, scope)) for index in indices)
        text = f"`{node.array.name}[{element}]` is read, but nothing has written it"
        hint = "write it first" if node.array.space != "param" else "write it first, or declare the parameter `inout`"
        hint = NOT_FILLED if node.array in self.workspaces else hint
        raise self.error("E0721", text, node.span, scope, fault.where, help=hint) from None

    def _watched(self, node, storage: Storage, place: list[np.ndarray], scope: Scope, writes: bool) -> None:
        for watch in self.watches:
            try:
                watch.access(node.array, storage, place, scope, writes)
            except Collision as fault:
                element = f"`{node.array.name}[{', '.join(map(str, fault.element))}]`"
                one, two = (self._iteration(watch, scope, number) for number in (fault.first, fault.second))
                text = f"`@independent` does not hold: {one} {fault.verbs[0]} {element}, which {two} {fault.verbs[1]}"
                hint = "use `atomic_add`, `atomic_max` or `atomic_min`, or a `serial` loop"
                raise VxcError(Diagnostic("E0722", text, self.code.source, node.span, help=hint)) from None

    def turn(self, loop, scope: Scope) -> None:
        """Count an iteration of a serial loop. Raises E0734 where there have been too many."""
        if self.turns is not None and next(self.turns, None) is None:
            here = np.ones((), np.bool_) if scope.mask is None else scope.mask
            keyword = self.code.source.element_at(*self.code.source.position(loop.span.start))
            raise self.error("E0734", "the loops run for longer than allowed", keyword, scope, here, help=ENDLESS)

    # Diagnostics ----------------------------------------------------------------------------------------------------------------

    def error(self, code: str, message: str, span: Span, scope: Scope, where: np.ndarray, help: str = "") -> VxcError:
        """A fault at the first point of `where`, whose iteration goes into the message."""
        at = ", ".join(f"{s.name}={self._at(pad(self.values[s], scope.depth), where, scope)}" for s in scope.indices)
        return VxcError(Diagnostic(code, f"{message} (at {at})" if at else message, self.code.source, span, help=help))

    def _at(self, value: np.ndarray, where: np.ndarray, scope: Scope):
        """A value at the first point of `where`."""
        where = np.broadcast_to(where, scope.sizes)
        first = np.unravel_index(int(np.argmax(where)), where.shape) if where.ndim else ()
        return np.broadcast_to(value, scope.sizes)[first].item()

    def _iteration(self, watch: Watch, scope: Scope, number: int) -> str:
        """An iteration of the watched loop, given by its ordinal, as `i=3, j=0`."""
        axes = scope.axes[: watch.depth]
        named = [axis.show(count) for axis, count in zip(axes, iterations(axes, number))]
        return ", ".join(named[-len(watch.loop.binders) :])
