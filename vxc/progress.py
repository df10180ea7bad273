"""How far a long piece of work is, on standard error: a bar on a terminal, elsewhere a line once in a while."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from time import monotonic
from typing import Protocol

_FIRST_LINE = 20.0  # seconds; each further one after half as long again


class Advance(Protocol):
    """Called with how many more items are done, and what is to be said beside the count."""

    def __call__(self, more: int, said: str = "") -> None: ...


def note(text: str) -> None:
    """A remark beside the results, on standard error."""
    print(f"note: {text}", file=sys.stderr)


@contextlib.contextmanager
def progress(text: str, total: int | None) -> Iterator[Advance]:
    """Says how many of so many items (None: of unknown number) are done; gives what to call with how many more are."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines(text, total)
        return
    if total in (0, 1):
        yield lambda more, said="": None
        return
    from rich.console import Console
    from rich.progress import Progress

    # Without a thread of its own that redraws: processes may be forked meanwhile.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(text, total=total)

        def advance(more: int, said: str = "") -> None:
            bar.update(task, advance=more, description=f"{text}: {said}" if said else text, refresh=True)

        yield advance


def _lines(text: str, total: int | None) -> Advance:
    start = monotonic()
    done, due = 0, _FIRST_LINE

    def advance(more: int, said: str = "") -> None:
        nonlocal done, due
        done += more
        passed = monotonic() - start
        if passed >= due:
            due = 1.5 * passed
            note(f"{text}: {done:,}{'' if total is None else f' of {total:,}'} after {passed:.0f} s{said and f', {said}'}")

    return advance
