"""`vxc explain`: every decision of the compiler, and what the kernel does to memory. No GPU is needed."""

from __future__ import annotations

import click

from vxc.cli.common import TEXT, Settings, chosen, kernel_options, pairs, print_json, read_module, typed_kernels
from vxc.cli.compiling import arch, build
from vxc.explain.make import explain
from vxc.explain.model import SCHEMA, Explanation
from vxc.explain.text import LEGEND, text
from vxc.frontend.check import check
from vxc.frontend.syntax import Module
from vxc.frontend.typed import Array, TypedKernel
from vxc.inputs import Call, complete, generics_of, read_arguments
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
    kernels = _kernels(module, source, settings, arguments)
    found = tuple(explain(build(kernel, settings), call) for kernel, call in kernels)
    explanation = Explanation(SCHEMA, source.name, arch(settings), found)
    if settings.json:
        print_json(explanation.as_dict())
        return
    print("\n".join(text(kernel, source, explanation.arch) for kernel in found))
    print(LEGEND)


def _kernels(module: Module, source: Source, settings: Settings, arguments: dict[str, str]) -> list[tuple[TypedKernel, Call | None]]:
    """The kernels to explain and the call of each, None where nothing gives it sizes."""
    if arguments:
        item = chosen(module, source, settings.kernel)
        values = read_arguments(arguments, item, settings.defines, 0)
        defines = {**generics_of(item, values), **settings.defines}
        kernel = check(module, source, item.name, defines, reduce_chunk=settings.reduce_chunk)
        return [(kernel, complete(kernel, values))]
    return [(kernel, complete(kernel) if _sized(kernel) else None) for kernel in typed_kernels(module, source, settings)]


def _sized(kernel: TypedKernel) -> bool:
    return kernel.example is not None or not any(isinstance(param, Array) for param in kernel.params)
