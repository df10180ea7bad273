"""Which folder is the cache, how much it may hold, and what entries are named by.

    VXC_CACHE=0          no cache
    VXC_CACHE_DIR=PATH   the folder, else that of the platform for caches (~/.cache/vxc on Linux)
    VXC_CACHE_MIB=N      how many MiB it may hold, else 1024
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vxc.cache.store import Store

DEFAULT_MIB = 1024


def folder() -> Path:
    """Where the cache is, or would be."""
    given = os.environ.get("VXC_CACHE_DIR")
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("vxc", appauthor=False)


def limit() -> int:
    """How many bytes it may hold; what is no number counts as not given."""
    given = os.environ.get("VXC_CACHE_MIB", "")
    return (int(given) if given.isascii() and given.isdigit() and len(given) < 16 else DEFAULT_MIB) << 20


def store() -> Store | None:
    """The cache, or None where it is turned off."""
    if os.environ.get("VXC_CACHE") == "0":
        return None
    return _store(*(os.environ.get(name) for name in ("VXC_CACHE_DIR", "VXC_CACHE_MIB", "HOME", "XDG_CACHE_HOME")))


@cache
def _store(*_: str | None) -> Store | None:
    """Made once for an environment; None also where there is no such folder for the user (no home, no
    `platformdirs`), or the compiler's own text cannot be read, as in a zip file.
    """
    try:
        return Store(folder(), limit()) if code_digest() and folder().is_absolute() else None
    except (OSError, RuntimeError, ImportError):
        return None


def key_of(kind: str, *meaning: Any) -> str:
    """The name of an entry: `kind`, a word, says what it holds, `meaning` all that it follows from besides the compiler, as plain data."""
    text = json.dumps([*meaning, code_digest()])
    return f"{kind}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


@cache
def code_digest() -> str:
    """Of every file of the compiler: a version number alone does not tell edited code from released code. Raises OSError."""
    digest = hashlib.sha256(np.__version__.encode())  # what folds constants
    package = Path(__file__).parent.parent
    beside = () if (package / "grammar").is_dir() else (package.parent / "grammar",)
    for root in (package, *beside):
        for path in sorted(_sources(str(root))):
            with open(path, "rb", buffering=0) as file:
                data = file.read()
            digest.update(f"{os.path.relpath(path, root)} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _sources(root: str) -> list[str]:
    found, todo = [], [root]
    while todo:
        with os.scandir(todo.pop()) as files:
            for file in files:
                if file.name.endswith((".py", ".cuh", ".lark")):
                    found.append(file.path)
                elif file.is_dir() and not file.name.startswith(("_", ".")):
                    todo.append(file.path)
    return found
