"""What tuning found, as a table for people."""

from __future__ import annotations

from vxc.api.tune_record import Entry, Row


def table(entry: Entry) -> str:
    """A head, and a line for each configuration, the fastest first."""
    about, chosen = entry.about, next(row for row in entry.rows if row.config == entry.chosen)
    versions = ", ".join(f"{name} {text.split(' headers')[0].removeprefix('nvrtc ')}" for name, text in entry.versions.items())
    took = "" if chosen.milliseconds is None else f", {chosen.milliseconds:.4f} ms"
    head = f"{about.kernel} on {about.device} ({about.arch}) for {about.shapes}: {entry.chosen}{took}; {entry.origin} ({versions})"
    rows = sorted(entry.rows, key=lambda row: float("inf") if row.milliseconds is None else row.milliseconds)
    names = [name for name, _ in entry.chosen.values]
    lines = [(*names, "ms", "x best", ""), *(_cells(row, rows[0].milliseconds) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names) + 2)]
    return "\n".join([head, *("  " + "  ".join([*map(str.rjust, line, widths), line[-1]]).rstrip() for line in lines)])


def _cells(row: Row, best: float | None) -> tuple[str, ...]:
    values = [str(value) for _, value in row.config.values]
    if row.milliseconds is None:
        return (*values, "-", "-", row.said)
    return (*values, f"{row.milliseconds:.4f}", f"{row.milliseconds / best:.2f}" if best else "-", row.said)
