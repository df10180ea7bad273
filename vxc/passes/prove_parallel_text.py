"""The words of prove-parallel's findings: which element, which iterations, and the ways out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.bounds import OutOfRange
from vxc.analysis.concrete import Collision, enumerable
from vxc.analysis.forms import Atom, Call
from vxc.diag import Diagnostic, Label
from vxc.ir.kernel import Inst, Kernel, Value
from vxc.ir.printer import mention
from vxc.ir.tiles import TILE
from vxc.ir.walk import definitions
from vxc.source import Source, Span

VERBS = {"read": ("reads", "read"), "atomic": ("updates", "updated"), "write": ("writes", "written")}
_SUFFIX = re.compile(r"(?<=\w)\.\d+\b")


class Wording:
    """Makes diagnostics about one kernel, placed in the source, which may be IR text; without one they show the instruction."""

    def __init__(self, kernel: Kernel, source: Source | None) -> None:
        self.kernel, self.source = kernel, source
        self._defined = definitions(kernel.insts)

    def out_of_range(self, found: OutOfRange) -> Diagnostic:
        name = source_name(found.access.buffer.name)
        form = found.access.indices[found.dimension]
        index, constant = source_name(str(form)), form.value is not None
        place = "before its start" if found.below else f"past its extent {found.extent}"
        says = f"index {index} of `{name}` is {place}" if constant else f"index {index} of `{name}` reaches {found.reached}, {place}"
        label = f"dimension {found.dimension} has extent {found.extent}"
        help_ = "indices start at 0" if found.below else f"the last index is {found.extent - 1}"
        return self._diagnostic("E0310", says, found.access, label, help_)

    def collision(self, facts: KernelFacts, loop: LoopFact, found: Collision) -> Diagnostic:
        element = _element(found.first, found.element)
        sides = [(access, _iteration(facts, loop, found, n)) for n, access in enumerate((found.first, found.second))]
        if found.first.mode == found.second.mode:
            (first, one), (second, two) = sides
            says = f"{one} and {two} both write `{element}`"
            label = f"written here by every `{source_name(loop.index.name)}`" if _same_everywhere(facts, loop, first) else "written here"
            secondary = self._labels(second, "and here") if second.at != first.at else ()
            help_ = self._ways_out(first)
        else:
            (first, one), (second, two) = sorted(sides, key=lambda side: list(VERBS).index(side[0].mode))
            says = f"{one} {VERBS[first.mode][0]} `{element}` which {two} {VERBS[second.mode][0]}"
            label = f"{VERBS[first.mode][1]} here"
            secondary = self._labels(second, f"{VERBS[second.mode][1]} here")
            help_ = "write to another array, or use a `serial` loop"
        says = f"`parallel` iterations collide: {says}"
        return self._diagnostic("E0312", says, first, label, help_, secondary, _sizes(facts, found.sizes))

    def unproven(self, facts: KernelFacts, loop: LoopFact, accesses: Sequence[Access]) -> Diagnostic:
        writes = [a for a in accesses if a.mode != "read"]
        shown = next((a for a in writes if not enumerable(facts, a)), writes[0])
        name = source_name(shown.buffer.name)
        data = any(self._from_memory(u) for f in shown.indices for u in f.atoms())
        wraps = any(isinstance(u, Call) and u.op in ("floordiv", "mod") for f in shown.indices for u in f.unknowns)
        label = "no rule separates the iterations here" + ": what is divided is a sum that may wrap" * wraps
        label = "which element this is depends on data" if data else label
        says = f"cannot prove that `parallel` iterations over `{loop.index}` touch different elements of `{name}`"
        help_ = 'if they do, say why with `@independent("reason")` on the loop; else use `atomic_add` or a `serial` loop'
        if wraps:
            help_ = f"take what may be any number modulo the divisor before it is added, as `(i + n % N) % N`; {help_}"
        return self._diagnostic("E0313", says, shown, label, help_)

    def _ways_out(self, access: Access) -> str:
        """For s += v the sum over what is added, else the general ways."""
        added = self._added(access)
        if added and access.buffer.space == "param":
            return f"use `sum({added[0]})`, `atomic_add({self._text(self.kernel.insts[access.at])}, {added[1]})`, or a `serial` loop"
        if added:
            return f"use `sum({added[0]})` or a `serial` loop"
        return "give each iteration its own element, or use a reduction, an atomic or a `serial` loop"

    def _added(self, access: Access) -> tuple[str, str] | None:
        """(x, x[i]) where the store puts s + x[i] back into s."""
        at, insts = self._defined, self.kernel.insts
        stored = insts[access.at].operands[-1]
        total = insts[at[stored.name]] if isinstance(stored, Value) and stored.name in at else None
        if total is None or total.op != "add" or self.source is None:
            return None
        terms = [insts[at[o.name]] for o in total.operands if isinstance(o, Value) and o.name in at and insts[at[o.name]].op == "load"]
        others = [t for t in terms if t.operands[0] != access.buffer]
        if len(terms) != 2 or len(others) != 1 or others[0].operands[0].space == "cell":
            return None
        text = self._text(others[0])
        return (source_name(others[0].operands[0].name), text) if text.endswith("]") else None  # IR text has no expressions

    def _from_memory(self, u: Atom) -> bool:
        at = self._defined.get(u.name)
        return at is not None and self.kernel.insts[at].op in ("load", "atomic")

    def _text(self, inst: Inst) -> str:
        return self.source.slice(self._span(inst))

    def _span(self, inst: Inst) -> Span:
        return self.source.element_at(*inst.loc or (1, 1))

    def _labels(self, access: Access, text: str) -> tuple[Label, ...]:
        return (Label(self.source, self._span(self.kernel.insts[access.at]), text),) if self.source else ()

    def _diagnostic(self, code: str, says: str, access: Access, label: str, help_: str, secondary=(), notes=()) -> Diagnostic:
        inst = self.kernel.insts[access.at]
        if self.source is None:
            return Diagnostic(code, says, notes=(*notes, mention(self.kernel.name, inst)), help=help_)
        return Diagnostic(code, says, self.source, self._span(inst), label, tuple(secondary), tuple(notes), help_)


def source_name(name: str) -> str:
    """A name as written, or names in an index: without the suffixes that make them unique."""
    return _SUFFIX.sub("", name)


def _element(access: Access, element: tuple[int, ...]) -> str:
    name = source_name(access.buffer.name)
    return f"{name}[{', '.join(map(str, element))}]" if element else name


def _iteration(facts: KernelFacts, loop: LoopFact, found: Collision, n: int) -> str:
    """`i=0`, with the inner indices that decide the element, those of tiles left out."""
    used = {a.name for access in (found.first, found.second) for f in access.indices for a in f.atoms()}
    values = found.indices[n]
    used -= {inst.result.name for inst in facts.kernel.insts if inst.op == "loop" and inst.attr("independent") == TILE}
    shown = [name for name in values if name == loop.index.name or (name in used and facts.varies(name, loop))]
    return ", ".join(f"{source_name(name)}={values[name]}" for name in shown)


def _sizes(facts: KernelFacts, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """A note of the sizes, unless the smallest that give two iterations do."""
    telling = any(n > 2 or Atom(name) not in facts.ranges.least for name, n in sizes.items())
    return (f"seen for {', '.join(f'{name} = {n}' for name, n in sizes.items())}",) if telling else ()


def _same_everywhere(facts: KernelFacts, loop: LoopFact, access: Access) -> bool:
    return not any(facts.varies(a.name, loop) for f in access.indices for a in f.atoms())
