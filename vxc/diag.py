"""Diagnostics: the registry of codes, the values that carry a finding, and their text.

Every step that finds bad input raises `VxcError` holding `Diagnostic` values. Each has a code from `CODES`, a place, the
cause in the user's words and, in `help`, a way out. `render` gives the text; it depends on nothing but its arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from vxc.source import Source, Span


class Code(NamedTuple):
    severity: str  # "error" or "warning"
    title: str


def _codes(severity: str, rows: dict[str, str]) -> dict[str, Code]:
    return {code: Code(severity, title) for code, title in rows.items()}


_ERRORS = {
    # E01xx: source text and syntax
    "E0101": "a file cannot be read",
    "E0102": "a file is not text",
    "E0103": "a character that the language does not use",
    "E0104": "a string without its closing quote",
    "E0105": "a malformed number",
    "E0106": "an unknown escape in a string",
    "E0107": "a token that does not fit here",
    "E0108": "a missing `;`",
    "E0109": "a bracket without its partner",
    "E0110": "`=` where a comparison is meant",
    "E0111": "a reserved word used as a name",
    "E0112": "`else` without `if`",
    "E0113": "a statement without effect",
    "E0114": "something that cannot be assigned to",
    "E0115": "something that cannot be called",
    "E0116": "a positional argument after a named one",
    # E02xx: names, types, shapes
    "E0201": "an unknown name",
    "E0202": "a name defined twice",
    "E0203": "operands of types that do not go together",
    "E0204": "a value of another type than is needed here",
    "E0205": "a literal that does not fit its type",
    "E0206": "a condition that is no bool",
    "E0207": "an unknown function",
    "E0208": "a wrong number of arguments",
    "E0209": "an unknown named argument",
    "E0210": "an unknown type",
    "E0211": "an assignment to something that never changes",
    "E0212": "indices that do not suit what is indexed",
    "E0213": "rows or tiles of different shapes",
    "E0214": "a row where one value is needed, or the reverse",
    "E0215": "a constant index outside its array",
    "E0216": "a slice outside its array",
    "E0217": "a division by the constant zero",
    "E0218": "a generic without a fitting value",
    "E0219": "a dimension that is not fixed or not possible",
    "E0220": "an attribute that is unknown, misplaced or malformed",
    "E0221": "`break` or `continue` where it cannot stand",
    "E0222": "a function that is more than lets, ifs and returns",
    "E0223": "a function that calls itself, or grows without bound",
    "E0224": "an example that does not fit its kernel",
    "E0225": "an import that cannot be followed",
    "E0226": "a row used after what it reads was written",
    "E0227": "something without a value",
    "E0228": "an item defined twice, or over a built-in",
    "E0229": "a definition (`-D`) of nothing in the file",
    "E0230": "loop bounds that cannot be used",
    "E0231": "a declaration that is not possible",
    "E0232": "a construct that cannot stand here",
    "E0233": "a call of a kernel that does not fit it",
    "E0234": "no such kernel",
    # E03xx: independence and bounds
    "E0310": "an index outside its array",
    "E0312": "parallel iterations collide",
    "E0313": "parallel iterations cannot be proven independent",
    # E04xx: not yet
    "E0401": "a tile construct that is not lowered yet",
    "E0402": "a store of packed 4-bit elements",
    "E0403": "a number of blocks that only the device knows",
    "E0404": "roles and rings that are not lowered yet",
    # E05xx: IR, as text or as a compiler step made it
    "E0501": "IR text that does not parse",
    "E0502": "an unknown name in IR",
    "E0503": "a malformed literal in IR",
    "E0510": "a region without its partner",
    "E0511": "a name defined twice",
    "E0512": "a name used where it is not defined",
    "E0513": "operands that do not fit the opcode",
    "E0514": "a result that does not fit the opcode",
    "E0515": "attributes that do not fit the opcode",
    "E0516": "an opcode outside its stages",
    "E0517": "an instruction in the wrong region",
    "E0518": "a constant index out of range",
    "E0519": "a write to an `in` parameter",
    "E0520": "storage that does not fit its space",
    "E0521": "an instruction for all threads under divergent control",
    "E0522": "a launch that does not fit its kernel",
    "E0523": "a malformed signature or header",
    "E0524": "roles or rings that do not fit together",
    # E06xx: the environment lacks what was asked (exit status 4)
    "E0601": "NVRTC cannot be loaded",
    "E0602": "an architecture that this NVRTC does not know",
    "E0603": "no CUDA driver, device or bindings",
    "E0604": "a CUDA call that failed",
    # E07xx: targets, arguments and launches
    "E0701": "an unknown target",
    "E0702": "CUDA text that NVRTC rejects",
    "E0703": "an array where the kernel cannot reach it",
    "E0704": "an array of the wrong dtype",
    "E0705": "an array of the wrong shape",
    "E0706": "an array of the wrong strides",
    "E0707": "a scalar argument that does not fit its type",
    "E0708": "a missing or unknown argument",
    "E0709": "a malformed argument",
    "E0710": "an array file that cannot be read",
    "E0711": "a file that cannot be written",
    "E0712": "a launch beyond the limits of the device",
    "E0713": "an output that overlaps another array",
    "E0714": "a dimension that nothing sizes",
    "E0715": "more parameters than a launch can pass",
    "E0716": "a block that needs more shared memory than there is",
    # E072x: faults that the interpreters and --debug builds find while a kernel runs
    "E0720": "an index out of range",
    "E0721": "a read of an element that nothing has written",
    "E0722": "iterations called `@independent` that are not",
    "E0723": "an assertion that fails",
    "E0724": "an integer division by zero",
    "E0725": "threads that race",
    "E0726": "a barrier in divergent code",
    "E0727": "warps or roles that wait for each other for ever",
    "E0728": "a shuffle from a lane that does not run",
    "E0729": "a misaligned vector access",
    "E0730": "a layout that does not fit its loop",
    "E0731": "a loop that steps by 0",
    "E0732": "a use of a ring out of turn",
    "E0733": "a ring whose uses are not all done when its roles end",
    "E0734": "loops that run for longer than allowed",
}  # fmt: skip

_WARNINGS: dict[str, str] = {}

CODES: dict[str, Code] = _codes("error", _ERRORS) | _codes("warning", _WARNINGS)


@dataclass(frozen=True)
class Label:
    """A second place that belongs to a diagnostic, possibly in another source."""

    source: Source
    span: Span
    text: str


@dataclass(frozen=True)
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


@dataclass
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
    name = "<stdin>" if stdin else os.fsencode(path).decode("utf-8", "replace")
    try:
        return Source.decode(name, sys.stdin.buffer.read() if stdin else Path(path).read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise VxcError(Diagnostic("E0101", f"cannot read {name}: {reason}", help="check the path")) from None
    except ValueError as error:
        hint = "a source file is UTF-8 text; is this another kind of file?"
        raise VxcError(Diagnostic("E0102", f"{name} is not text: {error}", help=hint)) from None


# ---- text ------------------------------------------------------------------------------------------------------------

TAB, INDENT, WIDTH = 4, 4, 100  # columns: tab stops, indentation left standing, widest excerpt
_COLOURS = {"error": "\033[1;31m", "warning": "\033[1;33m", "frame": "\033[1;34m", "bold": "\033[1m"}


def render_all(diagnostics: Iterable[Diagnostic], colour: bool = False) -> str:
    """Every diagnostic's text, a blank line between two."""
    return "\n\n".join(render(d, colour) for d in diagnostics)


def render(diagnostic: Diagnostic, colour: bool = False) -> str:
    """The text of a diagnostic, with no final newline; with `colour`, in ANSI colours.

    Deep indentation is cut to four columns and a long line to a window around the place.
    """
    d = diagnostic

    def paint(style: str, text: str) -> str:
        return f"{_COLOURS[style]}{text}\033[0m" if colour else text

    lines = [paint(d.severity, f"{d.severity}[{d.code}]") + paint("bold", f": {d.message}")]
    groups = _by_source(d)
    last = max((s.position(span.start)[0] for s, labels in groups for span, _, _ in labels), default=0)
    margin = " " * (len(str(last)) + 1)
    for i, (source, labels) in enumerate(groups):
        lines.append(paint("frame", f"{margin}{':::' if i else '-->'} ") + _place(source, labels[0][0]))
        lines.append(paint("frame", f"{margin} |"))
        lines += _excerpt(source, labels, margin, d.severity, paint)
    for kind, text in [*(("note", note) for note in d.notes), *([("help", d.help)] if d.help else [])]:
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
        left = max(0, cut - INDENT)
        if len(text) - left > WIDTH:
            left = max(left, min(columns[0][0] - WIDTH // 3, len(text) - WIDTH))
        shown = text[left : left + WIDTH]
        lines.append((paint("frame", f" {str(number).rjust(len(margin) - 1)} |") + f" {shown}").rstrip())
        for (start, end), (_, mark, note) in zip(columns, here):
            start = min(max(start - left, 0), WIDTH)
            marks = mark * max(1, min(end - left, WIDTH) - start)
            style = severity if mark == "^" else "frame"
            lines.append(paint("frame", f"{margin} |") + " " * (start + 1) + paint(style, f"{marks} {note}".rstrip()))
    return lines


def _columns(source: Source, span: Span) -> tuple[int, int]:
    """Where a span starts and ends on its first line, in columns from 0, tabs expanded."""
    number, column = source.position(span.start)
    line = source.line(number)
    stop = min(column - 1 + max(span.end - span.start, 1), max(len(line), column))
    return len(_expand(line[: column - 1])), len(_expand(line[:stop].ljust(stop)))


def _expand(line: str) -> str:
    """A line as shown: tabs expanded, control characters replaced."""
    return "".join(c if c.isprintable() else "\ufffd" for c in line.expandtabs(TAB))


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
