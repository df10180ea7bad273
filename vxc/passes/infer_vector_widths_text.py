"""What infer-vector-widths says about a kernel."""

from __future__ import annotations

from vxc.analysis.wide_loop import Widths
from vxc.analysis.wrapping import NEAR
from vxc.ir.kernel import Kernel
from vxc.ir.narrow import words
from vxc.pass_manager import Context
from vxc.passes.prove_parallel_text import source_name
from vxc.passes.why_narrow import tests

_ANYWHERE = {"branch": "as wide as its address allows", "straight": "two and a shift where it is not aligned"}


def width_of(what: str, name: str, size: int) -> tuple[str, tuple[str, ...]]:
    """What is said of a `load` or `store` of so many bytes, and what that is about."""
    return f"{size}-byte {what}s of `{source_name(name)}`", ("width", what, name)


def say(kernel: Kernel, found: Widths, context: Context) -> None:
    """One remark for each decision and place."""
    insts = kernel.insts
    said = set()

    def once(say, message: str, at: int, **more) -> None:
        if (insts[at].loc, message) not in said:
            said.add((insts[at].loc, message))
            say(message, kernel.name, insts[at].loc, **more)

    for loop in found.loops.values():
        for run in loop.runs:
            for what, places in (("load", run.loads * run.reads), ("store", run.stores)):
                if places:
                    size = run.given.elements * run.buffer.dtype.bytes
                    kind = "branch" if what == "store" else run.given.anywhere
                    how = f", each {_ANYWHERE[kind]}" if run.given.anywhere else ""
                    use = f", each element for {run.each} iterations in a row" if run.each > 1 else ""
                    message, about = width_of(what, run.buffer.name, size)
                    once(context.applied, message + use + how, places[0], about=about)
    for miss in found.missed:
        once(context.missed, f"`{source_name(miss.buffer.name)}` goes one element at a time: {words(miss.why)}", miss.places[0])
    for loop in found.loops.values():
        if loop.shift:
            run = loop.shift.run
            start = f"lanes take {loop.count} elements in a row from where `{run.buffer.name}` is at a multiple of "
            once(context.applied, f"{start}{run.given.elements * run.buffer.dtype.bytes} bytes", loop.at)
    some = [f"{name} is at least 1" for name in found.least]
    some += [f"{name} is no further than 2**{NEAR.bit_length() - 1} from 0" for name in found.near]
    enough = [f"{name} is at least {least}" for name, least in found.least.items() if least > 1]
    within = any(run.within for loop in found.loops.values() for run in loop.runs)
    for what, sizes in (("wide accesses", some), ("wide loads of what each row has anew", enough if within else [])):
        if found.loops and sizes:
            context.applied(f"{what} where {', '.join(sizes)}; else one element at a time", kernel.name)
    tested = tests(found)
    if tested:
        context.applied(f"as wide as that where {', '.join(tested)}; else {_otherwise(found)}", kernel.name)


def _otherwise(found: Widths) -> str:
    """How the accesses of loops go where the tests fail; of what is dealt out, nothing is tested."""
    plain = [loop for loop in found.loops.values() if not loop.dealt]
    anywhere = [loop.otherwise is not None and run.otherwise.anywhere is not None for loop in plain for run in loop.runs]
    ways = [f"each {_ANYWHERE['branch']}"] * any(anywhere) + ["one element at a time"] * (not all(anywhere))
    return " or ".join(ways)
