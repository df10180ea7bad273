"""From the syntax tree to the typed tree: names resolved, generics substituted, every conversion explicit, rows expanded.

The work is in the handlers of the files `check_*`; this file checks a whole
kernel or program, or a whole file. All that is wrong is reported at once, in source order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, Union

from vxc.diag import Diagnostic, VxcError, suggestion, there_are
from vxc.dtypes import DType
from vxc.frontend import syntax
from vxc.frontend.check_assign import ASSIGNMENTS
from vxc.frontend.attr_table import ORDER
from vxc.frontend.check_attrs import attributes, no_attributes, orders_something
from vxc.frontend.check_bind import BINDINGS
from vxc.frontend.check_calls import CALLS
from vxc.frontend.check_effects import EFFECTS
from vxc.frontend.check_expr import EXPRESSIONS
from vxc.frontend.check_names import NAMES
from vxc.frontend.check_program import Callees, check_body
from vxc.frontend.check_stmt import STATEMENTS
from vxc.frontend.check_workspaces import check_workspaces
from vxc.frontend.examples import declared_sizes, generic_values, read_example, typed_example
from vxc.frontend.generics import bind_generics
from vxc.frontend.inline import check_function
from vxc.frontend.items import Items, Resolve, collect, read_beside
from vxc.frontend.node import walk
from vxc.frontend.rows import check_uses
from vxc.frontend.scope import At, Scope, State
from vxc.frontend.selection import no_kernel
from vxc.frontend.signature import Signature, signature
from vxc.frontend.typed import Example, TypedKernel
from vxc.frontend.typed_program import TypedProgram
from vxc.frontend.worklist import run
from vxc.record import record
from vxc.source import Source

Defines = Mapping[str, int | bool | DType]
NO_DEFINES: Defines = MappingProxyType({})
Typed = Union[TypedKernel, TypedProgram]


def kernel_names(module: syntax.Module) -> list[str]:
    """The kernels that a file defines, in order."""
    return [item.name for item in module.items if type(item) is syntax.Kernel]


def open_dtypes(kernel: syntax.Kernel) -> list[str]:
    """The generic dtypes of a kernel that have no default."""
    return [generic.name for generic in kernel.generics if generic.kind == "dtype" and generic.default is None]


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
    stand_in: DType | None = None,
    sampled: bool = False,
) -> Typed:
    """The typed kernel or program `name` of a file.

    `defines` gives generics and fixes dimensions; its names must mean something in the file. A generic takes its value
    from there, from the kernel's first `example`, or from its default. `reduce_chunk` is the chunk of reductions that
    do not say theirs; `stand_in` is what generic dtypes are that nothing gives. With `sampled`, the first `example` also fixes the
    dimensions that are sizes of arrays which a kernel declares. Raises VxcError (E02xx, E04xx) with all that is wrong.
    """
    items = collect(module, source, resolve)
    known = items.kernels | items.programs
    if not known:
        raise no_kernel(source)
    if name not in known:
        hint = suggestion(name, known, there_are(known))
        raise VxcError(Diagnostic("E0234", f"{source.name} has no kernel `{name}`", help=hint))
    errors = items.errors + _unknown_defines(items, defines)
    checked, found = _checked(items, name, _standing(items, known[name][0], defines, stand_in), reduce_chunk, sampled=sampled)
    _raise(source, errors + found)
    return checked


def check_module(
    module: syntax.Module,
    source: Source,
    defines: Defines = NO_DEFINES,
    *,
    reduce_chunk: int | None = None,
    resolve: Resolve = read_beside,
    stand_in: DType | None = None,
    sampled: bool = False,
) -> list[Typed]:
    """Every kernel and program of a file, but for kernels whose generics only a call fixes; the rest as `check`. Raises VxcError with what
    is wrong in any.
    """
    items = collect(module, source, resolve)
    errors = items.errors + _unknown_defines(items, defines) + _stray_examples(items, source)
    checked = []
    called = {node.func.name for node in walk(module) if isinstance(node, syntax.Call)}
    for item in module.items:
        if isinstance(item, syntax.Kernel):
            if not (item.name in called and _open_generics(items, item, defines)):
                standing = _standing(items, item, defines, stand_in)
                kernel, found = _run(items, source, _Header(item, items, standing, reduce_chunk, sampled=sampled))
                checked.append(kernel)
                errors += found
        elif isinstance(item, (syntax.Fn, syntax.Extern)) and item.name not in called and not getattr(item, "generics", ()):
            errors += _run(items, source, item)[1]
    _raise(source, errors)
    return checked


def _standing(items: Items, kernel: syntax.Kernel, defines: Defines, stand_in: DType | None) -> dict[str, Any]:
    """The definitions for one kernel, with `stand_in` for generic dtypes that no example line, default or definition gives."""
    if stand_in is None or not _open_generics(items, kernel, defines):
        return dict(defines)
    return {**dict.fromkeys(open_dtypes(kernel), stand_in), **defines}


def _open_generics(items: Items, kernel: syntax.Kernel, defines: Defines) -> bool:
    """Whether some generic has no value of its own."""
    if any(example.name == kernel.name for example, _ in items.examples):
        return False
    return any(generic.default is None and generic.name not in defines for generic in kernel.generics)


def _raise(source: Source, errors: list[Diagnostic]) -> None:
    """Raise the errors in source order, this file's first, each once."""
    once = {(d.code, d.message, d.source, d.span): d for d in errors}
    if once:
        raise VxcError(sorted(once.values(), key=lambda d: (d.source is not source, d.span or (0, 0))))


def _unknown_defines(items: Items, defines: Defines) -> list[Diagnostic]:
    headers = [item for item, _ in (*items.kernels.values(), *items.programs.values())]
    known = {g.name for item in headers for g in item.generics}
    known |= {n.name for item in headers for p in item.params for d in p.type.dims for n in walk(d) if isinstance(n, syntax.Name)}
    hint = there_are(sorted(known)) if known else "the file has no generics or dimensions"
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


def _checked(
    items: Items, name: str, defines: Defines, reduce_chunk: int | None, call: dict[str, Any] | None = None, *, sampled: bool = False
) -> tuple[Typed | None, list[Diagnostic]]:
    """One kernel or program (None where its header is wrong) and what is wrong with it."""
    kernel, source = items.kernels.get(name) or items.programs[name]
    return _run(items, source, _Header(kernel, items, dict(defines), reduce_chunk, call, sampled))


def _run(items: Items, source: Source, job: Any) -> tuple[Any, list[Diagnostic]]:
    st = State(source, items.functions, reduce_chunk=getattr(job, "reduce_chunk", None))
    try:
        found = run(HANDLERS, st, job, At(Scope(), source))
    except VxcError as error:
        return None, [*st.errors, *error.diagnostics]
    check_uses(st)
    return found, st.errors


@record
class _Header:
    """A kernel or program to check, for the work list. `call` holds what a call fixes of a kernel: generics and dimensions; `sampled` is as
    `check` has it.
    """

    kernel: syntax.Kernel
    items: Items
    defines: dict[str, Any]
    reduce_chunk: int | None
    call: dict[str, Any] | None = None
    sampled: bool = False


def _kernel(st: State, job: _Header, at: At) -> Generator[Any, Any, Typed]:
    kernel, defines = job.kernel, job.defines
    samples = []
    for node, source in job.items.examples if job.call is None else ():
        if node.name == kernel.name:
            here = At(Scope(), source)
            no_attributes(node, here, "example")
            samples.append((node, source, (yield from read_example(here, kernel, node))))
    values = generic_values(kernel, samples[0][2]) if samples else {}
    values |= {g.name: defines[g.name] for g in kernel.generics if g.name in defines}
    values |= job.call or {}
    way = "give it with `-D {}`, a default, or an `example` line" if job.call is None else f"write `{kernel.name}(.., {{}})`"
    yield from bind_generics(at, kernel.generics, values, way)
    program = isinstance(kernel, syntax.Program)
    sampled = declared_sizes(kernel, samples[0][2]) if job.sampled and samples and not program else {}
    if program:
        no_attributes(kernel, at, "program")
    attrs = yield from attributes(kernel.attrs, "kernel", at)
    orders_something(kernel.attrs, "kernel", kernel.body, at)
    sig = yield from signature(st, at, kernel.params, {**sampled, **defines} if job.call is None else job.call)
    examples = [typed_example(At(Scope(), source), node, kernel, sig, given, defines) for node, source, given in samples]
    example = examples[0] if examples else None
    if program:
        return (yield from _program(st, job, at, sig, example))
    body = yield kernel.body, at.but(order=tuple((key, attrs[key]) for key in ORDER if key in attrs))
    kept = (("fp", attrs.get("fp", "exact")),)
    return TypedKernel(kernel.name, sig.params, sig.dims, body, kept, st.source, kernel.span, example)


def _program(st: State, job: _Header, at: At, sig: Signature, example: Example | None) -> Generator[Any, Any, TypedProgram]:
    def specialize(name: str, values: dict[str, Any]) -> tuple[TypedKernel | None, list[Diagnostic]]:
        return _checked(job.items, name, job.defines, job.reduce_chunk, values)

    body = yield from check_body(st, job.kernel.body, at, Callees(job.items.kernels, specialize))
    parts = (body.lets, tuple(body.locals), tuple(body.calls))
    program = TypedProgram(job.kernel.name, sig.params, sig.dims, *parts, st.source, job.kernel.span, example)
    st.errors.extend(() if st.errors else check_workspaces(program, at))
    return program


def _function(st: State, fn: syntax.Fn | syntax.Extern, at: At) -> Generator[Any, Any, None]:
    return check_function(fn, at)


_ITEMS = {_Header: _kernel, syntax.Fn: _function, syntax.Extern: _function}
HANDLERS = EXPRESSIONS | NAMES | CALLS | STATEMENTS | BINDINGS | ASSIGNMENTS | EFFECTS | _ITEMS
