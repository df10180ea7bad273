"""The typed tree: what `check` makes of a syntax tree and both `lower` and the AST interpreter read.

Names are resolved to symbols, generics are gone, every expression is a scalar of a known dtype, and each widening and
rounding is an explicit `Cast`. Rows are gone too: a row statement is a parallel loop over fresh indices, and a reduction
is a comprehension that binds its own (`Reduce.binders`), so `y[i] = exp(x[i] - m) / z` reads
`parallel j in N { y[i, j] = cast(exp(cast(x[i, j]) - m) / z) }`. A row-valued `let` reappears in every element scope that
uses it, as a `LetIn`.
"""

from __future__ import annotations

from typing import Union

from vxc.dtypes import DType
from vxc.frontend.node import node
from vxc.semantics import Order
from vxc.source import Source, Span


@node
class Symbol:
    """A scalar name. Identity is the object: two `let x` are two symbols. `kind` is 'dim' (bound from array shapes), 'scalar' (a
    parameter), 'let', 'var' (mutable) or 'index' (of a loop or comprehension).
    """

    name: str
    kind: str
    dtype: DType
    span: Span | None = None


@node
class Array:
    """An array name. `shape` holds i64 expressions (Const, Var of a dim, or Op over them).

    `space` is 'param', 'local', 'shared' or 'fragment'; `mode` is in, out or inout for a param. `pitches` gives for each
    dimension the written pitch (`N : ld` allots ld elements to a dimension of N) or None.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    space: str = "param"
    mode: str = ""
    pitches: tuple[Expr | None, ...] = ()
    span: Span | None = None

# Expressions: `dtype` is the type of the value; all are pure, for atomics and prints are statements ----------------------------


@node
class Const:
    value: int | float | bool
    dtype: DType
    span: Span


@node
class Var:
    """The value of a symbol."""

    symbol: Symbol
    span: Span

    @property
    def dtype(self) -> DType:
        return self.symbol.dtype


@node
class Load:
    """One element, of the array's storage dtype; `check` wraps it in a Cast where that dtype computes in another."""

    array: Array
    indices: tuple[Expr, ...]
    span: Span

    @property
    def dtype(self) -> DType:
        return self.array.dtype


@node
class Op:
    """A row of semantics.SCALAR_OPS. Arguments are all of one dtype (but for select's first)."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    span: Span


@node
class Cast:
    """`how` is 'cast', 'sat' or 'reinterpret'."""

    how: str
    arg: Expr
    dtype: DType
    span: Span


@node
class Cond:
    """Value-if, `&&` and `||`: only the chosen arm is evaluated."""

    cond: Expr
    then: Expr
    other: Expr
    dtype: DType
    span: Span


@node
class LetIn:
    """Bind symbols in order, then give the body: inlined `fn` calls and row-valued lets."""

    lets: tuple[tuple[Symbol, Expr], ...]
    body: Expr
    span: Span

    @property
    def dtype(self) -> DType:
        return self.body.dtype


@node
class Reduce:
    """Reduction `op` of semantics.REDUCTIONS over all index tuples of `binders`, (symbol, extent) each, last fastest.

    `args` is one element expression (two for dot) already of the accumulator's operand dtype. The element index that
    `order` counts is the row-major index over the binders. `steps` are those of its slices that are no constants: they are positive.
    """

    op: str
    binders: tuple[tuple[Symbol, Expr], ...]
    args: tuple[Expr, ...]
    order: Order
    dtype: DType
    span: Span
    steps: tuple[Expr, ...] = ()


@node
class Scan:
    """Inclusive prefix `op` along `binder`, the one binder of the row loop (`Loop.scan_order`) that this stands in."""

    op: str
    binder: Symbol
    arg: Expr
    dtype: DType
    span: Span


@node
class ExternCall:
    """A call of an `extern fn`: emitted as the CUDA text; interpreters evaluate `body`, in which `params` are bound to `args`."""

    name: str
    cuda: str
    params: tuple[Symbol, ...]
    args: tuple[Expr, ...]
    body: Expr
    dtype: DType
    span: Span


Expr = Union[Const, Var, Load, Op, Cast, Cond, LetIn, Reduce, Scan, ExternCall]


# Statements ---------------------------------------------------------------------------------------------------------------------


@node
class Let:
    """Bind an immutable symbol, or (kind 'var') declare a mutable one; `value` None leaves a var unwritten."""

    symbol: Symbol
    value: Expr | None
    span: Span


@node
class SetVar:
    symbol: Symbol
    value: Expr
    span: Span


@node
class Store:
    """`value` is of the array's storage dtype."""

    array: Array
    indices: tuple[Expr, ...]
    value: Expr
    span: Span


@node
class Atomic:
    """`op` add, max or min; `result`, where given, is bound to the element's value before (storage dtype)."""

    op: str
    array: Array
    indices: tuple[Expr, ...]
    value: Expr
    result: Symbol | None
    span: Span


@node
class Declare:
    """A local, shared or fragment array; `init` fills every element (storage dtype). `layout` is the text of `@layout`."""

    array: Array
    init: Expr | None
    span: Span
    layout: str | None = None


@node
class Loop:
    """`kind` is parallel, serial, unroll, grid, pipelined or persistent; binders are (symbol, start, stop, step), outermost first.

    `attrs` holds checked attributes: independent and layout (str), lanes, unroll, threads, stages, vector (ints). `row` is True where
    check made the loop from a row statement; `steps` as for Reduce. `scan_order` is set where Scans along its one binder are in the body.
    """

    kind: str
    binders: tuple[tuple[Symbol, Expr, Expr, Expr], ...]
    body: tuple[Stmt, ...]
    attrs: tuple[tuple[str, int | str], ...]
    span: Span
    row: bool = False
    scan_order: Order | None = None
    steps: tuple[Expr, ...] = ()


@node
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...]
    span: Span


@node
class While:
    cond: Expr
    body: tuple[Stmt, ...]
    span: Span


@node
class Break:
    span: Span


@node
class Continue:
    span: Span


@node
class Assert:
    cond: Expr
    message: str
    span: Span


@node
class Print:
    label: str
    args: tuple[Expr, ...]
    span: Span


@node
class Window:
    """A tile of an array, from `starts` (one for each dimension) along the dimensions `axes`, in increasing order, with `extents`
    elements by `steps` (one for each axis). Dimensions that are no axis stay at their start. All are i64.
    """

    array: Array
    starts: tuple[Expr, ...]
    axes: tuple[int, ...]
    extents: tuple[Expr, ...]
    steps: tuple[Expr, ...]
    span: Span


@node
class Copy:
    """Copy between windows of different arrays and equal extents, converting as a store does. Where the source lies outside its
    array, `pad` (of the target's dtype) is stored; what lies outside the target array is not.
    """

    source: Window
    target: Window
    pad: Expr
    span: Span


@node
class Gemm:
    """acc[M, N] += a[M, K] @ b[K, N] over whole tiles; `a` is given as [K, M] where `trans_a`, `b` as [N, K] where `trans_b`."""

    a: Array
    b: Array
    acc: Array
    trans_a: bool
    trans_b: bool
    span: Span


Stmt = Union[Let, SetVar, Store, Atomic, Declare, Loop, If, While, Break, Continue, Assert, Print, Copy, Gemm]


# Kernels ------------------------------------------------------------------------------------------------------------------------


@node
class Example:
    """One `example` line: parameter name -> generator ('rand', 'randint' or 'value'), dtype, bounds and sizes."""

    arrays: tuple[tuple[str, str, DType, tuple[int, ...], tuple[int, ...]], ...]  # name, generator, dtype, shape, (lo, hi)
    scalars: tuple[tuple[str, int | float | bool], ...]
    span: Span


@node
class TypedKernel:
    """A kernel with its generics substituted. `params` are Symbols (scalars) and Arrays in written order; `dims` the symbolic dimensions.

    `attrs` holds the kernel attribute `fp`: 'exact' | 'contract' | 'fast'. `example` gives sample inputs.
    """

    name: str
    params: tuple[Symbol | Array, ...]
    dims: tuple[Symbol, ...]
    body: tuple[Stmt, ...]
    attrs: tuple[tuple[str, int | str], ...]
    source: Source
    span: Span
    example: Example | None = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(p for p in self.params if isinstance(p, Array))
