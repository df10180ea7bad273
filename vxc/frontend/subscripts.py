"""Subscripts: what indices, slices and windows select of an array, and whether constant ones stay inside it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import count
from vxc.dtypes import BOOL, I64
from vxc.frontend import dims, syntax
from vxc.frontend.rows import Pick, RowLet
from vxc.frontend.scope import UNKNOWN, At, State, fail, label, unknown
from vxc.frontend.typed import Array, Cast, Const, Expr, Op
from vxc.frontend.values import Value, assign, convert, widened
from vxc.ir.facts import MAX_DIM
from vxc.source import Span


def place(at: At, node: syntax.Expr, name: str) -> syntax.Name | syntax.Subscript:
    """The operand of the statement `name` that is an array or a part of one."""
    if not isinstance(node, (syntax.Name, syntax.Subscript)):
        fail(at, "E0212", f"`{name}` needs a place in an array", node, help="write an array with its indices, such as `y[i]`")
    return node


def picks(
    st: State, node: syntax.Name | syntax.Subscript, at: At, tile: bool = False
) -> Generator[Any, Any, tuple[Array, list[Pick]]]:
    """The array of a subscript (or bare array name) and what is selected in each of its dimensions.

    A `tile` of `copy` may lie outside a parameter.
    """
    base, written = node, []
    while isinstance(base, syntax.Subscript):
        written[:0] = base.indices
        base = base.base
        if isinstance(base, syntax.Subscript) and not all(isinstance(i, syntax.Index) for i in base.indices):
            fail(at, "E0212", "a slice of a slice", node, help="write all indices in one pair of brackets")
    found = at.scope.find(base.name) if isinstance(base, syntax.Name) else None
    if not isinstance(found, Array):
        if not isinstance(base, syntax.Name):
            fail(at, "E0212", "only arrays have elements", node, help="bind the array to a name, or index its operands")
        if found is None or found is UNKNOWN:
            unknown(at, base, found)
        hint = "index the arrays that it is made of, or copy it to a `local` array" if isinstance(found, RowLet) else "remove the brackets"
        fail(at, "E0212", f"`{base.name}` is no array", base, help=hint)
    if len(written) > len(found.shape):
        declared = (label(at, found.span, "declared here"),) if found.span else ()
        message = f"`{found.name}` has {count(len(found.shape), 'dimension')}, and {len(written)} indices are given"
        fail(at, "E0212", message, node, secondary=declared, help=f"give at most {len(found.shape)}")
    inside = not (tile and found.space == "param")
    selected = []
    for k, index in enumerate(written):
        selected.append((yield from _pick(st, at, found, k, index, inside)))
    selected += [whole(found, k, node.span, at) for k in range(len(written), len(found.shape))]
    if any(p.row for p in selected) and any(p.extent is not None for p in selected):
        hint = "index every dimension, or loop over one of them with `parallel`"
        fail(at, "E0212", "an index that is a row beside a slice", node, help=hint)
    return found, selected


def whole(array: Array, k: int, span: Span, at: At) -> Pick:
    place = at.place(span)
    return Pick(dims.const(0, place), array.shape[k], dims.const(1, place))


def _pick(st: State, at: At, array: Array, k: int, index: Any, inside: bool) -> Generator[Any, Any, Pick]:
    size, place = array.shape[k], at.place(index.span)
    one = dims.const(1, place)
    if isinstance(index, syntax.Index):
        value = yield index.value, at
        start = as_index(at, value, "an index")
        if inside:
            _check_index(st, at, array, k, start, index.value.span)
        return Pick(start, None, one, value.row)
    plain = at.but(row=None)
    start = as_index(at, (yield index.start, plain), "the start of a slice") if index.start else dims.const(0, place)
    if isinstance(index, syntax.Window):
        extent, step = as_index(at, (yield index.extent, plain), "the extent of a slice"), one
        stop = dims.op("add", start, extent, place)
        length = dims.op("max", extent, dims.const(0, place), place)
    else:
        stop = as_index(at, (yield index.stop, plain), "the end of a slice") if index.stop else size
        step = as_index(at, (yield index.step, plain), "the step of a slice") if index.step else one
        if isinstance(step, Const) and step.value < 1:
            fail(at, "E0216", f"a slice by steps of {step.value}", index, help="steps are positive")
        extent = dims.op("ceildiv", dims.op("sub", stop, start, place), step, place)
        length = dims.op("ceildiv", _ahead(st, start, stop, place), step, place)
    _check_slice(st, at, array, k, start, stop, index.span, inside)
    extent = tidy(st, extent)
    if extent is not size and not dims.natural(dims.linear(extent, st.forms), st.forms):
        st.lengths[extent] = length
    return Pick(start, extent, step)


def _ahead(st: State, start: Expr, stop: Expr, place: Span) -> Expr:
    """Elements from `start` to `stop`, 0 where there are none. From a negative start, where the difference may wrap, at least 1 where
    there are any: such a slice is out of range, not empty."""
    apart = dims.op("sub", dims.op("max", stop, start, place), start, place)
    if dims.natural(dims.linear(start, st.forms), st.forms):
        return apart
    some = Cast("cast", Op("lt", (start, stop), BOOL, place), I64, place)
    return dims.op("max", apart, some, place)


def tidy(st: State, expr: Expr) -> Expr:
    """An i64 expression as a constant, where it is one that does not wrap."""
    number = dims.linear(expr, st.forms).number
    return expr if number is None or isinstance(expr, Const) or not I64.min <= number <= I64.max else dims.const(number, expr.span)


def countable(at: At, name: str, shape: list[Expr], where: Any, code: str) -> None:
    """Fail for an array whose constant extents alone make more elements than any memory holds."""
    elements = dims.volume(shape)
    if elements > MAX_DIM:
        fail(at, code, f"`{name}` would have {elements} elements", where, help=f"arrays have at most 2^{MAX_DIM.bit_length() - 1}")


def as_index(at: At, value: Value, what: str) -> Expr:
    """The value as an i64."""
    if value.expr is None:
        if value.is_float:
            fail(at, "E0204", f"{what} is an integer, not a float", value.span, help="write it without a decimal point")
        return assign(at, value, I64, what)
    expr = widened(value.expr, at.place(value.span))
    if not expr.dtype.is_int:
        fail(at, "E0204", f"{what} is an integer, and this is `{expr.dtype}`", value.span, help="convert it: `as i64`")
    return convert(expr, I64, at.place(value.span))


def _check_index(st: State, at: At, array: Array, k: int, index: Expr, span: Span) -> None:
    form, size = dims.linear(index, st.forms), dims.linear(array.shape[k], st.forms)
    declared = (label(at, array.span, f"`{array.name}` is declared here"),) if array.span else ()
    if form.number is not None and form.number < 0:
        hint = f"indices count from 0; the last is `{dims.show(size.minus(dims.integer(1)))}`"
        fail(at, "E0215", f"index {form.number} of `{array.name}` is negative", span, secondary=declared, help=hint)
    over = form.minus(size).number
    if over is not None and over >= 0:
        message = f"index {dims.show(form)} is outside `{array.name}`, whose dimension {k} has {count(dims.show(size), 'element')}"
        fail(at, "E0215", message, span, secondary=declared, help="indices count from 0")


def _check_slice(st: State, at: At, array: Array, k: int, start: Expr, stop: Expr, span: Span, inside: bool) -> None:
    first, last, size = (dims.linear(e, st.forms) for e in (start, stop, array.shape[k]))
    declared = (label(at, array.span, f"`{array.name}` is declared here"),) if array.span else ()
    if inside and first.number is not None and first.number < 0:
        fail(at, "E0215", f"a slice of `{array.name}` starts at {first.number}", span, secondary=declared, help="indices count from 0")
    length = last.minus(first).number
    if length is not None and length < 0:
        hint = "write the smaller bound first"
        if last.number is not None and last.number < 0:
            hint = f"bounds count from 0, negative ones not from the end: write `{dims.show(size.minus(dims.integer(-last.number)))}`"
        fail(at, "E0216", f"a slice of `{array.name}` ends before it starts", span, secondary=declared, help=hint)
    over = last.minus(size).number
    if inside and over is not None and over > 0:
        has = f"whose dimension {k} has {count(dims.show(size), 'element')}"
        message = f"the slice ends at {dims.show(last)}, past the end of `{array.name}`, {has}"
        if first.number and length is not None:
            message += f" ({first.number}+{length} > {dims.show(size)})"
        fail(at, "E0216", message, span, secondary=declared, help="end it at the array's end, or declare the array larger")
