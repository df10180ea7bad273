"""What calls of builtins have in common: whether they reduce or scan, the number of their arguments, and their named ones."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import count, suggestion
from vxc.frontend import syntax
from vxc.frontend.foreign import ARGUMENTS
from vxc.frontend.scope import At, fail
from vxc.semantics import REDUCTIONS, SCALAR_OPS, SCANS

SCAN_CALLS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
assert set(SCAN_CALLS.values()) == set(SCANS)


def is_reduction(node: syntax.Call) -> bool:
    """Whether a call reduces a row: `max(x)` does, `max(a, b)` compares two."""
    name = node.func.name
    return name in REDUCTIONS and (len(node.args) == (2 if name == "dot" else 1) or name not in SCALAR_OPS or bool(node.named))


def ordered_as(node: syntax.Expr) -> str:
    """Which of the two that have an order this is: "reduction", "scan", or "" for neither."""
    if not isinstance(node, syntax.Call):
        return ""
    return "reduction" if is_reduction(node) else "scan" if node.func.name in SCAN_CALLS else ""


def arity(at: At, node: syntax.Call, number: int, what: str = "") -> None:
    if len(node.args) != number:
        needed = count(number, "argument")
        fail(at, "E0208", f"`{node.func.name}` takes {needed}, and {len(node.args)} are given", node, help=what or f"give it {needed}")


def named(at: At, node: syntax.Call, known: tuple[str, ...] = ()) -> dict[str, syntax.Expr]:
    """The named arguments, which are among `known`."""
    found: dict[str, syntax.Expr] = {}
    for arg in node.named:
        if arg.name not in known:
            hint = ARGUMENTS.get(arg.name, "") if "axis" in known else ""
            hint = hint or suggestion(arg.name, known, "give it by position, or remove it")
            fail(at, "E0209", f"`{node.func.name}` takes no argument named `{arg.name}`", arg.name_span, help=hint)
        if arg.name in found:
            fail(at, "E0209", f"`{arg.name}` is given twice", arg.name_span, help="remove one")
        found[arg.name] = arg.value
    return found


def axis_of(at: At, node: syntax.Call) -> Generator[Any, Any, int | None]:
    """The number given as `axis = n`; that there is such an axis is seen when the rank is known."""
    given = named(at, node, ("axis",)).get("axis")
    if given is None:
        return None
    value = yield given, at.but(row=None)
    if not isinstance(value.number, int) or value.number < 0:
        hint = f"write a number from 0: `{node.func.name}(x, axis = 1)`"
        fail(at, "E0214", "an axis is an integer of 0 or more, known when compiling", given, help=hint)
    return value.number
