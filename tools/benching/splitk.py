"""What the sweep of samples/flash_splitk.vx shows, as the text of samples/README.md: a table, and a verdict on each claim.

The claims are those that were made for this kernel on an A100, where its best form took 1.125 ms, 19.6 % of the card's f32 peak.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

CEILING = 64.8  # 10^12 operations a second that a loop of independent fma reaches on an H200
A100_MS, A100_SHARE = 1.125, 0.196
GAIN = 1.02  # less is noise
Rows = list[dict]


class Finding(NamedTuple):
    """Whether a claim holds (`yes`, `in part`, `no`), and what was measured."""

    holds: str
    measured: str


def verdict(*parts: bool) -> str:
    return "yes" if all(parts) else "in part" if any(parts) else "no"


def best(rows: Rows) -> dict:
    return min(rows, key=lambda row: row["total_ms"])


def where(rows: Rows, **values: int | None) -> Rows:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def chunked(rows: Rows) -> Rows:
    return [row for row in rows if row["chunk"]]


def pressure(rows: Rows) -> Finding:
    free = where(rows, cap=None)
    pairs = [(c, where(free, chains=c, chunk=0)[0], min(chunked(where(free, chains=c)), key=_pressure)) for c in chains(rows)]
    texts = [f"{_chains(c)}: {_used(single)} against {_used(chunk)} in chunks of {chunk['chunk']}" for c, single, chunk in pairs]
    return Finding(verdict(*(_pressure(chunk) < _pressure(single) for _, single, chunk in pairs)), "; ".join(texts))


def clearing(rows: Rows) -> Finding:
    spilling = [row for row in rows if not row["chunk"] and row["spills"]]
    cleared = [row for row in spilling if not all(r["spills"] for r in chunked(where(rows, chains=row["chains"], cap=row["cap"])))]
    names = ", ".join(f"{row['chains']} with {_cap(row)}" for row in cleared)
    text = f"of {len(spilling)} pairs of chains and cap that spill single-shot, a chunk clears {len(cleared)}"
    return Finding(verdict(*(row in cleared for row in spilling)), text + (f" ({names})" if cleared else ""))


def third_chain(rows: Rows) -> Finding:
    three, fewer = where(rows, chains=3), best([row for row in rows if row["chains"] < 3])
    free = [row for row in chunked(three) if not row["spills"]]
    text = f"{len(free)} of {len(chunked(three))} chunked forms of three chains do not spill"
    text += f", the fastest of them takes {best(free)['total_ms']:.3f} ms" if free else ""
    pays = bool(free) and best(free)["total_ms"] * GAIN <= fewer["total_ms"]
    return Finding(verdict(bool(free), pays), f"{text}; the fastest of fewer takes {fewer['total_ms']:.3f} ms ({_form(fewer)})")


def low_occupancy(rows: Rows) -> Finding:
    """The gain of the best chunk over single-shot, chains and cap alike, by blocks on a multiprocessor."""
    gains: dict[int, list[float]] = {}
    for row in (row for row in rows if not row["chunk"]):
        other = best(chunked(where(rows, chains=row["chains"], cap=row["cap"])))
        gains.setdefault(row["blocks_per_sm"], []).append(row["total_ms"] / other["total_ms"])
    least = min(gains)
    text = "; ".join(f"{n} block{'s' * (n > 1)}: {min(g):.2f} to {max(g):.2f} times as fast" for n, g in sorted(gains.items()))
    only = max(gains[least]) >= GAIN and all(max(g) < GAIN for n, g in gains.items() if n != least)
    return Finding(verdict(only), text)


def speed(rows: Rows) -> Finding:
    row = best(rows)
    share = row["tflops"] / CEILING
    text = f"{row['total_ms']:.3f} ms, {row['tflops']:.1f} TFLOP/s, {share:.1%} of the {CEILING} TFLOP/s that fma reaches here"
    return Finding(verdict(row["total_ms"] <= A100_MS, share >= A100_SHARE), f"{text} ({_form(row)})")


CLAIMS: tuple[tuple[str, Callable[[Rows], Finding]], ...] = (
    ("a chunked dot needs fewer registers than a single-shot one", pressure),
    ("that clears spills", clearing),
    ("so a third chain is affordable, and pays", third_chain),
    ("chunks gain at low occupancy only", low_occupancy),
    (f"{A100_MS} ms and {A100_SHARE:.1%} of peak, as on an A100, or better", speed),
)


def chains(rows: Rows) -> list[int]:
    return sorted({row["chains"] for row in rows})


def markdown(record: dict) -> str:
    """The table of the best cap for each number of chains and chunk, and the claims."""
    sizes = ", ".join(f"{name} = {size}" for name, size in record["sizes"].items())
    lines = [
        f"{record['device']}, {sizes}; single-shot is W = 0. Times are of both launches.",
        "",
        "| chains | chunk | registers | bytes spilled | ms | best cap | its spills | blocks / SM | first launch, ms | both | TFLOP/s |",
        "|" + "---|" * 11,
    ]
    for (chain, chunk), group in groupby(record["rows"], lambda row: (row["chains"], row["chunk"])):
        forms = list(group)
        free, top = where(forms, cap=None)[0], best(forms)
        cells = [
            chain, chunk or "single-shot", free["registers"], free["spills"], f"{free['total_ms']:.3f}",
            top["cap"] or "none", top["spills"], top["blocks_per_sm"],
            f"{top['partial_ms']:.3f}", f"{top['total_ms']:.3f}", f"{top['tflops']:.1f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| claim | holds | measured |", "|---|---|---|"]
    for claim, judge in CLAIMS:
        found = judge(record["rows"])
        lines.append(f"| {claim} | {found.holds} | {found.measured} |")
    return "\n".join(lines) + "\n"


def _pressure(row: dict) -> tuple[int, int]:
    """What spills wanted a register, too."""
    return row["spills"], row["registers"]


def _used(row: dict) -> str:
    return f"{row['registers']} registers" + (f" and {row['spills']} bytes spilled" if row["spills"] else "")


def _cap(row: dict) -> str:
    return f"cap {row['cap']}" if row["cap"] else "no cap"


def _form(row: dict) -> str:
    chunk = f"chunks of {row['chunk']}" if row["chunk"] else "single-shot"
    return f"{_chains(row['chains'])}, {chunk}, {_cap(row)}"


def _chains(count: int) -> str:
    return f"{count} chain{'s' * (count > 1)}"
