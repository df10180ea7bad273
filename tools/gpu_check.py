"""The GPU record: run everything that needs a GPU and write what came out to tools/results/gpu.json.

    python tools/gpu_check.py            on a machine with a GPU: every sample against the flat interpreter (to the bit where
                                         the language fixes every bit) and its reference, `pytest -m gpu`, and every sample
                                         under compute-sanitizer's memcheck and racecheck
    python tools/gpu_check.py --fresh    anywhere: emit every sample again and exit 0 if the record is of this code and every
                                         case of it passed; says how many GPU tests failed

A case's key is the hash of its emitted CUDA text (without line directives), its launch attributes and `gpu_case.py`, so an
edit of a comment stales nothing and a changed kernel always does.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import platform
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from gpu_case import HARNESS, check, compiled_case, key, microseconds, sample_names, sanitize

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "gpu.json"
LIMIT = 150  # seconds for the GPU tests
WORKERS = 8
VERSIONS = ("numpy", "cuda-bindings", "pycuda", "lark")


def fresh() -> int:
    """0 if the committed record is of this code and every case of it passed."""
    if not RECORD.exists():
        print(f"{RECORD.relative_to(ROOT)} is missing: run tools/gpu_check.py on a machine with a GPU")
        return 1
    record = json.loads(RECORD.read_text())
    now = {case: key(compiled_case(case, record["arch"]), HARNESS) for case, _, _ in sample_names()}
    then = {case: row["key"] for case, row in record["cases"].items()}
    stale = sorted(case for case in now.keys() | then.keys() if now.get(case) != then.get(case))
    bad = failures(record)
    print(f"{len(now) - len(stale)} of {len(now)} recorded kernels are current; recorded on {record['device']}")
    print(f"{record['passed']} GPU tests passed, {record['failed']} failed")
    for line in bad:
        print(f"failed: {line}")
    if stale:
        print(f"stale: {', '.join(stale)}: run tools/gpu_check.py on a machine with a GPU")
    return 1 if stale or bad else 0


def failures(record: dict) -> list[str]:
    """What is wrong with the cases of a record."""
    found = []
    for case, row in record["cases"].items():
        found += [f"{case}: {problem}" for problem in row["problems"]]
        found += [f"{case}: {tool}: {said}" for tool, said in row["sanitizer"].items() if said != "0 errors"]
    return found


def gpu_tests() -> tuple[int, int]:
    """(passed, failed) of `pytest -m gpu`; a run that does not end in LIMIT seconds counts as a failure."""
    options = ["-m", "gpu", f"-n{WORKERS}", "-p", "no:cacheprovider", "-W", "default", "--durations=8"]
    command = [sys.executable, "-m", "pytest", *options, str(ROOT / "tests")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        print((late.stdout or b"").decode()[-3000:], f"the GPU tests did not end in {LIMIT} s")
        return 0, 1
    print(done.stdout[-6000:], done.stderr[-1000:])
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0) + (done.returncode not in (0, 1))


def record() -> int:
    from vxc.cuda.nvrtc import nvrtc_version
    from vxc.runtime.driver import driver, unavailable
    from vxc.target import for_capability

    reason = unavailable()
    if reason:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 4
    cuda = driver()
    arch = for_capability(cuda.capability(0)).name
    names = [case for case, _, _ in sample_names()]
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        rows = dict(zip(names, pool.map(check, names, [arch] * len(names)), strict=True))
    for case in names:  # alone on the device
        rows[case]["microseconds"] = microseconds(case, arch)
    with ThreadPoolExecutor(WORKERS) as pool:
        tests = pool.submit(gpu_tests)
        for case, said in zip(names, pool.map(sanitize, names), strict=True):
            rows[case]["sanitizer"] = said
        passed, failed = tests.result()
    versions = {"python": platform.python_version(), "nvrtc": ".".join(map(str, nvrtc_version()))}
    versions |= {name: importlib.metadata.version(name) for name in VERSIONS if _installed(name)}
    whole = {
        "device": cuda.device_name(0),
        "arch": arch,
        "driver": ".".join(map(str, cuda.driver_version())),
        "bindings": type(cuda).__name__,
        "versions": versions,
        "passed": passed,
        "failed": failed,
        "cases": rows,
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(whole, indent=1) + "\n")
    bad = failures(whole)
    print("\n".join(bad))
    print(f"{whole['device']}: {passed} GPU tests passed, {failed} failed; {len(rows)} samples; {len(bad)} problems")
    return 1 if bad or failed else 0


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="check the committed record against this code; needs no GPU")
    sys.exit(fresh() if parser.parse_args().fresh else record())
