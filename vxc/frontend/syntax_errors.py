"""Syntax errors in the user's words.

The parser stops at the first token that fits nowhere. What it was reading is on its stack, what it would have taken is
in its table; from these each rule of `_RULES` recognises one mistake, in order, and the last resort lists what was
expected.
"""

from __future__ import annotations

import re

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr, TerminalDef

from vxc.frontend.build import RESERVED, Fault, at, reserved, stray_else
from vxc.frontend.foreign import TOKENS, construct, member
from vxc.frontend.node import Attr, Node
from vxc.frontend.syntax import String
from vxc.record import record
from vxc.source import Span

_BRACES = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*|[{}]', re.DOTALL)
_CLOSER = {"{": "}", "(": ")", "[": "]"}
_ITEM_WORDS = frozenset("kernel program fn extern example import".split())
_HEADS = frozenset("KERNEL PROGRAM FN EXTERN EXAMPLE IMPORT LET VAR SPACE LOOP WHILE IF BREAK CONTINUE RETURN".split())
_ASSIGNMENTS = "= += -= *= /= |= &= ^= <<= >>=".split()
_OPERATORS = "|| && == != <= >= < > | ^ & << >> + - * / // % as".split()
_COMPARISONS = frozenset("== != <= >= < >".split())
_AFTER_STATEMENT = RESERVED - set("as in out inout else true false".split()) | {"}", "@", ""}  # "" is the end
_ATOMS = ["a name", "a number", "a string", "true", "false", "("]

# Sets of expected things that go by one word, or by none: whole groups are replaced, in this order.
_GROUPS = (
    ("an item (`kernel`, `fn`, ...)", {*_ITEM_WORDS, "@"}),
    ("a statement", {*_ATOMS, *"let var grid serial shared while if break continue return { @".split()}),
    ("", set("parallel unroll pipelined persistent fragment local".split())),
    ("an expression", {*_ATOMS, *"- ! ~ @ if [".split()}),
    ("an expression", {*_ATOMS, *"- ! ~ @ if".split()}),
    ("an expression", {*_ATOMS, *"- ! ~ @".split()}),
    ("", {"(", "["}),
    ("`=`", set(_ASSIGNMENTS)),
)
_TERMINALS = {"NAME": ["a name"], "NUMBER": ["a number"], "STRING": ["a string"]}

@record
class Stuck:
    """Where the parser stopped: the token, what stands on its stack, and the spellings it would have taken. `end` is that of the text."""

    text: str
    end: str
    token: Token
    stack: tuple
    expected: frozenset[str]

    @property
    def last(self) -> object:
        """The last thing read, None at the start."""
        return self.stack[-1] if self.stack else None

    @property
    def before(self) -> int:
        """Where the last thing read ends."""
        return next((end for value in reversed(self.stack) if (end := _end(value)) is not None), 0)

    @property
    def tokens(self) -> list[Token]:
        """The tokens that wait on the stack for their construct to end."""
        return [value for value in self.stack if isinstance(value, Token)]

    @property
    def unclosed(self) -> Token | None:
        """The innermost bracket still open."""
        still: list[Token] = []
        for token in self.tokens:
            if token.value in _CLOSER:
                still.append(token)
            elif token.value in _CLOSER.values() and still:
                still.pop()
        return still[-1] if still else None

    @property
    def new_line(self) -> bool:
        return "\n" in self.text[self.before : self.token.start_pos]

    @property
    def found(self) -> str:
        if self.token.type == "$END":
            return self.end
        return "a string" if self.token.type == "STRING" else f"`{self.token[:40]}`"


def explain_token(error: UnexpectedToken, text: str, terminals: list[TerminalDef], whole: str) -> Fault:
    """What is wrong where a token does not fit; the text is to be a `file` or an `expression` as a whole."""
    end = f"the end of the {whole}"
    spellings = {terminal.name: _spellings(terminal) for terminal in terminals}
    spellings |= _TERMINALS | {"$END": [end] * (whole == "expression")}  # items may follow one another without end
    accepts = error.interactive_parser.accepts()
    expected = frozenset(word for name in accepts for word in spellings[name])
    token = error.token
    if token.type == "$END":
        token = Token("$END", "", len(text.rstrip()), end_pos=len(text.rstrip()))
    stuck = Stuck(text, end, token, tuple(error.interactive_parser.parser_state.value_stack), expected)
    fault = next(fault for rule in _RULES if (fault := rule(stuck)))
    if fault.code in ("E0107", "E0108") and (instead := construct(text, token.start_pos)):
        fault.help = instead
    return fault


def explain_character(error: UnexpectedCharacters, text: str) -> Fault:
    """What is wrong where no token begins."""
    where = error.pos_in_stream
    char, span = text[where], Span(where, where + 1)
    if char == '"':
        return Fault("E0104", "this string has no closing `\"`", span, help='end it with `"`; a quote inside is `\\"`')
    if char == "." and (number := re.search(r"\d+$", text[:where][-20:])):
        return Fault("E0105", f"`{number[0]}.` needs a digit after the point", span, help=f"write `{number[0]}.0`")
    if char == "." and (number := re.match(r"\.\d+", text[where : where + 20])):
        return Fault("E0105", f"`{number[0]}` needs a digit before the point", span, help=f"write `0{number[0]}`")
    if char == ".":
        return Fault("E0103", "`.` has no meaning here", span, help=member(text, where))
    shown = f"`{char}`" if char.isprintable() else f"U+{ord(char):04X}"
    instead = f"write {TOKENS[char]}" if char in TOKENS else "remove it"
    return Fault("E0103", f"{shown} has no meaning here", span, help=instead)


# ---- rules: each recognises one mistake ------------------------------------------------------------------------------


def _next_item(stuck: Stuck) -> Fault | None:
    """An item inside a block: the block before was not closed. Where statements stand, an item's first word is a name."""
    last = stuck.last
    as_name = isinstance(last, Token) and last.type == "NAME" and stuck.token.type in ("NAME", "FN", "STRING")
    word = last if as_name else stuck.token
    if not stuck.unclosed or stuck.unclosed.value != "{" or word.value not in _ITEM_WORDS:
        return None
    start = word.start_pos
    for value in reversed(stuck.stack[:-1] if as_name else stuck.stack):
        if not isinstance(value, Attr):
            break
        start = value.span.start
    return _never_closed(stuck, f"before this `{word}`", at(word), resume=start)


def _end_of_file(stuck: Stuck) -> Fault | None:
    if stuck.token.type == "$END" and stuck.unclosed:
        return _never_closed(stuck, f"before {stuck.end}", at(stuck.token), resume=len(stuck.text))
    return None


def _never_closed(stuck: Stuck, where: str, limit: Span, resume: int) -> Fault:
    bracket = stuck.unclosed
    start, closer = bracket.start_pos, _CLOSER[bracket.value]
    label, help = (limit, f"`{closer}` expected {where}"), f"add a `{closer}` {where}"
    if bracket.value == "{" and (pair := _mispaired(stuck.text, start, limit.start)):
        start, end = pair
        label = (Span(end, end + 1), "this `}` closes it, but is indented as if it closed an outer one")
        help = "add a `}` before that one"
    span = Span(start, start + 1)
    return Fault("E0109", f"this `{bracket}` is never closed", span, help, (label,), resume)


def _mispaired(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The first braces that pair although the line of the closing one is indented less."""
    opened: list[int] = []
    for match in _BRACES.finditer(text, start, end):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened and _indent(text, match.start()) < _indent(text, opened[-1]):
            return opened[-1], match.start()
        elif match[0] == "}" and opened:
            opened.pop()
    return None


def _indent(text: str, offset: int) -> int:
    line = text[text.rfind("\n", 0, offset) + 1 : offset + 1]
    return len(line) - len(line.lstrip())


def _swallowing_string(stuck: Stuck) -> Fault | None:
    """A string without its closing quote ends at the next string's opening one."""
    last = stuck.last
    start = last.start_pos if isinstance(last, Token) else last.span.start if isinstance(last, String) else stuck.before
    if stuck.text[start : start + 1] != '"' or "\n" not in stuck.text[start : stuck.before]:
        return None
    return Fault("E0104", "this string has no closing `\"` on its line", Span(start, start + 1), "end it with `\"`",
                 ((Span(stuck.before - 1, stuck.before), "it goes on to here"),))  # fmt: skip


def _no_opener(stuck: Stuck) -> Fault | None:
    innermost = stuck.unclosed.value if stuck.unclosed else ""
    if stuck.token.value in _CLOSER.values() and (not innermost or (innermost == "{" and stuck.token.value != "}")):
        return Fault("E0109", f"this `{stuck.token}` closes nothing", at(stuck.token), help="remove it, or add the bracket that it closes")
    return None


def _condition_assigns(stuck: Stuck) -> Fault | None:
    """`if a = b`: `=` with only an expression between it and the `if` or `while`."""
    if stuck.token.value != "=":
        return None
    word = next((t for t in reversed(stuck.tokens) if t.value in ("if", "while") or t.value in ("{", ";", "[", "=", ":")), None)
    if word is None or word.value not in ("if", "while"):
        return None
    return Fault("E0110", "`=` assigns; a condition compares", at(stuck.token), help="write `==`")


def _value_without_else(stuck: Stuck) -> Fault | None:
    if stuck.expected == {"else"}:
        span = next(at(t) for t in reversed(stuck.tokens) if t.value == "if")
        return Fault("E0107", "an `if` used as a value needs an `else`", span, help="add `else { value }`")
    return None


def _stray_else(stuck: Stuck) -> Fault | None:
    return stray_else(stuck.token) if stuck.token.value == "else" else None


def _extra_semicolon(stuck: Stuck) -> Fault | None:
    if stuck.token.value == ";" and stuck.text[: stuck.before].endswith("}"):
        return Fault("E0107", "a `;` does not follow a block", at(stuck.token), help="remove it")
    return None


def _missing_semicolon(stuck: Stuck) -> Fault | None:
    if ";" in stuck.expected and (stuck.new_line or stuck.token.value in _AFTER_STATEMENT):
        return Fault("E0108", "expected `;` here", _after(stuck), help="end the statement with `;`", secondary=_reading(stuck))
    return None


def _missing_closer(stuck: Stuck) -> Fault | None:
    """`f(a;` or `x[i) `: something ends before the bracket it stands in."""
    bracket = stuck.unclosed
    if bracket is None or bracket.value == "{" or stuck.token.value not in (";", "{", "}", ")", "]"):
        return None
    closer = _CLOSER[bracket.value]
    if closer not in stuck.expected:
        return None
    return Fault("E0109", f"expected `{closer}` here", _after(stuck), help=f"close the `{bracket}`",
                 secondary=((at(bracket), "to close this"),))  # fmt: skip


def _reserved(stuck: Stuck) -> Fault | None:
    if stuck.token.value in RESERVED and "a name" in stuck.expected and "(" not in stuck.expected:
        return reserved(stuck.token)
    return None


def _unexpected(stuck: Stuck) -> Fault:
    words = set(stuck.expected)
    found: list[str] = []
    for label, members in _GROUPS:
        if members <= words:
            words -= members
            found += [label] if label else []
    words = words - set(_OPERATORS) or words
    found += sorted(word if " " in word else f"`{word}`" for word in words)
    message, help = f"unexpected {stuck.found}", f"remove {stuck.found}"
    if 0 < len(found) <= 4:
        message = f"expected {_alternatives(found)}, found {stuck.found}"
        written = [word for word in found if word != stuck.end]
        if written:
            help = f"write {_alternatives(written)} here" + (f", or {help}" if stuck.token.value else "")
    return Fault("E0107", message, at(stuck.token), _hint(stuck) or help, _reading(stuck))


_RULES = (
    _next_item,
    _end_of_file,
    _swallowing_string,
    _no_opener,
    _condition_assigns,
    _value_without_else,
    _stray_else,
    _extra_semicolon,
    _missing_semicolon,
    _missing_closer,
    _reserved,
    _unexpected,
)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _after(stuck: Stuck) -> Span:
    return Span(stuck.before, stuck.before)


def _reading(stuck: Stuck) -> tuple[tuple[Span, str], ...]:
    """A label on the keyword of the construct that was being read, if there is one."""
    for token in reversed(stuck.tokens):
        if token.value in ("{", ";"):
            break
        if token.type in _HEADS:
            return ((at(token), f"in this `{token}`"),)
    return ()


def _hint(stuck: Stuck) -> str:
    """Something to do about a token that fits nowhere."""
    last = stuck.tokens[-1].value if stuck.tokens else ""
    spelt = stuck.text[stuck.token.start_pos : stuck.token.start_pos + 2]
    word = next((w for w in (stuck.token.value, last, last + stuck.token.value, spelt) if w in TOKENS), None)
    if word is not None:
        return f"write {TOKENS[word]} instead of `{word}`"
    if stuck.expected == {":"}:
        return "a name comes before its type, with `:` between, as in `x: f32[N]`"
    if stuck.token.value in (",", ";") and stuck.end in stuck.expected:
        return f"remove {stuck.found}; several expressions are texts of their own, as in ('x', 'x * x')"
    if stuck.token.value in _COMPARISONS and "||" in stuck.expected:
        return "comparisons do not chain: write `a < b && b < c`"
    if stuck.token.type == "NAME" and stuck.token.start_pos == stuck.before and stuck.text[stuck.before - 1].isdigit():
        return "a number has no suffix: use `as`, as in `2 as f32`"
    return ""


def _end(value: object) -> int | None:
    """Where a value of the parser's stack ends in the text, if it holds any."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, Token):
            return value.end_pos
        if isinstance(value, Node):
            return value.span.end
        if isinstance(value, Tree):
            todo += value.children
        elif isinstance(value, tuple):
            todo += value
    return None


def _spellings(terminal: TerminalDef) -> list[str]:
    """How a terminal is written: `;`, or each keyword it stands for."""
    if isinstance(terminal.pattern, PatternStr):
        return [terminal.pattern.value]
    return re.findall(r"[a-z]+", terminal.pattern.value.replace("\\b", ""))


def _alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
