"""Small pieces of CUDA C++ text."""

from __future__ import annotations


def bare(text: str) -> str:
    """A text without the brackets around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def line_directive(line: int, source_name: str) -> str:
    return f"#line {line} {c_string(source_name)}"


def c_string(text: str) -> str:
    """A C string literal of the text in UTF-8, in ASCII."""
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(plain)}"'
