"""`vxc run`: run a kernel on files, made-up arrays or its example, on a GPU or in an interpreter."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial

import click
import numpy as np

from vxc.cli.calls import dynamic_option, kernel_call
from vxc.cli.common import TEXT, Settings, Status, kernel_options, pairs, print_json, read_module, tell_unwritten
from vxc.cli.compiling import resources
from vxc.cli.output import refuse_terminal, write
from vxc.diag import Diagnostic, VxcError, listed
from vxc.diff import Difference, Executor, Results, ast_executor, first_difference, flat_executor, gpu_executor
from vxc.driver import Compiled
from vxc.dtypes import from_numpy
from vxc.frontend.typed import TypedKernel
from vxc.progress import note
from vxc.runtime.arrays import save_array
from vxc.runtime.driver import unavailable

_SHOWN = 4  # elements of an output

_EXECUTORS = {
    "gpu": lambda kernel, compiled, debug: gpu_executor(compiled),
    "flat": lambda kernel, compiled, debug: flat_executor("flat", kernel, compiled.after("prove-parallel"), debug),
    "flat:thread": lambda kernel, compiled, debug: flat_executor("flat:thread", kernel, compiled.plan, debug),
    "ast": lambda kernel, compiled, debug: ast_executor(kernel, debug),
}


class _Place(click.Choice):
    """An executor by its name."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        meant = {"cpu": "flat", "host": "flat", "interpreter": "flat", "cuda": "gpu"}.get(value)
        if meant:
            self.fail(f"'{value}' is no place; did you mean `--on {meant}`? There are {', '.join(self.choices)}", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("file", metavar="FILE.vx")
@click.option("-a", "arguments", metavar="NAME=VALUE", type=TEXT, multiple=True, callback=pairs,
              help="An argument: FILE.npy, FILE.npz:KEY, a number, or made up, as rand:f32[8,64]; default: as the example line says.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of made-up arrays.")
@click.option("--on", type=_Place(list(_EXECUTORS)), help="Where to run; default: gpu, or flat where there is none.")
@click.option("--check", "checked", is_flag=True, help="Compare with the AST interpreter; exit 3 on a difference.")
@click.option("-o", "files", metavar="NAME=FILE.npy", type=TEXT, multiple=True, callback=pairs,
              help="Write an output; the file appears whole or not at all; `-` is standard output.")  # fmt: skip
@dynamic_option
@kernel_options
def command(settings: Settings, file: str, arguments: dict, seed: int, on: str | None, checked: bool, files: dict, dynamic: bool) -> Status:
    """Run one kernel and show what it gives.

    It is the kernel that a call from Python with these arrays runs: lengths of rows and shapes of tiles are constants, and it is known
    where arrays begin.
    """
    source, module = read_module(file)
    _refuse_one_file_for_two(files)
    if "-" in files.values():
        refuse_terminal()
    given = kernel_call(module, source, settings, arguments, seed, dynamic)
    kernel, call = given.kernel, given.call
    _check_outputs(kernel, files)
    made_up = [name for name in (*call.arrays, *call.scalars) if name not in arguments]
    if arguments and made_up:
        note(f"made up as the example says: {listed(made_up)}")
    compiled = given.compiled()
    place = on or _default_place()
    used = _resources(compiled, place)
    executor: Executor = _EXECUTORS[place](kernel, compiled, settings.debug)
    results = executor.run(call, seed)
    for name, path in files.items():
        write(path, partial(save_array, array=results[name]))
    difference = None
    if checked:
        expected = ast_executor(kernel, settings.debug).run(call, seed)
        difference = first_difference(expected, results, executor.loose, executor.grains)
    tell_unwritten(kernel.name, expected if checked else results)
    with contextlib.redirect_stdout(sys.stderr if "-" in files.values() else sys.stdout):
        if settings.json:
            print_json(_report(kernel, place, used, results, checked, difference))
        else:
            _print(used, results, checked, difference, executor)
    return Status.DIFFERENCE if difference else Status.OK


def _check_outputs(kernel: TypedKernel, files: dict[str, str]) -> None:
    outputs = [array.name for array in kernel.arrays if array.mode != "in"]
    for name in files:
        if name not in outputs:
            raise VxcError(Diagnostic("E0708", f"`{kernel.name}` has no output `{name}`", help=f"its outputs are {', '.join(outputs)}"))


def _refuse_one_file_for_two(files: dict[str, str]) -> None:
    """The second would replace the first. Pipes and devices take both, one after the other."""
    seen: dict[str, str] = {}
    for name, path in files.items():
        if path == "-" or os.path.exists(path) and not os.path.isfile(path):
            continue
        if (first := seen.setdefault(os.path.realpath(path), name)) != name:
            raise click.UsageError(f"`{first}` and `{name}` cannot both go to {path}: give each a file of its own")


def _default_place() -> str:
    lacking = unavailable()
    if lacking is None:
        return "gpu"
    note(f"no GPU ({lacking}): running on the flat interpreter")
    return "flat"


def _resources(compiled: Compiled, place: str) -> list[str]:
    """What the machine code uses; where that cannot be made, an error only if it is to run."""
    try:
        return resources(compiled)
    except VxcError as error:
        if place == "gpu" or error.diagnostics[0].code != "E0601":
            raise
        note(f"not compiled: {error.diagnostics[0].message}")
        return []


# ---- output ----------------------------------------------------------------------------------------------------------


def _print(used: list[str], results: Results, checked: bool, difference: Difference | None, executor: Executor) -> None:
    for line in used:
        print(line)
    for name, array in results.items():
        facts = "".join(f"  {key} {value}" for key, value in _statistics(array).items())
        more = " .." if array.size > _SHOWN else ""
        print(f"{name}: {from_numpy(array.dtype)}{list(array.shape)}{facts}  [{' '.join(_first(array))}{more}]")
    if difference:
        print(f"check: {difference}")
    elif checked:
        bounded = [name for name in results if name in executor.loose]
        print("check: equal to ast" + (f", {', '.join(bounded)} within the bound" if bounded else " to the bit"))


def _report(kernel: TypedKernel, place: str, used: list[str], results: Results, checked: bool, difference: Difference | None) -> dict:
    outputs = {
        name: {"dtype": str(from_numpy(a.dtype)), "shape": list(a.shape), "statistics": _statistics(a), "first": _first(a)}
        for name, a in results.items()
    }
    report = {"kernel": kernel.name, "on": place, "resources": used, "outputs": outputs}
    return report | ({"check": str(difference or "equal")} if checked else {})


def _first(array: np.ndarray) -> list[str]:
    return [str(value) for value in array.reshape(-1)[:_SHOWN]]


def _statistics(array: np.ndarray) -> dict[str, str]:
    """Least, mean and greatest of the finite elements, and how many are NaN or infinite; "" for an empty array."""
    if not array.size:
        return {}
    if not from_numpy(array.dtype).is_float:
        return {"min": str(array.min()), "max": str(array.max())}
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    found = {"min": f"{finite.min():.6g}", "mean": f"{finite.mean():.6g}", "max": f"{finite.max():.6g}"} if finite.size else {}
    counts = {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}
    return found | {key: f"{count:,}" for key, count in counts.items() if count}
