"""What steps must be before anything runs: those that follow from sizes and scalars, of outermost loops not 0 and of slices positive.

A slice counts where a call computes it, if its loops have iterations: outside of `if`, `while`, value-if, `&&`, `||` and
of loops that run one iteration after another. All other steps are checked where they are reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vxc.frontend.typed import Cast, Cond, Const, Copy, Expr, If, Let, LetIn, Loop, Op, Reduce, Symbol, TypedKernel, Var, While
from vxc.frontend.typed_walk import parts
from vxc.source import Span


class Required(NamedTuple):
    """A step as it stands in the tree, the same as an expression of sizes and scalars, whether it is of a slice, and where it stands."""

    step: Expr
    known: Expr
    slice: bool
    span: Span


def required_steps(kernel: TypedKernel) -> Iterator[Required]:
    known = {x for x in (*kernel.dims, *kernel.params) if isinstance(x, Symbol)}
    lets: dict[Symbol, Expr] = {}
    for statement in kernel.body:
        if isinstance(statement, Let) and statement.symbol.kind != "var":
            lets[statement.symbol] = statement.value
        loops = [(step, False, statement.span) for *_, step in statement.binders] if isinstance(statement, Loop) else []
        for step, of_slice, span in (*loops, *((step, True, step.span) for step in _of_slices(statement))):
            if not isinstance(step, Const) and (closed := _closed(step, lets, known)) is not None:
                yield Required(step, closed, of_slice, span)


def slice_steps(node: Reduce | Loop | Copy) -> tuple[Expr, ...]:
    """Those that only a call knows of the slices that a node goes over."""
    if isinstance(node, Copy):
        return tuple(step for step in (*node.source.steps, *node.target.steps) if not isinstance(step, Const))
    return node.steps


def _of_slices(root: object) -> Iterator[Expr]:
    todo = [root]
    while todo:
        match item := todo.pop():
            case Reduce() | Copy():
                yield from slice_steps(item)
            case Loop():
                yield from item.steps
                if item.kind not in ("parallel", "grid"):
                    continue
            case If() | While() | Cond():
                todo.append(item.cond)
                continue
        todo.extend(parts(item))


def _closed(expr: Expr, lets: Mapping[Symbol, Expr], known: set[Symbol]) -> Expr | None:
    """An expression with the `lets` that it is made from, or None where more than sizes and scalars decides it."""
    used: set[Symbol] = set()
    todo = [expr]
    while todo:
        match item := todo.pop():
            case Const():
                pass
            case Op():
                todo.extend(item.args)
            case Cast():
                todo.append(item.arg)
            case Var(symbol=symbol) if symbol in lets:
                if symbol not in used:
                    used.add(symbol)
                    todo.append(lets[symbol])
            case Var(symbol=symbol) if symbol in known:
                pass
            case _:
                return None
    return LetIn(tuple((s, value) for s, value in lets.items() if s in used), expr, expr.span) if used else expr
