"""Parsers from the grammar files, found in a checkout and in an installed package alike.

Building an LALR table takes a tenth of a second and more, so a grammar may have one beside it, `NAME.table`. Its first
line says what it was made from; if that is not what is here (an edited grammar, another Lark), the table is built anew
in memory. `python -m vxc.frontend.parse` writes it.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import lark

_PACKAGE = Path(__file__).parent
# A wheel carries the folder inside the package; a checkout, installed or not, has it beside the package.
FOLDER = next(folder for folder in (_PACKAGE / "grammar", _PACKAGE.parent / "grammar") if folder.is_dir())

STARTS = {"vx": ["start", "expression"]}
"""By grammar, the rules that a whole text may be of, where there are others than `start`."""


def parser(name: str, callbacks: object) -> lark.Lark:
    """The parser for `grammar/NAME.lark` that calls the method of `callbacks` named as each rule it reduces.

    `callbacks` is without state and its class is found by its module and name. Every symbol is passed, None for an
    absent optional one. Of several `STARTS`, its `parse` is told which.
    """
    try:
        table = (FOLDER / f"{name}.table").read_bytes()
    except FileNotFoundError:
        return _build(name, callbacks)
    made_from, _, data = table.partition(b"\n")
    return lark.Lark.load(io.BytesIO(data)) if made_from == stamp(name, callbacks) else _build(name, callbacks)


def write_table(name: str, callbacks: object) -> Path:
    """Writes the table that `parser(name, callbacks)` will load."""
    path = FOLDER / f"{name}.table"
    data = io.BytesIO()
    _build(name, callbacks).save(data)
    path.write_bytes(stamp(name, callbacks) + b"\n" + data.getvalue())
    return path


def stamp(name: str, callbacks: object) -> bytes:
    """A digest of everything the table depends on."""
    owner = type(callbacks)
    made_from = f"{lark.__version__}\n{owner.__module__}.{owner.__qualname__}\n{_starts(name)}\n{_grammar(name)}"
    return hashlib.sha256(made_from.encode()).hexdigest().encode()


def _grammar(name: str) -> str:
    return (FOLDER / f"{name}.lark").read_text(encoding="utf-8")


def _starts(name: str) -> list[str]:
    return STARTS.get(name, ["start"])


def _build(name: str, callbacks: object) -> lark.Lark:
    options = {"keep_all_tokens": True, "maybe_placeholders": True, "transformer": callbacks}
    return lark.Lark(_grammar(name), parser="lalr", start=_starts(name), **options)
