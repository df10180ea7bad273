"""prove-parallel: iterations of parallel loops are independent, and no index certainly leaves its array.

Before: stage=tile, as lowered.
After:  every `loop` of kind parallel has `independent`: "proved", or the reason that it had: the author's, or "tile" for a loop
        over the elements of a tile. Nothing else changes.

    %i = loop 0, %N {kind="parallel"}      ->      %i = loop 0, %N {independent="proved", kind="parallel"}

Two iterations conflict if they touch one element of a buffer that outlives an iteration and are neither both reads nor both
atomic. `copy` and `gemm` count as the loops that define them. A conflict found in a small instance is E0312 with that
instance; where neither a proof nor a conflict is found, E0313 asks for `@independent("reason")`. Distinct parameters are
distinct memory: launching checks that. An index that leaves its array whatever the sizes is E0310.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vxc.analysis.access import Access, KernelFacts, LoopFact, collect, known_dimensions
from vxc.analysis.bounds import out_of_range
from vxc.analysis.concrete import Collision, enumerable, find_collision
from vxc.analysis.dependence import independent
from vxc.diag import Diagnostic, VxcError
from vxc.ir.kernel import Inst, Kernel
from vxc.ir.plan import Plan
from vxc.ir.tiles import TILE, expand
from vxc.pass_manager import Context, Pass
from vxc.passes.prove_parallel_text import Wording, source_name


def run(plan: Plan, context: Context) -> Plan:
    """Raises VxcError with every finding, in order of place."""
    kernels, found = [], []
    for kernel in plan.kernels:
        loops = replace(kernel, insts=expand(kernel.insts, kernel.params))
        facts = collect(loops, known_dimensions(plan, kernel))
        wording = Wording(loops, kernel.source)
        found += [wording.out_of_range(o) for o in out_of_range(facts)]
        found += _conflicts(facts, wording)
        kernels.append(_marked(kernel))
    if found:
        raise VxcError(sorted(dict.fromkeys(found), key=lambda d: (d.span or (0, 0), d.code)))
    for kernel in kernels:
        _remark(kernel, context)
    return plan.with_kernels(kernels)


ENUMERATED = 64  # accesses of one buffer that are worth enumerating

PROVE_PARALLEL = Pass("prove-parallel", run, "show that parallel iterations are independent", needs=("tile",), gives=("independent",))


def _conflicts(facts: KernelFacts, wording: Wording) -> Iterator[Diagnostic]:
    """One finding for each buffer and outermost loop that is not shown to be independent."""
    reported: set[tuple[str, int]] = set()
    for loop, accesses in _shared_accesses(facts):
        name = accesses[0].buffer.name
        if any((name, outer.at) in reported for outer in loop.outer) or independent(facts, loop, accesses):
            continue
        collision, complete = _search(facts, loop, accesses)
        if collision:
            yield wording.collision(facts, loop, collision)
        elif not complete:
            yield wording.unproven(facts, loop, accesses)
        else:
            continue
        reported.add((name, loop.at))


def _search(facts: KernelFacts, loop: LoopFact, accesses: list[Access]) -> tuple[Collision | None, bool]:
    """A collision, or whether enumeration showed that there is none."""
    known = [a for a in accesses if enumerable(facts, a)][:ENUMERATED]
    if not known:
        return None, False
    collision, complete = find_collision(facts, loop, known)
    return collision, complete and len(known) == len(accesses)


def _shared_accesses(facts: KernelFacts) -> Iterator[tuple[LoopFact, list[Access]]]:
    """For each parallel loop without the author's promise, the accesses of each buffer that it writes and that outlives an iteration."""
    promised = {i for i, inst in enumerate(facts.kernel.insts) if inst.attr("independent") not in (None, "proved")}
    groups: dict[tuple[int, str], tuple[LoopFact, list[Access]]] = {}
    for access in facts.accesses:
        for loop in access.loops:
            if loop.parallel and loop.at not in promised and not facts.varies(access.buffer.name, loop):
                groups.setdefault((loop.at, access.buffer.name), (loop, []))[1].append(access)
    for _, (loop, accesses) in sorted(groups.items(), key=lambda item: item[0]):
        if {a.mode for a in accesses} not in ({"read"}, {"atomic"}):
            yield loop, accesses


def _marked(kernel: Kernel) -> Kernel:
    return replace(kernel, insts=tuple(_mark(inst) for inst in kernel.insts))


def _mark(inst: Inst) -> Inst:
    if inst.op == "loop" and inst.attr("kind") == "parallel" and inst.attr("independent") is None:
        return inst.with_attrs(independent="proved")
    return inst


def _remark(kernel: Kernel, context: Context) -> None:
    for inst in _parallel_loops(kernel.insts):
        reason = inst.attr("independent")
        why = "proved" if reason == "proved" else f'on the author\'s word: "{reason}"'
        context.applied(f"iterations over `{source_name(inst.result.name)}` are independent, {why}", kernel.name, inst.loc)


def _parallel_loops(insts: Iterable[Inst]) -> Iterator[Inst]:
    """Those of the author: not over the elements of a tile."""
    return (inst for inst in insts if inst.op == "loop" and inst.attr("kind") == "parallel" and inst.attr("independent") != TILE)
