"""The elements of a tile that a lane holds in registers, or of a loop that one thread runs (part of lower-to-threads)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from vxc.analysis.sweeps import Extent
from vxc.ir.builder import Builder
from vxc.ir.kernel import Const, Inst, Scalar, Value
from vxc.layout.digits import Digit
from vxc.layout.layout import OPERATORS, Program
from vxc.layout.places import Held
from vxc.passes.accumulate import kind_of

INSTRUCTIONS = {"^": "xor", "&": "and", "+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}  # of a layout's operators
assert INSTRUCTIONS.keys() == OPERATORS.keys()
Body = Callable[[Scalar, tuple[Scalar, ...]], None]  # receives an element and the digits of its slot, the highest first


def own_elements(
    b: Builder, held: Held, extent: Extent, lane: Scalar, body: Body, name: str, uniform: int | None = None
) -> None:
    """Emit the body for each element that a lane holds of a tile of `extent.most`, those below `extent.size`.

    Slots are counted by unrolled loops, one for each digit; only where a lane may hold no element is that tested, once for several in a
    row where they are all there or none. `uniform` lanes take the same way at each test.
    """
    *inner, outer = held.slots
    run = held.run if inner else 1
    strides = [digit.stride for digit in (*held.thread, *inner[run > 1 :], outer)]
    run = run if all(stride % run == 0 for stride in (held.base, *strides)) else 1
    join = "xor" if held.exclusive else "add"
    mine = shares(b, [d._replace(stride=d.stride // run) for d in held.thread], lane, held.base // run, join)
    known = type(extent.size) is Const
    whole = held.whole if known else 0
    together = held.together if known else len(inner) == (run > 1) and extent.multiple % run == 0
    rest = outer.radix - whole
    kind = kind_of(prod(held.radices))

    def tested(open_: ExitStack, e: Scalar) -> None:
        for condition in _conditions(b, held, extent, lane, e):
            open_.enter_context(b.if_(condition) if uniform is None else b.region("if", condition, uniform=uniform))

    def step(u: Scalar, test: bool) -> None:
        first = b.emit(join, b.emit("mul", u, outer.stride // run), mine)
        first = b.emit("mul", first, run) if run > 1 else first
        with ExitStack() as open_:
            if test and together:
                tested(open_, first)
            digits = [u]
            for at, digit in reversed([*enumerate(inner)]):
                w = open_.enter_context(b.loop(0, digit.radix, kind="unroll", name="v"))
                beside = at == 0 and run > 1  # what came before is a multiple of the run
                first = b.emit("add" if beside else join, first, b.emit("mul", w, digit.stride), name=name)
                digits.append(w)
            if test and not together:
                tested(open_, first)
            body(first, tuple(digits))

    if whole:
        with b.loop(0, whole, kind=kind, name="slot") as u:
            step(u, test=False)
    if rest == 1:
        step(Const(whole), test=True)
    elif rest:
        with b.loop(whole, outer.radix, kind=kind, name="slot") as u:
            step(u, test=True)


@contextmanager
def own_vectors(b: Builder, loop: Inst) -> Iterator[Value]:
    """A loop from 0 that one thread runs, `vector` iterations in a row at a time, which divide their number; gives the index."""
    vector = loop.attr("vector")
    with b.loop(0, loop.operands[1], vector, kind="serial", name="o") as first, b.loop(0, vector, kind="unroll", name="v") as v:
        yield b.emit("add", first, v, name=loop.result.name)


def _conditions(b: Builder, held: Held, extent: Extent, lane: Scalar, e: Scalar) -> list[Scalar]:
    """What all hold where the lane holds an element of this number."""
    found = [b.emit("lt", lane, held.threads_below)] if held.threads_below else []
    if held.below or held.owner or type(extent.size) is not Const:
        found.append(b.emit("lt", e, extent.size))
    if held.owner:
        found.append(b.emit("ge", e, 0))  # counted backwards, what a thread would hold may lie in front of the first
        names = [dim.name for dim in held.layout.dims]
        copies = [dim.replicas for dim in held.layout.dims if dim.replicas]
        owns: Scalar = Const(False)
        for r in range(prod(copies)):
            replica = [Const(r // prod(copies[at + 1 :]) % n) for at, n in enumerate(copies)]
            named = dict(zip([n for n, dim in zip(names, held.layout.dims) if dim.replicas], replica))
            named |= {n: e for n, dim in zip(names, held.layout.dims) if not dim.replicas}
            owner = b.emit("eq", of_layout(b, held.layout.thread, named), lane)
            owns = owner if r == 0 else b.emit("or", owns, owner)
        found.append(owns)
    return found


def shares(b: Builder, digits: Sequence[Digit], n: Scalar, base: int, join: str = "add") -> Scalar:
    """base + the sum of the digits of n, of which the last is not cut off; or as the instruction `join` puts them together."""
    value: Scalar = Const(base)
    for at, digit in enumerate(digits):
        part = b.emit("floordiv", n, digit.divisor) if digit.divisor > 1 else n
        part = b.emit("mod", part, digit.radix) if at < len(digits) - 1 else part
        part = b.emit("mul", part, digit.stride) if digit.stride != 1 else part
        value = part if at == 0 and not base else b.emit(join, value, part)
    return value


def of_layout(b: Builder, program: Program, names: dict[str, Scalar]) -> Scalar:
    """A layout's expression, given its dimensions."""
    stack: list[Scalar] = []
    for term in program:
        if term in INSTRUCTIONS:
            right, left = stack.pop(), stack.pop()
            stack.append(b.emit(INSTRUCTIONS[term], left, right))
        else:
            stack.append(names[term] if isinstance(term, str) else Const(term))
    return stack[0]
