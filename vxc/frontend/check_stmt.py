"""Typing blocks and control flow. Bindings are in `check_bind`, assignments in `check_assign`, calls in `check_effects`.

Handlers for `worklist.run`. A statement appends what it becomes to `at.out`; a block gives its statements as a tuple. A
statement that is rejected is left out, and checking goes on with the next.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import VxcError
from vxc.dtypes import I64
from vxc.frontend import dims, syntax, typed
from vxc.frontend.attr_table import ORDER
from vxc.frontend.check_attrs import attributes, no_attributes, orders_something
from vxc.frontend.check_expr import require_bool
from vxc.frontend.check_layout import layout_of_loop, misfits, threads_of
from vxc.frontend.check_reduce import TEAM
from vxc.frontend.scope import UNKNOWN, At, Block, Scope, State, bind, fail, in_block, in_grid
from vxc.frontend.subscripts import as_index, tidy
from vxc.frontend.typed import Const, Stmt, Symbol
from vxc.ir.facts import trip_count

Steps = Generator[tuple[Any, At], Any, Any]


def _block(st: State, node: syntax.Block, at: At) -> Steps:
    no_attributes(node, at)
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


def _loop(st: State, node: syntax.Loop, at: At) -> Steps:
    _placed(at, node)
    position = "inner persistent" if node.kind == "persistent" and at.loops else node.kind
    attrs = yield from attributes(node.attrs, position, at)
    orders_something(node.attrs, position, node.body, at)
    if node.kind == "parallel" and in_grid(at) and attrs.get("lanes", 1) > TEAM:
        where = next(attr for attr in node.attrs if attr.name == "lanes")
        fail(at, "E0220", f"a loop inside a `grid` has at most {TEAM} lanes, not {attrs['lanes']}", where, help="give fewer, or none")
    inner = at.but(scope=Scope(at.scope))
    binders = []
    for binder in node.binders:
        binders.append((yield from _binder(st, binder, inner, node.kind)))
    if position in ("grid", "persistent"):
        _blocks(at, node, binders)
    if "layout" in attrs:
        attrs["layout"] = yield from layout_of_loop(attrs["layout"], node, binders, at)
    mark = st.tick()
    order = tuple((dict(at.order) | {k: v for k, v in attrs.items() if k in ORDER}).items())
    block = Block(attrs.get("threads", 0)) if position in ("grid", "persistent") else at.block
    body = yield node.body, inner.but(loops=(*at.loops, node.kind), block=block, order=order, marks=(*at.marks, mark))
    st.ends[mark] = st.clock
    if block is not at.block:
        attrs["threads"] = threads_of(block)
        st.errors.extend(misfits(block, attrs["threads"]))
    kept = tuple(sorted((k, v) for k, v in attrs.items() if k not in ORDER or (k, node.kind) == ("lanes", "parallel")))
    at.out.append(typed.Loop(node.kind, tuple(binders), body, kept, node.span))


def _placed(at: At, node: syntax.Loop) -> None:
    if node.kind == "grid" and at.loops:
        hint = "a grid is the outermost loop; inside use `parallel` or `serial`"
        fail(at, "E0232", "a `grid` stands inside another loop", node, help=hint)
    if node.kind == "pipelined" and not in_grid(at):
        fail(at, "E0232", "a `pipelined` loop stands outside a `grid`", node, help="use `serial`, or put it in a `grid`")
    if node.kind == "persistent" and at.loops and not in_grid(at):
        hint = "it is an outermost loop, or stands in a `grid`"
        fail(at, "E0232", f"a `persistent` loop stands in `{at.loops[-1]}`", node, help=hint)
    if node.kind in ("pipelined", "persistent") and in_grid(at) and not in_block(at):
        fail(at, "E0232", f"a `{node.kind}` loop stands in `parallel`", node, help="use `serial`: a block runs it as a whole")


def _blocks(at: At, node: syntax.Loop, binders: list) -> None:
    """The indices of a grid are digits of one number, so that all but the first have ranges known before it runs."""
    before = {symbol for symbol, *_ in binders}
    for binder, (symbol, *bounds) in zip(node.binders[1:], binders[1:]):
        if not all(dims.is_arithmetic(bound, before) for bound in bounds):
            hint = "let it run over the longest range, and test it with `if`"
            fail(at, "E0401", f"the range of `{symbol.name}` in a `{node.kind}` depends on more than sizes and scalars", binder, help=hint)


def _binder(st: State, node: syntax.Binder, at: At, kind: str) -> Steps:
    start = as_index(at, (yield node.start, at), "the start of a loop") if node.start else dims.const(0, node.span)
    stop = as_index(at, (yield node.stop, at), "the end of a loop")
    step = as_index(at, (yield node.step, at), "the step of a loop") if node.step else dims.const(1, node.span)
    start, stop, step = tidy(st, start), tidy(st, stop), tidy(st, step)
    if isinstance(step, Const) and step.value == 0:
        fail(at, "E0230", "a loop by steps of 0 never ends", node.step, help="leave out the step, or write 1")
    if all(isinstance(bound, Const) for bound in (start, stop, step)):
        _countable(at, node, trip_count(start.value, stop.value, step.value))
    trip = dims.linear(stop, st.forms).minus(dims.linear(start, st.forms)).number
    if kind == "unroll" and (trip is None or not isinstance(step, Const)):
        fail(at, "E0230", "an `unroll` loop whose length is not known when compiling", node, help="write `@unroll(4) serial`")
    symbol = Symbol(node.name, "index", I64, node.name_span)
    if isinstance(step, Const) and step.value > 0 and dims.natural(dims.linear(start, st.forms), st.forms):
        st.forms.natural.add(symbol)
    bind(at, node.name, node.name_span, symbol)
    return symbol, start, stop, step


def _countable(at: At, node: syntax.Binder, trips: int) -> None:
    if trips > I64.max:
        fail(at, "E0230", f"a loop of {trips} iterations", node, help=f"an index takes at most {I64.max} values")


def _if(st: State, node: syntax.If, at: At) -> Steps:
    no_attributes(node, at)
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
    no_attributes(node, at)
    mark = st.tick()
    inner = at.but(loops=(*at.loops, "while"), marks=(*at.marks, mark))
    cond = yield node.cond, inner.but(hoist=None)
    require_bool(at, cond, "the condition of `while`")
    body = yield node.body, inner
    st.ends[mark] = st.clock
    at.out.append(typed.While(cond.expr, body, node.span))


def _leave(st: State, node: syntax.Break | syntax.Continue, at: At) -> None:
    no_attributes(node, at)
    word = "break" if isinstance(node, syntax.Break) else "continue"
    kind = at.loops[-1] if at.loops else ""
    if kind not in ("serial", "while"):
        hint = "only `serial` and `while` loops can be left or cut short; guard with `if`"
        fail(at, "E0221", f"`{word}` {f'directly in `{kind}`' if kind else 'outside any loop'}", node, help=hint)
    at.out.append(typed.Break(node.span) if word == "break" else typed.Continue(node.span))


def _return(st: State, node: syntax.Return, at: At) -> None:
    no_attributes(node, at)
    fail(at, "E0222", "`return` stands outside a function", node, help="assign to an `out` parameter")


STATEMENTS = {
    syntax.Block: _block,
    syntax.Loop: _loop,
    syntax.If: _if,
    syntax.While: _while,
    syntax.Break: _leave,
    syntax.Continue: _leave,
    syntax.Return: _return,
}
