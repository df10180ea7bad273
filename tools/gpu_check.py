"""The GPU record: run everything that needs a GPU and write what came out to tools/results/gpu.json.

    python tools/gpu_check.py            on a machine with a GPU: `pytest -m gpu`, then every sample against the flat
                                         interpreter (to the bit where the language fixes every bit) and its reference
    python tools/gpu_check.py --fresh    anywhere: emit every sample again and exit 0 if every recorded key still matches

A case's key is the hash of its emitted CUDA text (without line directives), its launch attributes and this file, so an edit
of a comment stales nothing and a changed kernel always does. `microseconds` is the device time of one run at the example's
sizes, the median of 7 groups of 10 runs that wait in the stream behind a long fill, so that the host's time is not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from vxc.analysis.exactness import inexact
from vxc.cuda.emit import emit
from vxc.diag import read_source
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.frontend.check import kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.inputs import complete
from vxc.interp.flat_interp import run_flat
from vxc.target import for_capability

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "gpu.json"
ARCH = "sm_90a"
GROUPS, RUNS = 7, 10
LIMIT = 240  # seconds for the GPU tests
VERSIONS = ("numpy", "cuda-bindings", "pycuda", "lark")


def cases(arch: str) -> dict[str, Compiled]:
    """Every program, else every kernel, of every sample, compiled for `arch`, by `sample:kernel`."""
    found = {}
    for path in sorted((ROOT / "samples").glob("*.vx")):
        source = read_source(path)
        module = parse(source)
        for name in program_names(module) or kernel_names(module):
            found[f"{path.stem}:{name}"] = compile(source, name, target=arch)
    return found


def key(compiled: Compiled) -> str:
    attrs = [(k.name, k.attrs) for k in compiled.plan.kernels]
    grids = [str(e) for e in compiled.plan.entries if e.op == "launch"]
    text = emit(compiled.plan, lines=False) + repr(attrs) + repr(grids)
    return hashlib.sha256(text.encode() + Path(__file__).read_bytes()).hexdigest()[:32]


def fresh() -> int:
    """0 if the committed record is of this code."""
    if not RECORD.exists():
        print(f"{RECORD.relative_to(ROOT)} is missing: run tools/gpu_check.py on a machine with a GPU")
        return 1
    record = json.loads(RECORD.read_text())
    now = {name: key(compiled) for name, compiled in cases(record["arch"]).items()}
    then = {name: case["key"] for name, case in record["cases"].items()}
    stale = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    failed = record["failed"] + sum(not case["passed"] for case in record["cases"].values())
    print(f"{len(now) - len(stale)} of {len(now)} recorded kernels are current; {failed} failed when recorded on {record['device']}")
    if stale:
        print(f"stale: {', '.join(stale)}: run tools/gpu_check.py on a machine with a GPU")
    return 1 if stale else 0


def gpu_tests() -> tuple[int, int]:
    """(passed, failed) of `pytest -m gpu`; a run that does not end in LIMIT seconds counts as a failure."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-n8", "-p", "no:cacheprovider", "--durations=8", str(ROOT / "tests")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        print((late.stdout or b"").decode()[-3000:], f"the GPU tests did not end in {LIMIT} s")
        return 0, 1
    print(done.stdout[-5000:], done.stderr[-1000:])
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0) + (done.returncode not in (0, 1))


def check(name: str, compiled: Compiled) -> dict:
    """One case on the GPU: example inputs and special values against the flat interpreter, the example against its reference."""
    sys.path.insert(0, str(ROOT / "samples"))
    import references

    from vxc.runtime.launch import run_numpy

    kernel, loose = compiled.typed, inexact(compiled.tile)
    problems = []
    for label, seed, special in (("example", 0, False), ("random", 1, False), ("special", 2, True)):
        call = complete(kernel, seed=seed, special=special)
        got = run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)
        want = run_flat(compiled.plan, call.arrays, call.scalars, dims=call.dims, debug=False)
        difference = first_difference(want, got, loose)
        if difference:
            problems.append(f"{label}: {difference}")
        if label == "example":
            error = _against_reference(references, kernel, call, got, problems)
    for problem in problems:
        print(f"FAILED {name}: {problem}")
    resources = {k: v.registers for k, v in compiled.binary.kernels.items()}
    spills = sum(v.spill_stores + v.spill_loads for v in compiled.binary.kernels.values())
    return {
        "key": key(compiled),
        "passed": not problems,
        "problems": problems,
        "bit_exact": sorted(want.keys() - loose.keys()),
        "max_error": error,
        "microseconds": round(_microseconds(compiled), 2),
        "registers": resources,
        "spills": spills,
    }


def _against_reference(references, kernel, call, got, problems: list[str]) -> float:
    """The greatest error over all outputs, relative to the greatest magnitude of each."""
    want = references.reference(kernel.name, {**call.arrays, **call.scalars})
    worst = 0.0
    for output, expected in want.items():
        problem = references.mismatch(kernel.name, output, expected, got[output])
        if problem:
            problems.append(f"reference: {problem}")
        wide, have = np.asarray(expected, np.float64), got[output].astype(np.float64)
        worst = max(worst, float(np.max(np.abs(have - wide), initial=0.0) / max(np.max(np.abs(wide), initial=0.0), 1e-300)))
    return worst


class _Device:
    """A NumPy array's copy on the device, as libraries show theirs."""

    def __init__(self, cuda, array: np.ndarray):
        self.memory = cuda.allocate(max(array.nbytes, 1))
        cuda.upload(self.memory, array)
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (int(self.memory), False), "version": 3, "strides": None,
        }  # fmt: skip


def _microseconds(compiled: Compiled) -> float:
    from vxc.interp.ast_interp import bind_shapes, describe, poison
    from vxc.runtime.driver import driver
    from vxc.runtime.launch import launch

    cuda, call = driver(), complete(compiled.typed)
    shapes = bind_shapes(compiled.typed, {n: describe(a) for n, a in call.arrays.items()}, call.scalars, call.dims).shapes
    host = {a.name: np.ascontiguousarray(call.arrays.get(a.name, poison(shapes[a.name], a.dtype))) for a in compiled.typed.arrays}
    with cuda.active(0):
        arguments = {**{name: _Device(cuda, array) for name, array in host.items()}, **call.scalars}
        fill = cuda.allocate(1 << 30)
        launch(compiled, arguments, stream=0)
        cuda.synchronize(0)
        times = []
        for _ in range(GROUPS):
            for _ in range(24):
                cuda.fill_async(int(fill), 0, 1 << 30, 0)
            start, end = cuda.event(), cuda.event()
            cuda.record(start, 0)
            for _ in range(RUNS):
                launch(compiled, arguments, stream=0)
            cuda.record(end, 0)
            cuda.synchronize(0)
            times.append(cuda.elapsed(start, end) * 1e3 / RUNS)
        cuda.free(fill)
    return statistics.median(times)


def record() -> int:
    from vxc.cuda.nvrtc import nvrtc_version
    from vxc.runtime.driver import driver, unavailable

    reason = unavailable()
    if reason:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 4
    cuda = driver()
    arch = for_capability(cuda.capability(0)).name
    results = {name: check(name, compiled) for name, compiled in cases(arch).items()}
    passed, failed = gpu_tests()
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
        "cases": results,
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(whole, indent=1) + "\n")
    bad = [name for name, case in results.items() if not case["passed"]]
    print(f"{whole['device']}: {passed} GPU tests passed, {failed} failed; {len(results) - len(bad)} of {len(results)} samples agree")
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
