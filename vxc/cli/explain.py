"""`vxc explain`: every decision of the compiler, and what the kernel does to memory. No GPU is needed."""

from __future__ import annotations

from dataclasses import replace

import click

from vxc.cli.calls import Called, dynamic_option, kernel_calls
from vxc.cli.common import TEXT, Settings, kernel_options, pairs, print_json, read_module
from vxc.cli.compiling import arch
from vxc.explain.make import explain
from vxc.explain.model import SCHEMA, Explanation, KernelExplanation
from vxc.explain.text import LEGEND, text


@click.command()
@click.argument("file", metavar="FILE.vx")
@click.option("-a", "arguments", metavar="NAME=VALUE", type=TEXT, multiple=True, callback=pairs,
              help="An argument of the one kernel explained, as in `vxc run`; default: as the example line says.")  # fmt: skip
@dynamic_option
@kernel_options
def command(settings: Settings, file: str, arguments: dict[str, str], dynamic: bool) -> None:
    """Say what the compiler decided, line by line, and what it costs.

    Memory accesses are counted by simulated threads, at the sizes of the example or of -a, or of -D where only floats are taken; of a
    large grid, in some blocks.
    """
    source, module = read_module(file)
    calls = kernel_calls(module, source, settings, arguments, 0, dynamic)
    found = tuple(map(_explained, calls))
    explanation = Explanation(SCHEMA, source.name, arch(settings), found)
    if settings.json:
        print_json(explanation.as_dict())
        return
    print("\n".join(text(kernel, given.kernel.source, explanation.arch) for kernel, given in zip(found, calls)))
    print(LEGEND)


def _explained(given: Called) -> KernelExplanation:
    found = explain(given.compiled(), given.call)
    return replace(found, notes=(*found.notes, *given.notes))
