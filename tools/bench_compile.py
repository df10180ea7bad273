"""What compiling costs, without NVRTC, and whether it keeps its limits: one line for each measurement.

    python tools/bench_compile.py [--rounds N] [--json]

`import` and `check` are whole processes less a bare one (`check` less `import numpy`); `samples` are front end and all
passes, warm; `statements` a kernel of straight-line statements, up to emitted text, and what doubling it costs. All of it is
processor time, and each figure the least of several runs in each of N rounds, since what else the machine does only adds to
it (as much again, where it keeps both threads of a core busy). Exit status: 0 if every limit holds, 3 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benching.ending import end

from vxc.diag import read_source
from vxc.driver import compile
from vxc.source import Source

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, RUNS = 5, 7
MISSED = 3
ONCE, TWICE = "5,000 statements, to CUDA text", "10,000 statements, to CUDA text"


class Row(NamedTuple):
    """A figure in `unit`, at most `limit` where all is well."""

    what: str
    figure: float
    unit: str
    limit: float

    @property
    def holds(self) -> bool:
        return self.figure <= self.limit

    def __str__(self) -> str:
        verdict = "" if self.holds else "  MISSED"
        return f"{self.what:56} {self.figure:8.2f} {self.unit:2}  limit {self.limit:g} {self.unit}{verdict}"


def least(run: Callable[[], object], runs: int = RUNS, clock: Callable[[], float] = time.process_time) -> float:
    """The least time of some runs, in seconds."""
    times = []
    for _ in range(runs):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def children() -> float:
    """Processor time of all processes that have been started and have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def process(*command: str) -> float:
    """The least time of a command, in milliseconds."""
    run = [sys.executable, *command]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # modules that changed would be compiled each time
    return 1e3 * least(lambda: subprocess.run(run, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, env=env), clock=children)


def straight_line(count: int) -> Source:
    lines = "\n".join(f"        y[i] = y[i] * {k % 7 + 1}.5 + x[i];" for k in range(count))
    return Source("long.vx", f"kernel long(x: f32[N], inout y: f32[N]) {{\n    parallel i in N {{\n{lines}\n    }}\n}}\n")


def measured(samples: Iterable[Path]) -> Iterator[Row]:
    """One round."""
    bare, numpy = process("-c", "pass"), process("-c", "import numpy")
    yield Row("import vxc", process("-c", "import vxc") - bare, "ms", 60)
    yield Row("vxc check samples/softmax.vx, above import numpy", process("-m", "vxc", "check", "samples/softmax.vx") - numpy, "ms", 350)
    for path in samples:
        source = read_source(path)
        compile(source)
        yield Row(f"samples/{path.name}, front end and passes", 1e3 * least(lambda: compile(source)), "ms", 40)
    for count, what in ((5000, ONCE), (10000, TWICE)):
        yield Row(what, least(lambda: compile(straight_line(count)).cuda, runs=2), "s", count / 500)


def best(rounds: Iterable[Iterable[Row]]) -> list[Row]:
    """The least of each line over all rounds, and what doubling then costs."""
    found: dict[str, Row] = {}
    for row in (row for rows in rounds for row in rows):
        found[row.what] = min(row, found.get(row.what, row), key=lambda r: r.figure)
    return [*found.values(), Row(f"{TWICE}, against half of them", found[TWICE].figure / found[ONCE].figure, "x", 2.2)]


def report(rows: list[Row], rounds: int, as_json: bool) -> int:
    """Print the lines and the verdict; gives the exit status."""
    missed = [row.what for row in rows if not row.holds]
    if as_json:
        lines = [{**row._asdict(), "holds": row.holds} for row in rows]
        print(json.dumps({"rounds": rounds, "holds": not missed, "rows": lines}, indent=1))
    else:
        print(*rows, sep="\n")
        verdict = f"{len(missed)} of {len(rows)} limits missed: {'; '.join(missed)}" if missed else f"all {len(rows)} limits hold"
        print(f"{verdict} (the least of {rounds} round{'s' * (rounds > 1)})")
    return MISSED if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/bench_compile.py", description="Measure what compiling costs against its limits.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"measure everything so many times (default {ROUNDS})")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("there is at least one round")
    samples = sorted((ROOT / "samples").glob("*.vx"))
    return report(best(measured(samples) for _ in range(options.rounds)), options.rounds, options.json)


if __name__ == "__main__":
    end(main)
