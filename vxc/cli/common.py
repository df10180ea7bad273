"""What commands share: exit statuses, the options that are everywhere, reading sources, showing diagnostics."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import PurePath
from typing import Any

import click
import numpy as np

from vxc.diag import VxcError, count, read_source, render_all
from vxc.dtypes import DTYPES, DType
from vxc.frontend.check import check, check_module, kernel_names, program_names
from vxc.frontend.items import collect
from vxc.frontend.parse import parse
from vxc.frontend.selection import no_kernel, only
from vxc.frontend.syntax import Kernel, Module
from vxc.frontend.typed import TypedKernel
from vxc.interp.fresh import Outputs
from vxc.progress import note
from vxc.record import record
from vxc.source import Source
from vxc.target import LEAST_REGISTER_CAP, MAX_REGISTERS_PER_THREAD, REGISTER_CAP


class Status(IntEnum):
    """Exit statuses."""

    OK = 0
    INPUT = 1  # the input is wrong or unreadable
    USAGE = 2
    DIFFERENCE = 3  # a difference was found, or a check failed
    ENVIRONMENT = 4  # no GPU, NVRTC or driver
    INTERNAL = 70
    INTERRUPTED = 130


@record
class Settings:
    """The options that every command on kernels has."""

    defines: Mapping[str, int | bool | DType]
    kernel: str | None
    arch: str | None
    debug: bool
    json: bool
    maxrregcount: int | None
    reduce_chunk: int | None
    aligned: Mapping[str, bool]


class Text(click.ParamType):
    """An argument that is text: UTF-8 whatever the locale."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return os.fsencode(value).decode("utf-8", "replace")


TEXT = Text()
# longer ones fit nowhere, and Python refuses to read them
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,64}|0[bB][01]{1,256}|[0-9]{1,80})")


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Options `NAME=VALUE`, as a dict."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"`{text}` is not NAME=VALUE", ctx, param)
        if name in found:
            raise click.BadParameter(f"`{name}` is given twice", ctx, param)
        found[name] = value
    return found


def _defines(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int | bool | DType]:
    return {name: _define(ctx, param, name, text) for name, text in pairs(ctx, param, values).items()}


def _define(ctx: click.Context, param: click.Parameter, name: str, text: str) -> int | bool | DType:
    if text in ("true", "false"):
        return text == "true"
    if text in DTYPES:
        return DTYPES[text]
    if _INTEGER.fullmatch(text):
        return int(text, 10 if text.lstrip("+-").isdigit() else 0)
    raise click.BadParameter(f"the value of `{name}`, `{text}`, is no integer, bool or dtype ({', '.join(DTYPES)})", ctx, param)


def _aligned(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, bool]:
    given = pairs(ctx, param, values)
    for name, text in given.items():
        if text not in ("true", "false"):
            raise click.BadParameter(f"the value of `{name}`, `{text}`, is neither true nor false", ctx, param)
    return {name: text == "true" for name, text in given.items()}


_OPTIONS = (
    click.option("-D", "defines", metavar="NAME=VALUE", type=TEXT, multiple=True, callback=_defines,
                 help="Fix a generic or a dimension: an int, a bool or a dtype."),
    click.option("-k", "kernel", metavar="NAME", type=TEXT, help="Only this kernel."),
    click.option("--arch", metavar="ARCH", help="The GPU architecture to compile for, such as sm_80; default: the device's, else sm_90a."),
    click.option("--debug", is_flag=True, help="Check indices, divisors and asserts while kernels run."),
    click.option("--json", "json", is_flag=True, help="Print one JSON document."),
    click.option("--maxrregcount", metavar="N", type=click.IntRange(LEAST_REGISTER_CAP, MAX_REGISTERS_PER_THREAD),
                 envvar=REGISTER_CAP, show_envvar=True, help="At most so many registers a thread."),
    click.option("--reduce-chunk", metavar="N", type=click.IntRange(0, 1 << 20),
                 help="The chunk of reductions that do not say theirs; 0: a whole row."),
    click.option("--aligned", metavar="NAME=true|false", type=TEXT, multiple=True, callback=_aligned,
                 help="Whether an array and all its rows begin at multiples of 16 bytes; a kernel for all arrays finds out."),
)  # fmt: skip


def kernel_options(function: Callable) -> Callable:
    """Gives a command the options of `Settings`, passed as its first argument; with --json, findings are printed as JSON, too."""

    @functools.wraps(function)
    def wrapped(**arguments: Any) -> Any:
        settings = Settings(**{name: arguments.pop(name) for name in Settings.__dataclass_fields__})
        try:
            return function(settings, **arguments)
        except VxcError as error:
            if settings.json:
                print_json({"diagnostics": [d.as_dict() for d in error.diagnostics]})
            raise

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


# ---- sources ---------------------------------------------------------------------------------------------------------

_IR = re.compile(r"(?:\s|#[^\n]*\n)*(?:plan|kernel) @")


def is_ir(source: Source, lang: str | None = None) -> bool:
    """Whether a text is IR: as `lang` says, else by the file's ending or how the text begins."""
    if lang:
        return lang == "vxir"
    return PurePath(source.name).suffix == ".vxir" or bool(_IR.match(source.text))


def read_module(path: str) -> tuple[Source, Module]:
    """A .vx file, parsed. IR is a usage error."""
    source = read_source(path)
    if is_ir(source):
        raise click.UsageError(f"{source.name} is IR, and this takes a .vx file; IR goes to `vxc compile` and `vxc opt`")
    return source, parse(source)


def typed_kernels(
    module: Module, source: Source, settings: Settings, *, stand_in: DType | None = None, sampled: bool = False
) -> list[TypedKernel]:
    """The kernel that -k names, or all, with `stand_in` and `sampled` as `check` has them. Raises VxcError with what is wrong in the file,
    E0234 where it is empty.
    """
    options = {"reduce_chunk": settings.reduce_chunk, "stand_in": stand_in, "sampled": sampled}
    if settings.kernel is not None:
        return [check(module, source, settings.kernel, settings.defines, **options)]
    if not module.items:
        raise no_kernel(source)
    return check_module(module, source, settings.defines, **options)


def chosen(module: Module, source: Source, name: str | None) -> tuple[Kernel, Source]:
    """The syntax of what to call, and the text that it is in: what -k names, else the only program, else the only kernel. Raises VxcError
    E0234.
    """
    name = only(program_names(module) or kernel_names(module), source) if name is None else name
    items = collect(module, source)
    known = items.kernels | items.programs
    if name not in known:
        check(module, source, name)  # says what is wrong with the name
    return known[name]


# ---- output ----------------------------------------------------------------------------------------------------------


def show(error: VxcError) -> Status:
    """Print the findings on standard error; gives the exit status that they mean."""
    print(render_all(error.diagnostics, colour=sys.stderr.isatty() and not os.environ.get("NO_COLOR")), file=sys.stderr)
    lacking = all(d.code.startswith("E06") for d in error.diagnostics)
    return Status.ENVIRONMENT if lacking else Status.INPUT


def tell_unwritten(kernel: str, results: Mapping[str, np.ndarray]) -> None:
    """Note what a run left unwritten, where it was an interpreter's."""
    if isinstance(results, Outputs):
        for name, missing in results.unwritten.items():
            few = f"{missing:,} of {count(results[name].size, 'element')}"
            note(f"{kernel} stores nothing to {few} of `{name}`: they may hold anything (interpreters leave NaN, or bytes of 0x5A)")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Rows of cells in aligned columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
