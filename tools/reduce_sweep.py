"""Orders of a row's dot product on a GPU: partials a lane x lanes x length of a row x threads.

    python tools/reduce_sweep.py [-o FILE]      on a machine with a GPU: measures, writes results/reduce_sweep.json, or FILE
    python tools/reduce_sweep.py --fresh        anywhere: is the record of this code?
    python tools/reduce_sweep.py --summary      anywhere: what of the record decides on the defaults
    python tools/reduce_sweep.py --plot         anywhere with matplotlib: draws results/reduce_sweep.png from it

Variants are compiled side by side in all cores but one, while those that are ready are checked against float64 and timed: the median of
`do_bench`, which flushes the L2 cache, of a CUDA graph of the launch, so that the time of the host is not in it. `grid` 132 is a block for
each multiprocessor of an H200, whose teams of lanes go through its rows one after another; `grid` 0 is the plain kernel, whose blocks fill
the device. `ratio` is the time over the least for the same row and threads, `key` that of all records (`gpu_case.key`).

Exit status: 0 if all is well, 1 for a record that is not of this code, 2 for what was not asked right, 3 for a wrong sum, 4
without a GPU, torch or Triton, or for --plot without matplotlib.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from benching import charts
from benching.ending import USAGE, Stopped, end, gpu, needed, rows_of
from benching.orders import BYTES, CHUNKS, LANES, LENGTHS, SHAPES, VARIANTS, VECTOR, Variant, compiled, drawn, key_of, made, measured

from vxc.runtime.arrays import write_file

RECORD = Path(__file__).resolve().parent / "results" / "reduce_sweep.json"
FEW, FULL = SHAPES[0], SHAPES[-1]


def sweep(path: Path) -> int:
    if not path.parent.is_dir():
        raise Stopped(f"there is no folder {path.parent} to write {path.name} to: make it first", USAGE)
    gpu()
    needed("torch", "triton")
    start, rows = time.perf_counter(), []
    with ProcessPoolExecutor(max(1, os.cpu_count() - 1), multiprocessing.get_context("spawn")) as pool:
        kernels = pool.map(made, VARIANTS, chunksize=4)
        import torch  # while the others compile

        operands = drawn()
        for variant, kernel in zip(VARIANTS, kernels, strict=True):
            rows.append(measured(variant, kernel, operands))
            if len(rows) % 40 == 0:
                print(f"{len(rows)} of {len(VARIANTS)} timed after {time.perf_counter() - start:.1f} s", flush=True)
    least: dict[tuple[int, ...], float] = {}
    for row in rows:
        place = (row["hd"], row["grid"], row["block"])
        least[place] = min(row["ms"], least.get(place, row["ms"]))
    for row in rows:
        row["ratio"] = round(row["ms"] / least[row["hd"], row["grid"], row["block"]], 3)
    record = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "bytes": 2 * BYTES, "rows": rows}
    write_file(str(path), lambda file: file.write((json.dumps(record, indent=1) + "\n").encode()))
    print(f"{path}: {len(rows)} rows after {time.perf_counter() - start:.1f} s", flush=True)
    return 0


def by_variant(path: Path) -> dict[Variant, dict[str, Any]]:
    """The rows of a record. Raises `Stopped` for a file that is none."""
    return {Variant(*(row[name] for name in Variant._fields)): row for row in rows_of(path, Variant._fields)}


def fresh(path: Path) -> int:
    """Whether each row has the key that this code gives its variant."""
    rows = by_variant(path)
    current = sum(variant in rows and rows[variant].get("key") == key_of(compiled(variant)) for variant in VARIANTS)
    print(f"{current} of {len(VARIANTS)} rows are current")
    return 0 if current == len(VARIANTS) == len(rows) else 1


def summary(path: Path) -> int:
    print("\n".join(deciding(by_variant(path))))
    return 0


def deciding(rows: dict[Variant, dict[str, Any]]) -> Iterator[str]:
    """What the defaults of `semantics.order` are chosen by."""

    def ms(chunk: int, lanes: int, hd: int, shape: tuple[int, int]) -> float:
        return rows[Variant(chunk, lanes, hd, *shape)]["ms"]

    short = [hd for hd in LENGTHS if hd <= 128]
    whole = [(lanes, hd) for lanes, hd in product(LANES, short) if 8 <= lanes <= hd // VECTOR]
    spread = max(max(ms(c, *at, FULL) for c in CHUNKS) / min(ms(c, *at, FULL) for c in CHUNKS) for at in whole)
    yield f"full device, rows up to 128, 8 lanes or more, none idle: chunks differ by {spread - 1:.1%} at most"
    alone = [rows[Variant(c, 1, hd, *FULL)]["ratio"] for c, hd in product(CHUNKS, short)]
    yield f"full device, rows up to 128, one lane a row: {min(alone):.2f} to {max(alone):.2f} times the least"
    for lanes, shape in product((8, 16), (FEW, FULL)):
        times = ms(VECTOR, lanes, 1000, shape) / ms(0, lanes, 1000, shape)
        text = f"{times:.2f} times single-shot, which takes {rows[Variant(0, lanes, 1000, *shape)]['registers']} registers"
        yield f"{_words(shape)}, rows of 1000, {lanes} lanes, {VECTOR} partials: {text}"
    one = [(lanes, VECTOR * lanes, shape) for lanes, shape in product((8, 16), SHAPES) if shape[0]]
    for chunks in ((1,), tuple(c for c in CHUNKS if c > VECTOR)):
        times = [ms(c, *at) / ms(VECTOR, *at) for c, at in product(chunks, one)]
        text = f"{min(times):.2f} to {max(times):.2f} times {VECTOR} partials"
        yield f"132 blocks, a vector a lane, {', '.join(map(str, chunks))} partials: {text}"


def _words(shape: tuple[int, int]) -> str:
    return f"{shape[0]} blocks of {shape[1]}" if shape[0] else "full device"


def ratios_of(path: Path) -> dict[Variant, float]:
    """What is drawn of a record."""
    return {variant: row["ratio"] for variant, row in by_variant(path).items()}


def plot(path: Path) -> int:
    """A table of ratios, chunk x lanes, for each length and each number of threads."""
    ratios = ratios_of(path)
    needed("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3 * len(SHAPES), 2.4 * len(LENGTHS)), layout="constrained")
    for axes, (hd, (grid, block)) in zip(figure.subplots(len(LENGTHS), len(SHAPES)).flat, product(LENGTHS, SHAPES), strict=True):
        table = [[ratios[Variant(chunk, lanes, hd, grid, block)] for chunk in CHUNKS] for lanes in LANES]
        axes.imshow(table, vmin=1, vmax=2, cmap="viridis_r", aspect="auto")
        for y, x in product(range(len(LANES)), range(len(CHUNKS))):
            axes.text(x, y, f"{table[y][x]:.2f}", ha="center", va="center", fontsize=7, color="white" if table[y][x] > 1.5 else "black")
        axes.set_xticks(range(len(CHUNKS)), ["single" if c == 0 else str(c) for c in CHUNKS], fontsize=7)
        axes.set_yticks(range(len(LANES)), map(str, LANES), fontsize=7)
        axes.set_title(f"{hd} elements, {f'{grid} blocks of {block}' if grid else 'full device'}", fontsize=8)
    figure.supxlabel("partials a lane")
    figure.supylabel("lanes a row")
    charts.save(figure, path.with_suffix(".png"), ratios, dpi=100)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="path", type=Path, default=RECORD, help="the record: where to write it, or what to look at")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plot", action="store_true", help="draw what was measured")
    what.add_argument("--summary", action="store_true", help="say what decides on the defaults")
    what.add_argument("--fresh", action="store_true", help="see whether the record is of this code; needs no GPU")
    given = parser.parse_args()
    return (plot if given.plot else fresh if given.fresh else summary if given.summary else sweep)(given.path)


if __name__ == "__main__":
    end(main)
