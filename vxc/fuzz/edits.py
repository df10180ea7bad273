"""Ways to make a case smaller, big steps first: each rule gives cases in which the spans of some nodes have another text.

Rules do not ask whether what they give is well typed: what is not fails in another way, and is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from vxc.frontend import syntax
from vxc.frontend.node import Attr, Expr, Node, children, walk
from vxc.frontend.parse import parse
from vxc.fuzz.case import Case
from vxc.source import Source, Span

Edit = tuple[Span, str]
LITERALS = ("0", "1", "1.0", "true")


@lru_cache(4)
def _tree(text: str) -> syntax.Module:
    return parse(Source("", text))


def parses(case: Case) -> bool:
    """Whether there is a tree to work on."""
    try:
        return bool(_tree(case.text).items)
    except Exception:  # a diagnostic, or the fault that is looked for
        return False


def _nodes(case: Case, kind: type | tuple[type, ...]) -> list:
    return [n for n in walk(_tree(case.text)) if isinstance(n, kind)]


def _edited(case: Case, edits: Iterable[Edit]) -> Case:
    """The case with the text of some spans, none inside another, replaced; lines are indented anew, and empty ones go."""
    text = case.text
    for span, new in sorted(edits, reverse=True):
        text = text[: span.start] + new + text[span.end :]
    lines, depth = [], 0
    for line in filter(None, map(str.strip, text.split("\n"))):
        lines.append("    " * (depth - line.startswith("}")) + line)
        depth += line.count("{") - line.count("}")
    return replace(case, text="\n".join(lines) + "\n")


def _text(case: Case, span: Span) -> str:
    return case.text[span.start : span.end]


def _whole(node: Node) -> Span:
    """A statement or item with the attributes before it."""
    return node.attrs[0].span.to(node.span) if node.attrs else node.span


# ---- rules -------------------------------------------------------------------------------------------------------------


def items(case: Case) -> Iterator[Case]:
    """Without kernels, functions, examples."""
    yield from _without(case, [_whole(item) for item in _tree(case.text).items])


def statements(case: Case) -> Iterator[Case]:
    """Without statements that follow one another."""
    for block in _nodes(case, syntax.Block):
        yield from _without(case, [_whole(s) for s in block.stmts])


def _without(case: Case, spans: list[Span]) -> Iterator[Case]:
    """All, halves, quarters .. of a sequence left out."""
    size = len(spans)
    while size:
        for start in range(0, len(spans), size):
            yield _edited(case, [(span, "") for span in spans[start : start + size]])
        size //= 2


def unwrapped(case: Case) -> Iterator[Case]:
    """Bodies in the place of loops and branches, and loops over one index less."""
    for node in _nodes(case, (syntax.Loop, syntax.While, syntax.If, syntax.Block)):
        if isinstance(node, syntax.If):
            yield _edited(case, [(node.span, _inside(case, node.then))])
            if node.orelse:
                yield _edited(case, [(node.span, _inside(case, node.orelse))])
                yield _edited(case, [(Span(node.then.span.end, node.span.end), "")])
        elif isinstance(node, syntax.While):
            yield _edited(case, [(node.span, _inside(case, node.body))])
            yield _edited(case, [(node.span, f"if {_text(case, node.cond.span)} {_text(case, node.body.span)}")])
        elif isinstance(node, syntax.Loop):
            lets = "".join(f"let {b.name}: i64 = {_text(case, b.start.span) if b.start else 0}; " for b in node.binders)
            yield _edited(case, [(_whole(node), _inside(case, node.body))])
            yield _edited(case, [(_whole(node), lets + _inside(case, node.body))])
            yield from _fewer(case, node.binders)
            yield from _simpler_binders(case, node.binders)
        else:
            yield _edited(case, [(node.span, _inside(case, node))])


def _inside(case: Case, block: syntax.Block | syntax.If) -> str:
    text = _text(case, block.span)
    return text[1:-1] if isinstance(block, syntax.Block) else text


def _fewer(case: Case, nodes: tuple[Node, ...]) -> Iterator[Case]:
    """Without one of several nodes between commas."""
    for at in range(len(nodes) if len(nodes) > 1 else 0):
        rest = ", ".join(_text(case, n.span) for n in (*nodes[:at], *nodes[at + 1 :]))
        yield _edited(case, [(nodes[0].span.to(nodes[-1].span), rest)])


def _simpler_binders(case: Case, binders: tuple[syntax.Binder, ...]) -> Iterator[Case]:
    """`i in 0..N step 2` as `i in N`."""
    for b in binders:
        if b.start or b.step:
            yield _edited(case, [(b.span, f"{b.name} in {_text(case, b.stop.span)}")])


def parameters(case: Case) -> Iterator[Case]:
    """Without a parameter or a generic."""
    for item in _nodes(case, (syntax.Kernel, syntax.Fn)):
        yield from _fewer(case, item.params)
        yield from _fewer(case, item.generics)
        if len(item.generics) == 1:
            yield _edited(case, [(Span(item.name_span.end, item.generics[0].span.end + 1), "")])


def operands(case: Case) -> Iterator[Case]:
    """Operands in the place of what they are part of."""
    for node in _nodes(case, Expr):
        if isinstance(node, syntax.Subscript) or _is_place(case, node):
            continue
        parts = [a.value if isinstance(a, syntax.NamedArg) else a for a in children(node) if isinstance(a, (Expr, syntax.NamedArg))]
        for part in parts[1:] if isinstance(node, syntax.Call) else parts:
            yield _edited(case, [(node.span, _atom(case, part))])


def literals(case: Case) -> Iterator[Case]:
    """Literals in the place of expressions."""
    for node in _nodes(case, Expr):
        if not isinstance(node, (syntax.Number, syntax.Bool, syntax.String)) and not _is_place(case, node):
            for text in LITERALS:
                yield _edited(case, [(node.span, text)])


def _atom(case: Case, node: Expr) -> str:
    text = _text(case, node.span)
    plain = isinstance(node, (syntax.Name, syntax.Number, syntax.Bool, syntax.Call, syntax.Subscript))
    return text if plain or text.startswith("(") and text.endswith(")") else f"({text})"


def _is_place(case: Case, node: Expr) -> bool:
    return node.span in _places(case.text)


@lru_cache(4)
def _places(text: str) -> frozenset[Span]:
    """What is no value: targets of assignments, names of functions and of arrays with indices."""
    nodes = list(walk(_tree(text)))
    found = {n.target.span for n in nodes if isinstance(n, syntax.Assign)} | {n.base.span for n in nodes if isinstance(n, syntax.Subscript)}
    return frozenset(found | {n.func.span for n in nodes if isinstance(n, syntax.Call)})


def attributes(case: Case) -> Iterator[Case]:
    """Without an attribute; without the type or the value that a declaration may lack; `=` for an update."""
    for node in _nodes(case, Attr):
        yield _edited(case, [(node.span, "")])
    for node in _nodes(case, (syntax.Decl, syntax.Assign)):
        if isinstance(node, syntax.Assign) and node.op != "=":
            yield _edited(case, [(Span(node.target.span.end, node.value.span.start), " = ")])
        elif isinstance(node, syntax.Decl) and node.init:
            yield _edited(case, [(Span(node.type.span.end, node.init.span.end), "")])


def numbers(case: Case) -> Iterator[Case]:
    """Smaller numbers, all of one value at once, then one by one."""
    found = [n for n in _nodes(case, syntax.Number) if n.text not in ("0", "1")]
    groups = [[n for n in found if n.text == text] for text in dict.fromkeys(n.text for n in found)]
    for group in groups + [[n] for g in groups if len(g) > 1 for n in g]:
        for text in _smaller(group[0].text):
            yield _edited(case, [(n.span, text) for n in group])


def arguments(case: Case) -> Iterator[Case]:
    """Smaller sizes and scalars, plainer arrays."""
    for name, text in case.arguments.items():
        plainer = _smaller(text) if ":" not in text else ["rand"] if text.startswith("special:") else []
        for other in plainer:
            yield replace(case, arguments={**case.arguments, name: other})


def _smaller(text: str) -> list[str]:
    """Plainer numbers than a number, of the same kind."""
    if not text.lstrip("-").isdigit():
        return ["1.0", "0.0"] if text not in ("true", "false") else ["true"]
    value = int(text)
    return [str(n) for n in dict.fromkeys((1, 0, 2, 3, value // 2, value - 1)) if abs(n) < abs(value)]


RULES: tuple[Callable[[Case], Iterator[Case]], ...] = (
    items, statements, unwrapped, operands, parameters, literals, attributes, arguments, numbers,
)  # fmt: skip
