"""Reading the IR's text: the inverse of `printer.py`, with every mistake reported at its place.

Names are resolved from top to bottom, so what is used has been defined; then the verifier checks the result, so that what
is read is as sound as what the compiler makes.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr

from vxc import grammars
from vxc.diag import Diagnostic, Diagnostics, VxcError, suggestion
from vxc.dtypes import BOOL, DTYPES, I64, DType
from vxc.ir.builder import attributes
from vxc.ir.kernel import Attr, Buffer, Const, Inst, Kernel, Operand, Value, constant
from vxc.ir.ops import DECLARES, OPS
from vxc.ir.plan import Plan
from vxc.ir.tree import IrTree, Line, Number, Param, Type, Unit
from vxc.ir.verify import problems
from vxc.source import Source, Span

_PLACE = re.compile(r"![0-9]+:[0-9]+[ \t]*(?:#.*)?$", re.MULTILINE)
_MODES = {"in": ("param", "in"), "out": ("param", "out"), "inout": ("param", "inout"), "work": ("workspace", "")}


@cache
def parser() -> Lark:
    """The parser of grammar/vxir.lark, made once."""
    return grammars.parser("vxir", IrTree())


def read_ir(source: Source, placed: bool = False) -> Plan:
    """The plan in IR text, verified. Raises VxcError (E05xx) with every mistake found.

    The place of an instruction is what is written behind it, or with `placed` where it stands in this text.
    A kernel without a plan becomes a plan with its signature and workspaces and a launch of one block, which is what
    lowering writes before a grid is chosen.
    """
    units = _parse(source)
    plans, kernels = [u for u in units if u.stage is None], [u for u in units if u.stage is not None]
    if not plans and len(kernels) != 1:
        text = "several kernels need a plan that launches them" if kernels else "there is no plan and no kernel"
        hint = "start the text with `plan @name(...) { ... }` or `kernel @name(...) stage=tile { ... }`"
        raise VxcError(Diagnostic("E0501", text, source, _at(kernels[1].name) if kernels else Span(0, 0), help=hint))
    found = Diagnostics()
    readers = [_Reader(source, unit, found, placed) for unit in units]
    found.raise_if_errors()
    read = [reader.kernel() for reader in readers if reader.unit.stage is not None]
    first = readers[0]
    plan = Plan(first.name, first.params, first.insts, tuple(read)) if plans else plan_of(read[0])
    by_name = {"" if u.stage is None else _bare(u.name): u for u in reversed(units)}
    broken = [Diagnostic(p.code, p.message, source, _where(source, by_name.get(p.kernel, units[0]), p.index)) for p in problems(plan)]
    if broken:
        raise VxcError(broken)
    return plan


def read_placed(source: Source) -> Plan:
    """As `read_ir`; where no places are written, which are of a text not known, instructions are placed in this text."""
    if _PLACE.search(source.text):
        return read_ir(source)
    plan = read_ir(source, placed=True)
    return plan.with_kernels(replace(kernel, source=source) for kernel in plan.kernels)


def plan_of(kernel: Kernel) -> Plan:
    """The plan that launches one kernel, as one block."""
    work = [p for p in kernel.params if isinstance(p, Buffer) and p.space == "workspace"]
    launch = Inst("launch", (Const(1), *kernel.params), None, (("kernel", kernel.name),))
    entries = (*(Inst("workspace", (), buffer) for buffer in work), launch)
    return Plan(kernel.name, tuple(p for p in kernel.params if p not in work), entries, (kernel,))


# ---- syntax ----------------------------------------------------------------------------------------------------------

_TERMINALS = {
    "VALUE": "a value `%name`", "BUFFER": "a buffer `@name`", "WORD": "a word", "BOOL": "`true` or `false`", "INT": "an integer",
    "FLOAT": "a number", "STRING": "a string", "PLACE": "a place `!line:column`",
    "_NL": "the end of the line", "$END": "the end of the text",
}  # fmt: skip


def _parse(source: Source) -> tuple[Unit, ...]:
    text = source.text if source.text.endswith("\n") else source.text + "\n"
    try:
        return parser().parse(text)
    except UnexpectedToken as error:
        spelled = {t.name: t.pattern.value for t in parser().terminals if isinstance(t.pattern, PatternStr)}
        names = sorted(_TERMINALS.get(name) or f"`{spelled[name]}`" for name in error.expected)
        token = error.token
        what = {"$END": "the text ends too early", "_NL": "the line ends too early"}.get(token.type, f"`{token}` does not fit here")
        span = Span(len(source.text), len(source.text)) if token.type == "$END" else _at(token)
        diagnostic = Diagnostic("E0501", what, source, span, help=f"expected {_choice(names)}")
    except UnexpectedCharacters as error:
        at, char = error.pos_in_stream, text[error.pos_in_stream]
        what = "a string without its closing quote" if char == '"' else f"`{char}` is not used here"
        hint = "a name is `%value` or `@buffer`; a number other than i64 says its dtype, as `0.5:f32`"
        diagnostic = Diagnostic("E0501", what, source, Span(at, at + 1), help=hint)
    raise VxcError(diagnostic)


def _choice(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _at(token: Token) -> Span:
    return Span(token.start_pos, token.end_pos)


def _bare(name: Token) -> str:
    """A name without its `%` or `@`."""
    return name.value[1:]


def _where(source: Source, unit: Unit, index: int) -> Span:
    """An instruction's text, or the name in the header."""
    if index < 0 or index >= len(unit.lines):
        return _at(unit.name)
    line = unit.lines[index]
    first = line.op if line.result is None or line.op.value in DECLARES else line.result
    end = source.line_starts[first.line] - 1 if first.line < len(source.line_starts) else len(source.text)
    return Span(first.start_pos, first.start_pos + len(source.text[first.start_pos : end].partition("#")[0].rstrip()))


# ---- names -----------------------------------------------------------------------------------------------------------


class _Bad(Exception):
    """A mistake at a token. Without a code it follows from one reported already."""

    def __init__(self, code: str = "", message: str = "", token: Token | None = None, help: str = ""):
        self.code, self.message, self.token, self.help = code, message, token, help


class _Reader:
    """One plan or kernel: `name`, `params` and `insts` as read; mistakes go to `found`."""

    def __init__(self, source: Source, unit: Unit, found: Diagnostics, placed: bool):
        self.source, self.unit, self.found, self.placed = source, unit, found, placed
        self.scope: dict[str, Value | Buffer | None] = {}  # by written name; None after a mistake in its definition
        self.name = _bare(unit.name)
        scalars = {p.name: self.tried(self.param, p, p.name) for p in unit.params if p.mode is None}
        buffers = {p.name: self.tried(self.param, p, p.name) for p in unit.params if p.mode is not None}
        self.params = tuple((scalars if p.mode is None else buffers)[p.name] for p in unit.params)
        self.insts = tuple(self.tried(self.inst, line, line.result) for line in unit.lines)
        self.attrs = self.tried(self.attributes, unit.attrs, None)

    def kernel(self) -> Kernel:
        return Kernel(self.name, self.params, self.insts, self.unit.stage.value, tuple(w.value for w in self.unit.done), self.attrs)

    def tried(self, read, what, name: Token | None):
        """read(what), or None with the mistake reported and `name` marked as defined by mistake."""
        try:
            return read(what)
        except _Bad as bad:
            if bad.code:
                self.found.add(bad.code, bad.message, self.source, _at(bad.token), help=bad.help)
            if name is not None:
                self.scope[name.value] = None
            return None

    def param(self, p: Param) -> Value | Buffer:
        if p.mode is None:
            return self.define(p.name, Value(_bare(p.name), self.dtype(p.type)))
        if p.mode.value not in _MODES:
            raise _Bad("E0502", f"there is no mode `{p.mode}`", p.mode, help=f"modes are {', '.join(_MODES)}")
        align = None if p.align is None else self.literal(p.align)
        return self.define(p.name, replace(self.buffer(p.name, p.type, *_MODES[p.mode.value]), align=align))

    def inst(self, line: Line) -> Inst:
        op = line.op.value
        if op not in OPS:
            raise _Bad("E0502", f"there is no opcode `{op}`", line.op, help=suggestion(op, OPS, "`vxc ops` lists them"))
        if (op in DECLARES) != isinstance(line.type, Type):
            form = f"declares storage: `{op} @name: f32[8]`" if op in DECLARES else "declares no storage"
            raise _Bad("E0501", f"`{op}` {form}", line.op)
        operands = tuple(map(self.operand, line.operands))
        attrs = self.attributes(line.attrs, *([("kernel", _bare(line.kernel))] if line.kernel else []))
        return Inst(op, operands, self.result(line), attrs, self.place(line))

    def place(self, line: Line) -> tuple[int, int] | None:
        if self.placed:
            return line.op.line, line.op.column
        row, _, column = line.place[1:].partition(":") if line.place else ("", "", "")
        return (int(row), int(column)) if row else None

    def result(self, line: Line) -> Value | Buffer | None:
        name, op = line.result, line.op.value
        if name is None:
            return None
        if isinstance(line.type, Type):
            return self.define(name, self.buffer(name, line.type, op, ""))
        if line.type is None and OPS[op].result not in ("index", "none"):
            raise _Bad("E0501", f"the result {name} needs its dtype", name, help=f"write `{name}: f32 = {op} ...` with the dtype it has")
        return self.define(name, Value(_bare(name), self.dtype(line.type) if line.type else I64))

    def define(self, name: Token, what: Value | Buffer) -> Value | Buffer:
        self.scope[name.value] = what
        return what

    def buffer(self, name: Token, type_: Type, space: str, mode: str) -> Buffer:
        shape, strides = (None if part is None else tuple(map(self.operand, part)) for part in (type_.shape, type_.strides))
        return Buffer(_bare(name), self.dtype(type_.dtype), shape, space, mode, strides)

    def dtype(self, token: Token) -> DType:
        if token.value not in DTYPES:
            raise _Bad("E0502", f"there is no dtype `{token}`", token, help=suggestion(token.value, DTYPES))
        return DTYPES[token.value]

    def operand(self, what: Token | Number) -> Operand:
        if isinstance(what, Number):
            return self.number(*what)
        if what.type == "BOOL":
            return Const(what.value == "true", BOOL)
        if what.value not in self.scope:
            hint = suggestion(what.value, [name for name, known in self.scope.items() if known is not None])
            self.scope[what.value] = None
            kind = "value" if what.type == "VALUE" else "buffer"
            raise _Bad("E0502", f"there is no {kind} {what} before this", what, help=hint)
        known = self.scope[what.value]
        if known is None:
            raise _Bad()
        return known

    def number(self, token: Token, dtype: Token | None) -> Const:
        wanted = self.dtype(dtype) if dtype is not None else I64
        try:
            return constant(float(token) if token.type == "FLOAT" else int(token), wanted)
        except (ValueError, OverflowError):
            raise _Bad("E0503", f"{token} is not a value of {wanted}", token) from None

    def attributes(self, attrs: tuple, *more: tuple[str, Attr]) -> tuple[tuple[str, Attr], ...]:
        read = dict(more)
        for name, value in attrs:
            if name.value in read:
                raise _Bad("E0511", f"attribute `{name}` occurs twice", name)
            read[name.value] = tuple(map(self.literal, value)) if isinstance(value, tuple) else self.literal(value)
        return attributes(read)

    def literal(self, token: Token) -> int | bool | str:
        if token.type == "BOOL":
            return token.value == "true"
        try:
            if token.type == "INT":
                return int(token)
            text = json.loads(token, strict=False)
            text.encode()  # refuses half of a surrogate pair
            return text
        except ValueError:
            what = "an integer of too many digits" if token.type == "INT" else "a malformed string"
            raise _Bad("E0503", what, token, help='escapes are those of JSON: \\" \\\\ \\n \\t \\u00e9') from None
