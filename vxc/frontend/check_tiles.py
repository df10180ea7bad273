"""Typing the tile operations `copy` and `gemm`: which elements they reach, and that the tiles fit together."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import count
from vxc.dtypes import BF16, BOOL, F16, F32, F64, F8E4M3, F8E5M2, I8, I32, U8, DType
from vxc.frontend import dims, syntax, typed
from vxc.frontend.check_args import arity, named
from vxc.frontend.check_assign import writable
from vxc.frontend.check_attrs import no_attributes
from vxc.frontend.rows import Pick
from vxc.frontend.scope import At, State, fail, in_block, in_grid, label
from vxc.frontend.subscripts import picks, place
from vxc.frontend.typed import Array, Const, Expr, Load, Window
from vxc.frontend.values import Value, assign, widened
from vxc.record import entity

Steps = Generator[tuple[Any, At], Any, Any]

ACCUMULATORS = {F16: F32, BF16: F32, F8E4M3: F32, F8E5M2: F32, F32: F32, F64: F64, I8: I32, U8: I32}  # by the type of the factors


def _begin(node: syntax.CallStmt, at: At, number: int, sample: str) -> None:
    no_attributes(node, at)
    name = node.call.func.name
    arity(at, node.call, number, f"write `{sample}`")
    if not in_grid(at):
        hint = "assign rows: `y[i] = x[i];`, or put it in a `grid`" if name == "copy" else "put it in a `grid`"
        fail(at, "E0232", f"`{name}` stands outside a `grid`", node, help=hint)
    if not in_block(at):
        fail(at, "E0232", f"`{name}` stands in `parallel`", node, help="a block moves tiles as a whole: write it outside the loop")


# copy ----------------------------------------------------------------------------------------------------------------------------


@entity
class _Tile:
    """An operand of `copy`. One with all indices given `is_start` of a tile as large as the other operand."""

    array: Array
    picks: list[Pick]
    node: syntax.Expr

    @property
    def is_start(self) -> bool:
        return isinstance(self.node, syntax.Subscript) and all(pick.extent is None for pick in self.picks)

    @property
    def extents(self) -> tuple[Expr, ...]:
        return tuple(pick.extent for pick in self.picks if pick.extent is not None)


def _copy(st: State, node: syntax.CallStmt, at: At) -> Steps:
    _begin(node, at, 2, "copy(source, target)")
    given = named(at, node.call, ("pad",)).get("pad")
    tiles = []
    for arg in node.call.args:
        tiles.append(_Tile(*(yield from picks(st, place(at, arg, "copy"), at, tile=True)), arg))
    source, target = tiles
    writable(at, target.array, target.node)
    if source.array is target.array:
        fail(at, "E0232", f"`copy` from `{source.array.name}` to itself", node, help="copy through another tile")
    extents = _extents(st, at, node, tiles)
    windows = [_window(tile, extents, at) for tile in tiles]
    _converts(at, source, target)
    value = Value(node.span, literal=0) if given is None else (yield given, at)
    if given is None and target.array.dtype is BOOL:
        value = Value(node.span, Const(False, BOOL, at.place(node.span)))
    pad = assign(at, value, target.array.dtype, "the pad", store=True)
    st.read(source.array)
    st.wrote(target.array)
    at.out.append(typed.Copy(*windows, pad, node.span))


def _converts(at: At, source: _Tile, target: _Tile) -> None:
    """Each element converts as in a store: narrowing floats only."""
    index = (dims.const(0, source.node.span),) * len(source.array.shape)
    element = widened(Load(source.array, index, source.node.span), source.node.span)
    assign(at, Value(source.node.span, element), target.array.dtype, f"an element of `{target.array.name}`", store=True)


def _extents(st: State, at: At, node: syntax.CallStmt, tiles: list[_Tile]) -> tuple[Expr, ...]:
    """The extents that both tiles have."""
    known = [tile for tile in tiles if not tile.is_start]
    declared = tuple(label(at, t.array.span, f"`{t.array.name}` is declared here") for t in tiles if t.array.span)
    if not known:
        hint = "give one a window: `x[i :+ 16, j :+ 64]`"
        fail(at, "E0213", "both operands of `copy` are places without an extent", node, secondary=declared, help=hint)
    extents = known[0].extents
    if len(known) == 1:
        rank = min(len(tile.picks) for tile in tiles if tile.is_start)
        if rank < len(extents):
            hint = f"start it in an array of at least {len(extents)} dimensions"
            fail(at, "E0213", f"a tile of rank {len(extents)} at a place of rank {rank}", node, secondary=declared, help=hint)
        return extents
    shapes = [[dims.linear(extent, st.forms) for extent in tile.extents] for tile in tiles]
    if shapes[0] != shapes[1]:
        shown = [" x ".join(map(dims.show, shape)) for shape in shapes]
        hint = "give both the same extents"
        fail(at, "E0213", f"`copy` between tiles of {shown[0]} and {count(shown[1], 'element')}", node, secondary=declared, help=hint)
    return extents


def _window(tile: _Tile, extents: tuple[Expr, ...], at: At) -> Window:
    """A start runs along its array's last dimensions."""
    rank = len(tile.picks)
    axes = range(rank - len(extents), rank) if tile.is_start else (k for k, pick in enumerate(tile.picks) if pick.extent is not None)
    axes = tuple(axes)
    return Window(
        tile.array,
        tuple(pick.start for pick in tile.picks),
        axes,
        extents if tile.is_start else tile.extents,
        tuple(tile.picks[k].step for k in axes),
        at.place(tile.node.span),
    )


# gemm ----------------------------------------------------------------------------------------------------------------------------


def _gemm(st: State, node: syntax.CallStmt, at: At) -> Steps:
    _begin(node, at, 3, "gemm(a, b, acc)")
    a, b, acc = (_whole(at, arg) for arg in node.call.args)
    flags = {"trans_a": False, "trans_b": False}
    for name, arg in named(at, node.call, tuple(flags)).items():
        flag = (yield arg, at).flag
        if flag is None:
            fail(at, "E0204", f"`{name}` is a bool known when compiling", arg, help=f"write `{name} = true`")
        flags[name] = flag
    sizes = [tuple(size.value for size in array.shape) for array in (a, b, acc)]
    declared = tuple(
        label(at, array.span, f"`{array.name}` is {' x '.join(map(str, size))} of `{array.dtype}`")
        for array, size in zip((a, b, acc), sizes)
    )
    shapes = f"a{['[M, K]', '[K, M]'][flags['trans_a']]}, b{['[K, N]', '[N, K]'][flags['trans_b']]}, acc[M, N]"
    (m, k), (k2, n) = sizes[0][:: -1 if flags["trans_a"] else 1], sizes[1][:: -1 if flags["trans_b"] else 1]
    if k != k2 or sizes[2] != (m, n):
        fail(at, "E0213", "the tiles of `gemm` do not fit together", node, secondary=declared, help=f"`gemm` takes {shapes}")
    if acc in (a, b):
        fail(at, "E0212", f"`gemm` accumulates into its own factor `{acc.name}`", node.call.args[2], help="use another tile")
    if a.dtype is not b.dtype or ACCUMULATORS.get(a.dtype) is not acc.dtype:
        fail(at, "E0203", f"`gemm` of `{a.dtype}` and `{b.dtype}` into `{acc.dtype}`", node, secondary=declared, help=_accumulator(a.dtype))
    st.wrote(acc)
    at.out.append(typed.Gemm(a, b, acc, **flags, span=node.span))


def _whole(at: At, arg: syntax.Expr) -> Array:
    array = at.scope.find(arg.name) if isinstance(arg, syntax.Name) else None
    if not isinstance(array, Array) or array.space not in ("shared", "fragment"):
        fail(at, "E0212", "`gemm` takes whole tiles", arg, help="name `shared` or `fragment` arrays")
    if len(array.shape) != 2:
        fail(at, "E0212", f"`gemm` takes tiles of two dimensions, and `{array.name}` has {len(array.shape)}", arg, help="copy it to one")
    return array


def _accumulator(factor: DType) -> str:
    if factor not in ACCUMULATORS:
        return f"factors are of {', '.join(f'`{dtype}`' for dtype in ACCUMULATORS)}"
    return f"both factors have one type; `{factor}` accumulates in `{ACCUMULATORS[factor]}`"


TILES = {"copy": _copy, "gemm": _gemm}
