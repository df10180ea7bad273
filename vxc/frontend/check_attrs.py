"""Attributes: whether each may stand where it is written, by the table in `attr_table`, and the value that it has."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import Diagnostic, VxcError, suggestion
from vxc.frontend import syntax
from vxc.frontend.attr_table import ATTRS, ORDER, POSITIONS, AttrRule, in_words
from vxc.frontend.check_args import ordered_as
from vxc.frontend.node import walk
from vxc.frontend.scope import At, fail
from vxc.semantics import Order, check_order
from vxc.source import Source


def attributes(attrs: tuple[syntax.Attr, ...], position: str, at: At) -> Generator[Any, Any, dict[str, Any]]:
    """The attributes written at a position of `attr_table.POSITIONS`, checked: name -> value."""
    found: dict[str, Any] = {}
    for attr in attrs:
        wrong = misplaced(attr, position, at.source)
        if wrong is not None:
            raise VxcError(wrong)
        if attr.name in found:
            fail(at, "E0220", f"`@{attr.name}` is given twice", attr, help="remove one")
        found[attr.name] = yield from _argument(at, attr, ATTRS[attr.name])
    return found


def no_attributes(node: syntax.Stmt | syntax.Item, at: At, position: str = "statement") -> None:
    """For positions at which none is honoured."""
    found = [wrong for attr in node.attrs if (wrong := misplaced(attr, position, at.source))]
    if found:
        raise VxcError(found)


def orders_something(attrs: tuple[syntax.Attr, ...], position: str, body: syntax.Block, at: At) -> None:
    """Fail for an attribute that speaks to the reductions and scans of a body that has none."""
    speaking = [attr for attr in attrs if attr.name in ORDER and (attr.name, position) != ("lanes", "parallel")]
    if speaking and not any(map(ordered_as, walk(body))):
        message = f"`@{speaking[0].name}` says how to reduce or scan, and nothing inside does either"
        fail(at, "E0220", message, speaking[0], help="remove it")


def misplaced(attr: syntax.Attr, position: str, source: Source) -> Diagnostic | None:
    """What is wrong with an attribute at a position, whatever its value: E0220, or E0401 where it has no effect yet."""
    code, message, rule = "E0220", f"there is no attribute `@{attr.name}`", ATTRS.get(attr.name)
    if rule is None:
        hint = suggestion(attr.name, ATTRS, f"there are @{', @'.join(ATTRS)}")
    elif position in rule.on:
        return None
    elif position in rule.later:
        code, message, hint = "E0401", f"`@{attr.name}` of {POSITIONS[position]} is not compiled yet", rule.way_out
    else:
        message = f"`@{attr.name}` does not belong to {POSITIONS[position]}"
        hint = f"it belongs to: {', '.join(in_words(rule.on + rule.later))}"
    return Diagnostic(code, message, source, attr.span, help=hint)


def _argument(at: At, attr: syntax.Attr, rule: AttrRule) -> Generator[Any, Any, Any]:
    arg = attr.args[0] if len(attr.args) == 1 and not attr.named else None
    sample = str(4 * max(rule.least, 1))
    if isinstance(rule.takes, tuple):
        sample = " | ".join(rule.takes)
        if isinstance(arg, syntax.Name) and arg.name in rule.takes:
            return arg.name
    elif rule.takes == "layout":
        sample = "[i, j] -> [i % 32, j]"
        if isinstance(arg, syntax.LayoutMap):
            return arg
    elif rule.takes == "text":
        sample = '"why"'
        if isinstance(arg, syntax.String) and arg.value.strip():
            return arg.value
        if not attr.args:
            fail(at, "E0220", "`@independent` without its reason", attr, help='say why iterations cannot collide: `@independent("..")`')
    elif arg is not None and not isinstance(arg, (syntax.String, syntax.LayoutMap)):
        number = (yield arg, at.but(row=None)).number
        if not isinstance(number, int):
            fail(at, "E0220", f"`@{attr.name}` takes an integer known when compiling", arg, help="use a literal or a generic")
        wanted = _wanted(rule, number)
        if wanted:
            fail(at, "E0220", f"`@{attr.name}` takes {wanted}, not {number}", arg, help=f"write `@{attr.name}({sample})`")
        wrong = check_order(Order(1, **{"chunk": 1, "lanes": 1, attr.name: number})) if attr.name in ORDER else None
        if wrong:
            fail(at, "E0220", wrong, arg, help=f"write `@{attr.name}({sample})`")
        return number
    fail(at, "E0220", f"`@{attr.name}` takes one argument of another kind", attr, help=f"write `@{attr.name}({sample})`")


def _wanted(rule: AttrRule, number: int) -> str:
    """The range that a number is not in, or ""."""
    if rule.each == "multiple":
        return f"a multiple of {rule.least} up to {rule.most}" * (number % rule.least != 0 or not rule.least <= number <= rule.most)
    if rule.each == "power":
        return f"a power of two up to {rule.most}" * (number not in [1 << k for k in range(rule.most.bit_length())])
    if number < rule.least:
        return f"an integer of at least {rule.least}"
    return f"an integer of at most {rule.most}" * (number > rule.most)
