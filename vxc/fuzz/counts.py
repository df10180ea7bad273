"""Which constructs a program has: rules of the grammar, words in them, builtins, types, and opcodes at each stage of its compilation.

`constructs` counts names; `known` has all there are; `UNREACHED` says of those that `gen` never makes why not. Names read

    rule if_            a rule of grammar/vx.lark, by the name that its callback has
    rule if_ else       the same with this word or sign in it
    attribute threads   @threads
    builtin sum         a function or statement of the language, and its named arguments: `argument axis`
    type f16            as an array, a variable or a conversion has it
    opcode load@team    an instruction at a stage (tile, team, thread, or of a plan)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from lark import Lark, Token, Tree

from vxc import grammars
from vxc.dtypes import DTYPES
from vxc.frontend.check_attrs import ATTRS
from vxc.frontend.check_calls import BUILTINS
from vxc.ir.ops import OPS, RING_OPS
from vxc.ir.plan import Plan

ARGUMENTS = ("axis", "pad", "trans_a", "trans_b")  # named arguments of builtins
_OPEN = ("NAME", "NUMBER", "STRING")  # terminals that are no words of the language
_PLAIN = set("()[]{},;")  # signs that say nothing beyond their rule


UNREACHED = {
    **{f"attribute {name}": "it is not compiled yet" for name, rule in ATTRS.items() if not rule.on},
    "rule import_": "a program is one text, and an import needs a second file",
    "rule import_ import": "as `rule import_`",
    **{f"opcode {op}@team": "no construct of the language becomes a ring yet; IR written by hand has them" for op in (*RING_OPS, "ring")},
}


def constructs(text: str, plans: Iterable[Plan] = ()) -> Counter[str]:
    """How often each construct occurs in a program, and each opcode in its plans, which are those after lowering and after each pass."""
    found: Counter[str] = Counter()
    for node in _parser().parse(text, "start").iter_subtrees():
        found.update(_names(node))
    for plan in plans:
        found.update(f"opcode {inst.op}@plan" for inst in plan.entries)
        found.update(f"opcode {inst.op}@{kernel.stage}" for kernel in plan.kernels for inst in kernel.insts)
    return found


@cache
def known() -> frozenset[str]:
    """Every name that `constructs` may count."""
    names = {f"attribute {name}" for name in ATTRS} | {f"builtin {name}" for name in BUILTINS} | {f"argument {name}" for name in ARGUMENTS}
    names |= {f"type {name}" for name in DTYPES} | {f"opcode {op}@{stage}" for op, row in OPS.items() for stage in row.stages}
    return frozenset(names | set(_grammar()))


@cache
def _parser() -> Lark:
    return grammars.parser("vx", None)


def _names(node: Tree) -> Iterator[str]:
    """What one node of the tree counts as."""
    rule = node.data
    yield f"rule {rule}"
    tokens = [child for child in node.children if isinstance(child, Token)]
    yield from (f"rule {rule} {token}" for token in tokens if token.type not in _OPEN and token not in _PLAIN)
    if rule == "attr":
        yield f"attribute {tokens[1]}"
    if rule == "named_arg" and tokens[0] in ARGUMENTS:
        yield f"argument {tokens[0]}"
    if rule == "type" and tokens[0] in DTYPES:
        yield f"type {tokens[0]}"
    if rule == "cast_as" and tokens[-1] in DTYPES:
        yield f"type {tokens[-1]}"
    if rule == "call" and (name := node.children[0].children[0]) in BUILTINS:
        yield f"builtin {name}"


def _grammar() -> Iterator[str]:
    """The names of rules and of the words and signs in them."""
    words = {t.name: [*_words(t.pattern)] for t in _parser().terminals}
    for rule in _parser().rules:
        name, inner = rule.alias or str(rule.origin.name), [str(s.name) for s in rule.expansion]
        if name.startswith("_") or (rule.options.expand1 and not rule.alias and len(inner) == 1):
            continue  # a list inside of a rule, or a rule that is its only child
        yield f"rule {name}"
        for terminal in inner:
            if terminal not in _OPEN:
                yield from (f"rule {name} {word}" for word in words.get(terminal, ()) if word not in _PLAIN)


def _words(pattern) -> list[str]:
    """The words that a terminal stands for: one, or those of `/(?:in|out)\\b/`."""
    return [pattern.value] if pattern.type == "str" else re.findall(r"\w+", pattern.value.removesuffix(r"\b").replace("?:", ""))
