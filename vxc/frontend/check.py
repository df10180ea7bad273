"""From the syntax tree to the typed tree: names resolved, generics substituted, every conversion explicit, rows expanded.

The work is in the handlers of the files `check_*`; this file checks a whole
kernel, or a whole file. All that is wrong is reported at once, in source order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DType
from vxc.frontend import syntax
from vxc.frontend.check_assign import ASSIGNMENTS
from vxc.frontend.check_attrs import ORDER, attributes
from vxc.frontend.check_bind import BINDINGS
from vxc.frontend.check_calls import CALLS
from vxc.frontend.check_effects import EFFECTS
from vxc.frontend.check_expr import EXPRESSIONS
from vxc.frontend.check_names import NAMES
from vxc.frontend.check_program import check_calls
from vxc.frontend.check_stmt import STATEMENTS
from vxc.frontend.examples import generic_values, read_example, typed_example
from vxc.frontend.generics import bind_generics
from vxc.frontend.inline import check_function
from vxc.frontend.items import Items, Resolve, collect, read_beside
from vxc.frontend.node import walk
from vxc.frontend.rows import check_uses
from vxc.frontend.scope import At, Scope, State, suggestion
from vxc.frontend.signature import signature
from vxc.frontend.typed import TypedKernel
from vxc.frontend.worklist import run
from vxc.source import Source

Defines = Mapping[str, int | bool | DType]
NO_DEFINES: Defines = MappingProxyType({})


def kernel_names(module: syntax.Module) -> list[str]:
    """The kernels that a file defines, in order."""
    return [item.name for item in module.items if type(item) is syntax.Kernel]


def program_names(module: syntax.Module) -> list[str]:
    """The programs that a file defines, in order."""
    return [item.name for item in module.items if isinstance(item, syntax.Program)]


def check(
    module: syntax.Module,
    source: Source,
    name: str,
    defines: Defines = NO_DEFINES,
    *,
    reduce_chunk: int | None = None,
    resolve: Resolve = read_beside,
) -> TypedKernel:
    """The typed kernel `name` of a file.

    `defines` gives generics and fixes dimensions; its names must mean something in the file. A generic takes its value
    from there, from the kernel's first `example`, or from its default. `reduce_chunk` is the chunk of reductions that
    do not say theirs. Raises VxcError (E02xx, E04xx) with all that is wrong.
    """
    items = collect(module, source, resolve)
    if name in items.programs:
        program, text = items.programs[name]
        hint = "compile its kernels one by one"
        raise VxcError(Diagnostic("E0401", "a `program` is not compiled yet", text, program.name_span, help=hint))
    if name not in items.kernels:
        hint = suggestion(name, items.kernels, f"there is {', '.join(items.kernels)}" if items.kernels else "the file defines no kernel")
        raise VxcError(Diagnostic("E0234", f"{source.name} has no kernel `{name}`", help=hint))
    errors = items.errors + _unknown_defines(items, defines)
    kernel, found = _checked(items, name, defines, reduce_chunk)
    _raise(source, errors + found)
    return kernel


def check_module(
    module: syntax.Module, source: Source, defines: Defines = NO_DEFINES, *, reduce_chunk: int | None = None, resolve: Resolve = read_beside
) -> list[TypedKernel]:
    """Every kernel of a file. Raises VxcError with what is wrong in any."""
    items = collect(module, source, resolve)
    errors = items.errors + _unknown_defines(items, defines) + _stray_examples(items, source)
    kernels = []
    for name in kernel_names(module):
        if items.kernels.get(name, (None, None))[1] is source:
            kernel, found = _checked(items, name, defines, reduce_chunk)
            kernels.append(kernel)
            errors += found
    called = {node.func.name for node in walk(module) if isinstance(node, syntax.Call)}
    for item in module.items:
        if isinstance(item, syntax.Program):
            errors += _run(items, source, _Header(item, items, dict(defines)))[1]
        elif isinstance(item, (syntax.Fn, syntax.Extern)) and item.name not in called and not getattr(item, "generics", ()):
            errors += _run(items, source, item)[1]
    _raise(source, errors)
    return kernels


def _raise(source: Source, errors: list[Diagnostic]) -> None:
    """Raise the errors in source order, this file's first, each once."""
    once = {(d.code, d.message, d.source, d.span): d for d in errors}
    if once:
        raise VxcError(sorted(once.values(), key=lambda d: (d.source is not source, d.span or (0, 0))))


def _unknown_defines(items: Items, defines: Defines) -> list[Diagnostic]:
    headers = [item for item, _ in (*items.kernels.values(), *items.programs.values())]
    known = {g.name for item in headers for g in item.generics}
    known |= {n.name for item in headers for p in item.params for d in p.type.dims for n in walk(d) if isinstance(n, syntax.Name)}
    hint = f"there are {', '.join(sorted(known))}" if known else "the file has no generics or dimensions"
    return [
        Diagnostic("E0229", f"`-D {name}`: nothing in the file is a generic or dimension of that name", help=suggestion(name, known, hint))
        for name in defines
        if name not in known
    ]


def _stray_examples(items: Items, source: Source) -> list[Diagnostic]:
    known = {**items.kernels, **items.programs}
    return [
        Diagnostic(
            "E0234",
            f"there is no kernel `{node.name}`",
            source,
            node.name_span,
            help=suggestion(node.name, known, "define it, or remove the line"),
        )
        for node, text in items.examples
        if text is source and node.name not in known
    ]


def _checked(items: Items, name: str, defines: Defines, reduce_chunk: int | None) -> tuple[TypedKernel | None, list[Diagnostic]]:
    """One kernel (None where its header is wrong) and what is wrong with it."""
    kernel, source = items.kernels[name]
    return _run(items, source, _Header(kernel, items, dict(defines)), reduce_chunk)


def _run(items: Items, source: Source, job: Any, reduce_chunk: int | None = None) -> tuple[Any, list[Diagnostic]]:
    st = State(source, items.functions, reduce_chunk=reduce_chunk)
    try:
        found = run(HANDLERS, st, job, At(Scope(), source))
    except VxcError as error:
        return None, [*st.errors, *error.diagnostics]
    check_uses(st)
    return found, st.errors


class _Header:
    """A kernel or program to check, for the work list."""

    def __init__(self, kernel: syntax.Kernel, items: Items, defines: dict[str, Any]) -> None:
        self.kernel, self.items, self.defines = kernel, items, defines


def _kernel(st: State, job: _Header, at: At) -> Generator[Any, Any, TypedKernel | None]:
    kernel, defines = job.kernel, job.defines
    samples = []
    for node, source in job.items.examples:
        if node.name == kernel.name:
            here = At(Scope(), source)
            yield from attributes(st, node.attrs, "example", here)
            samples.append((node, source, (yield from read_example(here, kernel, node))))
    values = generic_values(kernel, samples[0][2]) if samples else {}
    values |= {g.name: defines[g.name] for g in kernel.generics if g.name in defines}
    yield from bind_generics(at, kernel.generics, values, "give it with `-D {}`, a default, or an `example` line")
    attrs = yield from attributes(st, kernel.attrs, "kernel", at)
    st.attrs |= attrs
    sig = yield from signature(st, at, kernel.params, defines)
    examples = [typed_example(At(Scope(), source), node, kernel, sig, given, defines) for node, source, given in samples]
    if isinstance(kernel, syntax.Program):
        return (yield from check_calls(st, kernel.body, at, job.items.kernels))
    body = yield kernel.body, at.but(order=tuple((key, attrs[key]) for key in ORDER if key in attrs))
    kept = {"fp": "exact"} | {key: value for key, value in attrs.items() if key in ("fp", "native")}
    example = examples[0] if examples else None
    return TypedKernel(kernel.name, sig.params, sig.dims, body, tuple(sorted(kept.items())), st.source, kernel.span, example)


def _function(st: State, fn: syntax.Fn | syntax.Extern, at: At) -> Generator[Any, Any, None]:
    return check_function(fn, at)


_ITEMS = {_Header: _kernel, syntax.Fn: _function, syntax.Extern: _function}
HANDLERS = EXPRESSIONS | NAMES | CALLS | STATEMENTS | BINDINGS | ASSIGNMENTS | EFFECTS | _ITEMS
