"""The AST interpreter: what a typed kernel computes, evaluated on whole NumPy arrays, with no compiler in between.

Each parallel loop and each comprehension opens an array axis, each branch a mask (`ast_scope`). Results equal the
definition in `vxc.semantics` to the bit; reductions follow the order that their node carries.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vxc.binding import Binding, Described, Number, describe
from vxc.dtypes import F64, I8, DType
from vxc.frontend.typed import Atomic, Load, TypedKernel
from vxc.interp.ast_binding import bind_kernel
from vxc.interp.ast_expr import EXPRESSIONS
from vxc.interp.ast_machine import Machine, walk
from vxc.interp.ast_memory import Storage
from vxc.interp.ast_scope import Scope
from vxc.interp.ast_stmt import STATEMENTS
from vxc.semantics import cast

_HANDLERS = {**EXPRESSIONS, **STATEMENTS}


def run_ast(
    kernel: TypedKernel,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, object],
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    debug: bool = True,
    trap_div: bool = False,
) -> dict[str, np.ndarray]:
    """Run a kernel; gives every `out` and `inout` array, new ones: what is passed stays as it is.

    An `out` array may be missing: then it is allocated, its size taken from the other arrays or from `dims`, and holds NaN
    or 0x5A bytes where nothing is written. `seed` is there so that all executors are called alike: no order is left
    open here. `debug` checks `@independent` loops and looks for reads of what was never written; `trap_div` refuses
    integer division by 0.
    Raises VxcError: E0704..E0708 and E0714 for the call (see `vxc.binding.bind`), E0720..E0724 and E0731 for faults on the way.
    """
    machine = Machine(kernel, _HANDLERS, debug, trap_div)
    with np.errstate(all="ignore"):
        binding = bind_shapes(kernel, {name: describe(array) for name, array in arrays.items()}, scalars, dims)
        _bind_scalars(machine, {**binding.dims, **binding.scalars})
        loaded = {node.array for node in walk(kernel.body) if isinstance(node, (Load, Atomic))}
        for array in kernel.arrays:
            data = arrays.get(array.name)
            if array.mode == "in":
                machine.memory[array] = Storage(data, constant=True)
                continue
            data = poison(binding.shapes[array.name], array.dtype) if data is None else np.array(data, order="C")
            watched = debug and array.mode == "out" and array in loaded
            written = np.zeros(data.shape, np.bool_) if watched else None
            machine.memory[array] = Storage(data, written=written)
        machine.run(kernel.body, Scope())
    return {array.name: machine.memory[array].data for array in kernel.arrays if array.mode != "in"}


def bind_shapes(
    kernel: TypedKernel, arrays: Mapping[str, Described], scalars: Mapping[str, object], dims: Mapping[str, int] | None = None
) -> Binding:
    """Check a call of `kernel` and give the shape of every array parameter, of missing `out` arrays too."""

    def evaluate(known: Mapping[str, Number], expr) -> int:
        machine = Machine(kernel, _HANDLERS, False, False)
        _bind_scalars(machine, known)
        return int(machine.run(expr, Scope()))

    return bind_kernel(kernel, arrays, scalars, dims, evaluate)


def poison(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """A new array of what stands in memory that nobody has written: NaN, or bytes of 0x5A."""
    if dtype.is_float:
        return np.full(shape, np.nan, dtype.numpy)
    pattern = np.full(dtype.bytes, 0x5A, np.uint8)
    value = cast(pattern.view(np.int8), I8, dtype)[0] if dtype.bytes == 1 else pattern.view(dtype.numpy)[0]
    return np.full(shape, value, dtype.numpy)


def _bind_scalars(machine: Machine, known: Mapping[str, Number]) -> None:
    for symbol in (*machine.kernel.dims, *machine.kernel.params):
        value = known.get(symbol.name)
        if value is not None:
            is_float = isinstance(value, float)
            machine.values[symbol] = cast(value, F64, symbol.dtype) if is_float else np.asarray(value, symbol.dtype.numpy)
