"""Spoiled texts: samples with tokens deleted, repeated, swapped, replaced; cut short; spliced; with bytes that are no text.

    python tests/spoiled.py 20000 [FIRST]     compile so many, from seed FIRST on, and print every fault
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from vxc.codes import CODES
from vxc.diag import Diagnostic, VxcError, render_all
from vxc.driver import compile
from vxc.frontend.check import kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.source import Source

ROOT = Path(__file__).parent.parent
FILES = [*sorted((ROOT / "samples").glob("*.vx")), *[ROOT / "tests" / "every_construct.vx"] * 4]
LIMIT = 5.0  # seconds of one text
_TOKEN = re.compile(r'#[^\n]*|"[^"\n]*"|\w+(?:\.\d+)?|\s+|[-=!<>&|+*/^:.]{1,3}|.', re.DOTALL)
_WORDS = """
    0 1 -1 2.5 7 31 64 128 1000000 2147483648 9223372036854775807 9223372036854775808 1e38 1e400 0xFFFFFFFFFFFFFFFFFF true false inf nan
    f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i8 u8 u64 i4 u4 bool kernel fn extern program example import let var if else while break
    continue return grid parallel serial unroll pipelined persistent shared fragment local in out inout as step copy gemm sum max cumsum
    argmax dot select reinterpret sat rand atomic_add assert print axis pad ( ) [ ] { } , ; : :+ .. = == + - * / // % & | ^ << >> && || ! ~
    @ -> @threads(64) @lanes(4) @chunk(0) @vector(4) @stages(2) @unroll(3) @parts(3) @independent("x") @fp(fast) "text" # é \u0430 int float
""".split()


_NUMBERS = "0 1 2 3 5 7 31 32 33 64 1000 65536 1000000 2147483647 2147483648 9223372036854775807 (-1) (-8) 0.5 1e30".split()


@cache
def tokens(path: Path) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(path.read_text("utf-8")))


def _delete(r: random.Random, text: list[str]) -> list[str]:
    at = r.randrange(len(text))
    return text[:at] + text[at + r.choice((1, 1, 1, 2, 5, 40)) :]


def _repeat(r: random.Random, text: list[str]) -> list[str]:
    at = r.randrange(len(text))
    length = r.choice((1, 1, 3, 20))
    return text[: at + length] + text[at:]


def _swap(r: random.Random, text: list[str]) -> list[str]:
    a, b = r.randrange(len(text)), r.randrange(len(text))
    text[a], text[b] = text[b], text[a]
    return text


def _replace(r: random.Random, text: list[str]) -> list[str]:
    text[r.randrange(len(text))] = r.choice(_WORDS)
    return text


def _insert(r: random.Random, text: list[str]) -> list[str]:
    at = r.randrange(len(text) + 1)
    return [*text[:at], " ", r.choice(_WORDS), " ", *text[at:]]


def _same(r: random.Random, text: list[str]) -> list[str]:
    """A token as another of its class, from any sample."""
    at = r.randrange(len(text))
    kind = _class(text[at])
    found = [token for token in tokens(r.choice(FILES)) if _class(token) == kind]
    if found:
        text[at] = r.choice(found)
    return text


def _rename(r: random.Random, text: list[str]) -> list[str]:
    """One name as another of the text."""
    names = [i for i, token in enumerate(text) if _class(token) == "name"]
    if names:
        text[r.choice(names)] = text[r.choice(names)]
    return text


def _number(r: random.Random, text: list[str]) -> list[str]:
    """One number as an odd one."""
    numbers = [i for i, token in enumerate(text) if _class(token) == "number"]
    if numbers:
        text[r.choice(numbers)] = r.choice(_NUMBERS)
    return text


def _statement(r: random.Random, text: list[str]) -> list[str]:
    """A statement deleted, repeated or moved."""
    ends = [0, *(i + 1 for i, token in enumerate(text) if token in (";", "{", "}"))]
    whole = [(a, z) for a, z in zip(ends, ends[1:]) if text[z - 1] == ";"]
    if not whole:
        return text
    start, stop = r.choice(whole)
    rest = text if r.choice((True, False)) else text[:start] + text[stop:]
    at = r.choice(ends) if len(rest) == len(text) else start
    return rest[:at] + text[start:stop] + rest[at:] if r.random() < 0.7 else rest


def _class(token: str) -> str:
    if token.isidentifier():
        return "word" if token in _WORDS else "name"
    return "number" if token[0].isdigit() else "space" if token.isspace() else token if token in "()[]{};," else "sign"


def _cut(r: random.Random, text: list[str]) -> list[str]:
    return text[: r.randrange(len(text))]


def _splice(r: random.Random, text: list[str]) -> list[str]:
    other = tokens(r.choice(FILES))
    return [*text[: r.randrange(len(text))], *other[r.randrange(len(other)) :]]


def _bytes(r: random.Random, text: list[str]) -> list[str]:
    """Any characters: controls, NUL, halves of surrogate pairs."""
    at = r.randrange(len(text) + 1)
    return [*text[:at], "".join(chr(r.choice((r.randrange(32), r.randrange(256), r.randrange(0x11000)))) for _ in range(3)), *text[at:]]


_WAYS: list[Callable[[random.Random, list[str]], list[str]]] = [
    _delete, _repeat, _swap, _replace, _insert, _cut, _splice, _bytes, *[_same] * 4, *[_rename] * 5, *[_number] * 3, *[_statement] * 4,
]  # fmt: skip


def spoiled(seed: int) -> Source:
    """The text of a seed, under the name of the sample that it began as, so that imports are found."""
    r = random.Random(seed)
    path = r.choice(FILES)
    text = list(tokens(path))
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        text = r.choice(_WAYS)(r, text) or [" "]
    return Source(str(path), "".join(text))


def outcome(source: Source) -> str:
    """'compiled', or the code of the first diagnostic; a description of the fault where it is neither, or takes too long."""
    start = time.process_time()
    found = "compiled"
    try:
        module = parse(source)
        for name in [*kernel_names(module), *program_names(module)] or [None]:
            compile(source, name).cuda
    except VxcError as error:
        found = _malformed(error.diagnostics) or error.diagnostics[0].code
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the fault that is looked for
        found = f"fault: {type(error).__name__}: {error}"
    spent = time.process_time() - start
    return found if spent < LIMIT else f"fault: {spent:.1f} s"


def _malformed(diagnostics: tuple[Diagnostic, ...]) -> str:
    """What is wrong with the findings themselves."""
    if not diagnostics:
        return "fault: an error without a diagnostic"
    for d in diagnostics:
        if d.code not in CODES or not d.message or not d.help:
            return f"fault: {d.code} without message or way out: {d.message}"
        if d.source is None:
            return f"fault: {d.code} without a place: {d.message}"
        if d.span is not None and not 0 <= d.span.start <= d.span.end <= len(d.source.text):
            return f"fault: {d.code} at {d.span}, outside the text"
    if max(map(len, render_all(diagnostics).split("\n"))) > 1000:
        return f"fault: {diagnostics[0].code} has a line of more than 1000 characters"
    return ""


def main(count: int, first: int = 0) -> None:
    counts: dict[str, int] = {}
    for seed in range(first, first + count):
        found = outcome(spoiled(seed))
        counts[found[:40]] = counts.get(found[:40], 0) + 1
        if found.startswith("fault"):
            print(seed, found[:300], flush=True)
    print(dict(sorted(counts.items(), key=lambda item: -item[1])))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
