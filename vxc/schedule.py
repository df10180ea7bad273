"""What one call of a plan does: its host entries evaluated for bound dimensions, giving workspaces and launches of known size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from vxc.binding import ArrayParam, Binding, Described, bind, signature
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DType
from vxc.ir.alignment import check_rows
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.ops import HELP
from vxc.ir.plan import Plan
from vxc.record import record
from vxc.semantics import SCALAR_OPS, cast, evaluate, reinterpret, sat
from vxc.source import Source

Number = int | float | bool
_CONVERSIONS = {"cast": cast, "sat": sat, "reinterpret": reinterpret}


@record
class Workspace:
    """Device memory of one call, row-major."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.bytes


@record
class Launch:
    """`grid` blocks of a kernel. `arguments` follow `kernel.params`: a number for a Value, the plan's name of the array for a Buffer.

    `early`: it may start while the launch before it, which is of the same call, still runs.
    """

    kernel: Kernel
    grid: int
    arguments: tuple[Number | str, ...]
    early: bool = False


@record
class Schedule:
    workspaces: tuple[Workspace, ...]
    launches: tuple[Launch, ...]


def bind_plan(
    plan: Plan,
    arrays: Mapping[str, Described],
    scalars: Mapping[str, object],
    dims: Mapping[str, int] | None = None,
    source: Source | None = None,
) -> Binding:
    """As `bind`; a size or stride that no array shows and a `require` equates with others (`y_dim1 == N - K + 1`) is that.

    A missing `out` array shows none, and one of a single row no stride between rows.
    """
    required = {inst.operands[0] for inst in plan.entries if inst.op == "require"}
    equations = [inst for inst in plan.entries if inst.op == "eq" and inst.result in required]
    derived = {inst.operands[0].name for inst in equations if inst.operands[0] in plan.dims}
    params = signature(plan.params)
    dims = {p.name: dims[p.name] for p in plan.dims if p.name in dims} if dims else None
    loose = tuple(_shown(p, arrays.get(p.name), derived) if isinstance(p, ArrayParam) else p for p in params)
    binding = bind(loose, arrays, scalars, dims, source=source)
    pitched = [s for p in params if isinstance(p, ArrayParam) for s in p.strides or () if s in derived]
    if all(None not in shape for shape in binding.shapes.values()) and all(s in binding.dims for s in pitched):
        return binding
    sizes = dict(binding.dims)
    values: dict[str, Number] = {**binding.dims, **binding.scalars}
    for inst in plan.entries:
        known = [o.value if isinstance(o, Const) else values.get(o.name) for o in inst.operands if not isinstance(o, Buffer)]
        if inst.op == "eq" and inst.result in required and known[0] is None and known[1] is not None:
            sizes[inst.operands[0].name] = values[inst.operands[0].name] = known[1]
        elif isinstance(inst.result, Value) and None not in known:
            values[inst.result.name] = _evaluate(inst, known)
    return bind(params, arrays, scalars, {**sizes, **(dims or {})}, source=source)


def _shown(param: ArrayParam, given: Described | None, derived: set[str]) -> ArrayParam:
    """The parameter, what is derived and not shown by the given array being left open."""
    if given is None:
        param = replace(param, shape=tuple(None if s in derived else s for s in param.shape))
    if param.strides is None:
        return param
    rows = () if given is None or 0 in given.shape else given.shape
    return replace(param, strides=tuple(None if s in derived and rows[d : d + 1] in ((), (1,)) else s for d, s in enumerate(param.strides)))


def schedule(plan: Plan, binding: Binding, source: Source | None = None) -> Schedule:
    """Evaluates the entries in order. Raises VxcError where a `require` is false: E0705, or the code that it has; E0706 where rows lie
    otherwise than the plan was told.
    """
    check_rows(plan, binding.dims)
    values: dict[str, Number] = {**binding.dims, **binding.scalars}
    defined: dict[str, Inst] = {}
    workspaces: list[Workspace] = []
    launches: list[Launch] = []

    def value(operand: Value | Const) -> Number:
        return _value(operand, values)

    for inst in plan.entries:
        if inst.op == "workspace":
            workspaces.append(Workspace(inst.result.name, inst.result.dtype, tuple(int(value(s)) for s in inst.result.shape)))
        elif inst.op == "launch":
            grid, *rest = inst.operands
            arguments = tuple(a.name if isinstance(a, Buffer) else value(a) for a in rest)
            follows = any(before.grid for before in launches)  # one over no blocks is none: that would overlap with work of others
            early = inst.attr("early", False) and follows
            launches.append(Launch(plan.kernel(inst.attr("kernel")), int(value(grid)), arguments, early))
        elif inst.op == "require":
            if not value(inst.operands[0]):
                sides = [value(o) for o in defined[inst.operands[0].name].operands] if isinstance(inst.operands[0], Value) else []
                raise _refused(inst, sides, source)
        else:
            values[inst.result.name] = _evaluate(inst, [value(o) for o in inst.operands])
            defined[inst.result.name] = inst
    return Schedule(tuple(workspaces), tuple(launches))


def check_described(plan: Plan, arrays: Mapping[str, Described], source: Source | None = None) -> None:
    """Refuses shapes and dtypes, of some of the arrays, with which no call could be. Raises as `bind` and `schedule`."""
    params = [replace(p, strides=None) for p in signature(plan.params) if isinstance(p, ArrayParam) and p.name in arrays]
    values: dict[str, Number] = {**bind(params, arrays, {}, source=source).dims}
    defined: dict[str, Inst] = {}
    for inst in plan.entries:
        known = [o.value if isinstance(o, Const) else values.get(o.name) for o in inst.operands if not isinstance(o, Buffer)]
        if inst.op == "require" and known[0] is not None and not known[0]:
            raise _refused(inst, [_value(o, values) for o in defined[inst.operands[0].name].operands], source)
        if isinstance(inst.result, Value) and None not in known:
            values[inst.result.name] = _evaluate(inst, known)
            defined[inst.result.name] = inst


def _value(operand: Value | Const, values: Mapping[str, Number]) -> Number:
    return operand.value if isinstance(operand, Const) else values[operand.name]


def _evaluate(inst: Inst, operands: list[Number]) -> Number:
    dtype = inst.operands[-1].dtype
    if inst.op in SCALAR_OPS:
        return evaluate(inst.op, dtype, *operands).item()
    return _CONVERSIONS[inst.op](operands[0], dtype, inst.result.dtype).item()


def _refused(inst: Inst, sides: list[Number], source: Source | None) -> VxcError:
    span = source.extent_at(*inst.loc) if source and inst.loc else None
    code = inst.attr("code")
    if code:
        return VxcError(Diagnostic(code, inst.attr("what"), source if span else None, span, help=HELP[code]))
    notes = (f"here the two sides are {sides[0]} and {sides[1]}",) if len(sides) == 2 else ()
    message = f"the call is refused, for this does not hold: {inst.attr('what')}"
    hint = "pass arrays whose sizes agree with the declarations; a `local` array has the sizes that the program declares for it"
    return VxcError(Diagnostic("E0705", message, source if span else None, span, notes=notes, help=hint))
