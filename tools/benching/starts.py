"""The lines of first calls in the record: what `first_call.py` measures in a process that has imported nothing yet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from benching.cases import FIRST_CALLS, Calls
from benching.record import calls_facts

SCRIPT = Path(__file__).parent / "first_call.py"
SAID = {"vxc": "vxc", "cupy": "CuPy, a kernel written in CUDA", "triton": "Triton"}


def measured(case: Calls) -> tuple[list[dict], list[str]]:
    """(a line for each implementation that could be called, what is wrong with the others)."""
    figures, problems, device = _figures()
    kind = case.name.split("_")[2]
    return [line(case, impl, found[kind], device) for impl, found in figures.items()], list(problems)


@cache
def _figures() -> tuple[dict[str, dict[str, float]], tuple[str, ...], str]:
    """By implementation its seconds `cold` and `warm`, what is wrong with others, and the device: of one run for both cases."""
    run = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    if run.returncode:
        return {}, (f"first calls: {run.stderr.strip().splitlines()[-1]}",), ""
    found = json.loads(run.stdout)
    return found["seconds"], tuple(found["problems"]), found["device"]


def line(case: Calls, impl: str, seconds: float, device: str) -> dict:
    known = {"suite": case.suite, "case": case.name, "impl": impl, "s": round(seconds, 4)}
    return {**known, "device": device, **calls_facts(case.suite, impl)}


def markdown(rows: Iterable[dict]) -> str:
    """The table of the README; "" for no lines."""
    seconds = {(row["case"], row["impl"]): f"{row['s']:.3f}" for row in rows if row["suite"] == "start"}
    head = ["| | empty cache, s | full cache, s |", "|---|---|---|"]
    cells = [(said, *(seconds.get((case.name, impl), "") for case in FIRST_CALLS)) for impl, said in SAID.items()]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in cells if any(row[1:]))]) + "\n" if seconds else ""
