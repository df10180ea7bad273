"""`vxc fuzz`: generated programs through the compiler, every step compared, and what fails made small."""

from __future__ import annotations

import errno
import os
import sys
from itertools import count
from math import inf
from time import monotonic

import click

from vxc.cli.common import Status, is_ir, print_json, show
from vxc.diag import Diagnostic, VxcError, listed, read_source, unwritable
from vxc.fuzz.case import Case
from vxc.fuzz.counts import UNREACHED, known
from vxc.fuzz.examine import CHECK, UNPROVEN, Executors, Failure
from vxc.fuzz.pool import Unfinished
from vxc.fuzz.run import MOST_REJECTED, SHRINK, Found, Run, again, outcomes, settle
from vxc.progress import note, progress
from vxc.runtime.driver import driver, unavailable
from vxc.target import for_capability

_PROGRAMS = 100
_GPU_JOBS = 8  # each has a CUDA context


@click.command()
@click.option("-n", "number", metavar="N", type=click.IntRange(0), help=f"Programs to run; default: {_PROGRAMS}, or until --time is over.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the first program; the others count up.")
@click.option("--time", "seconds", metavar="SECONDS", type=click.IntRange(0), help="Take so long, give or take a few seconds.")
@click.option("--on", type=click.Choice(["gpu", "flat"]), help="gpu: also on the GPU, the default where there is one; flat: never.")
@click.option("-j", "jobs", metavar="JOBS", type=click.IntRange(1), help="Processes at a time; default: one for each core.")
@click.option("-o", "folder", metavar="DIR", default=".", show_default=True, help="Where failing programs go, as DIR/STEP/seed-N.vxt.")
@click.option("--replay", metavar="FILE", help="Run the program of such a file again instead; exit 0 if executors agree now.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    number: int | None, seed: int, seconds: int | None, on: str | None, jobs: int | None, folder: str, replay: str | None, as_json: bool
) -> Status:
    """Compare all executors on generated programs.

    Syntax tree, IR after every pass, warps in several orders and the GPU must give the same bits. Of each kind of failure
    one program is shrunk (for a minute at most, within --time) and written as a filetest. Exits 3 where something fails, or
    where the prover rejects 5 % of 100 programs or more.
    """
    if replay and (number is not None or seconds is not None):
        raise click.UsageError("--replay runs one file; -n and --time do not go with it")
    os.environ["VXC_CACHE"] = "0"  # for all processes: nobody compiles these programs again
    executors = _executors(on)
    if replay:
        return _replay(replay, executors, as_json)
    _check_folder(folder)
    jobs = jobs or (min(_cores(), _GPU_JOBS) if executors.gpu else _cores())
    if number is None and seconds is None:
        number = _PROGRAMS
    run = Run(inf if seconds is None else seconds)
    seeds = count(seed) if number is None else range(seed, seed + number)
    with progress("programs", number) as advance:
        try:
            for found in outcomes(seeds, executors, jobs=jobs, last=run.last, tick=lambda: advance(0)):
                run.add(*found)
                advance(1)
        except KeyboardInterrupt:
            run.interrupted = True
    run.seconds = monotonic() - run.start
    if not as_json:
        _print(run, executors)
        sys.stdout.flush()
    if run.failures and not run.interrupted:
        note(f"shrinking one of each kind, for {min(SHRINK, run.left):.0f} s at most")
    founds = []
    for found in settle(run, executors, folder):
        founds.append(found)
        if not as_json:
            _print_found(found)
    if as_json:
        print_json(_as_dict(run, founds, executors))
    if run.interrupted:
        return Status.INTERRUPTED
    return Status.DIFFERENCE if run.failures or run.rejects_too_many else Status.OK


def _check_folder(path: str) -> None:
    """Before hours of fuzzing, not after them. Raises VxcError E0711."""
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    lacking = errno.ENOTDIR if not os.path.isdir(there) else errno.EACCES if not os.access(there, os.W_OK | os.X_OK) else 0
    if lacking:
        raise unwritable(path, OSError(lacking, os.strerror(lacking)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _executors(on: str | None) -> Executors:
    """As --on says. Raises VxcError E0603 where there is no GPU and one is wanted."""
    lacking = unavailable() if on != "flat" else ""
    if on == "gpu" and lacking:
        raise VxcError(Diagnostic("E0603", f"no GPU: {lacking}", help="without --on gpu, the interpreters are compared"))
    if lacking:
        note(f"no GPU ({lacking}): comparing the interpreters only")
    if on == "flat" or lacking:
        return Executors()
    return Executors(for_capability(driver().capability(0)).name, gpu=True)


def _replay(path: str, executors: Executors, as_json: bool) -> Status:
    """Every call of a case again. What is wrong with the file, and faults that all executors report, are findings about the input."""
    source = read_source(path)
    if is_ir(source):
        raise click.UsageError(f"{source.name} is IR, and --replay takes a case with a .vx kernel")
    rows, status = [], Status.OK
    for case in Case.read(source):
        outcome = again(case, executors)
        failure = outcome.failure
        if outcome.error and (failure is None or failure.where == CHECK):
            raise outcome.error
        status = max(status, Status.DIFFERENCE if failure else Status.OK)
        rows.append({"file": source.name, "failure": _failure(failure) if failure else None})
        if not as_json:
            print(f"{source.name}: {failure.headline if failure else 'agrees now'}")
            if outcome.error:
                show(outcome.error)
    if as_json:
        print_json(rows)
    return status


# ---- output ------------------------------------------------------------------------------------------------------------


def _print(run: Run, executors: Executors) -> None:
    done = "interrupted after " if run.interrupted else ""
    print(f"{done}{run.programs} programs in {run.seconds:.1f} s, {run.per_minute:.0f} a minute: {_verdict(run, executors)}")
    if run.rejected:
        share = 100 * len(run.rejected) / run.programs
        limit = f", which is too many: {100 * MOST_REJECTED:g} % or more" if run.rejects_too_many else ""
        print(f"rejected with {UNPROVEN}: {len(run.rejected)} ({share:.1f} %{limit}): {_seeds(sorted(run.rejected))}")
    if run.unfinished:
        seed, longest = max(run.unfinished.items(), key=lambda item: item[1].seconds)
        print(f"given up when the time was over: {_seeds(sorted(run.unfinished))}; {_stay(seed, longest)}")
    for code in sorted(set(run.faults.values())):
        print(f"all executors fault with {code}: {_seeds(sorted(s for s, c in run.faults.items() if c == code))}")
    if run.counts:
        never = len(_never(run))
        print(f"made of {len(run.counts)} constructs{f', {never} never came up' * bool(never)}: --json counts and names them")


def _verdict(run: Run, executors: Executors) -> str:
    if run.failures:
        ways = len(run.kinds())
        return f"{len(run.failures)} fail, in {ways} way{'s' if ways > 1 else ''}"
    if not run.programs:
        return "nothing was compared"
    return "syntax tree, every pass, warps in any order" + (" and GPU" if executors.gpu else "") + " agree"


def _stay(seed: int, unfinished: Unfinished) -> str:
    return f"seed {seed} after {unfinished.seconds:.1f} s in {unfinished.step or 'a worker that starts'}"


def _print_found(found: Found) -> None:
    print(f"\n{found.failure.headline}\n    {_seeds(found.seeds)}")
    if found.path:
        print(f"    {found.path}, {found.lines} lines; again: vxc fuzz --replay {found.path}")


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {listed(list(map(str, seeds)))}"


def _never(run: Run) -> list[str]:
    """The constructs of which no program was made, though some could be."""
    return sorted(known() - {*run.counts, *UNREACHED})


def _failure(failure: Failure) -> dict:
    return {"kind": failure.kind, "where": failure.where, "cause": failure.cause, "why": failure.why}


def _as_dict(run: Run, founds: list[Found], executors: Executors) -> dict:
    return {
        "programs": run.programs,
        "seconds": round(run.seconds, 3),
        "programs_per_minute": round(run.per_minute, 1),
        "interrupted": run.interrupted,
        "gpu": executors.gpu,
        "rejected": sorted(run.rejected),
        "rejects_too_many": run.rejects_too_many,
        "faults": {str(seed): code for seed, code in sorted(run.faults.items())},
        "unfinished": [{"seed": seed, **vars(found)} for seed, found in sorted(run.unfinished.items())],
        "failures": [_failure(f.failure) | {"seeds": f.seeds, "file": f.path, "lines": f.lines} for f in founds],
        "counts": dict(sorted(run.counts.items())),
        "never": _never(run),
    }
