"""A kernel as several, each for some of its calls: all are launched, but with 0 blocks where a call is another's (part of split-lengths
and bound-rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Buffer, Const, Kernel, Operand, Scalar, Value
from vxc.ir.plan import Plan
from vxc.ir.walk import names
from vxc.record import record

Variant = tuple[Kernel, Scalar]  # a kernel, and how many times its blocks are launched: 1 or 0


@record
class Site:
    """A launch of `kernel` in a plan: what is computed before it goes to `b`, from its arguments by parameter."""

    kernel: Kernel
    b: Builder
    arguments: dict[Value | Buffer, Operand]
    taken: set[str]  # names of kernels

    def name(self, suffix: str) -> str:
        """A name that no kernel of the plan has, from here on taken; without a suffix the kernel's own."""
        name = self.kernel.name
        if suffix:
            name = next(x for n in count() if (x := f"{name}{suffix}{n or ''}") not in self.taken)
            self.taken.add(name)
        return name


def with_variants(plan: Plan, variants: Callable[[Site], Iterator[Variant]]) -> Plan:
    """The plan with what `variants` gives in the place of each kernel, if it gives anything."""
    entries, kernels = Builder(names(plan.params)), []
    rewriter, taken = Rewriter(entries), {k.name for k in plan.kernels}
    for entry in plan.entries:
        if entry.op != "launch":
            rewriter.copy(entry)
            continue
        kernel, b = plan.kernel(entry.attr("kernel")), entries.at(entry.loc)
        wanted, *args = map(rewriter, entry.operands)
        before = len(kernels)
        for variant, blocks in variants(Site(kernel, b, dict(zip(kernel.params, args)), taken)):
            kernels.append(variant)
            b.emit("launch", blocks if wanted == Const(1) else b.emit("mul", wanted, blocks), *args, kernel=variant.name)
        if len(kernels) == before:
            kernels.append(kernel)
            rewriter.copy(entry)
    return replace(plan, entries=tuple(entries.insts), kernels=tuple(kernels))
