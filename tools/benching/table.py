"""What is made of the record: the table of the README and a chart. Neither needs a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

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
COLOURS = {"vxc": "#b2182b", "reference": "#4d4d4d", "torch": "#92c5de", "inductor": "#4393c3", "triton": "#2166ac", "cupy": "#a6dba0"}


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


def bars(rows: Iterable[dict]) -> list[tuple[str, dict[str, float]]]:
    """(label, the time of a copy over that of each implementation) of each case."""
    return [
        (f"{case} ({suite})" if suite == "runtime" else case, {i: impls["copy"]["ms"] / impls[i]["ms"] for i in COLOURS if i in impls})
        for (suite, case), impls in by_case(rows).items()
        if "copy" in impls
    ]


def plot(rows: Iterable[dict], path: Path) -> None:
    """A group of bars for each case: 1 is the speed of a plain copy of as many bytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = bars(rows)
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.5 * len(found)), layout="constrained")
    height = 0.85 / len(COLOURS)
    for place, (impl, colour) in enumerate(COLOURS.items()):
        at = [(group + place * height, speeds[impl]) for group, (_, speeds) in enumerate(found) if impl in speeds]
        axes.barh([y for y, _ in at], [x for _, x in at], height, label=impl, color=colour)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks([group + 0.4 for group in range(len(found))], [label for label, _ in found])
    axes.invert_yaxis()
    axes.set_xlabel("speed, where a plain copy of as many bytes is 1")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(COLOURS), frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
