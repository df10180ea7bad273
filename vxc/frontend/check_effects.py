"""Typing calls that are statements: atomics, `assert`, `print`. The tile operations are in `check_tiles`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import suggestion
from vxc.dtypes import F32, F64, I32, I64, U32, U64, DType
from vxc.frontend import syntax, typed
from vxc.frontend.check_args import arity, named
from vxc.frontend.check_assign import row_loop, writable
from vxc.frontend.check_attrs import no_attributes
from vxc.frontend.check_calls import ATOMICS, BUILTINS
from vxc.frontend.check_expr import require_bool
from vxc.frontend.check_tiles import TILES
from vxc.frontend.foreign import STATEMENTS as FOREIGN
from vxc.frontend.rows import Row, extents_of, fit, indices
from vxc.frontend.scope import At, State, fail
from vxc.frontend.subscripts import picks, place
from vxc.frontend.values import assign, settle

Steps = Generator[tuple[Any, At], Any, Any]

_ATOMIC_TYPES = (I32, I64, U32, U64, F32, F64)


def _call_stmt(st: State, node: syntax.CallStmt, at: At) -> Any:
    name = node.call.func.name
    if name in ATOMICS:
        return _atomic(st, node, at)
    if name in _EFFECTS:
        return _EFFECTS[name](st, node, at)
    if name in BUILTINS or name in st.functions:
        fail(at, "E0113", f"the value of `{name}` is not used", node, help="bind it with `let`, or assign it")
    hint = FOREIGN.get(name) or suggestion(name, [*ATOMICS, *_EFFECTS, *st.functions], "kernels are called in a `program`")
    fail(at, "E0207", f"there is no statement `{name}(..)`", node.call.func, help=hint)


def _atomic(st: State, node: syntax.CallStmt, at: At) -> Generator[Any, Any, DType]:
    """The dtype of the element, for a `let` that binds its value before."""
    no_attributes(node, at)
    named(at, node.call)
    call = node.call
    arity(at, call, 2, f"write `{call.func.name}(y[i], value)`")
    target = place(at, call.args[0], call.func.name)
    row = Row("statement")
    array, selected = yield from picks(st, target, at.but(row=row))
    writable(at, array, target)
    if array.dtype not in _ATOMIC_TYPES:
        types = ", ".join(map(str, _ATOMIC_TYPES))
        fail(at, "E0203", f"`{call.func.name}` on elements of type `{array.dtype}`", target, help=f"atomics take {types}")
    is_row = any(pick.extent is not None or pick.row for pick in selected)
    if extents_of(selected):
        fit(st, at, row, array, extents_of(selected), target.span)
    index = row.wrap_each(indices(at, row, selected, target.span), target.span)
    value = yield call.args[1], at.but(row=row if is_row else None)
    expr = row.wrap(assign(at, value, array.dtype, f"an element of `{array.name}`", store=True), node.span)
    st.read(array)
    st.wrote(array)
    atomic = typed.Atomic(call.func.name.removeprefix("atomic_"), array, index, expr, None, node.span)
    at.out.append(row_loop(st, row, (atomic,), node.span) if is_row else atomic)
    return array.dtype


def _assert(st: State, node: syntax.CallStmt, at: At) -> Steps:
    no_attributes(node, at)
    named(at, node.call)
    args = node.call.args
    if len(args) not in (1, 2) or (len(args) == 2 and not isinstance(args[1], syntax.String)):
        fail(at, "E0208", "`assert` takes a condition and a message", node, help='write `assert(x > 0.0, "x is positive")`')
    cond = yield args[0], at
    require_bool(at, cond, "the condition of `assert`")
    message = args[1].value if len(args) == 2 else at.source.slice(args[0].span)
    at.out.append(typed.Assert(cond.expr, message, node.span))


def _print(st: State, node: syntax.CallStmt, at: At) -> Steps:
    no_attributes(node, at)
    named(at, node.call)
    args = node.call.args
    labelled = bool(args) and isinstance(args[0], syntax.String)
    values = []
    for arg in args[labelled:]:
        values.append(settle(at, (yield arg, at)).expr)
    at.out.append(typed.Print(args[0].value if labelled else "", tuple(values), node.span))


_EFFECTS = {"assert": _assert, "print": _print, **TILES}
EFFECTS = {syntax.CallStmt: _call_stmt}
