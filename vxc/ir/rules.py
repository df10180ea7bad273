"""The verifier's rules for single instructions: each a function that says what is wrong, or None.

A rule of an instruction *alone* sees (stage, instruction); any other sees (body, position, instruction). `RULES` lists them with
their codes in the order in which they are asked, and with the opcodes that each can find fault with; a later rule may rely on
the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from vxc.dtypes import BOOL, F64, I32, I64, DType
from vxc.ir.alignment import known_align
from vxc.ir.attr_rules import attributes_problem
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, Kernel, Operand, Value, constant
from vxc.ir.ops import OPS, PLAN, TOGETHER, OpDef, accesses
from vxc.ir.plan import Plan
from vxc.ir.role_rules import Roles, roles_problem
from vxc.ir.uniformity import BLOCK, Uniformity, uniformity
from vxc.ir.walk import LOOPS, Regions, operand_kinds
from vxc.record import record
from vxc.semantics import REDUCTIONS, SCALAR_OPS, accepts, accumulator, result_dtype


@record
class Body:
    """What the rules look at: the entries of a plan (stage 'plan', no kernel) or the instructions of a kernel."""

    plan: Plan
    insts: Sequence[Inst]
    regions: Regions
    stage: str = PLAN
    kernel: Kernel | None = None

    @cached_property
    def uniformity(self) -> Uniformity:
        """Of those that threads must reach together."""
        asked = [i for i, inst in enumerate(self.insts) if inst.op in TOGETHER and self.regions.parent[i] >= 0]
        return uniformity(self.kernel, self.regions, asked)

    @cached_property
    def roles(self) -> Roles:
        """At stage=team."""
        return Roles.of(self.kernel, self.regions)

    @cached_property
    def contributes(self) -> dict[int, int]:
        """Position of each `reduce` -> how many `contribute` stand directly in it."""
        count = {i: 0 for i, inst in enumerate(self.insts) if inst.op == "reduce"}
        for i, inst in enumerate(self.insts):
            parent = self.regions.parent[i]
            if inst.op == "contribute" and parent in count:
                count[parent] += 1
        return count


Rule = Callable[[Body, int, Inst], "str | None"]
RuleAlone = Callable[[str, Inst], "str | None"]


def _stage(stage: str, inst: Inst) -> str | None:
    stages = OPS[inst.op].stages
    if stage not in stages:
        here = "plan" if stage == PLAN else f"kernel at stage {stage}"
        return f"`{inst.op}` is not legal in a {here}, only at {' or '.join(stages)}"
    if inst.op == "barrier" and inst.attr("scope") == "role" and stage == "thread":
        return 'a `barrier` of scope "role" is not legal at stage thread, which has no roles'
    return None


def _operands(stage: str, inst: Inst) -> str | None:
    kinds = operand_kinds(inst.op, inst.operands)
    if kinds is None:
        count = f"{len(inst.operands)} operand{'s' * (len(inst.operands) != 1)}"
        ranked = [f"; {o} has {len(o.shape)} dimensions" for o in inst.operands[:1] if isinstance(o, Buffer)]
        return f"`{inst.op}` takes ({', '.join(OPS[inst.op].operands)}), not {count}{''.join(ranked)}"
    common = element = None  # the dtypes of the first operand of kind 'value', and of the last buffer
    for operand, kind in zip(inst.operands, kinds):
        dtype = operand.dtype
        if type(operand) is Buffer:
            element = dtype
            wrong = _memory(operand, kind, inst)
            if wrong:
                return wrong
            continue
        if type(operand) is Const and not is_literal(operand.value, dtype):
            return f"{operand.value!r} is not a value of {dtype}"
        if kind == "value":
            common = common or dtype
            continue
        if kind == "index":
            wanted = dtype if is_index(dtype, stage) else I64
        elif kind == "same":
            wanted = common
        elif kind == "elem":
            wanted = element
        elif kind == "bool":
            wanted = BOOL
        elif kind == "arg":
            continue
        else:
            return f"operand {operand} of `{inst.op}` is not a {kind}"
        if dtype is not wanted:
            return f"operand {operand} of `{inst.op}` is {dtype} where {wanted} goes"
    if inst.op in SCALAR_OPS and not accepts(inst.op, common):
        return f"`{inst.op}` is not defined on {common}"
    if inst.op == "loop":
        for operand in inst.operands if type(inst.result) is Value else ():
            if operand.dtype is not inst.result.dtype:
                return f"operand {operand} of `loop` is {operand.dtype}, its index {inst.result.dtype}"
    return None


def _memory(buffer: Buffer, kind: str, inst: Inst) -> str | None:
    """A buffer as an operand of a kind."""
    if kind in ("arg", "place"):
        return None
    if kind in ("buffer", "cell", "ring"):
        fits = buffer.space == kind if kind != "buffer" else buffer.space != "ring"
        return None if fits else f"operand {buffer} of `{inst.op}` is not a {kind}"
    return f"operand {buffer} of `{inst.op}` is a buffer where a scalar goes"


def _move(stage: str, inst: Inst) -> str | None:
    to, _, source, _, *part = inst.operands
    size = inst.attr("width") * to.dtype.bits
    if to.dtype is not source.dtype:
        return f"`{inst.op}` copies bits, but {to} is {to.dtype} and {source} {source.dtype}"
    if inst.op == "move.async":
        if to.space != "shared" or source.space not in GLOBAL:
            return "`move.async` goes from global memory to shared memory"
        whole = size in (32, 64, 128) and to.dtype.bits >= 8
        return None if whole else f"{inst.attr('width')} elements of {to.dtype} are no access of 4, 8 or 16 bytes"
    if (to.space == "local") + (source.space == "local") != 1:
        return "`move` goes between an array of the thread (`local`) and memory that is none"
    if size not in (8, 16, 32, 64, 128) or to.dtype.bits < 8:
        return f"{inst.attr('width')} elements of {to.dtype} are no access of 1, 2, 4, 8 or 16 bytes"
    if inst.attr("anywhere") and not {to.space, source.space} & set(GLOBAL):
        return "`anywhere` is of global memory"
    if inst.attr("anywhere") in ("line", "held") and source.space != "param":
        return f"a `{inst.attr('anywhere')}` is of an array of the caller, from which it is loaded"
    if part and (inst.attr("anywhere") in ("line", "held") or not {to.space, source.space} & set(GLOBAL)):
        return f"a part is of what lies in global memory, and of no `{inst.attr('anywhere') or 'line'}`"
    return None


def is_index(dtype: DType, stage: str) -> bool:
    """Indices are i64; at stage=thread also i32, once narrow-indices has shown that they fit."""
    return dtype is I64 or (dtype is I32 and stage == "thread")


def is_literal(value: object, dtype: DType) -> bool:
    """Whether a constant of this dtype may hold the Python value as it is."""
    if dtype.is_float:
        return type(value) is float and (dtype is F64 or value == 0.0 or constant(value, dtype) == Const(value, dtype))
    return type(value) is (bool if dtype is BOOL else int) and dtype.min <= value <= dtype.max


def _result(stage: str, inst: Inst) -> str | None:
    rule, result = OPS[inst.op].result, inst.result
    if rule == "none":
        return None if result is None else f"`{inst.op}` has no result"
    if not isinstance(result, Buffer if rule == "buffer" else Value):
        return f"`{inst.op}` needs {'storage to declare' if rule == 'buffer' else 'a result'}"
    if rule == "index":
        return None if is_index(result.dtype, stage) else f"the index {result} of `{inst.op}` is {result.dtype}, not i64"
    wanted = _result_dtype(inst, rule)
    if wanted is not None and result.dtype is not wanted:
        return f"the result {result} of `{inst.op}` is {result.dtype} where {wanted} goes"
    if inst.op == "reinterpret" and result.dtype.bits != inst.operands[0].dtype.bits:
        return f"`reinterpret` keeps the width, {inst.operands[0].dtype} to {result.dtype} does not"
    return None


def _result_dtype(inst: Inst, rule: str) -> DType | None:
    if inst.op in SCALAR_OPS:
        return result_dtype(inst.op, inst.operands[-1].dtype)
    if inst.op == "prefix":
        return accumulator(inst.attr("op"), inst.operands[0].dtype)
    return inst.operands[0].dtype if rule in ("same", "elem") else None


def _place(body: Body, i: int, inst: Inst) -> str | None:
    parent = body.insts[body.regions.parent[i]] if body.regions.parent[i] >= 0 else None
    if inst.op in ("break", "continue"):
        around = body.regions.innermost(i, (*LOOPS, "reduce", "scan", "extern", "role"))
        left = body.insts[around] if around >= 0 else None
        if left is None or left.op not in LOOPS or left.attr("kind") == "parallel":
            return f"`{inst.op}` outside a serial loop"
    wanted = {"contribute": "reduce", "prefix": "scan"}.get(inst.op)
    if wanted and (parent is None or parent.op != wanted):
        return f"`{inst.op}` does not stand directly in a `{wanted}`"
    if inst.op == "reduce" and body.contributes[i] != 1:
        return f"`reduce` has {body.contributes[i]} `contribute` directly in it, not 1"
    if inst.op == "contribute":
        return _contribution(parent, inst)
    return None


def _contribution(reduce: Inst, inst: Inst) -> str | None:
    name, dtype, cell = reduce.attr("op"), inst.operands[0].dtype, reduce.operands[0]
    if name not in REDUCTIONS:
        return None  # E0515 at the reduce
    wanted = 2 if name == "dot" else 1
    if len(inst.operands) != wanted:
        return f"`contribute` to {name} takes {wanted} operand{'s' * (wanted > 1)}, not {len(inst.operands)}"
    if dtype.is_storage or dtype.kind not in REDUCTIONS[name].kinds:
        return f"reduction {name} is not defined on {dtype}"
    if cell.dtype is not accumulator(name, dtype):
        return f"reduction {name} over {dtype} gives {accumulator(name, dtype)}, but the cell {cell} is {cell.dtype}"
    return None


def _bounds(body: Body, i: int, inst: Inst) -> str | None:
    """A `copy` reaches beyond its arrays as it likes: it reads the pad there, and stores nothing."""
    if Const not in map(type, inst.operands) or inst.op == "copy" or (body.stage == "tile" and not body.kernel.done):
        return None
    for access in accesses(inst):
        for axis, (index, extent) in enumerate(zip(access.box, access.buffer.shape)):
            if type(index) is not Const or (index.value >= 0 and (type(extent) is not Const or index.value < extent.value)):
                continue
            if body.regions.innermost(i, ("if",)) < 0:
                return f"index {index.value} is outside dimension {axis} of {access.buffer}, which has {extent} elements"
    return None


def _writable(stage: str, inst: Inst) -> str | None:
    for access in accesses(inst):
        if "w" in access.mode and access.buffer.mode == "in":
            return f"`{inst.op}` to {access.buffer}, which is an `in` parameter"
    return None


def _storage(stage: str, inst: Inst) -> str | None:
    buffer = inst.result
    if buffer.space != inst.op:
        return f"`{inst.op}` declares {buffer}, whose space is {buffer.space}"
    if buffer.mode or buffer.strides is not None:
        return f"declared storage has neither mode nor strides, but {buffer} has"
    if (inst.op in ("cell", "ring")) == bool(buffer.shape):
        return f"{f'a {inst.op} has no' if buffer.shape else f'`{inst.op}` needs a'} shape"
    if inst.op != "workspace" and not all(isinstance(n, Const) for n in buffer.shape):
        return f"the shape of {buffer} is not constant"
    return shape_problem(buffer)


def shape_problem(buffer: Buffer) -> str | None:
    """What is wrong with a buffer's extents and strides by themselves."""
    if buffer.strides is not None and (len(buffer.strides) != len(buffer.shape) or not buffer.shape):
        return f"{buffer} has {len(buffer.shape)} dimensions and {len(buffer.strides)} strides"
    for extent in (*buffer.shape, *(buffer.strides or ())):
        if isinstance(extent, Buffer) or extent.dtype is not I64:
            return f"extent {extent} of {buffer} is not an i64"
    negative = next((n for n in buffer.shape if isinstance(n, Const) and n.value < 0), None)
    return negative and f"{buffer} has an extent of {negative.value}"


def _uniform(body: Body, i: int, inst: Inst) -> str | None:
    if body.regions.parent[i] < 0:
        return None  # under no control at all
    control = body.uniformity.control[i]
    group = OPS[inst.op].scope == "warp" or inst.attr("scope") == "group"
    if control == BLOCK or (group and control % inst.attr("width") == 0):
        return None
    threads = f"the {inst.attr('width')} threads of a group" if group else "all threads of the block"
    return f"`{inst.op}` is executed by {threads} together, but only groups of {control} are known to reach it together"


def _launch(body: Body, i: int, inst: Inst) -> str | None:
    name = inst.attr("kernel")
    kernel = next((k for k in body.plan.kernels if k.name == name), None)
    if kernel is None:
        return f"there is no kernel @{name}"
    grid, *arguments = inst.operands
    if kernel.attr("blocks") and not (isinstance(grid, Const) and grid.value <= kernel.attr("blocks")):
        return f"@{name} is launched over {grid} blocks, and says that it runs in {kernel.attr('blocks')} at most"
    if len(arguments) != len(kernel.params):
        return f"@{name} has {len(kernel.params)} parameters, the launch passes {len(arguments)} arguments"
    if inst.attr("early") and not any(other.op == "launch" for other in body.insts[:i]):
        return f"@{name} is launched early, but no launch stands before it"
    passed = {p: a for p, a in zip(kernel.params, arguments) if isinstance(p, Value)}
    for parameter, argument in zip(kernel.params, arguments):
        wrong = _argument(parameter, argument, passed)
        if wrong:
            return f"argument {argument} for {parameter} of @{name} {wrong}"
    return None


def _argument(parameter: Value | Buffer, argument: Operand, passed: dict[Value, Operand]) -> str | None:
    if isinstance(parameter, Value) or isinstance(argument, Value):
        scalars = isinstance(parameter, Value) and not isinstance(argument, Buffer)
        return None if scalars and argument.dtype is parameter.dtype else "is not of its type"
    if isinstance(argument, Const) or argument.dtype is not parameter.dtype:
        return "is not of its type"
    if "out" in parameter.mode and argument.mode == "in":
        return "is written, but is an `in` parameter of the plan"
    for what in ("shape", "strides"):
        expected = getattr(parameter, what)
        if expected is not None:
            expected = tuple(passed.get(n, n) for n in expected)
        if expected != getattr(argument, what):
            return f"has other {what} than the parameter says"
    known = known_align(parameter, argument, {p.name: a for p, a in passed.items()})
    if (parameter.align or 0) > (known or parameter.dtype.bytes):
        return f"is not known to lie at multiples of {parameter.align} bytes"
    return None


# attributes of instructions and kernels that no rule looks at but those of an instruction alone
OWN = frozenset(("independent", "offset", "pitch", "shared_bytes", "swizzle", "unroll"))


class RuleDef(NamedTuple):
    """A rule with its code. `concerns(row, stage)` is False where it has nothing to say about an opcode at a stage."""

    code: str
    rule: Rule | RuleAlone
    concerns: Callable[[OpDef, str], bool] = lambda row, stage: True
    alone: bool = False


RULES = (
    RuleDef("E0516", _stage, lambda row, stage: stage not in row.stages or row.name == "barrier", alone=True),
    RuleDef("E0513", _operands, alone=True),
    RuleDef("E0515", attributes_problem, alone=True),
    RuleDef("E0514", _result, alone=True),
    RuleDef("E0513", _move, lambda row, stage: row.name in ("move", "move.async"), alone=True),
    RuleDef("E0517", _place, lambda row, stage: row.name in ("break", "continue", "contribute", "prefix", "reduce")),
    RuleDef("E0518", _bounds, lambda row, stage: bool(row.access)),
    RuleDef("E0519", _writable, lambda row, stage: "w" in row.access, alone=True),
    RuleDef("E0520", _storage, lambda row, stage: row.result == "buffer", alone=True),
    RuleDef("E0521", _uniform, lambda row, stage: row.name in TOGETHER),
    RuleDef("E0522", _launch, lambda row, stage: row.name == "launch"),
    RuleDef("E0524", lambda body, i, inst: roles_problem(body.roles, i, inst), lambda row, stage: stage == "team"),
)
