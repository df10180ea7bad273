"""Which NVRTC and which CUDA headers are used, found without loading NVRTC: what an earlier process compiled needs neither.

The bindings take the library that the process has loaded already, else the one of the wheel `nvidia-cuda-nvrtc`, else they search on. Here
that of the wheel is found, where they would take it; for all else ask them (`vxc.cuda.nvrtc`).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import itertools
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LIBRARY = re.compile(r"libnvrtc\.so\.\d+")
_BUILTINS = re.compile(r"libnvrtc-builtins\.so\.(\d+)\.(\d+)")


class Library(NamedTuple):
    """`path` is "" where nobody knows it."""

    path: str
    version: tuple[int, int]


@cache
def wheel_library() -> Library | None:
    """The library of the wheel, if there is one and the bindings would load it."""
    for folder in (folder / "lib" for root in _wheels() for folder in (*sorted(root.glob("cu[0-9]*"), reverse=True), root / "cuda_nvrtc")):
        names = os.listdir(folder) if folder.is_dir() else []
        library = next(filter(_LIBRARY.fullmatch, names), None)
        builtins = next(filter(None, map(_BUILTINS.fullmatch, names)), None)
        if library and builtins:
            path = str(folder / library)
            return None if _other_is_loaded(path) else Library(path, (int(builtins[1]), int(builtins[2])))
    return None


def _other_is_loaded(path: str) -> bool:
    """Whether this process has a library of this name from elsewhere."""
    loaded = _loaded(os.path.basename(path))
    return loaded is not None and loaded != _loaded(path)


def _loaded(library: str) -> int | None:
    """The handle of a library that this process has loaded, by its name or path."""
    try:
        return ctypes.CDLL(library, mode=os.RTLD_NOLOAD)._handle
    except OSError:
        return None


@cache
def headers(major: int) -> tuple[str, ...]:
    """The folder with the CUDA headers, or () where there is none: the wheel's, else `CUDA_HOME`, `CUDA_PATH`, /usr/local/cuda."""
    roots = [root / package for root in _wheels() for package in (f"cu{major}", "cuda_runtime")]
    roots += [Path(os.environ[v]) for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    found = (root / "include" for root in (*roots, Path("/usr/local/cuda")) if (root / "include" / "cuda_fp16.h").is_file())
    return tuple(str(folder) for folder in itertools.islice(found, 1))


@cache
def named(library: Library, folders: tuple[str, ...]) -> str:
    """A name for a library with headers: the files of both, each by its path, size and time of change, since a release and its patches have
    one version.
    """
    files = [path for folder in folders for path in _files(folder) if ".h" in path]
    beside = _files(os.path.dirname(os.path.realpath(library.path))) if library.path else ()
    files += [path for path in beside if "nvrtc" in os.path.basename(path)]
    digest = hashlib.sha256()
    for path in sorted(files):
        about = os.stat(path)
        digest.update(f"{path} {about.st_size} {about.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return "nvrtc {}.{} files {}".format(*library.version, digest.hexdigest()[:32])


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        yield from (file.path for file in found if file.is_file())


def _wheels() -> list[Path]:
    """The folders of NVIDIA's wheels."""
    wheels = importlib.util.find_spec("nvidia")
    return [Path(root) for root in (wheels.submodule_search_locations or ())] if wheels else []
