"""Charts that say what they were drawn from, so that one of an earlier record is found out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

KEYWORD = "Record"  # of the text in a PNG that is a digest of what is shown


def digest(shown: Any) -> str:
    """Of what a chart shows: numbers and strs in tuples, lists and dicts."""
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def save(figure: Any, path: Path, shown: Any, dpi: int) -> None:
    """Writes a figure of matplotlib as PNG."""
    figure.savefig(path, dpi=dpi, metadata={KEYWORD: digest(shown)})


def drawn_from(path: Path) -> str:
    """The digest in a PNG of `save`, "" where there is none."""
    from PIL import Image  # which a run of benchmarks does without, as it does without matplotlib

    with Image.open(path) as chart:
        return chart.info.get(KEYWORD, "")
