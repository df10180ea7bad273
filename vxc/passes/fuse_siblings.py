"""fuse-siblings: neighbouring parallel loops over the same domain become one.

Before: stage=tile; parallel loops stand one after another as written.
After:  neighbouring nests of parallel loops are one where the rule of `analysis/siblings.py` allows it: each iteration then does what it
        did in the first nest, then what it did in the second. Between them stand only instructions that may as well come before both.
        At the top level that saves a launch, and what the first stores the second has at hand. A remark at the second loop says so, or
        why not.

    %i = loop 0, %N {.., kind="parallel"}            %i = loop 0, %N {.., kind="parallel"}
      store @v, %i, %0                                 store @v, %i, %0
    end %i                                             %1: f32 = load @v, %i
    %j = loop 0, %N {.., kind="parallel"}     ->       store @w, %i, %1
      %1: f32 = load @v, %j                          end %i
      store @w, %j, %1
    end %j

Nests stay apart, too, where they ask for other attributes (`@lanes`, `@threads` ..), where their bodies would be run by different numbers
of lanes, where one holds whole-tile instructions (through which lanes hand elements over), and where both print.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vxc.analysis.access import KernelFacts, collect, known_dimensions
from vxc.analysis.siblings import Met, Nest, meetings, nest_of
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Kernel
from vxc.ir.ops import DECLARES, OPS, accesses
from vxc.ir.plan import Plan
from vxc.ir.tiles import TILE_OPS
from vxc.ir.walk import Regions, names
from vxc.pass_manager import Context, Pass
from vxc.passes.map_loops import wanted_lanes
from vxc.passes.nest import is_parallel, perfect_nest
from vxc.passes.prove_parallel_text import source_name
from vxc.record import record

PROVED = "proved"


@record
class _Sibling:
    """A nest at one level: its loops, the pure instructions between them, where its innermost body begins."""

    loops: tuple[int, ...]
    hoisted: tuple[int, ...]
    body: int


def run(plan: Plan, context: Context) -> Plan:
    shares = plan.shares_arguments
    return plan.with_kernels([_fused(plan, kernel, kernel.name in shares, context) for kernel in plan.kernels])


def _fused(plan: Plan, kernel: Kernel, may_alias: bool, context: Context) -> Kernel:
    """Level by level from the outside, since loops inside become neighbours when those around them do."""
    while True:
        regions = Regions.of(kernel.insts)
        levels = list(_levels(kernel, regions))
        if not levels:
            return kernel
        fusion = _Fusion(kernel, regions, collect(kernel, known_dimensions(plan, kernel)), may_alias)
        groups = [group for level in levels for group in fusion.groups(level) if len(group) > 1]
        if not groups:
            for text, loc in fusion.refused:
                context.missed(text, kernel.name, loc)
            return kernel
        groups = groups[:1] if _nested(regions, groups) else groups
        for earlier, sibling in ((a, b) for group in groups for a, b in zip(group, group[1:])):
            both = f"parallel {fusion.names(sibling)} and parallel {fusion.names(earlier)}{fusion.line(earlier.loops[0])}"
            context.applied(f"{both} before it are one loop", kernel.name, kernel.insts[sibling.loops[0]].loc)
        kernel = replace(kernel, insts=_joined(kernel, regions, groups))


def _levels(kernel: Kernel, regions: Regions) -> Iterator[list[int]]:
    """Positions at each level where several parallel loops stand, outer levels first."""
    bodies = [range(len(kernel.insts)), *(regions.body(i) for i, inst in enumerate(kernel.insts) if OPS[inst.op].opens)]
    bodies += [range(i + 1, regions.end[i]) for i, inst in enumerate(kernel.insts) if inst.op == "else"]
    for body in bodies:
        level = list(regions.level(body))
        if sum(is_parallel(kernel.insts[i]) for i in level) > 1:
            yield level


class _Fusion:
    """Decides about the nests of one kernel; `refused` says why nests stay apart, and where."""

    def __init__(self, kernel: Kernel, regions: Regions, facts: KernelFacts, may_alias: bool):
        self.insts, self.regions, self.facts, self.may_alias = kernel.insts, regions, facts, may_alias
        self.refused: list[tuple[str, tuple[int, int] | None]] = []

    def groups(self, level: list[int]) -> Iterator[list[_Sibling]]:
        """The nests of a level, those that become one together."""
        group: list[_Sibling] = []
        nests: list[Nest] = []
        between: list[int] = []
        for at in level:
            if not is_parallel(self.insts[at]):
                between.append(at)
                continue
            loops, hoisted, body = perfect_nest(self.insts, self.regions, at)
            sibling = _Sibling(tuple(loops), tuple(hoisted), body)
            if group:
                nest = nest_of(self.facts, loops, group[0].loops)
                why = self.refusal(group, nests, sibling, nest, between)
                if why is None:
                    group.append(sibling)
                    nests.append(nest)
                    continue
                text = f"parallel {self.names(sibling)} stays apart from parallel {self.names(group[-1])}"
                self.refused.append((f"{text}{self.line(group[-1].loops[0])} before it: {why}", self.insts[at].loc))
                yield group
            group, nests, between = [sibling], [nest_of(self.facts, loops, loops)], []
        yield group

    def refusal(self, group: list[_Sibling], nests: list[Nest], sibling: _Sibling, nest: Nest | None, between: list[int]) -> str | None:
        """Why a nest does not join a group of nests, or None. What stands between is counted from the first of the group on."""
        first = group[0]
        written = {a.buffer.name for n in nests for a in n.accesses if a.mode != "read"}
        for at in between:
            inst = self.insts[at]
            if not (OPS[inst.op].pure or inst.op in DECLARES or inst.op == "load" and inst.operands[0].name not in written):
                return f"{self.called(inst)} stands between"
        bodies = [self.insts[s.body : self.regions.end[s.loops[-1]]] for s in (first, sibling)]
        if any(inst.op in TILE_OPS for body in bodies for inst in body):
            return "in whole-tile instructions lanes hand elements over to one another"
        if all(any(inst.op == "print" for inst in body) for body in bodies):
            return "both print"
        attributes = self.other_attributes(first, sibling)
        if attributes:
            return attributes
        if nest is None:
            return "they run over different extents"
        lanes = [wanted_lanes(self.insts[s.loops[0]], body) for s, body in zip((first, sibling), bodies)]
        if lanes[0] != lanes[1]:
            return f"an iteration of the one is run by {lanes[0]} lane{'s' * (lanes[0] > 1)}, of the other by {lanes[1]}"
        if self.may_alias and any(a.mode != "read" for n in (*nests, nest) for a in n.accesses):
            return "two parameters of the kernel may be the same array"
        return next((self.meeting(met) for earlier in nests for met in meetings(earlier, nest)), None)

    def other_attributes(self, first: _Sibling, second: _Sibling) -> str | None:
        for a, b in zip(first.loops, second.loops):
            mine, theirs = (dict(self.insts[i].attrs) for i in (a, b))
            for name in sorted((mine.keys() | theirs.keys()) - {"independent"}):
                if mine.get(name) != theirs.get(name):
                    given = (f"@{name}({x[name]})" if name in x else f"no @{name}" for x in (mine, theirs))
                    return "the one has {}, the other {}".format(*given)
        return None

    def meeting(self, met: Met) -> str:
        """What keeps two accesses from being of the same point, in words."""
        x, y = met.first, met.second
        name, line = source_name(y.buffer.name), self.line(y.at)
        if "atomic" in (x.mode, y.mode):
            return f"`{name}` is updated atomically, in the one or the other: its order{line} is left free"
        if y.buffer.space in ("shared", "fragment"):
            other = f"what is {_DONE[y.mode]}{line} was {_DONE[x.mode]} by another iteration"
            return f"lanes hand elements of `{name}` over to one another: {other}"
        gathered = next((_GATHERS[loop.kind] for loop in y.loops if loop.kind in _GATHERS), None)
        if gathered and x.mode == "write":
            return f"the {gathered}{line} over `{name}` needs what other iterations write"
        how = "with its indices exchanged" if met.exchanged else "at another point"
        return f"`{name}` is {_DONE[x.mode]} by the first and {_DONE[y.mode]} by the second{line} {how}"

    def line(self, at: int) -> str:
        loc = self.insts[at].loc
        return f" (line {loc[0]})" if loc else ""

    def called(self, inst: Inst) -> str:
        line = f" (line {inst.loc[0]})" if inst.loc else ""
        found = accesses(inst)
        return f"{inst.op} of `{source_name(found[0].buffer.name)}`{line}" if found else f"`{inst.attr('kind') or inst.op}`{line}"

    def names(self, sibling: _Sibling) -> str:
        return ", ".join(source_name(self.insts[i].result.name) for i in sibling.loops)


_DONE = {"read": "read", "write": "written", "atomic": "updated"}
_GATHERS = {"reduce": "reduction", "scan": "scan"}


def _nested(regions: Regions, groups: list[list[_Sibling]]) -> bool:
    """Whether some group stands inside the nests of another."""
    spans = [(s.loops[0], regions.end[s.loops[0]]) for group in groups for s in group]
    return any(a < c < b for a, b in spans for c, _ in spans)


def _joined(kernel: Kernel, regions: Regions, groups: list[list[_Sibling]]) -> tuple[Inst, ...]:
    """The instructions with each group of nests, none inside another, as one."""
    insts = kernel.insts
    b = Builder(names(kernel.params, insts))
    starts = {group[0].loops[0]: group for group in groups}
    at = 0
    while at < len(insts):
        group = starts.get(at)
        if group is None:
            b.add(insts[at])
            at += 1
            continue
        last = regions.end[group[-1].loops[0]]
        within = {i for s in group for i in range(s.loops[0], regions.end[s.loops[0]] + 1)}
        for i in [*(i for i in range(at, last + 1) if i not in within), *(i for s in group for i in s.hoisted)]:
            b.add(insts[i])
        for n, loop in enumerate(group[0].loops):
            b.add(insts[loop].with_attrs(independent=_why([insts[s.loops[n]] for s in group])))
        for s in group:
            _body(b, insts, s, group[0], regions)
        for loop in reversed(group[0].loops):
            b.add(insts[regions.end[loop]])
        at = last + 1
    return tuple(b.insts)


def _why(loops: list[Inst]) -> str | None:
    """Why iterations of several loops together are independent: every reason that is an author's, else the first."""
    reasons = list(dict.fromkeys(loop.attr("independent") for loop in loops))
    return "; ".join(r for r in reasons if r not in (None, PROVED)) or reasons[0]


def _body(b: Builder, insts, sibling: _Sibling, first: _Sibling, regions: Regions) -> None:
    """Append the body of a nest under the indices of the first of its group."""
    rewriter = Rewriter(b)
    for mine, other in zip(sibling.loops, first.loops):
        if mine == other:
            continue
        loop, onto = insts[mine], insts[other]
        b.at(loop.loc)
        starts = [x.value for x in (loop.operands[0], onto.operands[0]) if isinstance(x, Const)]
        shift = starts[0] - starts[1] if len(starts) == 2 else 0
        rewriter.mapping[loop.result] = b.emit("add", onto.result, shift, name=loop.result.name) if shift else onto.result
    for i in range(sibling.body, regions.end[sibling.loops[-1]]):
        b.at(insts[i].loc)
        b.add(insts[i].over(map(rewriter, insts[i].operands), insts[i].result))


FUSE_SIBLINGS = Pass("fuse-siblings", run, "one loop for neighbouring parallel loops over the same domain", needs=("tile", "independent"))
