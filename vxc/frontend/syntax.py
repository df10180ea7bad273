"""The syntax tree: one frozen class per construct of the language, a span on every node.

Sequences are tuples. Statements and items carry the attributes written before them, `attrs` (a keyword argument).
"""

from __future__ import annotations

from vxc.frontend.node import Attr, Expr, Item, NamedArg, Node, Stmt, node
from vxc.source import Source, Span

# ---- types and layouts -----------------------------------------------------------------------------------------------


@node
class MapDim(Node):
    """A dimension on the left of a layout map: `i`, or `r in 2` for two replicas."""

    name: str
    extent: Expr | None


@node
class LayoutMap(Expr):
    """`[i, j, r in 2] -> [thread, slot]`."""

    dims: tuple[MapDim, ...]
    results: tuple[Expr, ...]


@node
class Extent(Node):
    """One dimension of a type: its size and, after a colon, its pitch: the elements allotted to it."""

    size: Expr
    stride: Expr | None


@node
class TypeExpr(Node):
    """`f32` (no dims) or `f32[M, N : ld]`; `name` is a dtype or a generic."""

    name: str
    dims: tuple[Extent, ...]


@node
class Generic(Node):
    """`BM = 128`, `T: dtype`, `CAUSAL: bool = false`; `kind` is the word after the colon, or None."""

    name: str
    name_span: Span
    kind: str | None
    default: Expr | None


@node
class Param(Node):
    """`x: T[M, N]`; `direction` is "in", "out" or "inout"."""

    attrs: tuple[Attr, ...]
    direction: str
    name: str
    name_span: Span
    type: TypeExpr


# ---- expressions -----------------------------------------------------------------------------------------------------


@node
class Name(Expr):
    name: str


@node
class Number(Expr):
    """`value` is an int, or for a float literal the nearest float64 of `text` (underscores removed)."""

    text: str
    value: int | float

    @property
    def is_float(self) -> bool:
        return isinstance(self.value, float)


@node
class String(Expr):
    """`value` has its escapes resolved."""

    value: str


@node
class Bool(Expr):
    value: bool


@node
class Unary(Expr):
    """`op` is one of `- ! ~`."""

    op: str
    operand: Expr


@node
class Binary(Expr):
    """`op` is one of `|| && == != <= >= < > | ^ & << >> + - * / // %`."""

    op: str
    left: Expr
    right: Expr


@node
class Cast(Expr):
    """`operand as type`; `type` is a dtype or a generic."""

    operand: Expr
    type: str
    type_span: Span


@node
class IfExpr(Expr):
    """`if cond { then } else { orelse }` as a value."""

    cond: Expr
    then: Expr
    orelse: Expr


@node
class Call(Expr):
    """`func(args, name = value)`: positional arguments, then named ones."""

    func: Name
    args: tuple[Expr, ...]
    named: tuple[NamedArg, ...]


@node
class Index(Node):
    """One index: `x[value]`."""

    value: Expr


@node
class Window(Node):
    """A start and an extent: `x[start :+ extent]`."""

    start: Expr
    extent: Expr


@node
class Slice(Node):
    """`x[start:stop:step]`, each part optional."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@node
class Subscript(Expr):
    """`base[indices]`; fewer indices than dimensions select a row."""

    base: Expr
    indices: tuple[Index | Window | Slice, ...]


@node
class AttrExpr(Expr):
    """`@chunk(8) dot(a, b)`."""

    attrs: tuple[Attr, ...]
    operand: Expr


# ---- statements --------------------------------------------------------------------------------------------------------


@node
class Block(Stmt):
    stmts: tuple[Stmt, ...]


@node
class Let(Stmt):
    """`let name: type = value;`, or `var` (mutable), whose value may be missing."""

    mutable: bool
    name: str
    name_span: Span
    type: TypeExpr | None
    value: Expr | None


@node
class Decl(Stmt):
    """`shared s: f16[16, 64];`; `space` is "shared", "fragment" or "local"."""

    space: str
    name: str
    name_span: Span
    type: TypeExpr
    init: Expr | None


@node
class Assign(Stmt):
    """`target op value;`; `op` is `=` or one of `+= -= *= /= |= &= ^= <<= >>=`."""

    target: Name | Subscript
    op: str
    value: Expr


@node
class CallStmt(Stmt):
    call: Call


@node
class Binder(Node):
    """`name in start..stop step step`; a missing start is 0, a missing step 1."""

    name: str
    name_span: Span
    start: Expr | None
    stop: Expr
    step: Expr | None


@node
class Loop(Stmt):
    """`kind` is one of `grid parallel serial unroll pipelined persistent`."""

    kind: str
    binders: tuple[Binder, ...]
    body: Block


@node
class While(Stmt):
    cond: Expr
    body: Block


@node
class If(Stmt):
    """`orelse` is an If for `else if`."""

    cond: Expr
    then: Block
    orelse: Block | If | None


@node
class Break(Stmt):
    """`break;`"""


@node
class Continue(Stmt):
    """`continue;`"""


@node
class Return(Stmt):
    value: Expr


# ---- items -----------------------------------------------------------------------------------------------------------


@node
class Kernel(Item):
    name: str
    name_span: Span
    generics: tuple[Generic, ...]
    params: tuple[Param, ...]
    body: Block


@node
class Program(Kernel):
    """A sequence of kernel calls, with the fields of a kernel."""


@node
class Fn(Item):
    name: str
    name_span: Span
    generics: tuple[Generic, ...]
    params: tuple[Param, ...]
    result: TypeExpr
    body: Block


@node
class Extern(Item):
    """`extern fn`: `cuda` is the device text, `body` what the interpreters run."""

    name: str
    name_span: Span
    params: tuple[Param, ...]
    result: TypeExpr
    cuda: str
    body: Block


@node
class Example(Item):
    """`example kernel(x = rand(f32, 8));`."""

    name: str
    name_span: Span
    args: tuple[Expr, ...]
    named: tuple[NamedArg, ...]


@node
class Import(Item):
    path: str


@node
class Module(Node):
    """One source file."""

    source: Source
    items: tuple[Item, ...]
