"""`@layout` of a fragment or shared array: the map as written, checked for the array by enumeration of its elements."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.frontend import syntax
from vxc.frontend.scope import At, fail
from vxc.frontend.typed import Array
from vxc.layout.arrangement import Arrangement
from vxc.layout.layout import OPERATORS, Dim, Layout, Program
from vxc.layout.places import problem

Steps = Generator[tuple[Any, At], Any, Any]
LARGEST = 1 << 20  # elements of an array that a layout is enumerated for
SAMPLES = {"fragment": "[i, j] -> [i % 8 * 4 + j // 2 % 4, i // 8 * 2 + j % 2]", "shared": "[i, j] -> [i, j ^ i % 8]"}


def layout_of(node: syntax.LayoutMap, array: Array, at: At) -> Steps:
    """The text of the layout, as the IR has it."""
    dims, results = [], []
    for dim in node.dims:
        replicas = 0 if dim.extent is None else (yield from _count(dim, at))
        if dim.name in (seen.name for seen in dims):
            fail(at, "E0235", f"`{dim.name}` is named twice in a layout", dim, help="name each dimension once")
        dims.append(Dim(dim.name, replicas))
    for result in node.results:
        results.append((yield from _program(result, {dim.name for dim in dims}, at)))
    shape = tuple(extent.value for extent in array.shape)
    size = 1
    for extent in (*shape, *(dim.replicas for dim in dims if dim.replicas)):
        size *= extent
    if size > LARGEST:
        fail(at, "E0235", f"`@layout` of `{array.name}` is of {size:,} elements", node, help=f"lay out {LARGEST:,} at most")
    if array.space == "shared":
        return _shared(node, array, at, dims, results, shape)
    if len(results) != 2:
        hint = f"write `@layout({SAMPLES['fragment']})`"
        fail(at, "E0235", f"`@layout` of a fragment gives [thread, slot], not {len(results)} results", node, help=hint)
    layout = Layout(tuple(dims), *results)
    _refuse(node, array, at, problem(layout, shape, at.threads))
    return str(layout)


def _shared(node: syntax.LayoutMap, array: Array, at: At, dims: list[Dim], results: list[Program], shape: tuple[int, ...]) -> str:
    copied = next((written for dim, written in zip(dims, node.dims) if dim.replicas), None)
    if copied is not None:
        hint = "an element of a shared array lies in one place"
        fail(at, "E0235", f"`{copied.name}` counts replicas of a shared array", copied, help=hint)
    found = Arrangement(tuple(dim.name for dim in dims), tuple(results))
    _refuse(node, array, at, found.problem(shape))
    return str(found)


def _refuse(node: syntax.LayoutMap, array: Array, at: At, wrong: tuple[str, str] | None) -> None:
    if wrong:
        fail(at, "E0235", f"`@layout` does not fit `{array.name}`: {wrong[0]}", node, help=wrong[1])


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
            if not isinstance(number, int) or not 0 <= number < 1 << 31:
                fail(at, "E0235", "a layout counts with whole numbers from 0 up", node, help="use literals, generics and the dimensions")
            program.append(number)
        else:
            fail(at, "E0235", "this has no place in a layout", node, help=f"use {' '.join(OPERATORS)} on dimensions and whole numbers")
    return tuple(program)
