"""The AST interpreter: what a typed kernel or program computes, evaluated on whole NumPy arrays, with no compiler in between.

Each parallel loop and each comprehension opens an array axis, each branch a mask (`ast_scope`). Results equal the
definition in `vxc.semantics` to the bit; reductions follow the order that their node carries. A program runs its kernels
one after the other, on arrays that they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vxc.binding import Binding, Described, Number, describe
from vxc.diag import Diagnostic, Label, VxcError
from vxc.dtypes import F64, I8, DType
from vxc.frontend.typed import Array
from vxc.frontend.typed_program import ProgramCall, TypedProgram
from vxc.interp.ast_binding import bind_code, strides_of
from vxc.interp.ast_expr import EXPRESSIONS
from vxc.interp.ast_machine import Code, Machine
from vxc.interp.ast_memory import Storage
from vxc.interp.ast_scope import Scope
from vxc.interp.ast_steps import check_required
from vxc.interp.ast_stmt import STATEMENTS
from vxc.interp.fresh import Outputs
from vxc.semantics import cast

_HANDLERS = {**EXPRESSIONS, **STATEMENTS}


def run_ast(
    code: Code,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, object],
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    debug: bool = True,
    trap_div: bool = False,
    max_steps: int | None = None,
) -> Outputs:
    """Run a kernel or a program; gives every `out` and `inout` array, new ones: what is passed stays as it is.

    An `out` array may be missing: then it is allocated, its size taken from the other arrays or from `dims`, and holds NaN
    or 0x5A bytes where nothing is written. `seed` is there so that all executors are called alike: no order is left
    open here. `debug` checks `@independent` loops and looks for what was never written, and for reads of it; `trap_div` refuses
    integer division by 0; `max_steps` bounds the iterations of serial loops, all told. Assertions and indices are checked always.
    Raises VxcError: E0704..E0708 and E0714 for the call (see `vxc.binding.bind`), E0720..E0724, E0731, E0734 and E0735 for faults
    on the way.
    """
    machine = Machine(code, _HANDLERS, debug, trap_div, None if max_steps is None else iter(range(max_steps)))
    with np.errstate(all="ignore"):
        binding = bind_shapes(code, {name: describe(array) for name, array in arrays.items()}, scalars, dims)
        _bind_scalars(machine, {**binding.dims, **binding.scalars})
        for array in code.arrays:
            data = arrays.get(array.name)
            if array.mode == "in":
                machine.memory[array] = Storage(data, constant=True)
                continue
            data = poison(binding.shapes[array.name], array.dtype) if data is None else np.array(data, order="C")
            written = np.zeros(data.shape, np.bool_) if debug and array.mode == "out" else None
            machine.memory[array] = Storage(data, written=written)
        if isinstance(code, TypedProgram):
            _run_program(machine, code, {array: _described(machine, array, arrays.get(array.name)) for array in code.arrays})
        else:
            check_required(machine, code)
            machine.run(code.body, Scope())
    results = {array.name: machine.memory[array] for array in code.arrays if array.mode != "in"}
    written = {name: found.written for name, found in results.items() if found.written is not None}
    return Outputs({name: found.data for name, found in results.items()}, written)


def _described(machine: Machine, array: Array, given: np.ndarray | None) -> Described:
    """An argument of a program as its kernels see it: what is declared contiguous is so, however it was given; with written pitches it
    has the strides of what is given, else the declared ones.
    """
    if given is not None and any(array.pitches[1:]):
        return describe(given)
    strides = tuple(prod(int(machine.run(e, Scope())) for e in factors) for factors in strides_of(array))
    return describe(machine.memory[array].data)._replace(strides=strides)


def _run_program(machine: Machine, program: TypedProgram, described: dict[Array, Described]) -> None:
    for symbol, value in program.lets:
        machine.values[symbol] = machine.run(value, Scope())
    for array in program.locals:
        shape = tuple(int(machine.run(size, Scope())) for size in array.shape)
        if min(shape, default=0) < 0:
            text = f"`{array.name}` would have the shape {list(shape)}"
            raise VxcError(Diagnostic("E0705", text, program.source, array.span, help="a size is 0 or more"))
        written = np.zeros(shape, np.bool_) if machine.debug else None
        machine.memory[array] = Storage(poison(shape, array.dtype), written=written)
        described[array] = describe(machine.memory[array].data)
    for call in program.calls:
        _run_call(machine, call, described)


def _run_call(outer: Machine, call: ProgramCall, described: Mapping[Array, Described]) -> None:
    """Run a kernel on the program's memory. Raises VxcError E0705 where shapes or strides do not fit it."""
    kernel, arrays, scalars = call.kernel, {}, {}
    own = frozenset(param for param, arg in zip(kernel.params, call.args) if isinstance(arg, Array) and arg.space == "local")
    machine = Machine(kernel, _HANDLERS, outer.debug, outer.trap_div, outer.turns, workspaces=own)
    for param, arg in zip(kernel.params, call.args, strict=True):
        if isinstance(arg, Array):
            machine.memory[param], arrays[param.name] = outer.memory[arg], described[arg]
        else:
            scalars[param.name] = outer.run(arg, Scope()).item()
    dims = {dim.name: int(outer.run(size, Scope())) for dim, size in zip(kernel.dims, call.dims, strict=True)}
    try:
        binding = bind_shapes(kernel, arrays, scalars, dims, every_stride=True)
    except VxcError as error:  # the plan of a program requires of sizes and strides alike
        here = Label(outer.code.source, call.span, f"in this call of `{kernel.name}`")
        codes = (("E0705" if d.code == "E0706" else d.code) for d in error.diagnostics)
        raise VxcError([replace(d, code=code, secondary=(here,)) for d, code in zip(error.diagnostics, codes)]) from None
    _bind_scalars(machine, {**binding.dims, **binding.scalars})
    check_required(machine, kernel)
    machine.run(kernel.body, Scope())


def bind_shapes(
    code: Code,
    arrays: Mapping[str, Described],
    scalars: Mapping[str, object],
    dims: Mapping[str, int] | None = None,
    every_stride: bool = False,
) -> Binding:
    """Check a call and give the shape of every array parameter, of missing `out` arrays too."""

    def evaluate(known: Mapping[str, Number], expr) -> int:
        machine = Machine(code, _HANDLERS, False, False)
        _bind_scalars(machine, known)
        return int(machine.run(expr, Scope()))

    return bind_code(code, arrays, scalars, dims, evaluate, every_stride)


def poison(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """A new array of what stands in memory that nobody has written: NaN, or bytes of 0x5A."""
    if dtype.is_float:
        return np.full(shape, np.nan, dtype.numpy)
    pattern = np.full(dtype.bytes, 0x5A, np.uint8)
    value = cast(pattern.view(np.int8), I8, dtype)[0] if dtype.bytes == 1 else pattern.view(dtype.numpy)[0]
    return np.full(shape, value, dtype.numpy)


def _bind_scalars(machine: Machine, known: Mapping[str, Number]) -> None:
    for symbol in (*machine.code.dims, *machine.code.params):
        value = known.get(symbol.name)
        if value is not None:
            is_float = isinstance(value, float)
            machine.values[symbol] = cast(value, F64, symbol.dtype) if is_float else np.asarray(value, symbol.dtype.numpy)
