"""What lowering keeps while it walks a typed tree, and the walk itself.

Handlers are generators: `operand = yield expr` lowers a child and gives its operand, `yield stmt` lowers a statement, and
`yield expr, "name"` asks for a named result. `Lowering.run` keeps the suspended handlers on a list, so that trees may nest
as deep as they like without Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

from vxc.dtypes import DType
from vxc.frontend.typed import Array, Symbol
from vxc.ir.kernel import Attr, Buffer, Inst, Operand, Scalar, Value
from vxc.source import Source, Span

Steps = Generator[Any, Any, "Operand | None"]
Handler = Callable[["Lowering", Any, str], "Steps | Operand | None"]


class Names:
    """Unique IR names: the source's name where there is one (`x`, then `x.1`), else the next number."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self._next = 0

    def fresh(self, wanted: str = "") -> str:
        if not wanted:
            self._next += 1
            return str(self._next - 1)
        while True:
            count = self._used.get(wanted, 0)
            self._used[wanted] = count + 1
            name = f"{wanted}.{count}" if count else wanted
            if not count or name not in self._used:
                self._used.setdefault(name, 1)
                return name


class Lowering:
    """Instructions so far, and what each symbol and array of the tree has become.

    `values` maps an immutable symbol to its operand and a `var` to its cell.
    """

    def __init__(self, source: Source, handlers: dict[type, Handler]) -> None:
        self.source = source
        self.handlers = handlers
        self.insts: list[Inst] = []
        self.values: dict[Symbol, Operand] = {}
        self.buffers: dict[Array, Buffer] = {}
        self.value_names = Names()
        self.buffer_names = Names()
        self._loc: tuple[int, int] | None = None

    def run(self, root: Any, name: str = "") -> Operand | None:
        """Lower one expression (giving its operand) or statement."""
        suspended: list[tuple[GeneratorType, tuple[int, int] | None]] = []
        result = self._begin(root, name, suspended)
        while suspended:
            steps, self._loc = suspended[-1]
            try:
                child = steps.send(result)
            except StopIteration as stop:
                suspended.pop()
                result = stop.value
                continue
            result = self._begin(*(child if type(child) is tuple else (child, "")), suspended)
        return result

    def _begin(self, item: Any, name: str, suspended: list) -> Operand | None:
        self._loc = self.source.position(item.span.start)
        steps = self.handlers[type(item)](self, item, name)
        if type(steps) is not GeneratorType:
            return steps
        suspended.append((steps, self._loc))
        return None

    # Instructions, each at the place of the node whose handler emits it ----------------------------------------------------

    def do(self, op: str, /, *operands: Operand, **attrs: Attr) -> None:
        """An instruction without result."""
        self._emit(op, operands, None, attrs)

    def value(self, op: str, /, *operands: Operand, dtype: DType, name: str = "", **attrs: Attr) -> Value:
        """An instruction that defines a value."""
        result = Value(self.value_names.fresh(name), dtype)
        self._emit(op, operands, result, attrs)
        return result

    def declare(self, space: str, dtype: DType, shape: tuple[Scalar, ...] = (), name: str = "") -> Buffer:
        """A storage declaration; `space` is also its opcode."""
        buffer = Buffer(self.buffer_names.fresh(name), dtype, shape, space)
        self._emit(space, (), buffer, {})
        return buffer

    def end(self, *index: Value) -> None:
        self._emit("end", index, None, {})

    def _emit(self, op: str, operands: tuple[Operand, ...], result: Value | Buffer | None, attrs: dict[str, Attr]) -> None:
        self.insts.append(Inst(op, operands, result, tuple(sorted(attrs.items())), self._loc))

    def place(self, span: Span) -> None:
        """Emit what follows at another place of the same node."""
        self._loc = self.source.position(span.start)
