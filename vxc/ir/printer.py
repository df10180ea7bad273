"""The text of plans, kernels and instructions; `reader.py` reads it back to an equal value.

An instruction is a line `%result: dtype = op operands {attributes} !line:column`, indented by nesting (which means nothing to the
reader). Three forms differ: a storage declaration ends in the type it declares, the dtype of an i64 index result is left
out, and a launch reads `launch @kernel[blocks](arguments)`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable

from vxc.dtypes import I64
from vxc.ir.kernel import Attr, Buffer, Inst, Kernel, Value
from vxc.ir.ops import DECLARES, OPS
from vxc.ir.plan import Plan

_DEEPEST = 40  # levels of indentation shown, so that a text stays linear in its instructions


def print_plan(plan: Plan, locations: bool = False) -> str:
    """A plan followed by its kernels, a blank line between two; ends in a newline."""
    header = f"plan @{plan.name}({_params(plan.params)})"
    return "\n".join([_block(header, plan.entries, locations), *(print_kernel(k, locations) for k in plan.kernels)])


def print_kernel(kernel: Kernel, locations: bool = False) -> str:
    """A kernel's text, ending in a newline; `locations` adds the place in the .vx text to each instruction that has one."""
    header = f"kernel @{kernel.name}({_params(kernel.params)}) stage={kernel.stage}"
    if kernel.done:
        header += f" done=[{', '.join(kernel.done)}]"
    return _block(header + print_attrs(kernel.attrs), kernel.insts, locations)


def print_inst(inst: Inst, locations: bool = False) -> str:
    """One instruction's line, without indentation or newline."""
    row = OPS[inst.op]
    operands = ", ".join(map(str, inst.operands))
    shown = inst.attrs
    if inst.op in DECLARES:
        text = f"{inst.op} {_declared(inst.result)}"
    elif inst.op == "launch":
        blocks, *arguments = map(str, inst.operands)
        text = f"launch @{inst.attr('kernel')}[{blocks}]({', '.join(arguments)})"
        shown = tuple(pair for pair in inst.attrs if pair[0] != "kernel")
    else:
        text = f"{inst.op} {operands}" if operands else inst.op
        if inst.result is not None:
            plain = row.result == "index" and inst.result.dtype is I64
            text = f"{inst.result}{'' if plain else f': {inst.result.dtype}'} = {text}"
    place = f" !{inst.loc[0]}:{inst.loc[1]}" if locations and inst.loc else ""
    return text + print_attrs(shown) + place


def print_attrs(attrs: tuple[tuple[str, Attr], ...]) -> str:
    """` {name=value, ...}`, or nothing."""
    return f" {{{', '.join(f'{name}={_attr(value)}' for name, value in attrs)}}}" if attrs else ""


def _attr(value: Attr) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_attr, value))}]"
    if isinstance(value, str):  # text that is not in normal form is escaped, since sources are normalised
        return json.dumps(value, ensure_ascii=not unicodedata.is_normalized("NFC", value))
    return str(value).lower()


def mention(kernel: str, inst: Inst) -> str:
    """An instruction for a note: in which kernel it is, its place if known, its text."""
    place = f" at line {inst.loc[0]}, column {inst.loc[1]}" if inst.loc else ""
    return f"in kernel @{kernel}{place}: `{print_inst(inst)}`"


def _block(header: str, insts: Iterable[Inst], locations: bool) -> str:
    lines, depth = [header + " {"], 1
    for inst in insts:
        if inst.op in ("else", "end"):
            depth = max(1, depth - 1)
        lines.append("  " * min(depth, _DEEPEST) + print_inst(inst, locations))
        if inst.op == "else" or OPS[inst.op].opens:
            depth += 1
    return "\n".join([*lines, "}", ""])


def _params(params: Iterable[Value | Buffer]) -> str:
    return ", ".join(f"{p}: {p.dtype}" if isinstance(p, Value) else _parameter(p) for p in params)


def _parameter(buffer: Buffer) -> str:
    align = "" if buffer.align is None else f" align={buffer.align}"
    return f"{_declared(buffer)} {'work' if buffer.space == 'workspace' else buffer.mode}{align}"


def _declared(buffer: Buffer) -> str:
    """`@x: f32[%M, %N; %ld, 1]`: shape, then strides where they are given."""
    if not buffer.shape:
        return f"{buffer}: {buffer.dtype}"
    shape = ", ".join(map(str, buffer.shape))
    strides = "; " + ", ".join(map(str, buffer.strides)) if buffer.strides is not None else ""
    return f"{buffer}: {buffer.dtype}[{shape}{strides}]"
