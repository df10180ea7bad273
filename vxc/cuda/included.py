"""What a text for NVRTC depends on beside itself and the files of `toolchain`: the text of an `extern fn` may read files of the user's."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from vxc.cuda.prelude import HEADERS

_HASH = r"(?:#|%:|\?\?=)(?:\s|/\*.*?\*/)*+"  # possessive: a comment ends at its first `*/`, and no two are tried as one
_MORE = re.compile(
    _HASH
    + r"(?:import|embed|include(?! <(?:{})>))".format("|".join(map(re.escape, HEADERS)))
    + r"|__has_(?:include|embed)|__(?:BASE_)?FILE__|__DATE__|__TIME(?:STAMP)?__",
    re.DOTALL,
)
"""Directives that read files, names that stand for a time or a file."""
_QUOTED = re.compile(_HASH + r'(include|embed)\s*"([^"\n]+)"', re.DOTALL)


def alone(text: str) -> bool:
    """Whether a text depends on nothing else."""
    return not _MORE.search(text.replace("\\\n", ""))


def digest(text: str, folder: Path = Path()) -> str | None:
    """What a text reads, in brief: "" for nothing, None where that cannot be told. Files that it names in quotes are found as NVRTC
    finds them, in the folder of the file that names them; the text itself is in the current one.
    """
    contents: list[bytes] = []
    known = _read(text, folder, contents, set())
    if not known:
        return None
    return hashlib.sha256(b"".join(b"%d\n" % len(data) + data for data in contents)).hexdigest() if contents else ""


def _read(text: str, folder: Path, contents: list[bytes], seen: set[Path]) -> bool:
    """Appends the contents of what a text reads, in the order in which it does; whether that is all."""
    text = text.replace("\\\n", "")
    if not alone(_QUOTED.sub("", text)):
        return False
    for directive, name in _QUOTED.findall(text):
        path = (folder / name).resolve()
        if path in seen:
            continue
        seen.add(path)
        try:
            data = path.read_bytes()
        except OSError:
            data = b""  # of the toolchain, or under an `#if` that does not hold; else NVRTC says so
        contents.append(data)
        if directive == "include" and not _read(data.decode("utf-8", "replace"), path.parent, contents, seen):
            return False
    return True
