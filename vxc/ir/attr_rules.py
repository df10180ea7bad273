"""The verifier's rule for attributes: known, typed, among the choices, in name order, required ones present, values valid."""

from __future__ import annotations

from collections.abc import Callable

from vxc.ir.kernel import Const, Inst, placement_of
from vxc.ir.narrow import problem
from vxc.ir.ops import OPS, AttrDef
from vxc.layout.arrangement import arrangement
from vxc.layout.layout import parse
from vxc.semantics import Order, check_order
from vxc.target import WARP

_TYPES: dict[str, Callable[[object], bool]] = {
    "int": lambda v: type(v) is int,
    "bool": lambda v: type(v) is bool,
    "str": lambda v: type(v) is str,
    "ints": lambda v: type(v) is tuple and all(type(x) is int for x in v),
    "reason": lambda v: type(v) is tuple and v != () and all(type(x) in (int, str) for x in v),
}  # fmt: skip


_KNOWN = {op: dict(row.attrs) for op, row in OPS.items()}
_REQUIRED = {op: tuple(name for name, d in row.attrs if d.required) for op, row in OPS.items()}


def attributes_problem(stage: str, inst: Inst) -> str | None:
    """What is wrong with an instruction's attributes, or None; the same at every stage."""
    known, required = _KNOWN[inst.op], _REQUIRED[inst.op]
    if not inst.attrs and not required:
        return None
    given = [name for name, _ in inst.attrs]
    if len(given) > 1 and given != sorted(set(given)):
        return f"the attributes of `{inst.op}` are not in name order, each once"
    for name in required:
        if name not in given:
            return f"`{inst.op}` needs attribute `{name}`"
    for name, value in inst.attrs:
        if name not in known:
            return f"`{inst.op}` has no attribute `{name}`"
        rule = _arrangement if (inst.op, name) == ("shared", "layout") else _VALUES.get(name)
        wrong = _attribute(known[name], value) or (rule(value) if rule else None)
        if wrong:
            return f"attribute `{name}` of `{inst.op}` {wrong}"
    return _together(inst)


def _attribute(definition: AttrDef, value: object) -> str | None:
    if not _TYPES[definition.type](value):
        return f"is {value!r}, which is no {definition.type}"
    word = value[0] if definition.type == "reason" else value
    if definition.choices and word not in definition.choices:
        return f'is "{word}", not one of {", ".join(definition.choices)}'
    return None


def _order(value: tuple) -> str | None:
    if len(value) != 4:
        return f"has {len(value)} fields, not v, chunk, lanes, parts"
    wrong = check_order(Order(*value))
    return wrong and f"is no order: {wrong}"


def _layout(value: str, read: Callable = parse) -> str | None:
    try:
        read(value)
    except ValueError as error:
        return f"is malformed: {error}"
    return None


def _arrangement(value: str) -> str | None:
    return _layout(value, arrangement)


def _power_of_two(value: int) -> str | None:
    return None if value > 0 and value & (value - 1) == 0 else f"is {value}, not a power of two"


def _positive(value: int) -> str | None:
    return None if value > 0 else f"is {value}, not positive"


_VALUES: dict[str, Callable] = {
    "order": _order,
    "layout": _layout,
    "narrow": problem,
    "width": _power_of_two,
    "vector": _power_of_two,
    "bytes": _power_of_two,
    "deal": _positive,
    "flight": _power_of_two,
    "columns": _positive,
    "ahead": _positive,
    "least": _positive,
    "most": _positive,
    "multiple": _positive,
    "lanes": _positive,
    "resident": _positive,
    "unroll": _positive,
    "warps": _positive,
    "stages": _positive,
    "distance": _positive,
}  # fmt: skip


def _together(inst: Inst) -> str | None:
    """What attributes say only in combination."""
    width = inst.attr("width", 1)
    if inst.op == "barrier" and inst.attr("scope") == "group" and inst.attr("width") is None:
        return 'a `barrier` of scope "group" needs attribute `width`'
    if OPS[inst.op].scope == "warp" and width > WARP:
        return f"a group of {width} lanes is more than a warp"
    if inst.attr("distance", 0) >= width > 1:
        return f"distance {inst.attr('distance')} leaves a group of {width} lanes"
    if inst.op == "loop" and inst.operands[2:] and isinstance(inst.operands[2], Const) and inst.operands[2].value == 0:
        return "the step of a `loop` is 0"
    wrong = placement_of(inst).problem() if inst.op == "shared" else None
    return wrong and f"where the elements lie: {wrong}"
