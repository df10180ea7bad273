"""What is said of indices that are not shown to stay in their array: which, what they may be, for what sizes, and the ways out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from vxc.analysis.access import collect, known_dimensions
from vxc.analysis.in_range import Unproven, unproven
from vxc.diag import Diagnostic, Label, VxcError
from vxc.dtypes import I64
from vxc.frontend import syntax
from vxc.frontend.node import walk
from vxc.frontend.parse import parse
from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.tiles import expand
from vxc.ir.walk import definitions
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record
from vxc.source import Source, Span

CODE = "N0311"


@record
class Finding:
    """A diagnostic about a kernel of the plan, and the (line, column) that it is about."""

    kernel: str
    loc: tuple[int, int] | None
    diagnostic: Diagnostic


def bounds_of(tile: Plan) -> tuple[Finding, ...]:
    """The findings on a plan at stage=tile, by place; the same index of several arrays is one."""
    found: dict[Finding, None] = {}
    for kernel in tile.kernels:
        expanded = replace(kernel, insts=expand(kernel.insts, kernel.params))
        words = _Wording(expanded)
        groups: dict[tuple, list[Unproven]] = {}
        for x in unproven(collect(expanded, known_dimensions(tile, kernel))):
            groups.setdefault(words.key(x), []).append(x)
        found |= dict.fromkeys(words.finding(several) for several in groups.values())
    return tuple(sorted(found, key=lambda f: f.loc or (0, 0)))


class _Element(NamedTuple):
    """A subscript of the source, of a name or ""."""

    span: Span
    name: str
    indices: tuple[syntax.Index | syntax.Window | syntax.Slice, ...]


class _Wording:
    """The words about one kernel; without a source, an index is shown as a form."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.source = kernel, kernel.source
        self._defined = definitions(kernel.insts)
        self._elements = _elements(kernel.source) if kernel.source else []

    def key(self, found: Unproven) -> tuple:
        """What findings have in common that are said as one."""
        access, line = found.access, (self._inst(found).loc or (0,))[0]
        return line, self._text(found), found.dimension, found.extent, access.loops, access.guards, found.below, found.above

    def finding(self, several: list[Unproven]) -> Finding:
        ordered = sorted(several, key=lambda u: self._inst(u).loc or (0, 0))
        first = ordered[0]
        names = " and ".join(f"`{name}`" for name in dict.fromkeys(source_name(u.access.buffer.name) for u in ordered))
        index, extent = self._text(first), source_name(str(first.extent))
        what = f"index {index} of {names}" if index else f"an index of {names}"
        empty = self._search_of_nothing(first)
        if empty:
            says = f"{what} is -1 where the {empty} has no elements"
        elif self._from_memory(first):
            says = f"{what} depends on data: nothing keeps it within 0 to {source_name(str(first.extent - 1))}"
        else:
            says = f"{what} may {' or '.join(_ends(first, extent))}"
        where = f"put the access under `if {self._test(first)}`" if index else "put the access under an `if` that tests the index"
        help_ = f"{where}, if that can happen; with --debug, every index is tested while the kernel runs"
        return Finding(self.kernel.name, self._inst(first).loc, self._diagnostic(says, ordered, extent, _seen(first), help_))

    def _test(self, found: Unproven) -> str:
        """The condition under which the index is in range."""
        index, extent = self._text(found), source_name(str(found.extent))
        inst = self._inst(found)
        box = inst.operands[1 + found.dimension] if len(inst.operands) > 1 + found.dimension else None
        made = self.kernel.insts[self._defined[box.name]] if isinstance(box, Value) and box.name in self._defined else None
        wide = f"({index} as i64)" if made is not None and made.op == "cast" and made.operands[0].dtype is not I64 else index
        return " && ".join([f"{index} >= 0"] * found.below + [f"{wide} < {extent}"] * found.above)

    def _diagnostic(self, says: str, several: list[Unproven], extent: str, notes: tuple[str, ...], help_: str) -> Diagnostic:
        if self.source is None:
            return Diagnostic(CODE, says, notes=notes, help=help_)
        spans = dict.fromkeys(self._span(u) for u in several)
        first, *others = spans
        labels = tuple(Label(self.source, span, "and here") for span in others)
        return Diagnostic(CODE, says, self.source, first, f"dimension {several[0].dimension} has extent {extent}", labels, notes, help_)

    def _text(self, found: Unproven) -> str:
        """The index as the source has it, else the form that it is (of a row, say); "" where that has no names."""
        written = self._element(found)
        index = written.indices[found.dimension] if written and found.dimension < len(written.indices) else None
        if isinstance(index, syntax.Index):
            text = " ".join(self.source.slice(index.span).split())
            return f"({text})" if isinstance(index.value, syntax.IfExpr) else text
        form = found.access.indices[found.dimension]
        return "" if any(a.name.isdigit() for a in form.atoms()) else source_name(str(form))

    def _span(self, found: Unproven) -> Span:
        written = self._element(found)
        return written.span if written else self.source.element_at(*self._inst(found).loc or (1, 1))

    def _element(self, found: Unproven) -> _Element | None:
        """The element as the source has it, also where the place is that of a call around it: then the first of the array from there on."""
        line, column = self._inst(found).loc or (1, 1)
        start, name = self.source.line_starts[line - 1] + column - 1, source_name(found.access.buffer.name)
        end = start + len(self.source.line(line)) - column + 1
        here = [x for x in self._elements if start <= x.span.start < end]
        return next((x for x in here if x.span.start == start), None) or next((x for x in here if x.name == name), None)

    def _inst(self, found: Unproven) -> Inst:
        return self.kernel.insts[found.access.at]

    def _sources(self, found: Unproven) -> Iterator[Inst]:
        """What defines the unknowns of an index."""
        names = sorted({a.name for a in found.access.indices[found.dimension].atoms()})
        return (self.kernel.insts[self._defined[name]] for name in names if name in self._defined)

    def _from_memory(self, found: Unproven) -> bool:
        return any(inst.op in ("load", "atomic") for inst in self._sources(found))

    def _search_of_nothing(self, found: Unproven) -> str:
        """`argmax` or `argmin` where the index is what one gives, which is in range if there are elements."""
        cells = {inst.operands[0].name for inst in self._sources(found) if inst.op == "load"}
        searches = (x.attr("op") for x in self.kernel.insts if x.op == "reduce" and x.operands[0].name in cells)
        return next((op for op in searches if op in ("argmax", "argmin")), "") if found.below and not found.above else ""


def _seen(found: Unproven) -> tuple[str, ...]:
    if found.seen is None:
        return ()
    sizes, value = found.seen
    given = ", ".join(f"{name} = {n}" for name, n in sizes.items())
    return (f"it is {value}{f' for {given}' if given else ''}",)


def _ends(found: Unproven, extent: str) -> Iterator[str]:
    low, high = (None if f is None else source_name(str(f)) for f in (found.lowest, found.highest))
    if found.below:
        yield f"be {low}, below 0" if low else "be below 0"
    if found.above:
        yield f"reach {high}, and the extent is {extent}" if high else f"pass the extent {extent}"


def _elements(source: Source) -> list[_Element]:
    """The subscripts of a source, in order, `x[i][j]` as one; of IR text, none."""
    try:
        found = [x for x in walk(parse(source)) if isinstance(x, syntax.Subscript)]
    except VxcError:
        return []
    inner = {x.base for x in found}
    return [_element(x) for x in found if x not in inner]


def _element(node: syntax.Subscript) -> _Element:
    base, indices = node.base, node.indices
    while isinstance(base, syntax.Subscript):
        base, indices = base.base, base.indices + indices
    return _Element(node.span, base.name if isinstance(base, syntax.Name) else "", indices)
