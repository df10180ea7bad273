"""What every node of the tree has: a span, attributes where they may stand, identity; and visiting without recursion.

Nodes are frozen. They compare and hash by identity, so they can key the tables that later steps make about them, and
their repr shows no children. Source text may nest as deep as it likes, so `walk` keeps a work list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, field
from typing import dataclass_transform

from vxc.record import keep, late
from vxc.source import Span


def _set_once(self: object, name: str, value: object) -> None:
    """A field of a copy is set when that is made, and then never again (a slot is no attribute before)."""
    if hasattr(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls):
    """Class decorator: a frozen dataclass with slots and identity equality, quick to make as a `record`."""
    cls.__setattr__, cls.__delattr__, cls.__doc__ = _set_once, keep, cls.__doc__ or cls.__name__
    return late(dataclass(init=False, slots=True, eq=False, repr=False)(cls))


@node
class Node:
    span: Span

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.span.start}:{self.span.end}]"


class Expr(Node):
    """Anything that has a value."""

    __slots__ = ()


@node
class NamedArg(Node):
    """`axis = 1` in a call, an attribute or an example."""

    name: str
    name_span: Span
    value: Expr


@node
class Attr(Node):
    """`@name(args)`; an argument is an expression, a LayoutMap or, in `named`, `name = value`."""

    name: str
    args: tuple[Expr, ...]
    named: tuple[NamedArg, ...]


@node
class Stmt(Node):
    """Anything that stands in a block."""

    attrs: tuple[Attr, ...] = field(default=(), kw_only=True)


@node
class Item(Node):
    """Anything that stands at the top of a file."""

    attrs: tuple[Attr, ...] = field(default=(), kw_only=True)


def fields(item: Node) -> tuple[str, ...]:
    """The names of a node's fields, in order, without `span`."""
    return tuple(item.__dataclass_fields__)[1:]


def children(item: Node) -> Iterator[Node]:
    """The nodes directly below, in field order."""
    for name in fields(item):
        value = getattr(item, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, Node))


def walk(root: Node) -> Iterator[Node]:
    """Every node of the tree, parents first, in source order."""
    todo = [root]
    while todo:
        item = todo.pop()
        yield item
        todo.extend(reversed(tuple(children(item))))
