"""Checking a `program`: a sequence of kernel calls with arrays of its own. Compiling one is for later."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import VxcError
from vxc.dtypes import DTYPES, DType
from vxc.frontend import syntax
from vxc.frontend.check_assign import writable
from vxc.frontend.check_attrs import no_attributes
from vxc.frontend.scope import UNKNOWN, At, Scope, State, bind, count, dtype_named, fail, label, suggestion, unknown
from vxc.frontend.subscripts import as_index, tidy
from vxc.frontend.typed import Array
from vxc.frontend.values import assign
from vxc.source import Source

Steps = Generator[tuple[Any, At], Any, Any]
Kernels = dict[str, tuple[syntax.Kernel, Source]]


def check_calls(st: State, block: syntax.Block, at: At, kernels: Kernels) -> Steps:
    """The statements of a program: `let`, `local` and calls."""
    at = at.but(scope=Scope(at.scope), hoist=at.out)
    for stmt in block.stmts:
        try:
            if isinstance(stmt, syntax.Let) and not stmt.mutable:
                yield stmt, at
            elif isinstance(stmt, syntax.Decl) and stmt.space == "local":
                yield from _local(st, stmt, at)
            elif isinstance(stmt, syntax.CallStmt):
                yield from _call(st, stmt, at, kernels)
            else:
                fail(at, "E0232", "a program is made of `let`, `local` and kernel calls", stmt, help="move this into a kernel")
        except VxcError as found:
            st.errors.extend(found.diagnostics)
            if isinstance(stmt, (syntax.Let, syntax.Decl)):
                at.scope.names.setdefault(stmt.name, (UNKNOWN, stmt.name_span))


def _local(st: State, node: syntax.Decl, at: At) -> Steps:
    """An array in global memory: its size may depend on dimensions."""
    yield from no_attributes(st, node, at)
    dtype = dtype_named(at, node.type.name, node.type.span)
    shape = []
    for dim in node.type.dims:
        shape.append(tidy(st, as_index(at, (yield dim.size, at), "the size of a dimension")))
    bind(at, node.name, node.name_span, Array(node.name, dtype, tuple(shape), "local", span=node.name_span))


def _call(st: State, node: syntax.CallStmt, at: At, kernels: Kernels) -> Steps:
    yield from no_attributes(st, node, at)
    call, name = node.call, node.call.func.name
    if name not in kernels:
        fail(at, "E0234", f"there is no kernel `{name}`", call.func, help=suggestion(name, kernels, "define or import it"))
    kernel, source = kernels[name]
    if len(call.args) != len(kernel.params):
        message = f"`{name}` takes {count(len(kernel.params), 'argument')}, and {len(call.args)} are given"
        fail(at, "E0233", message, node, help="give them in the order of its parameters; generics go by name")
    generics = yield from _generics(at, call, kernel)
    for param, arg in zip(kernel.params, call.args):
        dtype = generics.get(param.type.name) or DTYPES.get(param.type.name)
        found = at.scope.find(arg.name) if isinstance(arg, syntax.Name) else None
        if not param.type.dims:
            value = yield arg, at
            if dtype is not None:
                assign(at, value, dtype, f"argument `{param.name}` of `{name}`")
        elif not isinstance(found, Array):
            if isinstance(arg, syntax.Name) and (found is None or found is UNKNOWN):
                unknown(at, arg, found)
            hint = "name a parameter or `local` array of the program"
            fail(at, "E0233", f"argument `{param.name}` of `{name}` is an array", arg, help=hint)
        else:
            generics.setdefault(param.type.name, found.dtype)
            _array(at, param, arg, found, dtype or found.dtype, name)


def _generics(at: At, call: syntax.Call, kernel: syntax.Kernel) -> Generator[Any, Any, dict[str, Any]]:
    """The dtypes that the call gives by name; ints and bools are only checked."""
    names = {generic.name: generic for generic in kernel.generics}
    given: dict[str, Any] = {}
    for arg in call.named:
        if arg.name not in names:
            hint = suggestion(arg.name, names, "arguments go by position")
            fail(at, "E0209", f"`{kernel.name}` has no generic `{arg.name}`", arg.name_span, help=hint)
        if names[arg.name].kind == "dtype" and isinstance(arg.value, syntax.Name):
            given[arg.name] = dtype_named(at, arg.value.name, arg.value.span)
        else:
            yield arg.value, at
    return given


def _array(at: At, param: syntax.Param, arg: syntax.Name, found: Array, dtype: DType, name: str) -> None:
    declared = (label(at, found.span, "declared here"),) if found.span else ()
    if found.dtype is not dtype:
        message = f"argument `{param.name}` of `{name}` has elements of `{dtype}`, and `{found.name}` of `{found.dtype}`"
        fail(at, "E0233", message, arg, secondary=declared, help="declare both with one type")
    if len(found.shape) != len(param.type.dims):
        message = (
            f"argument `{param.name}` of `{name}` has {count(len(param.type.dims), 'dimension')}, and `{found.name}` has {len(found.shape)}"
        )
        fail(at, "E0233", message, arg, secondary=declared, help="pass an array of the same rank")
    if param.direction != "in":
        writable(at, found, arg)
