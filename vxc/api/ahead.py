"""Compiling before there are arrays: what a user says of their shapes, and what he is given."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vxc import driver as compiler
from vxc.api.arguments import matched, parameters
from vxc.api.errors import translated
from vxc.binding import row_major
from vxc.cuda.nvrtc import Resources
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DTYPES, DType, from_numpy
from vxc.explain.make import explain
from vxc.explain.text import text as explained
from vxc.frontend import syntax
from vxc.inputs import complete
from vxc.ir.printer import print_plan
from vxc.runtime.arrays import ArrayView
from vxc.target import Target


class ShapeDtype(NamedTuple):
    """An array that is not there yet: its shape and dtype ("f32", or a NumPy or torch dtype)."""

    shape: tuple[int, ...]
    dtype: Any


def views_of(item: syntax.Kernel, text: str, shapes: Sequence[Any], named: Mapping[str, Any]) -> dict[str, ArrayView]:
    """The arrays that a user describes, by parameter; none at all where nothing is described. Raises `VxcError` E0704, E0705,
    E0708, E0709."""
    if not shapes and not named:
        return {}
    declared = {p.name: p.type for p in item.params}
    arrays = [p for p in parameters(item, text) if p.array]
    found: dict[str, ArrayView] = {}
    for name, given in matched(item.name, arrays, [*map(_Ahead, shapes)], {name: _Ahead(x) for name, x in named.items()}).items():
        rank = len(declared[name].dims)
        if len(given.shape) != rank:
            message = f"`{name}` is described with {len(given.shape)} dimensions, and is declared with {rank}"
            raise VxcError(Diagnostic("E0705", message, help=f"give a shape of {rank} sizes"))
        dtype = given.dtype or DTYPES.get(declared[name].name)
        if dtype is None:
            message = f"`{name}` is of the generic dtype {declared[name].name}, and its shape alone is given"
            raise VxcError(Diagnostic("E0704", message, help=f'pass vxc.ShapeDtype({given.shape}, "f32")'))
        found[name] = ArrayView(0, given.shape, row_major(given.shape), dtype, dtype.bytes, False, "cuda")
    return found


class _Ahead:
    """What `compile` is told of an array; it counts as one where arguments are matched to parameters."""

    __dlpack__ = None

    def __init__(self, given: Any) -> None:
        sized = hasattr(given, "shape")
        shape = given.shape if sized else given
        try:
            self.shape = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
        except TypeError:
            message = f"{shape!r} is no shape"
            raise VxcError(Diagnostic("E0709", message, help="give sizes that are ints, as in (64, 1000)")) from None
        if min(self.shape, default=0) < 0:
            raise VxcError(Diagnostic("E0705", f"a shape has a size of {min(self.shape)}", help="sizes are 0 or more"))
        self.dtype = _dtype(given.dtype) if sized else None


def _dtype(given: Any) -> DType:
    """The dtype that a name, a NumPy dtype or a torch dtype stands for. Raises `VxcError` E0704."""
    name = str(getattr(given, "name", given)).removeprefix("torch.")
    found = DTYPES.get(name) or from_numpy(name)
    if found is None:
        raise VxcError(Diagnostic("E0704", f"`{name}` is no dtype of kernels", help=f"they are {', '.join(DTYPES)}"))
    return found


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled for one target and one choice of what is constant. Texts and machine code are made when first asked for."""

    made: compiler.Compiled

    @property
    def target(self) -> Target:
        return self.made.target

    @property
    def cuda(self) -> str:
        """The CUDA C++ text. Raises `CompileError`."""
        with translated():
            return self.made.cuda

    @property
    def ptx(self) -> str:
        """The PTX text. Raises `CompileError`."""
        with translated():
            return self.made.ptx

    @property
    def cubin(self) -> bytes:
        """The machine code. Raises `CompileError`."""
        with translated():
            return self.made.binary.cubin

    @property
    def resources(self) -> dict[str, Resources]:
        """By kernel, what it uses: registers a thread, spilled and shared bytes. Raises `CompileError`."""
        with translated():
            return self.made.binary.kernels

    def ir(self, after: str | None = None) -> str:
        """The IR after lowering, or after a pass, or at the end (`"final"`). Raises KeyError for a pass that did not run."""
        if after is None or after == "final":
            return print_plan(self.made.tile if after is None else self.made.plan)
        try:
            plan = self.made.after(after)
        except KeyError:
            ran = self.made.plan.kernels[0].done if self.made.plan.kernels else ()
            raise KeyError(f"no pass `{after}` ran; give None, 'final' or one of {', '.join(ran)}") from None
        return print_plan(plan)

    def explain(self) -> str:
        """What `vxc explain` says: every decision, line by line, and what it costs at the sizes of the `example` line."""
        with translated():
            typed = self.made.typed
            call = complete(typed) if typed is not None and typed.example else None
            return explained(explain(self.made, call), self.made.source, self.made.target.name)
