"""`vxc check`: all that vxc itself may find wrong with kernels. No machine code is made."""

from __future__ import annotations

import click

from vxc.cli.common import Settings, Status, kernel_options, print_json, read_module, show, typed_kernels
from vxc.diag import Diagnostic, VxcError
from vxc.driver import compile_typed
from vxc.dtypes import F32
from vxc.explain.bounds import bounds_of
from vxc.frontend.check import open_dtypes
from vxc.frontend.syntax import Kernel, Module
from vxc.frontend.typed import TypedKernel
from vxc.progress import note
from vxc.target import DEFAULT_ARCH


@click.command()
@click.argument("files", metavar="FILE.vx...", nargs=-1, required=True)
@kernel_options
def command(settings: Settings, files: tuple[str, ...]) -> Status:
    """Find everything wrong with kernels, up to the CUDA text.

    What is in an `extern fn` is not looked at. Generic dtypes that nothing gives are taken to be f32.

    Prints a line for each kernel that is sound; all findings, in source order, go to standard error. Notes are of indices that may
    leave their array for some sizes or data, and change no exit status.
    """
    reports = [_file(path, settings) for path in files]
    if settings.json:
        print_json([{"file": path, "kernels": names, "diagnostics": [d.as_dict() for d in found]} for path, names, found in reports])
    statuses = [show(VxcError(errors)) for _, _, found in reports if (errors := [d for d in found if d.is_error])]
    notes = [d for _, _, found in reports for d in found if not d.is_error]
    if notes:
        show(VxcError(notes))
    return max(statuses, default=Status.OK)


def _tell_assumed(module: Module, kernels: list[TypedKernel], settings: Settings) -> None:
    """Note which generic dtypes were taken to be f32."""
    without = {kernel.name: kernel.source.name for kernel in kernels if kernel.example is None}
    for item in module.items:
        names = [name for name in open_dtypes(item) if name not in settings.defines] if isinstance(item, Kernel) else []
        if names and item.name in without:
            given = " ".join(f"-D {name}=f16" for name in names)
            assumed = f"{without[item.name]}: {item.name} is checked for {', '.join(names)} = f32"
            note(f"{assumed}: give `{given}`, or an `example` line, for others")


def _file(path: str, settings: Settings) -> tuple[str, list[str], list[Diagnostic]]:
    """The file, its sound kernels, and the findings."""
    try:
        source, module = read_module(path)
        kernels = typed_kernels(module, source, settings, stand_in=F32)
    except VxcError as error:
        return path, [], list(error.diagnostics)
    _tell_assumed(module, kernels, settings)
    sound, found = [], []
    for kernel in kernels:
        try:
            options = {"debug": settings.debug, "aligned": settings.aligned}
            compiled = compile_typed(kernel, DEFAULT_ARCH if settings.arch is None else settings.arch, **options)
            compiled.cuda  # the text, too, has what it cannot say
        except VxcError as error:
            found += error.diagnostics
            continue
        found += [finding.diagnostic for finding in bounds_of(compiled.tile)]
        sound.append(kernel.name)
        if not settings.json:
            print(f"{source.name}: {kernel.name}: ok")
    if not kernels and not settings.json:
        print(f"{source.name}: ok, without a kernel")
    return path, sound, found
