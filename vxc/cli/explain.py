"""`vxc explain`: every decision of the compiler, and what the kernel does to memory. No GPU is needed."""

from __future__ import annotations

from dataclasses import replace

import click

from vxc.cli.calls import kernel_calls
from vxc.cli.common import TEXT, Settings, kernel_options, pairs, print_json, read_module
from vxc.cli.compiling import arch, build
from vxc.cli.python_calls import fixed_by_python
from vxc.explain.make import explain
from vxc.explain.model import SCHEMA, Explanation, KernelExplanation
from vxc.explain.text import LEGEND, text
from vxc.frontend.typed import TypedKernel
from vxc.inputs import Call
from vxc.source import Source


@click.command()
@click.argument("file", metavar="FILE.vx")
@click.option("-a", "arguments", metavar="NAME=VALUE", type=TEXT, multiple=True, callback=pairs,
              help="An argument of the one kernel explained, as in `vxc run`; default: as the example line says.")  # fmt: skip
@kernel_options
def command(settings: Settings, file: str, arguments: dict[str, str]) -> None:
    """Say what the compiler decided, line by line, and what it costs.

    Memory accesses are counted by simulated threads, at the sizes of the example or of -a; of a large grid, in some blocks.
    """
    source, module = read_module(file)
    kernels = kernel_calls(module, source, settings, arguments)
    found = tuple(_explained(kernel, source, call, settings) for kernel, call in kernels)
    explanation = Explanation(SCHEMA, source.name, arch(settings), found)
    if settings.json:
        print_json(explanation.as_dict())
        return
    print("\n".join(text(kernel, source, explanation.arch) for kernel in found))
    print(LEGEND)


def _explained(kernel: TypedKernel, source: Source, call: Call | None, settings: Settings) -> KernelExplanation:
    found = explain(build(kernel, settings), call)
    fixed = fixed_by_python(kernel, source, call, settings) if call else ""
    return replace(found, notes=(*found.notes, fixed)) if fixed else found
