"""Lowering of statements: one handler for each statement node.

A loop over several binders becomes a nest of loops. Their bounds are evaluated before the outermost one where they are
plain arithmetic that does not depend on the nest, so that perfect nests stay perfect.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import get_args

from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import BOOL, I64
from vxc.frontend import typed
from vxc.frontend.lower_state import Handler, Lowering, Steps
from vxc.ir.kernel import Attr, Const, Operand, Scalar

ONE = Const(1)


def let(low: Lowering, node: typed.Let, name: str) -> Steps:
    symbol = node.symbol
    if symbol.kind != "var":
        low.values[symbol] = yield node.value, symbol.name
        return
    value = None if node.value is None else (yield node.value)
    low.values[symbol] = cell = low.declare("cell", symbol.dtype, name=symbol.name)
    if value is not None:
        low.do("store", cell, value)


def set_var(low: Lowering, node: typed.SetVar, name: str) -> Steps:
    value = yield node.value
    low.do("store", low.values[node.symbol], value)


def store(low: Lowering, node: typed.Store, name: str) -> Steps:
    indices = []
    for index in node.indices:
        indices.append((yield index))
    value = yield node.value
    low.do("store", low.buffers[node.array], *indices, value)


def atomic(low: Lowering, node: typed.Atomic, name: str) -> Steps:
    operands: list[Operand] = [low.buffers[node.array]]
    for operand in (*node.indices, node.value):
        operands.append((yield operand))
    wanted = node.result.name if node.result else ""
    before = low.value("atomic", *operands, dtype=node.array.dtype, name=wanted, op=node.op)
    if node.result:
        low.values[node.result] = before


def declare(low: Lowering, node: typed.Declare, name: str) -> Steps:
    array = node.array
    if array.space != "local":
        raise _not_yet(low, f"a `{array.space}` array", node)
    shape = []
    for extent in array.shape:
        shape.append((yield extent))
    low.buffers[array] = buffer = low.declare("local", array.dtype, tuple(shape), array.name)
    if node.init is None:
        return
    value = yield node.init
    indices = [low.value("loop", Const(0), extent, dtype=I64, kind="serial") for extent in shape]
    low.do("store", buffer, *indices, value)
    for index in reversed(indices):
        low.end(index)


def loop(low: Lowering, node: typed.Loop, name: str) -> Steps:
    if node.kind not in ("parallel", "serial", "unroll"):
        raise _not_yet(low, f"a `{node.kind}` loop", node)
    bounds: dict[typed.Expr, Scalar] = {}
    symbols = {symbol for symbol, *_ in node.binders}
    for expr in (e for _, *written in node.binders for e in written):
        if _hoistable(expr, symbols):
            bounds[expr] = yield expr
    indices = []
    for level, (symbol, *written) in enumerate(node.binders):
        operands = []
        for expr in written:
            operands.append(bounds[expr] if expr in bounds else (yield expr))
        if operands[2] == ONE:
            del operands[2]
        opcode, attrs = _opening(node, innermost=level == len(node.binders) - 1)
        if opcode == "scan":
            operands = operands[1:]
        index = low.value(opcode, *operands, dtype=I64, name=symbol.name, **attrs)
        low.values[symbol] = index
        indices.append(index)
    for statement in node.body:
        yield statement
    for index in reversed(indices):
        low.end(index)


def _opening(node: typed.Loop, innermost: bool) -> tuple[str, dict[str, Attr]]:
    """Opcode and attributes of one level of a nest: the author's promise holds for each, the rest is about the innermost."""
    if node.scan_order is not None:
        return "scan", {"order": astuple(node.scan_order)}
    kept = ("independent", "lanes", "unroll") if innermost else ("independent",)
    return "loop", {"kind": node.kind, **{key: value for key, value in node.attrs if key in kept}}


def _hoistable(expr: typed.Expr, binders: set[typed.Symbol]) -> bool:
    """True where `expr` is plain arithmetic that mentions none of the binders."""
    todo = [expr]
    while todo:
        item = todo.pop()
        match item:
            case typed.Var():
                if item.symbol in binders:
                    return False
            case typed.Op():
                todo.extend(item.args)
            case typed.Cast():
                todo.append(item.arg)
            case typed.Const():
                pass
            case _:
                return False
    return True


def branch(low: Lowering, node: typed.If, name: str) -> Steps:
    low.do("if", (yield node.cond))
    for statement in node.then:
        yield statement
    if node.other:
        low.do("else")
        for statement in node.other:
            yield statement
    low.end()


def while_(low: Lowering, node: typed.While, name: str) -> Steps:
    low.do("while")
    going = yield node.cond
    low.do("if", low.value("not", going, dtype=BOOL))
    low.do("break")
    low.end()
    for statement in node.body:
        yield statement
    low.end()


def break_(low: Lowering, node: typed.Break, name: str) -> None:
    low.do("break")


def continue_(low: Lowering, node: typed.Continue, name: str) -> None:
    low.do("continue")


def assert_(low: Lowering, node: typed.Assert, name: str) -> Steps:
    low.do("assert", (yield node.cond), message=node.message)


def print_(low: Lowering, node: typed.Print, name: str) -> Steps:
    args = []
    for arg in node.args:
        args.append((yield arg))
    low.do("print", *args, label=node.label)


def copy(low: Lowering, node: typed.Copy, name: str) -> None:
    raise _not_yet(low, "`copy`", node)


def gemm(low: Lowering, node: typed.Gemm, name: str) -> None:
    raise _not_yet(low, "`gemm`", node)


def _not_yet(low: Lowering, what: str, node: typed.Stmt) -> VxcError:
    hint = "write it as maths: `parallel` loops, rows and reductions, with `local` arrays"
    return VxcError(Diagnostic("E0401", f"{what} is not lowered yet", low.source, node.span, help=hint))


STATEMENTS: dict[type, Handler] = {
    typed.Let: let,
    typed.SetVar: set_var,
    typed.Store: store,
    typed.Atomic: atomic,
    typed.Declare: declare,
    typed.Loop: loop,
    typed.If: branch,
    typed.While: while_,
    typed.Break: break_,
    typed.Continue: continue_,
    typed.Assert: assert_,
    typed.Print: print_,
    typed.Copy: copy,
    typed.Gemm: gemm,
}
assert set(STATEMENTS) == set(get_args(typed.Stmt)), "a statement node has no handler"
