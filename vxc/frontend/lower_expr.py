"""Lowering of expressions: one handler for each expression node.

A handler gives the operand that holds the value. Whatever needs memory of its own (a value-`if`, a reduction, an extern
call) declares a cell, fills it in a region and loads it.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import get_args

from vxc.dtypes import I64
from vxc.frontend import typed
from vxc.frontend.lower_state import Handler, Lowering, Steps
from vxc.ir.kernel import Const, Operand, Scalar, Value


def const(low: Lowering, node: typed.Const, name: str) -> Const:
    return Const(node.value, node.dtype)


def var(low: Lowering, node: typed.Var, name: str) -> Operand:
    held = low.values[node.symbol]
    return low.value("load", held, dtype=node.dtype, name=name) if node.symbol.kind == "var" else held


def load(low: Lowering, node: typed.Load, name: str) -> Steps:
    indices = []
    for index in node.indices:
        indices.append((yield index))
    return low.value("load", low.buffers[node.array], *indices, dtype=node.dtype, name=name)


def op(low: Lowering, node: typed.Op, name: str) -> Steps:
    args = []
    for arg in node.args:
        args.append((yield arg))
    return low.value(node.name, *args, dtype=node.dtype, name=name)


def cast(low: Lowering, node: typed.Cast, name: str) -> Steps:
    arg = yield node.arg
    return low.value(node.how, arg, dtype=node.dtype, name=name)


def cond(low: Lowering, node: typed.Cond, name: str) -> Steps:
    test = yield node.cond
    cell = low.declare("cell", node.dtype, name=name)
    low.do("if", test)
    low.do("store", cell, (yield node.then))
    low.do("else")
    low.do("store", cell, (yield node.other))
    low.end()
    return low.value("load", cell, dtype=node.dtype, name=name)


def let_in(low: Lowering, node: typed.LetIn, name: str) -> Steps:
    for symbol, value in node.lets:
        low.values[symbol] = yield value, symbol.name
    return (yield node.body, name)


def reduce(low: Lowering, node: typed.Reduce, name: str) -> Steps:
    extents = []
    for _, extent in node.binders:
        extents.append((yield extent))
    count = extents[0]
    for extent in extents[1:]:
        count = low.value("mul", count, extent, dtype=I64)
    cell = low.declare("cell", node.dtype, name=name or node.op)
    symbols = [symbol for symbol, _ in node.binders]
    index_name = symbols[0].name if len(symbols) == 1 else "e"
    index = low.value("reduce", cell, count, dtype=I64, name=index_name, op=node.op, order=astuple(node.order))
    low.values.update(zip(symbols, _digits(low, index, symbols, extents)))
    args = []
    for arg in node.args:
        args.append((yield arg))
    low.do("contribute", *args)
    low.end(index)
    return low.value("load", cell, dtype=node.dtype, name=name)


def _digits(low: Lowering, index: Value, symbols: list[typed.Symbol], extents: list[Scalar]) -> list[Value]:
    """The row-major digits of a flattened index, one for each symbol, the last fastest."""
    digits = []
    for symbol, extent in reversed(list(zip(symbols[1:], extents[1:]))):
        digits.append(low.value("mod", index, extent, dtype=I64, name=symbol.name))
        index = low.value("floordiv", index, extent, dtype=I64, name=symbols[0].name if len(digits) == len(symbols) - 1 else "")
    return [index, *reversed(digits)]


def scan(low: Lowering, node: typed.Scan, name: str) -> Steps:
    arg = yield node.arg
    return low.value("prefix", arg, dtype=node.dtype, name=name, op=node.op)


def extern(low: Lowering, node: typed.ExternCall, name: str) -> Steps:
    args = []
    for arg in node.args:
        args.append((yield arg))
    cell = low.declare("cell", node.dtype, name=name or node.name)
    low.do("extern", cell, *args, name=node.name, params=", ".join(p.name for p in node.params), cuda=node.cuda)
    low.values.update(zip(node.params, args))
    low.do("store", cell, (yield node.body))
    low.end()
    return low.value("load", cell, dtype=node.dtype, name=name)


EXPRESSIONS: dict[type, Handler] = {
    typed.Const: const,
    typed.Var: var,
    typed.Load: load,
    typed.Op: op,
    typed.Cast: cast,
    typed.Cond: cond,
    typed.LetIn: let_in,
    typed.Reduce: reduce,
    typed.Scan: scan,
    typed.ExternCall: extern,
}
assert set(EXPRESSIONS) == set(get_args(typed.Expr)), "an expression node has no handler"
