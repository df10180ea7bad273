"""The lines of tuned kernels in the record, and their table: what `tuned.py` measures in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from benching.cases import TUNINGS, Tuning
from benching.ending import gpu
from benching.record import tuning_key

SCRIPT = Path(__file__).parent / "tuned.py"


def measured(case: Tuning) -> tuple[list[dict], list[str]]:
    """(the line of the case, what is wrong)."""
    arch = gpu()
    found, problems, device = _found(arch)
    lines = [line(case, found[case.name], device, arch)] if case.name in found else []
    return lines, [] if lines else [problem for problem in problems if problem.startswith((case.name, "tuning: "))]


@cache
def _found(arch: str) -> tuple[dict[str, dict[str, Any]], tuple[str, ...], str]:
    """By case what was found, what is wrong with others, and the device: of one run for all cases."""
    run = subprocess.run([sys.executable, SCRIPT, arch], capture_output=True, text=True)
    if run.returncode:
        return {}, (f"tuning: {run.stderr.strip().splitlines()[-1]}",), ""
    made = json.loads(run.stdout)
    return made["found"], tuple(made["problems"]), made["device"]


def line(case: Tuning, found: dict[str, Any], device: str, arch: str) -> dict:
    """One line. Of all configurations some were `timed` to the end, some `dropped` after a first timing, some `refused` before it."""
    rows, chosen = found["entry"]["rows"], found["entry"]["chosen"]
    timed = sum(row["milliseconds"] is not None for row in rows)
    dropped = sum(row["said"].startswith("dropped") for row in rows)
    return {
        "suite": case.suite, "case": case.name, "impl": "vxc",
        "plain_ms": round(found["plain_ms"], 5), "tuned_ms": round(found["tuned_ms"], 5),
        "tried": len(rows), "timed": timed, "dropped": dropped, "refused": len(rows) - timed - dropped,
        "seconds": round(found["seconds"], 3), "cached_s": round(found["cached_s"], 4), "relerr": float(f"{found['relerr']:.3g}"),
        "device": device, "sample": case.case.path, "arch": arch,
        "flags": " ".join(f"-D {name}={value}" for name, value in chosen.items()), "key": tuning_key(case, arch),
    }  # fmt: skip


def markdown(rows: Iterable[dict]) -> str:
    """The table; "" for no lines."""
    known = {(case.suite, case.name) for case in TUNINGS}
    mine = [row for row in rows if (row["suite"], row["case"]) in known]
    head = ("case", "as written, ms", "tuned, ms", "chosen", "tried", "timed", "dropped", "refused", "seconds", "from the cache, s")
    shown = [
        (row["case"], f"{row['plain_ms']:.4f}", f"{row['tuned_ms']:.4f}", f"`{row['flags'].replace('-D ', '')}`",
         *(str(row[name]) for name in ("tried", "timed", "dropped", "refused")), f"{row['seconds']:.1f}", f"{row['cached_s']:.3f}")
        for row in mine
    ]  # fmt: skip
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *shown)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n" if mine else ""
