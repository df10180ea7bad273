"""What bounds a kernel at full size, and what its best peer: Nsight Compute on cases of `bench.py`.

    python tools/ncu_rows.py [--case NAME ..]    on a machine with a GPU and `ncu`: vxc and the best peer of each case, under ncu; writes
                                                 results/ncu_rows.json and prints it as a table. Exit 3 if one did not run, 4 without
                                                 GPU or ncu
    python tools/ncu_rows.py --fresh             anywhere: exit 1 if the record is not of this code

Without names, the cases of the table of the README whose ratio to the best peer is less than expected. A row has the `case`, the `impl`,
the `kernels` that ran, their `us` in all, and of the longest of them the `METRICS` and what its warps wait for most (`stall`, with the
cycles for each instruction that they issue); `key` as in results/bench.jsonl. ncu empties the caches before each kernel.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benching.cases import CASES, Case, kernel
from benching.ending import Stopped, end, gpu
from benching.record import key_now, recorded
from benching.table import EXPECTED, best_peer, by_case, ratio
from benching.timing import arrays, caller

from vxc.cuda.nvrtc import compile_cuda
from vxc.runtime.arrays import write_file
from vxc.runtime.driver import driver
from vxc.runtime.parameters import pack

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "ncu_rows.json"
STALE, FAILED = 1, 3
LIMIT = 300  # seconds
MARK = "next_of_ncu_rows"  # a kernel that does nothing and runs before each implementation
TIME = "gpu__time_duration.sum"
METRICS = {
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_hit": "lts__t_sector_hit_rate.pct",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
}
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    _STALL.format(name): name
    for name in ("long_scoreboard", "short_scoreboard", "barrier", "lg_throttle", "mio_throttle", "math_pipe_throttle", "wait", "drain")
}
Seen = dict[str, float]  # by counter


def behind(rows: Iterable[dict]) -> list[Case]:
    """The cases whose ratio to the best peer is less than what was expected, by a record of bench.py."""
    found = by_case(rows)
    cases = [case for case in CASES if case.static and case.name in EXPECTED and (case.suite, case.name) in found]
    return [case for case in cases if _ratio(found[case.suite, case.name]) < EXPECTED[case.name]]


def _ratio(impls: dict[str, dict]) -> float:
    found = ratio(best_peer(impls), impls["vxc"])
    return 1.0 if found is None else found


def both(cases: Sequence[Case]) -> list[tuple[Case, str]]:
    """Each case with vxc, and with its best peer by the record of bench.py."""
    found = by_case(recorded())
    peers = [best_peer(found.get((case.suite, case.name), {})) for case in cases]
    return [(case, impl) for case, peer in zip(cases, peers) for impl in ("vxc", *([peer["impl"]] if peer else []))]


def launch_all(cases: Sequence[Case]) -> int:
    """Everything once, as ncu watches; compiled before it does."""
    arch, cuda = gpu(), driver()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch

    torch.cuda.init()
    with cuda.active(0):
        mark = cuda.function(cuda.load(compile_cuda(f'extern "C" __global__ void {MARK}() {{}}', "mark.cu", arch).cubin), MARK)
    for case, impl in both(cases):
        made = kernel(case, arch)
        call, _ = caller(impl, case, made, arrays(case, made), None)
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        cuda.launch(mark, (1, 1, 1), (1, 1, 1), 0, torch.cuda.current_stream().cuda_stream, pack([]))
        call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        del call
    return 0


def measured(text: str) -> list[list[tuple[str, Seen]]]:
    """Of each implementation its kernels in order, with their counters, from the output of `ncu --csv`."""
    found: dict[str, tuple[str, Seen]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        found.setdefault(row["ID"], (row["Kernel Name"].split("(")[0], {}))[1][row["Metric Name"]] = _number(row)
    runs: list[list[tuple[str, Seen]]] = []
    for name, seen in found.values():
        if name == MARK:
            runs.append([])
        elif runs:
            runs[-1].append((name, seen))
    return runs


def _number(row: dict[str, str]) -> float:
    """A metric; of a time, in microseconds."""
    units = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
    return float(row["Metric Value"].replace(",", "")) * units.get(row["Metric Unit"], 1.0)


def line(case: Case, impl: str, kernels: Sequence[tuple[str, Seen]], arch: str) -> dict:
    """The row of an implementation."""
    _, longest = max(kernels, key=lambda kernel: kernel[1][TIME])
    stall = max(STALLS, key=lambda name: longest[name])
    return {
        "suite": case.suite, "case": case.name, "impl": impl, "kernels": [name for name, _ in kernels],
        "us": round(sum(seen[TIME] for _, seen in kernels), 2), **{name: round(longest[at], 1) for name, at in METRICS.items()},
        "stall": STALLS[stall], "cycles": round(longest[stall], 1), "key": key_now(case, {"impl": impl, "arch": arch}),
    }  # fmt: skip


def markdown(whole: dict) -> str:
    """The table: percentages of the peak, of L2's sectors that hit, of the warps that fit, of the cycles that issue an instruction."""
    head = ("case", "of", "us", "memory", "L2", "L2 hits", "occupancy", "issue", "registers", "most waited for, cycles")
    shown = [
        (r["case"], r["impl"], f"{r['us']:.1f}", *(f"{r[name]:.0f}" for name in METRICS), f"{r['stall']} {r['cycles']:.1f}")
        for r in whole["rows"]
    ]
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *shown)]
    return "\n".join([f"{whole['device']}.", "", lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def record(cases: Sequence[Case]) -> int:
    arch = gpu()
    counters = ",".join([TIME, *METRICS.values(), *STALLS])
    command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--target-processes", "application-only", "--csv"]
    command += ["--metrics", counters, sys.executable, __file__, "--launch", "--case", *(case.name for case in cases)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    except FileNotFoundError:
        raise Stopped("ncu is not installed: it is part of the CUDA toolkit") from None
    except subprocess.TimeoutExpired:
        raise Stopped(f"ncu did not end in {LIMIT} s: does anybody else profile on this device?") from None
    wanted, runs = both(cases), measured(done.stdout)
    rows = [line(*which, kernels, arch) for which, kernels in zip(wanted, runs) if kernels]
    whole = {"device": driver().device_name(0), "arch": arch, "rows": together(recorded_rows().get("rows", []), rows)}
    print(markdown(whole))
    write_file(str(RECORD), lambda file: file.write((json.dumps(whole, indent=1) + "\n").encode()))
    missed = sum(not kernels for kernels in runs) + len(wanted) - len(runs)
    if missed:
        print(f"{missed} of {len(wanted)} did not run:\n{(done.stdout + done.stderr)[-2000:]}", file=sys.stderr)
        return FAILED
    return 0


def together(old: Iterable[dict], new: Sequence[dict]) -> list[dict]:
    """The new rows, and the old ones of other cases that there still are, in the order of `CASES`."""
    order = [(case.suite, case.name) for case in CASES]
    ran = {(row["suite"], row["case"]) for row in new}
    kept = [row for row in old if (row["suite"], row["case"]) in set(order) - ran]
    return sorted([*kept, *new], key=lambda row: order.index((row["suite"], row["case"])))


def recorded_rows() -> dict:
    """The record, {} if there is none."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def fresh() -> int:
    """0 if the record is of this code, and of all cases that are behind."""
    whole = recorded_rows()
    rows = whole.get("rows", [])
    known = {(case.suite, case.name): case for case in CASES}
    old = [r for r in rows if (r["suite"], r["case"]) not in known or r["key"] != key_now(known[r["suite"], r["case"]], r | whole)]
    have = {(row["suite"], row["case"]) for row in rows}
    missing = [case.name for case in behind(recorded()) if (case.suite, case.name) not in have]
    print(f"{len(rows) - len(old)} of {len(rows)} rows are current; recorded on {whole.get('device', 'no device')}")
    for what, names in (("stale", [f"{row['case']} {row['impl']}" for row in old]), ("missing", missing)):
        if names:
            print(f"{what}: {', '.join(names)}: run tools/ncu_rows.py on a machine with a GPU")
    return STALE if old or missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", default=[], metavar="NAME", help="cases of bench.py whose shape is known to the compiler")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fresh", action="store_true", help="check the committed record against this code; needs no GPU")
    what.add_argument("--launch", action="store_true", help="run everything once, for ncu to watch")
    options = parser.parse_args()
    named = {case.name: case for case in CASES if case.static}
    for unknown in set(options.case) - set(named):
        parser.error(f"there is no case `{unknown}`: {', '.join(named)}")
    if options.fresh:
        return fresh()
    chosen = [named[name] for name in options.case] or behind(recorded())
    return launch_all(chosen) if options.launch else record(chosen)


if __name__ == "__main__":
    end(main)
