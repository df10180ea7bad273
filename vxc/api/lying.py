"""Where the arrays of a call lie: of which all rows begin at multiples of a vector, as `vxc.ir.alignment` has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import Any

from vxc.api.signatures import Parameter, Signature
from vxc.binding import row_major
from vxc.dtypes import DTYPES, DType
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.target import VECTOR


@record
class Lying:
    """Decides for the calls of a kernel whose constants and generics are `known`, and of whose arrays some are `strided` otherwise than
    declared. It says yes only where the plan's own dimensions and strides say so, too.
    """

    signature: Signature
    known: Mapping[str, Any]
    strided: Collection[str]

    def aligned(self, views: Mapping[str, ArrayView], sizes: Mapping[str, int]) -> dict[str, bool]:
        """Of each array of which it can be known, outputs that the call is to allocate included; nothing where no arrays are described."""
        if not views:
            return {}
        params = {p.name: p for p in self.signature.params if p.array}
        every = {name: views.get(name) or self._new(param, sizes) for name, param in params.items()}
        return {name: self._lies(params[name], view) for name, view in every.items() if view and view.dtype and view.dtype.bits >= 8}

    def _new(self, param: Parameter, sizes: Mapping[str, int]) -> ArrayView | None:
        """An output as it will be allocated; None where a size between rows, or its dtype, is not known."""
        named = {**sizes, **{name: n for name, n in self.known.items() if type(n) is int}}
        dtype = DTYPES.get(param.dtype) or self.known.get(param.dtype)
        rows = tuple(zip(param.dims, param.names))[1:]
        if not isinstance(dtype, DType) or any(name not in named for name, computed_of in rows if computed_of):
            return None
        shape = (0, *(named[name] if name else 1 for name, _ in rows))  # 1 divides whatever a number is
        return ArrayView(0, shape, row_major(shape), dtype, dtype.bytes, False, "cuda")

    @property
    def _constant(self) -> set[str]:
        return {*self.known, *(name for name, _ in self.signature.generics)}

    def _lies(self, param: Parameter, view: ArrayView) -> bool:
        places = (view.span[0], *(step * view.itemsize for step in self._steps(param, view)))
        return all(place % VECTOR == 0 for place in places)

    def _steps(self, param: Parameter, view: ArrayView) -> Iterator[int]:
        """The strides between rows that are parameters of the plan, in elements."""
        if param.name not in self.strided and not param.pitched:
            open_ = [d for d, names in enumerate(param.names) if d and not self._constant.issuperset(names)]
            yield from (prod(view.shape[d:]) for d in open_[-1:])
            return
        for extent, stride in zip(view.shape, view.strides):
            if extent <= 1 or abs(stride) != 1:
                yield stride if extent > 1 else 1  # which stride a single row is said to have is the binding's choice

