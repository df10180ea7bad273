"""`@layout` of a fragment, a shared array or a `parallel` loop: the map as written, checked by enumeration of elements or iterations."""

from __future__ import annotations

from collections.abc import Generator
from math import prod
from typing import Any

from vxc.dtypes import I32
from vxc.frontend import syntax
from vxc.frontend.scope import At, fail, in_block
from vxc.frontend.typed import Array, Const
from vxc.ir.facts import trip_count
from vxc.layout.arrangement import Arrangement
from vxc.layout.layout import OPERATORS, Dim, Layout, Program
from vxc.layout.places import dealt, problem

Steps = Generator[tuple[Any, At], Any, Any]
LARGEST = 1 << 20  # elements of an array, or iterations, that a layout is enumerated for


def layout_of(node: syntax.LayoutMap, array: Array, at: At) -> Steps:
    """The text of the layout, as the IR has it."""
    shape = tuple(extent.value for extent in array.shape)
    dims, results = yield from _written(node, shape, f"`{array.name}` is of {{}} elements", at)
    if array.space == "shared":
        return _shared(node, array, at, dims, results, shape)
    layout = _distribution(node, f"a {array.space}", dims, results, shape, at)
    _refuse(node, array.name, at, _with_sample(problem(layout, shape, at.threads), node, shape, at))
    return str(layout)


def layout_of_loop(node: syntax.LayoutMap, loop: syntax.Loop, binders: list, at: At) -> Steps:
    """The same of a loop, over the numbers of its iterations, which count from 0 in each of its ranges."""
    if not in_block(at):
        inside = "parallel" in at.loops
        where, hint = ("inside another one", "give it to the outer loop") if inside else ("outside a `grid`", "put it in a `grid`")
        fail(at, "E0235", f"`@layout` of a `parallel` loop {where}, where a block's threads do not share it", node, help=hint)
    shape = []
    for binder, (symbol, *bounds) in zip(loop.binders, binders):
        if not all(isinstance(bound, Const) for bound in bounds):
            hint = "let it run over literals and generics, and test with `if`"
            fail(at, "E0235", f"`@layout` of a loop whose range of `{symbol.name}` is not known when compiling", binder, help=hint)
        shape.append(trip_count(*(bound.value for bound in bounds)))
    dims, results = yield from _written(node, tuple(shape), "a loop is of {} iterations", at)
    copied = next((written for dim, written in zip(dims, node.dims) if dim.replicas), None)
    if copied is not None:
        fail(at, "E0235", f"`{copied.name}` counts replicas of an iteration", copied, help="an iteration is run by one thread")
    if len(dims) != len(shape):
        counts = f"{len(dims)} {'index' if len(dims) == 1 else 'indices'}", f"{len(shape)} range{'s' * (len(shape) > 1)}"
        fail(at, "E0235", "`@layout` has {}, and the loop {}".format(*counts), node, help="name one index for each range")
    layout = _distribution(node, "a loop", dims, results, tuple(shape), at)
    wrong = _with_sample(problem(layout, tuple(shape), at.threads, "iteration"), node, tuple(shape), at)
    _refuse(node, ", ".join(binder.name for binder in loop.binders), at, wrong)
    return str(layout)


def _sample(node: syntax.LayoutMap, shape: tuple[int, ...], threads: int) -> str:
    """A layout that fits, with the names that are written where there are as many as it needs."""
    written = [dim.name for dim in node.dims if dim.extent is None]
    rank = len(shape)
    names = written if len({*written}) == rank == len(written) else [f"i{k}" for k in range(rank)] if rank > 6 else [*"ijklmn"[:rank]]
    return f"@layout({dealt(shape, threads, names)})"


def _with_sample(wrong: tuple[str, str] | None, node: syntax.LayoutMap, shape: tuple[int, ...], at: At) -> tuple[str, str] | None:
    return wrong and (wrong[0], f"{wrong[1]}; this one fits: `{_sample(node, shape, at.threads)}`")


def _distribution(node: syntax.LayoutMap, what: str, dims: list[Dim], results: list[Program], shape: tuple[int, ...], at: At) -> Layout:
    if len(results) != 2:
        hint = f"write [thread, slot], as in `{_sample(node, shape, at.threads)}`"
        fail(at, "E0235", f"`@layout` of {what} gives [thread, slot], not {len(results)} results", node, help=hint)
    return Layout(tuple(dims), *results)


def _written(node: syntax.LayoutMap, shape: tuple[int, ...], of: str, at: At) -> Steps:
    """Dimensions and results, of what is not too large to be enumerated; `of` says what it is, given a size."""
    dims, results = [], []
    for dim in node.dims:
        replicas = 0 if dim.extent is None else (yield from _count(dim, at))
        if dim.name in (seen.name for seen in dims):
            fail(at, "E0235", f"`{dim.name}` is named twice in a layout", dim, help="name each dimension once")
        dims.append(Dim(dim.name, replicas))
    for result in node.results:
        results.append((yield from _program(result, {dim.name for dim in dims}, at)))
    size = prod((*shape, *(dim.replicas for dim in dims if dim.replicas)))
    if size > LARGEST:
        fail(at, "E0235", f"`@layout` of {of.format(f'{size:,}')}", node, help=f"lay out {LARGEST:,} at most")
    return dims, results


def _shared(node: syntax.LayoutMap, array: Array, at: At, dims: list[Dim], results: list[Program], shape: tuple[int, ...]) -> str:
    copied = next((written for dim, written in zip(dims, node.dims) if dim.replicas), None)
    if copied is not None:
        hint = "an element of a shared array lies in one place"
        fail(at, "E0235", f"`{copied.name}` counts replicas of a shared array", copied, help=hint)
    found = Arrangement(tuple(dim.name for dim in dims), tuple(results))
    _refuse(node, array.name, at, found.problem(shape))
    return str(found)


def _refuse(node: syntax.LayoutMap, name: str, at: At, wrong: tuple[str, str] | None) -> None:
    if wrong:
        fail(at, "E0235", f"`@layout` does not fit `{name}`: {wrong[0]}", node, help=wrong[1])


def _count(dim: syntax.MapDim, at: At) -> Steps:
    number = (yield dim.extent, at.but(row=None)).number
    if not isinstance(number, int) or number < 1:
        fail(at, "E0235", f"`{dim.name}` has no number of replicas", dim, help="write a literal or a generic of at least 1 behind `in`")
    return number


def _program(expr: syntax.Expr, dims: set[str], at: At) -> Steps:
    """An expression in postfix order; what names no dimension is a number known when compiling."""
    program: list[int | str] = []
    work: list[syntax.Expr | str] = [expr]
    while work:
        node = work.pop()
        if isinstance(node, str):
            program.append(node)
        elif isinstance(node, syntax.Binary) and node.op in OPERATORS:
            work += [node.op, node.right, node.left]
        elif isinstance(node, syntax.Name) and node.name in dims:
            program.append(node.name)
        elif isinstance(node, (syntax.Name, syntax.Number)):
            number = (yield node, at.but(row=None)).number
            if not isinstance(number, int) or number < 0:
                fail(at, "E0235", "a layout counts with whole numbers from 0 up", node, help="use literals, generics and the dimensions")
            if number > I32.max:
                fail(at, "E0235", f"{number:,} is too large for a layout", node, help=f"numbers in it are {I32.max:,} at most")
            program.append(number)
        else:
            fail(at, "E0235", "this has no place in a layout", node, help=f"use {' '.join(OPERATORS)} on dimensions and whole numbers")
    return tuple(program)
