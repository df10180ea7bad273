"""From files to compiled kernels, for the commands that compile."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vxc.cli.common import Settings, is_ir, typed_kernels
from vxc.diag import Diagnostic, VxcError, there_are
from vxc.driver import Compiled, compile_ir, compile_typed
from vxc.explain.resources import resources_of
from vxc.frontend.parse import parse
from vxc.frontend.typed import TypedKernel
from vxc.runtime.driver import driver, unavailable
from vxc.source import Source
from vxc.target import DEFAULT_ARCH, for_capability

_PLAN = re.compile(r"^plan @", re.MULTILINE)


def arch(settings: Settings) -> str:
    """What to compile for: --arch, else the device's, else sm_90a."""
    if settings.arch is not None:
        return settings.arch
    return DEFAULT_ARCH if unavailable() else for_capability(driver().capability(0)).name


def build(kernel: TypedKernel, settings: Settings) -> Compiled:
    """A checked kernel, passes run."""
    options = {"debug": settings.debug, "maxrregcount": settings.maxrregcount, "aligned": settings.aligned}
    return compile_typed(kernel, arch(settings), **options)


def build_all(source: Source, settings: Settings, lang: str | None = None) -> list[Compiled]:
    """The chosen kernels of a .vx text, or plans of an IR text."""
    if not is_ir(source, lang):
        return [build(kernel, settings) for kernel in typed_kernels(parse(source), source, settings)]
    name = arch(settings)
    plans = [compile_ir(part, name, debug=settings.debug, maxrregcount=settings.maxrregcount) for part in plan_texts(source)]
    chosen = [c for c in plans if settings.kernel in (None, c.tile.name)]
    if not chosen:
        known = there_are(c.tile.name for c in plans)
        raise VxcError(Diagnostic("E0234", f"{source.name} has no plan `{settings.kernel}`", help=known))
    return chosen


def plan_texts(source: Source) -> Iterator[Source]:
    """A source for each plan of an IR text, its lines where they are in the whole."""
    starts = [match.start() for match in _PLAN.finditer(source.text)]
    for start, end in zip([0, *starts[1:]], [*starts[1:], len(source.text)]):
        yield Source(source.name, "\n" * source.text.count("\n", 0, start) + source.text[start:end])


def resources(compiled: Compiled) -> list[str]:
    """A line on what each kernel of the machine code uses. Raises VxcError (E06xx) where there is no NVRTC."""
    lines = []
    for name, used in resources_of(compiled).items():
        spills = f"{used.spill_bytes} bytes spilled" if used.spill_bytes else "no spills"
        stack = f", {used.stack_bytes} bytes of stack" if used.stack_bytes else ""
        occupied = f"{used.warps_per_multiprocessor} of {used.warp_limit} warps a multiprocessor"
        memory = f"{spills}, {used.shared_bytes} bytes shared{stack}"
        lines.append(f"{name}: {compiled.binary.arch}, {used.registers} registers, {memory}, {occupied}")
    return lines
