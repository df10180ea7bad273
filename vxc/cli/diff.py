"""`vxc diff`: every executor on the same inputs, to the bit where the language fixes every bit."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping

import click

from vxc.cli.common import Settings, Status, kernel_options, note, print_json, read_module, show, typed_kernels
from vxc.cli.compiling import build
from vxc.diag import Diagnostic, VxcError
from vxc.diff import Disagreement, Executor, ast_executor, disagreements, flat_executor, gpu_executor
from vxc.driver import Compiled
from vxc.frontend.typed import Array, TypedKernel
from vxc.inputs import Call, complete
from vxc.pipeline import PASSES
from vxc.runtime.driver import unavailable

RANDOM_SETS = 3


@click.command()
@click.argument("files", metavar="FILE.vx...", nargs=-1, required=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the inputs, and of the order in which warps run.")
@kernel_options
def command(settings: Settings, files: tuple[str, ...], seed: int) -> Status:
    """Compare every executor (ast, flat at each stage, gpu if there is one) on random inputs and on special values.

    Inputs are as the example lines say. Prints a line for each kernel; exits 3 where executors differ, naming the first
    differing element and, if a pass is at fault, the pass.
    """
    lacking = unavailable()
    if lacking:
        note(f"no GPU ({lacking}): comparing the interpreters only")
    reports, status = [], Status.OK
    with _progress(len(files)) as advance:
        for path in files:
            try:
                source, module = read_module(path)
                for kernel in typed_kernels(module, source, settings):
                    report = _compare(kernel, settings, seed, not lacking)
                    reports.append(report)
                    if report["difference"]:
                        status = max(status, Status.DIFFERENCE)
                    if not settings.json:
                        print(_line(report))
            except VxcError as error:
                status = max(status, show(error))
            advance()
    if settings.json:
        print_json(reports)
    return status


def _compare(kernel: TypedKernel, settings: Settings, seed: int, gpu: bool) -> dict:
    """What became of one kernel, as plain data."""
    inputs = _inputs(kernel, seed)
    compiled = build(kernel, settings)
    team = [name for name in PASSES if {k.stage for k in compiled.after(name).kernels} <= {"team"}]
    executors = [ast_executor(kernel, settings.debug), flat_executor("flat", kernel, compiled.tile, settings.debug)]
    executors += [flat_executor("flat:team", kernel, compiled.after(name), settings.debug) for name in team[-1:]]
    executors += [flat_executor("flat:thread", kernel, compiled.plan, settings.debug)]
    executors += [gpu_executor(compiled)] if gpu else []
    first = next(disagreements(executors, inputs, seed), None)
    guilty = _guilty(kernel, compiled, executors[0], {first.inputs: inputs[first.inputs]}, settings, seed) if first else ""
    return {
        "file": kernel.source.name,
        "kernel": kernel.name,
        "executors": [e.name for e in executors],
        "inputs": list(inputs),
        "difference": f"{first}{guilty}" if first else "",
    }


def _inputs(kernel: TypedKernel, seed: int) -> dict[str, Call]:
    """Sets of inputs by name: several random ones and one of special values."""
    if kernel.example is None and any(isinstance(p, Array) for p in kernel.params):
        text = f"`{kernel.name}` has no `example` line, from which its inputs are made"
        raise VxcError(Diagnostic("E0708", text, kernel.source, kernel.span, help=f"add `example {kernel.name}(x = rand(f32, 64));`"))
    sets = {f"random inputs {k + 1}": complete(kernel, seed=seed + k) for k in range(RANDOM_SETS)}
    return sets | {"special values": complete(kernel, seed=seed, special=True)}


def _guilty(kernel: TypedKernel, compiled: Compiled, reference: Executor, inputs: Mapping[str, Call], settings: Settings, seed: int) -> str:
    """Which step the difference comes from: lowering, or the first pass after which the flat interpreter differs."""
    steps = {"lowering": compiled.tile, **{f"pass {name}": compiled.after(name) for name in PASSES}}
    for step, plan in steps.items():
        wrong: Iterator[Disagreement] = disagreements([reference, flat_executor("flat", kernel, plan, settings.debug)], inputs, seed)
        if next(wrong, None):
            return f"; it comes with {step}"
    return "; it comes with the emitted code, for the interpreters agree"


def _line(report: dict) -> str:
    head = f"{report['file']}: {report['kernel']}: "
    return head + (report["difference"] or f"{', '.join(report['executors'])} agree on {len(report['inputs'])} sets of inputs")


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """On a terminal, a bar on standard error; gives what to call after each file."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("comparing", total=total)
        yield lambda: bar.advance(task)
