"""Visiting a typed tree without recursion."""

from __future__ import annotations

from collections.abc import Iterator

from vxc.frontend.typed import Array, Symbol


def parts(node: object) -> Iterator[object]:
    """What a typed node or a tuple of them consists of, declarations of names left out."""
    if isinstance(node, tuple):
        yield from node
    elif _is_tree(node):
        yield from (getattr(node, name) for name in node.__dataclass_fields__ if name != "span")


def walk(root: object) -> Iterator[object]:
    """Every typed node below and with `root`."""
    todo = [root]
    while todo:
        node = todo.pop()
        if _is_tree(node):
            yield node
        todo.extend(parts(node))


def _is_tree(node: object) -> bool:
    return hasattr(node, "span") and not isinstance(node, (Symbol, Array))
