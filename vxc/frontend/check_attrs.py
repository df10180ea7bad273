"""Attributes: which may stand where, and what they take."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from vxc.frontend import syntax
from vxc.frontend.scope import At, State, fail, suggestion
from vxc.semantics import Order, check_order


@dataclass(frozen=True)
class AttrRule:
    """One attribute: where it may stand, and its one argument: 'int', 'text', 'map', or the words it may be."""

    places: tuple[str, ...]
    takes: str | tuple[str, ...]
    least: int = 1
    most: int | None = None  # where given, a multiple of `least` up to this


LOOPS = ("grid", "parallel", "serial", "unroll", "pipelined", "persistent")

ATTRS = {
    "threads": AttrRule(("grid", "parallel", "persistent"), "int", 32, 1024),
    "stages": AttrRule(("pipelined",), "int"),
    "vector": AttrRule(LOOPS, "int"),
    "unroll": AttrRule(LOOPS, "int"),
    "lanes": AttrRule(("kernel", "reduction", *LOOPS), "int"),
    "chunk": AttrRule(("kernel", "reduction", *LOOPS), "int", 0),
    "parts": AttrRule(("kernel", "reduction", *LOOPS), "int"),
    "independent": AttrRule(("parallel", "grid"), "text"),
    "fp": AttrRule(("kernel",), ("exact", "contract", "fast")),
    "native": AttrRule(("kernel",), ("f16", "bf16")),
    "layout": AttrRule(("declaration", "parallel"), "map"),
    "target": AttrRule(("kernel", "example"), "word"),
}

ORDER = ("chunk", "lanes", "parts")
_SAMPLE = {"text": '"why"', "map": "[i, j] -> [thread, slot]", "word": "sm_90a"}


def attributes(st: State, attrs: tuple[syntax.Attr, ...], place: str, at: At) -> Generator[Any, Any, dict[str, Any]]:
    """The attributes written at a `place` (a loop kind, 'kernel', 'reduction', 'declaration' ..), checked: name -> value."""
    found: dict[str, Any] = {}
    for attr in attrs:
        rule = ATTRS.get(attr.name)
        if rule is None:
            hint = suggestion(attr.name, ATTRS, f"there are @{', @'.join(ATTRS)}")
            fail(at, "E0220", f"there is no attribute `@{attr.name}`", attr, help=hint)
        if place not in rule.places:
            hint = f"it belongs to {' or '.join(_shown(rule.places))}"
            fail(at, "E0220", f"`@{attr.name}` does not belong to {f'`{place}`' if place in LOOPS else f'a {place}'}", attr, help=hint)
        if attr.name in found:
            fail(at, "E0220", f"`@{attr.name}` is given twice", attr, help="remove one")
        found[attr.name] = yield from _argument(at, attr, rule)
    order = [found[name] for name in ORDER if name in found]
    if order:
        wrong = check_order(Order(1, found.get("chunk", 1), found.get("lanes", 1), found.get("parts", 1)))
        if wrong:
            fail(at, "E0220", wrong, attrs[0].span.to(attrs[-1].span), help="give another number")
    return found


def _shown(places: tuple[str, ...]) -> list[str]:
    loops = ["a loop"] if set(LOOPS) <= set(places) else [f"`{place}`" for place in places if place in LOOPS]
    return [f"a {place}" for place in places if place not in LOOPS] + loops


def no_attributes(st: State, node: syntax.Stmt, at: At) -> Generator[Any, Any, None]:
    """For statements that take none."""
    yield from attributes(st, node.attrs, "statement of this kind", at)


def _argument(at: At, attr: syntax.Attr, rule: AttrRule) -> Generator[Any, Any, Any]:
    sample = " | ".join(rule.takes) if isinstance(rule.takes, tuple) else _SAMPLE.get(rule.takes, 4 * max(rule.least, 1))
    hint = f"write `@{attr.name}({sample})`"
    arg = attr.args[0] if len(attr.args) == 1 and not attr.named else None
    if isinstance(rule.takes, tuple) or rule.takes == "word":
        if isinstance(arg, syntax.Name) and (rule.takes == "word" or arg.name in rule.takes):
            return arg.name
    elif rule.takes == "text":
        if isinstance(arg, syntax.String) and arg.value.strip():
            return arg.value
        if not attr.args:
            fail(at, "E0220", "`@independent` without its reason", attr, help='say why iterations cannot collide: `@independent("..")`')
    elif rule.takes == "map":
        if isinstance(arg, syntax.LayoutMap):
            return arg
    elif arg is not None and not isinstance(arg, (syntax.String, syntax.LayoutMap)):
        value = yield arg, at.but(row=None)
        number = value.number
        if not isinstance(number, int):
            fail(at, "E0220", f"`@{attr.name}` takes an integer known when compiling", arg, help="use a literal or a generic")
        if rule.most is not None and (number % rule.least or not rule.least <= number <= rule.most):
            fail(at, "E0220", f"`@{attr.name}` takes a multiple of {rule.least} up to {rule.most}, not {number}", arg, help=hint)
        if number < rule.least:
            fail(at, "E0220", f"`@{attr.name}` takes an integer of at least {rule.least}, not {number}", arg, help=hint)
        return number
    fail(at, "E0220", f"`@{attr.name}` takes one argument of another kind", attr, help=hint)
