"""Chains, chunks and register caps of samples/flash_splitk.vx on one GPU: what they cost in registers, and what they gain.

    python tools/flash_splitk_sweep.py     times every variant; writes results/flash_splitk.json

A variant is a number of chains (CH), the chunk of its dot product (W; 0 is single-shot, a partial sum for each element of a lane)
and a cap on registers. Each is checked against float64 and timed as `benching/timing.py` says, all in turns: the first launch
alone (`partial_ms`), which computes the attention of each chunk of keys, and both (`total_ms`). Exit status: 3 if a result
is wrong, 4 without a GPU or torch.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benching.cases import Kernel
from benching.ending import WRONG, end, gpu, needed
from benching.timing import graphed, relative_error
from gpu_case import key

from vxc.diag import read_source
from vxc.driver import compile
from vxc.ir.plan import Plan
from vxc.runtime.arrays import write_file
from vxc.runtime.driver import driver
from vxc.runtime.launch import launch
from vxc.runtime.timing import race
from vxc.target import occupancy, target

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "flash_splitk.json"
SIZES = {"SQ": 8192, "SK": 2048, "HD": 64, "C": 8}
FLOP = 4 * SIZES["SQ"] * SIZES["SK"] * SIZES["HD"]
ROUNDS, TOLERANCE = 3, 1e-5


class Variant(NamedTuple):
    chains: int
    chunk: int  # 0: single-shot
    cap: int | None  # registers of a thread


VARIANTS = [Variant(*v) for v in product((1, 2, 3, 4), (0, 4, 8, 16), (None, 200, 168, 128, 96))]


def kernel(variant: Variant, arch: str) -> Kernel:
    """The variant, with what the compiler knows of its first launch."""
    source = read_source(ROOT / "samples" / "flash_splitk.vx")
    defines = SIZES | {"CH": variant.chains, "W": variant.chunk}
    made = compile(source, "flash_splitk", defines, arch, maxrregcount=variant.cap)
    used, threads = made.binary.kernels["flash_partial"], made.plan.kernel("flash_partial").attr("threads")
    facts = {
        **variant._asdict(), "registers": used.registers, "spills": used.spill_stores + used.spill_loads,
        "blocks_per_sm": occupancy(target(arch), threads, used.registers, used.shared)[0], "key": key(made, Path(__file__)),
    }  # fmt: skip
    return Kernel(made.source, made.plan, made.binary, facts)


def first_launch(plan: Plan) -> Plan:
    """The plan up to its first launch."""
    end = next(at for at, entry in enumerate(plan.entries, 1) if entry.op == "launch")
    return replace(plan, entries=plan.entries[:end])


def measured(kernels: list[Kernel]) -> list[dict]:
    """A row for each variant; `relerr` is NaN where an output was not written."""
    import torch

    torch.manual_seed(1)
    q, k, v = (torch.randn(SIZES[n], SIZES["HD"], device="cuda") for n in ("SQ", "SK", "SK"))
    scale, out = SIZES["HD"] ** -0.5, torch.empty(SIZES["SQ"], SIZES["HD"], device="cuda")
    want = (q.double() @ k.double().t() * scale).softmax(1) @ v.double()
    arguments = {"q": q, "k": k, "v": v, "scale": scale, "o": out}
    runs, errors = {}, []
    for at, made in enumerate(kernels):
        for part, some in (("partial", made._replace(plan=first_launch(made.plan))), ("total", made)):
            runs[at, part], _ = graphed(lambda some=some: launch(some, arguments) or out)
        out.fill_(math.nan)
        runs[at, "total"]()
        errors.append(relative_error(out, lambda _: want, [q], None))
    times = race(driver(), torch.cuda.current_device(), runs, ROUNDS)
    rows = []
    for at, made in enumerate(kernels):
        partial, total = times[at, "partial"], times[at, "total"]
        figures = {"partial_ms": round(partial, 4), "total_ms": round(total, 4), "tflops": round(FLOP / total / 1e9, 2)}
        rows.append({**made.facts, **figures, "relerr": float(f"{errors[at]:.3g}")})
    return rows


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    arch = gpu()
    needed("torch")
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        kernels = list(pool.map(kernel, VARIANTS, [arch] * len(VARIANTS)))
    rows = measured(kernels)
    for row in rows:
        print(" ".join(f"{name}={value}" for name, value in row.items() if name != "key"))
    bad = [row for row in rows if not row["relerr"] <= TOLERANCE]
    for row in bad:
        print(f"failed: {Variant(row['chains'], row['chunk'], row['cap'])}: relative error {row['relerr']}", file=sys.stderr)
    if bad:
        return WRONG
    text = json.dumps({"device": driver().device_name(0), "arch": arch, "sizes": SIZES, "rows": rows}, indent=1) + "\n"
    RECORD.parent.mkdir(exist_ok=True)
    write_file(str(RECORD), lambda file: file.write(text.encode()))
    return 0


if __name__ == "__main__":
    end(main)
