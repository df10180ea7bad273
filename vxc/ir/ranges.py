"""Ranges: between which bounds each integer value of a kernel lies, by interval arithmetic over the instructions.

One pass, linear in the number of instructions. Where arithmetic may wrap, the range is the whole dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vxc.dtypes import DType
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value

Range = tuple[int, int]  # least and greatest value, both included

# No address space holds more elements than this; `binding.bind` refuses larger dimensions, so products of a dimension and a
# small number do not wrap.
MAX_DIM = 1 << 47
MAX_BLOCKS = (1 << 31) - 1
MAX_THREADS = 1024


def trip_count(start: int, stop: int, step: int) -> int:
    """Iterations of a loop, whose step is not 0: `len(range(..))` of any size."""
    return max(0, -((start - stop) // step))


def full(dtype: DType) -> Range:
    """Everything an integer or bool dtype holds."""
    return dtype.min, dtype.max


def ranges(kernel: Kernel, known: Mapping[str, Range] | None = None) -> dict[str, Range]:
    """The range of every integer and bool value of a kernel, by name, over all executions.

    A dimension lies in [0, MAX_DIM]. `known` narrows parameters. Memory is not followed: a load has its dtype's range.
    """
    found: dict[str, Range] = {}
    dims = {v.name for p in kernel.params if isinstance(p, Buffer) for v in (*p.shape, *(p.strides or ())) if isinstance(v, Value)}
    for p in kernel.params:
        if isinstance(p, Value) and not p.dtype.is_float:
            found[p.name] = (0, MAX_DIM) if p.name in dims else full(p.dtype)
    found.update(known or {})
    of = _Lookup(found)
    indices = {
        "block_index": (0, kernel.attr("blocks", MAX_BLOCKS) - 1),
        "thread_index": (0, kernel.attr("threads", MAX_THREADS) - 1),
    }
    for inst in kernel.insts:
        value = inst.result
        if type(value) is not Value or value.dtype.is_float:
            continue
        if inst.op in _RANGES:
            operands = [of(x) if type(x) is Const else found.get(x.name) for x in inst.operands]
            found[value.name] = _within(None if None in operands else _RANGES[inst.op](*operands), value.dtype)
        elif inst.op in indices:
            found[value.name] = indices[inst.op]
        elif inst.op == "ahead":
            found[value.name] = (0, max(0, inst.attr("bytes") // inst.operands[0].dtype.bytes - 1))
        elif inst.op == "loop":
            start, stop, *step = map(of, inst.operands)
            found[value.name] = _index(start, _up_to(stop, inst), *step)
        elif inst.op in ("reduce", "scan"):
            found[value.name] = _index((0, 0), _up_to(of(inst.operands[-1]), inst))
        else:
            found[value.name] = full(value.dtype)
    return found


class _Lookup:
    def __init__(self, found: dict[str, Range]):
        self.found = found

    def __call__(self, operand: Operand) -> Range | None:
        """The range of an operand; None for floats and buffers."""
        if isinstance(operand, Const):
            return None if operand.dtype.is_float else (int(operand.value), int(operand.value))
        return self.found.get(operand.name)


def _up_to(stop: Range, inst: Inst) -> Range:
    """The range of a number of elements, with what the launch knows of it."""
    most = inst.attr("most")
    return stop if most is None else (min(stop[0], most), min(stop[1], most))


def _index(start: Range, stop: Range, step: Range = (1, 1)) -> Range:
    """Of a loop's index; where the loop does not run at all, anything is right."""
    up = (start[0], max(start[0], _last(start, stop, step)))
    down = (min(start[1], stop[0] + 1), start[1])
    if step[0] > 0:
        return up
    return down if step[1] < 0 else (min(up[0], down[0]), max(up[1], down[1]))


def _last(start: Range, stop: Range, step: Range) -> int:
    """The greatest index of a loop that counts up, of which it may be known which numbers it meets."""
    last = stop[1] - 1
    return last - (last - start[0]) % step[0] if start[0] == start[1] and step[0] == step[1] > 0 else last


def _within(found: Range | None, dtype: DType) -> Range:
    """A range that wraps, or is not known, is the dtype's."""
    low, high = full(dtype)
    return found if found is not None and low <= found[0] and found[1] <= high else (low, high)


def _corners(f: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """For f monotonic in each operand over the whole rectangle."""

    def over(a: Range, b: Range) -> Range:
        values = [f(x, y) for x in a for y in b]
        return min(values), max(values)

    return over


def _quotient(f: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """A division is monotonic where the divisor keeps one sign; otherwise no larger than the dividend (0 where b is 0)."""

    def over(a: Range, b: Range) -> Range:
        if b[0] == b[1] > 0:
            return f(a[0], b[0]), f(a[1], b[0])
        if b[0] > 0 or b[1] < 0:
            return _corners(f)(a, b)
        most = max(abs(a[0]), abs(a[1]))
        return (0 if a[0] >= 0 and b[0] >= 0 else -most), most

    return over


def _truncated(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def _mod(a: Range, b: Range) -> Range:
    if a[0] >= 0 and a[1] < b[0]:
        return a
    low, high = min(b[0] + 1, 0), max(b[1] - 1, 0)
    return low, min(high, a[1]) if a[0] >= 0 and b[0] >= 0 else high


def _rem(a: Range, b: Range) -> Range:
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _and(a: Range, b: Range) -> Range | None:
    tops = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(tops)) if tops else None


def _or(a: Range, b: Range) -> Range | None:
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if a[0] >= 0 and b[0] >= 0 else None


def _shl(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x << y)(a, b) if 0 <= b[0] and b[1] < 64 else None


def _shr(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x >> min(y, 64))(a, b) if b[0] >= 0 else None


def _abs(a: Range) -> Range:
    return (max(a[0], -a[1], 0), max(-a[0], a[1]))


def _add(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _min(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), min(a[1], b[1])


def _max(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), max(a[1], b[1])


def _mul(a: Range, b: Range) -> Range:
    return (a[0] * b[0], a[1] * b[1]) if a[0] >= 0 and b[0] >= 0 else _PRODUCTS(a, b)


def _decided(true: bool, false: bool) -> Range:
    return (int(true), int(not false))


_PRODUCTS = _corners(lambda x, y: x * y)
_RANGES: dict[str, Callable[..., Range | None]] = {
    "add": _add,
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _mul,
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    "floordiv": _quotient(lambda x, y: x // y),
    "ceildiv": _quotient(lambda x, y: -(-x // y)),
    "tdiv": _quotient(_truncated),
    "mod": _mod,
    "trem": _rem,
    "min": _min,
    "max": _max,
    "clamp": lambda a, low, high: _min(_max(a, low), high),
    "select": lambda _, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _abs,
    "and": _and,
    "or": _or,
    "xor": _or,
    "bitnot": lambda a: (-1 - a[1], -1 - a[0]),
    "not": lambda a: (1 - a[1], 1 - a[0]),
    "shl": _shl,
    "shr": _shr,
    "lt": lambda a, b: _decided(a[1] < b[0], a[0] >= b[1]),
    "le": lambda a, b: _decided(a[1] <= b[0], a[0] > b[1]),
    "gt": lambda a, b: _decided(a[0] > b[1], a[1] <= b[0]),
    "ge": lambda a, b: _decided(a[0] >= b[1], a[1] < b[0]),
    "eq": lambda a, b: _decided(a[0] == a[1] == b[0] == b[1], a[1] < b[0] or b[1] < a[0]),
    "ne": lambda a, b: _decided(a[1] < b[0] or b[1] < a[0], a[0] == a[1] == b[0] == b[1]),
    "cast": lambda a: a,
    "sat": lambda a: a,
    "shfl_xor": lambda a: a,
    "shfl_up": lambda a: a,
    "shfl_idx": lambda a, _: a,
}  # fmt: skip
