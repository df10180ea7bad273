"""What the GPU record holds of one kernel: its key, whether it is right, its time, and what compute-sanitizer finds.

    python tools/gpu_case.py CASE        run the example of a case once, as compute-sanitizer is given it
"""

from __future__ import annotations

import argparse
import hashlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import benching.ending
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
from vxc.runtime.launch import run_numpy

ROOT = Path(__file__).resolve().parent.parent
HARNESS = Path(__file__)
GROUPS, RUNS = 7, 10
SANITIZERS = ("memcheck", "racecheck")
SANITIZER_LIMIT = 120  # seconds


def sample_names() -> Iterator[tuple[str, Path, str]]:
    """(case, file, name) of every program, else every kernel, of every sample."""
    for path in sorted((ROOT / "samples").glob("*.vx")):
        module = parse(read_source(path))
        for name in program_names(module) or kernel_names(module):
            yield f"{path.stem}:{name}", path, name


def compiled_case(case: str, arch: str) -> Compiled:
    path, name = next((path, name) for found, path, name in sample_names() if found == case)
    return compile(read_source(path), name, target=arch)


def key(compiled: Compiled, harness: Path) -> str:
    """Hash of the emitted text without line directives, the launch attributes, and the file that runs it."""
    attrs = [(k.name, k.attrs) for k in compiled.plan.kernels]
    grids = [str(e) for e in compiled.plan.entries if e.op == "launch"]
    text = emit(compiled.plan, lines=False) + repr(attrs) + repr(grids)
    return hashlib.sha256(text.encode() + harness.read_bytes()).hexdigest()[:32]


def check(case: str, arch: str) -> dict:
    """Example, random and special inputs against the flat interpreter, the example against its reference, on the GPU."""
    sys.path.insert(0, str(ROOT / "samples"))
    import references

    compiled = compiled_case(case, arch)
    kernel, loose = compiled.typed, inexact(compiled.tile)
    problems: list[str] = []
    error = 0.0
    for label, seed, special in (("example", 0, False), ("random", 1, False), ("special", 2, True)):
        call = complete(kernel, seed=seed, special=special)
        got = run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)
        want = run_flat(compiled.plan, call.arrays, call.scalars, dims=call.dims, debug=False)
        difference = first_difference(want, got, loose)
        if difference:
            problems.append(f"{label}: {difference}")
        if label == "example":
            error = _against_reference(references, kernel, call, got, problems)
    return {
        "key": key(compiled, HARNESS),
        "passed": not problems,
        "problems": problems,
        "bit_exact": sorted(set(want) - set(loose)),
        "max_error": error,
        "registers": {k: v.registers for k, v in compiled.binary.kernels.items()},
        "spills": sum(v.spill_stores + v.spill_loads for v in compiled.binary.kernels.values()),
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


def sanitize(case: str) -> dict[str, str]:
    """What each tool of compute-sanitizer says at its end about one run of the example: "0 errors", or what it found."""
    found = {}
    for tool in SANITIZERS:
        command = ["compute-sanitizer", "--tool", tool, sys.executable, __file__, case]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=SANITIZER_LIMIT)
        except FileNotFoundError:
            found[tool] = "compute-sanitizer is not installed"
            continue
        except subprocess.TimeoutExpired:
            found[tool] = f"did not end in {SANITIZER_LIMIT} s"
            continue
        summary = re.search(r"SUMMARY: (.+)", done.stdout)
        clean = summary and done.returncode == 0 and re.match(r"0 (errors|hazards)", summary[1])
        found[tool] = "0 errors" if clean else (summary[1] if summary else (done.stdout + done.stderr)[-300:])
    return found


class _Device:
    """A NumPy array's copy on the device, as libraries show theirs."""

    def __init__(self, cuda, array: np.ndarray):
        self.memory = cuda.allocate(max(array.nbytes, 1))
        cuda.upload(self.memory, array)
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (int(self.memory), False), "version": 3, "strides": None,
        }  # fmt: skip


def microseconds(case: str, arch: str) -> float:
    """Device time of one run at the example's sizes: the median of GROUPS groups of RUNS runs, each group waiting in the stream
    behind a long fill, so that the host's time is not in it."""
    from vxc.interp.ast_interp import bind_shapes, describe, poison
    from vxc.runtime.driver import driver
    from vxc.runtime.launch import launch

    compiled = compiled_case(case, arch)
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
    return round(statistics.median(times), 2)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the example of a case once, as compute-sanitizer and profilers are given it.")
    names = [case for case, _, _ in sample_names()]
    parser.add_argument("case", metavar="CASE", choices=names, help=f"one of {', '.join(names)}")
    compiled = compiled_case(parser.parse_args().case, benching.ending.gpu())
    call = complete(compiled.typed)
    run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)
    return 0


if __name__ == "__main__":
    benching.ending.end(main)
