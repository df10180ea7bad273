"""What infer-vector-widths says about a kernel."""

from __future__ import annotations

from vxc.analysis.wide_loop import Widths
from vxc.ir.kernel import Kernel
from vxc.pass_manager import Context

_ANYWHERE = {"branch": "as wide as its address allows", "straight": "two and a shift where it is not aligned"}


def say(kernel: Kernel, found: Widths, context: Context) -> None:
    """One remark for each decision and place."""
    insts = kernel.insts
    said = set()

    def once(say, message: str, at: int) -> None:
        if (insts[at].loc, message) not in said:
            said.add((insts[at].loc, message))
            say(message, kernel.name, insts[at].loc)

    for loop in found.loops.values():
        for run in loop.runs:
            for what, places in (("loads", run.loads * run.reads), ("stores", run.stores)):
                if places:
                    size = run.given.elements * run.buffer.dtype.bytes
                    kind = "branch" if what == "stores" else run.given.anywhere
                    how = f", each {_ANYWHERE[kind]}" if run.given.anywhere else ""
                    use = f", each element for {run.each} iterations in a row" if run.each > 1 else ""
                    once(context.applied, f"{size}-byte {what} of `{run.buffer.name}`{use}{how}", places[0])
    for miss in found.missed:
        once(context.missed, f"`{miss.buffer.name}` goes one element at a time: {miss.why}", miss.at)
    for loop in found.loops.values():
        if loop.shift:
            run = loop.shift.run
            start = f"lanes take {loop.count} elements in a row from where `{run.buffer.name}` is at a multiple of "
            once(context.applied, f"{start}{run.given.elements * run.buffer.dtype.bytes} bytes", loop.at)
    larger = [f"{name} is at least {least}" for name, least in found.least.items()]
    if found.loops and larger:
        context.applied(f"wide accesses where {', '.join(larger)}; else one element at a time", kernel.name)
    tests = [f"`{name}` begins at a multiple of {size} bytes" for name, size in found.aligned.items()]
    tests += [f"{name} is a multiple of {by}" for name, by in found.divides.items()]
    if tests:
        context.applied(f"as wide as that where {', '.join(tests)}; else each {_ANYWHERE['branch']}", kernel.name)
