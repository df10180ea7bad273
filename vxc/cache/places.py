"""Which folder is the cache, how much it may hold, and what entries are named by.

    VXC_CACHE=0          no cache; also off, no, false
    VXC_CACHE_DIR=PATH   the folder, else that of the platform for caches (~/.cache/vxc on Linux)
    VXC_CACHE_MIB=N      how many MiB it may hold, else 1024
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vxc.cache.store import Store
from vxc.diag import Diagnostic, VxcError

DEFAULT_MIB = 1024


def folder() -> Path:
    """Where the cache is, or would be. Raises `VxcError` E0711 where there is no such place: no home, or user, or current folder."""
    given = os.environ.get("VXC_CACHE_DIR")
    try:
        if given:
            return Path(given).expanduser().absolute()
        import platformdirs

        found = platformdirs.user_cache_path("vxc", appauthor=False)
        if not found.is_absolute():
            raise RuntimeError(f"{found} depends on the current folder")
        return found
    except (OSError, RuntimeError, ImportError) as error:
        raise no_folder(given or "of the platform", error) from None


def no_folder(path: Path | str, error: Exception) -> VxcError:
    """The error for a folder of the cache that cannot be used."""
    cause = getattr(error, "strerror", None) or error
    return VxcError(Diagnostic("E0711", f"the cache has no folder {path}: {cause}", help="set VXC_CACHE_DIR to one that can be written to"))


def limit() -> int:
    """How many bytes it may hold; what is no number counts as not given (`misread`)."""
    given = os.environ.get("VXC_CACHE_MIB")
    return (int(given) if given and not misread() else DEFAULT_MIB) << 20


def misread() -> str:
    """What the environment says of the cache and is not understood, in a sentence; "" for nothing."""
    given = os.environ.get("VXC_CACHE_MIB")
    if not given or given.isascii() and given.isdigit() and len(given) < 16:
        return ""
    return f"VXC_CACHE_MIB={given} is no number of MiB, and the cache may hold {DEFAULT_MIB:,}"


def turned_off() -> bool:
    """Whether the environment says that there is to be no cache."""
    return os.environ.get("VXC_CACHE", "").strip().lower() in ("0", "off", "no", "false")


def store() -> Store | None:
    """The cache, or None where it is turned off."""
    if turned_off():
        return None
    return _store(*(os.environ.get(name) for name in ("VXC_CACHE_DIR", "VXC_CACHE_MIB", "HOME", "XDG_CACHE_HOME")))


@cache
def _store(*_: str | None) -> Store | None:
    """Made once for an environment; None also where there is no such folder for the user, or the compiler's own text cannot be read, as
    in a zip file.
    """
    if misread():
        logging.getLogger("vxc").warning(misread())
    try:
        return Store(folder(), limit()) if code_digest() else None
    except (OSError, VxcError):
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
            digest.update(f"{path[len(str(root)) + 1 :]} {len(data)}\n".encode() + data)
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
