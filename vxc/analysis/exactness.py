"""Which outputs of a plan every executor must agree on to the bit, and why not the others.

Two things leave room: elementary functions, whose emitted code has an error bound (`ScalarOp.ulp`), and atomic additions of
floats, whose order is free. As elementary count float `extern fn`s, too, and with another `fp` than exact all float
arithmetic. `inexact` follows both forward through values, storage, indices and branches to a fixed point, in time linear in
the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vxc.dtypes import DType
from vxc.ir.kernel import Buffer, Const, Inst, Kernel
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, operand_kinds
from vxc.semantics import SCALAR_OPS

ELEMENTARY, ATOMICS = "elementary functions", "the order of float atomics"

Node = tuple[str, str | int]  # (kernel, name of a value or buffer) or (kernel, position of an opener); kernel "" is the plan


def inexact(plan: Plan) -> dict[str, frozenset[str]]:
    """For each `out` or `inout` buffer that is not exact, its causes: ELEMENTARY, ATOMICS or both."""
    flows: dict[Node, list[Node]] = {}
    for source, target in _plan_flows(plan):
        flows.setdefault(source, []).append(target)
    reached = {cause: _reachable(_seeds(plan, cause), flows) for cause in (ELEMENTARY, ATOMICS)}
    outputs = [b.name for b in plan.buffers if b.mode != "in"]
    causes = {name: frozenset(cause for cause, nodes in reached.items() if ("", name) in nodes) for name in outputs}
    return {name: found for name, found in causes.items() if found}


def _seeds(plan: Plan, cause: str) -> Iterator[Node]:
    starts = _free_order if cause == ATOMICS else _approximate
    for kernel in plan.kernels:
        for inst in kernel.insts:
            if starts(inst, kernel):
                yield from ((kernel.name, name) for name in _written(inst))


def _free_order(inst: Inst, _: Kernel) -> bool:
    return inst.op == "atomic" and inst.attr("op") == "add" and inst.operands[0].dtype.is_float


def _approximate(inst: Inst, kernel: Kernel) -> bool:
    """An elementary function, CUDA text of the author's, or in a looser `fp` mode any float arithmetic."""
    if inst.op == "extern":
        return inst.operands[0].dtype.is_float
    row = SCALAR_OPS.get(inst.op)
    if row is None or inst.result is None:
        return False
    dtype: DType = inst.result.dtype
    return not row.exact or (dtype.is_float and kernel.attr("fp", "exact") != "exact")


def _reachable(seeds: Iterable[Node], flows: dict[Node, list[Node]]) -> set[Node]:
    todo = list(seeds)
    reached = set(todo)
    while todo:
        for target in flows.get(todo.pop(), ()):
            if target not in reached:
                reached.add(target)
                todo.append(target)
    return reached


def _plan_flows(plan: Plan) -> Iterator[tuple[Node, Node]]:
    """Every (source, target) along which a deviation passes on; arrays passed to a launch are one with its parameters."""
    for kernel in plan.kernels:
        yield from _kernel_flows(kernel)
    for inst in plan.entries:
        if inst.op == "launch":
            name = inst.attr("kernel")
            for argument, param in zip(inst.operands[1:], plan.kernel(name).params):
                if isinstance(argument, Buffer):
                    yield ("", argument.name), (name, param.name)
                    yield (name, param.name), ("", argument.name)


def _kernel_flows(kernel: Kernel) -> Iterator[tuple[Node, Node]]:
    """Operands flow to what is written; a branch or bound, to all that is written under it."""
    regions = Regions.of(kernel.insts)
    for i, inst in enumerate(kernel.insts):
        targets: list[str | int] = [*_written(inst)]
        if OPS[inst.op].opens:
            targets.append(i)
        if inst.op in ("break", "continue"):  # whether the rest of the loop runs
            targets.append(regions.innermost(i, ("loop", "while")))
        kinds = operand_kinds(inst.op, inst.operands)
        sources: list[str | int] = [o.name for o, kind in zip(inst.operands, kinds) if not isinstance(o, Const) and kind != "place"]
        if inst.op in ("contribute", "prefix"):
            opener = regions.innermost(i, ("reduce", "scan"))
            targets += [o.name for o in kernel.insts[opener].operands[:1] if isinstance(o, Buffer)]
        if regions.parent[i] >= 0:
            sources.append(regions.parent[i])
        for source in sources:
            yield from (((kernel.name, source), (kernel.name, target)) for target in targets)


def _written(inst: Inst) -> Iterator[str]:
    """Names of the values and buffers that an instruction defines or changes."""
    if inst.result is not None:
        yield inst.result.name
    yield from (access.buffer.name for access in accesses(inst) if "w" in access.mode)
    if inst.op in ("reduce", "extern"):
        yield inst.operands[0].name
