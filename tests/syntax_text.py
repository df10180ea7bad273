"""Helpers of tests of the parser: texts to trees, trees to text, what is wrong with a text."""

from __future__ import annotations

import pytest

from vxc.diag import VxcError
from vxc.frontend import syntax
from vxc.frontend.node import Expr, Node, Stmt
from vxc.frontend.parse import parse
from vxc.source import Source

def tree(text: str) -> syntax.Module:
    return parse(Source("t.vx", text))


def body(statements: str) -> tuple[Stmt, ...]:
    return tree(f"kernel k() {{\n{statements}\n}}\n").items[0].body.stmts


def value(expression: str) -> Expr:
    return body(f"let v = {expression};")[0].value


def show(node: Node) -> str:
    """An expression with all its parentheses."""
    match node:
        case syntax.Binary():
            return f"({show(node.left)} {node.op} {show(node.right)})"
        case syntax.Unary():
            return f"({node.op}{show(node.operand)})"
        case syntax.Cast():
            return f"({show(node.operand)} as {node.type})"
        case syntax.AttrExpr():
            return f"(@{node.attrs[0].name} {show(node.operand)})"
        case syntax.Name():
            return node.name
        case syntax.Number():
            return node.text
        case syntax.Call():
            return f"{node.func.name}({', '.join(map(show, node.args))})"


def errors(text: str) -> list[tuple[str, str, str]]:
    """(code, line:column, message) of each error in a file."""
    with pytest.raises(VxcError) as caught:
        tree(text)
    return [(d.code, d.place.removeprefix("t.vx:"), d.message) for d in caught.value.diagnostics]
