"""The CUDA C++ of every opcode that is legal at stage=thread, in two tables: `EXPRESSIONS` gives the text of a result,
`STATEMENTS` writes lines.

An instruction with a result becomes `const T name = text;`, unless `inline.py` lets its text stand in its one use.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from vxc.cuda.emit_body import MOVES, PLAIN, Body
from vxc.cuda.names import ascii_name
from vxc.cuda.text import bare, c_string
from vxc.dtypes import F32, F64, U64, DType
from vxc.ir.kernel import GLOBAL, Buffer, Const, Inst, placement_of
from vxc.ir.ops import DECLARES, OPS, STILL, THREAD
from vxc.semantics import SCALAR_OPS, c_atomic, c_cast, c_expr, c_reinterpret, c_sat, print_format




def write_statements(body: Body) -> None:
    """Write all instructions of the kernel. The block of an extern call is for interpreters."""
    insts, at = body.regions.insts, 0
    while at < len(insts):
        inst = insts[at]
        body.check(inst)
        if inst.op in STATEMENTS:
            body.place(inst)
            STATEMENTS[inst.op](body, at, inst)
        else:
            body.define(at, inst.result, EXPRESSIONS[inst.op](body, at, inst))
        at = body.regions.end[at] + 1 if inst.op == "extern" else at + 1


# ---- results ---------------------------------------------------------------------------------------------------------


def _scalar(body: Body, at: int, inst: Inst) -> str:
    """As `c_expr` spells it, or with a plain operator where the ranges show that C gives the same."""
    divisor = inst.operands[-1]
    dtype = divisor.dtype
    if inst.op in _SHIFTS and isinstance(divisor, Const) and dtype.bits >= 32 and divisor.value > 0 and divisor.value.bit_count() == 1:
        return _SHIFTS[inst.op](body.text(inst.operands[0]), divisor.value)
    if dtype.is_int and dtype.bits >= 32 and body.is_plain(inst):
        return f" {PLAIN[inst.op]} ".join(map(body.short, inst.operands)).join("()")
    return c_expr(inst.op, dtype, *map(body.text, inst.operands), precision=inst.attr("precision") or "")


_SHIFTS: dict[str, Callable[[str, int], str]] = {  # by a power of two: of negative ints too, for which `/` and `%` cost a correction
    "floordiv": lambda x, power: f"({x} >> {power.bit_length() - 1})",
    "mod": lambda x, power: f"({x} & {power - 1})",
}


def _conversion(convert: Callable[[str, DType, DType], str]):
    def text(body: Body, at: int, inst: Inst) -> str:
        return convert(body.text(inst.operands[0]), inst.operands[0].dtype, inst.result.dtype)

    return text


def _load(body: Body, at: int, inst: Inst) -> str:
    buffer = inst.operands[0]
    if is_packed(buffer):
        return f"vx_load_{buffer.dtype}({body.names.of(buffer.name)}, {body.offset(buffer, inst.operands[1:])})"
    return body.element(inst)


def is_packed(buffer: Buffer) -> bool:
    """Whether two elements share a byte: so they lie in global memory only."""
    return buffer.dtype.bits == 4 and buffer.space in GLOBAL


def _atomic(body: Body, at: int, inst: Inst) -> str:
    return c_atomic(inst.attr("op"), inst.operands[0].dtype, f"&{body.element(inst)}", body.text(inst.operands[-1]))


def _aligned(body: Body, at: int, inst: Inst) -> str:
    return f"vx_aligned<{inst.attr('bytes')}>({body.names.of(inst.operands[0].name)})"


def _ahead(body: Body, at: int, inst: Inst) -> str:
    buffer, index = inst.operands
    return f"({inst.result.dtype.c})vx_ahead<{inst.attr('bytes')}>(&{body.names.of(buffer.name)}[{bare(body.short(index))}])"


def _special(register: str):
    def text(body: Body, at: int, inst: Inst) -> str:
        return f"({inst.result.dtype.c}){register}"

    return text


def _shuffle(body: Body, at: int, inst: Inst) -> str:
    """Shuffles move 32 or 64 bits: narrower values travel as ints, narrow floats by their bits."""
    value, dtype, width = body.text(inst.operands[0]), inst.result.dtype, inst.attr("width")
    lane = f"(int){body.text(inst.operands[1])}" if inst.op == "shfl_idx" else inst.attr("distance")
    bits = _BITS.get(dtype.bits, "") if dtype.is_float else ""
    if dtype.bits < 32:
        value = f"(int)vx_bits<{bits}>({value})" if bits else f"(int){value}"
    moved = f"{_SHUFFLES[inst.op]}({body.mask(at, width)}, {value}, {lane}, {width})"
    if dtype.bits >= 32:
        return moved
    return f"vx_bits<{dtype.c}>(({bits}){moved})" if bits else f"({dtype.c}){moved}"


_BITS = {8: "unsigned char", 16: "unsigned short"}
_SHUFFLES = {"shfl_xor": "__shfl_xor_sync", "shfl_up": "__shfl_up_sync", "shfl_idx": "__shfl_sync"}

EXPRESSIONS: dict[str, Callable[[Body, int, Inst], str]] = {
    **dict.fromkeys(SCALAR_OPS, _scalar),
    "cast": _conversion(c_cast),
    "sat": _conversion(c_sat),
    "reinterpret": _conversion(c_reinterpret),
    "load": _load,
    "atomic": _atomic,
    "aligned": _aligned,
    "ahead": _ahead,
    "block_index": _special("blockIdx.x"),
    "thread_index": _special("threadIdx.x"),
    **dict.fromkeys(_SHUFFLES, _shuffle),
}


ARENA = "vx_shared"  # the dynamic shared memory of a block

# ---- statements ------------------------------------------------------------------------------------------------------


def _declare(body: Body, at: int, inst: Inst) -> None:
    buffer = inst.result
    if inst.attr("offset") is not None:
        body.write(f"{buffer.dtype.c}* const {body.names.of(buffer.name)} = ({buffer.dtype.c}*)({ARENA} + {inst.attr('offset')});")
        return
    aligned = "__align__(16) " * (buffer.name in body.moved)
    size = placement_of(inst).size(prod(n.value for n in buffer.shape))
    array = f"[{max(size, 1)}]" if buffer.shape else ""
    body.write(f"{'__shared__ ' * (inst.op == 'shared')}{aligned}{buffer.dtype.c} {body.names.of(buffer.name)}{array};")


def _store(body: Body, at: int, inst: Inst) -> None:
    body.write(f"{body.element(inst)} = {bare(body.text(inst.operands[-1]))};")


def _move(body: Body, at: int, inst: Inst) -> None:
    to, index, source, start, *part = inst.operands
    each = to.dtype.bytes
    size = inst.attr("width") * each
    if inst.attr("anywhere") == "held":
        place = f"&{body.names.of(to.name)}[{bare(body.short(index))}]"
        at = f"{body.names.of(source.name)}, {bare(body.short(start))}, {body.elements(source)}"
        body.write(f"vx_load_held<{each}>({place}, {at});")
        return
    offsets = [body.placed(buffer, bare(body.short(x))) for buffer, x in ((to, index), (source, start))]
    if size > 4 and to.space in GLOBAL and not inst.attr("anywhere"):
        offsets[0] = f"vx_whole({offsets[0]})"
    places = [f"&{body.names.of(buffer.name)}[{offset}]" for buffer, offset in zip((to, source), offsets)]
    function = f"{MOVES[inst.op]}<{size}>"
    anywhere = inst.attr("anywhere")
    if anywhere not in (None, "line"):
        load = f"vx_load_straight<{size}>" if anywhere == "straight" else f"vx_load_branch<{size}, {each}>"
        function = load if to.space == "local" else f"vx_store_{'part_' * bool(part)}anywhere<{size}, {each}>"
    if part and (anywhere or source.space == "local"):
        function = function if anywhere else f"vx_store_part<{size}, {each}>"
        places.append(f"(int){body.text(part[0])} * {each}")
    body.write(f"{function}({', '.join(places)});")


def _loop(body: Body, at: int, inst: Inst) -> None:
    start, stop, step = (*inst.operands, Const(1, inst.result.dtype))[:3]
    index, end, by = body.names.of(inst.result.name), body.short(stop), body.short(step)
    if isinstance(step, Const):
        goes_on = f"{index} {'<' if step.value > 0 else '>'} {end}"
    else:
        goes_on = f"({by} > 0 && {index} < {end}) || ({by} < 0 && {index} > {end})"
        if body.debug:
            body.fail_unless(f"{by} != 0", inst, f"error[E0731]: {STILL}")
    unroll = inst.attr("unroll")
    if inst.attr("kind") == "unroll" or unroll:
        body.write(f"#pragma unroll {unroll or ''}".rstrip())
    advance = f"++{index}" if step == Const(1, step.dtype) else f"{index} += {by}"
    if body.leads_past(stop, step):
        advance = f"{index} = vx_next<{inst.result.dtype.c}>({index}, {by}, {end})"
    body.open(f"for ({inst.result.dtype.c} {index} = {body.short(start)}; {goes_on}; {advance})")


def _extern(body: Body, at: int, inst: Inst) -> None:
    cell, *args = inst.operands
    names = filter(None, inst.attr("params").split(", "))
    params = ", ".join(f"{x.dtype.c} {name}" for x, name in zip(args, names, strict=True))
    function = f"vx_extern_{ascii_name(inst.attr('name'))}"  # no name of the source starts like this
    head = f"__device__ __forceinline__ {cell.dtype.c} {function}({params}) {{"
    body.externs.setdefault((head, inst.attr("cuda")), "\n".join([head, *body.directive(inst), f"  {inst.attr('cuda')}", "}"]))
    body.write(f"{body.names.of(cell.name)} = {function}({', '.join(map(body.text, args))});")


def _barrier(body: Body, at: int, inst: Inst) -> None:
    body.write("__syncthreads();" if inst.attr("scope") == "block" else f"__syncwarp({body.mask(at, inst.attr('width'))});")


def _assert(body: Body, at: int, inst: Inst) -> None:
    if body.debug:
        code = inst.attr("code")
        message = f"error[{code}]: {inst.attr('message')}" if code else f"error[E0723]: assertion failed: {inst.attr('message')}"
        body.fail_unless(body.text(inst.operands[0]), inst, message)


def _print(body: Body, at: int, inst: Inst) -> None:
    formats, args = zip(*(_printed(x.dtype, body.text(x)) for x in inst.operands)) if inst.operands else ((), ())
    label = c_string(inst.attr("label").replace("%", "%%") + "".join(f" {f}" for f in formats) + "\n")
    body.write(f"printf({', '.join([label, *args])});")


def _printed(dtype: DType, text: str) -> tuple[str, str]:
    """The format and the argument that show a value with all its digits."""
    if dtype.kind == "b":
        shown = f'({text} ? "true" : "false")'
    elif dtype.is_float:
        shown = f"(double)({c_cast(text, dtype, F64 if dtype is F64 else F32)})"
    else:
        shown = f"({'unsigned ' if dtype is U64 else ''}long long){text}"
    return print_format(dtype), shown


STATEMENTS: dict[str, Callable[[Body, int, Inst], None]] = {
    **dict.fromkeys((op for op in DECLARES if THREAD in OPS[op].stages), _declare),
    "loop": _loop,
    "while": lambda body, at, inst: body.open("for (;;)"),
    "if": lambda body, at, inst: body.open(f"if ({bare(body.text(inst.operands[0]))})"),
    "else": lambda body, at, inst: body.otherwise(),
    "end": lambda body, at, inst: body.close(),
    "break": lambda body, at, inst: body.write("break;"),
    "continue": lambda body, at, inst: body.write("continue;"),
    "extern": _extern,
    "store": _store,
    **dict.fromkeys(MOVES, _move),
    "await": lambda body, at, inst: body.write("vx_await();"),
    "barrier": _barrier,
    "assert": _assert,
    "print": _print,
}

assert not EXPRESSIONS.keys() & STATEMENTS.keys()
assert EXPRESSIONS.keys() | STATEMENTS.keys() == {name for name, row in OPS.items() if THREAD in row.stages}, "one handler for each opcode"
