"""The shape of IR text as parsed: plain tuples of tokens, names not resolved yet. `reader.py` makes IR of it.

`IrTree` holds the callbacks of grammar/vxir.lark, one for each rule; a method's parameters are the rule's symbols in order
(`_` for punctuation).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lark import Token, Transformer, v_args


class Number(NamedTuple):
    """A literal operand; `dtype` is None where it is not written."""

    token: Token
    dtype: Token | None


class Type(NamedTuple):
    dtype: Token
    shape: tuple
    strides: tuple | None


class Line(NamedTuple):
    """One instruction. `result` names a value or storage; `type` is the value's dtype or the Type of a declaration."""

    op: Token
    operands: tuple
    result: Token | None
    type: Token | Type | None
    attrs: tuple
    place: Token | None
    kernel: Token | None = None  # what a launch names


class Param(NamedTuple):
    """A scalar (`mode` None, `type` a token) or a buffer."""

    name: Token
    type: Token | Type
    mode: Token | None
    align: Token | None = None


class Unit(NamedTuple):
    """A kernel, or a plan, which has no stage."""

    name: Token
    params: tuple[Param, ...]
    lines: tuple[Line, ...]
    stage: Token | None = None
    done: tuple[Token, ...] = ()
    attrs: tuple = ()


_MEANING = ("VALUE", "BUFFER", "WORD", "BOOL", "INT", "FLOAT", "STRING")


def _plain(symbols: Iterable) -> tuple:
    """The symbols without punctuation and newlines."""
    return tuple(s for s in symbols if not isinstance(s, Token) or s.type in _MEANING)


@v_args(inline=True)
class IrTree(Transformer):
    """The callbacks. Without state."""

    def start(self, *symbols):
        return tuple(s for s in symbols if isinstance(s, Unit))

    def plan(self, _, name, params, body):
        return Unit(name, params, body)

    def kernel(self, _, name, params, stage, done, attrs, body):
        return Unit(name, params, body, stage, done or (), attrs or ())

    def stage(self, _, __, word):
        return word

    def done(self, _, __, *words):
        return _plain(words)

    def body(self, *symbols):
        return _plain(symbols)

    def params(self, *symbols):
        return _plain(symbols)

    def scalar_param(self, name, _, dtype):
        return Param(name, dtype, None)

    def buffer_param(self, name, _, type_, mode, align):
        return Param(name, type_, mode, align)

    def align(self, _, __, number):
        return number

    def type(self, dtype, extents):
        return Type(dtype, *(extents or ((), None)))

    def extents(self, _, shape, strides, __):
        return shape, strides

    def strides(self, _, operands):
        return operands

    def plain(self, result, op, operands, attrs, place, _):
        name, dtype = result or (None, None)
        return Line(op, operands or (), name, dtype, attrs or (), place)

    def result(self, name, dtype, _):
        return name, dtype

    def dtype(self, _, word):
        return word

    def declaration(self, op, name, _, type_, attrs, place, __):
        return Line(op, (), name, type_, attrs or (), place)

    def launch(self, op, kernel, _, blocks, __, ___, operands, ____, attrs, place, _____):
        return Line(op, (blocks, *(operands or ())), None, None, attrs or (), place, kernel)

    def operands(self, *symbols):
        return _plain(symbols)

    def integer(self, token, dtype):
        return Number(token, dtype)

    def float(self, token, dtype):
        return Number(token, dtype)

    def attrs(self, *symbols):
        return _plain(symbols)

    def attr(self, name, _, value):
        return name, value

    def list(self, *symbols):
        return _plain(symbols)

