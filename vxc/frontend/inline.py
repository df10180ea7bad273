"""Calls of `fn` and `extern fn`: the body becomes an expression, its parameters and lets a `LetIn`, its `if`s a `Cond`."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from vxc.diag import count, suggestion
from vxc.dtypes import DType
from vxc.frontend import syntax
from vxc.frontend.check_attrs import no_attributes
from vxc.frontend.check_expr import choose, require_bool
from vxc.frontend.generics import bind_generics, known
from vxc.frontend.scope import At, Scope, State, bind, dtype_named, fail
from vxc.frontend.typed import Const, Expr, ExternCall, LetIn, Symbol, Var
from vxc.frontend.values import Value, assign, common, settle
from vxc.record import entity
from vxc.source import Span

_MOST = 10_000  # calls inlined into one kernel

Steps = Generator[tuple[Any, At], Any, Any]


@entity
class FnBody:
    """Statements that end in `return`, as one value of the type `result`."""

    name: str
    stmts: tuple[syntax.Stmt, ...]
    result: DType
    span: Span


def inline(st: State, node: syntax.Call, at: At) -> Steps:
    name = node.func.name
    fn, source = st.functions[name]
    if name in at.calls:
        path = " -> ".join([*at.calls[at.calls.index(name) :], name])
        fail(at, "E0223", f"`{name}` calls itself ({path})", node, help="functions are inlined; write a loop in the kernel instead")
    st.inlined += 1
    if st.inlined > _MOST:
        fail(at, "E0223", f"more than {_MOST} calls would be inlined", node, help="bind a result with `let` and use it again")
    if len(node.args) != len(fn.params):
        needed = count(len(fn.params), "argument")
        fail(at, "E0208", f"`{name}` takes {needed}, and {len(node.args)} are given", node, help=f"give it {needed}")
    values = []
    for arg in node.args:
        values.append((yield arg, at))
    call = None if source is st.source else at.place(node.span)
    inner = at.but(scope=Scope(), source=source, calls=(*at.calls, name), call=call, hoist=None)
    yield from _bind_generics(fn, node, values, at, inner)
    lets = []
    for param, value in zip(fn.params, values):
        dtype = _scalar_param(inner, param)
        lets.append(
            (Symbol(param.name, "let", dtype, inner.place(param.span)), assign(at, value, dtype, f"argument `{param.name}` of `{name}`"))
        )
    extern = isinstance(fn, syntax.Extern)
    bound = []
    for param, value, (symbol, expr) in zip(fn.params, values, lets):
        direct = isinstance(expr, (Var, Const)) and not extern
        if not direct:
            bound.append((symbol, expr))
        bind(inner, param.name, param.name_span, Value(param.name_span, expr if direct else Var(symbol, symbol.span), row=value.row))
    result = dtype_named(inner, fn.result.name, fn.result.span)
    if fn.result.dims:
        fail(inner, "E0222", f"`{name}` returns an array", fn.result, help="functions return one scalar")
    value = yield FnBody(name, fn.body.stmts, result, fn.span), inner
    row, place = any(v.row for v in values), at.place(node.span)
    if extern:
        params, args = tuple(s for s, _ in bound), tuple(e for _, e in bound)
        return Value(node.span, ExternCall(name, fn.cuda, params, args, value.expr, result, place), row=row)
    return Value(node.span, LetIn(tuple(bound), value.expr, place) if bound else value.expr, row=row)


def check_function(fn: syntax.Fn | syntax.Extern, at: At) -> Steps:
    """Check a function without generics that nothing may call."""
    for param in fn.params:
        symbol = Symbol(param.name, "let", _scalar_param(at, param), param.span)
        bind(at, param.name, param.name_span, symbol)
    yield FnBody(fn.name, fn.body.stmts, dtype_named(at, fn.result.name, fn.result.span), fn.span), at.but(calls=(fn.name,))


def _scalar_param(at: At, param: syntax.Param) -> DType:
    if param.type.dims or param.direction != "in":
        message = f"parameter `{param.name}` of a function is no scalar"
        fail(at, "E0222", message, param, help="functions take scalars and are applied element by element")
    return dtype_named(at, param.type.name, param.type.span)


def _bind_generics(fn: syntax.Fn | syntax.Extern, node: syntax.Call, values: list[Value], at: At, inner: At) -> Steps:
    """Generics by name in the call; a dtype otherwise from the arguments of that type."""
    generics = getattr(fn, "generics", ())
    names = [g.name for g in generics]
    given: dict[str, Any] = {}
    for arg in node.named:
        if arg.name not in names:
            hint = suggestion(arg.name, names, "give arguments by position")
            fail(at, "E0209", f"`{fn.name}` has no generic named `{arg.name}`", arg.name_span, help=hint)
        if generics[names.index(arg.name)].kind == "dtype" and isinstance(arg.value, syntax.Name):
            given[arg.name] = dtype_named(at, arg.value.name, arg.value.span)
        else:
            given[arg.name] = known((yield arg.value, at), at, f"generic `{arg.name}`")
    for generic in generics:
        typed = [v for p, v in zip(fn.params, values) if p.type.name == generic.name]
        if generic.kind == "dtype" and generic.name not in given and typed:
            given[generic.name] = common(at, typed, f"`{fn.name}`: `{generic.name}` is both", node.span)[1]
    yield from bind_generics(inner, generics, given, f"write `{fn.name}(.., {{}})`")


def body(st: State, node: FnBody, at: At) -> Steps:
    """`let t = a; if c { return b; } return d;` as `LetIn(t = a, Cond(c, b, d))`."""
    frames: list[tuple[Any, Any]] = []  # (symbol, its value) or (condition, value of the arm that returns)
    todo = list(reversed(node.stmts))
    while True:
        if not todo:
            fail(at, "E0222", f"`{node.name}` may end without `return`", node, help="end every path in `return`")
        stmt = todo.pop()
        no_attributes(stmt, at)
        if isinstance(stmt, syntax.Return):
            result = yield stmt.value, at
            expr = assign(at, result, node.result, f"the result of `{node.name}`")
            return _fold(at, frames, Value(stmt.span, expr, row=result.row))
        if isinstance(stmt, syntax.Let) and not stmt.mutable:
            frames.append((yield from _let(stmt, at)))
        elif isinstance(stmt, syntax.If):
            cond = yield stmt.cond, at
            require_bool(at, cond, "the condition of `if`")
            if cond.flag is not True:
                if cond.flag is None:
                    then = FnBody(node.name, stmt.then.stmts, node.result, stmt.span)
                    frames.append((cond, (yield then, at.but(scope=Scope(at.scope), arm=True))))
                todo += _statements(stmt.orelse)
            else:
                todo += _statements(stmt.then)
            at = at.but(scope=Scope(at.scope), arm=True)
        else:
            fail(at, "E0222", "a function is made of `let`, `if` and `return`", stmt, help="move loops, `var` and stores to the kernel")


def _statements(block: syntax.Block | syntax.If | None) -> list[syntax.Stmt]:
    """The statements of an arm, last first."""
    if block is None:
        return []
    return [block] if isinstance(block, syntax.If) else list(reversed(block.stmts))


def _let(stmt: syntax.Let, at: At) -> Steps:
    value = settle(at, (yield stmt.value, at)) if stmt.type is None else (yield stmt.value, at)
    dtype = value.expr.dtype if stmt.type is None else dtype_named(at, stmt.type.name, stmt.type.span)
    symbol = Symbol(stmt.name, "let", dtype, at.place(stmt.name_span))
    bind(at, stmt.name, stmt.name_span, Value(stmt.name_span, Var(symbol, symbol.span), row=value.row))
    return symbol, replace(value, expr=assign(at, value, dtype, f"`{stmt.name}`"), literal=None)


def _fold(at: At, frames: list[tuple[Any, Any]], value: Value) -> Value:
    lets: list[tuple[Symbol, Expr]] = []

    def bound(inner: Value) -> Value:
        wrapped = LetIn(tuple(reversed(lets)), inner.expr, at.place(inner.span)) if lets else inner.expr
        lets.clear()
        return replace(inner, expr=wrapped)

    for first, second in reversed(frames):
        if isinstance(first, Symbol):
            lets.append((first, second.expr))
        else:
            value = choose(at, first, second, bound(value), value.span, "cond")
    return bound(value)
