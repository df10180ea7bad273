"""The verifier: what every plan must satisfy after lowering and after each pass, and any that comes in as text.

Of plan entries and kernel bodies alike, code by code (each is a row of `_RULES` or a function named below):

E0502  opcodes, reductions and launched kernels exist
E0510  every opener has its `end`, every `else` its `if`, and `end` names the index of its loop
E0511  a name is defined once in a body, values and buffers counted together, and is a name that can be read back
E0512  a name is used only after its definition and inside the region that holds it
E0513  operands are as many, of the kinds and of the dtypes that the opcode takes
E0514  there is a result just where the opcode gives one, of the right dtype
E0515  attributes are known, typed, among the choices, in name order, and all required ones are there; orders are valid
E0516  the opcode is legal at the stage
E0517  `break` and `continue` stand in a serial loop, `contribute` and `prefix` directly in their `reduce` and `scan`, and each
       `reduce` has exactly one `contribute`, of a dtype that fits its cell
E0518  a constant index lies inside a constant extent (not that of a `copy`, which may lie outside, nor under an `if`, which may guard
       it; before prove-parallel, which reports the author's mistakes, nothing is checked)
E0519  nothing writes an `in` parameter
E0520  storage fits its space: cells have no shape, locals and shared arrays a constant one, strides match the rank
E0521  what a block or group of threads does together is not under divergent control
E0522  a launch passes what its kernel's parameters take, and each kernel is launched
E0523  the signature and header of a plan or kernel are well-formed
E0524  roles stand side by side in the loop over blocks (a single one may stand around it) and share out the block's warps; a ring
       has one role that acquires and commits and others that wait and release
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import is_
from typing import NamedTuple

from vxc.diag import Diagnostic, VxcError
from vxc.ir.alignment import align_problem
from vxc.ir.asked_rules import plainly_sound, rules_at
from vxc.ir.kernel import STAGES, Attr, Buffer, Const, Inst, Kernel, Value
from vxc.ir.ops import DECLARES, OPS
from vxc.ir.plan import Plan
from vxc.ir.printer import print_inst
from vxc.ir.rules import OWN, Body, shape_problem
from vxc.ir.walk import MARKS, RegionError, Regions

# as in grammar/vxir.lark, which a test compares
NAME = re.compile(r"[^\W\d][\w.\u0300-\u036f]*|\d+")
WORD = re.compile(r"[^\W\d][\w.-]*")


_NOTED = MARKS | {*DECLARES}  # what defines or forgets names besides by its result
_OTHER = "it is not what that name means there"
_UNDEFINED = "it is not defined before this, or in a region that has ended"


class Problem(NamedTuple):
    """A broken rule: in which kernel ('' for the plan itself), at which instruction (-1 for the header)."""

    kernel: str
    index: int
    code: str
    message: str


def verify(plan: Plan, before: Plan | None = None) -> None:
    """Raises VxcError with every broken rule, each naming the kernel and the instruction. For `before` see `problems`."""
    found = problems(plan, before)
    if found:
        bodies = {"": plan.entries, **{k.name: k.insts for k in plan.kernels}}
        raise VxcError(Diagnostic(p.code, p.message, notes=(_where(plan, p, bodies[p.kernel]),)) for p in found)


def _where(plan: Plan, problem: Problem, insts: Sequence[Inst]) -> str:
    body = f"kernel @{problem.kernel}" if problem.kernel else f"plan @{plan.name}"
    if problem.index < 0:
        return f"in the header of {body}"
    inst = insts[problem.index]
    text = print_inst(inst) if inst.op in OPS else inst.op
    return f"in {body}, instruction {problem.index}: {text}"


def problems(plan: Plan, before: Plan | None = None) -> list[Problem]:
    """Every broken rule of a plan; of instructions at most one each.

    `before` is a plan without any: what is the same object as in it, in the same place, is not looked at again.
    """
    found = [Problem("", -1, "E0523", wrong) for wrong in _plan_header(plan, before)]
    if not before or not _same_calls(plan, before):
        found += _body(plan, plan.params, plan.entries)
    kernels = before.kernels if before else ()
    read = {word for other in kernels for word in other.done}
    seen: dict[str, set[int]] = {}  # by stage, of instructions before
    for kernel in plan.kernels:
        if not any(kernel.name == other.name and _identical(kernel.params, other.params) for other in kernels):
            found += [Problem(kernel.name, -1, "E0523", wrong) for wrong in _signature(kernel.name, kernel.params)]
        found += [Problem(kernel.name, -1, "E0523", wrong) for wrong in _kernel_header(kernel, read)]
        changed = next((places for other in kernels if (places := _changed(kernel, other)) is not None), None)
        if changed is not None:
            found += _alone(kernel, changed)
            continue
        if kernel.stage not in seen:
            seen[kernel.stage] = {*chain(*(map(id, other.insts) for other in kernels if other.stage == kernel.stage))}
        found += _body(plan, kernel.params, kernel.insts, kernel, seen[kernel.stage])
    return found


def _same_calls(plan: Plan, other: Plan) -> bool:
    """Whether all that the rules for entries look at is the same: the very entries, the parameters of plan and kernels, and in how many
    blocks these run.
    """
    called, before = ([(k.name, k.attr("blocks")) for k in each.kernels] for each in (plan, other))
    kernels = zip(plan.kernels, other.kernels)
    pairs = [(plan.params, other.params), (plan.entries, other.entries), *((a.params, b.params) for a, b in kernels)]
    return called == before and all(_identical(a, b) for a, b in pairs)


def _changed(kernel: Kernel, other: Kernel) -> list[int] | None:
    """Where the instructions of a kernel are not the very ones of another; None where a rule that looks at several may see that."""
    around = kernel.stage == other.stage and bool(kernel.done) == bool(other.done) and _identical(kernel.params, other.params)
    if not around or len(kernel.insts) != len(other.insts) or not _alike(kernel.attrs, other.attrs):
        return None
    changed = [i for i, same in enumerate(map(is_, kernel.insts, other.insts)) if not same]
    for i in changed:
        a, b = kernel.insts[i], other.insts[i]
        if a.op != b.op or a.result is not b.result or not _identical(a.operands, b.operands) or not _alike(a.attrs, b.attrs):
            return None
    return changed


def _alike(attrs: tuple[tuple[str, Attr], ...], others: tuple[tuple[str, Attr], ...]) -> bool:
    """Whether attributes differ at most in those that only rules of an instruction alone look at."""
    return attrs == others or all(name in OWN for name, _ in {*attrs} ^ {*others})


def _alone(kernel: Kernel, places: Sequence[int]) -> Iterator[Problem]:
    """The problems of single instructions of a kernel by themselves."""
    for i in places:
        inst = kernel.insts[i]
        for code, rule, _, alone in rules_at(kernel.stage)[inst.op]:
            wrong = rule(kernel.stage, inst) if alone else None
            if wrong:
                yield Problem(kernel.name, i, code, wrong)
                break


def _identical(a: Sequence, b: Sequence) -> bool:
    return len(a) == len(b) and all(map(is_, a, b))


def _body(
    plan: Plan, params: Sequence[Value | Buffer], insts: Sequence[Inst], kernel: Kernel | None = None, seen: Collection[int] = ()
) -> Iterator[Problem]:
    """The problems of entries, or of a kernel's instructions, of which those with ids in `seen` were sound by themselves at this stage."""
    name = kernel.name if kernel else ""
    if not OPS.keys() >= {inst.op for inst in insts}:
        for i, inst in enumerate(insts):
            if inst.op not in OPS:
                yield Problem(name, i, "E0502", f"there is no opcode `{inst.op}`")
        return
    try:
        regions = Regions.of(insts)
    except RegionError as error:
        yield Problem(name, error.index, "E0510", str(error))
        return
    body = Body(plan, insts, regions, kernel.stage, kernel) if kernel else Body(plan, insts, regions)
    stage, rules, again = body.stage, rules_at(body.stage), rules_at(body.stage, again=True)
    broken = dict(_names(params, insts))
    for i, inst in enumerate(insts):
        if broken and i in broken:
            yield Problem(name, i, *broken[i])
            continue
        for code, rule, _, alone in (again if id(inst) in seen or plainly_sound(stage, inst) else rules)[inst.op]:
            wrong = rule(stage, inst) if alone else rule(body, i, inst)
            if wrong:
                yield Problem(name, i, code, wrong)
                break


def _names(params: Sequence[Value | Buffer], insts: Sequence[Inst]) -> Iterator[tuple[int, tuple[str, str]]]:
    """(position, (code, message)) where names are wrong: walks the instructions with the names that there have been."""
    known: dict[str, Value | Buffer | None] = {p.name: p for p in params}  # None where the region has ended
    given = len(known)
    frames: list[list[str]] = [[]]  # names defined in each open region
    opened: list[Inst] = []
    get, define = known.get, frames[0].append
    for i, inst in enumerate(insts):
        operands, result = inst.operands, inst.result
        if inst.op in _NOTED:
            opener = inst
            if type(result) is Buffer:
                operands = (*operands, *result.shape)
            elif inst.op in ("end", "else"):
                opener = opened.pop()
                for name in frames.pop():
                    known[name] = None
                if inst.op == "end":
                    operands = ()
                    index = opener.result
                    if inst.operands != (() if index is None else (index,)):
                        yield i, ("E0510", f"this `end` closes `{opener.op}`" + (f" and reads `end {index}`" if index else ""))
            if inst.op in MARKS:
                if inst.op != "end":
                    frames.append([])
                    opened.append(opener)
                define = frames[-1].append
        for used in operands:
            if type(used) is not Const and get(used.name) is not used and get(used.name) != used:
                yield i, ("E0512", f"{used} is used, but {_OTHER if get(used.name) else _UNDEFINED}")
                break
        if result is not None:
            name = result.name
            if name in known:
                yield i, ("E0511", f"{result} is defined already")
            known[name] = result
            define(name)
    if not all(map(_readable, islice(known, given, None))):
        wrong = {name for name in islice(known, given, None) if not _readable(name)}
        for i, inst in enumerate(insts):
            if inst.result is not None and inst.result.name in wrong:
                wrong.remove(inst.result.name)
                yield i, ("E0511", f"{inst.result} is not a name that can be read back")


@lru_cache(1 << 12)
def _readable(name: str) -> bool:
    """Whether a name can be read back."""
    return NAME.fullmatch(name) is not None


def _plan_header(plan: Plan, before: Plan | None) -> Iterator[str]:
    if not (before and plan.name == before.name and _identical(plan.params, before.params)):
        yield from _signature(plan.name, plan.params)
    names = [k.name for k in plan.kernels]
    yield from (f"two kernels are called @{name}" for name in sorted(set(names)) if names.count(name) > 1)
    launched = {inst.attr("kernel") for inst in plan.entries if inst.op == "launch"}
    yield from (f"kernel @{name} is never launched" for name in names if name not in launched)
    yield from (f"{p} of a plan has space {p.space!r}" for p in plan.buffers if p.space != "param")


def _kernel_header(kernel: Kernel, read: Collection[str]) -> Iterator[str]:
    """`read` are words that can be read back."""
    if kernel.stage not in STAGES:
        yield f"`{kernel.stage}` is no stage, which are {', '.join(STAGES)}"
    given = [name for name, _ in kernel.attrs]
    if given != sorted(set(given)):
        yield "the attributes of the kernel are not in name order, each once"
    yield from (f"`{word}` cannot be read back" for word in (*kernel.done, *given) if word not in read and not WORD.fullmatch(word))


def _signature(name: str, params: Sequence[Value | Buffer]) -> Iterator[str]:
    names = [p.name for p in params]
    if len(set(names)) != len(names):
        yield "two parameters have one name"
    yield from (f"`{n}` is not a name that can be read back" for n in (name, *names) if not _readable(n))
    values = {p.name: p for p in params if isinstance(p, Value)}
    for p in params:
        if isinstance(p, Value):
            if p.dtype.is_storage:
                yield f"parameter {p} is {p.dtype}, which no scalar is"
            continue
        if (p.space, p.mode) not in (("workspace", ""), *(("param", mode) for mode in ("in", "out", "inout"))):
            yield f"parameter {p} has space {p.space!r} and mode {p.mode!r}"
        wrong = shape_problem(p)
        if wrong:
            yield wrong
        misplaced = align_problem(p)
        if misplaced:
            yield misplaced
        for n in (*p.shape, *(p.strides or ())):
            if isinstance(n, Value) and values.get(n.name) != n:
                yield f"extent {n} of {p} is not a parameter"
