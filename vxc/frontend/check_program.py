"""Checking a `program`: a sequence of kernel calls, with sizes and arrays of its own. Matching a call is in `match_call`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any

from vxc.diag import Diagnostic, VxcError, count, suggestion
from vxc.dtypes import DTYPES, DType
from vxc.frontend import syntax
from vxc.frontend.check_attrs import no_attributes
from vxc.frontend.generics import known
from vxc.frontend.match_call import Actual, check_arrays, dims_of, infer
from vxc.frontend.scope import UNKNOWN, At, Scope, State, bind, dtype_named, fail, unknown
from vxc.frontend.subscripts import as_index, countable, tidy
from vxc.frontend.typed import Array, Const, Expr, Let, Stmt, Symbol, TypedKernel
from vxc.frontend.typed_program import ProgramCall
from vxc.frontend.values import Value, assign, settle
from vxc.record import record, state
from vxc.source import Source

Steps = Generator[tuple[Any, At], Any, Any]
Specialize = Callable[[str, dict[str, Any]], tuple[TypedKernel | None, list[Diagnostic]]]


@record
class Callees:
    """The kernels that a program may call; `specialize` types one with given generics and dimensions."""

    kernels: dict[str, tuple[syntax.Kernel, Source]]
    specialize: Specialize
    typed: dict[tuple, tuple[TypedKernel | None, list[Diagnostic]]] = field(default_factory=dict)

    def kernel(self, name: str, values: dict[str, Any]) -> tuple[TypedKernel | None, list[Diagnostic]]:
        """One kernel for all calls with equal values."""
        key = (name, *sorted((n, type(value).__name__, str(value)) for n, value in values.items()))
        if key not in self.typed:
            self.typed[key] = self.specialize(name, values)
        return self.typed[key]


@state
class Body:
    """What a program is made of."""

    lets: tuple[tuple[Symbol, Expr], ...] = ()
    locals: list[Array] = field(default_factory=list)
    calls: list[ProgramCall] = field(default_factory=list)


def check_body(st: State, block: syntax.Block, at: At, callees: Callees) -> Generator[Any, Any, Body]:
    """The statements of a program: `let`, `local` and calls."""
    out: list[Stmt] = []
    at = at.but(scope=Scope(at.scope), out=out, hoist=None)
    body = Body()
    for stmt in block.stmts:
        try:
            if isinstance(stmt, syntax.Let) and not stmt.mutable:
                yield from _pure(st, stmt, at)
            elif isinstance(stmt, syntax.Decl) and stmt.space == "local":
                body.locals.append((yield from _local(st, stmt, at)))
            elif isinstance(stmt, syntax.CallStmt):
                body.calls.append((yield from _call(st, stmt, at, callees)))
                _one_discipline(body.calls, stmt, at)
            else:
                fail(at, "E0232", "a program is made of `let`, `local` and kernel calls", stmt, help="move this into a kernel")
        except VxcError as found:
            st.errors.extend(found.diagnostics)
            if isinstance(stmt, (syntax.Let, syntax.Decl)):
                at.scope.names.setdefault(stmt.name, (UNKNOWN, stmt.name_span))
    body.lets = tuple((let.symbol, let.value) for let in out if isinstance(let, Let))
    return body


def _one_discipline(calls: list[ProgramCall], stmt: syntax.CallStmt, at: At) -> None:
    """The machine code of a program is made in one go, with one float discipline."""
    first, last = (dict(call.kernel.attrs)["fp"] for call in (calls[0], calls[-1]))
    if first != last:
        message = f"`{calls[-1].kernel.name}` is `@fp({last})` in a program whose first kernel is `@fp({first})`, which is not compiled yet"
        fail(at, "E0401", message, stmt.call.func, help="give all kernels of a program the same `@fp`")


def _pure(st: State, node: Any, at: At) -> Steps:
    """A `let` or expression of scalars: a program runs where the elements of arrays are not at hand."""
    st.reads.append(set())
    try:
        value = yield node, at
    finally:
        reads = st.reads.pop()
    if reads:
        fail(at, "E0232", "a program reads an element of an array", getattr(node, "value", node), help="read it in a kernel")
    return value


def _local(st: State, node: syntax.Decl, at: At) -> Generator[Any, Any, Array]:
    """An array in global memory: its size may depend on dimensions."""
    no_attributes(node, at, "local")
    dtype = dtype_named(at, node.type.name, node.type.span)
    if not node.type.dims:
        fail(at, "E0231", f"`{node.name}` has no dimensions", node.type, help=f"write `local {node.name}: {dtype}[1];`")
    if node.init is not None:
        fail(at, "E0231", f"`{node.name}` is filled by the program", node.init, help="fill it in a kernel")
    shape = []
    for dim in node.type.dims:
        if dim.stride is not None:
            fail(at, "E0231", f"`{node.name}` has a written pitch", dim, help="only parameters have pitches")
        size = tidy(st, as_index(at, (yield from _pure(st, dim.size, at)), "the size of a dimension"))
        if isinstance(size, Const) and size.value < 0:
            fail(at, "E0219", f"a dimension of {size.value} elements", dim, help="dimensions are 0 or more")
        shape.append(size)
    countable(at, node.name, shape, node.type, "E0219")
    array = Array(node.name, dtype, tuple(shape), "local", span=node.name_span)
    bind(at, node.name, node.name_span, array)
    return array


def _call(st: State, node: syntax.CallStmt, at: At, callees: Callees) -> Generator[Any, Any, ProgramCall]:
    no_attributes(node, at)
    call, name = node.call, node.call.func.name
    if name not in callees.kernels:
        fail(at, "E0234", f"there is no kernel `{name}`", call.func, help=suggestion(name, callees.kernels, "define or import it"))
    kernel, _ = callees.kernels[name]
    if len(call.args) != len(kernel.params):
        message = f"`{name}` takes {count(len(kernel.params), 'argument')}, and {len(call.args)} are given"
        fail(at, "E0233", message, node, help="give them in the order of its parameters; generics go by name")
    values = yield from _generics(at, call, kernel)
    actuals = []
    for param, arg in zip(kernel.params, call.args):
        actuals.append(Actual(param, arg, (yield from _actual(st, at, param, arg, name))))
    check_arrays(at, name, actuals, values)
    values |= infer(st, kernel, actuals, values)
    typed, errors = callees.kernel(name, values)
    if typed is None or errors:
        raise VxcError(errors)
    args = tuple(
        actual.thing
        if isinstance(actual.thing, Array)
        else assign(at, actual.thing, param.dtype, f"argument `{param.name}` of `{name}`")
        for actual, param in zip(actuals, typed.params)
    )
    return ProgramCall(typed, args, dims_of(st, at, typed, actuals, args), node.span)


def _actual(st: State, at: At, param: syntax.Param, arg: syntax.Expr, name: str) -> Generator[Any, Any, Array | Value]:
    if not param.type.dims:
        value = yield from _pure(st, arg, at)
        return value if param.type.name in DTYPES else settle(at, value)
    found = at.scope.find(arg.name) if isinstance(arg, syntax.Name) else None
    if isinstance(found, Array):
        return found
    if isinstance(arg, syntax.Name) and (found is None or found is UNKNOWN):
        unknown(at, arg, found)
    hint = "name a parameter or `local` array of the program"
    fail(at, "E0233", f"argument `{param.name}` of `{name}` is an array", arg, help=hint)


def _generics(at: At, call: syntax.Call, kernel: syntax.Kernel) -> Generator[Any, Any, dict[str, int | bool | DType]]:
    """The generics that the call gives by name."""
    names = {generic.name: generic for generic in kernel.generics}
    given: dict[str, int | bool | DType] = {}
    for arg in call.named:
        if arg.name not in names:
            hint = suggestion(arg.name, names, "arguments go by position")
            fail(at, "E0209", f"`{kernel.name}` has no generic `{arg.name}`", arg.name_span, help=hint)
        if names[arg.name].kind == "dtype" and isinstance(arg.value, syntax.Name):
            given[arg.name] = dtype_named(at, arg.value.name, arg.value.span)
        else:
            given[arg.name] = known((yield arg.value, at), at, f"generic `{arg.name}`")
    return given
