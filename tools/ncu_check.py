"""Are the counts of `vxc explain` what the hardware counts? Nsight Compute's counters beside those of the simulated threads.

    python tools/ncu_check.py            on a machine with a GPU and `ncu`: runs each case once under ncu, prints a line for each
                                         counter and writes results/ncu.json. Exit 3 if one is beyond TOLERANCE, 4 without GPU or ncu
    python tools/ncu_check.py --fresh    anywhere: counts again; exit 1 if the record is not of this code

A row has the `kernel` (case and sizes), the `metric`, what the simulated threads `counted` over all blocks, what ncu `measured`,
their `ratio` and the `key` of the kernel, made as those of `gpu_check.py`. Cases are so small that every block is simulated.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import benching.ending
import numpy as np
from gpu_case import key

from vxc.diag import read_source
from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES
from vxc.explain.measure import measure
from vxc.inputs import Call, complete
from vxc.interp.flat_counters import Accesses
from vxc.ir.kernel import Inst
from vxc.ir.ops import accesses
from vxc.runtime.arrays import write_file
from vxc.runtime.driver import driver
from vxc.runtime.launch import run_numpy
from vxc.source import Source

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "ncu.json"
STALE, DIFFERENT = 1, 3
LIMIT = 120  # seconds

# Elements of a shared array in no order, so that lanes meet in banks.
LOOKUP = """kernel lookup<T: dtype>(x: T[N], at: i32[M, N], out y: T[M, N]) {
    @threads(256) grid b in M {
        shared near: T[N];
        copy(x, near);
        parallel i in N { y[b, i] = near[at[b, i]]; }
    }
}"""


class Case(NamedTuple):
    """A sample, or `LOOKUP`, at one dtype and shape."""

    sample: str
    dtype: str
    m: int
    n: int

    @property
    def name(self) -> str:
        return f"{self.sample}_{self.dtype}_{self.m}x{self.n}"


CASES = (
    Case("rowsum", "f32", 1001, 64), Case("rowsum", "f32", 77, 1000), Case("softmax", "f16", 77, 1000),
    Case("transpose", "f16", 512, 512), Case("transpose", "f16", 1023, 1025), Case("transpose", "f32", 511, 513),
    Case("transpose_tile", "f32", 256, 256), Case("lookup", "f32", 4, 1024),
)  # fmt: skip
# What is compared: the counter of ncu, and which accesses of the simulated threads it counts (space, kind, what of them).
METRICS = {
    "global load requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", ("global", "load", "requests")),
    "global load sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", ("global", "load", "sectors")),
    "global store requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", ("global", "store", "requests")),
    "global store sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", ("global", "store", "sectors")),
    "shared load requests": ("smsp__sass_inst_executed_op_shared_ld.sum", ("shared", "load", "requests")),
    "shared load turns": ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", ("shared", "load", "cycles")),
    "shared store requests": ("smsp__sass_inst_executed_op_shared_st.sum", ("shared", "store", "requests")),
    "shared store turns": ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum", ("shared", "store", "cycles")),
}


def made(case: Case, arch: str) -> tuple[Compiled, Call]:
    """The kernel of a case, and its inputs."""
    path = ROOT / "samples" / f"{case.sample}.vx"
    source = read_source(path) if path.exists() else Source("lookup.vx", LOOKUP)
    dtype, rng = DTYPES[case.dtype], np.random.default_rng(0)
    compiled = compile(source, case.sample, {"T": dtype, "M": case.m, "N": case.n}, arch)
    shapes = {p.name: tuple(n.value for n in p.shape) for p in compiled.plan.buffers if p.mode == "in"}
    arrays = {name: rng.standard_normal(shape, np.float32).astype(dtype.numpy) for name, shape in shapes.items()}
    if "at" in arrays:
        arrays["at"] = rng.integers(0, case.n, shapes["at"], np.int32)
    return compiled, complete(compiled.typed, arrays)


def counted(case: Case, arch: str) -> tuple[str, Counter[str]]:
    """(key, number by metric) of a case, as `vxc explain` counts. Raises ValueError where it would count some of the blocks."""
    compiled, call = made(case, arch)
    counters, total = measure(compiled, call).counters, Counter()
    if any(run != grid for run, grid in counters.blocks.values()):
        raise ValueError(f"{case.name} has more blocks than are simulated")
    for (kernel, at, array, _), count in counters.accesses.items():
        kind = _kind(compiled.plan.kernel(kernel).insts[at], array, count)
        total.update({name: getattr(count, of) for name, (_, (*where, of)) in METRICS.items() if tuple(where) == kind})
    return key(compiled, Path(__file__)), total


def _kind(inst: Inst, array: str, count: Accesses) -> tuple[str, str]:
    """(space, kind) of an access; what an asynchronous copy stores is stored by no instruction."""
    (mode,) = (access.mode for access in accesses(inst) if access.buffer.name == array)
    stores = {"move.async": "copied"}.get(inst.op, "store")
    return ("shared" if count.space == "shared" else "global"), {"r": "load", "w": stores, "rw": "atomic"}[mode]


def launch_all() -> int:
    """Every case once, as ncu watches."""
    arch = benching.ending.gpu()
    for case in CASES:
        compiled, call = made(case, arch)
        run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)
    return 0


def measured(text: str) -> list[Counter[str]]:
    """The numbers by metric of each launch, from the output of `ncu --csv`. Raises `Stopped` if the cases were not all launched."""
    names = {counter: name for name, (counter, _) in METRICS.items()}
    found: dict[str, tuple[str, Counter[str]]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        number = int(float(row["Metric Value"].replace(",", "")))
        found.setdefault(row["ID"], (row["Kernel Name"], Counter()))[1][names[row["Metric Name"]]] = number
    launched = [name.split("(")[0] for name, _ in found.values()]
    if launched != [case.sample for case in CASES]:
        seen = ", ".join(launched) or "no launch"
        raise benching.ending.Stopped(f"ncu saw {seen}, where each case is launched; the end of what it said:\n{text[-2000:]}")
    return [numbers for _, numbers in found.values()]


def rows(arch: str, seen: Sequence[Counter[str]]) -> list[dict]:
    """A row for each metric of each case that is not 0 in both."""
    found = []
    for case, numbers in zip(CASES, seen, strict=True):
        mark, count = counted(case, arch)
        for metric in METRICS:
            if count[metric] or numbers[metric]:
                ratio = round(numbers[metric] / count[metric], 4) if count[metric] else None
                found.append({"kernel": case.name, "metric": metric, "counted": count[metric], "measured": numbers[metric],
                              "ratio": ratio, "key": mark})  # fmt: skip
    return found


def different(found: Sequence[dict]) -> list[dict]:
    """The rows in which ncu measured something else than was counted."""
    return [row for row in found if row["measured"] != row["counted"]]


def record() -> int:
    arch = benching.ending.gpu()
    counters = ",".join(counter for counter, _ in METRICS.values())
    command = ["ncu", "--clock-control", "none", "--csv", "--metrics", counters, sys.executable, __file__, "--launch"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    except FileNotFoundError:
        raise benching.ending.Stopped("ncu is not installed: it is part of the CUDA toolkit") from None
    except subprocess.TimeoutExpired:
        raise benching.ending.Stopped(f"ncu did not end in {LIMIT} s: does anybody else profile on this device?") from None
    found = rows(arch, measured(done.stdout + done.stderr))
    for row in found:
        print(f"{row['kernel']:28} {row['metric']:22} counted {row['counted']:>7,} measured {row['measured']:>7,} ratio {row['ratio']}")
    whole = {"device": driver().device_name(0), "arch": arch, "rows": found}
    write_file(str(RECORD), lambda file: file.write((json.dumps(whole, indent=1) + "\n").encode()))
    return DIFFERENT if different(found) else 0


def fresh() -> int:
    """0 if the committed record is of this code."""
    benching.ending.rows_of(RECORD, ("kernel", "metric", "counted", "measured", "key"))
    whole = json.loads(RECORD.read_text("utf-8"))
    then = {(row["kernel"], row["metric"]): (row["key"], row["counted"]) for row in whole["rows"]}
    stale = []
    for case in CASES:
        mark, count = counted(case, whole["arch"])
        if any(then.get((case.name, metric), (mark, 0)) != (mark, count[metric]) for metric in METRICS):
            stale.append(case.name)
    if {kernel for kernel, _ in then} != {case.name for case in CASES}:
        stale.append("the list of cases")
    print(f"{len(CASES) - len(stale)} of {len(CASES)} kernels are current; recorded on {whole['device']}")
    print(f"{len(whole['rows']) - len(different(whole['rows']))} of {len(whole['rows'])} counts are what ncu measured")
    if stale:
        print(f"stale: {', '.join(stale)}: run tools/ncu_check.py on a machine with a GPU")
    return STALE if stale else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fresh", action="store_true", help="check the committed record against this code; needs no GPU")
    what.add_argument("--launch", action="store_true", help="run every case once, for ncu to watch")
    options = parser.parse_args()
    return (launch_all if options.launch else fresh if options.fresh else record)()


if __name__ == "__main__":
    benching.ending.end(main)
