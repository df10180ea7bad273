"""Planted faults: is each noticed? Writes tools/results/mutants.json (`total`, `caught`, a row for each).

    python tools/mutate.py                      all of tools/mutants.py
    python tools/mutate.py --only NAME ...      those; nothing is written

Each fault is planted in a copy of the repository, never in place. The tests named with it run there first; if all pass, generated
programs run after every pass, for two minutes. `by` says what noticed: the test, or the seed of the program.
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
from itertools import count
from pathlib import Path
from typing import NamedTuple

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "mutants.json"
COPIED = ("grammar", "samples", "tests", "tools", "vxc", "pyproject.toml")
LIMIT = 120  # seconds for either way of noticing
DIFFERS = 3  # exit status of a hunt that found something


class Row(NamedTuple):
    """One fault and what noticed it; `by` is "" where nothing did."""

    name: str
    file: str
    breaks: str
    by: str
    seconds: float


def try_mutant(mutant: Mutant, copy: Path) -> Row:
    """Plant the fault in the copy, look who notices, and take it out again."""
    path = copy / "vxc" / mutant.file
    right = path.read_text()
    if right.count(mutant.old) != 1:
        sys.exit(f"{mutant.name}: its text occurs {right.count(mutant.old)} times in vxc/{mutant.file}")
    path.write_text(right.replace(mutant.old, mutant.new))
    started = time.monotonic()
    by = failing_test(mutant.tests, copy) or failing_program(copy)
    path.write_text(right)
    return Row(mutant.name, f"vxc/{mutant.file}", mutant.breaks, by, round(time.monotonic() - started, 1))


def failing_test(tests: tuple[str, ...], copy: Path) -> str:
    """The id of the first of the tests that fails in the copy, or ""."""
    done = in_copy(copy, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests))
    if done is None:
        return f"{tests[0]} (does not end)"
    found = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode > 1 and not found:
        sys.exit(f"pytest {' '.join(tests)}:\n{done.stdout}{done.stderr}")
    return found[1] if found else ""


def failing_program(copy: Path) -> str:
    """The first generated program on which executors differ in the copy, or ""."""
    done = in_copy(copy, "tools/mutate.py", "--hunt")
    return done.stdout.strip() if done is not None and done.returncode == DIFFERS else ""


def in_copy(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run Python on the copy's sources; None if it does not end in time."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT + 30)
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


def check_whole(mutants: list[Mutant], copy: Path) -> None:
    """Without a fault every named test must pass: else nothing that fails says anything."""
    for test in dict.fromkeys(test for mutant in mutants for test in mutant.tests):
        failed = failing_test((test,), copy)
        if failed:
            sys.exit(f"{failed} fails without any fault")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/mutate.py", description="Plant faults and see that each is noticed.")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[m.name for m in MUTANTS], help="these faults; write no record")
    parser.add_argument("--hunt", action="store_true", help="only run generated programs on the sources as they are")
    options = parser.parse_args()
    if options.hunt:
        return hunt()
    chosen = [m for m in MUTANTS if not options.only or m.name in options.only]
    with tempfile.TemporaryDirectory(prefix="vxc-mutants-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source, ignored = ROOT / name, shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / name, ignore=ignored) if source.is_dir() else shutil.copy(source, copy / name)
        check_whole(chosen, copy)
        rows = []
        for mutant in chosen:
            rows.append(try_mutant(mutant, copy))
            print(f"{rows[-1].name:32} {rows[-1].seconds:6} s  {rows[-1].by or 'NOT CAUGHT'}", flush=True)
    caught = sum(bool(row.by) for row in rows)
    print(f"{caught} of {len(rows)} caught")
    if not options.only:
        record = {"total": len(rows), "caught": caught, "rows": [row._asdict() for row in rows]}
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if caught == len(rows) else 3


if __name__ == "__main__":
    sys.exit(main())
