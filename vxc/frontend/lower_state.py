"""What lowering keeps while it walks a typed tree, and the walk itself.

Handlers are generators: `operand = yield expr` lowers a child and gives its operand, `yield stmt` lowers a statement, and
`yield expr, "name"` asks for a named result. `Lowering.run` keeps the suspended handlers on a list, so that trees may nest
as deep as they like without Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

from vxc.frontend.typed import Array, Expr, Symbol
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Operand
from vxc.source import Source

Steps = Generator[Any, Any, "Operand | None"]
Handler = Callable[["Lowering", Any, str], "Steps | Operand | None"]


class Lowering:
    """Instructions so far (`out`), and what each symbol and array of the tree has become.

    `values` maps an immutable symbol to its operand and a `var` to its cell. The builder's place is always that of the node whose
    handler runs, or `place` where one is given. `depth` counts the loops around that node. `required` are expressions that the plan
    has shown to be what they must be.
    """

    def __init__(self, source: Source, handlers: dict[type, Handler], out: Builder, place: tuple[int, int] | None = None) -> None:
        self.source = source
        self.handlers = handlers
        self.out = out
        self.place = place
        self.depth = 0
        self.required: set[Expr] = set()
        self.values: dict[Symbol, Operand] = {}
        self.buffers: dict[Array, Buffer] = {}

    def run(self, root: Any, name: str = "") -> Operand | None:
        """Lower one expression (giving its operand) or statement."""
        suspended: list[tuple[GeneratorType, tuple[int, int] | None]] = []
        result = self._begin(root, name, suspended)
        while suspended:
            steps, self.out.loc = suspended[-1]
            try:
                child = steps.send(result)
            except StopIteration as stop:
                suspended.pop()
                result = stop.value
                continue
            item, name = child if type(child) is tuple else (child, "")
            result = self._begin(item, name, suspended)
        return result

    def _begin(self, item: Any, name: str, suspended: list) -> Operand | None:
        """Start a node's handler; the result of one that has no children is there at once."""
        self.out.loc = self.place or self.source.position(item.span.start)
        steps = self.handlers[type(item)](self, item, name)
        if type(steps) is not GeneratorType:
            return steps
        suspended.append((steps, self.out.loc))
        return None
