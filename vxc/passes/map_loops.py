"""map-loops: which lanes of which block run what (stage=tile -> stage=team).

Before: stage=tile, each kernel a prologue (pure instructions, and loads of what it never writes) and one top-level parallel nest.
After:  stage=team. The nest is one loop over the flattened index, `map="blocks"`, `rows` iterations to a block, each run by a
        *group* of lanes. Kernel attributes say how: `group` lanes, `rows`, `threads`, `min_blocks` if any. A parallel loop in the body is
        `map="lanes"`, or `map="all"` where each lane must run every iteration: it writes storage private to a lane, or lanes
        work together inside it. Reductions and scans have the layout that their order fixes. The launch has its grid. An
        iteration of a `grid` loop is a block; in it, a loop in which lanes work together is `map="teams"`: teams of up to a
        warp take its iterations. A loop with a `layout` of the author's is `map="lanes"` and `given`. `vector` of a loop over elements
        says how many in a row a lane may as well take, of one that a thread runs alone how many it takes at a time; of the loop over
        blocks, so many elements are then a thread's, as `rows` counts. Where a lane takes one, accesses have the reason (`narrow`).

    %i = loop 0, %M {..}                           role {name="main", warps=8}
      %0: f32 = load @x, %i, 0                       %i = loop 0, %M {.., map="blocks"}
      %j = loop 0, %N {..}              ->             %0: f32 = load @x, %i, 0 {..}
        store @y, %i, %j, %0                           %j = loop 0, %N {.., map="lanes", vector=4}
      end %j                                             store @y, %i, %j, %0
    end %i

Lanes of `columns` iterations beside one another are threads apart (`vxc.passes.columns`), where `one_run` of one innermost loop.
The group is the widest order of lanes in the body (or `@lanes` of the nest, if that is more): an order of L lanes is run by L threads.
A grid under a condition is part of an iteration, which then is a block too, with the threads of the largest such grid.
A body with nothing but parallel loops to share gets a warp, or fewer lanes for shorter loops. Up to 32 lanes, groups share
warps and meet by shuffles; a wider group is a block of its own. Raises E0403 where only the device knows the number of blocks, and
E0235 for a layout of the author's that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vxc.analysis.offsets import Offsets
from vxc.analysis.thread_loop import MEMORY
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.facts import trip_count
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Scalar, Value
from vxc.ir.narrow import Reason, words
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions, names
from vxc.layout.layout import distribution
from vxc.pass_manager import Context, Pass
from vxc.passes.choose_vector import choose, choose_own
from vxc.passes.columns import AHEAD, FEW, RESIDENT, Columns, along, columns_of
from vxc.passes.fuse_loops import trips
from vxc.passes.given_layouts import run_as_given
from vxc.passes.lane_order import in_turn
from vxc.passes.launches import Launched, Site, each_launch
from vxc.passes.nest import Nest, dimensions, is_parallel, nest_of
from vxc.passes.plain_rows import plain_row
from vxc.passes.prove_parallel_text import source_name
from vxc.passes.rows_in_flight import flight
from vxc.semantics import Order
from vxc.target import WARP

BLOCK = 256  # threads of a block whose groups are a warp or less
KEEPING = 64  # the same where lanes keep rows: registers of a smaller block are free for the next one sooner
MORE: Reason = ("more-work",)


def run(plan: Plan, context: Context) -> Plan:
    def of(site: Site) -> Iterator[Launched]:
        nest = nest_of(site.kernel)
        found = columns_of(site.kernel, nest)
        *few, usual = found.variants(nest) if isinstance(found, Columns) else (found,)
        for columns in few:
            kernel = map_kernel(replace(site.kernel, name=site.name("_few")), nest, columns, context)
            yield kernel, _grid(site, nest, kernel.attr("rows"), columns, "le")
            text = f"up to {FEW} iterations: a launch of its own, {kernel.name}, of smaller blocks"
            context.applied(text, site.kernel.name, nest.loops[0].loc)
        kernel = map_kernel(site.kernel, nest, usual, context)
        yield kernel, _grid(site, nest, kernel.attr("rows"), usual, "gt" if few else None)

    return each_launch(plan, of)


def map_kernel(kernel: Kernel, nest: Nest, columns: Columns | str | None, context: Context) -> Kernel:
    outer = nest.loops[0]
    block = _block(nest)
    across, vector = (columns.across, columns.width) if isinstance(columns, Columns) else (None, 1)
    ahead = columns.ahead if across and columns.ahead != AHEAD else None
    apart = {"columns": across, "ahead": ahead, "one_run": bool(columns.runs) or None} if across else {}
    nest = columns.ordered(nest) if isinstance(columns, Columns) else along(kernel, nest)
    group = columns.lanes if across else _group(nest)
    kept = any(x.op == "fragment" for x in nest.body)
    rows = across // vector if across else (max(1, (KEEPING if kept else BLOCK) // group) if group <= WARP and not block else 1)
    threads = -(-group * rows // WARP) * WARP
    vectors = _Vectors(kernel, nest, context)
    if group == 1 and not block:
        vector = vectors.of(outer, range(len(nest.body)), BLOCK, alone=True)
    many = 1 if block or across else flight(plain_row(nest.body), group)
    rows *= vector * many
    b = Builder(names(kernel.params))
    rewriter = Rewriter(b)
    rewriter.copy_all(nest.prologue)
    b.at(outer.loc)
    total = trips(b, outer, rewriter, dimensions(kernel))
    with b.region("role", name="main", warps=threads // WARP):
        kept = {"independent": outer.attr("independent"), "vector": _several(vector), "flight": _several(many)}
        with b.loop(0, total, kind="parallel", name=outer.result.name, map="blocks", **apart, **kept) as q:
            start, _, step = (*map(rewriter, outer.operands), Const(1))[:3]
            digit = q if step == Const(1) else b.emit("mul", q, step)
            rewriter.mapping[outer.result] = digit if start == Const(0) else b.emit("add", digit, start)
            vectors.singles[-1] = ("iteration", group) if group > 1 else vectors.singles.get(-1)
            widths = [(outer, group), *_body(nest.body, group, rewriter, vectors, bool(block), dimensions(kernel))]
    context.applied(_words(nest, group, rows, threads), kernel.name, outer.loc)
    if columns is not None:
        (context.applied if across else context.missed)(_column_words(nest, columns), kernel.name, outer.loc)
    if many > 1:
        text = f"{many} iterations in flight: {group} lanes load what all of them reduce before they fold the first"
        context.applied(text, kernel.name, outer.loc)
    for loop, width in widths:
        if loop.attr("lanes", width) != width:
            context.missed(_other_lanes(loop, width), kernel.name, loop.loc)
    attrs = dict(kernel.attrs) | {"group": group, "rows": rows, "threads": threads}
    if ahead:
        attrs["min_blocks"] = RESIDENT // threads
    if outer.attr("resident"):
        attrs["min_blocks"] = -(-outer.attr("resident") // threads)
    return b.build(kernel.name, kernel.params, stage="team", done=kernel.done, attrs=attrs.items(), source=kernel.source)


def _words(nest: Nest, group: int, rows: int, threads: int) -> str:
    each = f"{group} lanes to an iteration" if group > 1 else "a thread to an iteration"
    fill = f"{rows} iteration{'s' * (rows > 1)} to a block of {threads} threads"
    return f"parallel {source_name(nest.loops[0].result.name)}: {each}, {_reason(nest, group)}; {fill}"


def _column_words(nest: Nest, columns: Columns | str) -> str:
    if isinstance(columns, str):
        return f"parallel {source_name(nest.loops[0].result.name)} goes along columns that lanes side by side do not share: {columns}"
    each = f", {columns.width} each" if columns.width > 1 else ""
    return f"neighbouring threads take neighbouring iterations, which read neighbours of {columns.array.name}{each}"


def _reason(nest: Nest, group: int) -> str:
    """Why an iteration has so many lanes."""
    outer = nest.loops[0]
    if _block(nest) == group:
        return "all threads of the block that runs it"
    kept = any(x.op == "fragment" for x in nest.body)  # then `lanes` is that of the reductions
    if outer.attr("lanes") == group and not kept:
        return "as @lanes says"
    ordered = [x for x in nest.body if x.op in ("reduce", "scan") and x.attr("order")[2] == group and (kept or group > 1)]
    if ordered:
        return f"as many as the order of the {ordered[0].attr('op', 'scan')}{_line(ordered[0])} has"
    shared = next((x for x in nest.body if is_parallel(x) and _loop_lanes(x) == group > 1), None)
    if shared is None:
        return "since nothing in it is shared by lanes"
    return f"which share parallel {source_name(shared.result.name)}{_line(shared)}"


def _line(inst: Inst) -> str:
    return f" on line {inst.loc[0]}" if inst.loc else ""


def _other_lanes(loop: Inst, width: int) -> str:
    each = f"{width} lanes share" if width > 1 else "a single lane runs"
    return f"@lanes({loop.attr('lanes')}) of {loop.result.name}: {each} it, as the loops and reductions around and inside it need"


def _group(nest: Nest) -> int:
    """Lanes that run one iteration of the nest."""
    return nest.loops[0].attr("threads") or max(wanted_lanes(nest.loops[0], nest.body), _block(nest))


def _block(nest: Nest) -> int:
    """Threads of the block that an iteration is: those of its grid, or of the largest grid in it; 0 where it is none."""
    return nest.loops[0].attr("threads") or max((inst.attr("threads", 0) for inst in nest.body), default=0)


def wanted_lanes(loop: Inst, body) -> int:
    """What is written, but no less than the widest order; else that, or what the parallel loops inside ask for."""
    wanted = [inst.attr("order")[2] for inst in body if inst.op in ("reduce", "scan")]
    if loop.attr("lanes"):
        return max([loop.attr("lanes"), *wanted])
    return max([1, *wanted, *(_loop_lanes(inst) for inst in body if is_parallel(inst))])


def _loop_lanes(loop: Inst) -> int:
    """A warp, or fewer lanes for a loop with fewer iterations."""
    if loop.attr("lanes"):
        return loop.attr("lanes")
    if all(isinstance(x, Const) for x in loop.operands):
        trips = trip_count(*(x.value for x in (*loop.operands, Const(1))[:3]))
        return min(WARP, 1 << max(0, trips - 1).bit_length())
    return WARP


class _Vectors:
    """How many elements in a row lanes take, in the loops of one kernel; `singles` says why one, by the loop's position in the body (the
    nest around it has -1).
    """

    def __init__(self, kernel: Kernel, nest: Nest, context: Context):
        self.singles: dict[int, Reason | None] = {}
        self.kernel, self.nest, self.context = kernel, nest, context
        self.offsets = Offsets.of(kernel.params)
        for inst in nest.prologue:
            self.offsets.define(inst)

    def of(self, loop: Inst, inside: range, lanes: int, alone: bool = False) -> int:
        """For a loop with its body at these positions of the nest's. Loops are asked about in program order."""
        found = choose(self.offsets, self.nest.body, loop, inside, lanes, alone)
        if found.elements == 1 and not any(a.buffer.space == "fragment" for at in inside for a in accesses(self.nest.body[at])):
            self.singles[inside.start - 1] = found.why or MORE  # of a fragment's elements infer-layouts decides
        if found.elements > 1:
            self.context.applied(f"{found.elements} elements in a row to a lane", self.kernel.name, loop.loc)
        elif found.why or loop.attr("vector"):
            self.context.missed(f"one element at a time: {words(found.why or MORE)}", self.kernel.name, loop.loc)
        return found.elements

    def of_own(self, loop: Inst, inside: range) -> int:
        """The same for a loop that one thread runs."""
        elements = choose_own(self.offsets, self.nest.body, loop, inside)
        if elements > 1:
            self.context.applied(f"{elements} elements in a row at a time", self.kernel.name, loop.loc)
        return elements


def _several(elements: int) -> int | None:
    return elements if elements > 1 else None


def _body(body, group: int, rewriter: Rewriter, vectors: _Vectors, spread_teams: bool, dims: set[str]) -> list[tuple[Inst, int]]:
    """Copies the body with `map`, `layout` and `vector` where they belong; gives each parallel loop with the lanes that share it."""
    regions = Regions.of(body)
    loops = {i for i, inst in enumerate(body) if inst.op in ("loop", "while", "reduce", "scan")}
    how: dict[int, str] = {}
    teams: dict[int, int] = {}
    counted: dict[int, Value] = {}  # position of an `end` -> the index of the loop that it closes
    widths: list[tuple[Inst, int]] = []
    for i, inst in enumerate(body):
        if is_parallel(inst):
            how[i] = _how(regions, i, how, spread_teams)
            lanes = _team(regions, i) if how[i] == "teams" else group
            lanes = next((teams[p] for p in regions.parents(i) if p in teams), lanes)
            if how[i] == "teams":
                teams[i] = lanes
            layout = in_turn(lanes) if how[i] == "lanes" else None
            alone = any(how.get(p) == "lanes" or body[p].op in ("reduce", "scan") for p in regions.parents(i))
            widths.append((inst, 1 if alone else lanes))
            if inst.attr("layout"):
                vector, layout = 1, inst.attr("layout")
                run_as_given(vectors.kernel, inst, [body[p] for p in regions.body(i)], how[i], lanes, vectors.context)
            elif how[i] == "all" or alone or lanes == 1:
                vector = vectors.of_own(inst, regions.body(i))
            else:
                vector = vectors.of(inst, regions.body(i), lanes) if how[i] == "lanes" else 1
            team = lanes if how[i] == "teams" else inst.attr("lanes")
            given = True if inst.attr("layout") else None
            inst = inst.with_attrs(map=how[i], layout=layout, given=given, lanes=team, vector=_several(vector))
            plain = inst.operands[0] == Const(0) and inst.operands[2:] in ((), (Const(1),))
            if how[i] in ("lanes", "teams") and not isinstance(inst.operands[0], Const) or given and not plain:
                counted[regions.end[i]] = _from_0(inst, rewriter, dims)
                continue
        elif inst.op in ("reduce", "scan"):
            inst = inst.with_attrs(layout=str(distribution(Order(*inst.attr("order")))))
        elif inst.op in ("load", "store") and inst.operands[0].space in MEMORY:
            inst = inst.with_attrs(narrow=vectors.singles.get(next((p for p in regions.parents(i) if p in loops), -1)))
        if i in counted:
            rewriter.builder.emit("end", counted[i])
        else:
            rewriter.copy(inst)
    return widths


def _from_0(loop: Inst, rewriter: Rewriter, dims: set[str]) -> Value:
    """Open a loop as one over the numbers of its iterations, which it gives: a start that only the call knows may be so far up that
    lanes would count past the greatest index.
    """
    b = rewriter.builder
    start, _, step = (*map(rewriter, loop.operands), Const(1))[:3]
    number = b.emit("loop", 0, trips(b, loop, rewriter, dims), name=loop.result.name, **dict(loop.attrs))
    digit = number if step == Const(1) else b.emit("mul", number, step)
    rewriter.mapping[loop.result] = b.emit("add", start, digit, name=loop.result.name)
    return number


def _how(regions: Regions, loop: int, outer: dict[int, str], spread_teams: bool) -> str:
    """Inside of elements: 'lanes' (that thread runs it all), and inside a loop over lanes 'all' (of that thread). Else 'all' where it
    writes storage that each lane has its own of; 'teams' or, of a grid, 'all' where lanes work together inside it; 'lanes' for the rest,
    and where a layout says who runs it.
    """
    inside = [regions.insts[i] for i in regions.body(loop)]
    around = [*regions.parents(loop)]
    if any(outer.get(p) == "lanes" or regions.insts[p].op in ("reduce", "scan") for p in around):
        return "all" if any(outer.get(p) == "lanes" for p in around) else "lanes"
    own = {i.result.name for i in inside if isinstance(i.result, Buffer)}
    stored = (a.buffer for i in inside for a in accesses(i) if "w" in a.mode)
    if any(x.space in ("cell", "local") and x.name not in own for x in stored):
        return "all"
    if not regions.insts[loop].attr("layout") and any(i.op in ("reduce", "scan") or is_parallel(i) for i in inside):
        within = any(outer.get(p) == "teams" for p in regions.parents(loop))
        wide = any(i.op in ("reduce", "scan") and i.attr("order")[2] > WARP for i in inside)
        apart = spread_teams and not within and not wide and not regions.insts[loop].attr("threads")  # shared arrays are the block's
        return "teams" if apart else "all"
    return "lanes"


def _team(regions: Regions, loop: int) -> int:
    """Lanes that work together on an iteration of a loop: what is written, else the widest order, else a warp for parallel loops."""
    inside = [regions.insts[i] for i in regions.body(loop)]
    return min(WARP, wanted_lanes(regions.insts[loop], inside))


def _grid(site: Site, nest: Nest, rows: int, columns: Columns | str | None, few: str | None = None) -> Scalar:
    """The number of blocks, computed in the plan from the launch's arguments; none where the number of iterations is not as `few` compares
    it to `FEW`.
    """
    outside = site.outside(nest)
    total = trips(site.b, nest.loops[0], outside, dimensions(site.kernel))
    if isinstance(columns, Columns) and columns.runs is not None:
        extent = outside(columns.runs.extent)
        return site.b.emit("mul", site.b.emit("floordiv", total, extent), site.b.emit("ceildiv", extent, rows))
    blocks = total if rows == 1 else site.b.emit("ceildiv", total, rows)
    return site.b.emit("select", site.b.emit(few, total, FEW), blocks, 0) if few else blocks


MAP_LOOPS = Pass(
    "map-loops", run, "map parallel loops to blocks and lanes", needs=("tile", "one-nest", "fused"), gives=("team",), breaks=("tile",)
)
