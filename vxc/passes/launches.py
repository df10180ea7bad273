"""The launches of a plan, one after another, each to become launches of other kernels (part of the passes that split or map kernels)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from vxc.diag import Diagnostic, VxcError
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Scalar, Value
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan
from vxc.ir.walk import names
from vxc.passes.nest import Nest
from vxc.record import record

Launched = tuple[Kernel, Scalar]  # a kernel, and how many times the blocks that the launch had; 0: none
ONCE = Const(1)


@record
class Site:
    """A launch of `kernel` in a plan: what is computed before it goes to `b`; what it passes, by parameter. A kernel in its place may have
    other parameters once `arguments` has what is passed for them.
    """

    kernel: Kernel
    b: Builder
    arguments: dict[Value | Buffer, Operand]
    taken: set[str]  # names of kernels

    def name(self, suffix: str, first: int = 0) -> str:
        """A name that no kernel of the plan has, from here on taken: the kernel's own, the suffix and the first number that makes it new,
        where 0 is not written. Without a suffix the kernel's own.
        """
        name = self.kernel.name
        if suffix:
            name = next(x for n in count(first) if (x := f"{name}{suffix}{n or ''}") not in self.taken)
            self.taken.add(name)
        return name

    def outside(self, nest: Nest) -> Rewriter:
        """What the plan has for the bounds of the loops of the kernel, whose nest this is; what the prologue computes of them is computed
        there. Raises `VxcError` E0403 where one is read from device memory.
        """
        needed = {x for loop in nest.loops for x in loop.operands if isinstance(x, Value)}
        for inst in reversed(nest.prologue):
            if inst.result in needed:
                needed.update(x for x in inst.operands if isinstance(x, Value))
        made = [inst for inst in nest.prologue if inst.result in needed]
        if not all(OPS[inst.op].pure for inst in made):
            raise VxcError(_device_bound(self.kernel, nest.loops[0]))
        rewriter = Rewriter(self.b, dict(self.arguments))
        rewriter.copy_all(made)
        return rewriter

    def workspace(self, buffer: Buffer) -> None:
        """Declare what a workspace parameter stands for, its extents being those that the launch passes."""
        shape = [self.arguments.get(x, x) for x in buffer.shape]
        self.arguments[buffer] = self.b.declare("workspace", buffer.name, buffer.dtype, shape)


def _device_bound(kernel: Kernel, loop: Inst) -> Diagnostic:
    return Diagnostic(
        "E0403",
        "the number of iterations of a top-level `parallel` loop is read from device memory",
        kernel.source,
        kernel.span(loop),
        help="pass the bound as a scalar parameter, or loop over the whole dimension and test the index with `if`",
    )


def each_launch(plan: Plan, of: Callable[[Site], Iterator[Launched]]) -> Plan:
    """The plan with what `of` gives in the place of each launch."""
    entries, kernels = Builder(names(plan.params)), []
    rewriter, taken = Rewriter(entries), {k.name for k in plan.kernels}
    for entry in plan.entries:
        if entry.op != "launch":
            rewriter.copy(entry)
            continue
        kernel, b = plan.kernel(entry.attr("kernel")), entries.at(entry.loc)
        blocks, *passed = map(rewriter, entry.operands)
        site = Site(kernel, b, dict(zip(kernel.params, passed)), taken)
        for made, times in of(site):
            kernels.append(made)
            grid = times if blocks == ONCE else blocks if times == ONCE else b.emit("mul", blocks, times)
            b.emit("launch", grid, *(site.arguments[p] for p in made.params), kernel=made.name)
    return replace(plan, entries=tuple(entries.insts), kernels=tuple(kernels))


def some_launches(plan: Plan, of: Callable[[Site], Iterator[Launched]]) -> Plan:
    """The same, with launches for which `of` gives nothing as they were."""

    def all_of(site: Site) -> Iterator[Launched]:
        found = of(site)
        first = next(found, None)
        yield first or (site.kernel, ONCE)
        yield from found

    return each_launch(plan, all_of)
