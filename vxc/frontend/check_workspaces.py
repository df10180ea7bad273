"""The arrays that a program declares: whether each is filled before it is read, and has the sizes that its calls need.

Sizes that are equal or not whatever the arrays are, `match_call` has compared. Here they are compared at the sizes of the example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vxc.diag import Diagnostic
from vxc.frontend import dims
from vxc.frontend.match_call import extents
from vxc.frontend.scope import At, error, label
from vxc.frontend.typed import Array, Example, Symbol, Var
from vxc.frontend.typed_program import ProgramCall, TypedProgram


def check_workspaces(program: TypedProgram, at: At) -> Iterator[Diagnostic]:
    """What is wrong (E0233), in the order of the calls."""
    written: set[Array] = set(program.arrays)
    sizes = _sizes(program, program.example) if program.example else None
    for k, call in enumerate(program.calls):
        passed = [(param, arg) for param, arg in zip(call.kernel.params, call.args) if isinstance(arg, Array) and isinstance(param, Array)]
        for param, array in passed:
            if param.mode == "in" and array not in written:
                yield _unfilled(program, k, array, at)
        written |= {array for _, array in passed}  # what is not filled is said once
        if sizes is not None:
            yield from _misfits(call, passed, sizes, at)


def _unfilled(program: TypedProgram, k: int, array: Array, at: At) -> Diagnostic:
    call = program.calls[k]
    message = f"`{call.kernel.name}` reads `{array.name}`, which no call before it has filled"
    later = next((c for c in program.calls[k + 1 :] if _fills(c, array)), None)
    seen = (label(at, array.span, "declared here, with nothing in it"), *((label(at, later.span, "filled here"),) if later else ()))
    hint = f"call `{later.kernel.name}` before `{call.kernel.name}`" if later else f"call a kernel first to which `{array.name}` is `out`"
    return error(at, "E0233", message, call.span, secondary=seen, help=hint)


def _fills(call: ProgramCall, array: Array) -> bool:
    return any(arg is array and isinstance(param, Array) and param.mode != "in" for param, arg in zip(call.kernel.params, call.args))


def _sizes(program: TypedProgram, example: Example) -> Mapping[Symbol, dims.Form]:
    """What the example makes of the dimensions, the int scalars, and what the program computes of them."""
    shapes = {name: shape for name, _, _, shape, _ in example.arrays}
    scalars = dict(example.scalars)
    known: dict[Symbol, dims.Form] = {}
    for param in program.params:
        if isinstance(param, Array):
            for extent, size in zip(param.shape, shapes.get(param.name, ())):
                if isinstance(extent, Var):
                    known.setdefault(extent.symbol, dims.integer(size))
        elif type(scalars.get(param.name)) is int:
            known[param] = dims.integer(scalars[param.name])
    for symbol, value in program.lets:
        if symbol.dtype.is_int:
            known[symbol] = dims.linear(value, dims.Forms(known))
    return known


def _misfits(call: ProgramCall, passed: list[tuple[Array, Array]], sizes: Mapping[Symbol, dims.Form], at: At) -> Iterator[Diagnostic]:
    outer, kernel = dims.Forms(dict(sizes)), call.kernel
    inner = {dim: dims.linear(size, outer) for dim, size in zip(kernel.dims, call.dims)}
    inner |= {
        p: dims.linear(arg, outer)
        for p, arg in zip(kernel.params, call.args)
        if isinstance(p, Symbol) and p.dtype.is_int and not isinstance(arg, Array)
    }
    for param, array in passed:
        for what, formal, real in extents(param, array):
            needed, given = dims.linear(formal, dims.Forms(inner)).number, dims.linear(real, outer).number
            if None not in (needed, given) and needed != given:
                name = f"the `local` array `{array.name}`" if array.space == "local" else f"`{array.name}`"
                message = f"at the sizes of the example {what} of {name} is {given}, and `{kernel.name}` needs {needed} for `{param.name}`"
                hint = f"declare `{array.name}` with the sizes that `{kernel.name}` needs"
                declared = (label(at, array.span, "declared here"),) if array.span else ()
                yield error(at, "E0233", message, call.span, secondary=declared, help=hint)
