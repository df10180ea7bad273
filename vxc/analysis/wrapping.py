"""Sums that may have wrapped: their digits need not be those of what was added, nor consecutive where that is.

Ranges say what cannot wrap, and take positions in arrays to go further than any do: those are counted from the sizes of arrays and from
indices of loops that begin at a position, by sums, and by products with sizes. Positions wrap nowhere, nor what is within 2**40 of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from vxc.dtypes import I64
from vxc.ir.facts import full, ranges
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value

NEAR = 1 << 40
_SUMS = frozenset("add sub neg mul fma shl".split())
# No further from 0 than their operands are, or those together, but for what is in front of a comma.
_BOUNDED = frozenset("add sub neg abs min max clamp select floordiv ceildiv tdiv and or xor shr cast sat shfl_xor shfl_up shfl_idx".split())


def wrapped(kernel: Kernel, near: Iterable[str] = ()) -> frozenset[str]:
    """The i64 values that may be another number than the sums and products that they are would give without end, where the scalars `near`
    are no further than NEAR from 0.
    """
    return _Walk(kernel, near).found


class Wrapping:
    """The same, asked of some values of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._needs: dict[str, tuple[str, ...] | None] = {}

    @cached_property
    def _wrapped(self) -> frozenset[str]:
        return wrapped(self.kernel)

    @cached_property
    def _scalars(self) -> set[str]:
        return {p.name for p in self.kernel.params if isinstance(p, Value) and p.dtype is I64} - sizes_of(self.kernel)

    def near(self, x: Operand, of: Iterable[str]) -> tuple[str, ...] | None:
        """Which scalars of these names must be near 0 for a value to be what its sum is; None where that is not enough."""
        if not isinstance(x, Value) or x.name not in self._wrapped:
            return ()
        if x.name not in self._needs:
            names = tuple(sorted(self._scalars.intersection(of)))
            self._needs[x.name] = names if names and x.name not in wrapped(self.kernel, names) else None
        return self._needs[x.name]


def sizes_of(kernel: Kernel) -> set[str]:
    """The parameters that are sizes or strides of arrays."""
    arrays = (p for p in kernel.params if isinstance(p, Buffer))
    return {x.name for p in arrays for x in (*p.shape, *(p.strides or ())) if isinstance(x, Value)}


class _Walk:
    """In program order. `sizes` are those positions that no loop counts; of cells, `held` are those that may hold what has wrapped, and
    `writes` how many writes are still to come, or are of no position.
    """

    def __init__(self, kernel: Kernel, near: Iterable[str]) -> None:
        self.known = ranges(kernel, dict.fromkeys(near, (-NEAR, NEAR)))
        self.sizes, self.positions = sizes_of(kernel), set[str]()
        found, held = set[str](), set[str]()
        self.writes = Counter(cell for inst in kernel.insts if inst.op != "load" for cell in _cells(inst))
        for inst in kernel.insts:
            result = inst.result
            if inst.op == "store" and self._position(inst.operands[-1]):
                self.writes.subtract(_cells(inst))
            elif inst.op == "store" and getattr(inst.operands[-1], "name", "") in found:
                held.update(_cells(inst))
            elif isinstance(result, Value) and result.name in self.known:
                if self._is_size(inst):
                    self.sizes.add(result.name)
                elif self._is_position(inst):
                    self.positions.add(result.name)
                elif result.dtype is I64 and self.known[result.name] == full(I64) and inst.op in _SUMS or held & {*_cells(inst)}:
                    found.add(result.name)
        self.found = frozenset(found)

    def _is_size(self, inst: Inst) -> bool:
        return (inst.op in _BOUNDED or inst.op == "mul") and all(map(self._size, inst.operands))

    def _is_position(self, inst: Inst) -> bool:
        operands = [x for x in inst.operands if x.dtype.is_int]
        match inst.op:
            case "reduce" | "scan" | "block_index" | "thread_index":
                return True
            case "loop":
                return self._position(operands[0]) and all(map(self._size, operands[2:]))
            case "mul" | "fma":
                return all(map(self._position, operands)) and any(map(self._size, operands[:2]))
            case "shl":
                return self._position(operands[0]) and isinstance(operands[1], Const) and 0 <= operands[1].value < 40
            case "mod" | "trem":
                return self._position(operands[1])
            case "load":
                return any(self.writes[cell] == 0 for cell in _cells(inst))
        return inst.op in _BOUNDED and len(operands) > 0 and all(map(self._position, operands))

    def _size(self, x: Operand) -> bool:
        return isinstance(x, Const) and x.dtype.is_int and abs(x.value) <= NEAR or getattr(x, "name", "") in self.sizes

    def _position(self, x: Operand) -> bool:
        low, high = self.known.get(getattr(x, "name", ""), full(I64))
        return self._size(x) or getattr(x, "name", "") in self.positions or -NEAR <= low and high <= NEAR


def _cells(inst: Inst) -> list[str]:
    return [x.name for x in inst.operands if isinstance(x, Buffer) and x.space == "cell"]
