"""Matching the arrays that a call gives with the parameters of its kernel: generics and dimensions by unification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from vxc.diag import count
from vxc.dtypes import DTYPES
from vxc.frontend import dims, syntax
from vxc.frontend.check_assign import writable
from vxc.frontend.scope import At, State, fail, label
from vxc.frontend.typed import Array, Expr, Symbol, TypedKernel, Var
from vxc.frontend.values import Value


class Actual(NamedTuple):
    """One argument: the parameter as written, the argument as written, and what it is."""

    param: syntax.Param
    node: syntax.Expr
    thing: Array | Value


def check_arrays(at: At, name: str, actuals: list[Actual], values: dict[str, Any]) -> None:
    """Element types, ranks and directions, and that nothing written is passed twice. Puts dtypes of generics into `values`."""
    for param, node, thing in actuals:
        if not isinstance(thing, Array):
            if param.type.name not in DTYPES:
                values.setdefault(param.type.name, thing.expr.dtype)
            continue
        dtype = DTYPES.get(param.type.name) or values.setdefault(param.type.name, thing.dtype)
        declared = _declared(at, thing)
        if thing.dtype is not dtype:
            message = f"argument `{param.name}` of `{name}` has elements of `{dtype}`, and `{thing.name}` of `{thing.dtype}`"
            fail(at, "E0233", message, node, secondary=declared, help="declare both with one type")
        if len(thing.shape) != len(param.type.dims):
            rank = count(len(param.type.dims), "dimension")
            message = f"argument `{param.name}` of `{name}` has {rank}, and `{thing.name}` has {len(thing.shape)}"
            fail(at, "E0233", message, node, secondary=declared, help="pass an array of the same rank")
        if param.direction != "in":
            writable(at, thing, node)
            if sum(other.thing is thing for other in actuals) > 1:
                hint = "write to another array, such as a `local` one"
                fail(at, "E0233", f"`{name}` writes `{thing.name}`, which is passed to it twice", node, secondary=declared, help=hint)


def infer(st: State, kernel: syntax.Kernel, actuals: list[Actual], values: dict[str, Any]) -> dict[str, int]:
    """Generics that are a dimension by themselves, and dimensions whose size is known when compiling."""
    found: dict[str, int] = {}
    scalars = {param.name for param in kernel.params if not param.type.dims}
    for param, _, thing in actuals:
        for extent, size in zip(param.type.dims, thing.shape if isinstance(thing, Array) else ()):
            if isinstance(extent.size, syntax.Name) and extent.size.name not in scalars | values.keys():
                number = dims.linear(size, st.forms).number
                if number is not None:
                    found.setdefault(extent.size.name, number)
    return found


def dims_of(st: State, at: At, kernel: TypedKernel, actuals: list[Actual], args: tuple[Array | Expr, ...]) -> tuple[Expr, ...]:
    """What each dimension of the kernel is, over the names of the program. Fails (E0233) where sizes provably disagree."""
    sizes: dict[Symbol, Expr] = {p: a for p, a in zip(kernel.params, args) if isinstance(p, Symbol) and p.dtype.is_int}
    arrays = [(actual, param) for actual, param in zip(actuals, kernel.params) if isinstance(param, Array)]
    pairs = [(actual, *pair) for actual, param in arrays for pair in extents(param, actual.thing)]
    for _, _, formal, real in pairs:
        if isinstance(formal, Var):
            sizes.setdefault(formal.symbol, real)
    forms = dims.Forms({symbol: dims.linear(size, st.forms) for symbol, size in sizes.items()}, st.forms.atoms)
    for actual, what, formal, real in pairs:
        needed, given = dims.linear(formal, forms), dims.linear(real, st.forms)
        if given.minus(needed).number not in (None, 0):
            message = f"{what} of argument `{actual.param.name}` of `{kernel.name}` is {dims.show(needed)}, and `{actual.thing.name}` has "
            hint = f"declare `{actual.thing.name}` with the sizes that `{kernel.name}` needs"
            fail(at, "E0233", message + dims.show(given), actual.node, secondary=_declared(at, actual.thing), help=hint)
    return tuple(sizes[symbol] for symbol in kernel.dims)


def extents(param: Array, array: Array) -> Iterator[tuple[str, Expr, Expr]]:
    """Sizes of the parameter beside those of the argument, then the pitches."""
    for k, (formal, real) in enumerate(zip(param.shape, array.shape)):
        yield f"dimension {k}", formal, real
    for k, (formal, real) in list(enumerate(zip(_pitches(param), _pitches(array))))[1:]:  # no address needs the first
        yield f"the pitch of dimension {k}", formal, real


def _pitches(array: Array) -> tuple[Expr, ...]:
    """The elements allotted to each dimension."""
    return tuple(pitch or size for pitch, size in zip(array.pitches or (None,) * len(array.shape), array.shape))


def _declared(at: At, array: Array) -> tuple[Any, ...]:
    return (label(at, array.span, "declared here"),) if array.span else ()
