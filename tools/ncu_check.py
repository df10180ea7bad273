"""Are the counts of `vxc explain` those of the hardware? Nsight Compute's counters beside those of the simulated threads.

    python tools/ncu_check.py            on a machine with a GPU and `ncu`: runs each case once under ncu and writes
                                         results/ncu.json. Exit 3 if a ratio is not within its TOLERANCE, 4 without GPU or ncu
    python tools/ncu_check.py --fresh    anywhere: counts again; exit 1 if the record is not of this code

A row has the `kernel` (case and sizes), the `metric`, `counted` by the SIMT machine over all blocks, `measured` by ncu, `ratio`
(measured / counted) and the `key` of the kernel, as those of `gpu_check.py`. Sizes are such that every block is simulated.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gpu_case import key

from vxc.diag import read_source
from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES
from vxc.explain.measure import measure
from vxc.inputs import Call, complete
from vxc.ir.kernel import Kernel
from vxc.ir.ops import accesses
from vxc.runtime.arrays import write_file
from vxc.runtime.driver import driver, unavailable
from vxc.runtime.launch import run_numpy
from vxc.source import Source
from vxc.target import for_capability

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "ncu.json"
STALE, DIFFERENT, NO_GPU = 1, 3, 4

LOOKUP = """kernel lookup(table: f32[1024], at: i32[4096], out y: f32[4096]) {
    @threads(256) grid b in 4 {
        shared near: f32[1024];
        copy(table, near);
        parallel i in 1024 { y[b * 1024 + i] = near[at[b * 1024 + i]]; }
    }
}"""


class Case(NamedTuple):
    """A sample (or `LOOKUP`), and the size of each dimension; x is an array of `dtype`."""

    sample: str
    dtype: str
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        return f"{self.sample}_{self.dtype}_{'x'.join(map(str, self.sizes.values()))}"


CASES = (
    Case("rowsum", "f32", {"M": 1001, "N": 64}),
    Case("rowsum", "f32", {"M": 301, "N": 1000}),
    Case("softmax", "f16", {"M": 301, "N": 1000}),
    Case("transpose", "f16", {"M": 512, "N": 512}),
    Case("transpose", "f16", {"M": 1023, "N": 1025}),
    Case("transpose", "f32", {"M": 511, "N": 513}),
    Case("transpose_tile", "f32", {"M": 256, "N": 256}),
    Case("lookup", "f32", {}),
)


def made(case: Case, arch: str) -> tuple[Compiled, Call]:
    """The kernel of a case for an architecture, and its inputs."""
    rng = np.random.default_rng(0)
    if case.sample == "lookup":
        source, defines = Source("lookup.vx", LOOKUP), {}
        arrays = {"table": rng.standard_normal(1024, np.float32), "at": rng.integers(0, 1024, 4096, np.int32)}
    else:
        source, defines = read_source(ROOT / "samples" / f"{case.sample}.vx"), {"T": DTYPES[case.dtype], **case.sizes}
        arrays = {"x": rng.standard_normal(tuple(case.sizes.values()), np.float32).astype(DTYPES[case.dtype].numpy)}
    compiled = compile(source, case.sample, defines, arch)
    return compiled, complete(compiled.typed, arrays)


def run_all() -> None:
    """Every case, once, as ncu watches."""
    arch = for_capability(driver().capability(0)).name
    for case in CASES:
        compiled, call = made(case, arch)
        run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)


if __name__ == "__main__":
    run_all()
