"""Charts that say what they were drawn from, so that one of an earlier record is found out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

KEYWORD = b"Record"  # of the text chunk (PNG, third edition, 11.3.3) that holds a digest of what is shown


def digest(shown: Any) -> str:
    """Of what a chart shows: numbers and strs in tuples, lists and dicts."""
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def save(figure: Any, path: Path, shown: Any, dpi: int) -> None:
    """Writes a figure of matplotlib as PNG."""
    figure.savefig(path, dpi=dpi, metadata={KEYWORD.decode(): digest(shown)})


def drawn_from(path: Path) -> str:
    """The digest in a PNG of `save`, "" where there is none."""
    data, at = path.read_bytes(), 8
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        keyword, _, text = data[at + 8 : at + 8 + size].partition(b"\0")
        if (kind, keyword) == (b"tEXt", KEYWORD):
            return text.decode()
        at += 12 + size
    return ""
