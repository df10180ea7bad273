"""The parameters of a kernel at both ends of its launch: in the kernel, and as what the plan passes.

    kernel f(x: f32[M, N // 2], n: i32, ...)

takes M, N and a fresh `x_dim1`, of which the plan requires that `x_dim1 == N // 2`. Called with arrays of a program, it also
takes a fresh dimension, and the plan requires equality, wherever an argument's extent is not by its name the one it must be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vxc.dtypes import I64
from vxc.frontend.lower_state import Lowering
from vxc.frontend.typed import Array, Const, Expr, Symbol, TypedKernel, Var
from vxc.frontend.typed_program import TypedProgram
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Operand, Scalar, Value
from vxc.ir.kernel import Const as IrConst


class Signature:
    """`params` are dimensions, fresh dimensions and the written parameters of `code`; `arguments` what the plan passes for them.

    `host` lowers the plan's entries: those that derive and check dimensions are appended to it. `given` maps all dimensions
    and parameters to what a call passes. Without it the arguments are the plan's own parameters `bound`. These are `params`
    but for the first: pitches that no stride shows alone (`f32[B, M : lm, N]` has the stride lm * N), which `host` derives.
    """

    def __init__(self, code: TypedKernel | TypedProgram, host: Lowering, given: Mapping[Symbol | Array, Operand] | None = None) -> None:
        self.host, self.given = host, given or {}
        self._called = code.name if given else ""
        self._name = Builder(p.name for p in (*code.dims, *code.params)).fresh if given else host.out.fresh
        self._fresh: dict[Value, Operand] = {}
        self._checks: list[tuple[Scalar, str, Sequence[Expr], str]] = []  # extent, comparison, factors, message
        self.values: dict[Symbol, Operand] = {s: Value(s.name, s.dtype) for s in (*code.dims, *code.params) if isinstance(s, Symbol)}
        host.values.update({symbol: self.given.get(symbol, value) for symbol, value in self.values.items()})
        self.buffers: dict[Array, Buffer] = {array: self._buffer(array) for array in code.arrays}
        shown = {v for b in self.buffers.values() for v in (*b.shape, *(b.strides or ()))}
        hidden = [dim for dim in code.dims if self.values[dim] not in shown]
        if not given:
            host.values.update({dim: self._derive(dim) for dim in hidden})
        dims = [*hidden, *(dim for dim in code.dims if dim not in hidden)]
        written = {p: self.values[p] if isinstance(p, Symbol) else self.buffers[p] for p in code.params}
        self.params = (*(self.values[dim] for dim in dims), *self._fresh, *written.values())
        self.bound = self.params[len(hidden) :]
        passed = (self.given.get(p, mine) for p, mine in written.items())
        self.arguments = (*(host.values[dim] for dim in dims), *self._fresh.values(), *passed)
        for extent, comparison, factors, what in self._checks:
            host.out.emit("require", host.out.emit(comparison, extent, self._product(factors)), what=what)

    def _derive(self, dim: Symbol) -> Scalar:
        """A dimension from the first stride that is a multiple of it; of rows without elements, what it is the pitch of."""
        out = self.host.out
        for stride, comparison, factors, _ in self._checks:
            others = [f for f in factors if not (isinstance(f, Var) and f.symbol is dim)]
            if comparison == "eq" and len(others) == len(factors) - 1:
                inner = self._product(others)
                extent = next(e for e, c, f, _ in self._checks if c == "le" and isinstance(f[0], Var) and f[0].symbol is dim)
                return out.emit("select", out.emit("eq", inner, 0), extent, out.emit("floordiv", stride, inner), name=dim.name)
        raise AssertionError(f"check let the unbound dimension {dim.name} pass")

    def _buffer(self, array: Array) -> Buffer:
        given = self.given.get(array)
        extents = given.shape if given else (None,) * len(array.shape)
        shape = tuple(
            self._bound([e], real, "dim", array, d)
            for d, (e, real) in enumerate(zip(array.shape, extents))
        )
        buffer = Buffer(array.name, array.dtype, shape, "param", array.mode)
        if given and given.space == "workspace":
            buffer = replace(buffer, space="workspace", mode="")
        return replace(buffer, strides=self._strides(array, shape, given))

    def _strides(self, array: Array, shape: tuple[Scalar, ...], given: Buffer | None) -> tuple[Scalar, ...] | None:
        """Strides by the written pitches: each is the product of the pitches of the dimensions inside it."""
        written = array.pitches or (None,) * len(shape)
        if given and given.strides is None:
            self._checks += [
                (real, "eq", [pitch], f"the pitch of dimension {d} of `{array.name}` is {self._text([pitch])}{self._where(array)}")
                for d, (pitch, real) in enumerate(zip(written, given.shape))
                if d and pitch and self.host.run(pitch) != real
            ]
            return None
        if not given and not any(written[1:]):
            return None
        pitches = [pitch or extent for pitch, extent in zip(written, array.shape)]
        strides: list[Scalar] = []
        for d in range(len(shape)):
            real = given.strides[d] if given else None
            strides.append(self._bound(pitches[d + 1 :], real, "stride", array, d))
            if d and written[d]:
                what = f"dimension {d} of `{array.name}` fits its pitch {self._text([pitches[d]])}{self._where(array)}"
                self._checks.append((given.shape[d] if given else shape[d], "le", [pitches[d]], what))
        return tuple(strides)

    def _bound(self, factors: Sequence[Expr], given: Scalar | None, kind: str, array: Array, d: int) -> Scalar:
        """The Value or Const that stands in a shape (`kind` dim) or in strides; for anything else a fresh dimension and a check."""
        if not factors:
            return IrConst(1)
        if len(factors) == 1 and (isinstance(factors[0], Const) or isinstance(factors[0], Var) and factors[0].symbol.kind == "dim"):
            extent = self.host.run(factors[0])
            if given is None or given == extent:
                return extent if isinstance(factors[0], Const) else self.values[factors[0].symbol]
        fresh = given if isinstance(given, IrConst) else Value(self._name(f"{array.name}_{kind}{d}"), I64)
        if isinstance(fresh, Value):
            self._fresh[fresh] = given or fresh
        what = f"{'dimension' if kind == 'dim' else kind} {d} of `{array.name}` is {self._text(factors)}{self._where(array)}"
        self._checks.append((given or fresh, "eq", factors, what))
        return fresh

    def _where(self, array: Array) -> str:
        """For messages: the call, and what is passed in it."""
        if not self._called:
            return ""
        passed = self.given[array]
        local = "the `local` array " if passed.space == "workspace" else ""
        other = f", which passes {local}`{passed.name}`" if local or passed.name != array.name else ""
        return f" in the call of `{self._called}`{other}"

    def _product(self, factors: Sequence[Expr]) -> Scalar:
        product = self.host.run(factors[0])
        for factor in factors[1:]:
            product = self.host.out.emit("mul", product, self.host.run(factor))
        return product

    def _text(self, factors: Sequence[Expr]) -> str:
        return " * ".join(self.host.source.slice(factor.span) for factor in factors)
