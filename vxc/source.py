"""Source text and places in it.

A `Source` is one file's text in normal form: no BOM, `\n` line ends, Unicode NFC (so that canonically equal names are
one name), U+FFFD for halves of surrogate pairs. A `Span` is a pair of character offsets into it; lines and columns are worked
out only when one is shown.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from vxc.record import entity

_WORD = re.compile(r"\w+|.?")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Span(NamedTuple):
    """Characters [start, end) of a source."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of `other`."""
        return Span(self.start, other.end)


@entity
class Source:
    """A named text. `name` is what diagnostics print; `text` is put in normal form on construction."""

    name: str
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _normal(self.text))

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @classmethod
    def decode(cls, name: str, data: bytes) -> Source:
        """The source in UTF-8 `data`. Raises ValueError, saying where, if it is no UTF-8 or holds a NUL byte."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8") from None
        if "\0" in text:
            raise ValueError(f"byte {data.index(0)} is NUL")
        return cls(name, text)

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line begins."""
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1; columns count characters."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] - 1 if number < len(self.line_starts) else len(self.text)
        return self.text[start:end]

    def span_at(self, line: int, column: int) -> Span:
        """The word, or else the one character, that begins at a line and column (both from 1)."""
        start = self.line_starts[line - 1] + column - 1
        return Span(start, _WORD.match(self.text, start).end())

    def element_at(self, line: int, column: int) -> Span:
        """The name that begins at a line and column with the index brackets after it, or as `span_at`."""
        start, end = self.span_at(line, column)
        if self.text[end : end + 1] != "[":
            return Span(start, end)
        return Span(start, self._end(end + 1) + 1)

    def extent_at(self, line: int, column: int) -> Span:
        """The extent that begins at a line and column: up to the comma, colon or bracket behind it."""
        start = self.line_starts[line - 1] + column - 1
        return Span(start, start + len(self.text[start : self._end(start, ",:\n")].rstrip()))

    def _end(self, start: int, stops: str = "") -> int:
        """Where the bracket around an offset closes, or one of `stops` stands outside of inner brackets."""
        depth = 0
        for at in range(start, len(self.text)):
            char = self.text[at]
            if not depth and char in ")]" + stops:
                return at
            depth += (char in "([") - (char in ")]")
        return len(self.text) - 1

    def slice(self, span: Span) -> str:
        """The text of a span."""
        return self.text[span.start : span.end]


def _normal(text: str) -> str:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", text))
