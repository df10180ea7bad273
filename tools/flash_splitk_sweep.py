"""Chains, chunks and register caps of samples/flash_splitk.vx on one GPU: what they cost in registers, and what they gain.

    python tools/flash_splitk_sweep.py             times every variant; writes results/flash_splitk.json
    python tools/flash_splitk_sweep.py --fresh     anywhere: is the record of this code?

A variant is a number of chains (CH), the chunk of its dot product (W; 0 is single-shot, a partial sum for each element of a lane)
and a cap on registers. Each is checked against float64 and timed as `benching/timing.py` says, all in turns. In each run both launches
follow one another, with an event between them: `partial_ms` ends with the first, which computes the attention of each chunk of keys, and
`total_ms` with the second, so that it is never less. The event keeps the second launch from starting before the first has ended, as it
does without (`overlap-launches`). Exit status: 1 for a record that is not of this code, 3 if a result is wrong, 4 without a GPU or torch.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benching.cases import Kernel, timed_key
from benching.ending import WRONG, end, gpu, needed, rows_of
from benching.timing import graphed, relative_error

from vxc.binding import ArrayParam, signature
from vxc.diag import read_source
from vxc.driver import Compiled, compile
from vxc.runtime.arrays import describe_device, write_file
from vxc.runtime.driver import driver
from vxc.runtime.launch import Placed, described, scheduled
from vxc.runtime.timing import Run, stopwatch
from vxc.schedule import bind_plan
from vxc.target import occupancy, target

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "flash_splitk.json"
SIZES = {"SQ": 8192, "SK": 2048, "HD": 64, "C": 8}
FLOP = 4 * SIZES["SQ"] * SIZES["SK"] * SIZES["HD"]
ROUNDS, TOLERANCE, STALE = 3, 1e-5, 1


class Variant(NamedTuple):
    chains: int
    chunk: int  # 0: single-shot
    cap: int | None  # registers of a thread


VARIANTS = [Variant(*v) for v in product((1, 2, 3, 4), (0, 4, 8, 16), (None, 200, 168, 128, 96))]


def compiled(variant: Variant, arch: str) -> Compiled:
    source = read_source(ROOT / "samples" / "flash_splitk.vx")
    return compile(source, "flash_splitk", SIZES | {"CH": variant.chains, "W": variant.chunk}, arch, maxrregcount=variant.cap)


@cache
def key_of(variant: Variant, arch: str) -> str:
    """The cap is no part of the text."""
    return timed_key(compiled(variant, arch), Path(__file__))


def kernel(variant: Variant, arch: str) -> Kernel:
    """The variant, with what the compiler knows of its first launch."""
    made = compiled(variant, arch)
    used, threads = made.binary.kernels["flash_partial"], made.plan.kernel("flash_partial").attr("threads")
    facts = {
        **variant._asdict(), "registers": used.registers, "spills": used.spill_stores + used.spill_loads,
        "blocks_per_sm": occupancy(target(arch), threads, used.registers, used.shared)[0], "key": timed_key(made, Path(__file__)),
    }  # fmt: skip
    return Kernel(made.source, made.plan, made.binary, facts)


def launches(made: Kernel, arguments: Mapping[str, Any]) -> tuple[list[Placed], list[Any]]:
    """(each launch by itself, the workspaces through which they hand on what they find)."""
    import torch

    arrays = {p.name: p for p in signature(made.plan.params) if isinstance(p, ArrayParam)}
    views = {name: describe_device(arguments[name], name) for name in arrays}
    scalars = {name: given for name, given in arguments.items() if name not in arrays}
    whole = scheduled(made, bind_plan(made.plan, described(views, arrays), scalars, source=made.source))
    spaces = {space.name: torch.empty(space.nbytes, dtype=torch.uint8, device="cuda") for space in whole.workspaces}
    addresses = {name: view.ptr for name, view in views.items()} | {name: space.data_ptr() for name, space in spaces.items()}
    parts = [replace(whole, workspaces=(), launches=(step,)) for step in whole.launches]
    return [Placed(driver(), made.binary, part, addresses, 0) for part in parts], list(spaces.values())


def measured(kernels: list[Kernel]) -> list[dict]:
    """A row for each variant; `relerr` is NaN where an output was not written."""
    import torch

    torch.manual_seed(1)
    q, k, v = (torch.randn(SIZES[n], SIZES["HD"], device="cuda") for n in ("SQ", "SK", "SK"))
    scale, out = SIZES["HD"] ** -0.5, torch.empty(SIZES["SQ"], SIZES["HD"], device="cuda")
    want = (q.double() @ k.double().t() * scale).softmax(1) @ v.double()
    arguments = {"q": q, "k": k, "v": v, "scale": scale, "o": out}
    runs: list[list[Run]] = []
    errors, held = [], []
    for made in kernels:
        parts, spaces = launches(made, arguments)
        held += spaces
        runs.append([graphed(lambda part=part: part.enqueue(torch.cuda.current_stream().cuda_stream) or out)[0] for part in parts])
        out.fill_(math.nan)
        for run in runs[-1]:
            run()
        errors.append(relative_error(out, lambda _: want, [q], None))
    with driver().active(0), stopwatch(driver()) as watch:
        rounds = [[watch.ends(parts) for parts in runs] for _ in range(ROUNDS)]
    rows = []
    for made, relerr, *ends in zip(kernels, errors, *rounds, strict=True):
        partial, total = map(median, zip(*ends, strict=True))
        figures = {"partial_ms": round(partial, 4), "total_ms": round(total, 4), "tflops": round(FLOP / total / 1e9, 2)}
        rows.append({**made.facts, **figures, "relerr": float(f"{relerr:.3g}")})
    return rows


def fresh() -> int:
    """0 if the record has a row of this code for each variant."""
    rows, whole = rows_of(RECORD, (*Variant._fields, "key")), json.loads(RECORD.read_text("utf-8"))
    keys = {Variant(row["chains"], row["chunk"], row["cap"]): row["key"] for row in rows}
    current = sum(keys.get(variant) == key_of(variant._replace(cap=None), whole["arch"]) for variant in VARIANTS)
    print(f"{current} of {len(VARIANTS)} rows are current; recorded on {whole['device']}")
    return 0 if current == len(VARIANTS) == len(rows) else STALE


def sweep() -> int:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="check the committed record against this code; needs no GPU")
    return fresh() if parser.parse_args().fresh else sweep()


if __name__ == "__main__":
    end(main)
