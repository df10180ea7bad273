"""simplify: constant folding, common subexpressions, dead code, branches and loops decided at compile time.

Before: any plan, any stage.
After:  the same plan with no foldable pure instruction, no comparison that ranges decide, no two equal pure instructions where one is in
        scope of the other, no unused pure instruction, load or declared storage, no `if` on a constant, no loop or `if` with nothing in
        it, no loop of which ranges tell that it runs never or, unless it is parallel or may be left early, once. In --debug builds what
        such a build checks stays: loads whose indices may be out of range, and quotients whose divisor may be 0.

    %0: i64 = mul %i, 1                      %1: f32 = load @x, %i
    %1: f32 = load @x, %0          ->        store @y, %i, %1
    %2: f32 = mul 0.0:f32, 2.0:f32
    store @y, %i, %1

Floats fold only through `semantics.evaluate`; the identities below hold for every value, NaN, infinities and -0.0 included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from vxc import semantics
from vxc.ir.facts import Range, ranges, trip_count
from vxc.ir.kernel import Buffer, Const, Inst, Operand, Value
from vxc.ir.ops import OPS, TERMINATES
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass
from vxc.semantics import DIVISIONS

EMPTY: Mapping[str, Range] = MappingProxyType({})

# op -> ((operand position, constant it must be, position of the operand that is the result), ...): integers
INT_IDENTITIES = {
    "add": ((1, 0, 0), (0, 0, 1)),
    "sub": ((1, 0, 0),),
    "mul": ((1, 1, 0), (0, 1, 1), (1, 0, 1), (0, 0, 0)),
    "floordiv": ((1, 1, 0),),
    "tdiv": ((1, 1, 0),),
    "ceildiv": ((1, 1, 0),),
    "or": ((1, 0, 0), (0, 0, 1)),
    "xor": ((1, 0, 0), (0, 0, 1)),
    "shl": ((1, 0, 0),),
    "shr": ((1, 0, 0),),
}
# and floats: x + -0.0, x - 0.0, x * 1.0 and x / 1.0 are x for every x; x + 0.0 and x * 0.0 are not
FLOAT_IDENTITIES = {
    "add": ((1, -0.0, 0), (0, -0.0, 1)),
    "sub": ((1, 0.0, 0),),
    "mul": ((1, 1.0, 0), (0, 1.0, 1)),
    "div": ((1, 1.0, 0),),
}
BOOL_IDENTITIES = {
    "and": ((1, True, 0), (0, True, 1), (1, False, 1), (0, False, 0)),
    "or": ((1, False, 0), (0, False, 1), (1, True, 1), (0, True, 0)),
    "xor": ((1, False, 0), (0, False, 1)),
}


def folded(inst: Inst) -> Operand | None:
    """What the result of a pure instruction is known to be, or None."""
    known = [type(x) is Const for x in inst.operands]
    if all(known):
        return _evaluate(inst)
    if inst.op in ("cast", "reinterpret") and inst.operands[0].dtype is inst.result.dtype:
        return inst.operands[0]
    if inst.op == "select":
        return _select(inst.operands)
    if True not in known:
        return None
    if inst.op == "mod" and inst.operands[1] == Const(1, inst.result.dtype):
        return Const(0, inst.result.dtype)
    dtype = inst.result.dtype
    table = FLOAT_IDENTITIES if dtype.is_float else BOOL_IDENTITIES if dtype.kind == "b" else INT_IDENTITIES
    for at, constant, gives in table.get(inst.op, ()):
        x = inst.operands[at]
        if known[at] and x.value == constant and x == Const(constant, dtype):  # 0.0 is not -0.0
            return inst.operands[gives]
    return None


def _evaluate(inst: Inst) -> Const:
    values = [x.value for x in inst.operands]
    source, target = inst.operands[0].dtype, inst.result.dtype
    if inst.op in ("cast", "sat", "reinterpret"):
        value = getattr(semantics, inst.op)(source.numpy.type(values[0]), source, target)
    else:
        dtype = inst.operands[-1].dtype
        arrays = [x.dtype.numpy.type(v) for x, v in zip(inst.operands, values)]
        value = semantics.evaluate(inst.op, dtype, *arrays)
    return constant(value, target)


def constant(value, dtype) -> Const:
    """A NumPy scalar of `dtype` as a constant."""
    convert = bool if dtype.kind == "b" else int if dtype.is_int else float
    return Const(convert(value), dtype)


def _select(operands) -> Operand | None:
    cond, then, other = operands
    if isinstance(cond, Const):
        return then if cond.value else other
    return then if then == other else None


class _Forward:
    """One walk over the instructions: substitute, fold, share; drop arms and loops that never run.

    `known` maps a pure instruction's key to its value; entries are undone when the region they were made in closes. `ranges` are those of
    values before.
    """

    def __init__(self, ranges: Mapping[str, Range]):
        self.ranges = ranges
        self.env: dict[str, Operand] = {}
        self.resized: dict[str, Buffer] = {}  # workspaces whose sizes are other values now
        self.known: dict[tuple, Value] = {}
        self.undo: list[list[tuple]] = [[]]
        self.out: list[Inst] = []
        self.decided: list[bool | None] = []  # per open region: None, or which arm of a decided `if` is kept
        self.skip = 0  # depth inside a dropped region
        self.left: set[str] = set()  # indices of loops that a `break` or `continue` belongs to

    def run(self, insts) -> list[Inst]:
        self.left = _left_early(insts)
        for inst in insts:
            if self.skip:
                self._skipped(inst)
            else:
                self._visit(inst)
        return self.out

    def _skipped(self, inst: Inst) -> None:
        if OPS[inst.op].opens:
            self.skip += 1
        elif inst.op == "end":
            self.skip -= 1
            if not self.skip and self.decided and self.decided[-1] is not None:
                self.decided.pop()
        elif inst.op == "else" and self.skip == 1 and self.decided and self.decided[-1] is False:
            self.skip = 0

    def _visit(self, inst: Inst) -> None:
        env = self.env
        operands = [env.get(x.name, x) if type(x) is Value else x if type(x) is Const else self._operand(x) for x in inst.operands]
        inst = inst.over(operands, inst.result)
        row = OPS[inst.op]
        if row.opens:
            self._open(inst)
        elif inst.op == "else":
            self._else(inst)
        elif inst.op == "end":
            self._end(inst)
        elif row.pure:
            self._pure(inst)
        elif row.result == "buffer":
            self._declare(inst)
        else:
            self.out.append(inst)

    def _operand(self, x: Operand) -> Operand:
        if type(x) is Value:
            return self.env.get(x.name, x)
        return self.resized.get(x.name, x) if type(x) is Buffer else x

    def _declare(self, inst: Inst) -> None:
        shape = tuple(map(self._operand, inst.result.shape))
        if shape != inst.result.shape:
            self.resized[inst.result.name] = replace(inst.result, shape=shape)
            inst = replace(inst, result=self.resized[inst.result.name])
        self.out.append(inst)

    def _open(self, inst: Inst) -> None:
        if inst.op == "if" and isinstance(inst.operands[0], Const):
            keep = bool(inst.operands[0].value)
            self.decided.append(keep)
            self.skip = 0 if keep else 1
            return
        trips = self._trips(inst) if inst.op == "loop" else None
        if trips == 0:
            self.decided.append(True)
            self.skip = 1
            return
        if trips == 1 and inst.attr("kind") != "parallel" and inst.result.name not in self.left:
            self.decided.append(True)
            self.env[inst.result.name] = inst.operands[0]
            return
        self.decided.append(None)
        self.undo.append([])
        self.out.append(inst)

    def _trips(self, loop: Inst) -> int | None:
        """Iterations of a loop, where they are the same whenever it runs."""
        start, stop, step = map(self._range, (*loop.operands, Const(1))[:3])
        if start is None or stop is None or step is None or step[0] != step[1] or step[0] == 0:
            return None
        by = step[0]
        first, last = (start, stop) if by > 0 else (start[::-1], stop[::-1])
        most, least = trip_count(first[0], last[1], by), trip_count(first[1], last[0], by)
        return most if most == least else None

    def _range(self, x: Operand) -> Range | None:
        return (x.value, x.value) if isinstance(x, Const) else self.ranges.get(x.name)

    def _else(self, inst: Inst) -> None:
        if self.decided[-1] is None:
            self._forget()
            self.undo.append([])
            self.out.append(inst)
        else:  # the arm that is kept ends here
            self.skip = 1

    def _end(self, inst: Inst) -> None:
        if self.decided.pop() is None:
            self._forget()
            self.out.append(inst)

    def _forget(self) -> None:
        for key in self.undo.pop():
            del self.known[key]

    def _pure(self, inst: Inst) -> None:
        value = folded(inst)
        if value is None and inst.result.dtype.kind == "b":
            value = self._decided(inst.result)
        if value is None:
            key = (inst.op, inst.operands, inst.result.dtype, inst.attrs)
            value = self.known.get(key)
            if value is None:
                self.known[key] = inst.result
                self.undo[-1].append(key)
                self.out.append(inst)
                return
        self.env[inst.result.name] = value

    def _decided(self, value: Value) -> Const | None:
        """What a bool is wherever it is computed."""
        low, high = self.ranges.get(value.name, (0, 1))
        return Const(bool(low), value.dtype) if low == high else None


def _left_early(insts) -> set[str]:
    """Indices of the loops that some `break` or `continue` belongs to."""
    left, open_ = set(), []
    for inst in insts:
        if inst.op in ("loop", "while"):
            open_.append(inst.result.name if inst.result else "")
        elif OPS[inst.op].opens:
            open_.append(None)
        elif inst.op == "end":
            open_.pop()
        elif inst.op in TERMINATES:
            left.add(next(name for name in reversed(open_) if name is not None))
    return left


def _is_checked(inst: Inst) -> bool:
    """Whether --debug builds test something where it stands."""
    divides = inst.op in DIVISIONS and not isinstance(inst.operands[1], Const)
    return divides or inst.op == "load" and bool(inst.operands[0].shape)


def _sweep(insts: list[Inst], debug: bool) -> list[Inst]:
    """Drop what nothing uses, from the end: pure results, loads, declared storage, regions left empty; with `debug` nothing that is
    checked.
    """
    used: set[str] = set()
    out: list[Inst] = []
    ends: list[int] = []  # length of `out` just after each open region's `end`
    for inst in reversed(insts):
        row = OPS[inst.op]
        if row.pure or inst.op == "load":
            if inst.result.name not in used and not (debug and _is_checked(inst)):
                continue
        elif inst.op == "end":
            out.append(inst)
            ends.append(len(out))
            continue
        elif row.opens:
            start = ends.pop()
            if len(out) == start and inst.op in ("loop", "if"):
                out.pop()
                continue
        elif row.result == "buffer" and row.stages != ("plan",) and "@" + inst.result.name not in used:
            continue
        elif inst.op == "else" and ends and len(out) == ends[-1]:
            continue
        out.append(inst)
        for x in inst.operands:
            if type(x) is Value:
                used.add(x.name)
            elif not isinstance(x, Const):
                used.add("@" + x.name)
                used.update(v.name for v in (*x.shape, *(x.strides or ())) if type(v) is Value)
        if row.result == "buffer":
            used.update(v.name for v in inst.result.shape if type(v) is Value)
    out.reverse()
    return out


def simplify_insts(insts, known: Mapping[str, Range] = EMPTY, debug: bool = False) -> tuple[Inst, ...]:
    """`known` has ranges of values."""
    return tuple(_sweep(_Forward(known).run(insts), debug))


def run(plan: Plan, context: Context) -> Plan:
    plan, kernels = replace(plan, entries=simplify_insts(plan.entries)), []
    for kernel in plan.kernels:
        insts = simplify_insts(kernel.insts, ranges(kernel.with_attrs(blocks=plan.most_blocks(kernel))), context.debug)
        if len(insts) < len(kernel.insts):
            context.applied(f"{len(kernel.insts) - len(insts)} of {len(kernel.insts)} instructions folded, shared or dropped", kernel.name)
        kernels.append(replace(kernel, insts=insts))
    return plan.with_kernels(kernels)


SIMPLIFY = Pass("simplify", run, "fold constants, share common subexpressions, drop what is unused")
SIMPLIFY_THREADS = replace(SIMPLIFY, name="simplify-threads", doc="simplify what lower-to-threads spelled out", needs=("thread",))
SIMPLIFY_WIDENED = replace(SIMPLIFY_THREADS, name="simplify-widened", doc="simplify what wide accesses left of loops")
