"""Parsing: a source becomes a `syntax.Module`, or one expression, or diagnostics. `dump` prints a tree.

After a mistake, reading goes on at the next item, so that every item of a file can report one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from lark import Lark, TextSlice
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from vxc import grammars
from vxc.diag import Diagnostics, Label
from vxc.frontend.build import Build, Fault
from vxc.frontend.node import Expr, Node, fields
from vxc.frontend.syntax import Module
from vxc.frontend.syntax_errors import explain_character, explain_token
from vxc.layout.text import LayoutTree
from vxc.source import Source, Span

_MOST_ERRORS = 20
_ITEM = re.compile(r"^(?:@|kernel\b|program\b|fn\b|extern\b|example\b|import\b)", re.MULTILINE)


@cache
def parser() -> Lark:
    """The parser of grammar/vx.lark, made once."""
    return grammars.parser("vx", Build())


def parse(source: Source) -> Module:
    """The syntax tree of a source. Raises VxcError with up to 20 syntax errors (E01xx)."""
    text, start = source.text, 0
    found = Diagnostics()
    items: list[Node] = []
    while start < len(text) and len(found.found) < _MOST_ERRORS:
        read = _read(text, start, "start")
        if not isinstance(read, Fault):
            items += read
            break
        _note(found, source, read)
        start = read.resume if read.resume >= 0 else _next_item(text, read.span.end)
    found.raise_if_errors()
    return Module(Span(0, len(text)), source, tuple(items))


def parse_expression(source: Source) -> Expr:
    """The syntax tree of a source that is one expression. Raises VxcError with the first syntax error (E01xx)."""
    found = Diagnostics()
    read = _read(source.text, 0, "expression")
    if isinstance(read, Fault):
        _note(found, source, read)
    found.raise_if_errors()
    return read


def _read(text: str, start: int, rule: str) -> Any:
    """What the callback of a rule makes of the text from `start` on, or the first mistake in it."""
    try:
        return parser().parse(TextSlice(text, start, len(text)), rule)
    except Fault as fault:
        return fault
    except UnexpectedToken as error:
        return explain_token(error, text, parser().terminals, "file" if rule == "start" else rule)
    except UnexpectedCharacters as error:
        return explain_character(error, text)


def _note(found: Diagnostics, source: Source, fault: Fault) -> None:
    labels = tuple(Label(source, span, note) for span, note in fault.secondary)
    found.add(fault.code, fault.message, source, fault.span, secondary=labels, help=fault.help)


def _next_item(text: str, after: int) -> int:
    match = _ITEM.search(text, after)
    return match.start() if match else len(text)


def dump(root: Node) -> str:
    """A tree as text, one node a line: field, class, plain fields and, below a Module, line:column; children indented."""
    place = root.source.position if isinstance(root, Module) else None
    lines: list[str] = []
    todo: list[tuple[str, str, Node]] = [("", "", root)]
    while todo:
        indent, label, node = todo.pop()
        lines.append(indent + " ".join([label + type(node).__name__, *_plain(node)]))
        if place:
            line, column = place(node.span.start)
            lines[-1] += f" @{line}:{column}"
        todo += reversed([(indent + "  ", name, child) for name, child in _below(node)])
    return "\n".join(lines) + "\n"


def _plain(node: Node) -> list[str]:
    """The fields that hold neither nodes nor places."""
    values = ((name, getattr(node, name)) for name in fields(node))
    return [f"{name}={value!r}" for name, value in values if isinstance(value, (str, int, float))]


def _below(node: Node) -> Iterator[tuple[str, Node]]:
    """The child nodes, with a label where the field holds one node."""
    for name in fields(node):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield f"{name}: ", value
        elif isinstance(value, tuple):
            yield from (("", part) for part in value if isinstance(part, Node))


TABLES = {"vx": Build(), "layout": LayoutTree()}
"""The grammars that have a table beside them, with their callbacks."""

if __name__ == "__main__":
    for name, callbacks in TABLES.items():
        print(grammars.write_table(name, callbacks))
