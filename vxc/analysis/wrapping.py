"""Sums that may have wrapped: their digits need not be those of what was added, nor consecutive where that is.

Ranges say what cannot wrap, and take positions in arrays to go further than any do: those are counted from the sizes of arrays and from
indices of loops that begin at a position, by sums and products. A product of sizes of one array wraps nowhere, nor do 2**20 such, nor what
is within 2**40 of them; but n * n * n of an array of n = 2**21 elements is -2**63.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from vxc.dtypes import I64, U64
from vxc.ir.facts import full, ranges
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value

NEAR = 1 << 40
_NUMBER, _FACTOR = 60, 20  # bits of a number alone, and of one that products of sizes are taken times, which wrap nowhere yet
_SUMS = frozenset("add sub neg mul fma shl".split())
# No further from 0 than their operands are, or those together, but for what is in front of a comma.
_BOUNDED = frozenset("add sub neg abs min max clamp select floordiv ceildiv tdiv and or xor shr cast sat shfl_xor shfl_up shfl_idx".split())

_Size = dict[tuple[str, ...], int]  # of products of sizes, by their names in order, the bits of what they are taken times: a sum of all


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
    return {name for p in arrays for name in _names((*p.shape, *(p.strides or ())))}


def _names(operands: Iterable[Operand]) -> list[str]:
    return [x.name for x in operands if isinstance(x, Value)]


class _Walk:
    """In program order. `sizes` are what positions and sizes are no further from 0 than; of cells, `held` are those that may hold what has
    wrapped, `stored` what positions that are stored come to, and `writes` how many writes are still to come, or are of no position.
    """

    def __init__(self, kernel: Kernel, near: Iterable[str]) -> None:
        self.known = ranges(kernel, dict.fromkeys(near, (-NEAR, NEAR)))
        self.shapes = [Counter(_names(p.shape)) for p in kernel.params if isinstance(p, Buffer)]
        self.sizes: dict[str, _Size] = {name: {(name,): 0} for name in sizes_of(kernel)}
        self.stored: dict[str, _Size] = {}
        found, held = set[str](), set[str]()
        self.writes = Counter(cell for inst in kernel.insts if inst.op != "load" for cell in _cells(inst))
        for inst in kernel.insts:
            result = inst.result
            if inst.op == "store" and _cells(inst):
                self._store(inst, held, found)
            elif isinstance(result, Value) and result.name in self.known:
                size = self._counted(inst)
                if size is not None and result.dtype is not U64 and all(map(self._fits, size.items())):
                    self.sizes[result.name] = size
                elif result.dtype is I64 and self.known[result.name] == full(I64) and inst.op in _SUMS or held & {*_cells(inst)}:
                    found.add(result.name)
        self.found = frozenset(found)

    def _store(self, inst: Inst, held: set[str], found: set[str]) -> None:
        size, (cell,) = self._size(inst.operands[-1]), _cells(inst)
        if size is not None:
            self.writes[cell] -= 1
            self.stored[cell] = _joined(self.stored.get(cell, {}), size)
        elif getattr(inst.operands[-1], "name", "") in found:
            held.add(cell)

    def _fits(self, product: tuple[tuple[str, ...], int]) -> bool:
        """Whether a product of sizes is of one, or of those of one array, not many times over."""
        sizes, bits = product
        return bits <= (_FACTOR if sizes else _NUMBER) and (len(sizes) <= 1 or any(Counter(sizes) <= shape for shape in self.shapes))

    def _counted(self, inst: Inst) -> _Size | None:
        """What a position or size is no further from 0 than; None for others."""
        sizes = [self._size(x) for x in inst.operands if x.dtype.is_int]
        match inst.op:
            case "reduce" | "scan":
                return sizes[-1] if sizes[-1] is not None else {(inst.result.name,): 0}
            case "block_index" | "thread_index":
                return {(): 31}
            case "loop":
                return self._index(inst.result.name, *sizes)
            case "load":
                return next((self.stored.get(cell, {}) for cell in _cells(inst) if self.writes[cell] == 0), None)
            case "mod" | "trem":
                return sizes[1]
        if None in sizes or not sizes:
            return None
        match inst.op:
            case "mul":
                return _product(*sizes)
            case "fma":
                return _joined(_product(*sizes[:2]), sizes[2])
            case "shl":
                by = inst.operands[1]
                return _product(sizes[0], {(): by.value}) if isinstance(by, Const) and by.value >= 0 else None
        return _joined(*sizes) if inst.op in _BOUNDED else None

    def _index(self, name: str, start: _Size | None, stop: _Size | None, *step: _Size | None) -> _Size | None:
        """Of a loop that counts from a position: to another, or in small steps, in which it comes no further than a size is."""
        small = all(size is not None and {*size} == {()} and size[()] <= _FACTOR for size in step)
        if start is None or stop is None and not small:
            return None
        return _joined(start, {(name,): 0} if stop is None else stop)

    def _size(self, x: Operand) -> _Size | None:
        if x.dtype.is_float:
            return None
        low, high = (int(x.value),) * 2 if isinstance(x, Const) else self.known.get(x.name, full(I64))
        near = -NEAR <= low and high <= NEAR
        return {(): max(abs(low), abs(high)).bit_length()} if near else self.sizes.get(getattr(x, "name", ""))


def _joined(*sizes: _Size) -> _Size:
    return {product: max(size.get(product, 0) for size in sizes) for size in sizes for product in size}


def _product(a: _Size, b: _Size) -> _Size:
    products = [{tuple(sorted((*m, *n))): p + q} for m, p in a.items() for n, q in b.items()]
    return _joined(*products)


def _cells(inst: Inst) -> list[str]:
    return [x.name for x in inst.operands if isinstance(x, Buffer) and x.space == "cell"]
