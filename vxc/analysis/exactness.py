"""Which outputs of a plan every executor must agree on to the bit, and why not the others.

Two things leave room: elementary functions, whose emitted code has an error bound (`ScalarOp.ulp`), and atomic additions of
floats, whose order is free. As elementary count float `extern fn`s, too, and with another `fp` than exact all float
arithmetic. `inexact` follows both forward through values, storage, indices and branches to a fixed point, in time linear in
the plan; `grains` says how small a deviation stays, and `distorted` where it may have become any.
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
DISTORTED = "what elementary functions give is computed with"

# What leaves a float as near to the right one as it was, relative to its magnitude: moving, rounding, choosing by magnitude.
_KEEPING = {"load", "store", "move", "copy", "select", "neg", "abs", "max", "min", "maxnum", "minnum", "clamp", "cast", "sat"}
_KEEPING |= {"shfl_xor", "shfl_up", "shfl_idx"}

Node = tuple[str, str | int]  # (kernel, name of a value or buffer) or (kernel, position of an opener); kernel "" is the plan
Flow = tuple[Node, Node, bool]  # a deviation of the first passes on to the second; whether it stays as small


def inexact(plan: Plan) -> dict[str, frozenset[str]]:
    """For each `out` or `inout` buffer that is not exact, its causes: ELEMENTARY, ATOMICS or both."""
    flows = list(_plan_flows(plan))
    reached = {cause: _reachable(_seeds(plan, cause), flows) for cause in (ELEMENTARY, ATOMICS)}
    causes = {name: frozenset(cause for cause, nodes in reached.items() if ("", name) in nodes) for name in _outputs(plan)}
    return {name: found for name, found in causes.items() if found}


def grains(plan: Plan) -> dict[str, frozenset[DType]]:
    """For each `out` or `inout` buffer that is not exact, the float dtypes that its deviation has passed, of which the coarsest says how
    near it is: an f64 that was made of what an elementary function of f32 gave is as near as an f32.
    """
    flows = list(_plan_flows(plan))
    off = _reachable([node for cause in (ELEMENTARY, ATOMICS) for node in _seeds(plan, cause)], flows)
    dtypes = {node: dtype for node, dtype in _dtypes(plan).items() if node in off and dtype.is_float}
    reached = {dtype: _reachable([n for n, own in dtypes.items() if own is dtype], flows) for dtype in set(dtypes.values())}
    outputs = (name for name in _outputs(plan) if ("", name) in off)
    return {name: frozenset(dtype for dtype, nodes in reached.items() if ("", name) in nodes) for name in outputs}


def _dtypes(plan: Plan) -> dict[Node, DType]:
    """Of all values and buffers."""
    found = {("", buffer.name): buffer.dtype for buffer in plan.buffers}
    for kernel in plan.kernels:
        named = [*kernel.params, *(inst.result for inst in kernel.insts if inst.result is not None)]
        found |= {(kernel.name, thing.name): thing.dtype for thing in named}
    return found


def distorted(plan: Plan) -> frozenset[str]:
    """The `out` and `inout` buffers of which no bound can be told.

    What elementary functions give reaches them through a sum, in which it may cancel, another function, a comparison, an index or the
    like. With `fp` fast that is all float arithmetic.
    """
    flows = list(_plan_flows(plan))
    near = _reachable(_seeds(plan, ELEMENTARY), flows)
    fast = {kernel.name for kernel in plan.kernels if kernel.attr("fp", "exact") == "fast"}
    starts = [target for source, target, keeps in flows if source in near and not keeps]
    starts += [node for node in _seeds(plan, ELEMENTARY) if node[0] in fast]
    reached = _reachable(starts, flows)
    return frozenset(name for name in _outputs(plan) if ("", name) in reached)


def _outputs(plan: Plan) -> list[str]:
    return [b.name for b in plan.buffers if b.mode != "in"]


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


def _reachable(seeds: Iterable[Node], flows: Iterable[Flow]) -> set[Node]:
    targets: dict[Node, list[Node]] = {}
    for source, target, _ in flows:
        targets.setdefault(source, []).append(target)
    todo = list(seeds)
    reached = set(todo)
    while todo:
        for target in targets.get(todo.pop(), ()):
            if target not in reached:
                reached.add(target)
                todo.append(target)
    return reached


def _plan_flows(plan: Plan) -> Iterator[Flow]:
    """Every flow of a deviation; arrays passed to a launch are one with its parameters."""
    for kernel in plan.kernels:
        yield from _kernel_flows(kernel)
    for inst in plan.entries:
        if inst.op == "launch":
            name = inst.attr("kernel")
            for argument, param in zip(inst.operands[1:], plan.kernel(name).params):
                if isinstance(argument, Buffer):
                    yield ("", argument.name), (name, param.name), True
                    yield (name, param.name), ("", argument.name), True


def _kernel_flows(kernel: Kernel) -> Iterator[Flow]:
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
        keeps = inst.op in _KEEPING and (inst.result is None or inst.result.dtype.is_float)
        for source in sources:
            yield from (((kernel.name, source), (kernel.name, target), keeps) for target in targets)


def _written(inst: Inst) -> Iterator[str]:
    """Names of the values and buffers that an instruction defines or changes."""
    if inst.result is not None:
        yield inst.result.name
    yield from (access.buffer.name for access in accesses(inst) if "w" in access.mode)
    if inst.op in ("reduce", "extern"):
        yield inst.operands[0].name
