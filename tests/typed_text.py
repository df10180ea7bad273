"""The typed tree as text, for expectations: statements a line each, expressions as calls."""

from __future__ import annotations

import pytest

from vxc.diag import VxcError
from vxc.frontend import typed
from vxc.frontend.check import check_module
from vxc.frontend.parse import parse
from vxc.source import Source


def kernels(text: str, defines: dict | None = None, **more) -> list[typed.TypedKernel]:
    source = Source("t.vx", text)
    return check_module(parse(source), source, defines or {}, **more)


def errors(text: str, **more) -> list[tuple[str, str]]:
    """Code and message of everything wrong with a text."""
    with pytest.raises(VxcError) as caught:
        kernels(text, **more)
    return [(d.code, d.message) for d in caught.value.diagnostics]


def rejects(text: str, code: str, message: str, way_out: str | None = None) -> None:
    """Assert the one finding in a text, at the place that `§` stands before, and that it names a way out."""
    with pytest.raises(VxcError) as caught:
        kernels(text.replace("§", ""))
    [found] = caught.value.diagnostics
    assert (found.code, found.message, found.span.start) == (code, message, text.index("§"))
    assert found.help and way_out in (None, found.help)


def body(text: str, **more) -> list[str]:
    """The statements of the only kernel in a text."""
    [kernel] = kernels(text, **more)
    return [line for stmt in kernel.body for line in _stmt(stmt, 0)]


def _stmt(stmt: typed.Stmt, depth: int) -> list[str]:
    pad = "  " * depth
    match stmt:
        case typed.Let():
            word = "var" if stmt.symbol.kind == "var" else "let"
            return [f"{pad}{word} {stmt.symbol.name}: {stmt.symbol.dtype} = {stmt.value and expr(stmt.value)}"]
        case typed.SetVar():
            return [f"{pad}{stmt.symbol.name} = {expr(stmt.value)}"]
        case typed.Store():
            return [f"{pad}{_element(stmt)} = {expr(stmt.value)}"]
        case typed.Atomic():
            result = f"let {stmt.result.name} = " if stmt.result else ""
            return [f"{pad}{result}atomic_{stmt.op} {_element(stmt)}, {expr(stmt.value)}"]
        case typed.Declare():
            shape = ", ".join(map(expr, stmt.array.shape))
            return [f"{pad}{stmt.array.space} {stmt.array.name}: {stmt.array.dtype}[{shape}] = {stmt.init and expr(stmt.init)}"]
        case typed.Loop():
            ranges = ", ".join(f"{s.name} in {expr(a)}..{expr(b)} step {expr(c)}" for s, a, b, c in stmt.binders)
            more = f" {dict(stmt.attrs)}" * bool(stmt.attrs) + " row" * stmt.row + (f" scan {stmt.scan_order}" if stmt.scan_order else "")
            return [f"{pad}{stmt.kind} {ranges}{more}", *_block(stmt.body, depth)]
        case typed.If():
            other = [f"{pad}else", *_block(stmt.other, depth)] if stmt.other else []
            return [f"{pad}if {expr(stmt.cond)}", *_block(stmt.then, depth), *other]
        case typed.While():
            return [f"{pad}while {expr(stmt.cond)}", *_block(stmt.body, depth)]
        case typed.Assert():
            return [f"{pad}assert {expr(stmt.cond)} {stmt.message!r}"]
        case typed.Print():
            return [f"{pad}print {stmt.label!r} {', '.join(map(expr, stmt.args))}"]
        case typed.Copy():
            pad_value = f" pad {expr(stmt.pad)}" if not isinstance(stmt.pad, typed.Const) or stmt.pad.value else ""
            return [f"{pad}copy {_window(stmt.source)} -> {_window(stmt.target)}{pad_value}"]
        case typed.Gemm():
            flags = " trans_a" * stmt.trans_a + " trans_b" * stmt.trans_b
            return [f"{pad}gemm {stmt.a.name}, {stmt.b.name}, {stmt.acc.name}{flags}"]
    return [f"{pad}{type(stmt).__name__.lower()}"]


def _block(stmts: tuple[typed.Stmt, ...], depth: int) -> list[str]:
    return [line for stmt in stmts for line in _stmt(stmt, depth + 1)]


def _element(item: typed.Load | typed.Store | typed.Atomic) -> str:
    return f"{item.array.name}[{', '.join(map(expr, item.indices))}]"


def _window(window: typed.Window) -> str:
    ranges = zip(window.axes, window.extents, window.steps, strict=True)
    tile = {axis: f" :+ {expr(extent)} step {expr(step)}" for axis, extent, step in ranges}
    return f"{window.array.name}[{', '.join(expr(start) + tile.get(k, '') for k, start in enumerate(window.starts))}]"


def _binders(binders: tuple[tuple[typed.Symbol, typed.Expr], ...]) -> str:
    return ", ".join(f"{s.name} in {expr(e)}" for s, e in binders)


def expr(item: typed.Expr) -> str:
    match item:
        case typed.Const():
            return str(item.value) if item.dtype.name == "i64" else f"{item.value}:{item.dtype}"
        case typed.Var():
            return item.symbol.name
        case typed.Load():
            return _element(item)
        case typed.Op():
            return f"{item.name}({', '.join(map(expr, item.args))})"
        case typed.Cast():
            return f"{item.how}<{item.dtype}>({expr(item.arg)})"
        case typed.Cond():
            return f"if({expr(item.cond)}, {expr(item.then)}, {expr(item.other)})"
        case typed.LetIn():
            return f"({'; '.join(f'{s.name} = {expr(e)}' for s, e in item.lets)}; {expr(item.body)})"
        case typed.Reduce():
            return f"{item.op}{item.order}[{_binders(item.binders)}]({', '.join(map(expr, item.args))}):{item.dtype}"
        case typed.Scan():
            return f"scan_{item.op}[{item.binder.name}]({expr(item.arg)}):{item.dtype}"
        case typed.ExternCall():
            return f"extern {item.name}({', '.join(map(expr, item.args))} | {expr(item.body)})"
    raise AssertionError(item)
