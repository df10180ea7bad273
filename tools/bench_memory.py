"""Memory-bound samples at full size on a GPU, beside torch and a plain copy of the same bytes.

    python tools/bench_memory.py [-o FILE]     prints a line for each case; writes results/bench_memory.json, or FILE

Each case is checked against float64 first. Times are medians of `triton.testing.do_bench`, which flushes the L2 cache between
runs; kernel, torch and copy take turns for ROUNDS rounds in one process, and a figure is the median of the rounds. `of_copy` is the
time of `torch.Tensor.copy_` of as many bytes (read and written together) over the kernel's: 1.0 is the speed of memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from triton.testing import do_bench

from vxc.diag import read_source
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.runtime.driver import driver
from vxc.runtime.launch import launch
from vxc.target import for_capability

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "results" / "bench_memory.json"
ROUNDS = 3
EPSILON = 1e-5
F = torch.nn.functional


class Case(NamedTuple):
    """A sample, its dtype and rows x columns; `wanted` gives the output in the precision of its inputs."""

    sample: str
    dtype: str
    rows: int
    columns: int
    inputs: str  # shapes of the arrays: `m` rows x columns, `n` columns
    output: str  # `m`, `t` (transposed), `r` rows
    wanted: Callable[..., torch.Tensor]


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[1],), w, eps=EPSILON)


def layernorm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[1],), w, b, eps=EPSILON)


SHAPES = ((1 << 20, 64), (131072, 1000), (8192, 8192), (64, 1 << 20))
CASES = [
    Case("rowdot", "f32", 1 << 20, 64, "mm", "r", lambda q, k: (q * k).sum(1)),
    *(Case("rowsum", "f32", *shape, "m", "r", lambda x: x.sum(1)) for shape in SHAPES),
    Case("rowmax", "f32", 1 << 20, 64, "m", "r", lambda x: x.amax(1)),
    *(Case("softmax", d, *shape, "m", "m", lambda x: x.softmax(1)) for shape in ((8192, 8192), (16384, 1000)) for d in ("f16", "f32")),
    *(Case("rmsnorm", d, *shape, "mn", "m", rmsnorm) for shape in ((8192, 8192), (16384, 1000)) for d in ("f16", "f32")),
    *(Case("layernorm", d, *shape, "mnn", "m", layernorm) for shape in ((8192, 8192), (16384, 1000)) for d in ("f16", "f32")),
    Case("bias_gelu", "f16", 8191, 8193, "mn", "m", lambda x, b: F.gelu(x + b, approximate="tanh")),
    *(Case("transpose", d, 8191, 8193, "m", "t", lambda x: x.t().contiguous()) for d in ("f16", "f32")),
]
TORCH = {"f16": torch.float16, "f32": torch.float32}


def prepared(case: Case, arch: str) -> tuple[Callable[[], None], Callable[[], torch.Tensor], torch.Tensor, list[torch.Tensor]]:
    """(run the kernel, run torch, the kernel's output, the inputs) on random normal data; the output is NaN before."""
    source = read_source(ROOT / "samples" / f"{case.sample}.vx")
    shapes = {"m": (case.rows, case.columns), "n": (case.columns,), "r": (case.rows,), "t": (case.columns, case.rows)}
    generics = {"T": DTYPES[case.dtype]} if "<T: dtype>" in source.text else {}
    compiled = compile(source, defines=generics, target=arch)
    dtypes = {a.name: TORCH[str(a.dtype)] for a in compiled.typed.arrays}
    names = [a.name for a in compiled.typed.arrays if a.mode == "in"]
    (out,) = (a.name for a in compiled.typed.arrays if a.mode != "in")
    torch.manual_seed(1)
    inputs = [torch.randn(shapes[s], device="cuda").to(dtypes[name]) for name, s in zip(names, case.inputs, strict=True)]
    output = torch.full(shapes[case.output], float("nan"), dtype=dtypes[out], device="cuda")
    arguments = dict(zip(names, inputs, strict=True)) | {out: output}
    scalars = {"eps": EPSILON} if any(p.name == "eps" for p in compiled.typed.params) else {}
    return lambda: launch(compiled, arguments | scalars), lambda: case.wanted(*inputs), output, inputs


def measured(case: Case, arch: str) -> dict:
    run, peer, output, inputs = prepared(case, arch)
    run()
    wide = case.wanted(*(x[:64].double() if x.dim() == 2 else x.double() for x in inputs))
    got = output[:, :64] if case.output == "t" else output[:64]
    error = float((got.double() - wide).abs().max() / wide.abs().max())
    moved = sum(x.nbytes for x in (*inputs, output))
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    timed = (run, peer, lambda: target.copy_(source))
    rounds = [[do_bench(f, warmup=10, rep=40, return_mode="median") for f in timed] for _ in range(ROUNDS)]
    kernel, torch_ms, copy = (statistics.median(times) for times in zip(*rounds))
    return {
        "case": f"{case.sample} {case.dtype} {case.rows}x{case.columns}", "vxc_ms": round(kernel, 4), "torch_ms": round(torch_ms, 4),
        "copy_ms": round(copy, 4), "torch_over_vxc": round(torch_ms / kernel, 2), "of_copy": round(copy / kernel, 2), "max_error": error,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="path", type=Path, default=RECORD, help="where to write")
    path = parser.parse_args().path
    arch = for_capability(driver().capability(0)).name
    rows = []
    for case in CASES:
        rows.append(measured(case, arch))
        print(" ".join(f"{k}={v}" for k, v in rows[-1].items()), flush=True)
        record = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "arch": arch, "rows": rows}
        path.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
