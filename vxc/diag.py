"""Diagnostics: the values that carry a finding, and their text.

Every step that finds bad input raises `VxcError` holding `Diagnostic` values. Each has a code from `CODES`, a place, the
cause in the user's words and, in `help`, a way out. `render` gives the text; it depends on nothing but its arguments.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from typing import Any

from vxc.codes import CODES
from vxc.record import record, state
from vxc.source import Source, Span


LARGEST = 64 << 20  # bytes of a source file; a device may have no end


@record
class Label:
    """A second place that belongs to a diagnostic, possibly in another source."""

    source: Source
    span: Span
    text: str


@record
class Diagnostic:
    """One finding. `source` and `span` are None where there is no text to point at; `label` stands beside the carets."""

    code: str
    message: str
    source: Source | None = None
    span: Span | None = None
    label: str = ""
    secondary: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""

    def __post_init__(self) -> None:
        assert self.code in CODES, f"{self.code} is not in the registry"

    @property
    def severity(self) -> str:
        return CODES[self.code].severity

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    @property
    def place(self) -> str:
        """`file:line:column`, or "" where there is no place."""
        if self.source is None:
            return ""
        return _place(self.source, self.span)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data for `--json`; lines and columns count from 1."""
        labels = [Label(self.source, self.span, self.label)] if self.source and self.span else []
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "labels": [_label_dict(label) for label in (*labels, *self.secondary)],
            "notes": list(self.notes),
            "help": self.help,
        }


class VxcError(Exception):
    """Bad input, as one or more diagnostics. Its str is their rendering."""

    def __init__(self, diagnostics: Iterable[Diagnostic] | Diagnostic) -> None:
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return render_all(self.diagnostics)


def told(error: Exception) -> str:
    """An exception that is no diagnostic in one line: its type, what it says, where in the compiler it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    return f"{text} ({os.path.basename(last.filename)}:{last.lineno})"


@state
class Diagnostics:
    """Collects findings while a step goes on."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: str, message: str, source: Source | None = None, span: Span | None = None, **more: Any) -> None:
        """Adds Diagnostic(code, message, source, span, **more)."""
        self.found.append(Diagnostic(code, message, source, span, **more))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.found if not d.is_error)

    def raise_if_errors(self) -> None:
        """Raises VxcError with everything found, warnings too, if an error is among them."""
        if any(d.is_error for d in self.found):
            raise VxcError(self.found)


def read_source(path: str | Path) -> Source:
    """The source in a file, or on standard input for `-`. Raises VxcError (E0101, E0102)."""
    stdin = str(path) == "-"
    name = "<stdin>" if stdin else _file_name(path)
    try:
        if stdin and sys.stdin is None:
            raise OSError("it is closed")
        with nullcontext(sys.stdin.buffer) if stdin else open(path, "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise OSError(f"it has more than {LARGEST >> 20} MiB")
    except (OSError, ValueError) as error:  # ValueError: it is no path, as one with a NUL
        reason = getattr(error, "strerror", "") or str(error)
        raise VxcError(Diagnostic("E0101", f"cannot read {name}: {reason}", help="check the path")) from None
    try:
        return Source.decode(name, data)
    except ValueError as error:
        hint = "a source file is UTF-8 text; is this another kind of file?"
        raise VxcError(Diagnostic("E0102", f"{name} is not text: {error}", help=hint)) from None


def _file_name(path: str | Path) -> str:
    """As text that can be printed."""
    try:
        return os.fsencode(path).decode("utf-8", "replace")
    except UnicodeEncodeError:  # no file is called so
        return str(path).encode("utf-8", "replace").decode()


def unwritable(path: str, error: OSError) -> VxcError:
    """The error for a file or stream that cannot be written."""
    hint = "check the folder and the space left on it"
    return VxcError(Diagnostic("E0711", f"cannot write {path}: {error.strerror or error}", help=hint))


# ---- text ------------------------------------------------------------------------------------------------------------

TAB, INDENT, WIDTH = 4, 4, 100  # columns: tab stops, indentation left standing, widest excerpt
LONGEST = 400  # characters of a message: names and literals may be as long as they like
LISTED = 8  # names that a message lists
_COLOURS = {"error": "\033[1;31m", "warning": "\033[1;33m", "note": "\033[1;36m", "frame": "\033[1;34m", "bold": "\033[1m"}


def render_all(diagnostics: Iterable[Diagnostic], colour: bool = False) -> str:
    """Every diagnostic's text, a blank line between two."""
    return "\n\n".join(render(d, colour) for d in diagnostics)


def render(diagnostic: Diagnostic, colour: bool = False) -> str:
    """The text of a diagnostic, with no final newline; with `colour`, in ANSI colours.

    Deep indentation is cut to four columns, a long line to a window around the place and a long message in its middle; `..`
    stands for what is left out.
    """
    d = diagnostic

    def paint(style: str, text: str) -> str:
        return f"{_COLOURS[style]}{text}\033[0m" if colour else text

    lines = [paint(d.severity, f"{d.severity}[{d.code}]") + paint("bold", f": {_shown(d.message)}")]
    groups = _by_source(d)
    last = max((s.position(span.start)[0] for s, labels in groups for span, _, _ in labels), default=0)
    margin = " " * (len(str(last)) + 1)
    for i, (source, labels) in enumerate(groups):
        lines.append(paint("frame", f"{margin}{':::' if i else '-->'} ") + _shown(_place(source, labels[0][0])))
        lines.append(paint("frame", f"{margin} |"))
        lines += _excerpt(source, labels, margin, d.severity, paint)
    for kind, text in [*(("note", note) for note in d.notes), *([("help", _shown(d.help))] if d.help else [])]:
        first, *rest = text.split("\n")
        lines.append(paint("frame", f"{margin} = ") + paint("bold", f"{kind}:") + f" {first}")
        lines += [f"{margin}         {line}" for line in rest]
    return "\n".join(lines)


def _by_source(d: Diagnostic) -> list[tuple[Source, list[tuple[Span, str, str]]]]:
    """Labels as (span, mark, text), grouped by source, the diagnostic's own first."""
    groups: dict[Source, list[tuple[Span, str, str]]] = {}
    if d.source is not None:
        groups[d.source] = [(d.span or Span(0, 0), "^", d.label)]
    for label in d.secondary:
        groups.setdefault(label.source, []).append((label.span, "-", label.text))
    return list(groups.items())


def _excerpt(source: Source, labels: list[tuple[Span, str, str]], margin: str, severity: str, paint) -> list[str]:
    """The lines that the labels point into, each followed by its carets."""
    by_line: dict[int, list[tuple[Span, str, str]]] = {}
    for label in sorted(labels):
        by_line.setdefault(source.position(label[0].start)[0], []).append(label)
    cut = min(_indent(source.line(number)) for number in by_line)
    lines: list[str] = []
    before = 0
    for number, here in by_line.items():
        if before and number > before + 1:
            lines.append(paint("frame", "..."))
        before = number
        columns = [_columns(source, span) for span, _, _ in here]
        text = _expand(source.line(number))
        left, shown = _window(text, max(0, cut - INDENT), columns[0][0])
        lines.append((paint("frame", f" {str(number).rjust(len(margin) - 1)} |") + f" {shown}").rstrip())
        for (start, end), (_, mark, note) in zip(columns, here):
            start = min(max(start - left, 0), WIDTH)
            marks = mark * max(1, min(end - left, WIDTH) - start)
            style = severity if mark == "^" else "frame"
            lines.append(paint("frame", f"{margin} |") + " " * (start + 1) + paint(style, f"{marks} {_shown(note)}".rstrip()))
    return lines


def _window(text: str, left: int, place: int) -> tuple[int, str]:
    """The part of a line that is shown, from column `left` on where it fits, and the column at which it begins."""
    start = left
    if len(text) - left > WIDTH:
        start = max(left, min(place - WIDTH // 3, len(text) - WIDTH))
    shown = text[start : start + WIDTH]
    if start > left:
        shown = ".." + shown[2:]
    return start, shown if start + WIDTH >= len(text) else shown[:-2] + ".."


def _shown(text: str) -> str:
    """Lines of at most LONGEST characters, cut in the middle, with control characters but tabs replaced."""
    lines = ["\t".join(map(_printable, line.split("\t"))) for line in text.split("\n")]
    return "\n".join(line if len(line) <= LONGEST else f"{line[: LONGEST - 60]}..{line[-58:]}" for line in lines)


def listed(names: Iterable[str]) -> str:
    """`a, b, c`, or the first of many and how many more there are."""
    given = [*names]
    more = len(given) - LISTED
    return ", ".join(given) if more <= 1 else f"{', '.join(given[:LISTED])} and {more} more"


def there_are(names: Iterable[str]) -> str:
    """What names there are, as a way out where another was given."""
    given = [f"`{name}`" for name in names]
    return f"there {'are' if len(given) > 1 else 'is'} {listed(given) or 'none'}"


def count(n: int | str, what: str) -> str:
    """`1 row`, `2,000 rows`, `N rows`: a number, or the text of one, and a noun."""
    shown = n if isinstance(n, str) else f"{n:,}"
    return f"{shown} {what}" if shown == "1" else f"{shown} {what}s"


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A help line naming what was probably meant."""
    from difflib import get_close_matches  # once something is wrong

    words = [*known]
    near = [word for word in words if word.lower() == name.lower()] or get_close_matches(name, words, 1)
    return f"did you mean `{near[0]}`?" if near else otherwise


def _columns(source: Source, span: Span) -> tuple[int, int]:
    """Where a span starts and ends on its first line, in columns from 0, tabs expanded."""
    number, column = source.position(span.start)
    line = source.line(number)
    stop = min(column - 1 + max(span.end - span.start, 1), max(len(line), column))
    return len(_expand(line[: column - 1])), len(_expand(line[:stop].ljust(stop)))


def _expand(line: str) -> str:
    """A line as shown: tabs expanded, control characters replaced."""
    return _printable(line.expandtabs(TAB))


def _printable(line: str) -> str:
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def _indent(line: str) -> int:
    text = line.expandtabs(TAB)
    return len(text) - len(text.lstrip())


def _place(source: Source, span: Span | None) -> str:
    line, column = source.position(span.start if span else 0)
    return f"{source.name}:{line}:{column}"


def _label_dict(label: Label) -> dict[str, Any]:
    line, column = label.source.position(label.span.start)
    end_line, end_column = label.source.position(label.span.end)
    return {"file": label.source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column, "text": label.text}
