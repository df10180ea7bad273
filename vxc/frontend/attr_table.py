"""Attributes: the one table of where each may stand and what it takes.

A pair of attribute and position is honoured (`on`), refused as not compiled yet (`later`, E0401), or refused because the
attribute has no meaning there (E0220). `check_attrs` consults the table, the one in grammar/README.md is tested equal to it,
and a test compiles every pair.
"""

from __future__ import annotations

from vxc.record import record


# What an attribute may be written before, and how a diagnostic calls it.
POSITIONS = {
    "kernel": "a kernel",
    "program": "a program",
    "fn": "a function",
    "extern fn": "an extern function",
    "example": "an example",
    "import": "an import",
    "parameter": "a parameter",
    "grid": "a `grid` loop",
    "parallel": "a `parallel` loop",
    "serial": "a `serial` loop",
    "unroll": "an `unroll` loop",
    "pipelined": "a `pipelined` loop",
    "persistent": "an outermost `persistent` loop",
    "inner persistent": "a `persistent` loop inside a `grid`",
    "local": "a `local` array",
    "shared": "a `shared` array",
    "fragment": "a `fragment`",
    "statement": "a statement of this kind",
    "reduction": "a reduction",
    "scan": "a scan",
    "expression": "an expression that is no reduction",
}
LOOPS = ("grid", "parallel", "serial", "unroll", "pipelined", "persistent", "inner persistent")
ORDER = ("chunk", "lanes", "parts")  # what an attribute of a loop or kernel says to the reductions and scans inside
THREADS = 128  # of a block, where nothing is written
_ORDERED = ("kernel", "reduction", "scan", *LOOPS)


@record
class AttrRule:
    """One attribute: the positions where it is honoured, and those where it is not compiled yet, with the way out for these.

    Its one argument, where it is honoured anywhere, is an 'int' from `least` to `most` (`each`: a 'multiple' of `least`, or
    a 'power' of two), a 'text', or one of some words.
    """

    on: tuple[str, ...] = ()
    takes: str | tuple[str, ...] = ""
    later: tuple[str, ...] = ()
    way_out: str = ""
    least: int = 1
    most: int = (1 << 31) - 1
    each: str = ""


ATTRS = {
    "threads": AttrRule(("grid", "persistent"), "int", least=32, most=1024, each="multiple"),
    "stages": AttrRule(("pipelined",), "int"),
    "vector": AttrRule(("parallel", "serial", "unroll"), "int", most=32, each="power"),
    "unroll": AttrRule(("serial", "pipelined", "inner persistent"), "int", ("parallel",), "write a `serial` loop inside of it"),
    "lanes": AttrRule(_ORDERED, "int"),
    "chunk": AttrRule(_ORDERED, "int", least=0),
    "parts": AttrRule(("kernel", "reduction", *LOOPS), "int"),
    "independent": AttrRule(("parallel", "grid", "persistent"), "text"),
    "fp": AttrRule(("kernel",), ("exact", "contract", "fast"), ("reduction", "scan", "expression"), "write it before `kernel`"),
    "native": AttrRule(later=("kernel", "reduction", "scan", "expression"), way_out="remove it: 16-bit floats are computed in f32"),
    "layout": AttrRule(("fragment", "shared", "parallel"), "layout"),
    "target": AttrRule(later=("example",), way_out="remove it: an example is for every architecture"),
}
assert all(POSITIONS.keys() >= {*rule.on, *rule.later} and not {*rule.on} & {*rule.later} for rule in ATTRS.values())
assert all(bool(rule.on) == bool(rule.takes) and bool(rule.later) == bool(rule.way_out) for rule in ATTRS.values())


def in_words(positions: tuple[str, ...]) -> list[str]:
    """Positions as a reader counts them: words of the language in backticks, all loops together as `loop`."""
    loops = {*LOOPS} <= {*positions}
    rest = [position for position in positions if not (loops and position in LOOPS)]
    return [_word(position) for position in rest] + ["loop"] * loops


def _word(position: str) -> str:
    keyword = position.split()[-1]
    return position.replace(keyword, f"`{keyword}`") if keyword in {*LOOPS, "local", "shared", "fragment"} else position
