"""The verifier's rules for single instructions: each a function (body, position, instruction) -> what is wrong, or None.

`RULES` lists them with their codes in the order in which they are asked; a later rule may rely on the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from vxc.dtypes import BOOL, I32, I64, DType
from vxc.ir.attr_rules import attributes_problem
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value, constant
from vxc.ir.ops import DECLARES, OPS, PLAN, accesses
from vxc.ir.plan import Plan
from vxc.ir.role_rules import Roles, roles_problem
from vxc.ir.uniformity import BLOCK, Uniformity, uniformity
from vxc.ir.walk import LOOPS, Regions, operand_kinds
from vxc.semantics import REDUCTIONS, SCALAR_OPS, accepts, accumulator, result_dtype


@dataclass(frozen=True)
class Body:
    """What the rules look at: the entries of a plan (stage 'plan', no kernel) or the instructions of a kernel."""

    plan: Plan
    insts: Sequence[Inst]
    regions: Regions
    stage: str = PLAN
    kernel: Kernel | None = None

    @cached_property
    def guarded(self) -> list[bool]:
        """Whether each instruction stands under an `if`."""
        under: list[bool] = []
        for parent in self.regions.parent:
            under.append(parent >= 0 and (self.insts[parent].op == "if" or under[parent]))
        return under

    @cached_property
    def uniformity(self) -> Uniformity:
        return uniformity(self.kernel, self.regions)

    @cached_property
    def roles(self) -> Roles | None:
        return Roles.of(self.kernel, self.regions) if self.stage == "team" else None

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


def _stage(body: Body, i: int, inst: Inst) -> str | None:
    stages = OPS[inst.op].stages
    if body.stage not in stages:
        here = "plan" if body.stage == PLAN else f"kernel at stage {body.stage}"
        return f"`{inst.op}` is not legal in a {here}, only at {' or '.join(stages)}"
    if inst.op == "barrier" and inst.attr("scope") == "role" and body.stage == "thread":
        return 'a `barrier` of scope "role" is not legal at stage thread, which has no roles'
    return None


def _operands(body: Body, i: int, inst: Inst) -> str | None:
    kinds = operand_kinds(inst.op, inst.operands)
    if kinds is None:
        count = f"{len(inst.operands)} operand{'s' * (len(inst.operands) != 1)}"
        ranked = [f"; {o} has {len(o.shape)} dimensions" for o in inst.operands[:1] if isinstance(o, Buffer)]
        return f"`{inst.op}` takes ({', '.join(OPS[inst.op].operands)}), not {count}{''.join(ranked)}"
    common = _common(inst, kinds)
    for operand, kind in zip(inst.operands, kinds):
        wrong = _literal(operand) or _kind(body, operand, kind, common, inst)
        if wrong:
            return wrong
    if inst.op in SCALAR_OPS and not accepts(inst.op, common):
        return f"`{inst.op}` is not defined on {common}"
    if inst.op == "loop":
        other = next((o for o in inst.operands if isinstance(inst.result, Value) and o.dtype is not inst.result.dtype), None)
        return other and f"operand {other} of `loop` is {other.dtype}, its index {inst.result.dtype}"
    return None


def _common(inst: Inst, kinds: tuple[str, ...]) -> DType | None:
    """The dtype of the first operand of kind 'value'."""
    return next((o.dtype for o, kind in zip(inst.operands, kinds) if kind == "value" and not isinstance(o, Buffer)), None)


def _kind(body: Body, operand: Operand, kind: str, common: DType | None, inst: Inst) -> str | None:
    if kind == "arg":
        return None
    if kind in ("buffer", "cell", "ring"):
        fits = isinstance(operand, Buffer) and (operand.space == kind if kind != "buffer" else operand.space != "ring")
        if not fits:
            return f"operand {operand} of `{inst.op}` is not a {kind}"
        return None
    if isinstance(operand, Buffer):
        return f"operand {operand} of `{inst.op}` is a buffer where a scalar goes"
    if kind == "index":
        fits, wanted = is_index(operand.dtype, body.stage), "i64"
    else:
        wanted = {"bool": BOOL, "value": operand.dtype, "same": common, "elem": _target(inst)}[kind]
        fits = operand.dtype is wanted
    return None if fits else f"operand {operand} of `{inst.op}` is {operand.dtype} where {wanted} goes"


def _target(inst: Inst) -> DType | None:
    """The dtype of the elements that an access stores: of the last buffer."""
    return next((o.dtype for o in reversed(inst.operands) if isinstance(o, Buffer)), None)


def is_index(dtype: DType, stage: str) -> bool:
    """Indices are i64; at stage=thread also i32, once narrow-indices has shown that they fit."""
    return dtype is I64 or (dtype is I32 and stage == "thread")


def _literal(operand: Operand) -> str | None:
    if not isinstance(operand, Const):
        return None
    try:
        fits = constant(operand.value, operand.dtype) == operand
    except (ValueError, OverflowError):
        fits = False
    return None if fits else f"{operand.value!r} is not a value of {operand.dtype}"


def _result(body: Body, i: int, inst: Inst) -> str | None:
    rule, result = OPS[inst.op].result, inst.result
    if rule == "none":
        return None if result is None else f"`{inst.op}` has no result"
    if not isinstance(result, Buffer if rule == "buffer" else Value):
        return f"`{inst.op}` needs {'storage to declare' if rule == 'buffer' else 'a result'}"
    if rule == "index":
        return None if is_index(result.dtype, body.stage) else f"the index {result} of `{inst.op}` is {result.dtype}, not i64"
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
    if inst.op == "copy" or not OPS[inst.op].access or body.guarded[i] or (body.stage == "tile" and not body.kernel.done):
        return None
    for access in accesses(inst):
        for axis, (index, extent) in enumerate(zip(access.box, access.buffer.shape)):
            if isinstance(index, Const) and (index.value < 0 or (isinstance(extent, Const) and index.value >= extent.value)):
                return f"index {index.value} is outside dimension {axis} of {access.buffer}, which has {extent} elements"
    return None


def _writable(body: Body, i: int, inst: Inst) -> str | None:
    written = next((a.buffer for a in accesses(inst) if "w" in a.mode and a.buffer.mode == "in"), None)
    return written and f"`{inst.op}` to {written}, which is an `in` parameter"


def _storage(body: Body, i: int, inst: Inst) -> str | None:
    if inst.op not in DECLARES:
        return None
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
    scope = OPS[inst.op].scope
    if scope == "thread" or inst.op in DECLARES:
        return None
    control = body.uniformity.control[i]
    group = scope == "warp" or inst.attr("scope") == "group"
    if control == BLOCK or (group and control % inst.attr("width") == 0):
        return None
    threads = f"the {inst.attr('width')} threads of a group" if group else "all threads of the block"
    return f"`{inst.op}` is executed by {threads} together, but only groups of {control} are known to reach it together"


def _launch(body: Body, i: int, inst: Inst) -> str | None:
    if inst.op != "launch":
        return None
    name = inst.attr("kernel")
    kernel = next((k for k in body.plan.kernels if k.name == name), None)
    if kernel is None:
        return f"there is no kernel @{name}"
    arguments = inst.operands[1:]
    if len(arguments) != len(kernel.params):
        return f"@{name} has {len(kernel.params)} parameters, the launch passes {len(arguments)} arguments"
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
    return None


RULES: tuple[tuple[str, Rule], ...] = (
    ("E0516", _stage),
    ("E0513", _operands),
    ("E0515", lambda body, i, inst: attributes_problem(inst)),
    ("E0514", _result),
    ("E0517", _place),
    ("E0518", _bounds),
    ("E0519", _writable),
    ("E0520", _storage),
    ("E0521", _uniform),
    ("E0522", _launch),
    ("E0524", lambda body, i, inst: body.roles and roles_problem(body.roles, i, inst)),
)
