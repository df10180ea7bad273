"""The kernels of a file with a call of each, for the commands that look at what a call costs."""

from __future__ import annotations

from vxc.cli.common import Settings, chosen, typed_kernels
from vxc.frontend.check import check
from vxc.frontend.syntax import Module
from vxc.frontend.typed import Array, TypedKernel
from vxc.inputs import Call, complete, generics_of, read_arguments
from vxc.source import Source


def kernel_calls(
    module: Module, source: Source, settings: Settings, arguments: dict[str, str], seed: int = 0
) -> list[tuple[TypedKernel, Call | None]]:
    """The chosen kernels, each with the call that -a or its example says; None where nothing gives it sizes."""
    if arguments:
        item = chosen(module, source, settings.kernel)
        values = read_arguments(arguments, item, settings.defines, seed)
        defines = {**generics_of(item, values), **settings.defines}
        kernel = check(module, source, item.name, defines, reduce_chunk=settings.reduce_chunk)
        return [(kernel, complete(kernel, values, seed=seed))]
    return [(kernel, complete(kernel, seed=seed) if _sized(kernel) else None) for kernel in typed_kernels(module, source, settings)]


def _sized(kernel: TypedKernel) -> bool:
    return kernel.example is not None or not any(isinstance(param, Array) for param in kernel.params)
