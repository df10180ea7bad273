"""Why an access of global or shared memory is of fewer than 16 bytes: the codes of the attribute `narrow`, and their sentences.

A reason is a code and what it says of: `["iteration", 16]` in the text of the IR. `REASONS` is the one table of them. Names are those of
the source; a line is that of a loop, 0 of one that the compiler made; a distance is a number, or a formula of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Union

from vxc.diag import count
from vxc.target import VECTOR

Reason = tuple[Union[str, int], ...]  # the code, then its arguments


class _Row(NamedTuple):
    """What gives the sentence of a code from its arguments, and their names; `more`: the arguments may come several times."""

    words: Callable[..., str]
    arguments: tuple[str, ...] = ()
    more: bool = False


def alike(needs: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
    """By what is needed, the names of what it is needed of."""
    found: dict[int, list[str]] = {}
    for name, by in needs:
        found.setdefault(by, []).append(name)
    return found


def _calls(*arguments: str | int) -> str:
    needs = [*zip(arguments[::2], arguments[1::2])]
    arrays, sizes = ([(name[1:], by) for name, by in needs if name[0] == sigil] for sigil in "@%")
    words = [f"`{'` or `'.join(xs)}` begins at no multiple of {n} bytes" for n, xs in alike(arrays).items()]
    words += [f"{' or '.join(xs)} is no multiple of {n}" for n, xs in alike(sizes).items()]
    return f"for calls where {', or '.join(words)}"


def _next(distance: int | str) -> str:
    return f"the next element that the thread takes is {f'{distance:,}' if type(distance) is int else distance} bytes further on"


def _loop(line: int, what: str) -> str:
    return f"the loop on line {line} {what}" if line else f"the loop around it {what}"


def _holds(line: int, opcode: str) -> str:
    return _loop(line, f"has {_INSIDE.get(opcode, 'an exchange between lanes')} in it")


_INSIDE = {"loop": "a loop", "while": "a loop", "break": "a `break`", "continue": "a `continue`", "print": "a `print`",
           "barrier": "a barrier"}  # fmt: skip
_AGAINST = "against bank conflicts, "
rows_lie = "its rows of {} bytes lie {} apart".format
vectors_lie = "its vectors of {} bytes change places with the row".format
_ROW = "the {} elements that a thread takes in a row ".format


def _iteration(threads: int) -> str:
    return f"it is one element to an iteration, which {f'{threads} threads run together' if threads != 1 else 'one thread runs'}"


def _begins(elements: int, by: int) -> str:
    return f"{_ROW(elements)}may begin at any {f'multiple of {by} bytes' if by != 1 else 'byte'}"


REASONS: dict[str, _Row] = {
    # one access by itself
    "atomic": _Row("an atomic updates one element".format),
    "single": _Row("a thread takes one element here".format),
    "iteration": _Row(_iteration, ("threads",)),
    "data": _Row("where it is depends on memory".format),
    # what a thread takes in a loop
    "scattered": _Row(lambda at: f"the elements that a thread takes in {_loop(at, 'do not follow one another in memory')}", ("line",)),
    "next": _Row(_next, ("distance",)),
    "holds": _Row(_holds, ("line", "opcode")),
    "between": _Row(lambda at: _loop(at, "accesses other elements in between"), ("line",)),
    "serial": _Row(lambda at: _loop(at, "runs its iterations one after another: it is no `unroll` loop"), ("line",)),
    "length": _Row(lambda at: _loop(at, "is as long as only the call knows"), ("line",)),
    "count": _Row(lambda at, n, most: _loop(at, f"has {n} iterations, and a vector has 2 to {most}, a power of two"),
                  ("line", "iterations", "most")),
    "apart": _Row("consecutive iterations are {} elements apart".format, ("distance",)),
    "broken": _Row("its elements do not follow one another in memory throughout".format),
    "unknown": _Row("how its index follows from the iteration is not known".format),
    "condition": _Row("it happens only under a condition".format),
    "written": _Row("`{}` is written here, and not only at the element that the iteration reads".format, ("array",)),
    "aliases": _Row("two parameters of the kernel may be the same array".format),
    "packed": _Row("two elements of {} share a byte".format, ("dtype",)),
    # how long a run is, and where it begins
    "short": _Row(lambda n, size: f"{_ROW(n)}are {count(size, 'byte')}", ("elements", "bytes")),
    "begins": _Row(_begins, ("elements", "bytes")),
    "turns": _Row(lambda *at: f"{_begins(*at)}, and do so elsewhere modulo {VECTOR} bytes in neighbouring lanes", ("elements", "bytes")),
    "row-starts": _Row("where a row of them begins is not known, and lanes that take neighbouring elements access whole lines".format),
    "whole-lines": _Row("lanes take neighbouring elements, as the array in global memory wants it".format),
    "calls": _Row(_calls, ("@array or %size", "multiple"), more=True),
    "address": _Row("as wide as its address allows".format),
    "part": _Row("a part of a vector is as wide as its address and number of elements allow".format),
    "rest": _Row("elements that fill no whole vector go one by one".format),
    "row-end": _Row("elements on both sides of the end of a row do not lie together".format),
    "loaded": _Row("{} elements in a row are loaded here".format, ("elements",)),
    "pitch": _Row(lambda row, pitch: _AGAINST + rows_lie(row, pitch), ("bytes", "pitch")),
    "swizzle": _Row(lambda vector: _AGAINST + vectors_lie(vector), ("bytes",)),
    # why lanes take one element of a parallel loop at a time
    "atomics": _Row("atomics are of one element".format),
    "elsewhere": _Row("other parts of the kernel access what it writes, or write what it reads".format),
    "no-run": _Row("no access follows the elements of an array".format),
    "conditions": _Row("what it accesses depends on conditions".format),
    "little-work": _Row("there is too little to do for each lane".format),
    "more-work": _Row("an iteration is more than loads, arithmetic and stores of global memory".format),
}  # fmt: skip

_TEXT = ("opcode", "array", "dtype", "@array or %size")  # arguments that are text; a distance may be; the others are numbers


def words(reason: Reason) -> str:
    """The sentence of a reason that `problem` finds nothing wrong with."""
    code, *arguments = reason
    return REASONS[str(code)].words(*arguments)


def problem(reason: Reason) -> str | None:
    """What is wrong with the arguments of a reason of the table, or None."""
    code, *given = reason
    row = REASONS[str(code)]
    wanted = row.arguments * (max(1, len(given) // len(row.arguments)) if row.more else 1)
    if len(given) != len(wanted):
        return f'is "{code}" with {len(given)} arguments; its arguments are: {", ".join(row.arguments) or "none"}'
    for name, value in zip(wanted, given):
        types = (str,) if name in _TEXT else (int, str) if name == "distance" else (int,)
        if type(value) not in types or name[0] == "@" and not str(value).startswith(("@", "%")):
            return f'is "{code}" with {value!r}, which is no {name}'
    return None


def listed() -> dict[str, str]:
    """How each reason is written, and its sentence, both with the names of its arguments instead of them."""
    found = {}
    for code, row in REASONS.items():
        names = [f"<{name}>" for name in row.arguments]
        shown = ["@<array>", "<bytes>", "%<size>", "<multiple>"] if row.more else names
        written = [f'"{code}"', *(f'"{name}"' if name[1:-1] in _TEXT else name for name in names), *["..."] * row.more]
        found[f"[{', '.join(written)}]"] = words((code, *shown))
    return found
