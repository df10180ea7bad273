"""`@layout` of a fragment, a shared array or a `parallel` loop: the map as written, checked by enumeration of elements or iterations.

Layouts that name threads are checked where their block ends, for all of them say how many threads it has.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import prod
from typing import Any

from vxc.diag import Diagnostic
from vxc.dtypes import I32
from vxc.frontend import syntax
from vxc.frontend.attr_table import THREADS
from vxc.frontend.scope import At, Block, error, fail, in_block
from vxc.frontend.typed import Array, Const
from vxc.ir.facts import trip_count
from vxc.layout.arrangement import Arrangement
from vxc.layout.layout import OPERATORS, Dim, Layout, Program
from vxc.layout.places import counted, dealt, problem
from vxc.record import record
from vxc.target import MAX_THREADS_PER_BLOCK, WARP

Steps = Generator[tuple[Any, At], Any, Any]
LARGEST = 1 << 20  # elements of an array, or iterations, that a layout is enumerated for


@record
class _Given:
    """A layout of threads as written: of `what`, of a `shape`, in something called `name`."""

    layout: Layout
    shape: tuple[int, ...]
    what: str
    node: syntax.LayoutMap
    name: str
    at: At

    @property
    def threads(self) -> int:
        """As many as it counts."""
        return counted(self.layout, self.shape)


def layout_of(node: syntax.LayoutMap, array: Array, at: At) -> Steps:
    """The text of the layout, as the IR has it."""
    shape = tuple(extent.value for extent in array.shape)
    dims, results = yield from _written(node, shape, f"`{array.name}` is of {{}} elements", at)
    if array.space == "shared":
        return _shared(node, array, at, dims, results, shape)
    layout = _distribution(node, f"a {array.space}", dims, results, shape, at)
    at.block.layouts.append(_Given(layout, shape, "element", node, array.name, at))
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
    at.block.layouts.append(_Given(layout, tuple(shape), "iteration", node, ", ".join(binder.name for binder in loop.binders), at))
    return str(layout)


def threads_of(block: Block) -> int:
    """Of a block: what `@threads` says, else THREADS, or as many whole warps as its layouts count where these are more."""
    counted = max((given.threads for given in block.layouts), default=0)
    return block.threads or min(max(THREADS, -(-counted // WARP) * WARP), MAX_THREADS_PER_BLOCK)


def misfits(block: Block, threads: int) -> Iterator[Diagnostic]:
    """What is wrong with layouts in a block of so many threads (E0235)."""
    for given in block.layouts:
        wrong = problem(given.layout, given.shape, threads, given.what)
        if wrong:
            needed = -(-given.threads // WARP) * WARP
            more = f", or write `@threads({needed})` before the loop over blocks" if threads < needed <= MAX_THREADS_PER_BLOCK else ""
            hint = f"{wrong[1]}; this one fits: `{_sample(given.node, given.shape, threads)}`{more}"
            yield error(given.at, "E0235", _unfit(given.name, wrong[0]), given.node, help=hint)


def _sample(node: syntax.LayoutMap, shape: tuple[int, ...], threads: int) -> str:
    """A layout that fits, with the names that are written where there are as many as it needs."""
    written = [dim.name for dim in node.dims if dim.extent is None]
    rank = len(shape)
    names = written if len({*written}) == rank == len(written) else [f"i{k}" for k in range(rank)] if rank > 6 else [*"ijklmn"[:rank]]
    return f"@layout({dealt(shape, threads, names)})"


def _distribution(node: syntax.LayoutMap, what: str, dims: list[Dim], results: list[Program], shape: tuple[int, ...], at: At) -> Layout:
    if len(results) != 2:
        hint = f"write [thread, slot], as in `{_sample(node, shape, at.block.threads or THREADS)}`"
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
    wrong = found.problem(shape)
    if wrong:
        fail(at, "E0235", _unfit(array.name, wrong[0]), node, help=wrong[1])
    return str(found)


def _unfit(name: str, why: str) -> str:
    return f"`@layout` does not fit `{name}`: {why}"


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
