"""What `check` carries along: names in scope, where in the tree it stands, and what it has gathered so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any, NoReturn

from vxc.diag import Diagnostic, Label, VxcError, suggestion
from vxc.dtypes import DTYPES, DType
from vxc.frontend import dims, syntax
from vxc.frontend.foreign import TYPES
from vxc.frontend.typed import Expr, Stmt, Symbol
from vxc.record import state, value
from vxc.source import Source, Span

UNKNOWN = object()  # bound to a name whose definition was rejected: it is known, and nothing more is said about it


class Scope:
    """The names of a block; `outer` is the block around it. Each name has what it stands for and where it was written."""

    __slots__ = ("names", "outer")

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: dict[str, tuple[Any, Span | None]] = {}
        self.outer = outer

    def find(self, name: str) -> Any:
        """What the name stands for, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name][0]
            scope = scope.outer
        return None

    def all_names(self) -> list[str]:
        found: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            found.extend(scope.names)
            scope = scope.outer
        return found


@state
class Block:
    """A block of a grid: `threads` is what `@threads` says, 0 where it is not written, and `layouts` those in it that name threads."""

    threads: int
    layouts: list[Any] = field(default_factory=list)


@value
class At:
    """Where an expression or statement stands.

    `out` is the statement list being filled; `hoist` the same list where an invariant reduction may be put before the
    current statement. `row` is the row context (rows.Row) of an elementwise expression; `arm` is True in a part that is
    not always evaluated. `order` holds chunk, lanes, parts given by attributes. `loops` are the kinds of the loops around,
    `block` what a block is asked for, `calls` the functions being inlined, whose text may come from another `source`; then `call` is
    the place of the call.
    """

    scope: Scope
    source: Source
    out: list[Stmt] = field(default_factory=list)
    hoist: list[Stmt] | None = None
    row: Any = None
    arm: bool = False
    order: tuple[tuple[str, int], ...] = ()
    loops: tuple[str, ...] = ()
    block: Block | None = None
    marks: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()
    call: Span | None = None

    def but(self, **changes: Any) -> At:
        return replace(self, **changes)

    def place(self, span: Span) -> Span:
        """The span that the typed tree carries: of the kernel's own source."""
        return self.call or span


def in_grid(at: At) -> bool:
    """Whether this is work of one block."""
    return "grid" in at.loops or at.loops[:1] == ("persistent",)


def in_block(at: At) -> bool:
    """Whether this happens once per block: in a grid, outside `parallel`."""
    return in_grid(at) and "parallel" not in at.loops


@state
class State:
    """One kernel being checked."""

    source: Source
    functions: dict[str, tuple[syntax.Fn | syntax.Extern, Source]]
    reduce_chunk: int | None = None
    errors: list[Diagnostic] = field(default_factory=list)
    forms: dims.Forms = field(default_factory=dims.Forms)
    lengths: dict[Expr, Expr] = field(default_factory=dict)  # an extent that may be negative -> the elements that there are
    hoisted: dict[syntax.Call, Symbol] = field(default_factory=dict)  # reductions of row lets, computed once
    reads: list[set] = field(default_factory=list)  # what the row lets being checked read
    uses: list[Any] = field(default_factory=list)  # rows.Use of each row let
    writes: dict[Any, list[int]] = field(default_factory=dict)  # array or var -> times at which it is written
    ends: dict[int, int] = field(default_factory=dict)  # start time of a loop -> its end time
    clock: int = 0
    inlined: int = 0

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def length(self, extent: Expr) -> Expr:
        """The elements of a slice by its extent, which alone says whether rows are of one shape."""
        return self.lengths.get(extent, extent)

    def wrote(self, target: Any) -> None:
        self.writes.setdefault(target, []).append(self.clock)

    def read(self, target: Any) -> None:
        for reads in self.reads:
            reads.add(target)


def error(at: At, code: str, message: str, where: Any, **more: Any) -> Diagnostic:
    """A diagnostic at a span or node of the text being checked."""
    return Diagnostic(code, message, at.source, getattr(where, "span", where), **more)


def fail(at: At, code: str, message: str, where: Any, **more: Any) -> NoReturn:
    raise VxcError(error(at, code, message, where, **more))


def label(at: At, where: Any, text: str) -> Label:
    return Label(at.source, getattr(where, "span", where), text)


def unknown(at: At, node: syntax.Name, found: Any) -> NoReturn:
    """Fails for a name without meaning; says nothing twice about a name whose definition was rejected."""
    if found is UNKNOWN:
        raise VxcError(())
    names = [*at.scope.all_names(), "inf", "nan"]
    hint = _look_alike(node.name, names) or suggestion(node.name, names, "define it with `let`, or make it a parameter")
    fail(at, "E0201", f"nothing is named `{node.name}` here", node, help=hint)


def _look_alike(name: str, known: Iterable[str]) -> str:
    """A help line about a name that differs from this one only where one of the two is not ASCII, as Cyrillic `а` from `a`."""
    for other in known:
        pairs = [(a, b) for a, b in zip(name, other) if a != b]
        if len(name) == len(other) and pairs and not any(a.isascii() and b.isascii() for a, b in pairs):
            (mine, theirs), *_ = pairs
            return f"there is `{other}`, with U+{ord(theirs):04X} where this has U+{ord(mine):04X}"
    return ""


def bind(at: At, name: str, span: Span, thing: Any) -> None:
    """Give a name its meaning in the current block. One block cannot give a name twice."""
    check_name(at, name, span)
    before = at.scope.names.get(name)
    if before is not None:
        first = (label(at, before[1], "first defined here"),) if before[1] is not None else ()
        fail(at, "E0202", f"`{name}` is defined twice in one block", span, secondary=first, help="choose another name")
    at.scope.names[name] = (thing, span)


RESERVED = ("as", "in", "out", "inout", "inf", "nan", "true", "false")


def check_name(at: At, name: str, span: Span) -> None:
    if name in RESERVED:
        fail(at, "E0111", f"`{name}` is a reserved word and cannot be a name", span, help=f"write `{name}_`")


def dtype_named(at: At, name: str, span: Span) -> DType:
    """The dtype that a name in type position stands for."""
    found = at.scope.find(name)
    if isinstance(found, DType):
        return found
    if name in DTYPES:
        return DTYPES[name]
    generics = [n for n in at.scope.all_names() if isinstance(at.scope.find(n), DType)]
    hint = f"write `{TYPES[name]}`" if name in TYPES else suggestion(name, [*DTYPES, *generics], f"types are {', '.join(DTYPES)}")
    fail(at, "E0210", f"`{name}` is no type", span, help=hint)
