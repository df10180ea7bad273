"""The GPU record: run everything that needs a GPU and write what came out to tools/results/gpu.json.

    python tools/gpu_check.py            on a machine with a GPU: every sample against the flat interpreter (to the bit where
                                         the language fixes every bit) and its reference, `pytest -m gpu`, and every sample
                                         under compute-sanitizer's memcheck and racecheck
    python tools/gpu_check.py --several  on a machine with several GPUs: tests/test_api_two_gpus.py; writes tools/results/gpu2.json
    python tools/gpu_check.py --fresh    anywhere: emit every sample again and exit 0 if the record is of this code and every
                                         case of it passed; says how many GPU tests failed, and what the record of several GPUs says

A case's key is the hash of its emitted CUDA text (without line directives), its launch attributes and `gpu_case.py`, so an
edit of a comment stales nothing and a changed kernel always does. The record of several GPUs has two: the hash of its tests, and that of
the files that launching on several devices goes through. Few have two GPUs: with other tests it is stale, but with other files only older,
which is said and is no failure; a test of it that failed is.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import multiprocessing
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benching.ending import Stopped, end, gpu
from gpu_case import HARNESS, check, compiled_case, key, microseconds, sample_names, sanitize

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "gpu.json"
SEVERAL = ROOT / "tools" / "results" / "gpu2.json"
SEVERAL_TESTS = ROOT / "tests" / "test_api_two_gpus.py"
_API = ("calls", "devices", "dispatch", "dlpack", "front_text", "fronts", "host", "libraries", "owned", "prepared", "workspaces")
SEVERAL_CODE = (*sorted((ROOT / "vxc" / "runtime").glob("*.py")), *(ROOT / "vxc" / "api" / f"{name}.py" for name in _API))
OLDER = "older: recorded with other runtime files than these, so of an earlier launch path"
LIMIT = 150  # seconds for the GPU tests
WORKERS = 8
VERSIONS = ("numpy", "cuda-bindings", "pycuda", "lark", "torch", "cupy-cuda13x", "numba-cuda", "jax", "ml_dtypes")


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
    print(f"{record['passed']} GPU tests passed, {record['failed']} failed, {record['skipped']} skipped")
    for reason, count in record.get("skips", {}).items():
        print(f"skipped {count}: {reason}")
    for line in bad:
        print(f"failed: {line}")
    if stale:
        print(f"stale: {', '.join(stale)}: run tools/gpu_check.py on a machine with a GPU")
    several = fresh_of_several()
    return 1 if stale or bad or not several else 0


def fresh_of_several() -> bool:
    """Whether the record of several GPUs, if there is one, is of these tests and says that they passed; says whether it is of this code."""
    if not SEVERAL.exists():
        print("no record from two GPUs or more: the tests that need them did not run; gpu_check.py --several runs them")
        return True
    record = json.loads(SEVERAL.read_text())
    current = record["key"] == several_key()
    counts = f"{record['passed']} tests passed, {record['failed']} failed, {record['skipped']} skipped"
    print(f"on {len(record['devices'])} GPUs {counts}{'' if current else '; stale'}{'' if of_this_code(record) else f'; {OLDER}'}")
    return current and not record["failed"]


def several_key() -> str:
    return hashlib.sha256(SEVERAL_TESTS.read_bytes()).hexdigest()[:32]


def code_key() -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in SEVERAL_CODE)).hexdigest()[:32]


def of_this_code(record: dict) -> bool:
    """Whether a record of several GPUs was made with these runtime files; one without their key was not."""
    return record.get("code") == code_key()


def markdown_of_several(record: dict) -> str:
    """What the README says of the record of several GPUs."""
    counts = f"{record['passed']} passed and {record['failed']} failed"
    older = "" if of_this_code(record) else f";\nthat record is {OLDER}"
    return f"Of the tests that need two GPUs, on {len(record['devices'])} x {record['devices'][0]}, {counts}{older}.\n"


def failures(record: dict) -> list[str]:
    """What is wrong with the cases of a record."""
    found = []
    for case, row in record["cases"].items():
        found += [f"{case}: {problem}" for problem in row["problems"]]
        found += [f"{case}: {tool}: {said}" for tool, said in row["sanitizer"].items() if said != "0 errors"]
    return found


def markdown(record: dict) -> str:
    """What the README says of the record."""
    cases = record["cases"].values()
    agreed = sum(case["passed"] for case in cases)
    clean = sum(all(said == "0 errors" for said in case["sanitizer"].values()) for case in cases)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in record.get("skips", {}).items())
    why = f"\n({reasons})" if reasons else ""
    return (
        f"On {record['device']} {agreed} of {len(cases)} samples agreed with the interpreter, to the bit where the language fixes every "
        f"bit, and compute-sanitizer's\nmemcheck and racecheck found nothing in {clean}. Of the tests that need a GPU {record['passed']} "
        f"passed, {record['failed']} failed and {record['skipped']} were skipped{why}.\n"
    )


def gpu_tests(path: Path = ROOT / "tests", workers: int = WORKERS) -> dict[str, Any]:
    """How many of `pytest -m gpu` passed, were skipped, failed, and by reason the `skips`; a run that does not end in LIMIT seconds counts
    as a failure.
    """
    options = ["-m", "gpu", "-rs", f"-n{workers}", "-p", "no:cacheprovider", "-W", "default", "--durations=8"]
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        print((late.stdout or b"").decode()[-3000:], f"the GPU tests did not end in {LIMIT} s")
        return {"passed": 0, "skipped": 0, "failed": 1, "skips": {}}
    print(done.stdout[-6000:], done.stderr[-1000:])
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped|failed|error)", done.stdout)}
    failed = counts.get("failed", 0) + counts.get("error", 0) + (done.returncode not in (0, 1))
    return {"passed": counts.get("passed", 0), "skipped": counts.get("skipped", 0), "failed": failed, "skips": skips(done.stdout)}


def skips(said: str) -> dict[str, int]:
    """How many tests were skipped for each reason, by what `pytest -rs` says."""
    found: Counter[str] = Counter()
    for count, reason in re.findall(r"^SKIPPED \[(\d+)\] [^ ]+: (.+)$", said, re.MULTILINE):
        found[reason.removeprefix("Skipped: ")] += int(count)
    return dict(found)


def record_several() -> int:
    from vxc.runtime.driver import driver

    gpu()
    count = driver().device_count()
    if count < 2:
        raise Stopped(f"no several GPUs: the driver finds {count}; CUDA_VISIBLE_DEVICES may hide some")
    found = gpu_tests(SEVERAL_TESTS, workers=0)
    whole = {
        "devices": [driver().device_name(d) for d in range(count)],
        "driver": ".".join(map(str, driver().driver_version())),
        "versions": versions(VERSIONS),
        **found,
        "key": several_key(),
        "code": code_key(),
    }
    SEVERAL.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{count} x {whole['devices'][0]}: {found['passed']} tests passed, {found['failed']} failed")
    return 1 if found["failed"] or not found["passed"] else 0


def versions(names: Sequence[str]) -> dict[str, str]:
    """Of Python, NVRTC and the packages that are installed."""
    from vxc.cuda.nvrtc import nvrtc_version

    found = {"python": platform.python_version(), "nvrtc": ".".join(map(str, nvrtc_version()))}
    return found | {name: importlib.metadata.version(name) for name in names if _installed(name)}


def record() -> int:
    from vxc.runtime.driver import driver

    arch, cuda = gpu(), driver()
    names = [case for case, _, _ in sample_names()]
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        rows = dict(zip(names, pool.map(check, names, [arch] * len(names)), strict=True))
    for case in names:  # alone on the device
        rows[case]["microseconds"] = microseconds(case, arch)
    with ThreadPoolExecutor(WORKERS) as pool:
        tests = pool.submit(gpu_tests)
        for case, said in zip(names, pool.map(sanitize, names), strict=True):
            rows[case]["sanitizer"] = said
        found = tests.result()
    whole = {
        "device": cuda.device_name(0),
        "arch": arch,
        "driver": ".".join(map(str, cuda.driver_version())),
        "bindings": type(cuda).__name__,
        "versions": versions(VERSIONS),
        **found,
        "cases": rows,
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(whole, indent=1) + "\n")
    bad = failures(whole)
    print("\n".join(bad))
    print(f"{whole['device']}: {found['passed']} GPU tests passed, {found['failed']} failed; {len(rows)} samples; {len(bad)} problems")
    return 1 if bad or found["failed"] else 0


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fresh", action="store_true", help="check the committed record against this code; needs no GPU")
    what.add_argument("--several", action="store_true", help="run the tests for several GPUs and record them")
    options = parser.parse_args()
    end(fresh if options.fresh else record_several if options.several else record)
