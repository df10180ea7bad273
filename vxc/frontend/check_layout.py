"""The text of an `@layout`: its dimensions are those of what it stands before, generics are replaced by their values."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.frontend import syntax
from vxc.frontend.generics import known
from vxc.frontend.scope import At, count, fail
from vxc.frontend.values import Value

OPERATORS = ("+", "-", "*", "//", "%", "^", "&")
_DIVIDES = ("//", "%")


def layout_text(at: At, layout: syntax.LayoutMap, what: str, rank: int, shared: bool) -> Generator[Any, Any, str]:
    """`[i, j] -> [i // 8, j % 4]`. `shared` memory has an index for each dimension, all else a thread and a slot."""
    dims = [dim.name for dim in layout.dims]
    plain = sum(dim.extent is None for dim in layout.dims)
    if plain != rank:
        fail(at, "E0220", f"the layout names {count(plain, 'dimension')}, and {what} has {rank}", layout, help="name each once")
    if len(set(dims)) != len(dims):
        fail(at, "E0220", "a dimension occurs twice in a layout", layout, help="name each once")
    replicas = [dim.extent for dim in layout.dims if dim.extent is not None]
    if shared and replicas:
        fail(at, "E0220", "replicas of a `shared` array", replicas[0], help="shared memory holds each element once")
    if len(layout.results) != (rank if shared else 2):
        needed = f"an index for each of {count(rank, 'dimension')}" if shared else "a thread and a slot"
        fail(at, "E0220", f"a layout of {count(len(layout.results), 'result')}, where {what} needs {needed}", layout, help=_SAMPLES[shared])
    shown = []
    for dim in layout.dims:
        extent = None if dim.extent is None else known((yield dim.extent, at.but(row=None)), at, "a number of replicas")
        if extent is not None and extent < 1:
            fail(at, "E0220", f"{extent} replicas", dim, help="write 1 or more")
        shown.append(dim.name if extent is None else f"{dim.name} in {extent}")
    return f"[{', '.join(shown)}] -> [{', '.join(_text(at, result, dims) for result in layout.results)}]"


_SAMPLES = {True: "write `[i, j] -> [i, j ^ (i % 8)]`", False: "write `[i, j] -> [thread, slot]`"}


def _text(at: At, expr: syntax.Expr, dims: list[str]) -> str:
    """An expression with every operand that is an operation in parentheses, but for the left one of an equal operator."""
    out: list[str] = []
    todo: list[str | syntax.Expr] = [expr]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item, syntax.Binary) and item.op in OPERATORS:
            todo += reversed([*_operand(item.left, item.op), f" {item.op} ", *_operand(item.right)])
        else:
            out.append(_leaf(at, item, dims))
    return "".join(out)


def _operand(expr: syntax.Expr, op: str = "") -> list[str | syntax.Expr]:
    return ["(", expr, ")"] if isinstance(expr, syntax.Binary) and (expr.op != op or op in _DIVIDES) else [expr]


def _leaf(at: At, item: syntax.Expr, dims: list[str]) -> str:
    if isinstance(item, syntax.Name) and item.name in dims:
        return item.name
    value = Value(item.span, literal=item.value) if isinstance(item, syntax.Number) else None
    if isinstance(item, syntax.Name):
        value = at.scope.find(item.name)
    if not isinstance(value, Value) or not isinstance(value.number, int) or value.number < 0:
        hint = f"use its dimensions, numbers, generics and {' '.join(OPERATORS)}"
        fail(at, "E0220", "a layout is arithmetic on its dimensions", item, help=hint)
    return str(value.number)
