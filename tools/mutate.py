"""Planted faults: is each noticed? Writes tools/results/mutants.json (`total`, `caught`, a row for each).

    python tools/mutate.py [-j N]               all of tools/mutants, N at a time
    python tools/mutate.py --only NAME ...      those; nothing is written
    python tools/mutate.py --only NAME ... --update     those; their rows in the record are replaced

Each fault is planted in a copy of the repository, never in place; at any time a copy holds one fault at most. The tests named
with it must pass without it, and run first; if all still pass, generated programs run after every pass, for two minutes.
`by` says what noticed: the test, or the seed of the program. A test that no longer ends has noticed too; a fault that merely
crashes is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from benching.ending import end
from mutants import MUTANTS, Mutant

from vxc.runtime.arrays import write_file

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "mutants.json"
COPIED = ("grammar", "samples", "tests", "tools", "vxc", "pyproject.toml")
LIMIT = 120  # seconds of generated programs
CRASH = re.compile(r"(?:program \d+, )?(?:Name|UnboundLocal|Attribute|Type|Recursion)Error\b")  # of the planted text itself
DIFFERS = 3  # exit status of a hunt that found something, and of a run with a fault that nothing noticed

Item, Result = TypeVar("Item"), TypeVar("Result")


class Unusable(Exception):
    """A fault, or a test, that cannot show anything."""


class Row(NamedTuple):
    """One fault and what noticed it; `by` is "" where nothing did."""

    name: str
    file: str
    breaks: str
    by: str
    seconds: float


class Failure(NamedTuple):
    test: str
    why: str  # pytest's short form, for people to see that the right thing failed


# ---- one fault -------------------------------------------------------------------------------------------------------


def try_mutant(mutant: Mutant, copy: Path, whole: dict[str, float]) -> tuple[Row, str]:
    """Plant the fault in the copy, look who notices, and take it out again. `whole` says how long each test takes without it."""
    path = copy / "vxc" / mutant.file
    right = path.read_text("utf-8")
    if right.count(mutant.old) != 1:
        raise Unusable(f"{mutant.name}: its text occurs {right.count(mutant.old)} times in vxc/{mutant.file}")
    started = time.monotonic()
    path.write_text(right.replace(mutant.old, mutant.new), "utf-8")
    try:
        failure = failing_test(mutant.tests, copy, 60 + 10 * sum(whole[test] for test in mutant.tests))
        by = failure.test if failure else failing_program(copy)
    finally:
        path.write_text(right, "utf-8")
    row = Row(mutant.name, f"vxc/{mutant.file}", mutant.breaks, by, round(time.monotonic() - started, 1))
    why = failure.why if failure else ""
    if CRASH.match(why or by):
        raise Unusable(f"{mutant.name} is a crash, which any test notices: {why or by}")
    return row, why


def failing_test(tests: tuple[str, ...], copy: Path, limit: float) -> Failure | None:
    """The first of the tests that fails in the copy. Raises Unusable where they cannot run: that shows nothing about what they test."""
    command = ("-m", "pytest", "-x", "-q", "-n0", "--tb=line", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests))
    done = in_copy(copy, limit, *command)
    if done is None:
        return Failure(tests[0], f"does not end in {limit:.0f} s")
    found = re.search(r"^FAILED (?:tests/)?(.+?)(?: - (.*))?$", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(found):
        raise Unusable(f"pytest {' '.join(tests)}:\n{done.stdout}{done.stderr}")
    return Failure(found[1], found[2] or "") if found else None


def failing_program(copy: Path) -> str:
    """The first generated program on which executors differ in the copy, or ""."""
    done = in_copy(copy, 2 * LIMIT, "tools/mutate.py", "--hunt")
    return done.stdout.strip() if done is not None and done.returncode == DIFFERS else ""


def in_copy(copy: Path, limit: float, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run Python on the copy's sources; None if it does not end in time."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    try:
        return subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None


def hunt() -> int:
    """Generated programs on every prefix of the pipeline until two executors differ, or the time is over."""
    from vxc.diff import disagreements, prefix_executors
    from vxc.driver import compile
    from vxc.fuzz.gen import generate
    from vxc.source import Source

    started = time.monotonic()
    for seed in count():
        if time.monotonic() - started > LIMIT:
            return 0
        program = generate(seed)
        try:
            executors = prefix_executors(compile(Source("k.vx", program.text)))
            found = next(disagreements(executors, {"its arguments": program.call()}, seed), None)
            what = found and f"after {found.pair[1]}"
        except Exception as error:  # a fault may show as anything; what the compiler refuses counts unless it cannot tell
            what = None if "E0313" in str(error) else type(error).__name__
        if what:
            print(f"program {seed}, {what}")
            return DIFFERS
    return 0


# ---- all of them -----------------------------------------------------------------------------------------------------


def in_turn(work: Callable[[Item, Path], Result], items: Iterable[Item], copies: SimpleQueue[Path], jobs: int) -> Iterator[Result]:
    """`work` on every item in a copy that no other item uses, `jobs` at a time; results as they come."""

    def run(item: Item) -> Result:
        copy = copies.get()
        try:
            return work(item, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run, item) for item in items]
        try:
            for done in as_completed(running):
                yield done.result()
        finally:
            for waiting in running:
                waiting.cancel()


def time_whole(mutants: list[Mutant], copies: SimpleQueue[Path], jobs: int) -> dict[str, float]:
    """The seconds that each named test takes without a fault. It must pass: else nothing that fails says anything."""

    def seconds(test: str, copy: Path) -> tuple[str, float]:
        started = time.monotonic()
        failure = failing_test((test,), copy, 3600)
        if failure:
            raise Unusable(f"{failure.test} fails without any fault: {failure.why}")
        return test, time.monotonic() - started

    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    whole: dict[str, float] = {}
    for test, taken in in_turn(seconds, tests, copies, jobs):
        whole[test] = taken
        print(f"without a fault {len(whole):3} of {len(tests)}  {taken:6.1f} s  {test}", flush=True)
    return whole


def rows_of(mutants: list[Mutant], jobs: int) -> list[Row]:
    """Try the faults, each in one of `jobs` copies, and tell how it goes."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="vxc-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copied(Path(folder) / str(number)))
        whole = time_whole(mutants, copies, jobs)
        for row, why in in_turn(lambda mutant, copy: try_mutant(mutant, copy, whole), mutants, copies, jobs):
            rows.append(row)
            text = f"{row.by or 'NOT CAUGHT'}{': ' * bool(why)}{why}"
            print(f"{len(rows):3} of {len(mutants)}  {row.name:32} {row.seconds:6.1f} s  {text}", flush=True)
    return rows


def copied(copy: Path) -> Path:
    """What the tests need of the repository, at `copy`."""
    for name in COPIED:
        source, target = ROOT / name, copy / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return copy


def record_of(rows: Iterable[Row]) -> dict:
    """The record of these rows, the last of a name counting, in the order of the table; names that it has no more are left out."""
    by_name = {row.name: row for row in rows}
    kept = [by_name[m.name]._asdict() for m in MUTANTS if m.name in by_name]
    return {"total": len(kept), "caught": sum(bool(row["by"]) for row in kept), "rows": kept}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/mutate.py", description="Plant faults and see that each is noticed.")
    parser.add_argument("-j", dest="jobs", type=int, default=1, metavar="N", help="faults at a time, each in its own copy")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[m.name for m in MUTANTS], help="these faults; write no record")
    parser.add_argument("--update", action="store_true", help="with --only: replace their rows in the record")
    parser.add_argument("--hunt", action="store_true", help="only run generated programs on the sources as they are")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("-j takes a number from 1 up")
    if options.update and not options.only:
        parser.error("--update is for --only: a run of all faults writes the whole record")
    if options.hunt:
        return hunt()
    try:
        rows = rows_of([m for m in MUTANTS if not options.only or m.name in options.only], options.jobs)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    missed = [row.name for row in rows if not row.by]
    print(f"{len(rows) - len(missed)} of {len(rows)} caught{': not ' * bool(missed)}{', '.join(missed)}")
    if options.update or not options.only:
        before = [Row(**row) for row in json.loads(RECORD.read_text())["rows"]] if options.update and RECORD.exists() else []
        text = json.dumps(record_of([*before, *rows]), indent=2) + "\n"
        RECORD.parent.mkdir(exist_ok=True)
        write_file(str(RECORD), lambda file: file.write(text.encode()))
    return DIFFERS if missed else 0


if __name__ == "__main__":
    end(main)
