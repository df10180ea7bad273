"""Generic parameters: what each stands for, from what is given, or from its default."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import suggestion
from vxc.dtypes import BOOL, DTYPES, I64, DType
from vxc.frontend import syntax
from vxc.frontend.scope import At, bind, dtype_named, fail
from vxc.frontend.typed import Const
from vxc.frontend.values import Value
from vxc.source import Span

KINDS = ("int", "bool", "dtype")


def bind_generics(at: At, generics: tuple[syntax.Generic, ...], given: dict[str, Any], hint: str) -> Generator[Any, Any, None]:
    """Bind every generic in `at.scope`; `given` maps names to an int, bool or DType. `hint` says how to give one (`{}` its name)."""
    for generic in generics:
        if generic.kind is not None and generic.kind not in KINDS:
            message = f"`{generic.kind}` is no kind of generic"
            fail(at, "E0210", message, generic, help=suggestion(generic.kind, KINDS, "generics are `int`, `bool` or `dtype`"))
        if generic.name in given:
            thing = given[generic.name]
        elif generic.default is None:
            sample = f"{generic.name}={'f32' if generic.kind == 'dtype' else 'true' if generic.kind == 'bool' else '8'}"
            fail(at, "E0218", f"generic `{generic.name}` has no value", generic, help=hint.format(sample))
        else:
            thing = yield from _default(at, generic)
        if isinstance(thing, int) and not I64.min <= thing <= I64.max:
            fail(at, "E0205", f"generic `{generic.name}` does not fit `i64`", generic, help="give it a smaller value")
        expected = generic.kind or _kind(thing)
        if _kind(thing) != expected:
            hint = f"give it a value of kind `{expected}`"
            fail(at, "E0218", f"generic `{generic.name}` is of kind `{expected}`, and `{thing}` is given", generic, help=hint)
        bind(at, generic.name, generic.name_span, entity(thing, generic.name_span))


def _kind(thing: Any) -> str:
    return "dtype" if isinstance(thing, DType) else "bool" if isinstance(thing, bool) else "int"


def entity(thing: Any, span: Span) -> Any:
    """What a generic's name stands for in expressions: a dtype, a known bool, or an integer literal."""
    if isinstance(thing, DType):
        return thing
    return Value(span, Const(thing, BOOL, span)) if isinstance(thing, bool) else Value(span, literal=thing)


def _default(at: At, generic: syntax.Generic) -> Generator[Any, Any, Any]:
    default = generic.default
    if generic.kind == "dtype" or (isinstance(default, syntax.Name) and default.name in DTYPES):
        if not isinstance(default, syntax.Name):
            fail(at, "E0210", "a type is needed here", default, help="write a type such as `f32`")
        return dtype_named(at, default.name, default.span)
    return known((yield default, at), at, "the default of a generic")


def known(value: Value, at: At, what: str) -> int | bool:
    """The int or bool that a value is when compiling."""
    if value.flag is not None:
        return value.flag
    if not isinstance(value.number, int):
        fail(at, "E0218", f"{what} is an integer or bool known when compiling", value.span, help="use literals and generics")
    return value.number
