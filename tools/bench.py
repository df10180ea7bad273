"""Time kernels of vxc, and calls of them from Python, beside their peers on one GPU, in one process.

    python tools/bench.py [SUITE ..] [--case NAME ..] [--reference DIR]     time them; write results/bench.jsonl
    python tools/bench.py [SUITE ..] [--case NAME ..] --fresh               anywhere: is the record of this code?
    python tools/bench.py --plot                                            anywhere: draw results/bench.png from the record

Without a suite and a name, all that there are. How times are taken is at the top of `benching/timing.py`, cases and peers in
`benching/cases.py`; what calls cost the host is the suite `launch`, in `benching/launches.py`, what first ones do the suite `start`, in
`benching/starts.py`, and what tuning finds the suite `tune`, in `benching/tunings.py`. The lines of the cases that ran are replaced in the
record, the others kept. Hand-written kernels are no part of this repository: without the folder that has them, their
lines stay as they were.

Exit status: 0 if all is well, 1 for a record that is not of this code, 2 for what was not asked right, 3 if an implementation
failed or gave a wrong result, 4 without a GPU, or for --plot without matplotlib.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import groupby
from pathlib import Path

from benching import launches, starts, tunings
from benching.cases import EVERY, FIRST_CALLS, SUITES, Case, Kernel, Timed, Tuning, kernel
from benching.ending import USAGE, Stopped, end, gpu, needed
from benching.record import recorded, replaced, stale, write
from benching.table import PLOT, bars, plot
from benching.timing import measured

STALE, FAILED = 1, 3


def chosen(suites: list[str], names: list[str]) -> list[Timed]:
    return [case for case in EVERY if (not suites or case.suite in suites) and (not names or case.name in names)]


def fresh(cases: list[Timed]) -> int:
    rows = recorded()
    bad = stale(rows, cases)
    total = sum(len(case.impls) for case in cases)
    devices = ", ".join(sorted({row["device"] for row in rows})) or "no device"
    print(f"{total - len(bad)} of {total} lines are current; recorded on {devices}")
    for (why, case), lines in groupby(bad, lambda found: found[:2]):
        print(f"{why}: {case.suite} {case.name}: {', '.join(impl for _, _, impl in lines)}")
    if bad:
        print("run tools/bench.py on a machine with a GPU")
    return STALE if bad else 0


def run(cases: list[Timed], reference: Path | None) -> int:
    arch = gpu()
    needed("torch")
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        kernels = [pool.submit(compiled, case, arch) if isinstance(case, Case) else None for case in cases]
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a case is one kernel: more processes would only start
        import_module("torch")  # takes a while, in which the others compile
        made = [found and found.result() for found in kernels]
    return timed(cases, made, measure, reference)


def compiled(case: Case, arch: str) -> Kernel:
    """The kernel of vxc; what Triton makes of the case is in its cache then. In a process of its own."""
    made = kernel(case, arch)
    import_module("benching.ahead").compile_triton(case, made)
    return made


def measure(case: Timed, made: Kernel | None, reference: Path | None) -> tuple[list[dict], list[str]]:
    """(lines, what is wrong)."""
    if isinstance(case, Tuning):
        return tunings.measured(case)
    if isinstance(case, Case):
        return measured(case, made, reference)
    return (starts if case in FIRST_CALLS else launches).measured(case)


def timed(
    cases: list[Timed], kernels: list[Kernel | None], measure: Callable[..., tuple[list[dict], list[str]]], reference: Path | None
) -> int:
    """Has each case measured; the record is written after each."""
    failed = 0
    for case, made in zip(cases, kernels, strict=True):
        lines, problems = measure(case, made, reference)
        write(replaced(recorded(), lines, [case], () if reference else ("reference",)))
        print(f"{case.suite} {case.name}: " + ", ".join(f"{row['impl']} {figure(row)}" for row in lines), flush=True)
        for problem in problems:
            print(f"failed: {problem}", file=sys.stderr, flush=True)
        failed += len(problems)
    left = sum("reference" in case.impls for case in cases) if not reference else 0
    if left:
        print(f"no --reference: the hand-written kernels of {left} cases did not run, and their lines are as they were")
    return FAILED if failed else 0


def figure(row: dict) -> str:
    shown = {"ms": ("{:.4f}", ""), "us": ("{:.2f}", " us"), "s": ("{:.3f}", " s"), "tuned_ms": ("{:.4f}", " tuned")}
    return next(text.format(row[unit]) + name for unit, (text, name) in shown.items() if unit in row)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/bench.py", description="Time kernels of vxc beside their peers on one GPU.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--case", nargs="+", default=[], metavar="NAME", help="only cases of these names")
    parser.add_argument("--reference", type=Path, metavar="DIR", help="the folder of hand-written kernels")
    parser.add_argument("--fresh", action="store_true", help="see whether the record is of this code; needs no GPU")
    parser.add_argument("--plot", action="store_true", help=f"draw {PLOT.name} from the record; needs no GPU")
    options = parser.parse_args()
    for unknown in set(options.suites) - set(SUITES):
        parser.error(f"there is no suite `{unknown}`: {', '.join(SUITES)}")
    for unknown in set(options.case) - {case.name for case in chosen(options.suites, [])}:
        parser.error(f"there is no case `{unknown}`: {', '.join(case.name for case in chosen(options.suites, []))}")
    if options.reference and not options.reference.is_dir():
        parser.error(f"{options.reference} is no folder")
    cases = chosen(options.suites, options.case)
    if options.plot:
        needed("matplotlib")
        rows = recorded()
        if not bars(rows):
            raise Stopped("the record has no case to draw: run tools/bench.py on a machine with a GPU", USAGE)
        plot(rows, PLOT)
        return 0
    return fresh(cases) if options.fresh else run(cases, options.reference)


if __name__ == "__main__":
    end(main)
