"""`vxc opt`: run chosen passes over IR."""

from __future__ import annotations

from pathlib import PurePath

import click

from vxc.cli.common import TEXT, Settings, is_ir, kernel_options, print_json
from vxc.cli.compiling import arch, plan_texts
from vxc.diag import Diagnostic, VxcError, read_source, suggestion
from vxc.ir.plan import Plan
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_placed
from vxc.pass_manager import Context, Pass, Pipeline, PipelineError, run_pass
from vxc.pipeline import PASSES
from vxc.progress import note
from vxc.source import Source
from vxc.target import target


def _passes(ctx: click.Context, param: click.Parameter, text: str) -> list[Pass]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PASSES:
            hint = suggestion(name, PASSES, "`vxc passes` lists them")
            raise click.BadParameter(f"there is no pass `{name}`; {hint}", ctx, param)
    return [PASSES[name] for name in names]


@click.command()
@click.argument("file", metavar="FILE.vxir|-")
@click.option("-p", "passes", metavar="PASS,...", type=TEXT, required=True, callback=_passes,
              help="The passes to run, in order; `vxc passes` lists them.")  # fmt: skip
@click.option("--remarks", is_flag=True, help="Also print what the passes decided, on standard error.")
@kernel_options
def command(settings: Settings, file: str, passes: list[Pass], remarks: bool) -> None:
    """Run passes over IR and print the IR that results. `-` reads standard input."""
    context = Context(target(arch(settings)), debug=settings.debug)
    source = read_source(file)
    if PurePath(file).suffix == ".vx" and not is_ir(source):
        raise click.UsageError(f"{file} is a .vx file, and this takes IR, which `vxc compile {file} --emit ir` prints")
    texts = [print_plan(_run(part, passes, context, settings)) for part in plan_texts(source)]
    if settings.json:
        print_json({"text": "\n".join(texts), "remarks": [str(r) for r in context.remarks]})
        return
    print("\n".join(texts), end="")
    if remarks:
        for remark in context.remarks:
            note(str(remark))


def _run(source: Source, passes: list[Pass], context: Context, settings: Settings) -> Plan:
    """One plan through the passes, unless -k names another. Raises VxcError E0523 where their order is impossible."""
    plan = read_placed(source)
    if settings.kernel not in (None, plan.name):
        return plan
    try:
        for behind in dict.fromkeys(k.done for k in plan.kernels):
            Pipeline((*(PASSES[name] for name in behind if name in PASSES), *passes))
    except PipelineError as error:
        raise VxcError(Diagnostic("E0523", str(error), source, help="`vxc passes` shows what each pass needs and gives")) from None
    for chosen in passes:
        plan = run_pass(chosen, plan, context)
    return plan
