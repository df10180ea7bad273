"""`vxc diff`: every executor on the same inputs, to the bit where the language fixes every bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import click

from vxc.cli.calls import Called, called, dynamic_option, no_inputs, without_inputs
from vxc.cli.common import Settings, Status, kernel_options, print_json, read_module, show, tell_unwritten, typed_kernels
from vxc.diag import VxcError
from vxc.diff import Disagreement, Executor, Results, ast_executor, disagreements, findings, flat_executor, gpu_executor, prefix_executors
from vxc.driver import Compiled
from vxc.frontend.typed import TypedKernel
from vxc.inputs import Call, complete, example_line
from vxc.pipeline import PASSES
from vxc.progress import note, progress
from vxc.runtime.driver import unavailable

RANDOM_SETS, SPECIAL = 3, "special values"


@click.command()
@click.argument("files", metavar="FILE.vx...", nargs=-1, required=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the inputs, and of the order in which warps run.")
@dynamic_option
@kernel_options
def command(settings: Settings, files: tuple[str, ...], seed: int, dynamic: bool) -> Status:
    """Compare all executors on random inputs and on special values.

    Executors are ast, flat at each stage, and gpu if there is one; inputs are as the example lines say. Prints a line for
    each kernel; exits 3 where executors differ, naming the first differing element and, if a pass is at fault, the pass.
    A fault that all report alike is no difference; exits 1 where a kernel faults on inputs that its example describes.
    """
    lacking = unavailable()
    if lacking:
        note(f"no GPU ({lacking}): comparing the interpreters only")
    reports, status = [], Status.OK
    with progress("comparing", len(files)) as advance:
        for path in files:
            try:
                source, module = read_module(path)
                for kernel in _comparable(typed_kernels(module, source, settings, sampled=not dynamic)):
                    given = called(kernel, module, source, settings, seed, dynamic)
                    report, fault = _compare(given, seed, not lacking)
                    reports.append(report)
                    if report["difference"]:
                        status = max(status, Status.DIFFERENCE)
                    if not settings.json:
                        print(_line(report))
                    if fault:
                        status = max(status, show(fault))
            except VxcError as error:
                status = max(status, show(error))
            advance(1)
    if settings.json:
        print_json(reports)
    return status


def _comparable(kernels: list[TypedKernel]) -> list[TypedKernel]:
    """The kernels that have inputs, where some have: the rest, such as what a program calls, is noted. All where none has."""
    given = [kernel for kernel in kernels if not without_inputs(kernel)]
    for kernel in kernels if given else ():
        if without_inputs(kernel):
            note(f"{kernel.source.name}: {kernel.name} has no `example` line and is not compared by itself: add `{example_line(kernel)}`")
    return given or kernels


def _compare(given: Called, seed: int, gpu: bool) -> tuple[dict, VxcError | None]:
    """What became of one kernel, as plain data, and a fault on inputs that the example describes."""
    kernel, settings = given.kernel, given.settings
    inputs = _inputs(kernel, seed)
    compiled = given.compiled()
    team = [name for name in PASSES if {k.stage for k in compiled.after(name).kernels} <= {"team"}]
    first: list[Results] = []
    executors = [_kept(ast_executor(kernel, settings.debug), first), flat_executor("flat", kernel, compiled.tile, settings.debug)]
    executors += [flat_executor("flat:team", kernel, compiled.after(name), settings.debug) for name in team[-1:]]
    executors += [flat_executor("flat:thread", kernel, compiled.plan, settings.debug)]
    executors += [gpu_executor(compiled)] if gpu else []
    difference, faults = "", {}
    for found in findings(executors, inputs, seed):
        if isinstance(found, Disagreement):
            difference = f"{found}; {_guilty(compiled, {found.inputs: inputs[found.inputs]}, settings, seed)}"
            break
        faults[found.inputs] = found.error
    for results in first[:1]:
        tell_unwritten(kernel.name, results)
    report = {
        "file": kernel.source.name,
        "kernel": kernel.name,
        "executors": [e.name for e in executors],
        "inputs": list(inputs),
        "difference": difference,
        "faults": {name: error.diagnostics[0].code for name, error in faults.items()},
    }
    return report, next((error for name, error in faults.items() if name != SPECIAL), None)


def _kept(executor: Executor, results: list[Results]) -> Executor:
    """An executor whose results are kept as well."""

    def run(call: Call, seed: int) -> Results:
        results.append(executor.run(call, seed))
        return results[-1]

    return replace(executor, run=run)


def _inputs(kernel: TypedKernel, seed: int) -> dict[str, Call]:
    """Sets of inputs by name: several random ones and one of special values."""
    if without_inputs(kernel):
        raise no_inputs(kernel)
    sets = {f"random inputs {k + 1}": complete(kernel, seed=seed + k) for k in range(RANDOM_SETS)}
    return sets | {SPECIAL: complete(kernel, seed=seed, special=True)}


def _guilty(compiled: Compiled, inputs: Mapping[str, Call], settings: Settings, seed: int) -> str:
    """Which step the difference comes from: lowering, or the first pass after which the flat interpreter differs."""
    executors = prefix_executors(compiled, settings.debug, orders=(0,))
    for wrong in disagreements(executors, inputs, seed):
        step = wrong.pair[1]
        return f"it comes with {'pass ' if step in PASSES else ''}{step}"
    return "it comes with the emitted code, for the interpreters agree"


def _line(report: dict) -> str:
    head, faults = f"{report['file']}: {report['kernel']}: ", report["faults"]
    if report["difference"]:
        return head + report["difference"]
    agreed = len(report["inputs"]) - len(faults)
    parts = [f"{', '.join(report['executors'])} agree on {agreed} sets of inputs"] if agreed else []
    parts += [f"all fault alike with {code} on {name}" for name, code in faults.items()]
    return head + "; ".join(parts)
