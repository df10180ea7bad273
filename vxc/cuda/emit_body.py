"""The statements of one kernel, in CUDA C++.

Two tables cover every opcode that is legal at stage=thread: `EXPRESSIONS` gives the text of a result, `STATEMENTS` writes
lines. An instruction with a result becomes `const T name = text;`, unless `inline.py` lets its text stand in its one use.
"""

from __future__ import annotations

from collections.abc import Callable

from vxc.cuda.inline import inlinable
from vxc.cuda.names import Names, ascii_name
from vxc.dtypes import F32, F64, I32, U64, DType
from vxc.ir.facts import full, ranges, uniformity
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Scalar, Value
from vxc.ir.ops import DECLARES, OPS, THREAD
from vxc.ir.walk import Regions
from vxc.semantics import SCALAR_OPS, c_atomic, c_cast, c_expr, c_literal, c_reinterpret, c_sat

WARP = 32
_PLAIN_INTS = range(-(2**31) + 1, 2**31)  # a literal without a suffix
_LONGEST = 60  # characters of a text that is written into its use
_DEEPEST = 40  # levels of indentation shown, so that a text stays linear in its instructions
_PLAIN = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "tdiv": "/", "mod": "%", "trem": "%"}
_DIVIDES = ("floordiv", "mod", "ceildiv", "tdiv", "trem")
GLOBAL = ("param", "workspace")


class Body:
    """Writes the instructions of a kernel to `lines`; `source_name` is what `#line` calls the source, "" for no `#line`."""

    def __init__(self, kernel: Kernel, names: Names, source_name: str = "", debug: bool = False):
        self.names, self.source_name, self.debug = names, source_name, debug
        self.lines: list[str] = []
        self.externs: dict[tuple, str] = {}  # the device functions called, each once
        self.regions = Regions.of(kernel.insts)
        self._ranges = ranges(kernel)
        self._control = uniformity(kernel, self.regions).control
        self._inline = set() if debug else inlinable(self.regions)
        self._texts: dict[str, str] = {}
        self._used = {x.name for inst in kernel.insts for x in inst.operands if isinstance(x, Value)}
        self._depth = 1
        self._line = 0  # of the source, that the last `#line` named

    def run(self) -> list[str]:
        insts, at = self.regions.insts, 0
        while at < len(insts):
            inst = insts[at]
            if inst.op in STATEMENTS:
                self.place(inst)
                STATEMENTS[inst.op](self, at, inst)
            else:
                self._value(at, inst)
            at = self.regions.end[at] + 1 if inst.op == "extern" else at + 1
        return self.lines

    def _value(self, at: int, inst: Inst) -> None:
        if at in self._inline:
            text = EXPRESSIONS[inst.op](self, at, inst)
            if len(text) <= _LONGEST:
                self._texts[inst.result.name] = text
                return
        self.place(inst)
        self.check(inst)
        text = EXPRESSIONS[inst.op](self, at, inst)
        unused = inst.result.name not in self._used
        self.write(f"{bare(text)};" if unused else f"const {inst.result.dtype.c} {self.names.of(inst.result.name)} = {bare(text)};")

    # ---- lines -------------------------------------------------------------------------------------------------------

    def place(self, inst: Inst) -> None:
        """`#line` where the source line changes; --debug builds say it again for every statement, since each counts as a line."""
        if self.source_name and inst.loc is not None and (inst.loc[0] != self._line or self.debug):
            self._line = inst.loc[0]
            self.lines.append(line_directive(self._line, self.source_name))

    def write(self, text: str) -> None:
        self.lines.append("  " * min(self._depth, _DEEPEST) + text)

    def open(self, text: str) -> None:
        self.write(text + " {")
        self._depth += 1

    def otherwise(self) -> None:
        self.close()
        self.open("else")

    def close(self) -> None:
        self._depth -= 1
        self.write("}")

    # ---- texts -------------------------------------------------------------------------------------------------------

    def text(self, operand: Scalar) -> str:
        if isinstance(operand, Const):
            return c_literal(operand.value, operand.dtype)
        return self._texts.get(operand.name) or self.names.of(operand.name)

    def short(self, operand: Scalar) -> str:
        """The text of an integer beside one that has its width already."""
        return str(operand.value) if isinstance(operand, Const) and operand.value in _PLAIN_INTS else self.text(operand)

    def is_plain(self, inst: Inst) -> bool:
        """Whether an integer operation cannot wrap, and if it divides, rounds as C does."""
        if inst.op not in _PLAIN or all(isinstance(x, Const) for x in inst.operands):
            return False
        if inst.op in _DIVIDES:
            a, b = map(self._least, inst.operands)
            return a >= 0 and b > 0
        return self._ranges[inst.result.name] != full(inst.result.dtype)

    def _least(self, operand: Scalar) -> int:
        return operand.value if isinstance(operand, Const) else self._ranges[operand.name][0]

    def offset(self, buffer: Buffer, box: tuple[Scalar, ...]) -> str:
        """The offset of an element, worked out in 64 bits whatever the width of the indices."""
        if len(box) == 1 and buffer.strides is None:
            return bare(self.short(box[0]))
        indices = [f"(long long){self.text(x)}" if x.dtype is I32 else self.text(x) for x in box]
        if buffer.strides is not None:
            return " + ".join(f"{index} * {self.short(stride)}" for index, stride in zip(indices, buffer.strides))
        found = indices[0]
        for axis, index in enumerate(indices[1:], 1):
            outer = f"({found})" if axis > 1 else found
            found = f"{outer} * {self.short(buffer.shape[axis])} + {index}"
        return found

    def element(self, inst: Inst) -> str:
        """The element that an access names, as an lvalue."""
        buffer = inst.operands[0]
        name = self.names.of(buffer.name)
        return f"{name}[{self.offset(buffer, inst.operands[1 : 1 + len(buffer.shape)])}]" if buffer.shape else name

    def mask(self, at: int, width: int) -> str:
        """The lanes that come to a warp instruction together: the warp, or only the group where its neighbours may be elsewhere."""
        return "0xffffffffu" if self._control[at] % WARP == 0 else f"vx_group_mask({width})"

    # ---- checks of --debug builds ------------------------------------------------------------------------------------

    def check(self, inst: Inst) -> None:
        """Lines that stop the kernel where an index is out of range, or a divisor is 0."""
        if not self.debug:
            return
        if OPS[inst.op].access and inst.operands[0].shape:
            buffer = inst.operands[0]
            for axis, (index, extent) in enumerate(zip(inst.operands[1:], buffer.shape)):
                self.fail_unless(f"0 <= {self.text(index)} && {self.text(index)} < {self.short(extent)}", inst,
                                  f"error[E0720]: index out of range in dimension {axis} of `{buffer.name}`")  # fmt: skip
        elif inst.op in _DIVIDES:
            self.fail_unless(f"{self.text(inst.operands[1])} != 0", inst, "error[E0724]: integer division by zero")

    def fail_unless(self, holds: str, inst: Inst, message: str) -> None:
        place = f"{self.source_name}:{inst.loc[0]}:{inst.loc[1]}: " if inst.loc else ""
        self.write(f"if (!({holds})) vx_fail({c_string(place + message)});")


def bare(text: str) -> str:
    """A text without the brackets around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def line_directive(line: int, source_name: str) -> str:
    return f"#line {line} {c_string(source_name)}"


def c_string(text: str) -> str:
    """A C string literal of the text in UTF-8, in ASCII."""
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(plain)}"'


# ---- results ---------------------------------------------------------------------------------------------------------


def _scalar(body: Body, at: int, inst: Inst) -> str:
    """As `c_expr` spells it, or with a plain operator where the ranges show that C gives the same."""
    dtype = inst.operands[-1].dtype
    if dtype.is_int and dtype.bits >= 32 and body.is_plain(inst):
        return f" {_PLAIN[inst.op]} ".join(map(body.short, inst.operands)).join("()")
    return c_expr(inst.op, dtype, *map(body.text, inst.operands))


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


def _special(register: str):
    def text(body: Body, at: int, inst: Inst) -> str:
        return f"({inst.result.dtype.c}){register}"

    return text


def _shuffle(body: Body, at: int, inst: Inst) -> str:
    """A shuffle moves 32 or 64 bits: narrower values travel as ints."""
    value, dtype, width = body.text(inst.operands[0]), inst.result.dtype, inst.attr("width")
    lane = f"(int){body.text(inst.operands[1])}" if inst.op == "shfl_idx" else str(inst.attr("distance"))
    moved = value
    if dtype.bits < 32:
        moved = f"(int){c_bits(value, dtype)}"
    name = _SHUFFLES[inst.op]
    text = f"{name}({body.mask(at, width)}, {moved}, {lane}, {width})"
    if dtype.bits >= 32:
        return text
    if dtype.is_float:
        return f"vx_bits<{dtype.c}>((unsigned {_CARRIERS[dtype.bits]}){text})"
    return f"({dtype.c}){text}"


def c_bits(value: str, dtype: DType) -> str:
    """A narrow value as an integer of its width."""
    return f"vx_bits<unsigned {_CARRIERS[dtype.bits]}>({value})" if dtype.is_float else value


_CARRIERS = {8: "char", 16: "short"}
_SHUFFLES = {"shfl_xor": "__shfl_xor_sync", "shfl_up": "__shfl_up_sync", "shfl_idx": "__shfl_sync"}

EXPRESSIONS: dict[str, Callable[[Body, int, Inst], str]] = {
    **dict.fromkeys(SCALAR_OPS, _scalar),
    "cast": _conversion(c_cast),
    "sat": _conversion(c_sat),
    "reinterpret": _conversion(c_reinterpret),
    "load": _load,
    "atomic": _atomic,
    "block_index": _special("blockIdx.x"),
    "thread_index": _special("threadIdx.x"),
    **dict.fromkeys(_SHUFFLES, _shuffle),
}


# ---- statements ------------------------------------------------------------------------------------------------------


def _declare(body: Body, at: int, inst: Inst) -> None:
    buffer, size = inst.result, 1
    for n in buffer.shape:
        size *= n.value
    array = f"[{max(size, 1)}]" if buffer.shape else ""
    body.write(f"{'__shared__ ' * (inst.op == 'shared')}{buffer.dtype.c} {body.names.of(buffer.name)}{array};")


def _store(body: Body, at: int, inst: Inst) -> None:
    body.check(inst)
    body.write(f"{body.element(inst)} = {bare(body.text(inst.operands[-1]))};")


def _loop(body: Body, at: int, inst: Inst) -> None:
    start, stop, step = (*inst.operands, Const(1, inst.result.dtype))[:3]
    index, end, by = body.names.of(inst.result.name), body.short(stop), body.short(step)
    if isinstance(step, Const):
        goes_on = f"{index} {'<' if step.value > 0 else '>'} {end}"
    else:
        goes_on = f"({by} > 0 && {index} < {end}) || ({by} < 0 && {index} > {end})"
    unroll = inst.attr("unroll")
    if inst.attr("kind") == "unroll" or unroll:
        body.write(f"#pragma unroll {unroll or ''}".rstrip())
    advance = f"++{index}" if step == Const(1, step.dtype) else f"{index} += {by}"
    body.open(f"for ({inst.result.dtype.c} {index} = {body.short(start)}; {goes_on}; {advance})")


def _extern(body: Body, at: int, inst: Inst) -> None:
    cell, *args = inst.operands
    names = filter(None, inst.attr("params").split(", "))
    params = ", ".join(f"{x.dtype.c} {name}" for x, name in zip(args, names, strict=True))
    function = f"vx_extern_{ascii_name(inst.attr('name'))}"  # no name of the source starts like this
    line = [line_directive(inst.loc[0], body.source_name)] if body.source_name and inst.loc else []
    head = f"__device__ __forceinline__ {cell.dtype.c} {function}({params}) {{"
    body.externs.setdefault((head, inst.attr("cuda")), "\n".join([head, *line, f"  {inst.attr('cuda')}", "}"]))
    body.write(f"{body.names.of(cell.name)} = {function}({', '.join(map(body.text, args))});")


def _barrier(body: Body, at: int, inst: Inst) -> None:
    body.write("__syncthreads();" if inst.attr("scope") == "block" else f"__syncwarp({body.mask(at, inst.attr('width'))});")


def _assert(body: Body, at: int, inst: Inst) -> None:
    if body.debug:
        body.fail_unless(body.text(inst.operands[0]), inst, f"error[E0723]: assertion failed: {inst.attr('message')}")


def _print(body: Body, at: int, inst: Inst) -> None:
    formats, args = zip(*(_printed(x.dtype, body.text(x)) for x in inst.operands)) if inst.operands else ((), ())
    label = c_string(inst.attr("label").replace("%", "%%") + "".join(f" {f}" for f in formats) + "\n")
    body.write(f"printf({', '.join([label, *args])});")


def _printed(dtype: DType, text: str) -> tuple[str, str]:
    """The format and the argument that show a value with all its digits."""
    if dtype.kind == "b":
        return "%s", f'({text} ? "true" : "false")'
    if dtype.is_float:
        return ("%.17g" if dtype is F64 else "%.9g"), f"(double)({c_cast(text, dtype, F64 if dtype is F64 else F32)})"
    return ("%llu", f"(unsigned long long){text}") if dtype is U64 else ("%lld", f"(long long){text}")


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
    "barrier": _barrier,
    "assert": _assert,
    "print": _print,
}

assert not EXPRESSIONS.keys() & STATEMENTS.keys()
assert EXPRESSIONS.keys() | STATEMENTS.keys() == {name for name, row in OPS.items() if THREAD in row.stages}, "one handler for each opcode"
