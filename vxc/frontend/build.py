"""Tree building: one method for each rule of grammar/vx.lark, called by the parser as it reduces the rule.

A method's parameters are the symbols of its rule in order (`_` for punctuation nobody needs), so reading it beside the
grammar explains it. The parser never recurses and neither does this. Text that the grammar accepts and the language
does not (a reserved word as a name, `f(x) = 1`) raises `Fault`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lark import Token, Transformer, v_args

from vxc.frontend import syntax
from vxc.source import Span

# Words that cannot name anything. The rest of the grammar's keywords are keywords only where they stand.
RESERVED = frozenset(
    "as in out inout let var if else while break continue return grid parallel serial unroll pipelined persistent"
    " shared fragment local true false".split()
)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\"}
_DIGITS = 1000  # more than any float64 or integer type needs


@dataclass(eq=False)
class Fault(Exception):
    """A mistake in the text: what a diagnostic says, before a source is put to it.

    `secondary` holds (span, text) pairs; `resume` is the offset after which reading may go on.
    """

    code: str
    message: str
    span: Span
    help: str = ""
    secondary: tuple[tuple[Span, str], ...] = ()
    resume: int = -1


def at(token: Token) -> Span:
    return Span(token.start_pos, token.end_pos)


def stray_else(token: Token) -> Fault:
    return Fault("E0112", "this `else` has no `if`", at(token), "`else` follows the `}` of an `if`, with nothing between")


def reserved(token: Token) -> Fault:
    return Fault("E0111", f"`{token}` is a reserved word and cannot be a name", at(token), f"choose another name, such as `{token}_`")


def _across(first: Token, last: Token) -> Span:
    return Span(first.start_pos, last.end_pos)


def _name(token: Token) -> str:
    if token.value in RESERVED:
        raise reserved(token)
    return token.value


def _nodes(symbols: tuple) -> tuple:
    """The nodes among symbols, without the punctuation between them."""
    return tuple(symbol for symbol in symbols if not isinstance(symbol, Token))


@v_args(inline=True)
class Build(Transformer):
    """The callbacks. Without state."""

    # ---- items ----

    def start(self, *items):
        return items

    def attributed(self, attr, inner):
        return replace(inner, attrs=(attr, *inner.attrs))

    def kernel(self, word, name, generics, params, body):
        return syntax.Kernel(at(word).to(body.span), _name(name), at(name), generics or (), params, body)

    def program(self, word, name, generics, params, body):
        return syntax.Program(at(word).to(body.span), _name(name), at(name), generics or (), params, body)

    def fn(self, word, name, generics, params, _, result, body):
        return syntax.Fn(at(word).to(body.span), _name(name), at(name), generics or (), params, result, body)

    def extern(self, word, _, name, params, __, result, ___, cuda, body):
        return syntax.Extern(at(word).to(body.span), _name(name), at(name), params, result, _unescape(cuda), body)

    def example(self, word, name, _, args, __, end):
        return syntax.Example(_across(word, end), _name(name), at(name), *(args or ((), ())))

    def import_(self, word, path, end):
        return syntax.Import(_across(word, end), _unescape(path))

    def generics(self, *symbols):
        return _nodes(symbols)

    def generic(self, name, _, kind, __, default):
        end = default.span if default else at(kind or name)
        return syntax.Generic(at(name).to(end), _name(name), at(name), kind and kind.value, default)

    def params(self, *symbols):
        return _nodes(symbols)

    def plain_param(self, direction, name, _, type_):
        way = direction.value if direction else "in"
        return syntax.Param(at(direction or name).to(type_.span), (), way, _name(name), at(name), type_)

    def type(self, name, *symbols):
        last = symbols[-1] or name
        return syntax.TypeExpr(_across(name, last), _name(name), tuple(s for s in symbols if isinstance(s, syntax.Extent)))

    def extent(self, size, _, stride):
        return syntax.Extent(size.span.to((stride or size).span), size, stride)

    def attr(self, sign, name, _, args, end):
        return syntax.Attr(_across(sign, end), name.value, *(args or ((), ())))

    def args(self, *symbols):
        """Positional and named arguments."""
        nodes = _nodes(symbols)
        named = tuple(node for node in nodes if isinstance(node, syntax.NamedArg))
        plain = nodes[: len(nodes) - len(named)]
        for node in plain:
            if isinstance(node, syntax.NamedArg):
                late = next(n for n in nodes[nodes.index(node) :] if not isinstance(n, syntax.NamedArg))
                hint = "put positional arguments first, or name this one"
                raise Fault("E0116", f"a positional argument follows `{node.name} = `", late.span, hint)
        return plain, named

    def named_arg(self, name, _, value):
        return syntax.NamedArg(at(name).to(value.span), _name(name), at(name), value)

    def layout_map(self, start, *symbols):
        dims = tuple(s for s in symbols if isinstance(s, syntax.MapDim))
        results = tuple(s for s in symbols if isinstance(s, syntax.Expr))
        return syntax.LayoutMap(_across(start, symbols[-1]), dims, results)

    def map_dim(self, name, _, extent):
        return syntax.MapDim(at(name).to(extent.span) if extent else at(name), _name(name), extent)

    # ---- statements ----

    def block(self, start, *symbols):
        return syntax.Block(_across(start, symbols[-1]), symbols[:-1])

    def let(self, word, name, _, type_, __, value, end):
        return syntax.Let(_across(word, end), False, _name(name), at(name), type_, value)

    def var(self, word, name, _, type_, __, value, end):
        return syntax.Let(_across(word, end), True, _name(name), at(name), type_, value)

    def decl(self, space, name, _, type_, __, init, end):
        return syntax.Decl(_across(space, end), space.value, _name(name), at(name), type_, init)

    def assign(self, target, op, value, end):
        if not isinstance(target, (syntax.Name, syntax.Subscript)):
            hint = "write `name = ...` or `name[...] = ...`"
            raise Fault("E0114", "only a name or an element can be assigned to", target.span, hint)
        return syntax.Assign(Span(target.span.start, end.end_pos), target, op.value, value)

    def call_stmt(self, call, end):
        if not isinstance(call, syntax.Call):
            raise Fault("E0113", "this statement has no effect", call.span, "assign the value, or remove the statement")
        return syntax.CallStmt(Span(call.span.start, end.end_pos), call)

    def loop(self, word, *symbols):
        *binders, body = symbols
        return syntax.Loop(at(word).to(body.span), word.value, _nodes(binders), body)

    def binder(self, name, _, first, __, second, ___, step):
        start, stop = (first, second) if second else (None, first)
        return syntax.Binder(at(name).to((step or stop).span), _name(name), at(name), start, stop, step)

    def while_(self, word, cond, body):
        return syntax.While(at(word).to(body.span), cond, body)

    def if_(self, word, cond, then, _, orelse):
        return syntax.If(at(word).to((orelse or then).span), cond, then, orelse)

    def break_(self, word, end):
        return syntax.Break(_across(word, end))

    def continue_(self, word, end):
        return syntax.Continue(_across(word, end))

    def return_(self, word, value, end):
        return syntax.Return(_across(word, end), value)

    # ---- expressions ----

    def if_expr(self, word, cond, _, then, __, ___, orelse):
        return syntax.IfExpr(at(word).to(orelse.span), cond, then, orelse)

    def braced(self, start, value, end):
        return replace(value, span=_across(start, end))

    def parens(self, start, value, end):
        return replace(value, span=_across(start, end))

    def binary(self, left, op, right):
        return syntax.Binary(left.span.to(right.span), op.value, left, right)

    def cast_as(self, operand, _, type_):
        return syntax.Cast(operand.span.to(at(type_)), operand, _name(type_), at(type_))

    def prefix(self, op, operand):
        return syntax.Unary(at(op).to(operand.span), op.value, operand)

    def attr_expr(self, attr, operand):
        if isinstance(operand, syntax.AttrExpr):
            return replace(operand, span=attr.span.to(operand.span), attrs=(attr, *operand.attrs))
        return syntax.AttrExpr(attr.span.to(operand.span), (attr,), operand)

    def call(self, func, _, args, end):
        if not isinstance(func, syntax.Name):
            raise Fault("E0115", "only a function can be called, by its name", func.span, "write `name(...)`")
        return syntax.Call(Span(func.span.start, end.end_pos), func, *(args or ((), ())))

    def subscript(self, base, _, *symbols):
        return syntax.Subscript(Span(base.span.start, symbols[-1].end_pos), base, _nodes(symbols))

    def index(self, value):
        return syntax.Index(value.span, value)

    def window(self, start, _, extent):
        return syntax.Window(start.span.to(extent.span), start, extent)

    def slice(self, start, colon, stop, second, step):
        first = start.span.start if start else colon.start_pos
        last = (step or stop).span.end if step or stop else (second or colon).end_pos
        return syntax.Slice(Span(first, max(last, second.end_pos if second else 0)), start, stop, step)

    def name(self, token):
        if token.value == "else":
            raise stray_else(token)
        return syntax.Name(at(token), _name(token))

    def number(self, token):
        text = token.value.replace("_", "")
        if len(text) > _DIGITS:
            raise Fault("E0105", f"a number of {len(text)} digits is too long", at(token), help=f"write at most {_DIGITS}")
        if text[:2].lower() in ("0x", "0b"):
            return syntax.Number(at(token), text, int(text, 0))
        if not re.search("[.eE]", text):
            return syntax.Number(at(token), text, int(text))
        value = float(text)
        if value == float("inf"):
            raise Fault("E0105", f"{text} is larger than every float64", at(token), "write `inf` for infinity")
        return syntax.Number(at(token), text, value)

    def string(self, token):
        return syntax.String(at(token), _unescape(token))

    def bool(self, token):
        return syntax.Bool(at(token), token.value == "true")


def _unescape(token: Token) -> str:
    """The value of a string token."""

    def resolve(match: re.Match) -> str:
        if match[1] in _ESCAPES:
            return _ESCAPES[match[1]]
        start = token.start_pos + 1 + match.start()
        known = " ".join(rf"\{escape}" for escape in _ESCAPES)
        hint = rf"the escapes are {known}; a backslash is `\\`"
        raise Fault("E0106", f"`{match[0]}` is not an escape", Span(start, start + 2), hint)

    return re.sub(r"\\(.)", resolve, token.value[1:-1], flags=re.S)
