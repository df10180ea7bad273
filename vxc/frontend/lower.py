"""From the typed tree to the flat IR: a plan of one kernel at stage=tile and one launch.

    kernel f(x: f32[M, N // 2], n: i32, ...) { BODY }

becomes a plan whose signature binds M, N and a fresh `x_dim1` from the arrays, requires `x_dim1 == N // 2`, and launches
one kernel with the same parameters. The grid is 1: mapping to blocks comes later. Statements and expressions are lowered by
the handlers of `lower_stmt` and `lower_expr`.
"""

from __future__ import annotations

from collections.abc import Sequence

from vxc.dtypes import I64
from vxc.frontend.lower_expr import EXPRESSIONS
from vxc.frontend.lower_state import Lowering
from vxc.frontend.lower_stmt import STATEMENTS
from vxc.frontend.typed import Array, Const, Expr, Symbol, TypedKernel, Var
from vxc.ir.kernel import Buffer, Inst, Operand, Scalar, Value
from vxc.ir.kernel import Const as IrConst
from vxc.ir.plan import Plan
from vxc.ir.walk import names

HANDLERS = EXPRESSIONS | STATEMENTS


def lower(kernel: TypedKernel) -> Plan:
    """The plan of a kernel. Raises VxcError (E0401) at a tile construct."""
    signature = _Signature(kernel)
    body = Lowering(kernel.source, HANDLERS, names(signature.kernel_params))
    body.values.update(signature.values)
    body.buffers.update(signature.buffers)
    for statement in kernel.body:
        body.run(statement)
    flat = body.out.build(kernel.name, signature.kernel_params, attrs=kernel.attrs)
    launch = Inst("launch", (IrConst(1), *signature.arguments), None, (("kernel", kernel.name),), kernel.source.position(kernel.span.start))
    return Plan(kernel.name, signature.params, (*signature.host.out.insts, launch), (flat,))


class _Signature:
    """The plan's parameters and the kernel's, and in `host` the entries that derive and check dimensions.

    `params` are dimensions, then fresh dimensions, then the written parameters. The kernel has the same ones, and in the
    first place those pitches that no stride shows alone (`f32[B, M : lm, N]` has the stride lm * N), which `host` derives.
    """

    def __init__(self, kernel: TypedKernel) -> None:
        self.host = Lowering(kernel.source, EXPRESSIONS, [p.name for p in (*kernel.dims, *kernel.params)])
        self.buffers: dict[Array, Buffer] = {}
        self.values: dict[Symbol, Operand] = {s: Value(s.name, s.dtype) for s in (*kernel.dims, *kernel.params) if isinstance(s, Symbol)}
        self.host.values.update(self.values)
        self._fresh: list[Value] = []
        self._checks: list[tuple[Scalar, str, Sequence[Expr], str]] = []  # dimension, comparison, factors, message
        for array in kernel.arrays:
            self.buffers[array] = self._buffer(array)
        bound = {v for b in self.buffers.values() for v in (*b.shape, *(b.strides or ()))}
        hidden = [dim for dim in kernel.dims if self.values[dim] not in bound]
        dims = [self.values[dim] for dim in kernel.dims if dim not in hidden]
        written = [self.values[p] if isinstance(p, Symbol) else self.buffers[p] for p in kernel.params]
        self.params = (*dims, *self._fresh, *written)
        self.kernel_params = (*(self.values[dim] for dim in hidden), *self.params)
        for dim in hidden:
            self.host.values[dim] = self._derive(dim)
        self.arguments = (*(self.host.values[dim] for dim in hidden), *self.params)
        for dimension, comparison, factors, what in self._checks:
            holds = self.host.out.emit(comparison, dimension, self._product(factors))
            self.host.out.emit("require", holds, what=what)

    def _derive(self, dim: Symbol) -> Scalar:
        """A dimension from the first stride that is a multiple of it."""
        for stride, comparison, factors, _ in self._checks:
            others = [f for f in factors if not (isinstance(f, Var) and f.symbol is dim)]
            if comparison == "eq" and len(others) == len(factors) - 1:
                return self.host.out.emit("floordiv", stride, self._product(others), name=dim.name)
        raise AssertionError(f"check let the unbound dimension {dim.name} pass")

    def _buffer(self, array: Array) -> Buffer:
        shape = tuple(self._bound([e], f"{array.name}_dim{d}", f"dimension {d} of `{array.name}`") for d, e in enumerate(array.shape))
        return Buffer(array.name, array.dtype, shape, "param", array.mode, self._strides(array, shape))

    def _strides(self, array: Array, shape: tuple[Scalar, ...]) -> tuple[Scalar, ...] | None:
        """Strides by the written pitches: each is the product of the pitches of the dimensions inside it."""
        if not any(array.pitches[1:]):
            return None
        pitches = [pitch or extent for pitch, extent in zip(array.pitches, array.shape)]
        strides: list[Scalar] = []
        for d in range(len(shape)):
            strides.append(self._bound(pitches[d + 1 :], f"{array.name}_stride{d}", f"stride {d} of `{array.name}`"))
            if d and array.pitches[d]:
                what = f"dimension {d} of `{array.name}` fits its pitch {self._text([pitches[d]])}"
                self._checks.append((shape[d], "le", [pitches[d]], what))
        return tuple(strides)

    def _bound(self, factors: Sequence[Expr], name: str, what: str) -> Scalar:
        """The Value or Const that stands in a shape or in strides; for anything else a fresh dimension and a check."""
        if not factors:
            return IrConst(1)
        if len(factors) == 1 and (isinstance(factors[0], Const) or isinstance(factors[0], Var) and factors[0].symbol.kind == "dim"):
            return self.host.run(factors[0])
        fresh = Value(self.host.out.fresh(name), I64)
        self._fresh.append(fresh)
        self._checks.append((fresh, "eq", factors, f"{what} is {self._text(factors)}"))
        return fresh

    def _product(self, factors: Sequence[Expr]) -> Scalar:
        product = self.host.run(factors[0])
        for factor in factors[1:]:
            product = self.host.out.emit("mul", product, self.host.run(factor))
        return product

    def _text(self, factors: Sequence[Expr]) -> str:
        return " * ".join(self.host.source.slice(factor.span) for factor in factors)
