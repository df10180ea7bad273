"""map-loops: which lanes of which block run what (stage=tile -> stage=team).

Before: stage=tile, each kernel a pure prologue and one top-level parallel nest.
After:  stage=team. The nest is one loop over the flattened index, `map="blocks"`, `rows` iterations to a block, each run by a
        *group* of lanes. Kernel attributes say how: `group` lanes, `rows`, `threads`. A parallel loop in the body is
        `map="lanes"`, or `map="all"` where each lane must run every iteration: it writes storage private to a lane, or lanes
        work together inside it. Reductions and scans have the layout that their order fixes. The launch has its grid. An
        iteration of a `grid` loop is a block; in it, a loop in which lanes work together is `map="teams"`: teams of up to a
        warp take its iterations.

    %i = loop 0, %M {..}                           role {name="main", warps=8}
      %0: f32 = load @x, %i, 0                       %i = loop 0, %M {.., map="blocks"}
      %j = loop 0, %N {..}              ->             %0: f32 = load @x, %i, 0
        store @y, %i, %j, %0                           %j = loop 0, %N {.., map="lanes"}
      end %j                                             store @y, %i, %j, %0
    end %i

The group is the widest order of lanes in the body: an order of L lanes is run by L threads. Up to 32 lanes, groups share
warps and meet by shuffles; a wider group is a block of its own.
"""

from __future__ import annotations

from dataclasses import replace

from vxc.diag import Diagnostic, VxcError
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.ops import OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.layout.layout import distribution
from vxc.pass_manager import Context, Pass
from vxc.passes.fuse_loops import trips
from vxc.passes.nest import Nest, dimensions, is_parallel, nest_of
from vxc.semantics import Order

WARP = 32
BLOCK = 256  # threads of a block whose groups are a warp or less


def run(plan: Plan, context: Context) -> Plan:
    entries, kernels = Builder(names(plan.params)), []
    rewriter = Rewriter(entries)
    for entry in plan.entries:
        if entry.op != "launch":
            rewriter.copy(entry)
            continue
        nest = nest_of(plan.kernel(entry.attr("kernel")))
        kernel = map_kernel(plan.kernel(entry.attr("kernel")), nest, context)
        kernels.append(kernel)
        args = tuple(map(rewriter, entry.operands[1:]))
        grid = _grid(entries.at(entry.loc), nest, dict(zip(kernel.params, args)), kernel, context)
        entries.emit("launch", grid, *args, kernel=kernel.name)
    return replace(plan, entries=tuple(entries.insts), kernels=tuple(kernels))


def map_kernel(kernel: Kernel, nest: Nest, context: Context) -> Kernel:
    block = nest.loops[0].attr("threads")  # of a grid: an iteration is a block
    group = block or _group(nest)
    rows = max(1, BLOCK // group) if group <= WARP and not block else 1
    threads = -(-group * rows // WARP) * WARP
    b = Builder(names(kernel.params))
    rewriter = Rewriter(b)
    rewriter.copy_all(nest.prologue)
    loc = nest.loops[0].loc
    b.at(loc)
    outer = nest.loops[0]
    total = trips(b, outer, rewriter, dimensions(kernel))
    with b.region("role", name="main", warps=threads // WARP):
        with b.loop(0, total, kind="parallel", name=outer.result.name, map="blocks", independent=outer.attr("independent")) as q:
            start, _, step = (*map(rewriter, outer.operands), Const(1))[:3]
            digit = q if step == Const(1) else b.emit("mul", q, step)
            rewriter.mapping[outer.result] = digit if start == Const(0) else b.emit("add", digit, start)
            _body(nest.body, group, rewriter, spread_teams=bool(block))
    context.applied(_words(nest, group, rows, threads), kernel.name, loc)
    attrs = dict(kernel.attrs) | {"group": group, "rows": rows, "threads": threads}
    return b.build(kernel.name, kernel.params, stage="team", attrs=attrs.items())


def _words(nest: Nest, group: int, rows: int, threads: int) -> str:
    each = f"{group} lanes to an iteration" if group > 1 else "a thread to an iteration"
    return f"parallel {nest.loops[0].result.name}: {each}, {rows} iteration{'s' * (rows > 1)} to a block of {threads} threads"


def _group(nest: Nest) -> int:
    """Lanes that run one iteration: what is written, else the widest order, else a warp for inner parallel loops."""
    written = nest.loops[0].attr("lanes")
    wanted = [inst.attr("order")[2] for inst in nest.body if inst.op in ("reduce", "scan")]
    if written:
        return max([written, *wanted])
    wanted += [_loop_lanes(inst) for inst in nest.body if is_parallel(inst)]
    return max(wanted, default=1)


def _loop_lanes(loop: Inst) -> int:
    """A warp, or fewer lanes for a loop with fewer iterations."""
    if loop.attr("lanes"):
        return loop.attr("lanes")
    if all(isinstance(x, Const) for x in loop.operands):
        trips = len(range(*(x.value for x in loop.operands)))
        return min(WARP, 1 << max(0, trips - 1).bit_length())
    return WARP


def _body(body, group: int, rewriter: Rewriter, spread_teams: bool) -> None:
    regions = Regions.of(body)
    how: dict[int, str] = {}
    teams: dict[int, int] = {}  # lanes of the team that takes an iteration of the loop at this place
    for i, inst in enumerate(body):
        if is_parallel(inst):
            how[i] = _how(regions, i, how, spread_teams)
            if how[i] == "teams":
                teams[i] = _team(regions, i)
            lanes = next((teams[p] for p in (i, *regions.parents(i)) if p in teams), group)
            layout = f"[i] -> [i % {lanes}, i // {lanes}]" if how[i] == "lanes" else None
            inst = inst.with_attrs(map=how[i], layout=layout, lanes=lanes if how[i] == "teams" else inst.attr("lanes"))
        elif inst.op in ("reduce", "scan"):
            inst = inst.with_attrs(layout=str(distribution(Order(*inst.attr("order")))))
        rewriter.copy(inst)


def _how(regions: Regions, loop: int, outer: dict[int, str], spread_teams: bool) -> str:
    """Inside a loop over lanes or elements: 'lanes' (that thread runs it all). Else 'all' where it writes storage that each
    lane has its own of; 'teams' or 'all' where lanes work together inside it; 'lanes' for the rest.
    """
    inside = [regions.insts[i] for i in regions.body(loop)]
    if any(outer.get(p) == "lanes" or regions.insts[p].op in ("reduce", "scan") for p in regions.parents(loop)):
        return "lanes"
    own = {i.result.name for i in inside if isinstance(i.result, Buffer)}
    stored = (a.buffer for i in inside for a in accesses(i) if "w" in a.mode)
    if any(x.space in ("cell", "local") and x.name not in own for x in stored):
        return "all"
    if any(i.op in ("reduce", "scan") or is_parallel(i) for i in inside):
        within = any(outer.get(p) == "teams" for p in regions.parents(loop))
        wide = any(i.op in ("reduce", "scan") and i.attr("order")[2] > WARP for i in inside)
        return "teams" if spread_teams and not within and not wide else "all"
    return "lanes"


def _team(regions: Regions, loop: int) -> int:
    """Lanes that work together on an iteration of a loop: the widest order inside, or a warp for parallel loops."""
    inside = [regions.insts[i] for i in regions.body(loop)]
    wanted = [i.attr("order")[2] for i in inside if i.op in ("reduce", "scan")]
    return min(WARP, max(wanted + [_loop_lanes(i) for i in inside if is_parallel(i)]))


def _grid(b: Builder, nest: Nest, arguments: dict, kernel: Kernel, context: Context) -> Operand:
    """The number of blocks, computed in the plan from the launch's arguments."""
    device = [inst for inst in nest.prologue if not OPS[inst.op].pure]
    needed = {x.name for loop in nest.loops for x in loop.operands if isinstance(x, Value)}
    for inst in reversed(nest.prologue):
        if inst.result.name in needed:
            needed.update(x.name for x in inst.operands if isinstance(x, Value))
    for inst in device:
        if inst.result.name in needed:
            raise VxcError([_device_bound(nest.loops[0], context)])
    rewriter = Rewriter(b, dict(arguments))
    rewriter.copy_all(inst for inst in nest.prologue if inst.result.name in needed)
    total = trips(b, nest.loops[0], rewriter, dimensions(kernel))
    rows = kernel.attr("rows")
    return total if rows == 1 else b.emit("ceildiv", total, rows)


def _device_bound(loop: Inst, context: Context) -> Diagnostic:
    span = context.source.span_at(*loop.loc) if context.source and loop.loc else None
    return Diagnostic(
        "E0403",
        "the number of iterations of a top-level `parallel` loop is read from device memory",
        context.source,
        span,
        help="pass the bound as a scalar parameter, or loop over the whole dimension and test the index with `if`",
    )


MAP_LOOPS = Pass("map-loops", run, "map parallel loops to blocks and lanes", needs=("tile", "one-nest", "fused"), gives=("team",), breaks=("tile",))
