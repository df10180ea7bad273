"""`vxc compile`: print a kernel at any point of its way from source to machine code."""

from __future__ import annotations

import os
from dataclasses import asdict, replace

import click

from vxc.cli.common import Settings, is_ir, kernel_options, print_json
from vxc.cli.compiling import build_all, resources
from vxc.cli.output import names_folder, refuse_terminal, write
from vxc.diag import listed, read_source
from vxc.driver import Compiled
from vxc.explain.resources import resources_of
from vxc.frontend.check import check
from vxc.frontend.parse import dump, parse
from vxc.frontend.syntax import Kernel
from vxc.ir.plan import Plan
from vxc.ir.printer import print_plan
from vxc.pipeline import PASSES
from vxc.progress import note
from vxc.runtime.arrays import make_folder
from vxc.source import Source

_IR_FORMS = ("ir", *(f"ir:{name}" for name in PASSES), "ir:final")
_FORMS = {"ast": "ast", **dict.fromkeys(_IR_FORMS, "vxir"), "cuda": "cu", "ptx": "ptx", "cubin": "cubin"}
"""What --emit takes, and the ending of a file of it."""


@click.command()
@click.argument("file", metavar="FILE.vx|FILE.vxir|-")
@click.option("--emit", "form", type=click.Choice(list(_FORMS)), default="cuda", show_default=True,
              metavar="ast|ir|ir:PASS|ir:final|cuda|ptx|cubin",
              help="What to print: the syntax tree, the IR as lowered, after a pass or at the end, or what is made of it.")
@click.option("--lang", type=click.Choice(["vx", "vxir"]), help="What FILE is; default: by its ending, or by how the text begins.")
@click.option("-o", "path", metavar="PATH", help="Write to this file; into a folder, or a path that ends in /, a file for each kernel.")
@click.option("--locations", is_flag=True, help="In IR, print the source line and column of each instruction.")  # fmt: skip
@kernel_options
def command(settings: Settings, file: str, form: str, lang: str | None, path: str | None, locations: bool) -> None:
    """Compile kernels and print the result; `-` reads standard input. No GPU is needed."""
    source = read_source(file)
    used: dict[str, dict] = {}
    folder = names_folder(path)
    if form == "ast":
        made = {"": _tree(source, settings, lang).encode()}
    else:
        compiled = build_all(source, settings, lang)
        if form == "cubin" and len(compiled) > 1 and not folder:
            names = listed([c.tile.name for c in compiled])
            raise click.UsageError(f"{names} cannot be one cubin: name one with -k, or a folder with -o, as -o DIR/")
        made = {c.tile.name: _emit(c, form, locations) for c in compiled}
        for c in compiled:
            if not c.plan.kernels:
                note(f"{c.tile.name} launches nothing: none of what it writes has elements")
        if form in ("ptx", "cubin"):
            used = {c.tile.name: {name: asdict(r) for name, r in resources_of(c).items()} for c in compiled}
            for line in (line for c in compiled for line in resources(c)):
                note(line)
    if settings.json:
        more = {name: _text(form, data) | ({"resources": used[name]} if name in used else {}) for name, data in made.items()}
        print_json([{"kernel": name, "emit": form, "bytes": len(data)} | more[name] for name, data in made.items()])
        if path in (None, "-"):
            return
    if folder:
        make_folder(path)
        for name, data in made.items():
            write(os.path.join(path, f"{name or 'module'}.{_FORMS[form]}"), lambda file: file.write(data))
    else:
        data = b"\n".join(made.values())
        if form == "cubin" and path in (None, "-"):
            refuse_terminal()
        write("-" if path is None else path, lambda file: file.write(data))


def _tree(source: Source, settings: Settings, lang: str | None) -> str:
    """The syntax tree of a file, or of one kernel."""
    if is_ir(source, lang):
        raise click.UsageError("IR has no syntax tree; --emit ast takes a .vx file")
    module = parse(source)
    if settings.kernel is None:
        return dump(module)
    items = tuple(item for item in module.items if isinstance(item, Kernel) and item.name == settings.kernel)
    if not items:
        check(module, source, settings.kernel)  # says what is wrong with the name
    return dump(replace(module, items=items))


def _emit(compiled: Compiled, form: str, locations: bool) -> bytes:
    if form == "cubin":
        return compiled.binary.cubin
    text = {"cuda": lambda: compiled.cuda, "ptx": lambda: compiled.ptx}.get(form) or (lambda: print_plan(_plan(compiled, form), locations))
    return text().encode()


def _plan(compiled: Compiled, form: str) -> Plan:
    name = form.partition(":")[2]
    if not name:
        return compiled.tile
    if name == "final":
        return compiled.plan
    try:
        return compiled.after(name)
    except KeyError:
        raise click.UsageError(f"the pass {name} is already behind this IR") from None


def _text(form: str, data: bytes) -> dict[str, str]:
    return {} if form == "cubin" else {"text": data.decode()}
