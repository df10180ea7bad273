"""Writing what -o names: a file, a folder, or standard output for `-`."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import click

from vxc.runtime.arrays import write_file


def write(path: str, put: Callable[[BinaryIO], Any]) -> None:
    """Has `put` write a file, whole or not at all, or to standard output. Raises VxcError E0711."""
    if path != "-":
        write_file(path, put)
        return
    whole = io.BytesIO()
    put(whole)
    sys.stdout.flush()
    left = whole.getbuffer()
    while left:  # unbuffered, as by `python -u`, standard output may take a part
        taken = sys.stdout.buffer.write(left)
        if taken is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        left = left[taken:]
    sys.stdout.buffer.flush()


def names_folder(path: str | None) -> bool:
    """Whether -o means a folder: one that is there, or a path that ends as one."""
    return path is not None and path != "-" and (os.path.isdir(path) or path.endswith(("/", os.sep)))


def refuse_terminal() -> None:
    """Binary data is not shown on a terminal."""
    if sys.stdout.isatty():
        raise click.UsageError("binary data does not go to a terminal: give -o a file, or redirect")
