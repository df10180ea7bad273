"""What writing one kernel's statements in CUDA C++ needs: lines, names, texts of operands and addresses, checks.

Which text an opcode has is said in `emit_ops.py`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vxc.cuda.inline import inlinable
from vxc.cuda.names import Names
from vxc.cuda.text import bare, c_string, line_directive
from vxc.dtypes import I32
from vxc.ir.facts import Range, full, ranges, uniformity
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Scalar, Value, placement_of
from vxc.ir.ops import OPS, TOGETHER
from vxc.ir.walk import Regions
from vxc.layout.placement import IN_ORDER
from vxc.semantics import DIVISIONS, c_literal
from vxc.target import WARP

PLAIN = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "tdiv": "/", "mod": "%", "trem": "%"}  # the operator of C
MOVES = {"move": "vx_move", "move.async": "vx_move_async"}  # the device function
_PLAIN_INTS = range(-(2**31) + 1, 2**31)  # a literal without a suffix
_LONGEST = 60  # characters of a text that is written into its use
_DEEPEST = 40  # levels of indentation shown, so that a text stays linear in its instructions


class Body:
    """One kernel on its way to text: `lines` holds what is written so far, `externs` the device functions called, each once.

    `source_name` is the file that places are in, "" for no `#line`; `debug` asks for checks.
    """

    def __init__(self, kernel: Kernel, names: Names, source_name: str, debug: bool):
        self.names, self.source_name, self.debug = names, source_name, debug
        self.lines: list[str] = []
        self.externs: dict[tuple[str, str], str] = {}
        self.regions = Regions.of(kernel.insts)
        self._ranges = ranges(kernel)
        self._control = uniformity(kernel, self.regions, (i for i, inst in enumerate(kernel.insts) if inst.op in TOGETHER)).control
        self._inline = set() if debug else inlinable(self.regions)
        self._texts: dict[str, str] = {}  # of values that stand in their use
        self.moved = {x.name for inst in kernel.insts if inst.op in MOVES for x in inst.operands if isinstance(x, Buffer)}
        self._placements = {inst.result.name: placement_of(inst) for inst in kernel.insts if inst.op == "shared"}
        self._used = {x.name for inst in kernel.insts for x in inst.operands if isinstance(x, Value)}
        self._depth = 1
        self._line = 0  # of the source, that the last `#line` named

    # ---- lines -------------------------------------------------------------------------------------------------------

    def place(self, inst: Inst) -> None:
        """`#line` where the source line changes; --debug builds say it for every statement, since each counts as a line."""
        if inst.loc is not None and (inst.loc[0] != self._line or self.debug):
            self._line = inst.loc[0]
            self.lines += self.directive(inst)

    def directive(self, inst: Inst) -> list[str]:
        return [line_directive(inst.loc[0], self.source_name)] if self.source_name and inst.loc else []

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

    def define(self, at: int, result: Value, text: str) -> None:
        """Declare a result, or keep its text for its one use."""
        if at in self._inline and len(text) <= _LONGEST:
            self._texts[result.name] = text
            return
        self.place(self.regions.insts[at])
        unused = result.name not in self._used
        self.write(f"{bare(text)};" if unused else f"const {result.dtype.c} {self.names.of(result.name)} = {bare(text)};")

    def text(self, operand: Scalar) -> str:
        if isinstance(operand, Const):
            return c_literal(operand.value, operand.dtype)
        return self._texts.get(operand.name) or self.names.of(operand.name)

    def short(self, operand: Scalar) -> str:
        """The text of an integer beside one that has its width already."""
        return str(operand.value) if isinstance(operand, Const) and operand.value in _PLAIN_INTS else self.text(operand)

    def is_plain(self, inst: Inst) -> bool:
        """Whether an integer operation cannot wrap, and if it divides, rounds as C does."""
        if inst.op not in PLAIN or all(isinstance(x, Const) for x in inst.operands):
            return False
        if inst.op in DIVISIONS:
            (a, _), (b, _) = map(self._range, inst.operands)
            return a >= 0 and b > 0
        return self._ranges[inst.result.name] != full(inst.result.dtype)

    def _range(self, operand: Scalar) -> Range:
        return (operand.value, operand.value) if isinstance(operand, Const) else self._ranges[operand.name]

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

    def elements(self, buffer: Buffer) -> str:
        """How many elements lie between the ends of a buffer."""
        if buffer.strides is not None:
            return " + ".join(["1", *(f"({self.short(n)} - 1) * {self.short(stride)}" for n, stride in zip(buffer.shape, buffer.strides))])
        return " * ".join(map(self.short, buffer.shape))

    def element(self, inst: Inst) -> str:
        """The element that an access names, as an lvalue."""
        buffer = inst.operands[0]
        name = self.names.of(buffer.name)
        return f"{name}[{self._lies(buffer, inst.operands[1 : 1 + len(buffer.shape)])}]" if buffer.shape else name

    def _lies(self, buffer: Buffer, box: tuple[Scalar, ...]) -> str:
        """Where an element lies; where whole rows of a dimension are apart, that dimension has the pitch for its stride."""
        row, pitch = self._placements.get(buffer.name, IN_ORDER).pitch or (0, 0)
        axis = next((k for k in range(1, len(box)) if row == prod(n.value for n in buffer.shape[k:])), 0) if row else 0
        if not axis:
            return self.placed(buffer, self.offset(buffer, box))
        last = axis == len(box) - 1
        inner = self.short(box[axis]) if last else self.offset(replace(buffer, shape=buffer.shape[axis:]), box[axis:])
        return f"({self.offset(replace(buffer, shape=buffer.shape[:axis]), box[:axis])}) * {pitch} + {inner}"

    def placed(self, buffer: Buffer, offset: str) -> str:
        """Where an element lies that has this offset in memory order."""
        return self._placements.get(buffer.name, IN_ORDER).c_text(offset)

    def mask(self, at: int, width: int) -> str:
        """The lanes that come to a warp instruction together: the warp, or only the group where its neighbours may be elsewhere."""
        return "0xffffffffu" if self._control[at] % WARP == 0 else f"vx_group_mask({width})"

    # ---- checks of --debug builds ------------------------------------------------------------------------------------

    def check(self, inst: Inst) -> None:
        """In --debug builds, lines that stop the kernel where an index is out of range, or a divisor is 0."""
        if not self.debug:
            return
        self.place(inst)
        if inst.op in MOVES:
            width = self.short(inst.operands[4] if len(inst.operands) > 4 else Const(inst.attr("width")))
            for buffer, index in zip(inst.operands[:4:2], inst.operands[1:4:2]):
                first, count = self.short(index), self.elements(buffer)
                inside = f"0 <= {first} && {first} + {width} <= {count}"
                if buffer.space == "param" and inst.attr("anywhere") in ("line", "held"):  # one of the elements is enough
                    inside = f"0 < {first} + {width} && {first} < {count}"
                self.fail_unless(inside, inst, f"error[E0720]: index out of range in `{buffer.name}`")
        elif OPS[inst.op].access and inst.operands[0].shape:
            buffer = inst.operands[0]
            for axis, (index, extent) in enumerate(zip(inst.operands[1:], buffer.shape)):
                holds = f"0 <= {self.short(index)} && {self.short(index)} < {self.short(extent)}"
                self.fail_unless(holds, inst, f"error[E0720]: index out of range in dimension {axis} of `{buffer.name}`")
        elif inst.op in DIVISIONS and not isinstance(inst.operands[1], Const):
            self.fail_unless(f"{self.text(inst.operands[1])} != 0", inst, "error[E0724]: integer division by zero")

    def leads_past(self, stop: Scalar, step: Scalar) -> bool:
        """Whether a loop's index may leave its dtype in the step behind its last iteration."""
        (least, most), (low, high) = map(self._range, (stop, step))
        return most - 1 + high > stop.dtype.max or least + 1 + low < stop.dtype.min

    def fail_unless(self, holds: str, inst: Inst, message: str) -> None:
        place = f"{self.source_name}:{inst.loc[0]}:{inst.loc[1]}: " if inst.loc and self.source_name else ""
        self.write(f"if (!({holds})) vx_fail({c_string(place + message)});")
