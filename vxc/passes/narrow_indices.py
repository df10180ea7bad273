"""narrow-indices: 32-bit index arithmetic where the ranges prove that it fits.

Before: stage=thread, every index i64.
After:  an i64 operation whose operands and result lie in the range of i32 for every execution is an i32 operation, a loop
        too if its index cannot step past that range; so is a remainder by a power of two, which is in the low bits of any number, and a
        number clamped to constants is cast. What goes on in 64 bits widens its operands with `cast`. Addresses are 64-bit in the emitted
        code whatever the index type. Where all launches of a kernel are over constant numbers of blocks, its attribute `blocks` is the
        greatest of them, which bounds `block_index`.

    %t = thread_index                      %t: i32 = thread_index
    %lane: i64 = mod %t, 32         ->     %lane: i32 = mod %t, 32:i32
    %e: i64 = add %o, %l                   %1: i64 = cast %l
                                           %e: i64 = add %o, %1
"""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import I32, I64
from vxc.ir.builder import Builder
from vxc.ir.facts import Range, ranges
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan
from vxc.ir.walk import names, operand_kinds
from vxc.pass_manager import Context, Pass

ARITHMETIC = frozenset("add sub mul floordiv mod ceildiv tdiv trem min max select".split())
COMPARISONS = frozenset("eq ne lt le gt ge".split())
SOURCES = frozenset(("block_index", "thread_index", "ahead"))


class _Narrow:
    """Rewrites one kernel; `now` maps the names of values that have become i32."""

    def __init__(self, kernel: Kernel):
        self.found = ranges(kernel)
        self.b = Builder(names(kernel.params, kernel.insts))
        self.now: dict[str, Value] = {}
        self.maxima = {inst.result.name for inst in kernel.insts if inst.op == "max" and type(inst.operands[1]) is Const}

    def range(self, x: Operand) -> Range:
        return (x.value, x.value) if isinstance(x, Const) else self.found[x.name]

    def fits(self, *xs: Operand) -> bool:
        return all(_fits(self.range(x)) for x in xs)

    def run(self, insts) -> tuple[Inst, ...]:
        for inst in insts:
            self.b.at(inst.loc)
            self.visit(inst)
        return tuple(self.b.insts)

    def visit(self, inst: Inst) -> None:
        wide = isinstance(inst.result, Value) and inst.result.dtype is I64
        if inst.op == "end" and inst.operands:
            self.b.add(inst.over(map(self.narrow, inst.operands), None))
        elif wide and self.narrows(inst):
            self.now[inst.result.name] = Value(inst.result.name, I32)
            operands = map(self.index if inst.op == "ahead" else self.narrow, inst.operands)
            self.b.add(inst.over(operands, self.now[inst.result.name]))
        elif wide and self.masks(inst):
            self.now[inst.result.name] = Value(inst.result.name, I32)
            low = self.b.emit("cast", inst.operands[0], dtype=I32)
            self.b.add(inst.over((low, self.narrow(inst.operands[1])), self.now[inst.result.name]))
        elif wide and inst.op == "min" and self.clamps(inst):
            self.now[inst.result.name] = Value(inst.result.name, I32)
            least = self.b.emit("min", *map(self.widen, inst.operands))
            self.b.add(Inst("cast", (least,), self.now[inst.result.name], (), inst.loc))
        elif inst.op in COMPARISONS and inst.operands[0].dtype is I64 and self.worth(inst.operands):
            self.b.add(inst.over(map(self.narrow, inst.operands), inst.result))
        elif self.now.keys().isdisjoint([x.name for x in inst.operands if type(x) is Value]):
            self.b.add(inst)
        else:
            kinds = operand_kinds(inst.op, inst.operands) or ()
            memory = bool(OPS[inst.op].access)
            operands = (self.index(x) if memory and k == "index" else self.widen(x) for x, k in zip(inst.operands, kinds))
            self.b.add(inst.over(operands, inst.result))

    def narrows(self, inst: Inst) -> bool:
        if inst.op in SOURCES:
            return self.fits(inst.result)
        if inst.op == "loop":
            start, stop, step = (*inst.operands, Const(1))[:3]
            low, high = self.range(step)
            past = (min(self.range(stop)[0], self.range(stop)[0] + low), max(self.range(stop)[1], self.range(stop)[1] + high))
            return self.worth((start, stop, step)) and _fits(past)
        return inst.op in ARITHMETIC and self.worth(x for x in inst.operands if x.dtype is I64) and self.fits(inst.result)

    def masks(self, inst: Inst) -> bool:
        """A remainder by a power of two is in the low bits."""
        by = inst.operands[1] if inst.op == "mod" else None
        return isinstance(by, Const) and 0 < by.value <= I32.max and by.value.bit_count() == 1 and isinstance(inst.operands[0], Value)

    def clamps(self, inst: Inst) -> bool:
        """A number that constants bound on both sides, as how many elements of a vector are left."""
        x, most = inst.operands
        return type(most) is Const and type(x) is Value and x.name in self.maxima and self.fits(inst.result)

    def worth(self, operands) -> bool:
        """All are constants that fit or have been narrowed already: no cast is needed to go on in 32 bits."""
        return all(_fits(self.range(x)) if isinstance(x, Const) else x.name in self.now for x in operands)

    def narrow(self, x: Operand) -> Operand:
        if isinstance(x, Const):
            return Const(x.value, I32) if x.dtype is I64 else x
        return self.now.get(x.name, x)

    def index(self, x: Operand) -> Operand:
        return x if isinstance(x, (Const, Buffer)) else self.now.get(x.name, x)

    def widen(self, x: Operand) -> Operand:
        if isinstance(x, (Const, Buffer)) or x.name not in self.now:
            return x
        return self.b.emit("cast", self.now[x.name], dtype=I64)


def _fits(span: Range) -> bool:
    return I32.min <= span[0] and span[1] <= I32.max


def run(plan: Plan, context: Context) -> Plan:
    kernels = []
    for kernel in plan.kernels:
        kernel = kernel.with_attrs(blocks=plan.most_blocks(kernel))
        state = _Narrow(kernel)
        kernels.append(replace(kernel, insts=state.run(kernel.insts)))
        wide = [i for i in kernel.insts if isinstance(i.result, Value) and i.result.dtype is I64]
        if wide:
            lines = sorted({i.loc[0] for i in wide if i.loc and i.result.name not in state.now})
            others = "the others may exceed it" + (f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))})" if lines else "")
            rest = f"; {others}" if len(state.now) < len(wide) else ""
            context.applied(f"{len(state.now)} of {len(wide)} index values are 32-bit{rest}", kernel.name)
    return plan.with_kernels(kernels)


NARROW_INDICES = Pass(
    "narrow-indices", run, "32-bit index arithmetic where the ranges prove that it fits", needs=("thread",), gives=("narrow",)
)
