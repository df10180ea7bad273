"""Every memory access of a kernel, its indices as forms over loop indices, dimensions and what only the run knows.

One linear walk. Accesses that agree in everything (buffer, forms, mode, loops, conditions) are listed once, so that a long
straight-line kernel has as many accesses as it has different ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from vxc.analysis.forms import MAX_TERMS, Atom, Call, Form, call, form, manageable
from vxc.analysis.ranges import Ranges
from vxc.analysis.wrapping import wrapped
from vxc.dtypes import BOOL, I64, DType
from vxc.ir.facts import trip_count
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import LOOPS, Regions
from vxc.record import entity, record, value
from vxc.semantics import DIVISIONS, SCALAR_OPS

MODES = {"r": "read", "w": "write", "rw": "atomic"}


@entity
class LoopFact:
    """A loop at position `at` of the instruction list; `kind` is that of the loop, or 'scan' or 'reduce'.

    `outer` are the loops around it, outermost first; `ranges` holds inside it.
    """

    at: int
    kind: str
    index: Atom
    start: Form
    stop: Form
    step: Form
    outer: tuple[LoopFact, ...]
    ranges: Ranges = field(repr=False)

    @property
    def parallel(self) -> bool:
        """True where distinct iterations may run at the same time and write memory."""
        return self.kind in ("parallel", "scan")

    @cached_property
    def is_rectangular(self) -> bool:
        """True where the bounds are the same in all iterations of the loops around it."""
        return {loop.index for loop in self.outer}.isdisjoint([*self.start.atoms(), *self.stop.atoms()])

    @cached_property
    def trips(self) -> int | None:
        """How many iterations there are, where the bounds are constants."""
        bounds = [f.value for f in (self.start, self.stop, self.step)]
        return trip_count(*bounds) if None not in bounds and bounds[2] else None


@value
class Access:
    """One access: `mode` is read, write or atomic, `at` its first instruction.

    `guards` are the conditions around it, (form, whether it holds). `regular` is False where a `while`, `break` or
    `continue` also has a say in whether it runs.
    """

    buffer: Buffer
    indices: tuple[Form, ...]
    mode: str
    loops: tuple[LoopFact, ...]
    guards: tuple[tuple[Form, bool], ...]
    regular: bool
    at: int = field(compare=False)


@record
class KernelFacts:
    """What the walk finds. `homes` maps a buffer declared in the kernel, and an unknown defined in it, to the loops around it.

    `chosen` are unknowns that are one of two forms, which together grew past what a form may be: (condition, where it holds, else).
    `places` are the positions of all instructions that make an access, `forms` what values are, by name.
    """

    kernel: Kernel
    accesses: tuple[Access, ...]
    loops: tuple[LoopFact, ...]
    homes: Mapping[str, tuple[LoopFact, ...]]
    ranges: Ranges
    extents: Mapping[str, tuple[Form, ...]]
    chosen: Mapping[str, tuple[Form, Form, Form]]
    places: Mapping[Access, list[int]]
    forms: Mapping[str, Form]

    @cached_property
    def wrapped(self) -> frozenset[Form]:
        """Forms of values that may be other numbers: comparisons of these say nothing of the unknowns in them."""
        return frozenset(self.forms[name] for name in wrapped(self.kernel) if name in self.forms)

    @cached_property
    def countable(self) -> frozenset[str]:
        """Unknowns that an instance of the kernel enumerates: loop indices, dimensions and integer arguments."""
        params = (p.name for p in self.kernel.params if isinstance(p, Value) and p.dtype.is_int)
        return frozenset((*params, *(loop.index.name for loop in self.loops)))

    @cached_property
    def within(self) -> Mapping[int, tuple[Access, ...]]:
        """By the position of a loop, the accesses in it, in program order."""
        found: dict[int, list[Access]] = {loop.at: [] for loop in self.loops}
        for access in self.accesses:
            for loop in access.loops:
                found[loop.at].append(access)
        return {at: tuple(accesses) for at, accesses in found.items()}

    def varies(self, name: str, loop: LoopFact) -> bool:
        """True where the unknown or buffer of this name is another one in each iteration of the loop."""
        return loop in self.homes.get(name, ())


def collect(kernel: Kernel, known: Mapping[str, Form] | None = None) -> KernelFacts:
    """The accesses of a kernel at stage=tile. `known` gives dimensions that the plan requires to equal a form."""
    return _Walk(kernel, known or {}).run()


def known_dimensions(plan: Plan, kernel: Kernel) -> dict[str, Form]:
    """Parameters of the kernel that are a form over its other parameters: what its launch passes, or `require` entries, say so."""
    launches = [e for e in plan.entries if e.op == "launch" and e.attr("kernel") == kernel.name]
    if len(launches) != 1:
        return {}
    inner: dict[str, str] = {}
    found: dict[str, Form] = {}
    for passed, param in zip(launches[0].operands[1:], kernel.params):
        if isinstance(passed, Const):
            found |= {} if passed.dtype.is_float else {param.name: form(int(passed.value))}
        elif inner.setdefault(passed.name, param.name) != param.name and isinstance(param, Value):
            found[param.name] = form(Atom(inner[passed.name]))
    host = _Walk(Kernel(plan.name, plan.params, plan.entries), {})
    equal: dict[str, tuple[Value, Operand]] = {}
    for entry in plan.entries:
        if entry.op == "eq" and isinstance(entry.operands[0], Value):
            equal[entry.result.name] = entry.operands
        if entry.op == "require" and isinstance(entry.operands[0], Value) and entry.operands[0].name in equal:
            bound, value = equal[entry.operands[0].name]
            f = host.form(value)
            if bound.name in inner and all(a.name in inner for a in f.atoms()):
                found[inner[bound.name]] = f.replace(lambda u: form(Atom(inner[u.name])) if isinstance(u, Atom) else None)
        host.define(entry)
    return found


class _Walk:
    """The walk's state: forms by value name, and the loops and conditions around the current instruction."""

    def __init__(self, kernel: Kernel, known: Mapping[str, Form]) -> None:
        self.kernel = kernel
        self.forms: dict[str, Form] = dict(known)
        self.loops: tuple[LoopFact, ...] = ()
        self.guards: tuple[tuple[Form, bool], ...] = ()
        self.regular = True
        self.homes: dict[str, tuple[LoopFact, ...]] = {}
        self.levels: dict[str, int] = {}  # of a declared buffer: the region that it stands in
        self.cells: dict[str, Form] = {}  # what a cell holds, where that is a form
        self.choices: dict[str, tuple[Form, Form, Form]] = {}  # by cell, where it is none
        self.chosen: dict[str, tuple[Form, Form, Form]] = {}
        self.extents: dict[str, tuple[Form, ...]] = {}
        least = {}
        for buffer in (p for p in kernel.params if isinstance(p, Buffer)):
            self._extent(buffer)
            least.update({u: 0 for f in self.extents[buffer.name] for u in f.unknowns if isinstance(u, Atom) and f == form(u)})
        self.ranges = self.outermost = Ranges({}, least)

    def run(self) -> KernelFacts:
        insts = self.kernel.insts
        regions = Regions.of(insts)
        leaky = {regions.innermost(i, LOOPS) for i, inst in enumerate(insts) if inst.op in ("break", "continue")}
        writes = Counter(inst.operands[0].name for inst in insts if _writes_cell(inst))
        arms: dict[int, dict[str, list[tuple[int, Form]]]] = {}  # by `if`: cells, and what its arms store to them
        found: dict[Access, list[int]] = {}
        loops: list[LoopFact] = []
        outside: list[tuple] = []  # what held before each open region
        for i, inst in enumerate(insts):
            if inst.op == "else":
                condition, holds = self.guards[-1]
                self.guards = (*self.guards[:-1], (condition, not holds))
            elif inst.op == "end":
                opener, self.loops, self.guards, self.regular, self.ranges = outside.pop()
                for name, stores in arms.pop(opener, {}).items():
                    self._chosen(name, stores, regions, opener)
            elif OPS[inst.op].opens:
                outside.append((i, self.loops, self.guards, self.regular, self.ranges))
                self.regular = self.regular and i not in leaky and inst.op != "while"
                if inst.op == "if":
                    self.guards = (*self.guards, (self.form(inst.operands[0]), True))
                elif inst.op in ("loop", "reduce", "scan"):
                    loops.append(self._enter(i, inst))
            else:
                for a in accesses(inst):
                    indices = tuple(self.form(x) for x in a.box)
                    found.setdefault(Access(a.buffer, indices, MODES[a.mode], self.loops, self.guards, self.regular, i), []).append(i)
                if _writes_cell(inst) and writes[inst.operands[0].name] == 2:
                    arm = arms.setdefault(regions.parent[i], {}).setdefault(inst.operands[0].name, [])
                    arm.append((i, self.form(inst.operands[1])))
                self.define(inst)
                if isinstance(inst.result, Buffer):
                    self.levels[inst.result.name] = regions.parent[i]
        known = self.homes, self.outermost, self.extents, self.chosen
        return KernelFacts(self.kernel, tuple(found), tuple(loops), *known, found, self.forms)

    def _chosen(self, cell: str, stores: list[tuple[int, Form]], regions: Regions, opener: int) -> None:
        """A cell that nothing but the two arms of one `if` beside its declaration store to is a `select` from there on."""
        if len(stores) != 2 or self.levels.get(cell) != regions.parent[opener]:
            return
        (first, a), (second, b) = stores
        if first < regions.other[opener] < second:
            stored = self.kernel.insts[first]
            condition = self.form(self.kernel.insts[opener].operands[0])
            f = _select(condition, a, b, stored.operands[0].dtype)
            if manageable(f) and not stored.operands[0].dtype.is_float:
                self.cells[cell] = f
            else:
                self.choices[cell] = (condition, a, b)

    def _extent(self, buffer: Buffer) -> None:
        self.extents[buffer.name] = tuple(self.form(n) for n in buffer.shape)

    def _enter(self, at: int, inst: Inst) -> LoopFact:
        """Go into a loop: its index runs from start to the last value below stop, and there is at least one."""
        if inst.op == "loop":
            start, stop, *step = (self.form(x) for x in inst.operands)
        else:
            start, stop, step = form(0), self.form(inst.operands[-1]), []
        by = step[0] if step else form(1)
        index = Atom(inst.result.name)
        if (by.value or 0) > 0:
            ends = (start, stop - 1)
        elif (by.value or 0) < 0:
            ends = (stop + 1, start)
        else:
            ends = (None, None)
        runs = [stop, *_operands_of_min(stop)] if by.value and self.ranges.nonnegative(start) else []
        self.ranges = self.ranges.with_bounds({index: ends}, runs)
        loop = LoopFact(at, inst.attr("kind", inst.op), index, start, stop, by, self.loops, self.ranges)
        self.forms[index.name] = form(index)
        self.loops = (*self.loops, loop)
        self.homes[index.name] = self.loops
        return loop

    def form(self, x: Operand) -> Form:
        if isinstance(x, Const):
            return form(int(x.value)) if not x.dtype.is_float else form(Atom(f"{x.value}"))
        return self.forms.get(x.name) or form(Atom(x.name))

    def define(self, inst: Inst) -> None:
        """Give the result of an instruction its form, or note where the unknown that it is comes from."""
        result = inst.result
        if result is None:
            return
        self.homes[result.name] = self.loops
        if isinstance(result, Buffer):
            self._extent(result)
        elif inst.op == "load" and inst.operands[0].name in self.cells:
            self.forms[result.name] = self.cells[inst.operands[0].name]
        elif inst.op == "load" and inst.operands[0].name in self.choices:
            self.chosen[result.name] = self.choices[inst.operands[0].name]
        elif inst.op in _RULES or inst.op in SCALAR_OPS:
            whole = all(x.dtype.is_int or x.dtype is BOOL for x in (*inst.operands, result))
            if whole and manageable(f := self._arithmetic(inst, [self.form(x) for x in inst.operands])):
                self.forms[result.name] = f

    def _arithmetic(self, inst: Inst, args: list[Form]) -> Form:
        dtype = inst.result.dtype
        rule = None if inst.op in _DIGITS and self._other_digits(inst) else _RULES.get(inst.op)
        f = rule(self.ranges, *args) if rule and dtype is not BOOL else None
        if f is not None and (dtype is I64 and inst.operands[0].dtype is not BOOL and inst.op != "cast" or self._fits(f, dtype, inst)):
            return f
        return call(inst.op, args, dtype if inst.op == "cast" else inst.operands[-1].dtype)

    def _other_digits(self, inst: Inst) -> bool:
        """Whether the digits of a number may be none of its form, for it may have wrapped; its last bits are."""
        number, by = inst.operands
        bits = inst.op == "mod" and type(by) is Const and by.value > 0 and by.value & (by.value - 1) == 0
        return not bits and type(number) is Value and number.name in self.wrapped

    @cached_property
    def wrapped(self) -> frozenset[str]:
        return wrapped(self.kernel)

    def _fits(self, f: Form, dtype: DType, inst: Inst) -> bool:
        """Whether the exact result is certainly a value of the dtype, so that nothing wraps."""
        source = inst.operands[0].dtype
        if inst.op == "cast" and dtype.min <= source.min and source.max <= dtype.max:
            return True
        low, high = self.ranges.constants(f)
        return low is not None and high is not None and dtype.min <= low and high <= dtype.max


def _writes_cell(inst: Inst) -> bool:
    return inst.op in ("store", "reduce", "extern") and inst.operands[0].space == "cell"


def _select(condition: Form, a: Form, b: Form, dtype: DType) -> Form:
    """What a value-`if` gives; `&&` and `||` are those with a constant arm."""
    if dtype is BOOL and b == form(0):
        return call("and", (condition, a), BOOL)
    if dtype is BOOL and a == form(1):
        return call("or", (condition, b), BOOL)
    return call("select", (condition, a, b), dtype)


def _operands_of_min(f: Form) -> tuple[Form, ...]:
    """Where the form is the minimum of two, which are then no less than it: these."""
    (u,) = f.unknowns if len(f.unknowns) == 1 else (None,)
    return u.args if isinstance(u, Call) and u.op == "min" and f == form(u) else ()


def _power(c: Form) -> Form | None:
    return form(1 << c.value) if c.value is not None and 0 <= c.value < 40 else None


def _and(ranges: Ranges, a: Form, b: Form) -> Form | None:
    for x, mask in ((a, b), (b, a)):
        if mask.value is not None and mask.value > 0 and mask.value & (mask.value + 1) == 0:
            return ranges.mod(x, mask + 1)
    return None


def _truncated(ranges: Ranges, a: Form, b: Form) -> bool:
    return ranges.nonnegative(a) and ranges.positive(b)


_DIGITS = (*DIVISIONS, "shr")

# What integer operations make of forms, exactly, as if nothing wrapped; None where the result is no form.
_RULES = {
    "add": lambda r, a, b: a + b,
    "sub": lambda r, a, b: a - b,
    "mul": lambda r, a, b: a * b if len(a.terms) * len(b.terms) <= MAX_TERMS else None,
    "neg": lambda r, a: -a,
    "floordiv": lambda r, a, b: r.floordiv(a, b),
    "mod": lambda r, a, b: r.mod(a, b),
    "ceildiv": lambda r, a, b: r.floordiv(a + b - 1, b) if r.positive(b) else None,
    "tdiv": lambda r, a, b: r.floordiv(a, b) if _truncated(r, a, b) else None,
    "trem": lambda r, a, b: r.mod(a, b) if _truncated(r, a, b) else None,
    "shl": lambda r, a, b: a * p if (p := _power(b)) else None,
    "shr": lambda r, a, b: r.floordiv(a, p) if (p := _power(b)) else None,
    "and": _and,
    "cast": lambda r, a: a,
}
