"""What is made of the record: the table of the README and a chart. Neither needs a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from benching import charts
from benching.cases import CASES
from benching.record import RECORD

PLOT = RECORD.with_suffix(".png")
PEERS = ("torch", "inductor", "triton", "cupy")
LIBRARIES = {"torch": "torch", "triton": "Triton", "cupy": "CuPy"}
NEAR = 1.03  # times as long as a hand-written kernel
# `peer / vxc` as it was expected when the kernels were chosen, from the peers as they were then; of the shape of the case.
EXPECTED = {
    "rowdot_f32_1048576x64": 0.98, "rowsum_f32_1048576x64": 0.98, "rowmax_f32_1048576x64": 0.98, "rowsum_f32_131072x1000": 0.99,
    "rowsum_f32_8192x8192": 0.98, "rowsum_f32_64x1048576": 1.28, "softmax_f16_8192x8192": 2.1, "softmax_f32_8192x8192": 1.12,
    "softmax_f16_16384x1000": 1.15, "softmax_f32_16384x1000": 1.0, "rmsnorm_f16_16384x1000": 0.98, "layernorm_f16_16384x1000": 0.98,
    "rmsnorm_f32_16384x1000": 1.3, "layernorm_f32_16384x1000": 1.3, "rmsnorm_f16_8192x8192": 0.98, "layernorm_f16_8192x8192": 0.98,
    "rmsnorm_f32_8192x8192": 0.98, "layernorm_f32_8192x8192": 0.98, "bias_gelu_f16_8191x8193": 1.9, "transpose_f16_8191x8193": 1.22,
    "transpose_f32_8191x8193": 1.43, "sum_f32_268435456": 0.99, "copy_f32_268435456": 0.99, "add_f32_268435456": 0.99,
}  # fmt: skip
BARS = {
    "vxc": ("vxc", "#b2182b"), "reference": ("hand-written", "#4d4d4d"), "torch": ("torch", "#fdae61"),
    "inductor": ("torch.compile", "#4393c3"), "triton": ("Triton", "#1b7837"), "cupy": ("CuPy", "#c2a5cf"),
}  # fmt: skip
"""By implementation, how it is called in the chart, and its colour."""


def by_case(rows: Iterable[dict]) -> dict[tuple[str, str], dict[str, dict]]:
    """Lines by (suite, case), then by implementation, for kernels that vxc ran."""
    kernels = (row for row in rows if "ms" in row)
    found = {at: {row["impl"]: row for row in group} for at, group in groupby(kernels, lambda row: (row["suite"], row["case"]))}
    return {at: impls for at, impls in found.items() if "vxc" in impls}


def markdown(rows: list[dict]) -> str:
    """The table, below what was compared where, and above how many cases are as fast as they should be. "" for no lines."""
    cases = by_case(rows)
    if not cases:
        return ""
    rows = [row for row in rows if "ms" in row]
    versions = {name: sorted({row["version"] for row in rows if row["impl"] == impl}) for impl, name in LIBRARIES.items()}
    named = ", ".join(f"{name} {' and '.join(found)}" for name, found in versions.items() if found)
    head = "| suite | case | ms | GB/s | best peer | peer / vxc | expected | hand-written / vxc | copy / vxc |"
    lines = [_row(suite, case, impls) for (suite, case), impls in cases.items()]
    devices = " and ".join(sorted({row["device"] for row in rows}))
    some = f" {len(cases)} of {len(CASES)} cases have run." if len(cases) < len(CASES) else ""
    return "\n".join([f"{devices}; {named}.{some}", "", head, "|" + "---|" * 9, *lines, "", _verdict(list(cases.values()))]) + "\n"


def best_peer(impls: dict[str, dict]) -> dict | None:
    return min((row for impl, row in impls.items() if impl in PEERS), key=lambda row: row["ms"], default=None)


def ratio(other: dict | None, own: dict) -> float | None:
    """How many times as long the other takes, in two decimals."""
    return round(other["ms"] / own["ms"], 2) if other else None


def _row(suite: str, case: str, impls: dict[str, dict]) -> str:
    own, peer = impls["vxc"], best_peer(impls)
    expected = None if suite == "runtime" else EXPECTED.get(case)
    ratios = (ratio(peer, own), expected, ratio(impls.get("reference"), own), ratio(impls.get("copy"), own))
    shown = ["" if found is None else f"{found:.2f}" for found in ratios]
    cells = [suite, case, f"{own['ms']:.4f}", f"{own['gbps']:.0f}", f"{peer['impl']} {peer['ms']:.4f}" if peer else "", *shown]
    return "| " + " | ".join(cells) + " |"


def _verdict(cases: list[dict[str, dict]]) -> str:
    peers = [c["vxc"]["ms"] <= peer["ms"] for c in cases if (peer := best_peer(c))]
    written = [c["vxc"]["ms"] <= NEAR * c["reference"]["ms"] for c in cases if "reference" in c]
    return (
        f"By the times as recorded, which the columns round, vxc takes no longer than the best peer in {sum(peers)} of {len(peers)} cases, "
        f"and at most {NEAR} times as long as the hand-written kernel in {sum(written)} of {len(written)}."
    )


def bars(rows: Iterable[dict]) -> dict[str, list[tuple[str, dict[str, float]]]]:
    """By suite, of each case its name and the time of a copy over that of each implementation."""
    found: dict[str, list[tuple[str, dict[str, float]]]] = {}
    for (suite, case), impls in by_case(rows).items():
        if "copy" in impls:
            found.setdefault(suite, []).append((case, {i: impls["copy"]["ms"] / impls[i]["ms"] for i in BARS if i in impls}))
    return found


def plot(rows: Iterable[dict], path: Path) -> None:
    """A field for each suite, in it a group of bars for each case: 1 is the speed of a plain copy of as many bytes."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    suites = bars(rows)
    columns = _columns({suite: len(cases) for suite, cases in suites.items()})
    most = max(sum(len(suites[suite]) for suite in column) for column in columns)
    figure = Figure(figsize=(8 * len(columns), 2 + 0.62 * most), layout="constrained")
    for part, column in zip(figure.subfigures(1, len(columns), squeeze=False)[0], columns, strict=True):
        fields = part.subplots(len(column), squeeze=False, height_ratios=[len(suites[suite]) for suite in column])[:, 0]
        for axes, suite in zip(fields, column, strict=True):
            _draw(axes, suite, suites[suite])
    handles = [Patch(color=colour, label=label) for label, colour in BARS.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(BARS), frameon=False, fontsize=12)
    figure.supxlabel("speed, where a plain copy of as many bytes is 1 (the line)")
    charts.save(figure, path, suites, dpi=80)


def _columns(sizes: dict[str, int]) -> list[list[str]]:
    """The suites in order, in two columns of about as many cases; one where there is one suite."""
    first, count = [], 0
    for suite, size in sizes.items():
        if first and 2 * (count + size) > sum(sizes.values()) + size:
            break
        first.append(suite)
        count += size
    return [column for column in (first, list(sizes)[len(first) :]) if column]


def _draw(axes: Any, suite: str, cases: list[tuple[str, dict[str, float]]]) -> None:
    height = 0.86 / len(BARS)
    for group, (_, speeds) in enumerate(cases):
        for place, (impl, speed) in enumerate(speeds.items()):
            at = group + (place - (len(speeds) - 1) / 2) * height
            axes.barh(at, speed, height, color=BARS[impl][1])
            if impl == "vxc":
                axes.text(1.14, at, f"{speed:.2f}", ha="right", va="center", fontsize=8, color=BARS[impl][1])
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_title(suite, loc="left", fontweight="bold")
    axes.set_yticks(range(len(cases)), [case for case, _ in cases])
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set_xlim(0, 1.15)
