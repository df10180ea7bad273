"""What reads the text of kernels and compiles it, with all of the compiler behind it: imported when nothing was kept of it earlier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from vxc.api.signatures import Parameter, Signature
from vxc.api.specialise import Define, Recipe, Specialisation
from vxc.api.strided import with_strides
from vxc.driver import Compiled, compile_plan
from vxc.frontend import syntax
from vxc.frontend.check import Typed, check
from vxc.frontend.lower import lower
from vxc.frontend.node import walk
from vxc.frontend.parse import parse, parse_expression
from vxc.frontend.signature import names_in
from vxc.frontend.typed import Declare, Expr, Loop, Reduce, TypedKernel, Var
from vxc.frontend.typed_walk import walk as walk_typed
from vxc.ir.alignment import with_alignment
from vxc.source import Source


@lru_cache(maxsize=8)
def _parsed(source: Source) -> syntax.Module:
    """Of a text that is asked for several things in a row, once."""
    return parse(source)


def signatures(source: Source) -> tuple[tuple[Signature, ...], bool]:
    """The kernels and programs of a text, and whether it is all there is to read: it imports no other file. Raises `VxcError` E01xx."""
    items = _parsed(source).items
    found = tuple(_signature(item, source.text) for item in items if isinstance(item, syntax.Kernel))
    return found, not any(isinstance(item, syntax.Import) for item in items)


def expression(source: Source) -> tuple[str, list[tuple[int, int]]]:
    """The text of an expression without what is around it, and where in that names of values stand. Raises `VxcError` E01xx."""
    found = parse_expression(source)
    start, end = found.span.start, found.span.end
    return source.text[start:end], [(name.span.start - start, name.span.end - start) for name in names_in(found)]


def foreign(source: Source) -> list[str]:
    """The CUDA texts of the `extern fn`s of a text. Raises `VxcError` E01xx."""
    return [item.cuda for item in _parsed(source).items if isinstance(item, syntax.Extern)]


def compiled(recipe: Recipe, specialisation: Specialisation, target: str) -> Compiled:
    """The plan for a target, passes run. Raises `VxcError` with all that is wrong with the source."""
    typed = checked(recipe, dict(specialisation.defines))
    plan = lower(typed)
    if specialisation.strided:
        plan = with_strides(plan, dict(specialisation.strided))
    plan = with_alignment(plan, dict(specialisation.aligned))
    return compile_plan(plan, typed, target, debug=recipe.debug, maxrregcount=recipe.maxrregcount)


def row_dims(recipe: Recipe, defines: Mapping[str, Define]) -> frozenset[str]:
    """Dimensions that are, or are part of, the length of a row or the shape of an array of a block or thread. Raises `VxcError`."""
    return frozenset(_row_dims(checked(recipe, defines)))


def checked(recipe: Recipe, defines: Mapping[str, Define]) -> Typed:
    """The typed kernel or program. Raises `VxcError`."""
    return check(_parsed(recipe.source), recipe.source, recipe.name, defines, reduce_chunk=recipe.reduce_chunk)


def _signature(kernel: syntax.Kernel, text: str) -> Signature:
    program = isinstance(kernel, syntax.Program)
    dims = (dim for param in kernel.params for dim in param.type.dims)
    shapes = (dim for node in walk(kernel) if isinstance(node, syntax.Decl) for dim in node.type.dims)
    return Signature(
        kernel.name,
        program,
        tuple((g.name, g.kind) for g in kernel.generics),
        tuple(_parameter(p, text) for p in kernel.params),
        _names(dims),
        frozenset() if program else _names(shapes),
    )


def _parameter(param: syntax.Param, text: str) -> Parameter:
    dims = tuple(dim.size.name if isinstance(dim.size, syntax.Name) else None for dim in param.type.dims)
    pitched = any(dim.stride is not None for dim in param.type.dims)
    names = tuple(tuple(name.name for name in names_in(dim.size)) for dim in param.type.dims)
    return Parameter(param.name, param.direction, param.type.name, dims, names, pitched, text[param.span.start : param.span.end])


def _names(dims: Iterable[syntax.Extent]) -> frozenset[str]:
    return frozenset(name.name for dim in dims for name in names_in(dim))


def _row_dims(code: Typed) -> set[str]:
    if isinstance(code, TypedKernel):
        return {v.symbol.name for extent in _extents(code) for v in _dims(extent)}
    found = set()
    for call in code.calls:
        rows = _row_dims(call.kernel)
        found |= {v.symbol.name for dim, size in zip(call.kernel.dims, call.dims) if dim.name in rows for v in _dims(size)}
    return found


def _extents(kernel: TypedKernel) -> Iterator[Expr]:
    for node in walk_typed(kernel.body):
        if isinstance(node, Reduce):
            yield from (extent for _, extent in node.binders)
        elif isinstance(node, Loop) and node.row:
            yield from (stop for _, _, stop, _ in node.binders)
        elif isinstance(node, Declare):
            yield from node.array.shape


def _dims(extent: Expr) -> Iterator[Var]:
    return (node for node in walk_typed(extent) if isinstance(node, Var) and node.symbol.kind == "dim")
