"""`vxc cache`: what is kept of earlier compiles, and where."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from vxc.cache.places import folder, limit, misread, no_folder, turned_off
from vxc.cache.store import Entry, Store
from vxc.cli.common import print_json, print_table
from vxc.diag import unwritable
from vxc.progress import note

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


@click.group()
def command() -> None:
    """Show or empty the folder in which compiled kernels are kept.

    VXC_CACHE_DIR names another folder, VXC_CACHE_MIB=N lets it grow to N MiB (default 1024), VXC_CACHE=0 does without.
    """


@command.command()
@_JSON
def path(as_json: bool) -> None:
    """Print the folder."""
    print_json({"path": str(folder())}) if as_json else print(folder())


@command.command("ls")
@_JSON
def list_(as_json: bool) -> None:
    """List the entries, the last used first."""
    kept = _store()
    try:
        found = [(entry, kept.about(entry.key)) for entry in kept.entries()]
        unfinished = kept.unfinished()
    except OSError as error:
        raise no_folder(kept.folder, error) from None
    if as_json:
        rows = [{"key": e.key, "about": about, "bytes": e.nbytes, "used": round(e.used, 3)} for e, about in found]
        print_json({"path": str(kept.folder), "limit": kept.limit, "unfinished": unfinished, "entries": rows})
        return
    if found:
        rows = [(e.kind, e.digest[:12], about, f"{e.nbytes:,}", f"{_ago(time.time() - e.used)} ago") for e, about in found]
        print_table([("KIND", "NAME", "OF", "BYTES", "LAST USED"), *rows])
    beside = f", {unfinished / (1 << 20):.1f} MiB of others not finished," if unfinished else ""
    note(f"{_sum([e for e, _ in found])}{beside} of {kept.limit >> 20:,} MiB in {kept.folder}")


@command.command()
@_JSON
def clear(as_json: bool) -> None:
    """Remove all entries."""
    kept = _store()
    try:
        gone = kept.clear()
    except OSError as error:
        raise unwritable(str(kept.folder), error) from None
    if as_json:
        print_json({"path": str(kept.folder), "removed": len(gone), "bytes": sum(e.nbytes for e in gone)})
    else:
        print(f"removed {_sum(gone)} from {kept.folder}")


def _store() -> Store:
    """The folder, whether the cache is turned on or not. Raises `VxcError` E0711."""
    if turned_off():
        note("the cache is turned off, by VXC_CACHE")
    if misread():
        note(misread())
    return Store(folder(), limit())


def _sum(entries: Sequence[Entry]) -> str:
    many = "entry" if len(entries) == 1 else "entries"
    return f"{len(entries):,} {many}, {sum(e.nbytes for e in entries) / (1 << 20):.1f} MiB"


def _ago(seconds: float) -> str:
    unit, length = next(((unit, length) for unit, length in _UNITS if seconds >= length), _UNITS[-1])
    count = max(int(seconds / length), 0)
    return f"{count} {unit}{'s' * (count != 1)}"
