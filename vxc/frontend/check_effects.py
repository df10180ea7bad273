"""Typing calls that are statements: atomics, `assert`, `print`, and the tile operations `copy` and `gemm`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.dtypes import F16, F32, F64, I32, I64, U32, U64, DType
from vxc.frontend import dims, syntax, typed
from vxc.frontend.check_assign import row_loop, writable
from vxc.frontend.check_attrs import attributes
from vxc.frontend.check_calls import ATOMICS, BUILTINS, arity
from vxc.frontend.check_expr import require_bool
from vxc.frontend.rows import Pick, Row, extents_of, fit, indices
from vxc.frontend.scope import At, State, fail, label, suggestion
from vxc.frontend.subscripts import picks
from vxc.frontend.typed import Array, Window
from vxc.frontend.values import assign, settle

Steps = Generator[tuple[Any, At], Any, Any]

_ATOMIC_TYPES = (I32, I64, U32, U64, F32, F64)


def _call_stmt(st: State, node: syntax.CallStmt, at: At) -> Any:
    name = node.call.func.name
    if name in ATOMICS:
        return _atomic(st, node, at)
    if name in _EFFECTS:
        return _EFFECTS[name](st, node, at)
    if name in BUILTINS or name in st.functions:
        fail(at, "E0113", f"the value of `{name}` is not used", node, help="bind it with `let`, or assign it")
    hint = suggestion(name, [*ATOMICS, *_EFFECTS, *st.functions], "kernels are called in a `program`")
    fail(at, "E0207", f"there is no statement `{name}(..)`", node.call.func, help=hint)


def _begin(st: State, node: syntax.CallStmt, at: At, named: tuple[str, ...] = ()) -> Steps:
    """No attributes; no argument names but those given."""
    yield from attributes(st, node.attrs, "call", at)
    for arg in node.call.named:
        if arg.name not in named:
            hint = suggestion(arg.name, named, "give it by position, or remove it")
            fail(at, "E0209", f"`{node.call.func.name}` takes no argument named `{arg.name}`", arg.name_span, help=hint)


def _atomic(st: State, node: syntax.CallStmt, at: At) -> Generator[Any, Any, DType]:
    """The dtype of the element, for a `let` that binds its value before."""
    yield from _begin(st, node, at)
    call = node.call
    arity(at, call, 2, f"write `{call.func.name}(y[i], value)`")
    target = _place(at, call.args[0], call.func.name)
    row = Row("statement")
    array, selected = yield from picks(st, target, at.but(row=row))
    writable(at, array, target)
    if array.dtype not in _ATOMIC_TYPES:
        types = ", ".join(map(str, _ATOMIC_TYPES))
        fail(at, "E0203", f"`{call.func.name}` on elements of type `{array.dtype}`", target, help=f"atomics take {types}")
    is_row = bool(extents_of(selected))
    if is_row:
        fit(st, at, row, array, extents_of(selected), target.span)
    index = indices(at, row, selected, target.span)
    value = yield call.args[1], at.but(row=row if is_row else None)
    expr = row.wrap(assign(at, value, array.dtype, f"an element of `{array.name}`", store=True), node.span)
    st.read(array)
    st.wrote(array)
    atomic = typed.Atomic(call.func.name.removeprefix("atomic_"), array, index, expr, None, node.span)
    at.out.append(row_loop(row, (atomic,), node.span) if is_row else atomic)
    return array.dtype


def _place(at: At, node: syntax.Expr, name: str) -> syntax.Name | syntax.Subscript:
    if not isinstance(node, (syntax.Name, syntax.Subscript)):
        fail(at, "E0212", f"`{name}` needs a place in an array", node, help="write an array with its indices, such as `y[i]`")
    return node


def _assert(st: State, node: syntax.CallStmt, at: At) -> Steps:
    yield from _begin(st, node, at)
    args = node.call.args
    if len(args) not in (1, 2) or (len(args) == 2 and not isinstance(args[1], syntax.String)):
        fail(at, "E0208", "`assert` takes a condition and a message", node, help='write `assert(x > 0.0, "x is positive")`')
    cond = yield args[0], at
    require_bool(at, cond, "the condition of `assert`")
    message = args[1].value if len(args) == 2 else at.source.slice(args[0].span)
    at.out.append(typed.Assert(cond.expr, message, node.span))


def _print(st: State, node: syntax.CallStmt, at: At) -> Steps:
    yield from _begin(st, node, at)
    args = node.call.args
    named = bool(args) and isinstance(args[0], syntax.String)
    values = []
    for arg in args[named:]:
        values.append(settle(at, (yield arg, at)).expr)
    at.out.append(typed.Print(args[0].value if named else "", tuple(values), node.span))


# Tiles ---------------------------------------------------------------------------------------------------------------------------


def _copy(st: State, node: syntax.CallStmt, at: At) -> Steps:
    yield from _begin(st, node, at, ("pad",))
    arity(at, node.call, 2, "write `copy(source, target)`")
    if not {"grid", "persistent"} & set(at.loops):
        fail(at, "E0232", "`copy` stands outside a `grid`", node, help="assign rows: `y[i] = x[i];`, or put it in a `grid`")
    tiles = []
    for arg in node.call.args:
        place = _place(at, arg, "copy")
        array, selected = yield from picks(st, place, at.but(loops=(*at.loops, "copy")))
        tiles.append((array, selected, place))
    (source, source_picks, source_node), (target, target_picks, target_node) = tiles
    writable(at, target, target_node)
    _same_extents(st, at, node, tiles)
    pad = None
    for arg in node.call.named:
        pad = assign(at, (yield arg.value, at), source.dtype, "the pad", store=True)
    if source.dtype.is_float != target.dtype.is_float and source.dtype is not target.dtype:
        message = f"`copy` from `{source.dtype}` to `{target.dtype}`"
        fail(at, "E0204", message, node, help="copy between floats or between integers; convert in a `parallel` loop")
    st.read(source)
    st.wrote(target)
    windows = [_window(*tile) for tile in tiles]
    at.out.append(typed.Copy(*windows, pad, node.span))


def _is_start(array: Array, selected: list[Pick], node: syntax.Expr) -> bool:
    """Every index given and no window: where a tile starts, whose extents are the other operand's."""
    return isinstance(node, syntax.Subscript) and all(pick.extent is None for pick in selected)


def _window(array: Array, selected: list[Pick], node: syntax.Expr) -> Window:
    start = _is_start(array, selected, node)
    one = dims.const(1, node.span)
    extents = tuple(None if start else pick.extent or one for pick in selected)
    return Window(array, tuple(p.start for p in selected), extents, tuple(p.step for p in selected), node.span)


def _same_extents(st: State, at: At, node: syntax.CallStmt, tiles: list[Any]) -> None:
    shapes = []
    for array, selected, place in tiles:
        start = _is_start(array, selected, place)
        shapes.append(None if start else [dims.linear(p.extent, st.forms) for p in selected if p.extent is not None])
    a, b = shapes
    declared = tuple(label(at, t[0].span, f"`{t[0].name}` is declared here") for t in tiles if t[0].span)
    if a is None and b is None:
        hint = "give one a window: `x[i :+ 16, j :+ 64]`"
        fail(at, "E0213", "both operands of `copy` are places without an extent", node, secondary=declared, help=hint)
    if a is None or b is None:
        rank, known = len(tiles[0 if a is None else 1][1]), a if b is None else b
        if rank != len(known):
            hint = "give as many indices as dimensions"
            fail(at, "E0213", f"a tile of rank {len(known)} at a place of rank {rank}", node, secondary=declared, help=hint)
        return
    if a != b:
        shown = [" x ".join(map(dims.show, shape)) for shape in shapes]
        hint = "give both the same extents"
        fail(at, "E0213", f"`copy` between tiles of {shown[0]} and {shown[1]} elements", node, secondary=declared, help=hint)


def _gemm(st: State, node: syntax.CallStmt, at: At) -> Steps:
    yield from _begin(st, node, at)
    arity(at, node.call, 3, "write `gemm(a, b, acc)`")
    arrays = []
    for arg in node.call.args:
        array = at.scope.find(arg.name) if isinstance(arg, syntax.Name) else None
        if not isinstance(array, Array) or array.space == "param":
            fail(at, "E0212", "`gemm` takes whole tiles", arg, help="name `shared` or `fragment` arrays")
        arrays.append(array)
    a, b, acc = arrays
    if any(len(array.shape) != 2 for array in arrays):
        fail(at, "E0212", "`gemm` takes tiles of two dimensions", node, help="`gemm(a[M, K], b[K, N], acc[M, N])`")
    (m, k), (k2, n), (m2, n2) = ([size.value for size in array.shape] for array in arrays)
    declared = tuple(label(at, array.span, f"`{array.name}` is {' x '.join(str(s.value) for s in array.shape)}") for array in arrays)
    if (m, n, k) != (m2, n2, k2):
        fail(at, "E0213", "the tiles of `gemm` do not fit together", node, secondary=declared, help="`gemm(a[M, K], b[K, N], acc[M, N])`")
    if acc.space != "fragment":
        hint = "declare it `fragment`"
        fail(at, "E0212", f"`gemm` accumulates into a `fragment`, and `{acc.name}` is `{acc.space}`", node.call.args[2], help=hint)
    if a.dtype is not b.dtype or (a.dtype.is_float and acc.dtype not in (F32, F64, F16)) or (a.dtype.is_int and acc.dtype is not I32):
        message = f"`gemm` of `{a.dtype}` and `{b.dtype}` into `{acc.dtype}`"
        fail(at, "E0203", message, node, secondary=declared, help="both factors have one type; floats accumulate in `f32`, ints in `i32`")
    st.wrote(acc)
    at.out.append(typed.Gemm(a, b, acc, node.span))
    yield from ()


_EFFECTS = {"assert": _assert, "print": _print, "copy": _copy, "gemm": _gemm}
EFFECTS = {syntax.CallStmt: _call_stmt}
