"""The explanation as text: for each launch what it takes, then the lines of the source, each with what was decided and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vxc.diag import count
from vxc.explain.model import Access, Decision, KernelExplanation, Launch, Layout, Loop, Roofline
from vxc.layout.layout import parse, program_text
from vxc.source import Source
from vxc.target import WARP

LEGEND = """\
A warp is 32 threads that run together; a request is one memory instruction of a warp. A sector is 32 bytes, the least that global
memory moves; bytes moved are those of all sectors of all requests, before caches. A bank conflict makes a request to shared memory
take several turns. Occupancy is how many warps a multiprocessor can hold at once. \"At best\" is the time that the least bytes and
the operations would take at the card's peak rates, whichever is more."""
LEAST = 0.001  # microseconds that are worth telling apart


def text(explanation: KernelExplanation, source: Source, arch: str) -> str:
    """Lines of at most about 140 characters, with a final newline."""
    arrays = ", ".join(f"{name} {what}" for name, what in explanation.arrays.items())
    lines = [f"{explanation.name} ({source.name}, {arch})" + (f": {arrays}" if arrays else "")]
    for launch in explanation.launches:
        lines += ["", *_launch(launch)]
    lines += ["", *_source_lines(explanation, source)]
    lines += [f"note: {note}" for note in explanation.notes]
    return "\n".join(lines) + "\n"


# ---- a launch --------------------------------------------------------------------------------------------------------


def _launch(x: Launch) -> Iterator[str]:
    blocks = f"{_count(x.grid, 'block')} of" if x.grid is not None else "blocks of"
    yield f"  {x.kernel}: {blocks} {_count(x.threads, 'thread')}{', not launched in this call' * (x.grid == 0)}"
    for title, words in (("registers", _registers(x)), ("occupancy", _occupancy(x)), *_measured(x)):
        if words:
            yield f"    {title:<11} {words}"


def _registers(x: Launch) -> str:
    used = x.resources
    if used is None:
        return ""
    spilled = f"{used.spill_bytes} bytes spilled to memory" if used.spill_bytes else "nothing spilled"
    stack = f", {used.stack_bytes:,} bytes of stack" if used.stack_bytes else ""
    registers = f"{used.registers} a thread (at most {used.register_limit})"
    return f"{registers}, {spilled}{stack}; {used.shared_bytes:,} bytes of shared memory a block"


def _occupancy(x: Launch) -> str:
    used = x.resources
    if used is None:
        return ""
    blocks, warps = _count(used.blocks_per_multiprocessor, "block"), f"{used.warps_per_multiprocessor} of {used.warp_limit} warps"
    limit = "shared memory is" if used.limited_by == "shared" else f"{used.limited_by} are"
    held = f"{blocks}, {warps}, on a multiprocessor at once; {limit} the limit"
    if not x.waves:
        return held
    grid = f"fills {100 * x.waves:.2g} %" if x.waves <= 1 else f"takes {x.waves:.3g} rounds"
    return f"{held}; the grid {grid} of {x.multiprocessors}"


def _times(roof: Roofline) -> tuple[float, float]:
    return roof.memory_microseconds, roof.arithmetic_microseconds


def _measured(x: Launch) -> Iterator[tuple[str, str]]:
    done, moved = x.execution, x.traffic
    if done is None or moved is None:
        return
    times = f": {moved.moved_bytes / moved.minimum_bytes:.2f} times" if moved.minimum_bytes else ""
    yield "memory", f"{moved.moved_bytes:,} bytes moved, {moved.minimum_bytes:,} at least (each sector once){times}"
    each = f", {moved.operations_per_byte:g} for each of the least bytes" if moved.operations and moved.operations_per_byte else ""
    yield "arithmetic", f"{_count(moved.operations, 'operation')} on floats{each}"
    if moved.roofline:
        roof = moved.roofline
        limit = "memory-bound" if roof.bound == "memory" else "compute-bound"
        memory, arithmetic = (f"{n:.3g} us" if n >= LEAST else f"less than {LEAST} us" for n in _times(roof))
        times = f"{memory} for memory, {arithmetic} for arithmetic"
        yield "at best", f"{times} on {roof.device}: {limit}"
    lanes = f"{done.active_lanes:g} of {WARP} threads active in each"
    parts = f"{_count(done.divergent_branches, 'branch', 'branches')} on which the threads of a warp part"
    yield "execution", f"{_count(done.warp_instructions, 'warp instruction')}, {lanes}; {parts}, {_count(done.barriers, 'barrier')}"


# ---- lines of the source ---------------------------------------------------------------------------------------------


def _source_lines(explanation: KernelExplanation, source: Source) -> Iterator[str]:
    said: dict[int, list[str]] = {}
    several = len(explanation.launches) > 1
    for launch in (x for x in explanation.launches if x.grid != 0 or not any(y.grid for y in explanation.launches)):
        own = f"{launch.kernel}: " if several else ""
        tiles = ((x, _layout(x)) for x in launch.layouts if x.kind == "fragment")
        for part, words in [*((x, _loop(x)) for x in launch.loops), *tiles, *_accesses(launch.accesses)]:
            said.setdefault(part.line or 0, []).append(own + words)
    for remark in explanation.remarks:
        own = f"{remark.kernel}: " if several else ""
        said.setdefault(remark.line or 0, []).append(own + _remark(remark))
    width = len(str(max(said, default=0)))
    for number in sorted(said, key=lambda n: (n == 0, n)):
        shown = source.line(number) if 0 < number <= len(source.line_starts) else "(the whole kernel)"
        yield f"  {str(number or '').rjust(width)} | {shown.expandtabs(4)}"
        yield from (f"  {' ' * width} |     - {words}" for words in dict.fromkeys(said[number]))


def _remark(remark: Decision) -> str:
    missed = "not done, " if remark.kind == "missed" else ""
    voided = f" ({remark.superseded_by} has changed that)" if remark.superseded_by else ""
    return f"{missed}{remark.pass_name}: {remark.message}{voided}"


def _loop(loop: Loop) -> str:
    nest = (loop.index, *(x.index for x in loop.fused_with if x.how == "nest"))
    index = f" over {', '.join(nest)}" if loop.index else ""
    who = {
        "blocks": f"{_lanes(loop.lanes)} each iteration",
        "lanes": f"{loop.lanes} threads share its iterations" if loop.lanes > 1 else "one thread takes all its iterations",
        "teams": f"teams of {count(loop.lanes, 'thread')} take its iterations in turn",
        "all": "all threads of an iteration go through it together",
        "thread": "one thread goes through it alone",
    }[loop.thread_map]
    unrolled = f", unrolled {loop.unroll} times" if loop.unroll > 1 else ""
    taken: dict[int | None, list[str]] = {}
    for x in loop.fused_with:
        if x.how == "sibling":
            taken.setdefault(x.line, []).append(x.index)
    others = " and ".join(f"the one over {', '.join(names)} on line {line}" for line, names in taken.items())
    return f"{loop.kind}{index}: {who}{unrolled}{f'; {others} is part of it' * bool(taken)}"


def _layout(x: Layout) -> str:
    """Where the elements of a tile are; how many there are, remarks say."""
    layout = parse(x.layout or "")
    index = ", ".join(map(str, layout.dims))
    counted = ", counted in memory order," if len(layout.dims) < len(x.shape or ()) else ""
    thread, slot = map(program_text, (layout.thread, layout.slot))
    return f"element [{index}] of {x.buffer}{counted} is number {slot} of thread {thread}"


def _lanes(count: int) -> str:
    return "one thread runs" if count == 1 else f"{count} threads run"


def _accesses(accesses: Iterable[Access]) -> Iterator[tuple[Access, str]]:
    """Those that run, each; then the others, of one line and one reason together."""
    others: dict[tuple, list[Access]] = {}
    for x in accesses:
        if x.requests != 0:
            yield x, _access(x)
        else:
            others.setdefault((x.line, x.why_not_wider), []).append(x)
    for (_, why), group in others.items():
        what = ", ".join(dict.fromkeys(f"{x.kind} {x.buffer} by {_count(x.bytes_per_access, 'byte')}" for x in group))
        yield group[0], f"not in this call: {what}{_why(why)}"


def _why(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _access(access: Access) -> str:
    size = f"{_count(access.bytes_per_access, 'byte')} a thread at a time{_why(access.why_not_wider)}"
    words = f"{access.kind} {access.buffer}, {access.space} memory: {size}"
    if access.requests is None:
        return words
    if access.same_element is not None:
        words += f"; {access.same_element:g} thread{'s' * (access.same_element != 1)} of a request at one element, one after another"
    if access.space == "shared":
        turns = access.bank_conflicts or 1
        return f"{words}; " + ("no bank conflicts" if turns == 1 else f"bank conflicts: {turns:g} turns instead of 1")
    got, ideal = access.sectors_per_request, access.ideal_sectors_per_request
    least = "the least" if got == ideal else f"{ideal:g} would do"
    return f"{words}; {got:g} sector{'s' * (got != 1)} a request, {least}; {access.moved_bytes:,} bytes moved"


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
