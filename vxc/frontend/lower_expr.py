"""Lowering of expressions: one handler for each expression node.

A handler gives the operand that holds the value. Whatever needs memory of its own (a value-`if`, a reduction, an extern
call) declares a cell, fills it in a region and loads it.
"""

from __future__ import annotations

from typing import get_args

from vxc.diag import Diagnostic, VxcError
from vxc.frontend import typed
from vxc.frontend.lower_state import Handler, Lowering, Steps
from vxc.frontend.required import slice_steps
from vxc.ir.kernel import Const, Operand, Scalar
from vxc.ir.ops import BACKWARDS


def const(low: Lowering, node: typed.Const, name: str) -> Const:
    return Const(node.value, node.dtype)


def var(low: Lowering, node: typed.Var, name: str) -> Operand:
    held = low.values[node.symbol]
    return low.out.emit("load", held, name=name) if node.symbol.kind == "var" else held


def load(low: Lowering, node: typed.Load, name: str) -> Steps:
    indices = []
    for index in node.indices:
        indices.append((yield index))
    return low.out.emit("load", low.buffers[node.array], *indices, name=name)


def op(low: Lowering, node: typed.Op, name: str) -> Steps:
    args = []
    for arg in node.args:
        args.append((yield arg))
    return low.out.emit(node.name, *args, name=name)


def cast(low: Lowering, node: typed.Cast, name: str) -> Steps:
    arg = yield node.arg
    return low.out.emit(node.how, arg, dtype=node.dtype, name=name)


def cond(low: Lowering, node: typed.Cond, name: str) -> Steps:
    test = yield node.cond
    cell = low.out.declare("cell", name, node.dtype)
    with low.out.if_(test):
        low.out.emit("store", cell, (yield node.then))
        low.out.else_()
        low.out.emit("store", cell, (yield node.other))
    return low.out.emit("load", cell)


def choice(low: Lowering, node: typed.Cond, name: str) -> Steps:
    """In a plan, where there is no branch and nothing that an arm could do but give its value."""
    operands = []
    for operand in (node.cond, node.then, node.other):
        operands.append((yield operand))
    return low.out.emit("select", *operands, name=name)


def no_extern(low: Lowering, node: typed.ExternCall, name: str) -> None:
    message = f"`{node.name}` is CUDA text, and this is computed outside of kernels"
    hint = "call it in a kernel, and pass on what it gives as an array"
    raise VxcError(Diagnostic("E0232", message, low.source, node.span, help=hint))


def let_in(low: Lowering, node: typed.LetIn, name: str) -> Steps:
    for symbol, value in node.lets:
        low.values[symbol] = yield value, symbol.name
    return (yield node.body, name)


def check_slices(low: Lowering, node: typed.Reduce | typed.Loop | typed.Copy) -> Steps:
    """That slices go forwards, where the plan does not say so already."""
    for step in slice_steps(node):
        if step not in low.required:
            low.out.emit("assert", low.out.emit("gt", (yield step), 0), code="E0735", message=BACKWARDS)


def reduce(low: Lowering, node: typed.Reduce, name: str) -> Steps:
    yield from check_slices(low, node)
    symbols = [symbol for symbol, _ in node.binders]
    extents = []
    for _, extent in node.binders:
        extents.append((yield extent))
    count = extents[0]
    for extent in extents[1:]:
        count = low.out.emit("mul", count, extent)
    cell = low.out.declare("cell", name or node.op, node.dtype)
    index_name = symbols[0].name if len(symbols) == 1 else ""
    with low.out.reduce(cell, count, op=node.op, order=node.order, name=index_name) as index:
        low.values.update(zip(symbols, _digits(low, index, symbols, extents)))
        args = []
        for arg in node.args:
            args.append((yield arg))
        low.out.emit("contribute", *args)
    return low.out.emit("load", cell)


def _digits(low: Lowering, index: Scalar, symbols: list[typed.Symbol], extents: list[Scalar]) -> list[Scalar]:
    """The row-major digits of a flattened index, one for each symbol, the last fastest."""
    digits = []
    for symbol, outer, extent in zip(symbols[:0:-1], symbols[-2::-1], extents[:0:-1]):
        digits.append(low.out.emit("mod", index, extent, name=symbol.name))
        index = low.out.emit("floordiv", index, extent, name=outer.name if outer is symbols[0] else "")
    return [index, *reversed(digits)]


def scan(low: Lowering, node: typed.Scan, name: str) -> Steps:
    arg = yield node.arg
    return low.out.emit("prefix", arg, dtype=node.dtype, name=name, op=node.op)


def extern(low: Lowering, node: typed.ExternCall, name: str) -> Steps:
    args = []
    for arg in node.args:
        args.append((yield arg))
    cell = low.out.declare("cell", name or node.name, node.dtype)
    params = ", ".join(p.name for p in node.params)
    with low.out.region("extern", cell, *args, name=node.name, params=params, cuda=node.cuda):
        low.values.update(zip(node.params, args))
        low.out.emit("store", cell, (yield node.body))
    return low.out.emit("load", cell)


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

HOST = EXPRESSIONS | {typed.Cond: choice, typed.ExternCall: no_extern}  # for entries of a plan
