"""fuse-loops: a perfect nest of parallel loops becomes one loop over its flattened index.

Before: stage=tile; parallel loops nest as written.
After:  where a parallel loop holds nothing but another whose bounds do not depend on it, the two are one, whatever their
        extents; indices are the digits of the flattened index, the innermost fastest. Loops over blocks fuse only with one
        another, and an inner loop with `lanes` or a `layout` of its own stays. The one loop has the `vector` of the innermost, and the
        `layout` of the nest over its number. Raises E0235 for a layout of a nest whose extents are not constant, or of another one.

    %i = loop 0, %M {.., kind="parallel"}            %0: i64 = mul %M, %N
      %j = loop 0, %N {.., kind="parallel"}          %i = loop 0, %0 {.., kind="parallel"}
        store @y, %i, %j, 0.0:f32            ->        %j: i64 = mod %i, %N
      end %j                                           %1: i64 = floordiv %i, %N
    end %i                                             store @y, %1, %j, 0.0:f32
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import I64, U64
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.facts import trip_count
from vxc.ir.kernel import Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import DECLARES, OPS
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.given_layouts import over_numbers
from vxc.passes.nest import dimensions, is_parallel, perfect_nest
from vxc.passes.prove_parallel_text import source_name


def fuse(kernel: Kernel, context: Context) -> Kernel:
    dims = dimensions(kernel)
    b = Builder(names(kernel.params))
    rewriter = Rewriter(b)
    insts, regions = kernel.insts, Regions.of(kernel.insts)
    opened: list[Value | None] = []  # the indices of the regions that are open, as they are now
    fused_ends: set[int] = set()
    at = 0
    while at < len(insts):
        inst = insts[at]
        loops, hoisted, body = perfect_nest(insts, regions, at) if is_parallel(inst) else ([], [], at)
        if loops:
            _refused(kernel, regions, loops[-1], context)
        if len(loops) > 1:
            b.at(inst.loc)
            rewriter.copy_all(insts[i] for i in hoisted)
            _countable(kernel, [insts[i] for i in loops])
            opened.append(_flatten(b, rewriter, kernel, [insts[i] for i in loops], dims))
            fused_ends |= {regions.end[i] for i in loops[1:]}
            names_ = ", ".join(source_name(insts[i].result.name) for i in loops)
            context.applied(f"parallel {names_} are one loop", kernel.name, inst.loc)
            _inner_lines([insts[i] for i in loops], kernel.name, context)
            at = body
            continue
        if inst.op == "end" and at not in fused_ends:
            index = opened.pop()
            b.add(inst.over(() if index is None else (index,), None))
        elif inst.op != "end":
            result = rewriter.copy(inst)
            if OPS[inst.op].opens:
                opened.append(result)
        at += 1
    return replace(kernel, insts=tuple(b.insts))


def _inner_lines(loops: list[Inst], kernel: str, context: Context) -> None:
    """Say it of loops on other lines than the outermost, too, where they stand."""
    first = source_name(loops[0].result.name)
    for loop in loops[1:]:
        if loop.loc and loops[0].loc and loop.loc[0] != loops[0].loc[0]:
            name = source_name(loop.result.name)
            context.applied(f"parallel {name} is one loop with parallel {first} (line {loops[0].loc[0]}) around it", kernel, loop.loc)


def _refused(kernel: Kernel, regions: Regions, at: int, context: Context) -> None:
    """Say of each parallel loop right inside another why the two stay apart; a loop over blocks is another matter."""
    insts, outer = kernel.insts, kernel.insts[at]
    level = [insts[i] for i in regions.level(regions.body(at))]
    for inner in level:
        if not is_parallel(inner) or inner.attr("threads") != outer.attr("threads"):
            continue
        beside = [x for x in level if x is not inner and not OPS[x.op].pure]
        other = next((x for x in beside if x.op not in DECLARES), None)
        if other is not None:
            line = f" (line {other.loc[0]})" if other.loc else ""
            why = f"{_called(other)}{line} stands beside it"
        else:
            why = "what is declared beside it is of each outer iteration" if beside else "its bounds depend on the outer index"
        names = source_name(inner.result.name), source_name(outer.result.name)
        around = f"parallel {names[1]}" if names[0] != names[1] else "another over it"
        place = f" (line {outer.loc[0]})" if outer.loc else ""
        context.missed(f"parallel {names[0]} stays a loop inside {around}{place}: {why}", kernel.name, inner.loc)


def _called(inst: Inst) -> str:
    if inst.op in ("load", "store", "atomic"):
        return f"{inst.op} of `{source_name(inst.operands[0].name)}`"
    return f"`{inst.attr('op') or inst.attr('kind') or inst.op}`"


def _countable(kernel: Kernel, loops: list[Inst]) -> None:
    """Raises VxcError (E0230) where the constant extents of a nest alone multiply to more than an index holds."""
    bounds = [[x.value for x in (*loop.operands, Const(1))[:3] if isinstance(x, Const)] for loop in loops]
    total = prod(trip_count(*b) for b in bounds if len(b) == 3)
    if total > I64.max:
        message = f"a nest of {total} iterations, over {', '.join(loop.result.name for loop in loops)}"
        hint = "run the outer loops by `serial`, or shorten them"
        raise VxcError(Diagnostic("E0230", message, kernel.source, kernel.span(loops[0]), help=hint))


def _flatten(b: Builder, rewriter: Rewriter, kernel: Kernel, loops: list[Inst], dims: set[str]) -> Value:
    """Open the one loop and define the indices of all as digits of its index, which it gives."""
    counts = [trips(b, loop, rewriter, dims) for loop in loops]
    constant = [n.value for n in counts if isinstance(n, Const)]
    total = Const(prod(constant)) if constant else None
    for count in counts:
        if not isinstance(count, Const):
            total = count if total in (None, Const(1)) else b.emit("mul", total, count)
    outer = loops[0]
    attrs = dict(outer.attrs) | {"vector": loops[-1].attr("vector")}
    if outer.attr("layout"):
        attrs["layout"] = over_numbers(kernel, outer, counts)
    index = b.emit("loop", 0, total, name=outer.result.name, **attrs)
    rest = index
    for at in range(len(loops) - 1, -1, -1):
        start, _, step = (*map(rewriter, loops[at].operands), Const(1))[:3]
        digit = b.emit("mod", rest, counts[at], name=loops[at].result.name) if at else rest
        rest = b.emit("floordiv", rest, counts[at]) if at else rest
        digit = digit if step == Const(1) else b.emit("mul", digit, step)
        rewriter.mapping[loops[at].result] = digit if start == Const(0) else b.emit("add", digit, start)
    return index


def trips(b: Builder, loop: Inst, lookup, dims: set[str]) -> Operand:
    """The number of iterations of a loop, computed in `b` with operands through `lookup`; `dims` are never negative."""
    start, stop, step = (*map(lookup, loop.operands), Const(1))[:3]
    if all(isinstance(x, Const) for x in (start, stop, step)):
        return Const(trip_count(start.value, stop.value, step.value))
    if start == Const(0) and step == Const(1):
        return stop if loop.operands[1].name in dims else b.emit("max", stop, 0)
    near = isinstance(start, Const) and start.value > 0 and isinstance(step, Const) and step.value > 0
    if start == Const(0) or near or step in (Const(1), Const(-1)):  # by 1, what an i64 does not count would not end either
        count = b.emit("max", b.emit("ceildiv", b.emit("sub", stop, start), step), 0)
        return count if start == Const(0) else b.emit("select", b.emit("gt" if step == Const(-1) else "lt", start, stop), count, Const(0))
    up, down = b.emit("lt", start, stop), b.emit("gt", start, stop)
    first, last = b.emit("cast", start, dtype=U64), b.emit("cast", stop, dtype=U64)  # what lies between may be more than an i64 holds
    if isinstance(step, Const):
        ahead, apart = (up, b.emit("sub", last, first)) if step.value > 0 else (down, b.emit("sub", first, last))
        stride = Const(abs(step.value), U64)
    else:
        rises = b.emit("gt", step, 0)
        ahead = b.emit("select", rises, up, down)
        apart = b.emit("select", rises, b.emit("sub", last, first), b.emit("sub", first, last))
        stride = b.emit("cast", b.emit("select", rises, step, b.emit("neg", step)), dtype=U64)
    return b.emit("select", ahead, b.emit("cast", b.emit("ceildiv", apart, stride), dtype=I64), Const(0))


def run(plan: Plan, context: Context) -> Plan:
    return plan.with_kernels([fuse(kernel, context) for kernel in plan.kernels])


FUSE_LOOPS = Pass("fuse-loops", run, "one loop for a perfect nest of parallel loops", needs=("tile", "loops"), gives=("fused",))
