"""Reading a layout's text by grammar/layout.lark. Expressions become postfix programs, so nothing recurses."""

from __future__ import annotations

from functools import cache

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from vxc import grammars


@v_args(inline=True)
class LayoutTree(Transformer):
    """The callbacks for grammar/layout.lark, one for each rule, without state."""

    def start(self, _, dims, *symbols):
        return dims, tuple(s for s in symbols if not isinstance(s, Token))

    def dims(self, *symbols):
        return tuple(s for s in symbols if not isinstance(s, Token))

    def dim(self, name, _, replicas):
        return name.value, int(replicas or 0)

    def binary(self, left, op, right):
        return (*left, *right, op.value)

    def name(self, token):
        return (token.value,)

    def integer(self, token):
        return (int(token),)

    def inside(self, _, expr, __):
        return expr


@cache
def _parser() -> Lark:
    return grammars.parser("layout", LayoutTree())


def read(text: str) -> tuple[tuple, tuple]:
    """(dims, results) of a layout's text. Raises ValueError saying what does not fit."""
    try:
        return _parser().parse(text)
    except UnexpectedCharacters as error:
        wrong = f"`{text[error.pos_in_stream]}` is not used"
    except UnexpectedToken as error:
        wrong = "the text ends too early" if error.token.type == "$END" else f"`{error.token}` does not fit"
    raise ValueError(f"{wrong} in layout `{text}`")
