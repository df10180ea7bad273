"""`vxc diff`: every executor on the same inputs, to the bit where the language fixes every bit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from vxc.cli.calls import Called, called, dynamic_option, kernel_call, no_inputs, without_inputs
from vxc.cli.common import (
    TEXT, Settings, Status, chosen, kernel_options, pairs, print_json, read_module, show, tell_unwritten, typed_kernels,
)  # fmt: skip
from vxc.diag import VxcError, count
from vxc.diff import Disagreement, Executor, Results, ast_executor, disagreements, findings, flat_executor, gpu_executor, prefix_executors
from vxc.driver import Compiled
from vxc.frontend.syntax import Module
from vxc.frontend.typed import TypedKernel
from vxc.inputs import Call, complete, example_line, read_arguments
from vxc.pipeline import PASSES
from vxc.progress import note, progress
from vxc.runtime.driver import unavailable
from vxc.source import Source

RANDOM_SETS, SPECIAL = 3, "special values"


@click.command()
@click.argument("files", metavar="FILE.vx...", nargs=-1, required=True)
@click.option("-a", "arguments", metavar="NAME=VALUE", type=TEXT, multiple=True, callback=pairs,
              help="An argument, as of `vxc run`; what is made up by rand is made anew for each set; default: as the example line says.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the inputs, and of the order in which warps run.")
@dynamic_option
@kernel_options
def command(settings: Settings, files: tuple[str, ...], arguments: dict, seed: int, dynamic: bool) -> Status:
    """Compare all executors on random inputs and on special values.

    Executors are ast, flat at each stage, and gpu if there is one; inputs are as -a and the example lines say. Prints a line for
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
                for given, inputs in _calls(module, source, settings, arguments, seed, dynamic):
                    report, fault = _compare(given, inputs, seed, not lacking)
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


Inputs = dict[str, Call]  # sets of inputs by name: several random ones and one of special values


def _calls(
    module: Module, source: Source, settings: Settings, arguments: Mapping[str, str], seed: int, dynamic: bool
) -> Iterator[tuple[Called, Inputs]]:
    """The kernel that -a is for, or those that have inputs without, each with its inputs."""
    if arguments:
        item, _ = chosen(module, source, settings.kernel)
        given = kernel_call(module, source, settings, arguments, seed, dynamic)
        special = {name: re.sub(r"^rand(:[^:\]]*\])$", r"special\1", text) for name, text in arguments.items()}
        texts = [arguments] * RANDOM_SETS + [special]
        yield given, _inputs(given.kernel, seed, [read_arguments(t, item, settings.defines, seed + k) for k, t in enumerate(texts)])
        return
    for kernel in _comparable(typed_kernels(module, source, settings, sampled=not dynamic)):
        given = called(kernel, module, source, settings, seed, dynamic)
        if without_inputs(given.kernel):
            raise no_inputs(given.kernel, ", or give its arguments, as with -a NAME=rand:f32[8,64]")
        yield given, _inputs(given.kernel, seed, [{}] * (RANDOM_SETS + 1))


def _comparable(kernels: list[TypedKernel]) -> list[TypedKernel]:
    """The kernels that have inputs, where some have: the rest, such as what a program calls, is noted. All where none has."""
    given = [kernel for kernel in kernels if not without_inputs(kernel)]
    for kernel in kernels if given else ():
        if without_inputs(kernel):
            note(f"{kernel.source.name}: {kernel.name} has no `example` line and is not compared by itself: add `{example_line(kernel)}`")
    return given or kernels


def _inputs(kernel: TypedKernel, seed: int, values: Sequence[Mapping[str, Any]]) -> Inputs:
    """The sets, one for each of these given values, the last of them special, and none of them twice."""
    names = [*(f"random inputs {k + 1}" for k in range(RANDOM_SETS)), SPECIAL]
    found: Inputs = {}
    for k, (name, given) in enumerate(zip(names, values)):
        call = complete(kernel, given, seed=seed if name == SPECIAL else seed + k, special=name == SPECIAL)
        if not any(_same(call, other) for other in found.values()):
            found[name] = call
    return found


def _same(one: Call, two: Call) -> bool:
    return all(array.tobytes() == two.arrays[name].tobytes() for name, array in one.arrays.items())


def _compare(given: Called, inputs: Inputs, seed: int, gpu: bool) -> tuple[dict, VxcError | None]:
    """What became of one kernel, as plain data, and a fault on inputs that the example describes."""
    kernel, settings = given.kernel, given.settings
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
    parts = [f"{', '.join(report['executors'])} agree on {count(agreed, 'set')} of inputs"] if agreed else []
    parts += [f"all fault alike with {code} on {name}" for name, code in faults.items()]
    return head + "; ".join(parts)
