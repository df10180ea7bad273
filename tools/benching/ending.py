"""How a tool ends: with its status; quietly where nobody reads what it prints any more (`.. | head`); with one paragraph that has a way out
where it cannot do what it was asked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from vxc.api.devices import arch_of, cuda
from vxc.api.errors import LaunchError
from vxc.diag import VxcError

USAGE, WRONG, LACKING = 2, 3, 4  # what was not asked right; a wrong result; no GPU, or a package that is not there


class Stopped(Exception):
    """A tool cannot do what it was asked. The text is one paragraph."""

    def __init__(self, text: str, status: int = LACKING):
        super().__init__(text)
        self.status = status


def gpu() -> str:
    """The arch of device 0. Raises `Stopped` where there is none."""
    try:
        return arch_of(cuda(), 0)
    except VxcError as error:
        why = LaunchError(error.diagnostics)
        raise Stopped(f"no GPU: {why}; on a machine with one this works, and --help says what does here") from None


def needed(*packages: str) -> None:
    """Raises `Stopped` where one is not installed."""
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        raise Stopped(f"{sys.executable} has no {' and no '.join(absent)}: pip install {' '.join(absent)}")


def rows_of(path: Path, columns: Collection[str]) -> list[dict[str, Any]]:
    """The rows of a record of one document. Raises `Stopped` for a file that is none, or whose rows lack a column."""
    try:
        rows = json.loads(path.read_text("utf-8"))["rows"]
        absent = [name for name in columns for row in rows if name not in row]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Stopped(f"{path} is no record: {error!r}; name a file that this tool wrote", USAGE) from None
    if absent:
        raise Stopped(f"{path} is no record of this tool: a row has no `{absent[0]}`; name a file that this tool wrote", USAGE)
    return rows


def end(main: Callable[[], int]) -> NoReturn:
    """Run a tool and exit with its status."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, which is no failure; the flush at exit goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Stopped as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        status = error.status
    sys.exit(status)
