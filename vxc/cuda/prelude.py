"""The device helpers a kernel needs, cut out of the CUDA text in `device/`, a file for each topic.

Blocks are separated by blank lines and open with a comment giving their meaning; a file's first comment is about the file.
The files are the only table: a block's name is the first function or struct that it defines, its dependencies are the other
`vx_` identifiers in it. Blocks come out in the order of FILES and the files, so the text of a kernel is deterministic. It is
compiled with --fmad=false --prec-div=true --prec-sqrt=true --ftz=false, where the kernel's `@fp` does not say otherwise.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from vxc.record import record

FILES = ("integers", "extremes", "elementary", "stored", "random", "conversions", "memory", "threads")

_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")
_DEFINED = re.compile(r"\bvx_\w+(?=\(| \{|<\d+> \{)")
HEADERS = {  # header: the part of an identifier that asks for it
    "cuda_fp16.h": "half",
    "cuda_bf16.h": "bfloat16",
    "cuda_fp8.h": "fp8",
}


@record
class Block:
    """One helper: its name, the comment lines above it as one line, and its text with them."""

    name: str
    meaning: str
    text: str

    @property
    def identifiers(self) -> set[str]:
        return identifiers(self.text)


def identifiers(text: str) -> set[str]:
    """Every identifier in CUDA text outside `//` comments."""
    return set(_IDENTIFIER.findall(re.sub(r"//[^\n]*", "", text)))


@cache
def blocks() -> tuple[Block, ...]:
    """The helpers in order; several blocks of one name are overloads or specialisations."""
    folder = Path(__file__).parent / "device"
    texts = (folder.joinpath(f"{name}.cuh").read_text(encoding="utf-8") for name in FILES)
    return tuple(_block(part) for text in texts for part in text.strip().split("\n\n")[1:])


def _block(text: str) -> Block:
    lines = text.split("\n")
    code = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    name = _DEFINED.search("\n".join(lines[code:])).group()
    return Block(name, " ".join(line.removeprefix("//").strip() for line in lines[:code]), text)


def prelude_text(used: Iterable[str]) -> str:
    """The `#include` lines and helpers that a text using these identifiers needs, dependencies first ("" if none).

    `used` may hold any identifiers: `identifiers(kernel_text)` is enough.
    """
    by_name = defaultdict(list)
    for block in blocks():
        by_name[block.name].append(block)
    wanted, work = set(), list(used)
    while work:
        word = work.pop()
        if word not in wanted:
            wanted.add(word)
            work += [w for block in by_name[word] for w in block.identifiers] if word in by_name else []
    includes = [f"#include <{header}>" for header, part in HEADERS.items() if any(part in word for word in wanted)]
    parts = ["\n".join(includes)] if includes else []
    parts += [block.text for block in blocks() if block.name in wanted]
    return "\n\n".join(parts) + "\n" if parts else ""
