"""What became of each loop of a kernel: who runs it, what it was fused with, how far it is unrolled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vxc.driver import Compiled
from vxc.explain.model import Fused, Loop
from vxc.ir.kernel import Inst, Kernel
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions
from vxc.passes.limit_unrolling import trips
from vxc.passes.nest import is_parallel, perfect_nest
from vxc.passes.prove_parallel_text import source_name

Place = tuple[str, tuple[int, int] | None]  # the name of a loop's index in the source, where the loop is


def loops_of(compiled: Compiled, name: str) -> tuple[Loop, ...]:
    """The loops of one kernel of the final plan, in program order, as they are once map-loops has decided who runs them."""
    team = compiled.after("map-loops").kernel(name)
    siblings = _siblings(compiled.after("simplify"), compiled.after("fuse-siblings"))
    fused = _nests(compiled.after("tile-transposes"), siblings)
    unrolled = _unrolled(compiled.plan.kernel(name))
    regions = Regions.of(team.insts)
    places = [at for at, inst in enumerate(team.insts) if inst.op in ("loop", "reduce", "scan", "while")]
    return tuple(_loop(team, regions, at, fused, unrolled) for at in places)


def _loop(kernel: Kernel, regions: Regions, at: int, fused: dict[Place, tuple[Fused, ...]], unrolled: dict) -> Loop:
    inst = kernel.insts[at]
    index = inst.result.name if inst.op == "loop" else ""  # a reduction or scan is of a row: its index is not the author's
    thread_map, lanes = _who(kernel, regions, at)
    return Loop(
        index=source_name(index),
        line=inst.loc[0] if inst.loc else None,
        kind=inst.attr("kind") or (inst.attr("op") if inst.op == "reduce" else inst.op),
        thread_map=thread_map,
        lanes=lanes,
        fused_with=fused.get((source_name(index), inst.loc), ()),
        unroll=unrolled.get(inst.loc, 1),
    )


def _who(kernel: Kernel, regions: Regions, at: int) -> tuple[str, int]:
    """How the iterations are spread, and over how many lanes: for blocks those that run one iteration together."""
    inst, around = kernel.insts[at], [kernel.insts[p] for p in regions.parents(at)]
    team = next((p.attr("lanes") for p in around if p.attr("map") == "teams"), kernel.attr("group", 1))
    if any(p.attr("map") == "lanes" or p.op in ("reduce", "scan") for p in around):
        return "thread", 1
    if inst.op in ("reduce", "scan"):
        lanes = min(inst.attr("order")[2], team)
        return ("lanes", lanes) if lanes > 1 else ("all" if team > 1 else "thread", 1)
    how = inst.attr("map") or ("all" if team > 1 else "thread")
    return how, {"blocks": team, "lanes": team, "teams": inst.attr("lanes")}.get(how, 1)


def _nests(plan: Plan, siblings: dict[Place, tuple[Fused, ...]]) -> dict[Place, tuple[Fused, ...]]:
    """For the outermost loop of each nest that fuse-loops makes one, the others, then those that all of them have taken in."""
    found: dict[Place, tuple[Fused, ...]] = {}
    for insts in (kernel.insts for kernel in plan.kernels):
        regions = Regions.of(insts)
        for at, inst in enumerate(insts):
            if is_parallel(inst):
                nest, _, _ = perfect_nest(insts, regions, at)
                taken = (x for i in nest for x in siblings.get(_place(insts[i]), ()))
                found[_place(inst)] = (*(_as(insts[i], "nest") for i in nest[1:]), *taken)
    return found


def _siblings(before: Plan, after: Plan) -> dict[Place, tuple[Fused, ...]]:
    """For each parallel loop after fuse-siblings, those that it took in: what stood in them stands in it."""
    found: dict[Place, dict[Fused, None]] = {}
    for old in before.kernels:
        homes = dict(_inside(after.kernel(old.name)))
        for key, loops in _inside(old):
            for was, now in zip(loops, homes.get(key, ())):
                if _place(was) != _place(now):
                    found.setdefault(_place(now), {})[_as(was, "sibling")] = None
    return {place: tuple(others) for place, others in found.items()}


def _inside(kernel: Kernel) -> Iterator[tuple[tuple, list[Inst]]]:
    """Each effect, by opcode, place and how many there were of those, with the parallel loops around it from the outermost on."""
    regions, seen = Regions.of(kernel.insts), Counter[tuple]()
    for at, inst in enumerate(kernel.insts):
        if inst.op in ("store", "atomic", "reduce", "scan", "print"):
            key = inst.op, inst.loc
            seen[key] += 1
            around = (kernel.insts[p] for p in regions.parents(at))
            yield (*key, seen[key]), [inst for inst in around if is_parallel(inst)][::-1]


def _place(loop: Inst) -> Place:
    return source_name(loop.result.name), loop.loc


def _as(loop: Inst, how: str) -> Fused:
    return Fused(source_name(loop.result.name), loop.loc[0] if loop.loc else None, how)


def _unrolled(kernel: Kernel) -> dict[tuple[int, int] | None, int]:
    """By place, the most copies that a loop there is unrolled to."""
    found: dict[tuple[int, int] | None, int] = {}
    for inst in kernel.insts:
        if inst.op == "loop":
            copies = trips(inst) if inst.attr("kind") == "unroll" else inst.attr("unroll")
            found[inst.loc] = max(copies or 1, found.get(inst.loc, 1))
    return found
