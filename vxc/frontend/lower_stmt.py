"""Lowering of statements: one handler for each statement node.

A loop over several binders becomes a nest of loops. Their bounds are evaluated before the outermost one where they are
plain arithmetic that does not depend on the nest, so that perfect nests stay perfect.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import get_args

from vxc.frontend import dims, typed
from vxc.frontend.lower_expr import check_slices
from vxc.frontend.lower_state import Handler, Lowering, Steps
from vxc.frontend.lower_tile import TILES
from vxc.ir.kernel import Const, Scalar
from vxc.ir.ops import STILL

ONE = Const(1)
KINDS = ("parallel", "serial", "unroll")  # the same in the IR
BLOCKS = ("grid", "persistent")
EVERY_LEVEL = ("independent", "threads")
OUTERMOST = ("lanes", "layout")  # who shares an iteration of the whole nest, who runs it


def let(low: Lowering, node: typed.Let, name: str) -> Steps:
    symbol = node.symbol
    if symbol.kind != "var":
        low.values[symbol] = yield node.value, symbol.name
        return
    value = None if node.value is None else (yield node.value)
    low.values[symbol] = cell = low.out.declare("cell", symbol.name, symbol.dtype)
    if value is not None:
        low.out.emit("store", cell, value)


def set_var(low: Lowering, node: typed.SetVar, name: str) -> Steps:
    value = yield node.value
    low.out.emit("store", low.values[node.symbol], value)


def store(low: Lowering, node: typed.Store, name: str) -> Steps:
    indices = []
    for index in node.indices:
        indices.append((yield index))
    value = yield node.value
    low.out.emit("store", low.buffers[node.array], *indices, value)


def atomic(low: Lowering, node: typed.Atomic, name: str) -> Steps:
    operands = []
    for operand in (*node.indices, node.value):
        operands.append((yield operand))
    before = low.out.emit("atomic", low.buffers[node.array], *operands, name=node.result.name if node.result else "", op=node.op)
    if node.result:
        low.values[node.result] = before


def loop(low: Lowering, node: typed.Loop, name: str) -> Steps:
    symbols = {symbol for symbol, *_ in node.binders}
    yield from check_slices(low, node)
    before: dict[typed.Expr, Scalar] = {}
    for bound in (b for _, *bounds in node.binders for b in bounds):
        if dims.is_arithmetic(bound, symbols):
            before[bound] = yield bound
    kind = _kind(low, node)
    for step in (step for *_, step in node.binders if kind == "parallel" and step in before):
        _check_step(low, step, before[step])
    with ExitStack() as nest:
        for symbol, *bounds in node.binders:
            operands = []
            for bound in bounds:
                operands.append(before[bound] if bound in before else (yield bound))
                if bound is bounds[-1] and kind == "parallel" and bound not in before:
                    _check_step(low, bound, operands[-1])
            outermost, innermost = symbol is node.binders[0][0], symbol is node.binders[-1][0]
            low.values[symbol] = nest.enter_context(_open_loop(low, node, kind, symbol.name, operands, outermost, innermost))
        low.depth += 1
        for statement in node.body:
            yield statement
        low.depth -= 1


def _check_step(low: Lowering, expr: typed.Expr, step: Scalar) -> None:
    """That a step is not 0, where the plan does not say so already; iterations of `serial` loops are counted by those who would see it."""
    if not isinstance(step, Const) and expr not in low.required:
        low.out.emit("assert", low.out.emit("ne", step, 0), code="E0731", message=STILL)


def _kind(low: Lowering, node: typed.Loop) -> str:
    """A `grid`, and an outermost `persistent` loop, is a parallel loop whose iterations are blocks."""
    if node.kind in BLOCKS and not low.depth:
        return "parallel"
    return node.kind if node.kind in KINDS else "serial"


def _open_loop(low: Lowering, node: typed.Loop, kind: str, name: str, operands: list[Scalar], outermost: bool, innermost: bool):
    """One level of a nest. Independence and threads are said of each level, lanes and layout of the outermost, what is left of
    the innermost."""
    start, stop, step = operands
    if node.scan_order is not None:
        return low.out.scan(stop, order=node.scan_order, name=name)
    attrs = {key: value for key, value in node.attrs if key in EVERY_LEVEL or (outermost if key in OUTERMOST else innermost)}
    return low.out.loop(start, stop, None if step == ONE else step, kind=kind, name=name, **attrs)


def branch(low: Lowering, node: typed.If, name: str) -> Steps:
    with low.out.if_((yield node.cond)):
        for statement in node.then:
            yield statement
        if node.other:
            low.out.else_()
            for statement in node.other:
                yield statement


def while_(low: Lowering, node: typed.While, name: str) -> Steps:
    with low.out.while_():
        going = yield node.cond
        with low.out.if_(low.out.emit("not", going)):
            low.out.emit("break")
        for statement in node.body:
            yield statement


def break_(low: Lowering, node: typed.Break, name: str) -> None:
    low.out.emit("break")


def continue_(low: Lowering, node: typed.Continue, name: str) -> None:
    low.out.emit("continue")


def assert_(low: Lowering, node: typed.Assert, name: str) -> Steps:
    low.out.emit("assert", (yield node.cond), message=node.message)


def print_(low: Lowering, node: typed.Print, name: str) -> Steps:
    args = []
    for arg in node.args:
        args.append((yield arg))
    low.out.emit("print", *args, label=node.label)


STATEMENTS: dict[type, Handler] = {
    typed.Let: let,
    typed.SetVar: set_var,
    typed.Store: store,
    typed.Atomic: atomic,
    typed.Loop: loop,
    typed.If: branch,
    typed.While: while_,
    typed.Break: break_,
    typed.Continue: continue_,
    typed.Assert: assert_,
    typed.Print: print_,
} | TILES
assert set(STATEMENTS) == set(get_args(typed.Stmt)), "a statement node has no handler"
