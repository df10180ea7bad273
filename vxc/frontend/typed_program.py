"""The typed tree of a `program`: which kernels it launches, with what."""

from __future__ import annotations

from vxc.frontend.node import node
from vxc.frontend.typed import Array, Example, Expr, Symbol, TypedKernel
from vxc.source import Source, Span


@node
class ProgramCall:
    """A launch of `kernel`, checked with the generics of this call. `args` gives for each of its parameters an Array of the program
    or a scalar expression of the parameter's dtype; `dims` what each of `kernel.dims` is, over the program's names.
    """

    kernel: TypedKernel
    args: tuple[Array | Expr, ...]
    dims: tuple[Expr, ...]
    span: Span


@node
class TypedProgram:
    """Kernel calls in order. `lets` name scalars, each over dims, scalar parameters and earlier lets; `locals` (space 'local') are
    arrays in global memory, unwritten at first, with shapes over the same names.
    """

    name: str
    params: tuple[Symbol | Array, ...]
    dims: tuple[Symbol, ...]
    lets: tuple[tuple[Symbol, Expr], ...]
    locals: tuple[Array, ...]
    calls: tuple[ProgramCall, ...]
    source: Source
    span: Span
    example: Example | None = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(p for p in self.params if isinstance(p, Array))
