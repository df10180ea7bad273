"""Typing statements: bindings, assignments, control flow, declarations. Calls as statements are in `check_effects`.

Handlers for `worklist.run`. A statement appends what it becomes to `at.out`; a block gives its statements as a tuple. A
statement that is rejected is left out, and checking goes on with the next.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import VxcError
from vxc.dtypes import I64, DType
from vxc.frontend import dims, syntax, typed
from vxc.frontend.check_attrs import ORDER, attributes
from vxc.frontend.check_calls import ATOMICS, order_of
from vxc.frontend.check_expr import as_index, binary, dtype_named, picks, require_bool, tidy, unknown
from vxc.frontend.rows import Pick, Row, RowLet, fit, indices
from vxc.frontend.scope import UNKNOWN, At, Scope, State, bind, fail, label
from vxc.frontend.typed import Array, Const, Expr, Load, Stmt, Symbol
from vxc.frontend.values import Value, assign, settle, widened
from vxc.source import Span

Steps = Generator[tuple[Any, At], Any, Any]


def _block(st: State, node: syntax.Block, at: At) -> Steps:
    out: list[Stmt] = []
    inner = at.but(scope=Scope(at.scope), out=out, hoist=out, row=None)
    for stmt in node.stmts:
        st.tick()
        try:
            done = yield stmt, inner
            if isinstance(stmt, syntax.Block):
                out.extend(done)
        except VxcError as found:
            st.errors.extend(found.diagnostics)
            if isinstance(stmt, (syntax.Let, syntax.Decl)):
                inner.scope.names.setdefault(stmt.name, (UNKNOWN, stmt.name_span))
    return tuple(out)


def _plain(st: State, node: syntax.Stmt, at: At) -> Steps:
    """Statements that take no attribute."""
    yield from attributes(st, node.attrs, "statement of this kind", at)


# Bindings ------------------------------------------------------------------------------------------------------------------------


def _let(st: State, node: syntax.Let, at: At) -> Steps:
    yield from _plain(st, node, at)
    dtype = _scalar_type(at, node.type, node) if node.type is not None else None
    if node.mutable:
        return (yield from _var(st, node, at, dtype))
    if isinstance(node.value, syntax.Call) and node.value.func.name in ATOMICS:
        return (yield from _let_atomic(st, node, at, dtype))
    row = Row("value")
    st.reads.append(set())
    try:
        value = yield node.value, at.but(row=row)
    finally:
        reads = st.reads.pop()
    if value.row:
        if dtype is not None:
            fail(at, "E0214", f"`{node.name}` is declared as one `{dtype}`, and this is a row", node.value, help="leave out the type, or convert with `as`")
        bind(at, node.name, node.name_span, RowLet(node.name, node.value, at, node.name_span, st.clock, frozenset(reads)))
        return
    expr = settle(at, value).expr if dtype is None else assign(at, value, dtype, f"`{node.name}`")
    symbol = Symbol(node.name, "let", expr.dtype, node.name_span)
    bind(at, node.name, node.name_span, symbol)
    _remember(st, symbol, expr)
    call = _unattributed(node.value)
    if isinstance(expr, typed.Var) and st.hoisted.get(call) is expr.symbol:  # the let's own value: no need for a second name
        del st.hoisted[call]
        expr = at.out.pop().value
    at.out.append(typed.Let(symbol, expr, node.span))


def _unattributed(node: syntax.Expr) -> syntax.Expr:
    while isinstance(node, syntax.AttrExpr):
        node = node.operand
    return node


def _remember(st: State, symbol: Symbol, expr: Expr) -> None:
    """Keep the normal form of an integer let, so that shapes written with it compare."""
    if expr.dtype.is_int:
        form = dims.linear(expr, st.forms)
        if form.fixed:
            st.forms[symbol] = form


def _var(st: State, node: syntax.Let, at: At, dtype: DType | None) -> Steps:
    if node.value is None and dtype is None:
        fail(at, "E0204", f"`{node.name}` has neither type nor value", node, help=f"write `var {node.name}: f32;` or give a value")
    expr = None
    if node.value is not None:
        value = yield node.value, at
        expr = settle(at, value).expr if dtype is None else assign(at, value, dtype, f"`{node.name}`")
    symbol = Symbol(node.name, "var", dtype or expr.dtype, node.name_span)
    bind(at, node.name, node.name_span, symbol)
    at.out.append(typed.Let(symbol, expr, node.span))


def _let_atomic(st: State, node: syntax.Let, at: At, dtype: DType | None) -> Steps:
    old = Symbol(node.name, "let", (yield syntax.CallStmt(node.span, node.value), at), node.name_span)
    if dtype is not None and dtype is not old.dtype:
        fail(at, "E0204", f"`{node.name}` is `{dtype}`, and the element is `{old.dtype}`", node.type, help="leave out the type")
    atomic = at.out.pop()
    bind(at, node.name, node.name_span, old)
    if not isinstance(atomic, typed.Atomic):
        fail(at, "E0214", "a row of atomics has no one value before", node.value, help="index every dimension")
    at.out.append(typed.Atomic(atomic.op, atomic.array, atomic.indices, atomic.value, old, node.span))


def _scalar_type(at: At, type_: syntax.TypeExpr, node: syntax.Let) -> DType:
    if type_.dims:
        fail(at, "E0231", f"`{node.name}` is declared as an array", type_, help=f"write `local {node.name}: {at.source.slice(type_.span)};`")
    return dtype_named(at, type_.name, type_.span)


# Assignments ---------------------------------------------------------------------------------------------------------------------


def _assign(st: State, node: syntax.Assign, at: At) -> Steps:
    yield from _plain(st, node, at)
    sign = node.op[:-1]
    if isinstance(node.target, syntax.Name):
        found = at.scope.find(node.target.name)
        if isinstance(found, Symbol) and found.kind == "var":
            value = yield node.value, at
            if sign:
                value = binary(st, at, sign, Value(node.target.span, typed.Var(found, node.target.span)), value, node.span)
            at.out.append(typed.SetVar(found, assign(at, value, found.dtype, f"`{found.name}`"), node.span))
            st.wrote(found)
            return
        if not isinstance(found, Array):
            _not_assignable(at, node.target, found)
    row = Row("statement")
    array, selected = yield from picks(st, node.target, at.but(row=row))
    writable(at, array, node.target)
    if not any(pick.extent is not None or pick.row for pick in selected):
        index = indices(at, None, selected, node.target.span)
        value = yield node.value, at
        at.out.append(_store(st, node, at, array, index, value, sign))
        return
    if any(pick.extent is not None for pick in selected):
        fit(st, at, row, array, selected, node.target.span)
    index = indices(at, row, selected, node.target.span)
    value = yield node.value, at.but(row=row)
    store = _store(st, node, at, array, index, value, sign)
    store = typed.Store(array, index, row.wrap(store.value, node.span), node.span)
    at.out.append(row_loop(row, (store,), node.span, order_of(st, row.scans[0], row) if row.scans else None))


def _store(st: State, node: syntax.Assign, at: At, array: Array, index: tuple[Expr, ...], value: Value, sign: str) -> typed.Store:
    span = node.target.span
    if sign:
        st.read(array)
        value = binary(st, at, sign, Value(span, widened(Load(array, index, span), span)), value, node.span)
    st.wrote(array)
    return typed.Store(array, index, assign(at, value, array.dtype, f"an element of `{array.name}`", store=True), node.span)


def row_loop(row: Row, body: tuple[Stmt, ...], span: Span, scan_order: Any = None) -> typed.Loop:
    """The parallel loop that a row statement is."""
    zero, one = dims.const(0, span), dims.const(1, span)
    binders = tuple((symbol, zero, extent, one) for symbol, extent in row.binders)
    return typed.Loop("parallel", binders, body, (), span, row=True, scan_order=scan_order)


def writable(at: At, array: Array, where: Any) -> None:
    if array.space == "param" and array.mode == "in":
        declared = (label(at, array.span, "declared here"),) if array.span else ()
        hint = f"declare it `out {array.name}` or `inout {array.name}`"
        fail(at, "E0211", f"`{array.name}` is an `in` parameter and cannot be written", where, secondary=declared, help=hint)


def _not_assignable(at: At, node: syntax.Name, found: Any) -> None:
    if found is None or found is UNKNOWN:
        unknown(at, node, found)
    what, hint = "a generic and never changes", "bind a new name with `let`"
    if isinstance(found, RowLet) or (isinstance(found, Symbol) and found.kind == "let"):
        what, hint = "bound by `let` and never changes", f"declare it with `var {node.name}`, or a row as `local`"
    elif isinstance(found, Symbol):
        what = {"index": "a loop index", "dim": "a dimension", "scalar": "a parameter passed by value"}[found.kind] + " and cannot be assigned"
    where = (label(at, found.span, "defined here"),) if getattr(found, "span", None) else ()
    fail(at, "E0211", f"`{node.name}` is {what}", node, secondary=where, help=hint)


# Control flow --------------------------------------------------------------------------------------------------------------------


def _loop(st: State, node: syntax.Loop, at: At) -> Steps:
    attrs = yield from attributes(st, node.attrs, node.kind, at)
    _placed(at, node)
    inner = at.but(scope=Scope(at.scope))
    binders = []
    for binder in node.binders:
        binders.append((yield from _binder(st, binder, inner, node.kind)))
    mark = st.tick()
    order = tuple((dict(at.order) | {k: v for k, v in attrs.items() if k in ORDER}).items())
    body = yield node.body, inner.but(loops=(*at.loops, node.kind), order=order, marks=(*at.marks, mark))
    st.ends[mark] = st.clock
    kept = tuple(sorted((k, v) for k, v in attrs.items() if k not in ("chunk", "parts", "layout")))
    at.out.append(typed.Loop(node.kind, tuple(binders), body, kept, node.span))


def _placed(at: At, node: syntax.Loop) -> None:
    if node.kind == "grid" and at.loops:
        fail(at, "E0232", "a `grid` stands inside another loop", node, help="a grid is the outermost loop; inside use `parallel` or `serial`")
    if node.kind == "pipelined" and not {"grid", "persistent"} & set(at.loops):
        fail(at, "E0232", "a `pipelined` loop stands outside a `grid`", node, help="use `serial`, or put it in a `grid`")


def _binder(st: State, node: syntax.Binder, at: At, kind: str) -> Steps:
    start = as_index(at, (yield node.start, at), "the start of a loop") if node.start else dims.const(0, node.span)
    stop = as_index(at, (yield node.stop, at), "the end of a loop")
    step = as_index(at, (yield node.step, at), "the step of a loop") if node.step else dims.const(1, node.span)
    start, stop, step = tidy(st, start), tidy(st, stop), tidy(st, step)
    if isinstance(step, Const) and step.value == 0:
        fail(at, "E0230", "a loop by steps of 0 never ends", node.step, help="leave out the step, or write 1")
    trip = dims.linear(stop, st.forms).minus(dims.linear(start, st.forms)).number
    if kind == "unroll" and (trip is None or not isinstance(step, Const)):
        fail(at, "E0230", "an `unroll` loop whose length is not known when compiling", node, help="write `@unroll(4) serial`")
    symbol = Symbol(node.name, "index", I64, node.name_span)
    bind(at, node.name, node.name_span, symbol)
    return symbol, start, stop, step


def _if(st: State, node: syntax.If, at: At) -> Steps:
    yield from _plain(st, node, at)
    cond = yield node.cond, at
    require_bool(at, cond, "the condition of `if`")
    if cond.flag is not None:
        chosen = node.then if cond.flag else node.orelse
        if chosen is not None:
            at.out.extend((yield from _arm(chosen, at)))
        return
    then = yield from _arm(node.then, at)
    other = () if node.orelse is None else (yield from _arm(node.orelse, at))
    at.out.append(typed.If(cond.expr, then, other, node.span))


def _arm(arm: syntax.Block | syntax.If, at: At) -> Steps:
    if isinstance(arm, syntax.Block):
        return (yield arm, at)
    out: list[Stmt] = []
    yield arm, at.but(out=out, hoist=out)
    return tuple(out)


def _while(st: State, node: syntax.While, at: At) -> Steps:
    yield from _plain(st, node, at)
    mark = st.tick()
    inner = at.but(loops=(*at.loops, "while"), marks=(*at.marks, mark))
    cond = yield node.cond, inner.but(hoist=None)
    require_bool(at, cond, "the condition of `while`")
    body = yield node.body, inner
    st.ends[mark] = st.clock
    at.out.append(typed.While(cond.expr, body, node.span))


def _leave(st: State, node: syntax.Break | syntax.Continue, at: At) -> Steps:
    yield from _plain(st, node, at)
    word = "break" if isinstance(node, syntax.Break) else "continue"
    kind = at.loops[-1] if at.loops else ""
    if kind not in ("serial", "while"):
        place = f"belongs to a `{kind}` loop" if kind else "stands outside any loop"
        fail(at, "E0221", f"`{word}` {place}", node, help="only `serial` and `while` loops can be left or cut short; guard with `if`")
    at.out.append(typed.Break(node.span) if word == "break" else typed.Continue(node.span))


def _return(st: State, node: syntax.Return, at: At) -> None:
    fail(at, "E0222", "`return` stands outside a function", node, help="assign to an `out` parameter")


# Declarations --------------------------------------------------------------------------------------------------------------------


def _declare(st: State, node: syntax.Decl, at: At) -> Steps:
    attrs = yield from attributes(st, node.attrs, "declaration", at)
    dtype = dtype_named(at, node.type.name, node.type.span)
    if not node.type.dims:
        fail(at, "E0231", f"`{node.name}` has no dimensions", node.type, help=f"write `var {node.name}: {dtype};` for a scalar")
    if node.space != "local" and not {"grid", "persistent"} & set(at.loops):
        fail(at, "E0231", f"a `{node.space}` array stands outside a `grid`", node, help="use `local`, or put it in a `grid`")
    shape = []
    for dim in node.type.dims:
        if dim.stride is not None:
            fail(at, "E0231", f"`{node.name}` has a written stride", dim, help="only parameters have strides")
        size = tidy(st, as_index(at, (yield dim.size, at), "the size of a dimension"))
        if not isinstance(size, Const) or size.value < 0:
            hint = "use literals and generics, or fix the dimension with `-D`"
            fail(at, "E0231", f"`{node.name}` needs a constant size", dim, help=hint)
        shape.append(size)
    layout = attrs.get("layout")
    if layout is not None and sum(d.extent is None for d in layout.dims) != len(shape):
        fail(at, "E0220", f"the layout names {sum(d.extent is None for d in layout.dims)} dimensions, and `{node.name}` has {len(shape)}", layout, help="name each once")
    array = Array(node.name, dtype, tuple(shape), node.space, span=node.name_span)
    row = Row("statement")
    whole = [Pick(dims.const(0, node.span), size, dims.const(1, node.span)) for size in shape]
    value = None
    if node.init is not None:
        fit(st, at, row, array, whole, node.name_span)
        value = yield node.init, at.but(row=row)
    bind(at, node.name, node.name_span, array)
    init = None if value is None else assign(at, value, dtype, f"an element of `{node.name}`", store=True)
    at.out.append(typed.Declare(array, None if value is not None and value.row else init, node.span))
    if value is not None and value.row:
        store = typed.Store(array, indices(at, row, whole, node.span), row.wrap(init, node.span), node.span)
        at.out.append(row_loop(row, (store,), node.span))


STATEMENTS = {
    syntax.Block: _block,
    syntax.Let: _let,
    syntax.Assign: _assign,
    syntax.Loop: _loop,
    syntax.If: _if,
    syntax.While: _while,
    syntax.Break: _leave,
    syntax.Continue: _leave,
    syntax.Return: _return,
    syntax.Decl: _declare,
}
